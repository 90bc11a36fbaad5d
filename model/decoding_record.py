"""The maps of a translation from its own decoding, without a second pass.

Decoding encodes the source and computes queries, keys and values of every position that the search reads; all that the maps of the result
need beside them is one softmax a layer. A teacher-forced pass over the result would compute the same numbers again: it costs a fifth of a
translation.
"""

# L layers, H heads, T tgt_len, S src_len, D d_model

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.attention import scaled_dot_product_attention
from model.hooks import AttentionRecorder, AttentionSite, ValueRecorder, attention_hook, show_values, value_hook
from model.masks import causal_mask
from model.stepping import DecoderWeights, Stepper
from model.transformer import Transformer


class DecodingRecord:
    """Filled by one decoding call that nobody watches, of a model with its causal mask; then `complete` makes the maps of one path.

    attention, values: what a pass over source and result shows to recorders; whole after `complete`.
    states: [T, D] of the decoder, of which row t predicted token t.
    """

    def __init__(self) -> None:
        self.attention, self.values = AttentionRecorder(), ValueRecorder()
        self.states = torch.empty(0)
        self._model: Transformer | None = None
        self._stepper: Stepper | None = None

    def start(self, model: Transformer, weights: DecoderWeights, src_ids: Tensor) -> tuple[Tensor, Stepper]:
        """src_ids [1, S] to memory [1, S, D], and the decoder over it."""
        with attention_hook(self.attention), value_hook(self.values):
            memory = model.encode(src_ids)
        self._model, self._stepper = model, Stepper(model, weights, memory, keep=True)
        return memory, self._stepper

    @torch.inference_mode()
    def complete(self, rows: Sequence[int]) -> None:
        """rows: of a hypothesis of that decoding (`Hypothesis.rows`)."""
        passage = self._stepper.passage(rows)
        mask = causal_mask(len(rows), 0, passage.states.device)
        with attention_hook(self.attention), value_hook(self.values):
            for i, layer in enumerate(self._model.decoder):
                _show(AttentionSite("decoder_self", i), *passage.own[i], mask, layer.self_attn.scale_scores)
                _show(AttentionSite("cross", i), *passage.cross[i], None, layer.cross_attn.scale_scores)
        self.states = passage.states


def _show(site: AttentionSite, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaled: bool) -> None:
    """To the recorders. q [1, H, T, K], k and v [1, H, T or S, K]."""
    show_values(site, v)
    scaled_dot_product_attention(q, k, v, mask, site=site, scaled=scaled)
