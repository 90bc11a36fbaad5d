"""Sections on positions in the sentence, called without a browser: on a tiny real model, and with whatever a page may send."""

from __future__ import annotations

import base64
import json

import gradio as gr
import numpy as np
import pytest

from model.analysis.position_scores import clearest_head, position_scores
from model.analysis.position_sentence import input_lengths, likeness
from model.analysis.word_order import read_orders
from model.translator import Translator
from tests.model.conftest import tiny_config, tiny_model, tiny_tokenizer, tiny_tokenizer_file, tiny_translator  # noqa: F401
from tests.viz.fakes import FakeTranslator
from tests.viz.figures.read import array
from viz.panels import position_sentence as panel
from viz.panels.position_choice import MAX_ORDERED, repeated
from viz.runs import Request, RunCache

TEXT = "The cat sat on the mat, and the dog saw the cat."
STORE = {"lang": "en", "kind": "cross", "layer": 0, "head": "mean"}
SKIP = gr.skip()


@pytest.fixture(scope="module")
def runs(tiny_translator: Translator) -> RunCache:  # noqa: F811
    return RunCache(tiny_translator)


@pytest.fixture(scope="module")
def result(runs: RunCache) -> dict:
    return {"request": runs.get(Request(TEXT, "fra", 2)).request.as_dict()}


def run_of(runs: RunCache):
    return runs.get(Request(TEXT, "fra", 2))


def figure(view: str, language: str = "en") -> dict:
    return json.loads(view)["views"][language]["figure"]


