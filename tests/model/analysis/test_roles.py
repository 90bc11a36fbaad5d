"""Roles of heads that were made to have one, and means over sentences of unequal length."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest

from model.analysis.measures import cross_measures
from model.analysis.roles import ROLES, HeadRole, RoleTally, head_roles, role_of
from model.results import AttentionTrace
from tests.model.analysis.samples import maps, trace

SRC = (">>fra<<", "▁the", "▁cat", ",", "▁the", "▁dog", "▁and", "▁me", ".", "</s>")
TGT = ("<s>", "▁le", "▁chat", ",", "▁le", "▁chien", "▁et", "▁moi", ".", "</s>")


def looking_at(targets: list[int], size: int, share: float = 0.8) -> np.ndarray:
    """[Q, K]: `share` of each row's weight on its target, the rest even over all other keys."""
    rows = np.full((len(targets), size), (1 - share) / (size - 1))
    rows[np.arange(len(targets)), targets] = share
    return rows


def causal(rows: np.ndarray) -> np.ndarray:
    rows = np.tril(rows)
    return rows / rows.sum(axis=-1, keepdims=True)


def made(share: float = 0.8) -> AttentionTrace:
    """Every head with a role of its own: the encoder of 2 x 3, the decoder of 1 x 6."""
    n, t = len(SRC), len(TGT) - 1
    back, ahead = [max(i - 1, 0) for i in range(n)], [min(i + 1, n - 1) for i in range(n)]
    punctuation = [8 if i < 6 else 3 for i in range(n)]  # the mark that is far away
    encoder = [looking_at(keys, n, share) for keys in (back, ahead, list(range(n)), [0] * n, [n - 1] * n, punctuation)]
    decoder = [causal(looking_at(keys, t, share)) for keys in (back[:t], list(range(t)), [0] * t)]
    decoder += [causal(np.ones((t, t)))] + [causal(looking_at([max(i - far, 0) for i in range(t)], t, share)) for far in (2, 3)]
    aligned = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    cross = [looking_at(keys, n, share) for keys in (aligned, [9] * t, [0] * t)]
    cross += [np.full((t, n), 1 / n), looking_at([8, 7, 8, 5, 6, 7, 4, 2, 1], n, share), looking_at([9, *aligned[:-1]], n, share)]
    return trace(np.reshape(encoder, (2, 3, n, n)), np.stack(decoder)[None], np.stack(cross)[None], SRC, TGT)


LINKS = frozenset((i + 1, i) for i in range(8))
EXPECTED = {
    "encoder_self": ["previous", "next", "same", "start", "end", "punctuation"],
    "decoder_self": ["previous", "same", "start", "broad", "mixed", "mixed"],
    "cross": ["alignment", "end", "start", "broad", "mixed", "alignment_read"],
}


def named(heads: tuple[HeadRole, ...]) -> dict[str, list[str]]:
    return {kind: [head.role for head in heads if head.kind == kind] for kind in EXPECTED}


def test_heads_made_for_a_role_are_found_to_have_it() -> None:
    heads = head_roles(made(), LINKS)
    assert named(heads) == EXPECTED
    assert [(head.kind, head.layer, head.head) for head in heads] == [
        *(("encoder_self", layer, head) for layer in range(2) for head in range(3)),
        *((kind, 0, head) for kind in ("decoder_self", "cross") for head in range(6)),
    ]
    assert {role for roles in EXPECTED.values() for role in roles} == set(ROLES)
    assert set(Counter(head.kind for head in heads)) == set(EXPECTED)


def test_the_score_is_the_measure_of_the_role() -> None:
    for head in head_roles(made(), LINKS):
        assert head.score == head.measures.get(head.role)
        assert head.role == "mixed" or 0.5 < head.score <= 1
    scores = {head.role: head.score for head in head_roles(made(), LINKS) if head.kind == "encoder_self"}
    assert scores["previous"] == pytest.approx(0.8) and scores["start"] == pytest.approx(0.8)


def test_without_most_of_the_weight_there_is_no_role_by_weight() -> None:
    """The rest of the weight is even, so with 0.4 on its key a head is mixed or broad. What it leans to is still told."""
    heads = [head for head in head_roles(made(0.4), LINKS) if head.kind == "encoder_self"]
    assert {head.role for head in heads} <= {"mixed", "broad"}
    assert [head.leaning for head in heads] == EXPECTED["encoder_self"]


