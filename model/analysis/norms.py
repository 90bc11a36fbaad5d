"""Norm-weighted attention (Kobayashi et al. 2020): how long the vectors are that a head adds, instead of the weights alone.

Head h answers query i with the sum over keys j of alpha_ij f_h(x_j), where f_h(x) = (x W_v + b_v) W_o takes x through the head's value
projection and its rows of the output projection. A large weight on a short f_h(x_j) adds little: so the paper takes
the norm ||alpha_ij f_h(x_j)||. x_j is what the attention module reads: after the norm in a pre-norm layer, `memory` in cross-attention. The
bias of the output projection belongs to no key and is left out; together,

    sum over h and j of alpha_ij f_h(x_j) + b_o = the module's output at i.
"""

# L layers, H heads, Q queries, K keys, D d_model, V head_dim of the values

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from model.attention import MultiHeadAttention
from model.hooks import ATTENTION_KINDS, AttentionKind, AttentionRecorder, AttentionSite, ValueRecorder, attention_hook, value_hook
from model.transformer import Transformer


@dataclass(frozen=True, eq=False)
class NormWeights:
    """Lengths of what keys contribute, float32, not negative, by kind. In units of the model's states, so rows sum to no fixed number.

    heads   [L, H, Q, K]: ||alpha_ij f_h(x_j)||
    layers  [L, Q, K]: ||sum over h of alpha_ij f_h(x_j)||, all heads of a layer together, at most the sum of theirs: where heads
            contradict each other it is less
    """

    heads: Mapping[AttentionKind, np.ndarray]
    layers: Mapping[AttentionKind, np.ndarray]


def norm_weighted(model: Transformer, src_ids: Sequence[int], tgt_in_ids: Sequence[int]) -> NormWeights:
    """Of one teacher-forced pass over one sentence; tgt_in_ids begin with the start token. Hooks of the caller are heeded: what counts are
    the weights that they leave.

    Raises ValueError for more ids than the model has positions.
    """
    device = next(model.parameters()).device
    src, tgt = (torch.tensor([list(ids)], dtype=torch.long, device=device) for ids in (src_ids, tgt_in_ids))
    with torch.inference_mode(), attention_hook(AttentionRecorder()) as weights, value_hook(ValueRecorder()) as values:
        model.decode(tgt, model.encode(src))
    return recorded_norms(model, weights, values)


def recorded_norms(model: Transformer, weights: AttentionRecorder, values: ValueRecorder) -> NormWeights:
    """Of a pass over one sentence that was recorded already. Raises KeyError if a layer was not."""
    found = {site: _of_site(weights.weights[site], values.values[site], out) for site, out in _output_weights(model).items()}

    def stack(kind: AttentionKind, part: int) -> np.ndarray:
        sites = sorted((site for site in found if site.kind == kind), key=lambda site: site.layer)
        return np.stack([found[site][part] for site in sites]).astype(np.float32)

    return NormWeights({kind: stack(kind, 0) for kind in ATTENTION_KINDS}, {kind: stack(kind, 1) for kind in ATTENTION_KINDS})


def weighted_norms(attn_weights: np.ndarray, values: np.ndarray, out_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One layer: attn_weights [H, Q, K], values [H, K, V], out_weight [H, V, D] (the rows of each head).

    Returns the norms of the heads [H, Q, K] and of the layer [Q, K], float64.
    """
    attn_weights = attn_weights.astype(np.float64)
    # In the precision of the matrices, as the model computes it; float64 from here on, for the heads may nearly cancel out below.
    transformed = np.matmul(values, out_weight).astype(np.float64)  # f_h(x_j), [H, K, D]
    heads = attn_weights * np.linalg.norm(transformed, axis=-1)[:, None, :]
    # ||sum_h a_h f_h||^2 = sum_hg a_h a_g f_h . f_g, so that [Q, K, D] is never built; key by key, as products of matrices
    by_key, weights_by_key = transformed.swapaxes(0, 1), np.ascontiguousarray(attn_weights.transpose(2, 0, 1))  # [K, H, D], [K, H, Q]
    products = by_key @ by_key.swapaxes(1, 2)  # [K, H, H]
    squares = (weights_by_key * (products @ weights_by_key)).sum(axis=1)  # [K, Q]
    return heads, np.sqrt(np.maximum(squares.T, 0.0))


def shares(norms: np.ndarray) -> np.ndarray:
    """The same with rows (the last axis) that sum to 1, to be drawn beside weights. A row of zeros, of a head switched off, stays so."""
    sums = norms.sum(axis=-1, keepdims=True)
    return np.divide(norms, sums, out=np.zeros_like(norms), where=sums > 0)


def _output_weights(model: Transformer) -> dict[AttentionSite, np.ndarray]:
    """The output projection of every attention, cut into the rows of each head: [H, V, D]."""
    return {
        module.site: module.out_proj.weight.detach().float().cpu().numpy().T.reshape(module.num_heads, -1, module.out_proj.out_features)
        for module in model.modules()
        if isinstance(module, MultiHeadAttention)
    }


def _of_site(attn_weights: torch.Tensor, values: torch.Tensor, out_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return weighted_norms(attn_weights[0].float().cpu().numpy(), values[0].float().cpu().numpy(), out_weight)
