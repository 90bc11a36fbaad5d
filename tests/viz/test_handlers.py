"""Handlers of both tabs and the API functions, called without a browser."""

from __future__ import annotations

import json

import gradio as gr
import numpy as np
import pytest

from model.errors import CheckpointCorruptError, InvalidSettingError, UnknownTargetError
from tests.viz.fakes import DECODER, ENCODER, FakeTranslator, recorded_run
from viz.panels import api, positions, translate
from viz.panels.positions import PositionChoice, dimensions, offered_pairs
from viz.runs import Request, RunCache

STORE = {"lang": "en", "target": "fra", "beam_size": 4, "kind": "cross", "layer": 1, "head": "mean", "rows": "predicted"}
SKIP = gr.skip()


@pytest.fixture
def runs() -> RunCache:
    translator = FakeTranslator()
    return RunCache(translator, recorded_run(translator))


def drawn(view: str, language: str = "en") -> dict:
    return json.loads(view)["views"][language]["figure"]


def test_a_page_that_has_not_chosen_gets_the_head_that_aligns_best(runs: RunCache) -> None:
    runs.translator.best_heads = {"predicted": (0, 2)}
    store = STORE | {"layer": None}
    _, result, view = translate.translate(runs, "I love you.", store)
    assert result["best_heads"] == {"predicted": [0, 2]}
    for drawing in (view, translate.draw(runs, result, store)[2]):
        about = json.loads(drawing)["about"]
        assert (about["kind"], about["layer"], about["head"]) == ("cross", 0, 2)


def test_translate_answers_with_result_and_map(runs: RunCache) -> None:
    message, result, view = translate.translate(runs, "I love you.", STORE)
    assert message is None and result["text"] == "Je t'aime." and result["badge"] == "live"
    assert drawn(view)["layout"]["meta"]["queries"] == ["▁Je", "▁t", "'", "aime", ".", "</s>"]
    assert list(json.loads(view)["views"]) == ["en"]
    about = json.loads(translate.translate(runs, "I love you.", STORE | {"lang": "zh"})[2])
    assert list(about["views"]) == ["zh"] and about["about"] == {"request": result["request"]} | {
        name: STORE[name] for name in ("kind", "layer", "head", "rows")
    }


@pytest.mark.parametrize(
    ("kind", "asked", "shown"),
    [
        ("cross", (4, 2), (DECODER[0] - 1, 2)),
        ("cross", (0, DECODER[1]), (0, DECODER[1] - 1)),
        ("encoder_self", (ENCODER[0] + 3, ENCODER[1] + 3), (ENCODER[0] - 1, ENCODER[1] - 1)),
        ("encoder_self", (ENCODER[0] - 1, ENCODER[1] - 1), (ENCODER[0] - 1, ENCODER[1] - 1)),
        ("decoder_self", (9, "max"), (DECODER[0] - 1, "max")),
    ],
)
def test_a_choice_made_on_a_larger_model_shows_the_last_map_there_is(runs: RunCache, kind: str, asked: tuple, shown: tuple) -> None:
    store = STORE | {"kind": kind, "layer": asked[0], "head": asked[1]}
    for message, result, view in (
        translate.translate(runs, "I love you.", store),
        translate.force(runs, "I love you.", "Je vous aime.", store),
    ):
        about = json.loads(view)["about"]
        assert message is None and result["text"] and (about["kind"], about["layer"], about["head"]) == (kind, *shown)
    if asked != shown:  # a drawing is of a run whose sizes the page knows
        assert translate.draw(runs, result, store)[0]["code"] == "invalid_setting"


@pytest.mark.parametrize(
    ("text", "store", "code"),
    [
        ("", STORE, "empty_text"),
        ("\u0007", STORE, "unusable_text"),
        ("a " * 2500, STORE, "text_too_long"),
        (None, STORE, "invalid_setting"),
        (["a"], STORE, "invalid_setting"),
        ("hello", STORE | {"target": "tlh"}, "unknown_target"),
        ("hello", STORE | {"beam_size": 99}, "invalid_setting"),
        ("hello", STORE | {"layer": -1}, "invalid_setting"),
        ("hello", STORE | {"head": "2"}, "invalid_setting"),
        ("hello", STORE | {"rows": "both"}, "invalid_setting"),
        ("hello", STORE | {"kind": "__class__"}, "invalid_setting"),
        ("hello", None, "invalid_setting"),
        ("hello", "x", "invalid_setting"),
    ],
)
def test_errors_are_a_code_and_the_old_picture_stays(runs: RunCache, text: object, store: object, code: str) -> None:
    message, *rest = translate.translate(runs, text, store)
    assert message["code"] == code and rest == [SKIP, SKIP]
    json.dumps(message)