def test_decoder_keys_are_the_tokens_read_and_cross_rows_the_tokens_predicted() -> None:
    """The comma is read at position 3 and predicted at 2. Decoder rows that can look back at it from afar do; every row of cross-attention
    looks at the source's, which counts but where a mark is predicted."""
    t, n = len(TGT) - 1, len(SRC)
    decoder = causal(looking_at([3 if row >= 3 else 0 for row in range(t)], t, 1.0))
    cross = looking_at([3] * t, n, 1.0)
    cross[[2, 7]] = np.eye(n)[1]
    heads = head_roles(trace(maps(1, 1, n, n), decoder[None, None], cross[None, None], SRC, TGT), LINKS)
    found = {head.kind: (head.measures["punctuation"], head.rows["punctuation"]) for head in heads}
    # read: rows 5, 6 and 7, as 3 and 4 are the comma and beside it, 8 the full stop; predicted: all nine but two
    assert found["decoder_self"] == (1.0, 3) and found["cross"] == (1.0, 7)


@pytest.mark.parametrize("fault", ["transposed", "shifted", "decoder rows by the token predicted"])
def test_faulty_maps_lose_the_roles(fault: str) -> None:
    """Axes swapped, rows off by one: the expected roles do not come out."""
    right = made()
    encoder, decoder = right.encoder_self_attention, right.decoder_self_attention
    if fault == "transposed":
        encoder = np.swapaxes(encoder, -1, -2) / np.swapaxes(encoder, -1, -2).sum(axis=-1, keepdims=True)
    elif fault == "shifted":
        encoder = np.roll(encoder, 1, axis=-2)
    else:
        decoder = np.stack([[causal(np.roll(head, 1, axis=-1) + 1e-6) for head in layer] for layer in decoder])
    wrong = named(head_roles(trace(encoder, decoder, right.cross_attention, SRC, TGT), LINKS))
    assert wrong != EXPECTED
    assert wrong["cross"] == EXPECTED["cross"]


def test_an_alignment_that_is_given_and_the_mean_of_all_heads_are_told_apart() -> None:
    given, agreed = head_roles(made(), LINKS), head_roles(made())
    assert {head.reference for head in given if head.kind == "cross"} == {"given"}
    assert {head.reference for head in agreed if head.kind == "cross"} == {"mean_of_heads"}
    assert {head.reference for head in (*given, *agreed) if head.kind != "cross"} == {None}
    wrong_links = frozenset((8 - i, i) for i in range(8))
    found = {head.head: head.measures["alignment"] for head in head_roles(made(), wrong_links) if head.kind == "cross"}
    assert found[0] < 0.2


