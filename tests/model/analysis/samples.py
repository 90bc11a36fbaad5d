"""Random attention maps and small traces, asymmetric in every axis."""

from __future__ import annotations

import numpy as np

from model.results import AttentionTrace

SRC_TOKENS = (">>fra<<", "▁the", "▁cat", "▁the", "</s>")
TGT_TOKENS = ("<s>", "▁le", "▁chat", "▁le", "▁noir", ".", "</s>")


def maps(*shape: int, seed: int = 0, causal: bool = False, sharpness: float = 1.5) -> np.ndarray:
    """Float32 [..., query, key] whose rows sum to 1; with `causal`, no key after the query."""
    scores = sharpness * np.random.default_rng(seed).standard_normal(shape)
    if causal:
        scores = np.where(np.tri(*shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores)
    return (weights / weights.sum(axis=-1, keepdims=True)).astype(np.float32)


def trace(
    encoder: np.ndarray | None = None,
    decoder: np.ndarray | None = None,
    cross: np.ndarray | None = None,
    src_tokens: tuple[str, ...] = SRC_TOKENS,
    tgt_tokens: tuple[str, ...] = TGT_TOKENS,
    seed: int = 0,
) -> AttentionTrace:
    """Maps that are not given are random: encoder of 2 layers x 4 heads, decoder of 3 x 2. tgt_tokens: from the start to the end token."""
    src_len, tgt_len = len(src_tokens), len(tgt_tokens) - 1
    layers = 3 if decoder is None and cross is None else len(decoder if cross is None else cross)
    heads = 2 if decoder is None and cross is None else (decoder if cross is None else cross).shape[1]
    encoder = maps(2, 4, src_len, src_len, seed=seed) if encoder is None else encoder
    decoder = maps(layers, heads, tgt_len, tgt_len, seed=seed + 1, causal=True) if decoder is None else decoder
    cross = maps(layers, heads, tgt_len, src_len, seed=seed + 2) if cross is None else cross
    parts = (part.astype(np.float32) for part in (encoder, decoder, cross))
    return AttentionTrace(*parts, src_tokens, tgt_tokens[:-1], tgt_tokens[1:])
