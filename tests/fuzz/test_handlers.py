"""Every handler of the page with what no page would send: it answers, with a message where it must, and never in an unforeseen way."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model.errors import AtlasError, InvalidSettingError
from model.pool import ModelPool
from model.tokenizer import Tokenizer
from model.translator import Translator
from tests.fuzz.asked import anything_sent, results, stores
from tests.fuzz.budget import in_time, share
from tests.fuzz.strategies import bad_index, junk, texts
from tests.tiny import random_model, tiny_config, train_tokenizer
from tests.viz.fakes import shelf
from viz.panels import (
    api,
    lab_values,
    machine,
    machine_lab,
    models,
    position_clocks,
    position_facts,
    position_schemes,
    position_sentence,
    position_table,
    steps_answers,
    translate,
)
from viz.panels import share as save
from viz.panels.choice import AGGREGATES
from viz.runs import Request, RunCache

HANDLERS: dict[str, Callable[..., Any]] = {
    "maps": translate.more_maps,
    "steps": steps_answers.steps,
    "cell": steps_answers.cell,
    "machine": machine.answer,
    "positions": position_table.draw,
    "wavelengths": position_facts.draw_wavelengths,
    "distance": position_facts.draw_distance,
    "clocks": position_clocks.draw_clocks,
    "schemes": position_schemes.draw_schemes,
    "join": position_schemes.draw_join,
    "lengths": position_sentence.draw_lengths,
    "places": position_sentence.draw_places,
    "head": position_sentence.draw_head,
    "order": position_sentence.draw_order,
    "masks": lambda runs, shown, store: machine_lab.answer("masks", lambda: lab_values.masks(runs, shown, store), store),
    "norms": lambda runs, shown, store: machine_lab.answer("norms", lambda: lab_values.norms(runs, store), store),
    "scale": lambda runs, shown, store: machine_lab.answer("scale", lambda: lab_values.scale(runs, shown, store), store),
    "counts": lambda runs, shown, store: machine_lab.answer("counts", lambda: lab_values.counts(runs, shown, store), store),
}
SLOW = ("order", "norms", "scale")  # get fewer tries
sent = st.one_of(*[st.tuples(results, stores)] * 4, st.tuples(anything_sent, anything_sent))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> RunCache:
    tokenizer = Tokenizer(train_tokenizer(Path(tmp_path_factory.mktemp("tiny")) / "tokenizer.model"))
    translator = Translator(random_model(tiny_config(tokenizer.vocab_size), eos_bias=3.0), tokenizer, name="tiny")
    return RunCache(translator, pool=ModelPool(shelf, 10_000))


def check_answer(answer: Any) -> None:
    """What goes to the page: JSON, and no complaint that nobody foresaw (viz.panels.notice)."""
    text = json.dumps(answer, default=lambda value: "skip", allow_nan=False)
    assert '"code": "unexpected"' not in text, text[:500]


@pytest.mark.parametrize("name", HANDLERS)
def test_whatever_a_page_sends(runs: RunCache, name: str, caplog: pytest.LogCaptureFixture) -> None:
    @share(0.005 if name in SLOW else 0.015)
    @given(sent)
    def run(what: tuple[Any, Any]) -> None:
        with in_time():
            check_answer(HANDLERS[name](runs, *what))

    run()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@share(0.04)
@given(texts | anything_sent, texts | anything_sent, stores | anything_sent)
def test_whatever_is_typed(runs: RunCache, text: object, own: object, store: object) -> None:
    with in_time():
        check_answer(translate.answer(runs, text, own, store))


def test_whatever_is_to_be_saved(runs: RunCache, tmp_path: Path) -> None:
    @share(0.02)
    @given(sent)
    def run(what: tuple[Any, Any]) -> None:
        with in_time():
            answer = save.export(runs, *what, tmp_path)
            check_answer(answer)
            if "file" in answer:  # nothing that was sent is part of a path
                path = Path(answer["file"]["path"])
                assert path.parent.parent == tmp_path and path.name.startswith("attention-atlas")
                path.unlink()

    run()


def not_there(value: object) -> bool:
    """No index below 2 as a page sends it: JavaScript's 1.0 is one, nothing at all means the last, and some heads have names."""
    return value is not None and value not in AGGREGATES and not (isinstance(value, float) and value in (0, 1))


def test_no_index_that_is_not_there(runs: RunCache, tmp_path: Path) -> None:
    request = {"text": "I am a student.", "target": "fra", "beam_size": 1}
    shown = {"request": request}
    runs.get(Request.from_page(request))

    @share(0.03)
    @given(st.sampled_from(("layer", "head")), bad_index(2).filter(not_there))
    @example("layer", -1)
    @example("head", True)
    def run(name: str, bad: object) -> None:
        store = {"kind": "cross", "layer": 0, "head": 0, "exporting": {"form": "csv_map"}, name: bad}
        assert save.export(runs, shown, store, tmp_path)["problem"]["code"] == "invalid_setting"
        if name == "layer":
            message, *_ = translate.more_maps(runs, shown, {"wanted_layer": {"kind": "cross", "layer": bad}})
            assert message["code"] == "invalid_setting"
        if not isinstance(bad, str):  # programs write "1" for a head
            with pytest.raises(InvalidSettingError):
                api.attention(runs, **request, **{"layer": 0, "head": 0, name: bad})

    run()


@share(0.03)
@given(stores | anything_sent | st.builds(lambda name: {"wanted": {"name": name}}, texts | junk))
@example({"wanted": {"name": 10**5000}})
def test_whatever_model_is_wanted(runs: RunCache, store: object) -> None:
    with in_time():
        check_answer(models.load(runs, store))


@share(0.04)
@given(st.tuples(texts | junk, st.sampled_from(("fra", "")) | junk, st.sampled_from((1, 2)) | junk, st.just("cross") | junk, junk, junk,
                 st.sampled_from(("", None)) | texts | junk, st.just("embedded") | junk, st.just("read") | junk, st.just("words") | junk,
                 st.just("hidden") | junk))
def test_whatever_a_program_asks(runs: RunCache, arguments: tuple) -> None:
    with in_time():
        for ask in (lambda: api.attention(runs, *arguments), lambda: api.load_and_wait(runs, arguments[7])):
            try:
                json.dumps(ask(), allow_nan=False)
            except AtlasError as error:
                assert len(str(error)) < 1000
