"""Handlers of both tabs and the API functions, called without a browser."""

from __future__ import annotations

import json

import gradio as gr
import numpy as np
import pytest

from model.errors import CheckpointCorruptError, InvalidSettingError, UnknownTargetError
from tests.viz.fakes import DECODER, ENCODER, MAX_LEN, FakeTranslator, recorded_run
from viz.panels import api, position_table, translate
from viz.panels.choice import KINDS, MapChoice
from viz.panels.map_view import map_view
from viz.panels.maps_value import layer_value, maps_value
from viz.panels.position_table import PositionChoice, dimensions, offered_pairs
from viz.runs import Request, RunCache

STORE = {"lang": "en", "target": "fra", "beam_size": 4, "kind": "cross", "layer": 1, "head": "mean", "rows": "predicted"}
SKIP = gr.skip()


@pytest.fixture
def runs() -> RunCache:
    translator = FakeTranslator()
    return RunCache(translator, recorded_run(translator))


def drawn(view: str, language: str = "en") -> dict:
    return json.loads(view)["views"][language]["figure"]


def kinds(maps: str) -> dict:
    return json.loads(maps)["kinds"]


def test_a_page_that_has_not_chosen_gets_the_head_that_aligns_best(runs: RunCache) -> None:
    runs.translator.best_heads = {"predicted": (0, 2)}
    long = "a " * (MAX_LEN - 2)  # of a long sentence only the layer that is shown comes at once
    _, result, maps = translate.translate(runs, long, STORE | {"layer": None})
    assert result["best_heads"] == {"predicted": [0, 2]}
    assert [text is not None for text in kinds(maps)["cross"]["weights"]] == [True, False]


def test_translate_answers_with_result_and_maps(runs: RunCache) -> None:
    message, result, maps = translate.translate(runs, "I love you.", STORE)
    assert message is None and result["text"] == "Je t'aime." and result["badge"] == "live"
    run = runs.get(Request("I love you.", "fra"))
    assert maps == maps_value(run) and json.loads(maps)["request"] == result["request"]
    shapes = {kind: (of["layers"], of["heads"]) for kind, of in kinds(maps).items()}
    assert shapes == {"encoder_self": ENCODER, "decoder_self": DECODER, "cross": DECODER}
    pieces = [piece for word in result["words"] for piece in word["pieces"]]
    assert [piece["token"] for piece in pieces] == list(run.translation.tgt_out_tokens)
    for piece, beside in zip(pieces, run.runner_ups, strict=True):
        assert piece["rank"] == beside.rank and [tuple(other) for other in piece["others"]] == list(beside.others)


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
def test_a_choice_made_on_a_larger_model_brings_the_last_layer_there_is(runs: RunCache, kind: str, asked: tuple, shown: tuple) -> None:
    store = STORE | {"kind": kind, "layer": asked[0], "head": asked[1]}
    long = "a " * (MAX_LEN - 2)
    for message, result, maps in (translate.translate(runs, long, store), translate.force(runs, long, "Je vous aime.", store)):
        assert message is None and result["text"]
        assert [i for i, text in enumerate(kinds(maps)[kind]["weights"]) if text] == [shown[0]]
        assert not any(text for other in KINDS if other != kind for text in kinds(maps)[other]["weights"])


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
        ("hello", STORE | {"units": "letters"}, "invalid_setting"),
        ("hello", STORE | {"specials": True}, "invalid_setting"),
        ("hello", STORE | {"colour": ["log"]}, "invalid_setting"),
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
    message, result, maps = translate.force(runs, "I love you.", "Je vous aime.", STORE)
    assert message is None and result["badge"] == "given"
    assert "▁vous" in [label["raw"] for label in json.loads(maps)["sides"]["predicted"]["pieces"]["en"]]


def wish(kind: object, layer: object) -> dict:
    return STORE | {"wanted_layer": {"kind": kind, "layer": layer}}


def test_a_layer_comes_from_the_run_on_the_screen_and_the_model_does_not_run(runs: RunCache) -> None:
    _, result, _ = translate.translate(runs, "I love you.", STORE)
    calls = runs.translator.calls
    message, same, layer = translate.more_maps(runs, result, wish("encoder_self", 2))
    assert message == SKIP and same == SKIP and layer == layer_value(runs.get(Request("I love you.", "fra")), "encoder_self", 2)
    assert runs.translator.calls == calls

    gone = RunCache(runs.translator)  # what was on the screen has left the cache: the page is asked to send it again
    message, stale, layer = translate.more_maps(gone, result, wish("cross", 0))
    assert message == SKIP and stale["stale"] and stale["request"] == result["request"] and layer == SKIP
    assert translate.more_maps(runs, {"request": {"text": 1}}, wish("cross", 0))[0]["code"] == "invalid_setting"
    assert translate.more_maps(runs, None, wish("cross", 0))[0]["code"] == "invalid_setting"


