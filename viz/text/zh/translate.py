"""Translate: the sentence and its translation."""

TEXT = {
    # Translate: the sentence
    "sentence.label": "英文句子",
    "sentence.hint": "英文 · 输入任意一句话",
    "sentence.placeholder": "输入一句英文……",
    # for a model that reads another language than English
    "sentence.label.other": "{language}句子",
    "sentence.hint.other": "{language} · 输入任意一句话",
    "sentence.placeholder.other": "输入一句{language}……",
    "sentence.unknown": "模型的语言",
    "examples.label": "或者试试",
    "target.label": "翻译成",
    "target.into": "译成",
    "target.fra": "法语",
    "target.cmn": "中文",
    "target.deu": "德语",
    "target.spa": "西班牙语",
    "beam.label": "束宽",
    "beam.help": "解码时同时保留多少个未完成的译文。1 就是贪心解码：每一步都取概率最大的词元。",
    # Translate: the translation
    "result.label": "译文",
    "result.empty": "停下输入，译文就会出现在这里。",
    "result.probability": "{token}：概率 {value}",
    "result.end": "⟨结束⟩",
    "result.unfinished": "达到长度上限，译文被截断",
    "result.case_changed": "原文的大写按小写读入",
    "result.case_changed.help": "这个模型训练时几乎没见过全大写的文字，所以交给它的是小写。人名和缩写也因此变成小写。",
    "status.live": "实时",
    "status.live.help": "刚刚由这台服务器上的模型算出。",
    "status.recorded": "录制",
    "status.recorded.help": "这个模型的一次真实运行，随页面一起保存。输入任意内容就会变成实时结果。",
    "status.given": "给定",
    "status.given.help": "译文是给定的，不是解码出来的：模型只说明它认为每个词元有多大可能。",
    "status.log_prob": "对数概率 {value}",
    "status.seconds": "{value} 秒",
    "status.belongs": "属于“{text}”",
    # Translate: a translation of one's own
    "given.summary": "换成你自己的译文",
    "given.help": "写下任意译文。模型会逐个词元读过去，告诉你它认为每个词元有多大可能、读的时候在看哪里。",
    "given.label": "你的译文",
    # an example in the target language
    "given.placeholder.fra": "Je suis étudiante.",
    "given.placeholder.cmn": "我是一名学生。",
    "given.show": "看它的注意力",
    "given.back": "回到模型的译文",
}
