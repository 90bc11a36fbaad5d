"""The decoder for one new position at a time: what `Transformer.decode` computes with a cache, as plain functions over its matrices.

A translation takes this step once a token, and half of a small model's time went into calling modules. Two more things are done otherwise.

Matrices are laid out for oneDNN once, those of queries, keys and values as one (`DecoderWeights`).

Beams are never moved. Keys and values stay where they were written, in entries that all rows share, and a mask says which entries are
a row's own past: those that its parent could see, and the one it adds. What a beam search calls reordering its cache is so one small
selection of rows of that mask, whatever the number of layers.
"""

# N rows (beams), E entries written so far, H heads, K head_dim, D d_model, V vocabulary, S src_len, L layers

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.layers import DecoderLayer
from model.linear import linear, pack, packed_linear
from model.transformer import Transformer

MAX_PACKED_BYTES = 256 * 2**20  # 21 MB in the embedded model, 220 in a Marian one of the usual size; a larger model is used as it is
FIRST_ROOM = 64  # entries; doubled whenever it is full

Map = Callable[[Tensor], Tensor]


class DecoderWeights:
    """The decoder's matrices as functions of [N, inputs], the large ones by packed copies where these take no more than MAX_PACKED_BYTES.

    Made once for a model whose weights stay as they are, and read by any number of threads. It serves variants of the model too: what they
    change is no matrix (`model.variants`). packed: false where weights may still change, or for a single translation.
    """

    def __init__(self, model: Transformer, packed: bool = True) -> None:
        self.embedding = model.tgt_embedding.tokens.weight
        output = self.embedding if model.output_weight is None else model.output_weight
        used = output.numel() + sum(weight.numel() for weight in model.decoder.parameters())
        self._packed = packed and used * 4 <= MAX_PACKED_BYTES
        self.num_bytes = 0  # of the copies
        self.layers = [self._layer(layer) for layer in model.decoder]
        self.norm = _norm(model.decoder_norm)
        self.output = self._map((output, model.output_bias))

    def _layer(self, layer: DecoderLayer) -> LayerMaps:
        own, cross, feed_forward = layer.self_attn, layer.cross_attn, layer.feed_forward
        return LayerMaps(
            *(_norm(norm) for norm in (layer.self_attn_norm, layer.cross_attn_norm, layer.feed_forward_norm)),
            qkv=self._map(*((each.weight, each.bias) for each in (own.q_proj, own.k_proj, own.v_proj))),
            out=self._map((own.out_proj.weight, own.out_proj.bias)),
            cross_q=self._map((cross.q_proj.weight, cross.q_proj.bias)),
            cross_out=self._map((cross.out_proj.weight, cross.out_proj.bias)),
            linear1=self._map((feed_forward.linear1.weight, feed_forward.linear1.bias)),
            activation=feed_forward.activation,
            linear2=self._map((feed_forward.linear2.weight, feed_forward.linear2.bias)),
        )

    def _map(self, *parts: tuple[Tensor, Tensor | None]) -> Map:
        """One linear map of an input, or several side by side."""
        weights, biases = zip(*parts, strict=True)
        copy = pack(torch.cat(weights).detach() if len(parts) > 1 else weights[0]) if self._packed else None
        if copy is not None:
            self.num_bytes += copy.nbytes
            return partial(packed_linear, packed=copy, bias=torch.cat(biases).detach() if len(parts) > 1 else biases[0])
        if len(parts) == 1:
            return partial(linear, weight=weights[0], bias=biases[0])
        return lambda x: torch.cat([linear(x, *part) for part in parts], dim=-1)


@dataclass(frozen=True)
class LayerMaps:
    """What a decoder layer applies, in the order of use but for the norms."""

    self_attn_norm: Map
    cross_attn_norm: Map
    feed_forward_norm: Map
    qkv: Map
    out: Map
    cross_q: Map
    cross_out: Map
    linear1: Map
    activation: Map
    linear2: Map


def _norm(module: nn.Module) -> Map:
    if not isinstance(module, nn.LayerNorm):  # a post-norm decoder ends without one
        return module
    return partial(torch.layer_norm, normalized_shape=module.normalized_shape, weight=module.weight, bias=module.bias, eps=module.eps)


