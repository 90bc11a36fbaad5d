"""The encoder-decoder Transformer of Vaswani et al. (2017): `encode` and `decode` apart, joined by `memory`."""

# B batch, S src_len, T tgt_len, D d_model, V vocabulary (of the target, where there are two), P positions

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from model.cache import DecoderCache
from model.config import TransformerConfig
from model.layers import DecoderLayer, EncoderLayer
from model.linear import linear
from model.masks import causal_mask, padding_mask
from model.positional import sinusoidal_table


def _only_shapes() -> bool:
    """Whether a model is being built that has no memory (device "meta"): then nothing is drawn or computed, for which torch would load its
    compiler, a second's work that also wants a folder to write to."""
    return torch.get_default_device().type == "meta"


class Embedding(nn.Module):
    """Token embedding x sqrt(d_model), plus the positional encoding, then dropout (2017, sections 3.4, 3.5, 5.4)."""

    def __init__(self, config: TransformerConfig, vocab_size: int) -> None:
        super().__init__()
        options = {"_weight": torch.empty(vocab_size, config.d_model)} if _only_shapes() else {}
        self.tokens = nn.Embedding(vocab_size, config.d_model, padding_idx=config.pad_id, **options)
        self.scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids [B, T]; positions [T, D], the table's rows for these places. Returns [B, T, D]."""
        return self.dropout(self.tokens(ids) * self.scale + positions)


class Transformer(nn.Module):
    """The whole model. Holds weights and nothing of any call: caches are passed in, captured weights go out through `model.hooks`."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.causal = True  # false in a variant whose decoder may look ahead (`model.variants`)
        self.src_embedding = Embedding(config, config.encoder.vocab_size)
        self.tgt_embedding = self.src_embedding if config.tie_embeddings else Embedding(config, config.decoder.vocab_size)
        self.encoder = nn.ModuleList(EncoderLayer(config, i) for i in range(config.num_encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(config, i) for i in range(config.num_decoder_layers))
        pre_norm = config.norm == "pre"
        self.encoder_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if pre_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps) if pre_norm else nn.Identity()
        output_tied, vocab_size = config.tie_embeddings or config.tie_output, config.decoder.vocab_size
        self.output_weight = None if output_tied else nn.Parameter(torch.empty(vocab_size, config.d_model))
        self.output_bias = nn.Parameter(torch.zeros(vocab_size)) if config.output_bias else None
        # A constant, computed and never trained, so it isn't part of a checkpoint. The decoder has one of its own only where a foreign
        # file holds two that differ.
        shape = config.max_len, config.d_model
        table = torch.empty(shape) if _only_shapes() else sinusoidal_table(*shape, config.position_layout)
        self.register_buffer("positions", table, persistent=False)
        self.register_buffer("tgt_positions", None, persistent=False)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Embeddings N(0, 1/d_model): scaled by sqrt(d_model) they have unit variance, and so have the tied logits at the start.
        Linear maps Xavier-uniform, biases zero. Drawn from `generator`, or from torch's own where there is none."""
        if _only_shapes():
            return
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, generator=generator)
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5, generator=generator)
                with torch.no_grad():
                    module.weight[self.config.pad_id].zero_()
        if self.output_weight is not None:
            nn.init.normal_(self.output_weight, std=self.config.d_model**-0.5, generator=generator)

    def encode(self, src_ids: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """src_ids [B, S] int64, src_mask [B, S] bool (None: nothing is padding). Returns memory [B, S, D].

        Raises ValueError if S exceeds the model's positions."""
        x = self.src_embedding(src_ids, self._rows(self.positions, 0, src_ids.shape[1]))
        mask = _key_mask(src_mask)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def decode(self, tgt_in_ids: Tensor, memory: Tensor, src_mask: Tensor | None = None, cache: DecoderCache | None = None) -> Tensor:
        """tgt_in_ids [B, T] (start token first), memory [B, S, D], src_mask [B, S]. Returns states [B, T, D]: row t
        predicts target token t.

        With a cache, tgt_in_ids holds only the positions that are new, and the cache is extended in place.
        Raises ValueError if the positions exceed the model's."""
        past_len, tgt_len = (0 if cache is None else cache.length), tgt_in_ids.shape[1]
        positions = self.positions if self.tgt_positions is None else self.tgt_positions
        x = self.tgt_embedding(tgt_in_ids, self._rows(positions, past_len, tgt_len))
        # A single new position may look at everything before it: no mask is needed.
        tgt_mask = None if tgt_len == 1 or not self.causal else causal_mask(tgt_len, past_len, x.device)
        mask = _key_mask(src_mask)
        for i, layer in enumerate(self.decoder):
            x = layer(x, memory, tgt_mask, mask, None if cache is None else cache.layers[i])
        return self.decoder_norm(x)

    def project(self, states: Tensor) -> Tensor:
        """States [..., D] to logits [..., V]."""
        weight = self.tgt_embedding.tokens.weight if self.output_weight is None else self.output_weight
        return linear(states, weight, self.output_bias)

    def forward(self, src_ids: Tensor, tgt_in_ids: Tensor) -> Tensor:
        """Training's parallel pass: src_ids [B, S] and tgt_in_ids [B, T], padded with pad_id. Returns logits [B, T, V].

        Padding of the source is masked; padding of the target stands after every real token, where the causal mask hides it already.
        """
        src_mask = padding_mask(src_ids, self.config.pad_id)
        return self.project(self.decode(tgt_in_ids, self.encode(src_ids, src_mask), src_mask))

    def _rows(self, positions: Tensor, start: int, length: int) -> Tensor:
        if start + length > self.config.max_len:
            raise ValueError(f"{start + length} positions are needed, the model has {self.config.max_len}")
        return positions[start : start + length]


def _key_mask(mask: Tensor | None) -> Tensor | None:
    """[B, S] to [B, 1, 1, S]: the same keys are hidden from every head and query.

    Raises TypeError for a mask that is not bool, which the fused kernel would add to the scores, and ValueError for one
    that hides a whole sentence, which it would answer with zeros."""
    if mask is None:
        return None
    if mask.dtype != torch.bool:
        raise TypeError(f"src_mask must be bool, True = real token; it is {mask.dtype}")
    if mask.device.type != "meta" and not bool(mask.any(dim=1).all()):
        raise ValueError("a sentence of the batch is all padding: its attention would have no key")
    return mask[:, None, None, :]
