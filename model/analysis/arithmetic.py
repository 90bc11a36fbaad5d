"""The model's pass over one sentence written out: every linear map, score, softmax, normalisation and sum that its modules leave inside.

Nothing here calls a module's `forward`: only parameters, tables and switches are read off the model, so that what comes out can be held
against what the modules computed. The caller enters `torch.inference_mode`.
"""

# D d_model, F d_ff, H heads, K head_dim, T positions of this stack, S keys

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.attention import MultiHeadAttention
from model.layers import DecoderLayer, EncoderLayer, FeedForward
from model.transformer import Embedding, Transformer


@dataclass(frozen=True, eq=False)
class Inputs:
    """What enters a stack, [T, D] each: the rows of the embedding, the same times its factor, the positions, and the sum of these two."""

    embedding: Tensor
    scaled: Tensor
    encoding: Tensor
    total: Tensor


@dataclass(frozen=True, eq=False)
class Attention:
    """One attention sublayer. queries [T, D] and keys [S, D] are what it reads; q [H, T, K], k and v [H, S, K]; products (q.k), scores and
    weights [H, T, S]; masked bool [T, S], true where a query may not look; heads [H, T, K]; joined and output [T, D]."""

    queries: Tensor
    keys: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    products: Tensor
    scores: Tensor
    masked: Tensor
    weights: Tensor
    heads: Tensor
    joined: Tensor
    output: Tensor


@dataclass(frozen=True, eq=False)
class Feed:
    """The feed-forward sublayer: what it reads [T, D], hidden before and active after the activation [T, F], output [T, D]."""

    reads: Tensor
    hidden: Tensor
    active: Tensor
    output: Tensor


@dataclass(frozen=True, eq=False)
class Sublayer:
    """A sublayer with its "add & norm", [T, D] each; mean and variance [T] of what the norm normalises.

    added = before + work.output. Post-norm: normed is None, after = norm(added). Pre-norm: normed = norm(before) is what the sublayer
    reads, after = added.
    """

    name: str
    before: Tensor
    normed: Tensor | None
    work: Attention | Feed
    added: Tensor
    after: Tensor
    mean: Tensor
    variance: Tensor

_Sublayers = Callable[[nn.Module, Tensor], tuple[Sublayer, ...]]


@dataclass(frozen=True, eq=False)
class Stack:
    """A whole encoder or decoder: its inputs, the sublayers of the layer that was wanted, norms of the residual stream [layers + 1, T]
    (as each layer finds it, and after the last), what the last layer leaves and the final states, [T, D] each. Pre-norm: the closing norm
    makes these of that, by a mean and a variance [T]; post-norm: they are the same, and there is neither."""

    inputs: Inputs
    wanted: tuple[Sublayer, ...]
    stream_norms: Tensor
    last: Tensor
    final: Tensor
    mean: Tensor | None
    variance: Tensor | None


def encoder_stack(model: Transformer, src_ids: Sequence[int], layer: int | None = None) -> Stack:
    """The encoder over src_ids, with the sublayers of one layer if one is named."""
    inputs = embed(model.src_embedding, model.positions, src_ids)

    def sublayers(module: EncoderLayer, x: Tensor) -> tuple[Sublayer, ...]:
        attended = _attended("self_attn", module, x, None, causal=False)
        return attended, _fed(module, attended.after, model.config.activation)

    return _stack(model.encoder, model.encoder_norm, inputs, sublayers, layer)


def decoder_stack(model: Transformer, tgt_in_ids: Sequence[int], memory: Tensor, layer: int | None = None) -> Stack:
    """The decoder over tgt_in_ids (start token first), all in one pass; memory [S, D]."""
    inputs = embed(model.tgt_embedding, model.positions if model.tgt_positions is None else model.tgt_positions, tgt_in_ids)

    def sublayers(module: DecoderLayer, x: Tensor) -> tuple[Sublayer, ...]:
        attended = _attended("self_attn", module, x, None, causal=model.causal)
        crossed = _attended("cross_attn", module, attended.after, memory, causal=False)
        return attended, crossed, _fed(module, crossed.after, model.config.activation)

    return _stack(model.decoder, model.decoder_norm, inputs, sublayers, layer)


def logits(model: Transformer, states: Tensor) -> Tensor:
    """States [..., D] to logits [..., V]."""
    found = states @ output_weight(model).float().T
    return found if model.output_bias is None else found + model.output_bias.float()


def output_weight(model: Transformer) -> Tensor:
    """The matrix [V, D] that the logits come from: the target embedding where it is tied."""
    return model.tgt_embedding.tokens.weight if model.output_weight is None else model.output_weight


