"""Simplified Chinese. Glossary: attention 注意力, head 注意力头, encoder 编码器, decoder 解码器, cross-attention 交叉注意力,
causal mask 因果掩码, positional encoding 位置编码, token 词元, layer 层."""

from viz.text.zh import (
    errors,
    heads,
    machine,
    machine_lab,
    maps,
    models,
    page,
    position_facts,
    position_sentence,
    positions,
    reasons,
    share,
    steps,
    steps_questions,
    tour,
    translate,
    words,
)

_TABLES = (
    page, translate, models, maps, words, heads, share, steps, steps_questions,
    positions, position_facts, position_sentence, machine, machine_lab, tour, errors, reasons,
)

TEXT = {key: text for table in _TABLES for key, text in table.TEXT.items()}
