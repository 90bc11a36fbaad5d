"""Attention rollout against a sum over all paths through the network, walked edge by edge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.analysis.rollout import cross_rollout, rollout, self_rollout
from model.results import AttentionTrace
from tests.model.analysis.samples import maps, trace

Path = tuple[float, tuple[str, int]]  # its weight, and the input it ends in


def head_mean(layer: np.ndarray, query: int, key: int) -> float:
    return sum(float(head[query, key]) for head in layer) / len(layer)


def encoder_paths(attention: np.ndarray, depth: int, position: int) -> Iterator[Path]:
    """Every path from an encoder state after `depth` layers down to a source token."""
    if depth == 0:
        yield 1.0, ("source", position)
        return
    edges = [(0.5, position)] + [(0.5 * head_mean(attention[depth - 1], position, key), key) for key in range(attention.shape[-1])]
    for weight, below in edges:
        for rest, end in encoder_paths(attention, depth - 1, below):
            yield weight * rest, end


def decoder_paths(maps: AttentionTrace, depth: int, position: int, after_cross: bool = True) -> Iterator[Path]:
    """Every path from a decoder state after `depth` layers down to a source token or a token read."""
    if depth == 0:
        yield 1.0, ("read", position)
        return
    encoder = maps.encoder_self_attention
    if after_cross:
        edges = [(0.5, decoder_paths(maps, depth, position, after_cross=False))]
        for key in range(encoder.shape[-1]):
            weight = 0.5 * head_mean(maps.cross_attention[depth - 1], position, key)
            edges.append((weight, encoder_paths(encoder, len(encoder), key)))
    else:
        edges = [(0.5, decoder_paths(maps, depth - 1, position))]
        for key in range(position + 1):
            weight = 0.5 * head_mean(maps.decoder_self_attention[depth - 1], position, key)
            edges.append((weight, decoder_paths(maps, depth - 1, key)))
    for weight, below in edges:
        for rest, end in below:
            yield weight * rest, end


def collected(paths: Iterator[Path]) -> dict[tuple[str, int], float]:
    total: dict[tuple[str, int], float] = defaultdict(float)
    for weight, end in paths:
        total[end] += weight
    return total


SMALL = trace(
    encoder=maps(3, 4, 3, 3, seed=5),
    decoder=maps(2, 2, 4, 4, seed=6, causal=True),
    cross=maps(2, 2, 4, 3, seed=7),
    src_tokens=(">>fra<<", "▁cat", "</s>"),
    tgt_tokens=("<s>", "▁le", "▁chat", "▁noir", "</s>"),
)


def test_encoder_is_the_sum_over_all_paths() -> None:
    rolled = rollout(SMALL).encoder_self
    for depth in (1, 2, 3):
        for position in range(3):
            expected = collected(encoder_paths(SMALL.encoder_self_attention, depth, position))
            assert rolled[depth - 1, position] == pytest.approx([expected["source", key] for key in range(3)], abs=1e-6)


@pytest.mark.parametrize("depth", [1, 2])
def test_decoder_and_cross_are_the_two_parts_of_the_sum_over_all_paths(depth: int) -> None:
    rolled = rollout(SMALL)
    for position in range(4):
        expected = collected(decoder_paths(SMALL, depth, position))
        read = np.array([expected["read", key] for key in range(4)])
        source = np.array([expected["source", key] for key in range(3)])
        assert read.sum() == pytest.approx(0.5**depth) and source.sum() == pytest.approx(1 - 0.5**depth)
        assert rolled.decoder_self[depth - 1, position] == pytest.approx(read / read.sum(), abs=1e-6)
        assert rolled.cross[depth - 1, position] == pytest.approx(source / source.sum(), abs=1e-6)


@pytest.mark.parametrize("swap", ["transposed", "layers reversed", "no encoder"])
def test_the_paths_would_tell_a_wrong_rollout(swap: str) -> None:
    """The faults nearest at hand give other numbers, so the tests above can fail."""
    encoder, cross, decoder = SMALL.encoder_self_attention, SMALL.cross_attention, SMALL.decoder_self_attention
    whole = self_rollout(encoder)[-1]
    wrong = {"transposed": whole.T, "layers reversed": self_rollout(encoder[::-1])[-1], "no encoder": np.eye(3)}[swap]
    assert not np.allclose(cross_rollout(whole, decoder, cross), cross_rollout(wrong, decoder, cross), atol=1e-3)


def test_one_layer_by_hand() -> None:
    """Two heads, the mean of which is [[0.4, 0.6], [0.9, 0.1]]."""
    layer = np.array([[[0.2, 0.8], [1.0, 0.0]], [[0.6, 0.4], [0.8, 0.2]]])
    assert self_rollout(layer[None])[0] == pytest.approx(np.array([[0.7, 0.3], [0.45, 0.55]]))
    twice = np.array([[0.7 * 0.7 + 0.3 * 0.45, 0.7 * 0.3 + 0.3 * 0.55], [0.45 * 0.7 + 0.55 * 0.45, 0.45 * 0.3 + 0.55 * 0.55]])
    assert self_rollout(np.stack([layer, layer]))[1] == pytest.approx(twice)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(1, 5), st.integers(0, 10_000))
def test_rows_sum_to_one_and_nothing_comes_from_later_tokens(layers: int, heads: int, src_len: int, tgt_len: int, seed: int) -> None:
    source, target = tuple("abcdef"[:src_len]), tuple("uvwxyz"[: tgt_len + 1])
    given_maps = trace(
        maps(layers, heads, src_len, src_len, seed=seed, sharpness=4),
        maps(layers + 1, heads, tgt_len, tgt_len, seed=seed + 1, causal=True, sharpness=4),
        maps(layers + 1, heads, tgt_len, src_len, seed=seed + 2, sharpness=4),
        source,
        target,
    )
    rolled = rollout(given_maps)
    shapes = [(layers, src_len, src_len), (layers + 1, tgt_len, tgt_len), (layers + 1, tgt_len, src_len)]
    for part, shape in zip((rolled.encoder_self, rolled.decoder_self, rolled.cross), shapes, strict=True):
        assert part.shape == shape and part.dtype == np.float32
        assert (part >= 0).all()
        np.testing.assert_allclose(part.sum(axis=-1), 1, atol=1e-5)
    assert not np.triu(rolled.decoder_self, k=1).any()
    # a state keeps at least half of itself in every layer
    for depth, part in enumerate(rolled.encoder_self, 1):
        assert (np.diag(part) >= 0.5**depth - 1e-6).all()


def test_an_encoder_that_looks_at_itself_stays_where_it_is_and_cross_is_then_a_mean_of_raw_maps() -> None:
    still = np.broadcast_to(np.eye(5, dtype=np.float32), (2, 4, 5, 5))
    alone = np.broadcast_to(np.eye(6, dtype=np.float32), (3, 2, 6, 6))
    given_maps = trace(encoder=still, decoder=alone)
    rolled = rollout(given_maps)
    np.testing.assert_array_equal(rolled.encoder_self[-1], np.eye(5))
    # the last layer has half, the one below a quarter, the first an eighth: of seven eighths
    raw = given_maps.cross_attention.mean(axis=1)
    np.testing.assert_allclose(rolled.cross[-1], (raw[0] + 2 * raw[1] + 4 * raw[2]) / 7, atol=1e-6)


def test_renaming_source_positions_renames_columns_and_nothing_else() -> None:
    order = np.array([2, 0, 4, 1, 3])
    plain = trace()
    moved = trace(
        plain.encoder_self_attention[..., order, :][..., order], plain.decoder_self_attention, plain.cross_attention[..., order]
    )
    np.testing.assert_allclose(rollout(moved).cross, rollout(plain).cross[..., order], atol=1e-6)
    np.testing.assert_allclose(rollout(moved).encoder_self, rollout(plain).encoder_self[..., order, :][..., order], atol=1e-6)
    assert not np.allclose(rollout(plain).cross, rollout(plain).cross[..., order], atol=1e-2)
