"""Machine."""

TEXT = {
    "machine.question": "它是怎样搭成的？",
    "machine.lead": "已加载的整个编码器–解码器：这句话在每处的形状，以及每一部分的参数量。",
}