def weights(text: str, size: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<u2").reshape(size, size) / 65535


def test_lengths_are_drawn_and_told(runs: RunCache, result: dict) -> None:
    for side in ("source", "read"):
        message, facts, view = panel.draw_lengths(runs, result, STORE | {"position_sentence": {"side": side}})
        expected = input_lengths(runs.translator, run_of(runs).translation, side)
        assert message is None and facts["request"] == result["request"] and facts["side"] == side
        drawn = figure(view)["data"]
        for trace, name in zip(drawn[1:], ("embedding", "scaled", "position"), strict=True):
            np.testing.assert_array_equal(array(trace["x"]), getattr(expected, name))
            assert facts[name] == pytest.approx(getattr(expected, name).mean())
        assert (facts["factor"], facts["sqrt_d"], facts["d_model"]) == (4.0, 4.0, 16)
        labels = figure(view)["layout"]["yaxis"]["ticktext"]
        assert labels[0] == ("⟨→ fra⟩" if side == "source" else "⟨start⟩") and len(labels) == len(expected.position)


def test_a_token_that_stands_twice_is_compared_first(runs: RunCache, result: dict) -> None:
    message, facts, view = panel.draw_places(runs, result, STORE)
    ids = run_of(runs).translation.src_ids
    first, second = facts["places"]
    assert message is None and facts["same"] and ids[first] == ids[second] and first < second
    assert (first, second) in facts["repeated"]
    expected = likeness(runs.translator, run_of(runs).translation, first, second)
    np.testing.assert_array_equal(array(figure(view)["data"][0]["y"]), expected.with_positions)
    np.testing.assert_allclose(facts["without"], expected.without)
    assert facts["without"] == pytest.approx([1.0] * len(facts["stages"]), abs=1e-6)
    assert figure(view)["layout"]["xaxis"]["ticktext"] == ["embedding", "+ position", "layer 0", "layer 1"]


def test_the_places_chosen_are_compared(runs: RunCache, result: dict) -> None:
    _, facts, view = panel.draw_places(runs, result, STORE | {"position_sentence": {"places": [5.0, 2]}})
    assert facts["places"] == [5, 2]
    np.testing.assert_array_equal(array(figure(view)["data"][1]["y"]), likeness(runs.translator, run_of(runs).translation, 5, 2).without)


def test_repeated_tokens_are_neighbouring_pairs() -> None:
    assert repeated((7, 3, 7, 4, 3, 7)) == [(0, 2), (1, 4), (2, 5)]
    assert repeated((1, 2, 3)) == []


@pytest.mark.parametrize(("kind", "layer", "head"), [("encoder_self", 1, 0), ("decoder_self", 0, 1)])
def test_the_chosen_head_is_drawn(runs: RunCache, result: dict, kind: str, layer: int, head: int) -> None:
    message, text, view = panel.draw_head(runs, result, STORE | {"kind": kind, "layer": layer, "head": head})
    facts, run = json.loads(text), run_of(runs)
    assert message is None and [facts[name] for name in ("kind", "layer", "head")] == [kind, layer, head]
    expected = position_scores(runs.translator, run.translation, kind, layer, head)
    real = (run.trace.encoder_self_attention if kind == "encoder_self" else run.trace.decoder_self_attention)[layer, head]
    np.testing.assert_allclose(weights(facts["real"], facts["size"]), real, atol=1e-5)
    np.testing.assert_allclose(weights(facts["alone"], facts["size"]), expected.weights, atol=1e-5)
    np.testing.assert_array_equal(array(figure(view)["data"][1]["y"]), expected.mean)
    shared = [sum(min(a, b) for a, b in zip(one, other, strict=True)) for one, other in zip(real, expected.weights, strict=True)]
    assert facts["overlap"] == pytest.approx(np.mean(shared), abs=1e-5)
    assert facts["favourite"] == expected.offsets[np.argmax(expected.mean)]
    bars = {offset: np.diagonal(real, offset).mean() for offset in expected.offsets if abs(offset) < len(real)}
    assert facts["real_favourite"] == max(bars, key=bars.get) and facts["real_weight"] == pytest.approx(max(bars.values()), abs=1e-6)
    drawn = [trace for trace in figure(view)["data"] if trace["type"] == "bar"][0]
    assert array(drawn["x"])[np.nanargmax(array(drawn["y"]))] == facts["real_favourite"], "the tallest bar"
    assert facts["real_pairs"] == len(np.diagonal(real, facts["real_favourite"]))
    size = len(real)
    reach = [[min(real[i, j], 1 / (i + 1 if kind == "decoder_self" else size)) for j in range(size)] for i in range(size)]
    assert facts["even"] == pytest.approx(np.sum(reach) / size, abs=1e-5)


def test_without_a_head_of_its_own_the_clearest_is_drawn(runs: RunCache, result: dict) -> None:
    run = run_of(runs)
    maps = run.trace.encoder_self_attention
    facts = json.loads(panel.draw_head(runs, result, STORE)[1])
    assert facts["kind"] == "encoder_self"
    assert (facts["layer"], facts["head"]) == clearest_head(runs.translator, run.translation, "encoder_self", maps)
    facts = json.loads(panel.draw_head(runs, result, STORE | {"kind": "decoder_self", "layer": 1, "head": "max"})[1])
    assert facts["kind"] == "decoder_self" and facts["layer"] == 1
    facts = json.loads(panel.draw_head(runs, result, STORE | {"kind": "encoder_self", "layer": 9, "head": 7})[1])
    assert (facts["layer"], facts["head"]) == (1, 1), "of another model's choice the last"


def test_words_are_moved_by_a_seed_or_by_hand(runs: RunCache, result: dict) -> None:
    run = run_of(runs)
    store = STORE | {"kind": "encoder_self", "layer": 1, "head": 0, "word_order": {"seed": 3, "order": None}}
    message, text = panel.draw_order(runs, result, store)
    facts = json.loads(text)
    assert message is None and facts["seed"] == 3 and (facts["layer"], facts["head"]) == (1, 0)
    order, tokens = facts["order"], facts["tokens"]
    assert sorted(order) == list(range(len(order))) and order[0] == 0 and order[-1] == len(order) - 1 and order != sorted(order)
    assert facts == json.loads(panel.draw_order(runs, result, store)[1]), "the same seed, the same order"
    expected = read_orders(runs.translator, run.translation, tokens, 2)
    size = len(tokens)
    for positions in ("on", "off"):
        for name, readings in (("original", expected.original), ("shuffled", expected.shuffled)):
            assert facts[positions]["texts"][name] == readings[positions].translation.text
            np.testing.assert_allclose(weights(facts[positions]["maps"][name], size), readings[positions].maps[1, 0], atol=1e-5)
    assert facts["off"]["largest"] < 2e-5 < facts["on"]["largest"]
    assert facts["off"]["texts"]["original"] == facts["off"]["texts"]["shuffled"]
    by_hand = [0, *range(2, len(order) - 1), 1, len(order) - 1]
    moved = json.loads(panel.draw_order(runs, result, store | {"word_order": {"order": by_hand}})[1])
    assert moved["order"] == by_hand and moved["seed"] == 1
    assert moved["source"]["original"] == TEXT != moved["source"]["shuffled"]


ODD = [None, 5, "x", [], {"request": None}, {"request": {"text": 3, "target": "fra"}}]


@pytest.mark.parametrize("answer", [panel.draw_lengths, panel.draw_places, panel.draw_head, panel.draw_order])
def test_whatever_a_page_sends_the_answer_is_a_message(runs: RunCache, result: dict, answer) -> None:
    for shown in ODD:
        message, *rest = answer(runs, shown, STORE)
        assert message["code"] == "invalid_setting" and all(each == SKIP for each in rest)


@pytest.mark.parametrize(
    ("answer", "changes"),
    [
        (panel.draw_lengths, {"position_sentence": {"side": "target"}}),
        (panel.draw_lengths, {"position_sentence": {"side": ["source"]}}),
        (panel.draw_places, {"position_sentence": {"places": [1]}}),
        (panel.draw_places, {"position_sentence": {"places": [1, 1]}}),
        (panel.draw_places, {"position_sentence": {"places": [1, 500]}}),
        (panel.draw_places, {"position_sentence": {"places": "12"}}),
        (panel.draw_head, {"kind": "encoder_self", "layer": -1, "head": 0}),
        (panel.draw_head, {"kind": "decoder_self", "layer": 0, "head": 1.5}),
        (panel.draw_order, {"word_order": {"seed": -1}}),
        (panel.draw_order, {"word_order": {"seed": 10**9}}),
        (panel.draw_order, {"word_order": {"order": [0, 1]}}),
        (panel.draw_order, {"word_order": {"order": "012"}}),
        (panel.draw_order, {"word_order": {"order": [1, 0, *range(2, 15)]}}),
    ],
)
def test_choices_that_there_are_not_are_refused(runs: RunCache, result: dict, answer, changes: dict) -> None:
    message, *rest = answer(runs, result, STORE | changes)
    assert message["code"] == "invalid_setting" and all(each == SKIP for each in rest)


def test_special_tokens_keep_their_places(runs: RunCache, result: dict) -> None:
    count = len(json.loads(panel.draw_order(runs, result, STORE)[1])["order"])
    for order in ([1, 0, *range(2, count)], [*range(count - 2), count - 1, count - 2], [0, 1, 1, *range(3, count)]):
        assert panel.draw_order(runs, result, STORE | {"word_order": {"order": order}})[0]["code"] == "invalid_setting"


def test_a_long_sentence_is_not_moved_and_says_why(runs: RunCache, result: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(run_of(runs).translation.src_ids)
    assert count <= MAX_ORDERED
    monkeypatch.setattr(panel, "MAX_ORDERED", count - 1)
    message, _ = panel.draw_order(runs, result, STORE)
    assert message == {"code": "too_long_to_order", "params": {"num_tokens": count, "limit": MAX_ORDERED}}


def test_one_word_has_no_other_order(runs: RunCache) -> None:
    run = runs.get(Request("Hello", "fra", 2))
    message, facts = panel.draw_order(runs, {"request": run.request.as_dict()}, STORE)
    assert message == {"code": "too_few_to_order", "params": {}} and facts == SKIP


def test_maps_of_many_tokens_are_left_out(runs: RunCache, result: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel, "MAX_DRAWN", len(run_of(runs).translation.src_ids) - 1)
    message, text, view = panel.draw_head(runs, result, STORE)
    facts = json.loads(text)
    assert message is None and facts["real"] is facts["alone"] is None and facts["limit"] == panel.MAX_DRAWN
    assert figure(view)["data"]


def test_a_translator_without_weights_says_so() -> None:
    fake = RunCache(FakeTranslator())
    shown = {"request": fake.get(Request("I love you.", "fra")).request.as_dict()}
    for answer in (panel.draw_lengths, panel.draw_places, panel.draw_head, panel.draw_order):
        assert answer(fake, shown, STORE)[0] == {"code": "no_weights", "params": {}}


def test_both_languages_are_drawn(runs: RunCache, result: dict) -> None:
    for answer in (panel.draw_lengths, panel.draw_places, panel.draw_head):
        view = answer(runs, result, STORE | {"lang": "zh"})[-1]
        assert list(json.loads(view)["views"]) == ["zh"] and "位置" in json.dumps(figure(view, "zh"), ensure_ascii=False)
