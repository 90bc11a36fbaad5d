"""The positional encoding as an attention head sees it: PE W_q W_k^T PE^T / sqrt(d_k), of any self-attention head of any layer.

A head scores places i and j by q_i k_j / sqrt(d_k). What it reads at i is a sum, and PE(i) is one part of it; so the score is a sum of
products, and one of them is position with position: it knows nothing of words. In the first layer of a post-norm model that part is PE(i)
itself. Elsewhere norms stand in between. A norm takes the mean from a vector, divides it by the standard deviation and multiplies
it by a weight; with the deviation that this sentence has at this place, that is a linear map, so the part that stems from PE(i) can be
followed through it. What is followed is the direct way up, along the residual connections; what attention and feed-forward layers make of
positions is not on it. Biases belong to no position and are left out.
"""

# T tokens, D d_model, H heads, K head_dim, P positions of a table

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from model.analysis.position_sentence import side_ids
from model.errors import InvalidSettingError
from model.layers import DecoderLayer, EncoderLayer
from model.masks import causal_mask

if TYPE_CHECKING:
    from model.results import Translation
    from model.transformer import Transformer
    from model.translator import Translator

KINDS = ("encoder_self", "decoder_self")
REACH = 24  # offsets shown to each side
PLACES = 64  # of the table that offsets are taken from


@dataclass(frozen=True, eq=False)
class PositionScores:
    """What one head makes of positions alone.

    scores   float32 [T, T]: the product of position and position, at the places of this sentence; -inf for later keys of a causal head
    weights  float32 [T, T]: softmax of `scores`, rows sum to 1: where the head would look if its scores were nothing else
    offsets  int [R]: key minus query, from -REACH to REACH (to 0 for a causal head), as far as the model has positions
    mean, lowest, highest  float32 [R]: the product over all pairs of this offset among the first PLACES positions. Norms divide by the mean
             deviation of the sentence here, so that positions beyond its end can be asked as well
    """

    scores: np.ndarray
    weights: np.ndarray
    offsets: np.ndarray
    mean: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray


@dataclass(frozen=True, eq=False)
class _Norm:
    """A norm on the way: its weight [D], and the deviation [T, 1] of what it was given at each place."""

    weight: Tensor
    deviation: Tensor

    @classmethod
    def met(cls, norm: nn.LayerNorm, x: Tensor) -> _Norm:
        return cls(norm.weight, (x.var(dim=-1, keepdim=True, unbiased=False) + norm.eps).sqrt())


