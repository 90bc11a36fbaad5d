"""Feed-forward, encoder layer and decoder layer, each sublayer wrapped in "add & norm" (post-norm) or "norm, then add" (pre-norm)."""

# B batch, S src_len, T tgt_len, D d_model, F d_ff

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import MultiHeadAttention
from model.cache import LayerCache
from model.config import TransformerConfig
from model.hooks import AttentionSite
from model.linear import Linear

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}


class FeedForward(nn.Module):
    """Two linear maps with an activation between, the same at every position (Vaswani et al. 2017, section 3.3)."""

    def __init__(self, config: TransformerConfig, d_ff: int | None = None) -> None:
        """d_ff: None takes the encoder's."""
        super().__init__()
        d_ff = config.d_ff if d_ff is None else d_ff
        self.activation = _ACTIVATIONS[config.activation]
        self.linear1 = Linear(config.d_model, d_ff)
        self.linear2 = Linear(d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> [B, T, F] -> [B, T, D]."""
        return self.linear2(self.activation(self.linear1(x)))


class _Layer(nn.Module):
    """What both kinds of layer share: how a sublayer is wrapped."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.pre_norm = config.norm == "pre"
        self.dropout = nn.Dropout(config.dropout)

    def residual(self, x: Tensor, norm: nn.LayerNorm, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Post-norm: LayerNorm(x + Sublayer(x)) (2017, section 3.1). Pre-norm: x + Sublayer(LayerNorm(x)) (Xiong et al. 2020)."""
        if self.pre_norm:
            return x + self.dropout(sublayer(norm(x)))
        return norm(x + self.dropout(sublayer(x)))


class EncoderLayer(_Layer):
    """Self-attention over the source, then feed-forward."""

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__(config)
        self.self_attn = MultiHeadAttention(config, AttentionSite("encoder_self", layer))
        self.self_attn_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(self, x: Tensor, src_mask: Tensor | None) -> Tensor:
        """x [B, S, D]; src_mask [B, 1, 1, S]. Returns [B, S, D]."""
        x = self.residual(x, self.self_attn_norm, lambda y: self.self_attn(y, None, src_mask))
        return self.residual(x, self.feed_forward_norm, self.feed_forward)


class DecoderLayer(_Layer):
    """Causal self-attention, cross-attention (queries from here, keys and values from `memory`), feed-forward."""

    def __init__(self, config: TransformerConfig, layer: int) -> None:
        super().__init__(config)
        self.self_attn = MultiHeadAttention(config, AttentionSite("decoder_self", layer))
        self.self_attn_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.cross_attn = MultiHeadAttention(config, AttentionSite("cross", layer))
        self.cross_attn_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.feed_forward = FeedForward(config, config.decoder.d_ff)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)

    def forward(
        self, x: Tensor, memory: Tensor, tgt_mask: Tensor | None, src_mask: Tensor | None, cache: LayerCache | None = None
    ) -> Tensor:
        """x [B, T, D]; memory [B, S, D]; tgt_mask [T, past + T] (causal); src_mask [B, 1, 1, S] (padding only). Returns [B, T, D]."""
        x = self.residual(x, self.self_attn_norm, lambda y: self.self_attn(y, None, tgt_mask, cache))
        x = self.residual(x, self.cross_attn_norm, lambda y: self.cross_attn(y, memory, src_mask, cache))
        return self.residual(x, self.feed_forward_norm, self.feed_forward)