def test_a_mistake_of_ours_is_logged_and_not_shown(
    runs: RunCache, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*args: object) -> None:
        raise RuntimeError("secret path /home/x")

    monkeypatch.setattr(runs.translator, "trace", broken)
    message, *rest = translate.translate(runs, "hello", STORE)
    assert message == {"code": "unexpected", "params": {}} and rest == [SKIP, SKIP]
    assert "secret path" in caplog.text


def test_force_needs_a_translation(runs: RunCache) -> None:
    assert translate.force(runs, "I love you.", " ", STORE)[0]["code"] == "empty_given"
    assert translate.force(runs, "I love you.", None, STORE)[0]["code"] == "empty_given"
    message, result, view = translate.force(runs, "I love you.", "Je vous aime.", STORE)
    assert message is None and result["badge"] == "given" and "▁vous" in drawn(view)["layout"]["meta"]["queries"]


def test_draw_takes_the_run_on_the_screen_and_never_runs_the_model(runs: RunCache) -> None:
    _, result, _ = translate.translate(runs, "I love you.", STORE)
    calls = runs.translator.calls
    message, same, view = translate.draw(runs, result, STORE | {"kind": "encoder_self", "layer": 2, "head": 3})
    assert message == SKIP and same == SKIP and drawn(view)["layout"]["meta"]["kind"] == "encoder_self"
    assert runs.translator.calls == calls

    gone = RunCache(runs.translator)  # what was on the screen has left the cache: the page is asked to send it again
    message, stale, view = translate.draw(gone, result, STORE)
    assert message == SKIP and stale["stale"] and stale["request"] == result["request"] and view == SKIP
    assert translate.draw(runs, {"request": {"text": 1}}, STORE)[0]["code"] == "invalid_setting"
    assert translate.draw(runs, None, STORE)[0]["code"] == "invalid_setting"


def test_two_visitors_in_turn_see_their_own_run(runs: RunCache) -> None:
    _, first, _ = translate.translate(runs, "I love you.", STORE)
    _, second, _ = translate.translate(runs, "Cats sleep.", STORE)
    assert drawn(translate.draw(runs, first, STORE)[2])["layout"]["meta"]["keys"][1] == "▁I"
    assert drawn(translate.draw(runs, second, STORE)[2])["layout"]["meta"]["keys"][1] == "▁Cats"


def test_without_a_model_every_handler_says_why() -> None:
    runs = RunCache(None, recorded_run(FakeTranslator()), CheckpointCorruptError("model.safetensors", "it is truncated"))
    message = translate.translate(runs, "hello", STORE)[0]
    assert message["code"] == "checkpoint_corrupt" and message["params"]["path"] == "model.safetensors"
    assert positions.draw(runs, None, STORE)[0]["code"] == "checkpoint_corrupt"
    shown = translate.result_value(runs.recorded)
    assert translate.draw(runs, shown, STORE, message)[0] == SKIP  # the recorded run can be looked at, and there is still no model
    failed = translate.draw(runs, shown, STORE | {"layer": 99}, message)[0]
    assert translate.draw(runs, shown, STORE, failed)[0] == message


def test_a_drawing_takes_back_only_the_complaint_of_a_drawing(runs: RunCache) -> None:
    shown = translate.result_value(runs.recorded)
    empty = translate.translate(runs, "", STORE)[0]
    assert translate.draw(runs, shown, STORE, empty)[0] == SKIP
    impossible = translate.draw(runs, shown, STORE | {"layer": 99}, empty)[0]
    assert impossible["code"] == "invalid_setting"
    assert translate.draw(runs, shown, STORE, impossible)[0] is None
    assert translate.draw(runs, shown, STORE, None)[0] == SKIP and translate.draw(runs, shown, STORE, "x")[0] == SKIP


