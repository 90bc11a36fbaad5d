"""What a table of sines and cosines does, measured on the table itself (Vaswani et al. 2017, section 3.5).

Pair i is one sine and one cosine of the same angle, which grows by 10000^(-2i/d_model) from one position to the next. `layout` says where
a pair lies in a row (see `model.positional`). All is computed in float64 from the float32 numbers that the model adds.
"""

# P positions, D d_model, I = D / 2 pairs

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LAYOUTS = ("interleaved", "halves")


def pair_columns(d_model: int, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Columns of the sines and of the cosines, pair by pair: two int64 [I]. Raises ValueError for an odd width or an unknown layout."""
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model must be even, since sines and cosines come in pairs; it is {d_model}")
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
    pairs = np.arange(d_model // 2)
    return (2 * pairs, 2 * pairs + 1) if layout == "interleaved" else (pairs, d_model // 2 + pairs)


def pair_angles(d_model: int) -> np.ndarray:
    """What the paper's formula adds to the angle of each pair from one position to the next, in radians: float64 [I]."""
    return 10_000.0 ** (-2 * np.arange(d_model // 2) / d_model)


def wavelengths(table: np.ndarray, layout: str) -> np.ndarray:
    """Positions after which each pair comes round, read off the table: 2 pi over the angle in row 1. float64 [I].

    table [P, D] with at least two rows, the first of which is position 0. Raises ValueError otherwise, and as `pair_columns` does.
    """
    rows = _rows(table, 2)
    sines, cosines = pair_columns(rows.shape[1], layout)
    return 2 * np.pi / np.arctan2(rows[1, sines], rows[1, cosines])


@dataclass(frozen=True)
class Similarity:
    """Dot products of all pairs of rows that lie k positions apart, k = 0 .. P - 1.

    dot      their mean over all places, float64 [P]
    spread   by how much they differ between places, at the distance where they differ most: rounding, if only the distance counts
    scale    the dot product of a row with itself, D / 2: dot / scale is the cosine, since all rows are equally long
    """

    dot: np.ndarray
    spread: float
    scale: float

    @property
    def cosine(self) -> np.ndarray:
        """float64 [P]."""
        return self.dot / self.scale


def similarity(table: np.ndarray) -> Similarity:
    """How alike rows of table [P, D] are by their distance. PE(p) . PE(p+k) is one number for +k and -k: it carries no direction."""
    rows = _rows(table, 1)
    products = rows @ rows.T  # [P, P]
    diagonals = [np.diagonal(products, k) for k in range(len(rows))]
    dot = np.array([each.mean() for each in diagonals])
    return Similarity(dot, max(float(np.ptp(each)) for each in diagonals), float(dot[0]))


def rises(values: np.ndarray) -> list[tuple[int, int]]:
    """Stretches over which `values` [P] grow, as (from, to): values[from] < values[from + 1] < ... < values[to]. In order."""
    found: list[tuple[int, int]] = []
    for k in range(1, len(values)):
        if values[k] > values[k - 1]:
            start = found.pop()[0] if found and found[-1][1] == k - 1 else k - 1
            found.append((start, k))
    return found


def first_rise(values: np.ndarray) -> int | None:
    """The first k at which values[k] > values[k - 1]; None if they never grow."""
    found = rises(values)
    return found[0][0] + 1 if found else None


def rise_at(d_model: int, rows: int = 256) -> int | None:
    """`first_rise` of the product at another width, within so many rows, by the formula: the sum over pairs of cos(k * angle)."""
    return first_rise(np.cos(np.arange(rows)[:, None] * pair_angles(d_model)).sum(axis=1))


def pair_changes(table: np.ndarray, layout: str, k: int) -> np.ndarray:
    """What each pair adds to PE(0) . PE(k) in the step from k - 1 to k: float64 [I]; they sum to the whole step.

    At position 0 all sines are 0 and all cosines 1, so the dot product with it is the sum of a row's cosines.
    Raises ValueError for a k outside 1 .. P - 1.
    """
    rows = _rows(table, 2)
    if not 1 <= k < len(rows):
        raise ValueError(f"k must lie in 1 .. {len(rows) - 1}, it is {k}")
    _, cosines = pair_columns(rows.shape[1], layout)
    return rows[k, cosines] - rows[k - 1, cosines]


def rotation(d_model: int, layout: str, k: int) -> np.ndarray:
    """M_k with PE(p + k) = M_k PE(p) for every p: float64 [D, D], one 2 x 2 rotation per pair and zeros elsewhere."""
    sines, cosines = pair_columns(d_model, layout)
    angle = k * pair_angles(d_model)
    matrix = np.zeros((d_model, d_model))
    matrix[sines, sines] = matrix[cosines, cosines] = np.cos(angle)
    matrix[sines, cosines] = np.sin(angle)
    matrix[cosines, sines] = -np.sin(angle)
    return matrix


def rotation_residuals(table: np.ndarray, layout: str, offsets: range) -> np.ndarray:
    """For each k of `offsets` the largest |M_k PE(p) - PE(p + k)| over all p and dimensions of table [P, D]. float64 [len(offsets)].

    Raises ValueError for a k outside 0 .. P - 1.
    """
    rows = _rows(table, 1)
    num_positions, d_model = rows.shape
    sines, cosines = pair_columns(d_model, layout)
    sine, cosine = rows[:, sines], rows[:, cosines]  # [P, I]
    found = []
    for k in offsets:
        if not 0 <= k < num_positions:
            raise ValueError(f"k must lie in 0 .. {num_positions - 1}, it is {k}")
        angle, start = k * pair_angles(d_model), num_positions - k
        turned_sine = np.cos(angle) * sine[:start] + np.sin(angle) * cosine[:start]
        turned_cosine = np.cos(angle) * cosine[:start] - np.sin(angle) * sine[:start]
        found.append(max(np.abs(turned_sine - sine[k:]).max(), np.abs(turned_cosine - cosine[k:]).max()))
    return np.array(found)


def _rows(table: np.ndarray, at_least: int) -> np.ndarray:
    rows = np.asarray(table, dtype=np.float64)
    if rows.ndim != 2 or len(rows) < at_least:
        raise ValueError(f"a table must be [positions, d_model] with at least {at_least} rows, it has shape {rows.shape}")
    return rows