@pytest.mark.parametrize(
    "store",
    [
        None,
        {},
        {"wanted_layer": "cross"},
        {"wanted_layer": {"kind": "cross"}},
        wish("cross", DECODER[0]),
        wish("encoder_self", -1),
        wish(["cross"], 0),
    ],
)
def test_a_layer_that_there_is_not(runs: RunCache, store: object) -> None:
    message, *rest = translate.more_maps(runs, translate.result_value(runs.recorded), store)
    assert message["code"] == "invalid_setting" and message["about"] == "maps" and rest == [SKIP, SKIP]


def test_two_visitors_in_turn_see_their_own_run(runs: RunCache) -> None:
    _, first, _ = translate.translate(runs, "I love you.", STORE)
    _, second, _ = translate.translate(runs, "Cats sleep.", STORE)
    for result in (first, second):
        assert json.loads(translate.more_maps(runs, result, wish("cross", 1))[2])["request"] == result["request"]
    assert translate.more_maps(runs, first, wish("cross", 1))[2] != translate.more_maps(runs, second, wish("cross", 1))[2]


def test_without_a_model_every_handler_says_why() -> None:
    runs = RunCache(None, recorded_run(FakeTranslator()), CheckpointCorruptError("model.safetensors", "it is truncated"))
    message = translate.translate(runs, "hello", STORE)[0]
    assert message["code"] == "checkpoint_corrupt" and message["params"]["path"] == "model.safetensors"
    assert position_table.draw(runs, None, STORE)[0]["code"] == "checkpoint_corrupt"
    shown = translate.result_value(runs.recorded)
    assert translate.more_maps(runs, shown, wish("cross", 0), message)[0] == SKIP  # the recorded run can be looked at without a model
    failed = translate.more_maps(runs, shown, wish("cross", 99), message)[0]
    assert translate.more_maps(runs, shown, wish("cross", 0), failed)[0] == message


def test_a_layer_takes_back_only_the_complaint_about_a_layer(runs: RunCache) -> None:
    shown, possible = translate.result_value(runs.recorded), wish("cross", 0)
    empty = translate.translate(runs, "", STORE)[0]
    assert translate.more_maps(runs, shown, possible, empty)[0] == SKIP
    impossible = translate.more_maps(runs, shown, wish("cross", 99), empty)[0]
    assert translate.more_maps(runs, shown, possible, impossible)[0] is None
    assert translate.more_maps(runs, shown, possible, None)[0] == SKIP and translate.more_maps(runs, shown, possible, "x")[0] == SKIP


def test_one_event_answers_for_both_kinds_of_translation(runs: RunCache) -> None:
    assert translate.answer(runs, "I love you.", "Je vous aime.", STORE)[1]["badge"] == "live"
    assert translate.answer(runs, "I love you.", "Je vous aime.", STORE | {"forced": True})[1]["badge"] == "given"
    assert translate.answer(runs, "I love you.", "", STORE | {"forced": True})[0]["code"] == "empty_given"
    assert translate.answer(runs, "I love you.", "", None)[0]["code"] == "invalid_setting"


# --- positions ---

PLACES = {"lang": "en", "positions": {"length": 20, "pairs": [0, 4], "tokens": False}}


def test_positions_draw_the_models_table(runs: RunCache) -> None:
    message, table, waves = position_table.draw(runs, None, PLACES)
    assert message is None
    heat = drawn(table)["data"][0]["z"]
    assert heat["shape"] == "20, 64"
    assert [trace["name"].split(" · ")[0] for trace in drawn(waves)["data"]] == [f"dimension {d}" for d in (0, 1, 8, 9)]


def test_rows_are_the_sentences_tokens_when_wanted(runs: RunCache) -> None:
    _, result, _ = translate.translate(runs, "I love you.", STORE)
    wanted = {"lang": "zh", "positions": {"length": 20, "pairs": [0], "tokens": True}}
    table = json.loads(position_table.draw(runs, result, wanted)[1])["views"]["zh"]
    assert table["figure"]["data"][0]["z"]["shape"] == "6, 64" and "6 个位置" in table["alt"]
    assert position_table.draw(runs, {"request": "x"}, wanted)[0]["code"] == "invalid_setting"


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
    assert position_table.draw(runs, None, {"positions": choice})[0]["code"] == "invalid_setting"


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
    run = runs.get(Request("I love you.", "fra"))
    for head, weights in (("norm", run.norms["cross"][1]), ("rollout", run.rollout["cross"][1])):
        np.testing.assert_allclose(api.attention(runs, "I love you.", layer=1, head=head)["weights"], weights, atol=1e-7)
    words = api.attention(runs, "I love you.", layer=1, head="2", rows="read", units="words", specials="hidden")
    view = map_view(run, MapChoice("cross", 1, 2, "read", "words", "hidden"))
    assert (words["query_tokens"], words["key_tokens"]) == (["Je", "t'aime", "."], ["I", "love", "you", "."])
    assert words["weights"] == view.weights.tolist() and words["hidden"] == view.hidden > 0
    assert api.translate(runs, "I love you.", translation="Je vous aime.")["forced"]
    with pytest.raises(UnknownTargetError):
        api.translate(runs, "I love you.", "tlh")
    with pytest.raises(InvalidSettingError):
        api.attention(runs, "I love you.", layer=7)
