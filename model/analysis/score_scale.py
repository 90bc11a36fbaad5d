"""What dividing scores by sqrt(d_k) does: to random vectors of any width, and to the heads of a model on a sentence.

For q and k of independent entries with mean 0 and variance 1, q.k has variance d_k (Vaswani et al. 2017, section 3.2.1, footnote 4).
Undivided, such scores drive softmax to one key, where it hardly answers to any change of the scores.
"""

# S src_len, T tgt_len, H heads, K head_dim, D d_model

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.errors import InvalidSettingError
from model.layers import DecoderLayer, EncoderLayer
from model.masks import causal_mask
from model.reasons import because
from model.results import NORM_KINDS, Translation
from model.transformer import Transformer

DRAWS = 256  # queries per width


@dataclass(frozen=True, eq=False)
class ScoreScale:
    """Of each of n things (widths, or heads): `divided` by sqrt(d_k) and `plain`, each with arrays [n], float32. All are means over rows
    that have a choice (at least two keys).

    variance  of the scores, over all rows and keys together
    entropy   of the weights, as a share of the largest possible: 1 is even, 0 is all on one key
    largest   weight
    slope     1 - sum of squared weights: how far softmax still answers to its scores (the trace of its Jacobian); 0 is not at all
    """

    divided: dict[str, np.ndarray]
    plain: dict[str, np.ndarray]


MEASURES = ("variance", "entropy", "largest", "slope")


def random_score_scale(widths: Sequence[int], num_keys: int, seed: int = 0) -> ScoreScale:
    """Random q and k with entries N(0, 1): DRAWS queries, each with `num_keys` keys of its own, for each width d_k. Arrays [widths].

    Raises ValueError for fewer than two keys or a width below 1.
    """
    if num_keys < 2 or any(width < 1 for width in widths):
        raise ValueError(f"there must be two keys or more and widths from 1 on, not {num_keys} keys and widths {list(widths)}")
    generator = np.random.default_rng(seed)
    measured = []
    for width in widths:
        q = generator.standard_normal((DRAWS, 1, width), dtype=np.float32)
        k = generator.standard_normal((DRAWS, num_keys, width), dtype=np.float32)
        products = (q * k).sum(axis=-1)  # [queries, keys]
        measured.append((_measures(products / math.sqrt(width)), _measures(products)))
    return _collected(measured)


def head_score_scale(model: Transformer, translation: Translation, kind: str, layer: int) -> ScoreScale | None:
    """The heads of one layer, with the queries and keys that they have in a pass over the translation. Arrays [H].

    Only the softmax looked at is changed: what reaches the layer is the same, divided or not. None if no row has two keys.
    Raises InvalidSettingError for a kind or layer that there is not.
    """
    if kind not in NORM_KINDS:
        raise InvalidSettingError("kind", kind, ", ".join(NORM_KINDS))
    stack = model.encoder if kind == "encoder_self" else model.decoder
    if isinstance(layer, bool) or not isinstance(layer, int) or not 0 <= layer < len(stack):
        raise InvalidSettingError("layer", layer, because("whole_number", low=0, high=len(stack) - 1))
    with torch.inference_mode():
        q, k = _queries_keys(model, translation, kind, layer)  # [H, T, K], [H, S, K]
    products = (q @ k.transpose(-2, -1)).float().cpu().numpy()  # [H, T, S]
    allowed = np.tri(*products.shape[1:], dtype=bool) if kind == "decoder_self" else np.ones(products.shape[1:], dtype=bool)
    if not (allowed.sum(axis=-1) > 1).any():
        return None
    scale = math.sqrt(q.shape[-1])
    return _collected([(_measures(each / scale, allowed), _measures(each, allowed)) for each in products])


def _queries_keys(model: Transformer, translation: Translation, kind: str, layer: int) -> tuple[Tensor, Tensor]:
    """q [H, T, K] and k [H, S, K] of a layer in a teacher-forced pass: the layers below run as they are, this one up to its attention."""
    device, config = model.positions.device, model.config
    src_ids = torch.tensor([translation.src_ids], device=device)
    if kind == "encoder_self":
        x = model.src_embedding(src_ids, model.positions[: src_ids.shape[1]])
        for below in model.encoder[:layer]:
            x = below(x, None)
        return _split(model.encoder[layer], "self_attn", _read(model.encoder[layer], "self_attn", x), None)
    memory = model.encode(src_ids)
    tgt_in_ids = torch.tensor([[config.bos_id, *translation.tgt_ids[:-1]]], device=device)
    positions = model.positions if model.tgt_positions is None else model.tgt_positions
    x = model.tgt_embedding(tgt_in_ids, positions[: tgt_in_ids.shape[1]])
    mask = causal_mask(tgt_in_ids.shape[1], device=device)
    for below in model.decoder[:layer]:
        x = below(x, memory, mask, None)
    here = model.decoder[layer]
    if kind == "decoder_self":
        return _split(here, "self_attn", _read(here, "self_attn", x), None)
    x = here.residual(x, here.self_attn_norm, lambda y: here.self_attn(y, None, mask))
    return _split(here, "cross_attn", _read(here, "cross_attn", x), memory)


def _read(layer: EncoderLayer | DecoderLayer, name: str, x: Tensor) -> Tensor:
    """What the sublayer reads: the stream itself, or with pre-norm the normalised stream."""
    return getattr(layer, f"{name}_norm")(x) if layer.pre_norm else x


def _split(layer: EncoderLayer | DecoderLayer, name: str, x: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor]:
    attention = getattr(layer, name)

    def heads(y: Tensor) -> Tensor:
        return y[0].unflatten(-1, (attention.num_heads, -1)).transpose(0, 1)  # [1, T, D] -> [H, T, K]

    return heads(attention.q_proj(x)), heads(attention.k_proj(x if memory is None else memory))


def _measures(scores: np.ndarray, allowed: np.ndarray | None = None) -> dict[str, float]:
    """scores [rows, keys]; allowed: bool of the same shape, None is all. Computed in float64."""
    allowed = np.ones(scores.shape, dtype=bool) if allowed is None else allowed
    keys = allowed.sum(axis=-1)
    choice = keys > 1
    scores, allowed, keys = scores[choice].astype(np.float64), allowed[choice], keys[choice]
    masked = np.where(allowed, scores, -np.inf)
    weights = np.exp(masked - masked.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    logs = np.log(np.where(weights > 0, weights, 1))
    return {
        "variance": float(scores[allowed].var()),
        "entropy": float((-(weights * logs).sum(axis=-1) / np.log(keys)).mean()),
        "largest": float(weights.max(axis=-1).mean()),
        "slope": float((1 - (weights**2).sum(axis=-1)).mean()),
    }


def _collected(measured: list[tuple[dict[str, float], dict[str, float]]]) -> ScoreScale:
    sides = ({name: np.array([each[side][name] for each in measured], dtype=np.float32) for name in MEASURES} for side in (0, 1))
    return ScoreScale(*sides)