class Stepper:
    """The decoder over one sentence, for rows that all read it. Belongs to one decoding call. Hooks see nothing of it."""

    def __init__(self, model: Transformer, weights: DecoderWeights, memory: Tensor, keep: bool = False) -> None:
        """memory [1, S, D] of the sentence. keep: for `passage`, what each step computed is kept."""
        self._weights = weights
        self._num_heads = model.config.decoder.num_heads
        self._embedding_scale = model.tgt_embedding.scale
        self._positions = model.positions if model.tgt_positions is None else model.tgt_positions
        self._residual = _pre_norm if model.config.norm == "pre" else _post_norm
        self._memory = [layer.cross_attn.keys_values(memory) for layer in model.decoder]  # k, v [1, H, S, K]
        self._score_scales = [layer.self_attn.score_scale for layer in model.decoder]
        self._length = 0  # positions decoded
        self._entries = 0
        self._past = self._room_for(FIRST_ROOM, len(model.decoder), memory)
        self._sees: Tensor | None = None  # [N, E], 0 or -inf; None: the only row so far sees all
        self._kept: list[_Step] | None = [] if keep else None

    def __call__(self, token_ids: Tensor, rows: Sequence[int]) -> Tensor:
        """Row i continues row rows[i] of the call before with token_ids[i]; the first call has one row. Returns states [N, D].

        Raises ValueError beyond the model's positions."""
        if self._length == len(self._positions):
            raise ValueError(f"{self._length + 1} positions are needed, the model has {self._length}")
        mask = self._look_back(rows)
        start = self._entries
        written, seen = self._make_room(len(rows))
        x = F.embedding(token_ids, self._weights.embedding) * self._embedding_scale + self._positions[self._length]
        residual, cross_queries = self._residual, []
        for maps, new, past, memory, scale in zip(self._weights.layers, written, seen, self._memory, self._score_scales, strict=True):
            x = residual(x, maps.self_attn_norm, self._self_attention, maps, new, past, mask, scale)
            x = residual(x, maps.cross_attn_norm, self._cross_attention, maps, memory, scale, cross_queries)
            x = residual(x, maps.feed_forward_norm, _feed_forward, maps)
        self._length += 1
        states = self._weights.norm(x)
        if self._kept is not None:
            self._kept.append(_Step(start, cross_queries, states))
        return states

    def passage(self, rows: Sequence[int]) -> Passage:
        """What the decoder computed along one path: rows[t] of step t, for as many steps as there are rows. Needs `keep`."""
        path = list(zip(self._kept[: len(rows)], rows, strict=True))
        entries = torch.tensor([step.start + row for step, row in path], device=self._past.device)
        own = self._past[:, entries].permute(0, 2, 3, 1, 4)[:, :, None]  # [L, 3, 1, H, T, K]
        queries = torch.stack([step.cross_queries[i][row] for i in range(len(own)) for step, row in path])  # [L x T, D]
        cross = queries.view(len(own), 1, len(path), self._num_heads, -1).transpose(2, 3)  # [L, 1, H, T, K]
        states = torch.stack([step.states[row] for step, row in path])
        return Passage([tuple(layer) for layer in own], [(q, *memory) for q, memory in zip(cross, self._memory, strict=True)], states)

    def _look_back(self, rows: Sequence[int]) -> Tensor | None:
        """Which entries each row may attend to, its new one included."""
        count, before = len(rows), self._sees
        if before is None:
            if count == 1:
                return None
            before = self._past.new_zeros(count, self._entries)
        elif list(rows) != list(range(before.shape[0])):
            before = before[torch.tensor(rows, device=before.device)]
        own = before.new_full((count, count), -math.inf).fill_diagonal_(0.0)
        self._sees = torch.cat((before, own), dim=1)
        return self._sees

    def _make_room(self, count: int) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """For each layer's queries, keys and values: `count` entries to write into [N, 3, H, K], and all up to these [3, 1, H, E, K]."""
        start, end = self._entries, self._entries + count
        if end > self._past.shape[1]:
            past = self._room_for(2 * end, len(self._past), self._past)
            past[:, :start] = self._past[:, :start]
            self._past = past
        self._entries = end
        seen = self._past[:, None, :end].permute(0, 3, 1, 4, 2, 5)  # [L, 3, 1, H, E, K]
        return self._past[:, start:end].unbind(), seen.unbind()

    def _room_for(self, entries: int, num_layers: int, like: Tensor) -> Tensor:
        d_model = self._positions.shape[1]
        return like.new_empty(num_layers, entries, 3, self._num_heads, d_model // self._num_heads)

    def _self_attention(self, x: Tensor, maps: LayerMaps, new: Tensor, past: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
        new.copy_(maps.qkv(x).view(new.shape))
        q, k, v = past.unbind()
        return maps.out(_attend(q[:, :, -x.shape[0] :], k, v, mask, scale).view(x.shape))

    def _cross_attention(
        self, x: Tensor, maps: LayerMaps, memory: tuple[Tensor, Tensor], scale: float | None, queries: list[Tensor]
    ) -> Tensor:
        q = maps.cross_q(x)
        queries.append(q)
        q = q.view(1, x.shape[0], self._num_heads, -1).transpose(1, 2)  # [1, H, N, K]
        return maps.cross_out(_attend(q, *memory, None, scale).view(x.shape))


@dataclass(frozen=True)
class _Step:
    """start: the entry of its first row. cross_queries: [N, D] of each layer. states [N, D]."""

    start: int
    cross_queries: list[Tensor]
    states: Tensor


@dataclass(frozen=True)
class Passage:
    """One path through a search, as the teacher-forced decoder would read it: queries, keys and values of each layer, and states [T, D].

    own: [1, H, T, K] each; cross: queries [1, H, T, K], keys and values [1, H, S, K].
    """

    own: list[tuple[Tensor, ...]]
    cross: list[tuple[Tensor, ...]]
    states: Tensor


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """The rows are so many queries of one sentence. q [1, H, N, K]; k, v [1, H, E or S, K]; mask [N, E]. Returns [1, N, H, K]."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale).transpose(1, 2).contiguous()


def _feed_forward(x: Tensor, maps: LayerMaps) -> Tensor:
    return maps.linear2(maps.activation(maps.linear1(x)))


def _pre_norm(x: Tensor, norm: Map, sublayer: Callable[..., Tensor], *args: object) -> Tensor:
    return x + sublayer(norm(x), *args)


def _post_norm(x: Tensor, norm: Map, sublayer: Callable[..., Tensor], *args: object) -> Tensor:
    return norm(x + sublayer(x, *args))
