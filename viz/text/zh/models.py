"""Translate: the box of models."""

TEXT = {
    "model.label": "模型",
    "model.embedded": "内置",
    "model.choose": "选择模型",
    "model.intro": "赫尔辛基大学的 OPUS-MT 模型也正是这种 Transformer，用多得多的文本训练，多数只翻译一对语言。第一次使用时，服务器要下载约 300 MB。你的句子会保留。",
    "model.here": "服务器上已有",
    "model.from_english": "从英语译成",
    "model.into_english": "译成英语，原文是",
    "model.others": "其他语言对",
    "model.pair": "{source}→{target}",
    "model.id": "或者输入任意 OPUS-MT 模型的编号",
    "model.load": "加载",
    "model.waiting": "{name} 在排队……",
    "model.downloading": "正在下载 {name}：{done} / {total} MB",
    "model.reading": "正在读取 {name} 的权重……",
    # after the reason why the model of the page could not be fetched back
    "model.back": "本页已换回内置模型，句子还在。",
    "model.revision": "版本 {revision}",
    "model.sizes": "{layers} 层，{heads} 个头，宽度 {d_model}",
    "model.warning.tie_conflict": "文件里本应相同的矩阵并不相同，没有采用：{detail}",
    "model.warning.not_applied": "这里没有采用的解码规则：{detail}",
    "model.warning.own_positions": "文件里的位置表与正弦余弦的位置表最多相差 {detail}，所以这里关于波的说法对它不成立",
}
