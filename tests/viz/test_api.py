"""The endpoints' functions, called with what no page would send."""

from __future__ import annotations

import re

import gradio as gr
import pytest

from model.errors import AtlasError, CheckpointCorruptError, InvalidSettingError
from model.pool import ModelPool
from model.reasons import REASONS
from tests.viz.fakes import ARABIC, FakeTranslator, shelf
from viz import page
from viz.panels import api
from viz.runs import RunCache
from viz.text import LANGUAGES


@pytest.mark.parametrize("head", ["²", "٣", "9" * 5000, "-1", "1.0", "", "median", None, 1.5, 99, [1], pytest.param(10**5000, id="huge")])
def test_a_head_that_there_is_not(head) -> None:
    with pytest.raises(InvalidSettingError):
        api.attention(RunCache(FakeTranslator()), "I love you.", head=head)


@pytest.mark.parametrize("head", ["99", 99, "median", None])
def test_who_asks_for_a_head_that_there_is_not_is_told_all_that_is_possible(head) -> None:
    with pytest.raises(InvalidSettingError) as error:
        api.attention(RunCache(FakeTranslator()), "I love you.", head=head)
    allowed = error.value.params["allowed"]
    assert re.fullmatch("mean, max, rollout, norm or a whole number from 0 to [1-9]", allowed)
    assert allowed.key in REASONS and LANGUAGES["zh"][f"reason.{allowed.key}"].count("{") == len(allowed.params) == 3


@pytest.mark.parametrize("name", ["rows", "units", "specials"])
@pytest.mark.parametrize("value", ["both", "", None, 1, ["words"]])
def test_a_look_that_there_is_not(name, value) -> None:
    with pytest.raises(InvalidSettingError, match=name):
        api.attention(RunCache(FakeTranslator()), "I love you.", **{name: value})


@pytest.mark.parametrize("beam_size", [pytest.param(10**5000, id="huge"), -1, 2.5, "4", None, True])
def test_a_beam_that_there_is_not(beam_size) -> None:
    with pytest.raises(InvalidSettingError):
        api.translate(RunCache(FakeTranslator()), "I love you.", beam_size=beam_size)


def test_without_a_target_it_is_the_language_of_the_model() -> None:
    runs = RunCache(FakeTranslator(), pool=ModelPool(shelf, 10_000))
    runs.pool.get(ARABIC)
    assert api.translate(runs, "I love you.")["target"] == "fra"
    assert api.translate(runs, "I love you.", model=ARABIC)["target"] == runs.pool.find(ARABIC).targets[0] != "fra"


@pytest.mark.parametrize("model", [5, None, ["embedded"], pytest.param("x" * 5000, id="long"), "Helsinki-NLP/opus-mt-en-gone"])
def test_a_model_that_there_is_not(model) -> None:
    runs = RunCache(FakeTranslator(), pool=ModelPool(shelf, 10_000))
    for target in ("", "fra"):
        with pytest.raises(AtlasError):
            api.translate(runs, "I love you.", target, model=model)


def test_a_damaged_model_that_is_not_the_embedded_one_is_no_reason_to_restore_that() -> None:
    def damaged(name, revision, progress, max_bytes):
        raise CheckpointCorruptError("config.json", "it ends early")

    runs = RunCache(FakeTranslator(), pool=ModelPool(damaged, 10_000))
    with pytest.raises(gr.Error) as error:
        api._told(api.load_and_wait, runs, ARABIC)
    assert "config.json" in str(error.value) and "it ends early" in str(error.value)
    assert "model/weights" not in str(error.value)


@pytest.mark.parametrize("value", ["abc", "0", "65536", "99999", "-5", "1e3", "²", "9" * 5000, ""])
def test_a_port_that_is_none(value, monkeypatch) -> None:
    monkeypatch.setenv("PORT", value)
    with pytest.raises(SystemExit, match="PORT"):
        page.port()


def test_the_port(monkeypatch) -> None:
    monkeypatch.delenv("PORT", raising=False)
    assert page.port() == 7860
    monkeypatch.setenv("PORT", "8080")
    assert page.port() == 8080
