"""Translate: the words and their ribbons, and the card of a translated word."""

TEXT = {
    "words.label": "词语",
    "words.keys": "上行：被看的词",
    "words.queries.encoder_self": "下行：在看的词",
    "words.queries.predicted": "下行：正在写的词",
    "words.queries.read": "下行：刚读到的词",
    # names of words for screen readers
    "words.query": "{word}，第 {row} 行：看得最多的是 {partner}，{value}",
    "words.query.alone": "{word}，第 {row} 行：它看的都被隐藏了",
    "words.key": "{word}，第 {column} 列：最多地被 {partner} 看，{value}",
    "words.key.alone": "{word}，第 {column} 列：没有词能看它",
    # what the picture says, in words
    "words.said.rest": "带子越宽，权重越大。指向一个词，就能看到它自己的带子。",
    "words.said.query": "{word} 看得最多的是 {partners}。",
    "words.said.key": "{word} 最多地被这些词看：{partners}。",
    "words.said.nobody": "几乎没有词看 {word}。",
    "words.said.cell": "{query} 看 {key}：{value}。",
    "words.said.masked": "{query} 不能看 {key}：因果掩码遮住了后面的词。",
    "words.and": "、",
    "words.left_out": "小于 {least} 的带子没有画出：占权重的 {share}。",
    "words.left_out.most": "只画出了 {all} 条带子中最强的 {count} 条；其余占权重的 {share}。",
    "words.pinned": "已固定：再点一次或按 Esc 松开。",
    "words.decimals": "四位小数",
    # the card of a translated word
    "card.label": "{word}：概率 {value}",
    "card.product": "{value}，各片段概率之积",
    "card.written": "已写出",
    "card.rank": "在模型自己的选择中排第 {rank}。",
}
