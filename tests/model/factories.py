"""Tiny deterministic models for the tests of the core, and the same weights in `torch.nn`'s own modules as an independent reference."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.attention import MultiHeadAttention
from model.config import TransformerConfig
from model.hooks import AttentionHook, AttentionSite
from model.layers import DecoderLayer, EncoderLayer
from model.transformer import Transformer

# No two sizes are equal, and the two stacks differ in depth, so that a swapped axis or a list built for the wrong stack fails.
TINY: dict[str, object] = {
    "vocab_size": 13,
    "d_model": 16,
    "num_heads": 4,
    "num_encoder_layers": 2,
    "num_decoder_layers": 3,
    "d_ff": 24,
    "dropout": 0.0,
    "max_len": 20,
}
PAD = 0

# src_ids [B=3, S=5] with 0, 2 and 1 padded positions; tgt_in_ids [B=3, T=6], start token first.
SRC_IDS = torch.tensor([[4, 9, 9, 7, 2], [12, 5, 2, PAD, PAD], [8, 6, 11, 2, PAD]])
TGT_IN_IDS = torch.tensor([[1, 5, 10, 10, 4, 6], [1, 12, 7, 8, 9, 11], [1, 3, 4, 5, 6, 7]])
SRC_MASK = SRC_IDS != PAD

# Every attention of a tiny model, in the order in which a pass meets them.
SITES = [AttentionSite("encoder_self", i) for i in range(2)]
SITES += [AttentionSite(kind, i) for i in range(3) for kind in ("decoder_self", "cross")]


def tiny_config(**changes: object) -> TransformerConfig:
    return TransformerConfig(**{**TINY, **changes})


def tiny_model(seed: int = 0, **changes: object) -> Transformer:
    return fill(Transformer(tiny_config(**changes)), seed).eval()


def fill(module: nn.Module, seed: int = 0) -> nn.Module:
    """Gives every parameter values that matter: no zero biases, no unit norms, no zero row for padding, attention far from uniform."""
    generator = torch.Generator().manual_seed(seed)
    norms = {id(part.weight) for part in module.modules() if isinstance(part, nn.LayerNorm)}
    with torch.no_grad():
        for parameter in module.parameters():
            values = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() == 2:
                parameter.copy_(values * 1.5 / parameter.shape[1] ** 0.5)
            else:
                parameter.copy_(values * 0.3 + (1.0 if id(parameter) in norms else 0.0))
    return module


def random(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def zero_head(head: int) -> AttentionHook:
    """A hook that switches one head off wherever it is called."""

    def hook(site: AttentionSite, weights: Tensor) -> Tensor:
        weights = weights.clone()
        weights[:, head] = 0
        return weights

    return hook


def torch_attention(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """`nn.MultiheadAttention` with our weights, which it keeps as one [3D, D] matrix."""
    theirs = nn.MultiheadAttention(ours.q_proj.in_features, ours.num_heads, batch_first=True)
    _copy_attention(ours, theirs)
    return theirs


def torch_encoder_layer(ours: EncoderLayer, config: TransformerConfig) -> nn.TransformerEncoderLayer:
    theirs = nn.TransformerEncoderLayer(**_layer_options(config, config.num_heads, config.d_ff))
    _copy_attention(ours.self_attn, theirs.self_attn)
    _copy_feed_forward(ours, theirs)
    _copy(ours.self_attn_norm, theirs.norm1)
    _copy(ours.feed_forward_norm, theirs.norm2)
    return theirs


def torch_decoder_layer(ours: DecoderLayer, config: TransformerConfig) -> nn.TransformerDecoderLayer:
    num_heads = config.num_heads if config.num_decoder_heads is None else config.num_decoder_heads
    d_ff = config.d_ff if config.decoder_d_ff is None else config.decoder_d_ff
    theirs = nn.TransformerDecoderLayer(**_layer_options(config, num_heads, d_ff))
    _copy_attention(ours.self_attn, theirs.self_attn)
    _copy_attention(ours.cross_attn, theirs.multihead_attn)
    _copy_feed_forward(ours, theirs)
    _copy(ours.self_attn_norm, theirs.norm1)
    _copy(ours.cross_attn_norm, theirs.norm2)
    _copy(ours.feed_forward_norm, theirs.norm3)
    return theirs


def torch_encoder(ours: Transformer) -> nn.TransformerEncoder:
    layers = [torch_encoder_layer(layer, ours.config) for layer in ours.encoder]
    theirs = nn.TransformerEncoder(layers[0], len(layers), _final_norm(ours, "encoder_norm"), enable_nested_tensor=False)
    theirs.layers = nn.ModuleList(layers)
    return theirs


def torch_decoder(ours: Transformer) -> nn.TransformerDecoder:
    layers = [torch_decoder_layer(layer, ours.config) for layer in ours.decoder]
    theirs = nn.TransformerDecoder(layers[0], len(layers), _final_norm(ours, "decoder_norm"))
    theirs.layers = nn.ModuleList(layers)
    return theirs


def _layer_options(config: TransformerConfig, num_heads: int, d_ff: int) -> dict[str, object]:
    return {
        "d_model": config.d_model,
        "nhead": num_heads,
        "dim_feedforward": d_ff,
        "dropout": 0.0,
        "activation": {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[config.activation],
        "norm_first": config.norm == "pre",
        "layer_norm_eps": config.layer_norm_eps,
        "batch_first": True,
    }


def _final_norm(ours: Transformer, name: str) -> nn.LayerNorm | None:
    if ours.config.norm == "post":
        return None
    theirs = nn.LayerNorm(ours.config.d_model, eps=ours.config.layer_norm_eps)
    _copy(getattr(ours, name), theirs)
    return theirs


def _copy(ours: nn.Module, theirs: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


def _copy_feed_forward(ours: EncoderLayer | DecoderLayer, theirs: nn.Module) -> None:
    _copy(ours.feed_forward.linear1, theirs.linear1)
    _copy(ours.feed_forward.linear2, theirs.linear2)


def _copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = (ours.q_proj, ours.k_proj, ours.v_proj)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
        theirs.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
    _copy(ours.out_proj, theirs.out_proj)
