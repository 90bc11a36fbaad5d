"""Sinusoidal positional encoding (Vaswani et al. 2017, section 3.5), in the two layouts found in checkpoints."""

# P positions, D d_model

from __future__ import annotations

import math

import torch
from torch import Tensor


def wavelengths(d_model: int, layout: str = "interleaved") -> Tensor:
    """Wavelength in positions of each dimension: 2 pi 10000^(2i/d_model), from 2 pi to about 10000 x 2 pi. Shape [D], float64."""
    return (2 * math.pi) * torch.pow(torch.tensor(10_000.0, dtype=torch.float64), _exponents(d_model, layout))


def sinusoidal_table(num_positions: int, d_model: int, layout: str = "interleaved") -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and PE(pos, 2i+1) = cos of the same angle. Shape [P, D], float32.

    "interleaved" is the paper's order; "halves" holds the same numbers as all sines, then all cosines (Marian).
    Computed in float64 and rounded once. Raises ValueError for an odd d_model, a negative length or an unknown layout.
    """
    if num_positions < 0:
        raise ValueError(f"num_positions must not be negative, it is {num_positions}")
    exponents = _exponents(d_model, layout)
    position = torch.arange(num_positions, dtype=torch.float64)
    angle = position[:, None] / torch.pow(torch.tensor(10_000.0, dtype=torch.float64), exponents)[None, :]
    return torch.where(is_sine(d_model, layout)[None, :], angle.sin(), angle.cos()).float()


def is_sine(d_model: int, layout: str = "interleaved") -> Tensor:
    """True for the dimensions that hold a sine. Shape [D], bool."""
    _exponents(d_model, layout)  # for its checks
    dimension = torch.arange(d_model)
    return dimension % 2 == 0 if layout == "interleaved" else dimension < d_model // 2


def _exponents(d_model: int, layout: str) -> Tensor:
    """2i / d_model for each dimension. [D], float64."""
    if d_model < 2 or d_model % 2:
        raise ValueError(f"d_model must be even, since sines and cosines come in pairs; it is {d_model}")
    pair = torch.arange(d_model // 2, dtype=torch.float64)
    if layout == "interleaved":
        pair = pair.repeat_interleave(2)
    elif layout == "halves":
        pair = pair.repeat(2)
    else:
        raise ValueError(f"layout must be 'interleaved' or 'halves', not {layout!r}")
    return 2 * pair / d_model
