"""Tokens joined to words with their probabilities."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.results import RunnerUps
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.panels.choice import MapChoice
from viz.panels.map_figure import map_figure, map_in_words
from viz.panels.reading import result_value, word_spans, words


def joined(tokens: str) -> list[str]:
    split = tokens.split("|")
    return [word["text"] for word in words(split, [-0.1] * len(split))]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("▁Je|▁suis|▁étud|iant|.|</s>", ["Je", "suis", "étudiant", ".", "</s>"]),
        ("▁t|'|aime", ["t'aime"]),
        ("▁a|-|t|-|il|▁|,|▁fini|,", ["a-t-il", ",", "fini", ","]),
        ("▁|a|b", ["ab"]),
        ("我|爱你|。|</s>", ["我", "爱你", "。", "</s>"]),
        ("▁我|爱", ["我", "爱"]),
        ("▁😀 1/4|😀 2/4|😀 3/4|😀 4/4|▁x", ["😀", "x"]),
        ("▁a|é 1/2|é 2/2|b", ["aéb"]),
        ("▁|أ 1/2|أ 2/2|ن 1/2|ن 2/2|، 1/2|، 2/2|▁|ب 1/2|ب 2/2", ["أن", "،", "ب"]),
        ("▁|ह 1/3|ह 2/3|ह 3/3|◌ू 1/3|◌ू 2/3|◌ू 3/3|। 1/3|। 2/3|। 3/3", ["हू", "।"]),
        ("▁|◌ू 1/3|◌ू 2/3|◌ू 3/3|▁x", ["◌ू", "x"]),  # alone, it would stand on its neighbour
        ("▁|<U+200D> 1/3|<U+200D> 2/3|<U+200D> 3/3", ["<U+200D>"]),  # alone, it would not be seen
        ("▁می|<U+200C> 1/3|<U+200C> 2/3|<U+200C> 3/3|خواهم", ["می\u200cخواهم"]),
        ("▁|👩 1/2|👩 2/2|<U+200D> 1/2|<U+200D> 2/2|👧 1/2|👧 2/2|👩 1/2|👩 2/2", ["👩\u200d👧", "👩"]),
        ("▁|👍 1/2|👍 2/2|🏽 1/2|🏽 2/2|a", ["👍🏽", "a"]),
        ("▁|❤ 1/2|❤ 2/2|◌\ufe0f 1/2|◌\ufe0f 2/2|a", ["❤\ufe0f", "a"]),
        ("▁|🇫 1/2|🇫 2/2|🇷 1/2|🇷 2/2|🇩 1/2|🇩 2/2|🇪 1/2|🇪 2/2|🇫 1/2|🇫 2/2", ["🇫🇷", "🇩🇪", "🇫"]),
        ("▁|我 1/3|我 2/3|我 3/3|爱 1/3|爱 2/3|爱 3/3", ["我", "爱"]),
        ("▁|한 1/3|한 2/3|한 3/3|국 1/3|국 2/3|국 3/3|▁|문 1/3|문 2/3|문 3/3|장", ["한국", "문장"]),  # Korean writes spaces
        ("▁한국|어|▁문|장", ["한국어", "문장"]),
        ("▁ひ|ら|カ|ナ|\uf900|\U00020000", ["ひ", "ら", "カ", "ナ", "\uf900", "\U00020000"]),
        ("▁ไทย|ไทย", ["ไทยไทย"]),
        ("1|2|3", ["123"]),
        ("▁12|,|3|45|.|67|,", ["12,345.67", ","]),
        ("▁1|,|2|.|</s>", ["1,2", ".", "</s>"]),
        ("▁1|,|▁2|,|a|,|3|.|.|4|:|5", ["1", ",", "2", ",", "a", ",", "3", ".", ".", "4", ":", "5"]),  # not between digits, or no point
        ("▁v|1.|2|,5", ["v1.2,5"]),
        ("▁1|,|▁|2", ["1", ",", "2"]),
        ("<unk>|a", ["<unk>", "a"]),
        ("<b>|$x$", ["<b>", "$x$"]),
    ],
)
def test_words(tokens: str, expected: list[str]) -> None:
    assert joined(tokens) == expected


def test_the_probability_of_a_word_is_the_product_of_its_pieces() -> None:
    found = words(["▁étud", "iant", "</s>"], [math.log(0.5), math.log(0.4), 0.0])
    assert found[0]["probability"] == pytest.approx(0.2) and [p["token"] for p in found[0]["pieces"]] == ["▁étud", "iant"]
    assert found[1]["special"] and not found[0]["special"]
    assert words(["a"], [1e-9])[0]["probability"] == 1.0  # rounding of a log-probability must not exceed certainty


@pytest.mark.parametrize(
    "tokens", ["▁Il ▁ « ▁oui ▁ » ▁ ! </s>", "我 ▁ 爱 ▁ 你 </s>", "▁Je ▁t ' aime ▁ 😀|1/2 😀|2/2 </s>", "▁a ▁", "▁ ▁ b"]
)
def test_no_probability_is_lost(tokens: str) -> None:
    """A piece that is only a space goes to the word after it, or before it at the end."""
    pieces = [piece.replace("|", " ") for piece in tokens.split(" ")]
    log_probs = [-0.1 * (i + 1) for i in range(len(pieces))]
    out = words(pieces, log_probs)
    assert math.prod(word["probability"] for word in out) == pytest.approx(math.exp(sum(log_probs)))
    assert [piece["token"] for word in out for piece in word["pieces"]] == pieces
    assert all(word["text"] for word in out)


@pytest.mark.parametrize(
    ("tokens", "spans"),
    [
        (">>fra<<|▁the|▁stud|ent|▁|,|</s>", [(0, 1), (1, 2), (2, 4), (4, 6), (6, 7)]),
        (">>fra<<|▁|x", [(0, 1), (1, 3)]),
        ("▁a|▁|</s>", [(0, 2), (2, 3)]),
        ("▁|</s>", [(0, 1), (1, 2)]),
        ("<s>|▁|</s>", [(0, 1), (1, 2), (2, 3)]),
        ("<s>|▁|▁|x|▁|▁", [(0, 1), (1, 6)]),
        ("▁|▁", [(0, 2)]),
        ("x|<unk>|y", [(0, 1), (1, 2), (2, 3)]),
        ("▁😀 1/4|😀 2/4|😀 3/4|😀 4/4|a", [(0, 4), (4, 5)]),
        (">>fra<<|◌ू 1/3|◌ू 2/3|◌ू 3/3", [(0, 1), (1, 4)]),
    ],
)
def test_spans_of_words(tokens: str, spans: list[tuple[int, int]]) -> None:
    assert word_spans(tokens.split("|")) == tuple(spans)
    assert word_spans([]) == ()


PIECES = ["▁", "▁a", "b", "'", ",", "</s>", "<s>", "<unk>", ">>fra<<", "😀 1/2", "😀 2/2", "◌ू 1/2", "<U+200D> 1/2", "🇫 1/2", "我", ""]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_spans_cover_every_position_once_and_specials_stand_alone(tokens: list[str]) -> None:
    spans = word_spans(tokens)
    assert [position for start, stop in spans for position in range(start, stop)] == list(range(len(tokens)))
    for start, stop in spans:
        assert stop - start == 1 or not {"</s>", "<s>", "<unk>", ">>fra<<"} & set(tokens[start:stop])


def test_a_thousand_tokens_take_no_time() -> None:
    tokens = ["▁stud", "ent", "▁", ","] * 256
    start = time.process_time()
    assert len(word_spans(tokens)) == 512
    assert time.process_time() - start < 0.5  # 5 ms on a quiet machine


def test_each_piece_says_what_else_was_likely() -> None:
    beside = [RunnerUps(1, (("▁vous", 0.25),)), RunnerUps(3, ()), RunnerUps(2, (("!", 0.5), ("</s>", 0.125)))]
    found = words(["▁t", "'", "</s>"], [-0.5, -0.1, -2.0], beside)
    assert [piece["rank"] for word in found for piece in word["pieces"]] == [1, 3, 2]
    assert found[0]["pieces"][0]["others"] == [["▁vous", 0.25]] and found[1]["pieces"][0]["others"] == [["!", 0.5], ["</s>", 0.125]]
    assert set(words(["▁t"], [-0.5])[0]["pieces"][0]) == {"token", "probability"}
    with pytest.raises(ValueError):
        words(["▁t", "'"], [-0.5, -0.1], beside)


def test_a_lone_space_is_a_space() -> None:
    out = words(["▁dit", "▁", "«", "▁oui", "▁", "»", "</s>"], [-0.1] * 7)
    assert [(word["text"], word["spaced"]) for word in out][:4] == [("dit", False), ("«", True), ("oui", True), ("»", True)]


def test_lengths_must_fit() -> None:
    with pytest.raises(ValueError, match="zip"):
        words(["a", "b"], [0.0])


def test_spaces_stand_between_words_only() -> None:
    found = words(["▁Je", "▁suis", "."], [0, 0, 0])
    assert [word["spaced"] for word in found] == [False, True, False]


def test_a_result_is_plain_json() -> None:
    value = result_value(recorded_run(FakeTranslator()))
    assert json.loads(json.dumps(value)) == value
    assert value["maps"]["encoder_self"] == {"layers": 3, "heads": 4} and value["maps"]["cross"] == {"layers": 2, "heads": 3}
    assert value["badge"] == "recorded" and value["request"]["recorded"]


@pytest.mark.parametrize(("typed", "read", "told"), [("I AM HERE.", "I am here.", True), ("I am HERE…", "I am HERE...", False)])
def test_a_result_says_whether_capitals_were_read_as_small_letters(typed: str, read: str, told: bool) -> None:
    run = recorded_run(FakeTranslator())
    run = replace(run, request=replace(run.request, text=typed), translation=replace(run.translation, source_text=read))
    assert result_value(run)["case_changed"] is told


def test_a_result_names_the_heads_that_align_best_if_this_run_has_them() -> None:
    translator = FakeTranslator()
    assert result_value(recorded_run(translator))["best_heads"] == {}
    translator.best_heads = {"predicted": (1, 2), "read": (1, 3)}
    assert result_value(recorded_run(translator))["best_heads"] == {"predicted": [1, 2]}


def test_a_map_is_told_in_words_and_drawn_as_strict_json() -> None:
    run = recorded_run(FakeTranslator())
    choice = MapChoice.first(run.trace)
    weights = choice.weights(run.trace)
    told = map_in_words(run, choice, "en")
    assert told.startswith("Heat map with 5 rows and 7 columns.")
    assert f"suis looks most at {run.trace.src_tokens[weights[1].argmax()].strip('▁')} ({weights[1].max():.2f})" in told

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for kind in ("encoder_self", "decoder_self", "cross"):
        for colour in ("linear", "max", "log"):
            choice = MapChoice(kind, 0, "max", colour=colour)
            english, chinese = (map_figure(run, choice, language).to_json(validate=False) for language in ("en", "zh"))
            assert "row: the word" in str(json.loads(english, parse_constant=refuse)) and "行：" in str(json.loads(chinese))
        assert map_in_words(run, choice, "zh").startswith("热图")