def position_scores(translator: Translator, translation: Translation, kind: str, layer: int, head: int) -> PositionScores:
    """Of one self-attention head, for the sentence of this translation.

    Raises InvalidSettingError for a kind without positions of its own (cross-attention), or for a layer or head that there is not.
    """
    model = translator.model
    if kind not in KINDS:
        raise InvalidSettingError("kind", kind, ", ".join(KINDS))
    stack = model.config.encoder if kind == "encoder_self" else model.config.decoder
    for name, value, count in (("layer", layer, stack.num_layers), ("head", head, stack.num_heads)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < count:
            raise InvalidSettingError(name, value, f"a whole number from 0 to {count - 1}")
    with torch.inference_mode():
        table, norms, site = _way_to(model, translation, kind, layer)
        length = len(norms[0].deviation) if norms else len(side_ids(model, translation, "source" if kind == "encoder_self" else "read"))
        own = _products(_followed(table[:length], norms), site.self_attn, head)
        mean_norms = [_Norm(norm.weight, norm.deviation.mean()) for norm in norms]
        many = _products(_followed(table[:PLACES], mean_norms), site.self_attn, head)
        if kind == "decoder_self" and model.causal:
            own = own.masked_fill(~causal_mask(length, 0, own.device), -math.inf)
        offsets, mean, lowest, highest = _by_offset(many.cpu().numpy(), causal=kind == "decoder_self" and model.causal)
        return PositionScores(own.cpu().numpy(), own.softmax(dim=-1).cpu().numpy(), offsets, mean, lowest, highest)


def overlap(first: np.ndarray, second: np.ndarray) -> float:
    """How much of their weight two maps [T, S] of the same rows share: the mean over rows of the sum of the smaller weights; 1 if equal."""
    return float(np.minimum(first, second).sum(axis=-1, dtype=np.float64).mean())


def by_offset(weights: np.ndarray, offsets: Sequence[int]) -> np.ndarray:
    """Mean weight of a map [T, T] at each offset (key minus query), float32; NaN where the sentence is too short for it."""
    lines = [np.diagonal(weights, offset=int(offset)) if abs(offset) < len(weights) else np.empty(0) for offset in offsets]
    return np.array([line.mean() if line.size else np.nan for line in lines], np.float32)


def _way_to(model: Transformer, translation: Translation, kind: str, layer: int) -> tuple[Tensor, list[_Norm], EncoderLayer | DecoderLayer]:
    """The table [P, D], the norms between it and what the self-attention of this layer reads, and the layer."""
    norms: list[_Norm] = []
    src_ids = side_ids(model, translation, "source")[None]
    if kind == "encoder_self":
        table, layers = model.positions, model.encoder
        x = model.src_embedding(src_ids, table[: src_ids.shape[1]])
        memory = mask = None
    else:
        table, layers = model.positions if model.tgt_positions is None else model.tgt_positions, model.decoder
        tgt_ids = side_ids(model, translation, "read")[None]
        x = model.tgt_embedding(tgt_ids, table[: tgt_ids.shape[1]])
        memory = model.encode(src_ids)
        mask = causal_mask(tgt_ids.shape[1], 0, x.device) if model.causal else None
    for below in layers[:layer]:
        x = _through(below, x, memory, mask, norms)
    if layers[layer].pre_norm:
        norms.append(_Norm.met(layers[layer].self_attn_norm, x[0]))
    return table, norms, layers[layer]


def _through(layer: EncoderLayer | DecoderLayer, x: Tensor, memory: Tensor | None, mask: Tensor | None, norms: list[_Norm]) -> Tensor:
    """The layer's output [1, T, D]. Its norms stand on the direct way only in a post-norm layer, and are noted then."""
    steps = [(layer.self_attn_norm, lambda y: layer.self_attn(y, None, mask))]
    if memory is not None:
        steps.append((layer.cross_attn_norm, lambda y: layer.cross_attn(y, memory, None)))
    steps.append((layer.feed_forward_norm, layer.feed_forward))
    for norm, sublayer in steps:
        if layer.pre_norm:
            x = x + sublayer(norm(x))
        else:
            added = x + sublayer(x)
            norms.append(_Norm.met(norm, added[0]))
            x = norm(added)
    return x


def _followed(rows: Tensor, norms: Sequence[_Norm]) -> Tensor:
    """What becomes of these rows [P, D] by way of the norms."""
    for norm in norms:
        rows = norm.weight * (rows - rows.mean(dim=-1, keepdim=True)) / norm.deviation
    return rows


def _products(rows: Tensor, attention: nn.Module, head: int) -> Tensor:
    """q k^T / sqrt(d_k) of rows [P, D] by one head's matrices, without biases. [P, P]."""
    width = attention.q_proj.out_features // attention.num_heads
    own = slice(head * width, (head + 1) * width)
    q, k = (rows @ projection.weight[own].T for projection in (attention.q_proj, attention.k_proj))  # [P, K]
    return q @ k.T / (math.sqrt(width) if attention.scale_scores else 1.0)


def _by_offset(products: np.ndarray, causal: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    reach = min(REACH, len(products) - 1)
    offsets = np.arange(-reach, 1 if causal else reach + 1)
    lines = [np.diagonal(products, offset=offset) for offset in offsets]
    return offsets, *(np.array([fold(line) for line in lines], np.float32) for fold in (np.mean, np.min, np.max))
