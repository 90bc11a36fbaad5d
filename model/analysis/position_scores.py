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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from model.analysis.position_sentence import side_ids
from model.analysis.walkthrough import check_index
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
    layer, head = _checked_place(model, kind, layer, head)
    with torch.inference_mode():
        causal = kind == "decoder_self" and model.causal
        table, ids = _read(model, translation, kind)
        site, norms = next(islice(_ways(model, translation, kind), layer, None))
        own = _masked(_products(_followed(table[: len(ids)], norms), site.self_attn, head), causal)
        mean_norms = [_Norm(norm.weight, norm.deviation.mean()) for norm in norms]
        many = _products(_followed(table[:PLACES], mean_norms), site.self_attn, head)
        offsets, mean, lowest, highest = _by_offset(many.cpu().numpy(), causal)
        return PositionScores(own.cpu().numpy(), own.softmax(dim=-1).cpu().numpy(), offsets, mean, lowest, highest)


def clearest_head(
    translator: Translator, translation: Translation, kind: str, maps: np.ndarray, layer: int | None = None
) -> tuple[int, int]:
    """Layer and head of the self-attention map that positions alone come closest to: that shares most of its weight with theirs, above what
    it shares with an even spread. maps: those of this kind, [L, H, T, T]; layer: look at this one only.

    Raises InvalidSettingError for a kind without positions of its own, or for a layer that there is not.
    """
    model = translator.model
    first, _ = _checked_place(model, kind, 0 if layer is None else layer)
    best, found = -math.inf, (first, 0)
    with torch.inference_mode():
        table, ids = _read(model, translation, kind)
        causal = kind == "decoder_self" and model.causal
        even = _masked(torch.zeros(len(ids), len(ids), device=ids.device), causal).softmax(dim=-1).cpu().numpy()
        for i, (site, norms) in enumerate(_ways(model, translation, kind)):
            if layer is not None and i != first:
                continue
            rows = _followed(table[: len(ids)], norms)
            for head, real in enumerate(maps[i]):
                alone = _masked(_products(rows, site.self_attn, head), causal).softmax(dim=-1).cpu().numpy()
                clearness = overlap(real, alone) - overlap(real, even)
                if clearness > best:
                    best, found = clearness, (i, head)
    return found


def _checked_place(model: Transformer, kind: str, layer: int, head: int = 0) -> tuple[int, int]:
    if kind not in KINDS:
        raise InvalidSettingError("kind", kind, ", ".join(KINDS))
    stack = model.config.encoder if kind == "encoder_self" else model.config.decoder
    return check_index("layer", layer, stack.num_layers), check_index("head", head, stack.num_heads)


def overlap(first: np.ndarray, second: np.ndarray) -> float:
    """How much of their weight two maps [T, S] of the same rows share: the mean over rows of the sum of the smaller weights; 1 if equal."""
    return float(np.minimum(first, second).sum(axis=-1, dtype=np.float64).mean())


def by_offset(weights: np.ndarray, offsets: Sequence[int]) -> np.ndarray:
    """Mean weight of a map [T, T] at each offset (key minus query), float32; NaN where the sentence is too short for it."""
    lines = [np.diagonal(weights, offset=int(offset)) if abs(offset) < len(weights) else np.empty(0) for offset in offsets]
    return np.array([line.mean() if line.size else np.nan for line in lines], np.float32)


def _ways(model: Transformer, translation: Translation, kind: str) -> Iterator[tuple[EncoderLayer | DecoderLayer, list[_Norm]]]:
    """Layer by layer: the layer, and the norms between the table and what its self-attention reads."""
    norms: list[_Norm] = []
    table, ids = _read(model, translation, kind)
    src_ids = side_ids(model, translation, "source")[None]
    if kind == "encoder_self":
        layers, memory, mask = model.encoder, None, None
        x = model.src_embedding(ids[None], table[: len(ids)])
    else:
        layers, memory = model.decoder, model.encode(src_ids)
        mask = causal_mask(len(ids), 0, ids.device) if model.causal else None
        x = model.tgt_embedding(ids[None], table[: len(ids)])
    for layer in layers:
        yield layer, [*norms, _Norm.met(layer.self_attn_norm, x[0])] if layer.pre_norm else list(norms)
        x = _through(layer, x, memory, mask, norms)


def _read(model: Transformer, translation: Translation, kind: str) -> tuple[Tensor, Tensor]:
    """The table of positions [P, D] of a stack, and the ids [T] that it reads."""
    if kind == "encoder_self":
        return model.positions, side_ids(model, translation, "source")
    return model.positions if model.tgt_positions is None else model.tgt_positions, side_ids(model, translation, "read")


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


def _masked(scores: Tensor, causal: bool) -> Tensor:
    return scores.masked_fill(~causal_mask(len(scores), 0, scores.device), -math.inf) if causal else scores


def _by_offset(products: np.ndarray, causal: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    reach = min(REACH, len(products) - 1)
    offsets = np.arange(-reach, 1 if causal else reach + 1)
    lines = [np.diagonal(products, offset=offset) for offset in offsets]
    return offsets, *(np.array([fold(line) for line in lines], np.float32) for fold in (np.mean, np.min, np.max))
