"""Measures of heads: maps whose measures are known, and every measure once more in plain loops over rows and keys."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.analysis.measures import RowSum, cross_measures, is_punctuation, is_special, self_measures
from tests.model.analysis.samples import maps

# A repeated word and two punctuation marks: no position is told by its string.
TOKENS = (">>fra<<", "▁the", "▁cat", ",", "▁the", "▁dog", "▁and", "▁the", "▁cat", ".", "</s>")
READ = ("<s>", "▁le", "▁chat", ",", "▁le", "▁chien", "▁et", "▁le", "▁chat")
PREDICTED = (*READ[1:], "</s>")


def value(measure: RowSum) -> np.ndarray:
    return measure.total / measure.rows


def on_keys(keys: list[list[int]], size: int) -> np.ndarray:
    """One head [1, 1, Q, K] whose rows put even weight on the named keys."""
    rows = np.zeros((1, 1, len(keys), size), dtype=np.float32)
    for row, chosen in enumerate(keys):
        rows[0, 0, row, chosen] = 1 / len(set(chosen))
    return rows


def looped(attention: np.ndarray, tokens: tuple[str, ...], causal: bool) -> dict[str, tuple[float, int]]:
    """The definitions of self-attention's measures, row by row and key by key, for one head [K, K]: (mean, rows)."""
    size, found = len(tokens), {}
    seen: dict[str, list[float]] = {}

    def count(name: str, amount: float) -> None:
        seen.setdefault(name, []).append(amount)

    def middle(place: int) -> bool:
        return place > 0 and (causal or place < size - 1)

    for i in range(size):
        keys = [j for j in range(size) if j <= i or not causal]
        weights = [float(attention[i, j]) for j in range(size)]
        for name, step in (("previous", -1), ("same", 0), ("next", 1)):
            if i + step in keys and middle(i + step):
                count(name, weights[i + step])
        if i >= 2:
            count("start", weights[0])
        if not causal and i <= size - 3:
            count("end", weights[size - 1])
        marks = [j for j in keys if tokens[j] in {",", "."} and middle(j)]
        if marks and all(abs(i - j) > 1 for j in marks):
            count("punctuation", sum(weights[j] for j in marks))
        if len(keys) > 1:
            entropy = -sum(w * math.log(w) for w in weights if w > 0)
            count("distance", sum(w * abs(i - j) for j, w in enumerate(weights)))
            count("entropy", entropy)
            count("normalised_entropy", min(entropy / math.log(len(keys)), 1))
            count("broad", min((math.exp(entropy) - 1) / (len(keys) - 1), 1))
    for name, amounts in seen.items():
        found[name] = (sum(amounts) / len(amounts), len(amounts))
    return found


@pytest.mark.parametrize("kind, tokens", [("encoder_self", TOKENS), ("decoder_self", READ), ("encoder_self", TOKENS[-5:])])
def test_self_measures_are_their_definitions(kind: str, tokens: tuple[str, ...]) -> None:
    attention = maps(2, 3, len(tokens), len(tokens), causal=kind == "decoder_self", sharpness=2.5)
    found = self_measures(attention, tokens, kind)
    for layer, head in np.ndindex(2, 3):
        expected = looped(attention[layer, head], tokens, kind == "decoder_self")
        assert {name for name, measure in found.items() if measure.rows} == set(expected)
        for name, (mean, rows) in expected.items():
            assert found[name].rows == rows, name
            assert found[name].total[layer, head] / rows == pytest.approx(mean, abs=1e-6), name


def test_the_loops_tell_a_transposed_map_and_a_shifted_sentence() -> None:
    attention = maps(1, 1, 11, 11, sharpness=2.5)
    found = {name: value(measure)[0, 0] for name, measure in self_measures(attention, TOKENS, "encoder_self").items()}
    for wrong in (attention[0, 0].T, np.roll(attention[0, 0], 1, axis=0), np.roll(attention[0, 0], 1, axis=1)):
        expected = looped(wrong, TOKENS, causal=False)
        for name in ("previous", "next", "start", "end", "punctuation"):
            assert abs(expected[name][0] - found[name]) > 1e-4, name