def test_one_event_answers_for_both_kinds_of_translation(runs: RunCache) -> None:
    assert translate.answer(runs, "I love you.", "Je vous aime.", STORE)[1]["badge"] == "live"
    assert translate.answer(runs, "I love you.", "Je vous aime.", STORE | {"forced": True})[1]["badge"] == "given"
    assert translate.answer(runs, "I love you.", "", STORE | {"forced": True})[0]["code"] == "empty_given"
    assert translate.answer(runs, "I love you.", "", None)[0]["code"] == "invalid_setting"


# --- positions ---

PLACES = {"lang": "en", "positions": {"length": 20, "pairs": [0, 4], "tokens": False}}


def test_positions_draw_the_models_table(runs: RunCache) -> None:
    message, table, waves = positions.draw(runs, None, PLACES)
    assert message is None
    heat = drawn(table)["data"][0]["z"]
    assert heat["shape"] == "20, 64"
    assert [trace["name"].split(" · ")[0] for trace in drawn(waves)["data"]] == [f"dimension {d}" for d in (0, 1, 8, 9)]


def test_rows_are_the_sentences_tokens_when_wanted(runs: RunCache) -> None:
    _, result, _ = translate.translate(runs, "I love you.", STORE)
    wanted = {"lang": "zh", "positions": {"length": 20, "pairs": [0], "tokens": True}}
    table = json.loads(positions.draw(runs, result, wanted)[1])["views"]["zh"]
    assert table["figure"]["data"][0]["z"]["shape"] == "6, 64" and "6 个位置" in table["alt"]
    assert positions.draw(runs, {"request": "x"}, wanted)[0]["code"] == "invalid_setting"


@pytest.mark.parametrize(
    "choice",
    [
        None,
        {},
        {"length": 1, "pairs": [0]},
        {"length": 1000, "pairs": [0]},
        {"length": 20, "pairs": []},
        {"length": 20, "pairs": [32]},
        {"length": 20, "pairs": [-1]},
        {"length": 20, "pairs": ["0"]},
        {"length": 20, "pairs": list(range(7))},
        {"length": 20, "pairs": "0"},
        {"length": "20", "pairs": [0]},
    ],
)
def test_impossible_positions_are_refused(runs: RunCache, choice: object) -> None:
    assert positions.draw(runs, None, {"positions": choice})[0]["code"] == "invalid_setting"


def test_pairs_are_sine_and_cosine_of_one_angle_in_both_layouts(runs: RunCache) -> None:
    table = runs.translator.positional_encoding(30)
    pairs = offered_pairs(64)
    assert pairs[0] == 0 and pairs[-1] == 31 and len(set(pairs)) == len(pairs)
    halves = np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)
    for layout, values in (("interleaved", table), ("halves", halves)):
        dims = dimensions(pairs, 64, layout)
        for sine, cosine in zip(dims[::2], dims[1::2], strict=True):
            np.testing.assert_allclose(values[:, sine] ** 2 + values[:, cosine] ** 2, 1, atol=1e-5)
    assert offered_pairs(2) == (0,) and offered_pairs(4) == (0, 1)
    first = PositionChoice.first(4, 8)
    assert PositionChoice.from_page({"length": first.length, "pairs": list(first.pairs)}, 4, 8) == first


# --- api ---


def test_api_functions_return_plain_values_and_raise_typed_errors(runs: RunCache) -> None:
    found = api.translate(runs, "I love you.")
    assert json.loads(json.dumps(found)) == found and found["tgt_in_tokens"][0] == "<s>" and found["tgt_out_tokens"][-1] == "</s>"
    one = api.attention(runs, "I love you.", kind="cross", layer=1, head="2")
    trace = runs.get(Request("I love you.", "fra")).trace
    np.testing.assert_allclose(one["weights"], trace.cross_attention[1, 2], atol=1e-7)
    assert (len(one["query_tokens"]), len(one["key_tokens"])) == trace.cross_attention.shape[2:]
    assert api.translate(runs, "I love you.", translation="Je vous aime.")["forced"]
    with pytest.raises(UnknownTargetError):
        api.translate(runs, "I love you.", "tlh")
    with pytest.raises(InvalidSettingError):
        api.attention(runs, "I love you.", layer=7)