def test_heads_cannot_be_changed_and_say_how_many_rows_they_were_measured_on() -> None:
    head = head_roles(made(), LINKS)[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        head.role = "next"
    assert head.rows["entropy"] == 10 and head.rows["previous"] == 8 and set(head.rows) == set(head.measures)


def test_layers_and_heads_may_differ_between_the_kinds() -> None:
    heads = head_roles(trace())
    assert Counter(head.kind for head in heads) == {"encoder_self": 8, "decoder_self": 6, "cross": 6}
    assert (heads[7].layer, heads[7].head) == (1, 3) and (heads[-1].layer, heads[-1].head) == (2, 1)


def test_the_shortest_sentence_has_no_measures_and_no_role() -> None:
    shortest = trace(maps(1, 1, 1, 1), maps(1, 1, 1, 1), maps(1, 1, 1, 1), ("</s>",), ("<s>", "</s>"))
    for head in head_roles(shortest):
        assert head.role == "mixed" and head.score is None
        assert all(value is None for value in head.measures.values())


@pytest.mark.parametrize(
    "measures, role",
    [
        ({"previous": 0.51, "same": 0.2, "broad": 0.9}, "previous"),
        ({"previous": 0.5, "same": 0.2, "broad": 0.2}, "mixed"),
        ({"previous": 0.6, "start": 0.7}, "start"),
        ({"end": 0.6, "alignment": 0.9}, "end"),
        ({"end": 0.1, "alignment": 0.6, "broad": 0.8}, "alignment"),
        ({"alignment": 0.6, "alignment_read": 0.7, "broad": 0.8}, "alignment_read"),
        ({"alignment": 0.4, "alignment_read": 0.5, "broad": 0.8}, "broad"),
        ({"next": None, "broad": 0.51, "entropy": 3.0, "distance": 9.0, "normalised_entropy": 1.0}, "broad"),
        ({"entropy": 3.0, "distance": 9.0, "normalised_entropy": 1.0}, "mixed"),
    ],
)
def test_the_rules(measures: dict[str, float | None], role: str) -> None:
    assert role_of(measures) == role


class TestManySentences:
    SHORT = ((">>fra<<", "▁Go", ".", "</s>"), ("<s>", "▁Va", ".", "</s>"))

    def test_a_mean_over_rows_not_over_sentences(self) -> None:
        """A head that looks at the start only in the long sentence: nine rows out of ten that could have."""
        n = len(SRC)
        long = trace(np.reshape(looking_at([0] * n, n, 1.0), (1, 1, n, n)), maps(1, 1, 9, 9, causal=True), maps(1, 1, 9, n), SRC, TGT)
        short = trace(np.reshape(looking_at([1] * 4, 4, 1.0), (1, 1, 4, 4)), maps(1, 1, 3, 3, causal=True), maps(1, 1, 3, 4), *self.SHORT)
        tally = RoleTally()
        for sentence in (long, short):
            tally.add(sentence)
        head = tally.heads()[0]
        assert tally.sentences == 2 and head.rows["start"] == 8 + 2
        assert head.measures["start"] == pytest.approx(0.8)
        assert head.measures["entropy"] == 0

    def test_sentences_without_a_row_to_measure_add_nothing(self) -> None:
        no_mark = (">>fra<<", "▁the", "▁cat", "▁sat", "</s>")
        tally = RoleTally()
        tally.add(trace(src_tokens=no_mark))
        assert tally.heads()[0].measures["punctuation"] is None
        tally.add(trace(src_tokens=(*no_mark[:-1], ".", "</s>"), seed=3))
        head = tally.heads()[0]
        assert head.rows["punctuation"] == 3 and 0 < head.measures["punctuation"] < 1

    def test_the_order_of_sentences_does_not_matter(self) -> None:
        sentences = [trace(seed=seed) for seed in range(4)]
        forward, backward = RoleTally(), RoleTally()
        for one, other in zip(sentences, sentences[::-1], strict=True):
            forward.add(one)
            backward.add(other)
        for left, right in zip(forward.heads(), backward.heads(), strict=True):
            assert left.measures == pytest.approx(right.measures)

    def test_a_sentence_twice_is_the_sentence_once(self) -> None:
        tally = RoleTally()
        tally.add(trace())
        once = tally.heads()
        tally.add(trace())
        for left, right in zip(tally.heads(), once, strict=True):
            assert left.measures == pytest.approx(right.measures) and left.role == right.role

    def test_adding_a_sentence_leaves_what_was_read_before_as_it_was(self) -> None:
        tally = RoleTally()
        tally.add(trace())
        before = [dict(head.measures) for head in tally.heads()]
        once = tally.heads()
        tally.add(trace(seed=9))
        assert [dict(head.measures) for head in once] == before

    def test_each_sentence_has_a_reference_of_its_own(self) -> None:
        sentences = [trace(seed=seed) for seed in (0, 5)]
        tally = RoleTally()
        parts = []
        for sentence in sentences:
            tally.add(sentence)
            parts.append(cross_measures(sentence.cross_attention, sentence.src_tokens, sentence.tgt_out_tokens)["alignment"])
        head = tally.heads()[-1]
        assert head.measures["alignment"] == (parts[0].total[2, 1] + parts[1].total[2, 1]) / (parts[0].rows + parts[1].rows)

    def test_no_sentence_another_model_and_half_an_alignment_are_errors(self) -> None:
        tally = RoleTally()
        with pytest.raises(ValueError, match="no sentence"):
            tally.heads()
        tally.add(trace())
        with pytest.raises(ValueError, match="encoder_self has 1 layers of 4 heads, the sentences before had 2 of 4"):
            tally.add(trace(encoder=maps(1, 4, 5, 5)))
        with pytest.raises(ValueError, match="for all sentences or for none"):
            tally.add(trace(), frozenset({(1, 0)}))
        assert tally.sentences == 1