def embed(embedding: Embedding, positions: Tensor, ids: Sequence[int]) -> Inputs:
    """Rows of the table, times the factor, plus positions (Vaswani et al. 2017, sections 3.4 and 3.5)."""
    rows = embedding.tokens.weight[torch.tensor(list(ids), device=positions.device)].float()
    scaled, encoding = rows * embedding.scale, positions[: len(ids)].float()
    return Inputs(rows, scaled, encoding, scaled + encoding)


def linear(x: Tensor, module: nn.Linear) -> Tensor:
    """x W^T + b."""
    return x @ module.weight.float().T + module.bias.float()


def softmax(scores: Tensor) -> Tensor:
    """exp(score - largest) / sum of these, along the last axis."""
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


def log_sum_exp(values: Tensor) -> Tensor:
    """ln of the sum of exp(value) along the last axis: what turns a logit into a log-probability by subtraction."""
    largest = values.amax(dim=-1, keepdim=True)
    return largest[..., 0] + (values - largest).exp().sum(dim=-1).log()


def normalise(x: Tensor, norm: nn.LayerNorm) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last axis, with the mean and the variance (of all d_model values)."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return (x - mean) / (variance + norm.eps).sqrt() * norm.weight.float() + norm.bias.float(), mean[..., 0], variance[..., 0]


def activate(x: Tensor, name: str) -> Tensor:
    """relu: max(0, x); gelu: x times the normal distribution function of x; silu: x / (1 + exp(-x)).

    Raises ValueError for another name.
    """
    if name == "relu":
        return torch.where(x > 0, x, torch.zeros_like(x))
    if name == "gelu":
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    if name == "silu":
        return x / (1 + (-x).exp())
    raise ValueError(f"unknown activation {name!r}")


def attention(module: MultiHeadAttention, queries: Tensor, keys: Tensor, causal: bool) -> Attention:
    """softmax(Q K^T / sqrt(d_k) + mask) V for all heads (equation 1), joined and projected. queries [T, D], keys [S, D]."""

    def heads_of(x: Tensor) -> Tensor:  # [T, D] -> [H, T, K]
        return x.reshape(len(x), module.num_heads, -1).permute(1, 0, 2)

    q, k, v = heads_of(linear(queries, module.q_proj)), heads_of(linear(keys, module.k_proj)), heads_of(linear(keys, module.v_proj))
    products = q @ k.permute(0, 2, 1)
    scores = products / math.sqrt(q.shape[-1]) if module.scale_scores else products
    masked = torch.zeros(len(queries), len(keys), dtype=torch.bool, device=queries.device)
    if causal:
        masked = torch.ones_like(masked).triu(diagonal=1)
    weights = softmax(torch.where(masked, -math.inf, scores))
    heads = weights @ v
    joined = heads.permute(1, 0, 2).reshape(len(queries), -1)
    return Attention(queries, keys, q, k, v, products, scores, masked, weights, heads, joined, linear(joined, module.out_proj))


def feed(module: FeedForward, x: Tensor, activation: str) -> Feed:
    """linear, activation, linear (section 3.3)."""
    hidden = linear(x, module.linear1)
    active = activate(hidden, activation)
    return Feed(x, hidden, active, linear(active, module.linear2))


def _stack(layers: nn.ModuleList, norm: nn.Module, inputs: Inputs, sublayers: _Sublayers, wanted: int | None) -> Stack:
    x, kept, norms = inputs.total, (), [_length(inputs.total)]
    for index, module in enumerate(layers):
        found = sublayers(module, x)
        x = found[-1].after
        norms.append(_length(x))
        kept = found if index == wanted else kept
    final, mean, variance = normalise(x, norm) if isinstance(norm, nn.LayerNorm) else (x, None, None)
    return Stack(inputs, kept, torch.stack(norms), x, final, mean, variance)


def _length(x: Tensor) -> Tensor:
    return (x**2).sum(dim=-1).sqrt()


def _attended(name: str, module: EncoderLayer | DecoderLayer, x: Tensor, memory: Tensor | None, causal: bool) -> Sublayer:
    def run(y: Tensor) -> Attention:
        return attention(getattr(module, name), y, y if memory is None else memory, causal)

    return _wrapped(name, module, x, getattr(module, f"{name}_norm"), run)


def _fed(module: EncoderLayer | DecoderLayer, x: Tensor, activation: str) -> Sublayer:
    return _wrapped("feed_forward", module, x, module.feed_forward_norm, lambda y: feed(module.feed_forward, y, activation))


def _wrapped(
    name: str, module: EncoderLayer | DecoderLayer, x: Tensor, norm: nn.LayerNorm, run: Callable[[Tensor], Attention | Feed]
) -> Sublayer:
    if module.pre_norm:
        normed, mean, variance = normalise(x, norm)
        work = run(normed)
        added = x + work.output
        return Sublayer(name, x, normed, work, added, added, mean, variance)
    work = run(x)
    added = x + work.output
    after, mean, variance = normalise(added, norm)
    return Sublayer(name, x, None, work, added, after, mean, variance)