class TestKnownHeads:
    """A head that does one thing has 1 there and 0 elsewhere."""

    @pytest.mark.parametrize(
        "name, keys",
        [
            ("previous", [[max(i - 1, 0)] for i in range(11)]),
            ("next", [[min(i + 1, 10)] for i in range(11)]),
            ("same", [[i] for i in range(11)]),
            ("start", [[0]] * 11),
            ("end", [[10]] * 11),
            ("punctuation", [[3, 9]] * 11),
        ],
    )
    def test_in_the_encoder(self, name: str, keys: list[list[int]]) -> None:
        found = self_measures(on_keys(keys, 11), TOKENS, "encoder_self")
        assert value(found[name]) == pytest.approx(1)
        others = {"previous", "next", "start", "end"} - {name}
        if name == "punctuation":  # its rows beside a mark do look at the next and the previous token
            assert all(value(found[other])[0, 0] < 0.2 for other in others)
        else:
            assert all(found[other].total[0, 0] == 0 for other in others)
            assert value(found["entropy"]) == 0 and value(found["broad"]) == 0

    @pytest.mark.parametrize(
        "name, keys", [("previous", [[max(i - 1, 0)] for i in range(9)]), ("same", [[i] for i in range(9)]), ("start", [[0]] * 9)]
    )
    def test_in_the_decoder(self, name: str, keys: list[list[int]]) -> None:
        found = self_measures(on_keys(keys, 9), READ, "decoder_self")
        assert value(found[name]) == pytest.approx(1)
        assert all(found[other].total[0, 0] == 0 for other in {"previous", "same", "start"} - {name})

    def test_a_decoder_has_no_next_token_and_no_end(self) -> None:
        found = self_measures(maps(1, 1, 9, 9, causal=True), READ, "decoder_self")
        assert found["next"].rows == found["end"].rows == 0

    def test_causal_rows_are_even_over_the_keys_they_may_attend_to(self) -> None:
        """Spread over all nine keys they would be called even only in the last row."""
        keys = [list(range(i + 1)) for i in range(9)]
        found = self_measures(on_keys(keys, 9), READ, "decoder_self")
        assert found["entropy"].rows == 8  # the first row has no choice
        assert value(found["normalised_entropy"]) == pytest.approx(1) and value(found["broad"]) == pytest.approx(1)
        assert value(found["entropy"]) == pytest.approx(sum(math.log(n) for n in range(2, 10)) / 8)

    def test_half_of_the_keys_evenly_is_a_half(self) -> None:
        """Six of eleven keys: (6 - 1) / (11 - 1)."""
        found = self_measures(on_keys([[0, 2, 4, 6, 8, 10]] * 11, 11), TOKENS, "encoder_self")
        assert value(found["broad"]) == pytest.approx(0.5)

    def test_distance_is_in_tokens(self) -> None:
        found = self_measures(on_keys([[max(i - 2, 0), max(i - 6, 0)] for i in range(11)], 11), TOKENS, "encoder_self")
        # half of the weight two tokens back and half six, or as far as the sentence allows
        expected = [0, 1, 2, 2.5, 3, 3.5, 4, 4, 4, 4, 4]
        assert value(found["distance"]) == pytest.approx(sum(expected) / 11)


