"""Scaled dot-product attention as a function, and the module that projects, splits and joins heads around it."""

# B batch, T queries, S keys, H heads, K head_dim, D d_model

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from model.cache import LayerCache
from model.config import TransformerConfig
from model.hooks import AttentionSite, hooks_active, run_hooks, show_values
from model.linear import Linear


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    site: AttentionSite | None = None,
    scaled: bool = True,
) -> Tensor:
    """softmax(Q K^T / sqrt(d_k) + mask) V (Vaswani et al. 2017, equation 1), by way of the weights, which active hooks may read or change.

    q [B, H, T, K]; k, v [B, H, S, K]; mask bool, broadcastable to [B, H, T, S], True = may attend. Returns [B, H, T, K].
    Every query needs a key it may attend to: a row of all False would be NaN. `scaled`: the division by sqrt(d_k) (`model.variants`).
    """
    attn_scores = q @ k.transpose(-2, -1)  # [B, H, T, S]
    if scaled:
        attn_scores = attn_scores / math.sqrt(q.shape[-1])
    if mask is not None:
        attn_scores = attn_scores.masked_fill(~mask, -math.inf)
    attn_weights = attn_scores.softmax(dim=-1)
    if site is not None:
        attn_weights = run_hooks(site, attn_weights)
    if dropout:
        attn_weights = F.dropout(attn_weights, dropout)
    return attn_weights @ v


class MultiHeadAttention(nn.Module):
    """h heads of width d_k = d_model / h that attend side by side (Vaswani et al. 2017, section 3.2.2).

    Without active hooks the fused kernel is used, which never builds the weights; with them, the same equation step by step.
    """

    def __init__(self, config: TransformerConfig, site: AttentionSite) -> None:
        super().__init__()
        self.site = site
        self.num_heads = (config.encoder if site.kind == "encoder_self" else config.decoder).num_heads
        self.dropout = config.attention_dropout
        self.scale_scores = True  # false in a variant without it (`model.variants`)
        self.q_proj = Linear(config.d_model, config.d_model)
        self.k_proj = Linear(config.d_model, config.d_model)
        self.v_proj = Linear(config.d_model, config.d_model)
        self.out_proj = Linear(config.d_model, config.d_model)

    @property
    def score_scale(self) -> float | None:
        """As the fused kernel wants it. None: 1 / sqrt(d_k)."""
        return None if self.scale_scores else 1.0

    def forward(self, query: Tensor, memory: Tensor | None, mask: Tensor | None, cache: LayerCache | None = None) -> Tensor:
        """query [B, T, D] attends to memory [B, S, D], or to itself where memory is None; mask [B or 1, 1, T or 1, S]. Returns [B, T, D].

        With a cache, self-attention appends its keys and values to the past, and cross-attention computes those of memory only once.
        """
        q = self._split(self.q_proj(query))
        if cache is None:
            k, v = self.keys_values(query if memory is None else memory)
        elif memory is None:
            k, v = cache.extend(*self.keys_values(query))
        else:
            if cache.cross_k is None or cache.cross_v is None:
                cache.cross_k, cache.cross_v = self.keys_values(memory)
            k, v = cache.cross_k, cache.cross_v
        show_values(self.site, v)
        dropout = self.dropout if self.training else 0.0
        if hooks_active():
            heads = scaled_dot_product_attention(q, k, v, mask, dropout, self.site, self.scale_scores)
        else:
            heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, scale=self.score_scale)
        return self.out_proj(self._join(heads))

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, S, D] to keys and values [B, H, S, K]."""
        return self._split(self.k_proj(x)), self._split(self.v_proj(x))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, T, D] -> [B, H, T, K]

    def _join(self, heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)  # [B, H, T, K] -> [B, T, D]
