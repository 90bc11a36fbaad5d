"""Facts about the table, each against the formula written out in loops, in both layouts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from model.analysis.position_facts import (
    first_rise,
    pair_angles,
    pair_changes,
    pair_columns,
    rises,
    rotation,
    rotation_residuals,
    similarity,
    wavelengths,
)
from model.positional import sinusoidal_table

LAYOUTS = ["interleaved", "halves"]


def table(num_positions: int, d_model: int, layout: str) -> np.ndarray:
    return sinusoidal_table(num_positions, d_model, layout).numpy()


def published_dot(d_model: int, k: int) -> float:
    """PE(p) . PE(p + k) by the paper's formula: sin a sin b + cos a cos b = cos(a - b), pair by pair."""
    return math.fsum(math.cos(k / 10000 ** (2 * i / d_model)) for i in range(d_model // 2))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_wavelengths_read_off_the_table_are_those_of_the_formula(layout: str) -> None:
    found = wavelengths(table(5, 24, layout), layout)
    assert found == pytest.approx([2 * math.pi * 10000 ** (2 * i / 24) for i in range(12)], rel=1e-6)
    assert found[0] == pytest.approx(2 * math.pi) and list(found) == sorted(found)


def test_the_two_layouts_place_their_pairs_differently() -> None:
    assert [each.tolist() for each in pair_columns(6, "interleaved")] == [[0, 2, 4], [1, 3, 5]]
    assert [each.tolist() for each in pair_columns(6, "halves")] == [[0, 1, 2], [3, 4, 5]]
    assert not np.allclose(wavelengths(table(5, 24, "halves"), "interleaved"), wavelengths(table(5, 24, "halves"), "halves"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_similarity_depends_on_the_distance_alone(layout: str) -> None:
    rows = table(90, 32, layout)
    found = similarity(rows)
    assert found.dot == pytest.approx([published_dot(32, k) for k in range(90)], abs=1e-5)
    assert found.scale == pytest.approx(16, abs=1e-5) and found.cosine[7] == pytest.approx(published_dot(32, 7) / 16, abs=1e-6)
    assert 0 < found.spread < 1e-5  # float32 is not exact
    moved = rows.copy()
    moved[40] = rows[41]  # a place that breaks the rule
    assert similarity(moved).spread > 0.1


@pytest.mark.parametrize(("d_model", "expected"), [(512, 44), (256, 25), (128, 12), (64, 6)])
def test_the_first_rise_is_where_the_exact_sums_first_rise(d_model: int, expected: int) -> None:
    exact = [published_dot(d_model, k) for k in range(200)]
    by_hand = next(k for k in range(1, 200) if exact[k] > exact[k - 1])
    assert first_rise(similarity(table(200, d_model, "halves")).dot) == by_hand == expected


def test_rises_are_found_as_stretches() -> None:
    assert rises(np.array([5.0, 4, 4, 4.5, 6, 1, 2, 0])) == [(2, 4), (5, 6)]
    assert first_rise(np.array([5.0, 4, 4, 4.5, 6])) == 3
    assert rises(np.array([3.0, 3, 1])) == [] and first_rise(np.array([3.0, 3, 1])) is None
    assert first_rise(np.array([1.0, 2, 0])) == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_step_of_the_dot_product_is_the_sum_of_its_pairs(layout: str) -> None:
    rows = table(60, 32, layout)
    changes = pair_changes(rows, layout, 7)
    by_formula = [math.cos(7 / 10000 ** (2 * i / 32)) - math.cos(6 / 10000 ** (2 * i / 32)) for i in range(16)]
    assert changes == pytest.approx(by_formula, abs=1e-6)
    assert changes.sum() == pytest.approx(rows[0] @ rows[7] - rows[0] @ rows[6], abs=1e-5)
    for k in (0, 60):
        with pytest.raises(ValueError, match="1 .. 59"):
            pair_changes(rows, layout, k)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [0, 1, 13])
def test_one_rotation_moves_every_position(layout: str, k: int) -> None:
    rows = table(50, 20, layout).astype(np.float64)
    matrix = rotation(20, layout, k)
    np.testing.assert_allclose(rows[: 50 - k] @ matrix.T, rows[k:], atol=2e-7)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(20), atol=1e-12)
    blocks = [sorted(np.flatnonzero(matrix[d])) for d in range(20)]
    partner = (lambda d: d ^ 1) if layout == "interleaved" else (lambda d: (d + 10) % 20)
    assert k == 0 or blocks == [sorted({d, partner(d)}) for d in range(20)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_residuals_are_the_largest_differences(layout: str) -> None:
    rows = table(40, 20, layout)
    found = rotation_residuals(rows, layout, range(0, 30, 7))
    for value, k in zip(found, range(0, 30, 7), strict=True):
        turned = rows[: 40 - k].astype(np.float64) @ rotation(20, layout, k).T
        assert value == pytest.approx(np.abs(turned - rows[k:]).max(), rel=1e-6, abs=1e-15)
        assert value < 2e-7
    other = LAYOUTS[1 - LAYOUTS.index(layout)]
    assert rotation_residuals(rows, other, range(3, 4))[0] > 0.1  # the wrong pairs: no rotation moves them
    broken = rows.copy()
    broken[31, 2] += 1e-3
    assert rotation_residuals(broken, layout, range(7, 8))[0] == pytest.approx(1e-3, rel=1e-2)
    with pytest.raises(ValueError, match="0 .. 39"):
        rotation_residuals(rows, layout, range(40, 41))


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(ValueError, match="even"):
        pair_columns(7, "halves")
    with pytest.raises(ValueError, match="interleaved, halves"):
        pair_columns(8, "marian")
    with pytest.raises(ValueError, match=r"\(1, 8\)"):
        wavelengths(np.zeros((1, 8)), "halves")
    with pytest.raises(ValueError, match=r"\(8,\)"):
        similarity(np.zeros(8))
    assert pair_angles(8) == pytest.approx([1, 0.1, 0.01, 0.001])
