"""What a walk must find, from torch's own modules: `nn.MultiheadAttention`, `nn.LayerNorm`, `nn.Linear`, layer by layer."""

# D d_model, H heads, T positions of the stack, S keys

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from model.transformer import Transformer
from tests.model.factories import torch_decoder_layer, torch_encoder_layer

SRC_IDS = (4, 9, 9, 7, 2)  # a token that repeats; fewer than the decoder reads
TGT_IDS = (5, 10, 10, 4, 6, 2)

SHAPES: dict[str, dict[str, object]] = {
    "paper": {},
    "pre-norm, gelu, halves": {"norm": "pre", "activation": "gelu", "position_layout": "halves", "layer_norm_eps": 1e-3},
    "unequal stacks, untied": {
        "num_decoder_heads": 2,
        "decoder_d_ff": 40,
        "tgt_vocab_size": 17,
        "tie_embeddings": False,
        "output_bias": True,
        "position_layout": "halves",
    },
    "pre-norm, silu, unscaled, output tied": {
        "norm": "pre",
        "activation": "silu",
        "scale_embedding": False,
        "tie_embeddings": False,
        "tie_output": True,
        "num_decoder_heads": 8,
    },
}


@dataclass(frozen=True, eq=False)
class Step:
    """[T, D] each, and weights [H, T, S] of an attention."""

    name: str
    before: Tensor
    normed: Tensor | None
    weights: Tensor | None
    output: Tensor
    added: Tensor
    after: Tensor
    normalised: Tensor  # what its norm reads


@dataclass(frozen=True, eq=False)
class Reference:
    embedding: Tensor
    encoding: Tensor
    total: Tensor
    layers: tuple[tuple[Step, ...], ...]
    final: Tensor


def sinusoids(length: int, d_model: int, layout: str) -> np.ndarray:
    """The formula of 2017, section 3.5, one number after another. [length, D]"""
    table = np.zeros((length, d_model))
    for position in range(length):
        for pair in range(d_model // 2):
            angle = position / 10_000 ** (2 * pair / d_model)
            sine, cosine = (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, d_model // 2 + pair)
            table[position, sine], table[position, cosine] = math.sin(angle), math.cos(angle)
    return table.astype(np.float32)


def encoder_reference(model: Transformer) -> Reference:
    modules = [torch_encoder_layer(layer, model.config).eval() for layer in model.encoder]
    return _stack(model, model.src_embedding.tokens, SRC_IDS, modules, model.encoder_norm, None)


def decoder_reference(model: Transformer) -> Reference:
    modules = [torch_decoder_layer(layer, model.config).eval() for layer in model.decoder]
    read = (model.config.bos_id, *TGT_IDS[:-1])
    return _stack(model, model.tgt_embedding.tokens, read, modules, model.decoder_norm, encoder_reference(model).final)


def _stack(
    model: Transformer, table: nn.Embedding, ids: tuple[int, ...], modules: list[nn.Module], norm: nn.Module, memory: Tensor | None
) -> Reference:
    config = model.config
    with torch.no_grad():
        embedding = table.weight[list(ids)]
        encoding = torch.from_numpy(sinusoids(len(ids), config.d_model, config.position_layout))
        x = total = embedding * (math.sqrt(config.d_model) if config.scale_embedding else 1.0) + encoding
        layers = []
        for module in modules:
            steps = _layer(module, x, memory)
            whole = module(x[None]) if memory is None else module(x[None], memory[None], tgt_mask=_ahead(len(ids)))
            torch.testing.assert_close(steps[-1].after, whole[0], atol=1e-5, rtol=1e-5)  # of the reference itself
            layers.append(steps)
            x = steps[-1].after
        return Reference(embedding, encoding, total, tuple(layers), norm(x))


def _ahead(size: int) -> Tensor:
    return torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)


def _layer(module: nn.Module, x: Tensor, memory: Tensor | None) -> tuple[Step, ...]:
    mask = None if memory is None else _ahead(len(x))

    def attend(attention: nn.MultiheadAttention, y: Tensor, keys: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        output, weights = attention(y[None], keys[None], keys[None], attn_mask=mask, average_attn_weights=False)
        return output[0], weights[0]

    def feed(y: Tensor) -> tuple[Tensor, None]:
        return module.linear2(module.activation(module.linear1(y))), None

    sublayers = [("self_attn", lambda y: attend(module.self_attn, y, y, mask), module.norm1)]
    if memory is not None:
        sublayers.append(("cross_attn", lambda y: attend(module.multihead_attn, y, memory, None), module.norm2))
    sublayers.append(("feed_forward", feed, module.norm2 if memory is None else module.norm3))
    steps = []
    for name, run, norm in sublayers:
        normed = norm(x) if module.norm_first else None
        output, weights = run(x if normed is None else normed)
        added = x + output
        after = added if module.norm_first else norm(added)
        steps.append(Step(name, x, normed, weights, output, added, after, x if module.norm_first else added))
        x = after
    return tuple(steps)
