"""What the positional encoding adds to one sentence: how long word and position are, and how alike two places stay on the way up.

A layer's input is x = factor * E[token] + PE(place) (Vaswani et al. 2017, sections 3.4 and 3.5), so which of the two is heard is a matter
of their lengths. Two places that hold the same token differ in PE alone: without it they are one and the same vector in every layer.
"""

# S tokens of the side asked for, D d_model, N encoder layers

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from model.errors import InvalidSettingError
from model.reasons import because

if TYPE_CHECKING:
    from model.results import Translation
    from model.transformer import Transformer
    from model.translator import Translator

SIDES = ("source", "read")  # what the encoder reads; what the decoder reads, its start token first


@dataclass(frozen=True, eq=False)
class InputLengths:
    """Lengths (L2 norms) of what is added up at the foot of a stack, float32 [S] each.

    embedding  of the row of the table, as it is trained
    scaled     the same times sqrt(d_model), whether this model does that or not
    position   of the positional encoding at this place
    total      of the sum that the first layer gets
    factor     what this model multiplies its embeddings with: sqrt(d_model), or 1
    sqrt_d     sqrt(d_model)
    """

    embedding: np.ndarray
    scaled: np.ndarray
    position: np.ndarray
    total: np.ndarray
    factor: float
    sqrt_d: float


@dataclass(frozen=True, eq=False)
class Likeness:
    """Cosine of the vectors at two places, from the embedding to the encoder's output.

    stages   "embedding" (the rows of the table), "input" (position added), "0", "1", ... (after that layer), and "memory" where a closing
             norm follows (pre-norm)
    with_positions, without  float32, one value for each stage: the whole model, and the same one with nothing added for the place
    """

    first: int
    second: int
    stages: tuple[str, ...]
    with_positions: np.ndarray
    without: np.ndarray


def input_lengths(translator: Translator, translation: Translation, side: str = "source") -> InputLengths:
    """Lengths at the foot of the encoder ("source") or of the decoder ("read"). Raises InvalidSettingError for another side."""
    if side not in SIDES:
        raise InvalidSettingError("side", side, ", ".join(SIDES))
    model = translator.model
    embedding = model.src_embedding if side == "source" else model.tgt_embedding
    table = model.positions if side == "source" or model.tgt_positions is None else model.tgt_positions
    ids = side_ids(model, translation, side)
    with torch.inference_mode():
        rows = embedding.tokens(ids)  # [S, D]
        positions = table[: len(ids)]
        sqrt_d = math.sqrt(rows.shape[1])
        total = embedding(ids[None], positions)[0]
        lengths = (_numpy(each.norm(dim=-1)) for each in (rows, rows * sqrt_d, positions, total))
        return InputLengths(*lengths, factor=float(embedding.scale), sqrt_d=sqrt_d)


def side_ids(model: Transformer, translation: Translation, side: str) -> Tensor:
    """Ids [S] that the encoder ("source") or the decoder ("read") reads."""
    ids = translation.src_ids if side == "source" else (model.config.bos_id, *translation.tgt_ids[:-1])
    return torch.tensor(ids, dtype=torch.long, device=next(model.parameters()).device)


def likeness(translator: Translator, translation: Translation, first: int, second: int) -> Likeness:
    """How alike two places of the source are, stage by stage, with positions and without.

    Raises InvalidSettingError for places that the sentence does not have, or for one place twice.
    """
    count = len(translation.src_ids)
    for name, place in (("first", first), ("second", second)):
        if isinstance(place, bool) or not isinstance(place, int) or not 0 <= place < count:
            raise InvalidSettingError(name, place, because("whole_number", low=0, high=count - 1))
    if first == second:
        raise InvalidSettingError("second", second, "another place than the first")
    stages, whole = _climb(translator.model, translation, first, second)
    return Likeness(first, second, stages, whole, _climb(translator.without("positions").model, translation, first, second)[1])


def _climb(model: Transformer, translation: Translation, first: int, second: int) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the stages, and the cosine at each."""
    ids = side_ids(model, translation, "source")
    with torch.inference_mode():
        rows = model.src_embedding.tokens(ids)
        x = model.src_embedding(ids[None], model.positions[: len(ids)])
        states = {"embedding": rows, "input": x[0]}
        for i, layer in enumerate(model.encoder):
            x = layer(x, None)
            states[str(i)] = x[0]
        if model.config.norm == "pre":
            states["memory"] = model.encoder_norm(x)[0]
        return tuple(states), np.array([_cosine(each[first], each[second]) for each in states.values()], np.float32)


def _cosine(a: Tensor, b: Tensor) -> float:
    """In float64, so that a vector's cosine with itself is 1 and not nearly 1. A vector of length 0 is like nothing: 0."""
    a, b = a.double(), b.double()
    lengths = float(a.norm() * b.norm())
    return float(a @ b) / lengths if lengths else 0.0


def _numpy(values: Tensor) -> np.ndarray:
    return values.float().cpu().numpy()
