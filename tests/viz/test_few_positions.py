"""The shortest model there can be: a token and the end of the sentence fit into two positions, into one fits nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import UnsupportedModelError
from model.loading import load_translator
from tests.model.marian.factories import make_marian_folder
from viz.panels import (
    machine,
    position_clocks,
    position_facts,
    position_schemes,
    position_sentence,
    position_table,
    steps_answers,
    translate,
)
from viz.panels.models import model_info
from viz.runs import RunCache


def test_a_model_that_no_sentence_fits_into_is_refused(tmp_path: Path) -> None:
    folder = make_marian_folder(tmp_path, max_position_embeddings=1)
    with pytest.raises(UnsupportedModelError, match="it has a single position") as caught:
        load_translator(folder)
    assert caught.value.params["detail"].key == "one_position"


def test_everything_works_with_two_positions(tmp_path: Path) -> None:
    translator = load_translator(make_marian_folder(tmp_path, max_position_embeddings=2))
    runs, about = RunCache(translator), model_info(translator)["positions"]
    store = {"lang": "en", "target": translator.targets[0], "model": "embedded", "kind": "cross", "layer": 0, "head": 0}
    store |= {"positions": {name: about[name] for name in ("length", "pairs")}, "steps": {"row": 0, "without": ""}}
    message, result, _ = translate.answer(runs, "a", "", store)
    assert message is None and result["request"]["text"] == "a"
    panels = (position_table, position_facts, position_clocks, position_schemes, position_sentence)
    drawn = {name: getattr(panel, name) for panel in panels for name in vars(panel) if name.startswith("draw")}
    assert len(drawn) == 10
    others = {"machine": machine.answer, "steps": steps_answers.steps}
    messages = {name: draw(runs, result, store)[0] for name, draw in (drawn | others).items()}
    assert messages.pop("draw_order")["code"] == "too_few_to_order"
    assert set(messages.values()) == {None}, messages
