"""Other ways to tell a Transformer the order of its tokens, by what each does to the score of a query and a key at a distance.

All on one scale: the score q.k / sqrt(d_k) of a query and a key that are alike but for their positions, each of whose numbers has variance
one, less the same at distance 0. So every curve begins at 0, and what lies below it is what distance alone takes away.
"""

# K head_dim, H num_heads, N distances

from __future__ import annotations

import math

import numpy as np

from model.analysis.position_facts import pair_angles


def sinusoidal_scores(dot: np.ndarray, d_model: int) -> np.ndarray:
    """Added sines and cosines: (PE(p).PE(p+k) - PE(p).PE(p)) / sqrt(d_model), as one head of the whole width sees them. float64 [N].

    dot: PE(p).PE(p+k) for k = 0 .. N - 1 (`model.analysis.position_facts.similarity`).
    """
    return (np.asarray(dot, dtype=np.float64) - dot[0]) / math.sqrt(d_model)


def rotate(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Rotary positions (Su et al. 2021, arXiv:2104.09864, equation 15): pair i of a vector at position p is turned by p 10000^(-2i/K).

    x [K] or [N, K] with pairs side by side, positions [N]. Returns float64 [N, K]. Raises ValueError for an odd K.
    """
    x = np.asarray(x, dtype=np.float64)
    head_dim = x.shape[-1]
    if head_dim % 2:
        raise ValueError(f"numbers are turned in pairs, so head_dim must be even; it is {head_dim}")
    angle = np.asarray(positions, dtype=np.float64)[:, None] * pair_angles(head_dim)  # [N, I]
    first, second = x[..., 0::2], x[..., 1::2]
    turned = np.stack([first * np.cos(angle) - second * np.sin(angle), first * np.sin(angle) + second * np.cos(angle)], axis=-1)
    return turned.reshape(len(angle), head_dim)


def rotary_scores(head_dim: int, distances: int, start: int = 0) -> np.ndarray:
    """RoPE: the score of a query at position `start` and keys `start` .. `start + distances - 1`, all of them ones before they are turned.

    float64 [distances], less the score at distance 0; the same for every `start`. Raises ValueError for an odd head_dim.
    """
    ones = np.ones(head_dim)
    query = rotate(ones, np.array([start]))[0]
    keys = rotate(ones, np.arange(start, start + distances))
    scores = keys @ query / math.sqrt(head_dim)
    return scores - scores[0]


def alibi_slopes(num_heads: int) -> np.ndarray:
    """ALiBi's slope of each head (Press et al. 2022, arXiv:2108.12409, section 3): 2^(-8/H), 2^(-16/H) .. 2^-8. float64 [H].

    Where H is no power of two, the slopes of the power below it come first, then every other one of the power above, as its authors do.
    Raises ValueError for no head.
    """
    if num_heads < 1:
        raise ValueError(f"num_heads must be at least 1, it is {num_heads}")
    below = 2 ** int(math.log2(num_heads))
    slopes = 2.0 ** (-8 / below * np.arange(1, below + 1))
    if below == num_heads:
        return slopes
    between = 2.0 ** (-8 / (2 * below) * np.arange(1, 2 * below + 1, 2))
    return np.concatenate([slopes, between[: num_heads - below]])


def alibi_scores(num_heads: int, distances: int) -> np.ndarray:
    """ALiBi: -slope x distance is added to the score. float64 [H, distances], distances 0 .. distances - 1."""
    return -alibi_slopes(num_heads)[:, None] * np.arange(distances)