class TestCross:
    SRC = (">>fra<<", "▁the", "▁cat", ",", "▁black", "</s>")
    OUT = ("▁le", "▁chat", ",", "▁noir", "</s>")

    def test_a_sink_on_the_end_is_not_measured_where_the_end_is_predicted(self) -> None:
        found = cross_measures(on_keys([[5], [5], [5], [5], [1]], 6), self.SRC, self.OUT)
        assert found["end"].rows == 4 and value(found["end"]) == 1
        assert found["start"].rows == 5 and value(found["start"]) == 0

    def test_an_unfinished_translation_counts_in_all_rows(self) -> None:
        found = cross_measures(on_keys([[5], [5], [0], [0]], 6), self.SRC, self.OUT[:4])
        assert found["end"].rows == found["start"].rows == 4
        assert value(found["end"]) == value(found["start"]) == 0.5

    def test_punctuation_is_not_measured_where_it_is_predicted(self) -> None:
        found = cross_measures(on_keys([[3], [3], [1], [3], [3]], 6), self.SRC, self.OUT)
        assert found["punctuation"].rows == 4 and value(found["punctuation"]) == 1

    def test_what_means_nothing_between_two_languages_is_left_out(self) -> None:
        found = cross_measures(maps(1, 1, 5, 6), self.SRC, self.OUT)
        assert set(found) == {"start", "end", "punctuation", "alignment", "alignment_read", "entropy", "normalised_entropy", "broad"}

    def test_agreement_with_an_alignment_that_is_given(self) -> None:
        """The head is right on le and noir, wrong on chat; nothing is said of the comma, which so doesn't count."""
        attention = on_keys([[1], [4], [3], [4], [5]], 6)
        links = frozenset({(1, 0), (2, 1), (2, 3), (4, 3)})
        found = cross_measures(attention, self.SRC, self.OUT, links)["alignment"]
        assert found.rows == 3 and value(found) == pytest.approx(2 / 3)
        swapped = frozenset((target, source) for source, target in links)
        assert cross_measures(attention, self.SRC, self.OUT, swapped)["alignment"].total != found.total

    def test_a_token_is_read_in_the_row_after_the_one_that_predicts_it(self) -> None:
        """Rows read: start, le, chat, the comma, noir. The head is right where it has read le and noir, wrong at chat."""
        attention = on_keys([[1], [1], [4], [2], [4]], 6)
        links = frozenset({(1, 0), (2, 1), (4, 3)})
        found = cross_measures(attention, self.SRC, self.OUT, links)
        assert found["alignment_read"].rows == 3 and value(found["alignment_read"]) == pytest.approx(2 / 3)
        assert value(found["alignment"]) == pytest.approx(1 / 3)
        assert cross_measures(np.roll(attention, -1, axis=-2), self.SRC, self.OUT, links)["alignment"].total == 2

    def test_weight_on_special_tokens_does_not_hide_the_word(self) -> None:
        attention = np.zeros((1, 1, 5, 6), dtype=np.float32)
        attention[..., 0], attention[..., 5], attention[..., 2] = 0.3, 0.5, 0.2
        links = frozenset({(2, 1), (1, 3), (5, 4)})
        found = cross_measures(attention, self.SRC, self.OUT, links)["alignment"]
        assert found.rows == 2 and value(found) == 0.5  # the row of the end token does not count

    def test_without_one_the_reference_is_the_mean_of_all_heads_of_all_layers(self) -> None:
        """Two layers of two heads: three look at the right words, one elsewhere; its weight is not enough to outvote them."""
        right, other = [[1], [2], [3], [4], [5]], [[2], [2], [1], [4], [5]]
        attention = np.concatenate([on_keys(keys, 6) for keys in (right, other, right, right)]).reshape(2, 2, 5, 6)
        found = cross_measures(attention, self.SRC, self.OUT)["alignment"]
        assert found.rows == 4
        assert value(found).tolist() == [[1, 0.5], [1, 1]]

    def test_one_word_leaves_no_choice(self) -> None:
        found = cross_measures(maps(2, 3, 2, 3), (">>fra<<", "▁Go", "</s>"), ("▁Va", "</s>"))["alignment"]
        assert found.rows == 0 and found.total.shape == (2, 3)

    @pytest.mark.parametrize("link", [(6, 0), (0, 5), (-1, 0), (0, -1)])
    def test_a_link_outside_the_sentence_is_an_error(self, link: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="6 source and 5 target tokens"):
            cross_measures(maps(1, 1, 5, 6), self.SRC, self.OUT, frozenset({link}))


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 8), st.integers(0, 10_000), st.sampled_from([0.0, 1.0, 30.0]))
def test_all_but_entropy_and_distance_lie_between_0_and_1(layers: int, heads: int, size: int, seed: int, sharpness: float) -> None:
    tokens = np.random.default_rng(seed).choice(["<s>", "▁a", ".", "!", "▁b", "</s>"], size)
    square = maps(layers, heads, size, size, seed=seed, sharpness=sharpness)
    causal = maps(layers, heads, size, size, seed=seed, sharpness=sharpness, causal=True)
    wide = maps(layers, heads, size, size + 2, seed=seed, sharpness=sharpness)
    for found in (
        self_measures(square, tokens, "encoder_self"),
        self_measures(causal, tokens, "decoder_self"),
        cross_measures(wide, (*tokens, "▁c", "</s>"), tokens),
    ):
        for name, measure in found.items():
            assert measure.total.shape == (layers, heads) and 0 <= measure.rows <= size
            most = {"entropy": math.log(size + 2), "distance": size - 1}.get(name, 1)
            assert np.isfinite(measure.total).all()
            assert (measure.total >= 0).all() and (measure.total <= most * measure.rows + 1e-5).all(), name


