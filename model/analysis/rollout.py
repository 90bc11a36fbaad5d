"""Attention rollout (Abnar and Zuidema 2020): how much of each input token has reached a position, if every layer is a weighted mean.

A sublayer adds what it attended to to what was there. Rollout takes this as a mixture, half of each, and multiplies the mixtures of the
layers: A = 0.5 mean over heads + 0.5 I, and the rollout of layer l is A_l ... A_1 (section 3). The paper has encoders only. The decoder's
second sublayer adds `memory` in the same way, and each position of `memory` is the encoder's mixture of source tokens. Written as
[to the decoder's inputs | to the source], a decoder layer so makes (D, M) into

    self-attention    (A D, A M)                          A = 0.5 mean over heads of decoder self-attention + 0.5 I
    cross-attention   (0.5 D, 0.5 M + 0.5 C E)            C = mean over heads of cross-attention, E = rollout of the whole encoder

from (I, 0). Rows of (D, M) together sum to 1. How they divide says nothing: after l layers, D has 0.5**l whatever the weights, as each
cross-attention halves it. So both parts are handed out with rows that sum to 1.

Norms, feed-forward sublayers and values are left out of account: it follows weights, not information.
"""

# L layers (encoder and decoder may differ), H heads, S src_len, T tgt_len

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.results import AttentionTrace

RESIDUAL = 0.5  # the share of what was there before (2020, section 3)


@dataclass(frozen=True, eq=False)
class Rollout:
    """Float32 [layer, query, key], from the model's input up to and including that layer; the last layer is the whole. Rows sum to 1.

    encoder_self [L, S, S]   source tokens in the encoder's state at a source position
    decoder_self [L, T, T]   tokens read so far in the decoder's state, as far as it comes from them
    cross        [L, T, S]   source tokens in the decoder's state, as far as it comes from them
    """

    encoder_self: np.ndarray
    decoder_self: np.ndarray
    cross: np.ndarray


def rollout(trace: AttentionTrace) -> Rollout:
    """Of all three kinds of attention."""
    encoder = self_rollout(trace.encoder_self_attention)
    decoder = self_rollout(trace.decoder_self_attention)
    cross = cross_rollout(encoder[-1], trace.decoder_self_attention, trace.cross_attention)
    return Rollout(*(part.astype(np.float32) for part in (encoder, decoder, cross)))


def self_rollout(attention: np.ndarray) -> np.ndarray:
    """Rollout of stacked self-attention alone: attention [L, H, S, S] gives float64 [L, S, S], the product up to each layer.

    For a decoder this is the part D above, divided by its row sums.
    """
    mixed = _mixture(attention)
    rolled = [mixed[0]]
    for layer in mixed[1:]:
        rolled.append(layer @ rolled[-1])
    return np.stack(rolled)


def cross_rollout(encoder: np.ndarray, decoder_self: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """From a decoder state through `memory` to the source: the part M above, divided by its row sums.

    encoder [S, S], the rollout of the whole encoder; decoder_self [L, H, T, T]; cross [L, H, T, S]. Returns float64 [L, T, S].
    """
    mixed, attended = _mixture(decoder_self), cross.mean(axis=1, dtype=np.float64)
    state = np.zeros(attended.shape[1:])
    rolled = []
    for layer_self, layer_cross in zip(mixed, attended, strict=True):
        state = RESIDUAL * (layer_self @ state) + (1 - RESIDUAL) * (layer_cross @ encoder)
        rolled.append(state / state.sum(axis=-1, keepdims=True))
    return np.stack(rolled)


def _mixture(attention: np.ndarray) -> np.ndarray:
    """[L, H, S, S] to [L, S, S]."""
    return (1 - RESIDUAL) * attention.mean(axis=1, dtype=np.float64) + RESIDUAL * np.eye(attention.shape[-1])
