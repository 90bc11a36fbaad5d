"""Scores against sacrebleu called in other ways, and against BLEU and chrF written out."""

from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace

import pytest
import sacrebleu

from model.training.corpus import Pair
from model.training.evaluation import EXAMPLES, evaluate, examples, score

# Words apart and in small letters, so that every tokenizer cuts them alike. One to three references; a hypothesis is short, one long.
HYPOTHESES = [
    "the cat sat on the mat today",
    "a dog is in the garden of my uncle",
    "we will come back",
    "she reads a very long book about the very old sea",
]
REFERENCES = [
    ["the cat sat on the mat", "a cat was sitting on the mat today", "the cat is on the mat today again"],
    ["a dog is in my uncle 's garden"],
    ["we will come back tomorrow morning", "we are coming back"],
    ["she reads a long book about the sea", "she is reading a very long book about the sea"],
]
CHINESE = (
    ["我爱你。", "他在 Boston 住了3年", "今天天气很好"],
    [["我爱你！", "我很爱你。"], ["他在波士顿住了3年。"], ["今天天气真好。", "天气很好", "今天很好"]],
)


def ngrams(items: str | list[str], n: int) -> Counter:
    return Counter(tuple(items[i : i + n]) for i in range(len(items) - n + 1))


def bleu(hypotheses: list[list[str]], references: list[list[list[str]]]) -> float:
    """Papineni et al. 2002: clipped counts over the corpus, the closest reference's length (the shorter of two)."""
    log_precision, lengths = 0.0, [0, 0]
    for n in range(1, 5):
        matched = total = 0
        for hypothesis, refs in zip(hypotheses, references, strict=True):
            most: Counter = Counter()
            for ref in refs:
                most |= ngrams(ref, n)
            matched += (ngrams(hypothesis, n) & most).total()
            total += ngrams(hypothesis, n).total()
        log_precision += math.log(matched / total) / 4
    for hypothesis, refs in zip(hypotheses, references, strict=True):
        lengths[0] += len(hypothesis)
        lengths[1] += min((abs(len(ref) - len(hypothesis)), len(ref)) for ref in refs)[1]
    return 100 * math.exp(log_precision + min(0.0, 1 - lengths[1] / lengths[0]))


def test_bleu_is_the_published_one() -> None:
    expected = bleu([text.split() for text in HYPOTHESES], [[ref.split() for ref in refs] for refs in REFERENCES])
    assert 20 < expected < 80
    assert score(HYPOTHESES, REFERENCES, "fra")["bleu"] == pytest.approx(expected, abs=0.005)


def test_chinese_bleu_counts_characters() -> None:
    """Words of other scripts stay whole."""

    def cut(text: str) -> list[str]:
        return "".join(ch if ch.isascii() else f" {ch} " for ch in text).split()

    hypotheses, references = CHINESE
    expected = bleu([cut(text) for text in hypotheses], [[cut(ref) for ref in refs] for refs in references])
    assert score(hypotheses, references, "cmn")["bleu"] == pytest.approx(expected, abs=0.005)
    assert score(hypotheses, references, "fra")["bleu"] != pytest.approx(expected, abs=1)


@pytest.mark.parametrize(
    "hypotheses, references, target, tokenizer", [(HYPOTHESES, REFERENCES, "fra", "13a"), (*CHINESE, "cmn", "zh"), (*CHINESE, "fra", "13a")]
)
def test_equals_sacrebleu(hypotheses: list[str], references: list[list[str]], target: str, tokenizer: str) -> None:
    """A reference given twice changes neither the clipped counts nor the closest length: an independent way to fill the columns."""
    width = max(map(len, references))
    columns = [[(refs * width)[i] for refs in references] for i in range(width)]
    found = score(hypotheses, references, target)
    assert found["bleu"] == round(sacrebleu.corpus_bleu(hypotheses, columns, tokenize=tokenizer).score, 2)
    assert found["sentences"] == len(hypotheses)
    assert f"tok:{tokenizer}" in found["signature"]
    assert "nrefs:var" in found["signature"]


@pytest.mark.parametrize("hypotheses, references", [(HYPOTHESES, REFERENCES), CHINESE])
def test_chrf_takes_the_best_reference_of_each_sentence(hypotheses: list[str], references: list[list[str]]) -> None:
    """Repeating references to fill the columns is harmless: the same as giving sacrebleu the best one alone."""
    best = [
        max(refs, key=lambda ref, hypothesis=hypothesis: sacrebleu.sentence_chrf(hypothesis, [ref]).score)
        for hypothesis, refs in zip(hypotheses, references, strict=True)
    ]
    expected = sacrebleu.corpus_chrf(hypotheses, [best]).score
    assert score(hypotheses, references, "cmn")["chrf"] == round(expected, 2)
    assert score(hypotheses, [refs * 3 for refs in references], "cmn")["chrf"] == round(expected, 2)
    # None for a missing reference, as for BLEU, would be the same to sacrebleu
    width = max(map(len, references))
    columns = [[refs[i] if i < len(refs) else None for refs in references] for i in range(width)]
    assert round(sacrebleu.CHRF().corpus_score(hypotheses, columns).score, 2) == round(expected, 2)


def test_the_order_of_references_does_not_matter() -> None:
    assert score(HYPOTHESES, [refs[::-1] for refs in REFERENCES], "fra") == score(HYPOTHESES, REFERENCES, "fra")


def test_a_perfect_translation_scores_100() -> None:
    found = score([refs[-1] for refs in REFERENCES], REFERENCES, "fra")
    assert (found["bleu"], found["chrf"]) == (100, 100)


class FakeTranslator:
    """Says each sentence in capitals, and never ends what begins with an N."""

    targets = ("cmn", "fra")

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int]] = []

    def translate(self, text: str, target: str, beam_size: int) -> SimpleNamespace:
        self.asked.append((text, target, beam_size))
        return SimpleNamespace(text=text.upper(), finished=not text.startswith("N"))


PAIRS = [
    Pair("fra", "Hello there my friend.", "BONJOUR."),
    Pair("cmn", "No.", "不。"),
    Pair("fra", "No way at all.", "NON."),
    Pair("fra", "Hello there my friend.", "HELLO THERE MY FRIEND."),
]


def test_each_source_is_translated_once_against_all_its_references() -> None:
    translator = FakeTranslator()
    results = evaluate(translator, PAIRS, beam_size=3)
    assert translator.asked == [("Hello there my friend.", "fra", 3), ("No way at all.", "fra", 3), ("No.", "cmn", 3)]
    expected = score(["HELLO THERE MY FRIEND.", "NO WAY AT ALL."], [["BONJOUR.", "HELLO THERE MY FRIEND."], ["NON."]], "fra")
    assert results["fra"] == {**expected, "unfinished": 1}
    assert set(results) == {"fra", "cmn"}


def test_the_limit_is_per_language() -> None:
    translator = FakeTranslator()
    results = evaluate(translator, PAIRS, limit=1)
    assert {target: found["sentences"] for target, found in results.items()} == {"fra": 1, "cmn": 1}
    assert results["fra"]["bleu"] == pytest.approx(100)


def test_every_example_is_shown_for_every_language() -> None:
    assert examples(FakeTranslator()) == {target: {text: text.upper() for text in EXAMPLES} for target in ("cmn", "fra")}
    assert {"I am a student.", "I love you."} <= set(EXAMPLES)
