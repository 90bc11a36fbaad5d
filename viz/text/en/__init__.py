"""English. Keys are the same in every language (a test holds it), one table per screen."""

from viz.text.en import (
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
