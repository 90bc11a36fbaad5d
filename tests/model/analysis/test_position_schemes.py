"""RoPE and ALiBi against their papers' definitions, in other words: complex numbers, and the slopes that the ALiBi paper prints."""

from __future__ import annotations

import math

import numpy as np
import pytest

from model.analysis.position_facts import similarity
from model.analysis.position_schemes import alibi_scores, alibi_slopes, rotary_scores, rotate, sinusoidal_scores
from model.positional import sinusoidal_table


def rotated(x: np.ndarray, position: int) -> np.ndarray:
    """A pair is a complex number; turning it is multiplying by e^(i m theta)."""
    pairs = (x[0::2] + 1j * x[1::2]) * np.array([np.exp(1j * position * 10000 ** (-2 * i / len(x))) for i in range(len(x) // 2)])
    return np.stack([pairs.real, pairs.imag], axis=-1).reshape(-1)


def test_rotary_positions_multiply_pairs_as_complex_numbers() -> None:
    x = np.random.default_rng(3).normal(size=(4, 6))
    positions = np.array([0, 5, 2, 9])
    for row, position, found in zip(x, positions, rotate(x, positions), strict=True):
        np.testing.assert_allclose(found, rotated(row, position), atol=1e-12)
    with pytest.raises(ValueError, match="even; it is 5"):
        rotate(np.ones(5), positions)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    q, k = np.random.default_rng(4).normal(size=(2, 8))
    assert rotated(q, 3) @ rotated(k, 7) == pytest.approx(rotated(q, 20) @ rotated(k, 24))
    assert rotated(q, 3) @ rotated(k, 7) != pytest.approx(rotated(q, 7) @ rotated(k, 3))  # unlike the added code it knows the direction
    found = rotary_scores(8, 12)
    by_hand = [(sum(2 * math.cos(n * 10000 ** (-2 * i / 8)) for i in range(4)) - 8) / math.sqrt(8) for n in range(12)]
    assert found == pytest.approx(by_hand, abs=1e-12)
    assert rotary_scores(8, 12, start=31) == pytest.approx(by_hand, abs=1e-12)


def test_slopes_are_those_that_the_paper_prints() -> None:
    assert alibi_slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert alibi_slopes(16) == pytest.approx([2 ** (-n / 2) for n in range(1, 17)])  # from 2^-0.5 to 2^-8
    assert alibi_slopes(1).tolist() == [2**-8]
    assert alibi_slopes(6) == pytest.approx([2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])  # 4 heads, then every other one of 8
    with pytest.raises(ValueError, match="at least 1"):
        alibi_slopes(0)


def test_alibi_takes_away_the_slope_for_every_token_between() -> None:
    assert alibi_scores(2, 4).tolist() == [[0, -(2**-4), -(2**-3), -3 * 2**-4], [0, -(2**-8), -(2**-7), -3 * 2**-8]]


@pytest.mark.parametrize("layout", ["interleaved", "halves"])
def test_added_positions_on_the_same_scale(layout: str) -> None:
    table = sinusoidal_table(30, 20, layout).numpy().astype(np.float64)
    found = sinusoidal_scores(similarity(table).dot, 20)
    assert found[0] == 0 and found[9] == pytest.approx((table[4] @ table[13] - table[4] @ table[4]) / math.sqrt(20), abs=1e-6)