@settings(deadline=None)
@given(st.integers(3, 9), st.integers(0, 10_000))
def test_weight_is_not_counted_twice(size: int, seed: int) -> None:
    """Previous, same, next, start and end name different keys, so their sums over rows are at most the number of rows."""
    tokens = ("▁a",) * (size - 1) + ("</s>",)
    found = self_measures(maps(1, 2, size, size, seed=seed), tokens, "encoder_self")
    assert (sum(found[name].total for name in ("previous", "same", "next", "start", "end")) <= size + 1e-5).all()


@pytest.mark.parametrize("token", [",", "▁.", "...", "。", "？", "«", "▁-", "'", "¿", "▁(", "…"])
def test_punctuation(token: str) -> None:
    assert is_punctuation(token) and not is_special(token)


@pytest.mark.parametrize("token", ["▁", "", "▁a", "a.", "12", "$", "+", "<s>", "</s>", "<pad>", ">>fra<<", "<0xE4>", "😀 1/4", "▁l'"])
def test_not_punctuation(token: str) -> None:
    assert not is_punctuation(token)


def test_special_tokens() -> None:
    assert all(is_special(token) for token in ("<s>", "</s>", "<pad>", ">>fra<<", ">>cmn_Hans<<"))
    assert not any(is_special(token) for token in ("<unk>", "▁<s>", ">>", "s", "▁>>fra<<", ">>a<<b<<", "<0x0A>"))


@pytest.mark.parametrize("tokens", ["a b c d e", ">>fra<< b c d </s>", "a <pad> c <s> e", "<pad> <pad> c d </s>"])
def test_alignment_looks_for_the_largest_weight_among_words_only(tokens: str) -> None:
    """Special tokens may stand anywhere, also between the words."""
    src_tokens = tokens.split()
    words = [i for i, token in enumerate(src_tokens) if not is_special(token)]
    attention = maps(2, 3, 4, 5, seed=5)
    mean = attention.mean(axis=(0, 1))

    def best(row: np.ndarray) -> int:
        return max(words, key=lambda key: row[key])

    expected = [[sum(best(head[i]) == best(mean[i]) for i in range(4)) for head in layer] for layer in attention]
    found = cross_measures(attention, src_tokens, ["w", "x", "y", "z"])["alignment"]
    assert found.rows == 4
    np.testing.assert_array_equal(found.total, expected)
