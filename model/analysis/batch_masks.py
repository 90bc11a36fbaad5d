"""The three masks of a padded batch, as a pass uses them, and what padding does to a sentence (nothing).

Two sentences of different length travel in one tensor, so the shorter one is filled up with padding. Additive masks: 0 where a query
may look, -inf where it may not, added to the scores before softmax (Vaswani et al. 2017, section 3.2.3).
"""

# B batch, S src_len, T tgt_len, L layers, H heads

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.hooks import AttentionRecorder, attention_hook
from model.masks import causal_mask, padding_mask
from model.results import NORM_KINDS, AttentionTrace, Translation
from model.transformer import Transformer


@dataclass(frozen=True, eq=False)
class BatchMasks:
    """A batch of sentences, padded to the longest on each side.

    src_lengths, tgt_lengths  real tokens of each sentence
    encoder_self              float32 [B, S, S], 0 or -inf: no key is padding
    decoder_self              float32 [B, T, T]: no key stands after the query. Padding comes last, so this hides it from every real token
    cross                     float32 [B, T, S]: no key is padding of the source; nothing causal, every word of the source is there already
    shapes                    of the bool masks that the model was given, by kind; a side of 1 is repeated ("broadcast")
    leak                      the largest weight that any layer or head of the batch's pass put where the mask is -inf
    difference                the largest difference between a sentence's weights in this batch and those it has alone
    """

    src_lengths: tuple[int, ...]
    tgt_lengths: tuple[int, ...]
    encoder_self: np.ndarray
    decoder_self: np.ndarray
    cross: np.ndarray
    shapes: dict[str, tuple[int, ...]]
    leak: float
    difference: float


def batch_masks(model: Transformer, translations: Sequence[Translation], alone: Sequence[AttentionTrace]) -> BatchMasks:
    """One real pass over the batch, teacher-forced. alone: the trace of each translation by itself, in the same order.

    Raises ValueError for no translation, or another number of traces.
    """
    if not translations or len(translations) != len(alone):
        raise ValueError(f"{len(translations)} translations and {len(alone)} traces: there must be one each, and at least one")
    config, device = model.config, model.positions.device
    src_ids = _padded([each.src_ids for each in translations], config.pad_id, device)
    tgt_in_ids = _padded([(config.bos_id, *each.tgt_ids[:-1]) for each in translations], config.pad_id, device)
    src_mask = padding_mask(src_ids, config.pad_id)
    tgt_mask = causal_mask(tgt_in_ids.shape[1], device=device)
    with torch.inference_mode(), attention_hook(AttentionRecorder()) as recorder:
        model.decode(tgt_in_ids, model.encode(src_ids, src_mask), src_mask)
    weights = {kind: recorder.stack(kind).float().cpu().numpy() for kind in NORM_KINDS}  # [L, B, H, queries, keys]

    batch, src_len = src_ids.shape
    tgt_len = tgt_in_ids.shape[1]
    masks = {
        "encoder_self": _additive(src_mask[:, None, :].expand(batch, src_len, src_len)),
        "decoder_self": _additive(tgt_mask[None].expand(batch, tgt_len, tgt_len)),
        "cross": _additive(src_mask[:, None, :].expand(batch, tgt_len, src_len)),
    }
    hidden = {kind: np.isneginf(mask)[None, :, None] for kind, mask in masks.items()}
    return BatchMasks(
        src_lengths=tuple(len(each.src_ids) for each in translations),
        tgt_lengths=tuple(len(each.tgt_ids) for each in translations),
        **masks,
        shapes={"encoder_self": (batch, 1, 1, src_len), "decoder_self": (tgt_len, tgt_len), "cross": (batch, 1, 1, src_len)},
        leak=max(float((weights[kind] * hidden[kind]).max()) for kind in NORM_KINDS),
        difference=max(_difference(weights, b, trace) for b, trace in enumerate(alone)),
    )


def _padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], dtype=torch.long, device=device)


def _additive(mask: Tensor) -> np.ndarray:
    return np.where(mask.cpu().numpy(), np.float32(0), np.float32(-math.inf))


def _difference(weights: dict[str, np.ndarray], b: int, trace: AttentionTrace) -> float:
    """Of sentence b, over the rows and columns that are its own."""
    alone = (trace.encoder_self_attention, trace.decoder_self_attention, trace.cross_attention)
    pairs = zip(NORM_KINDS, alone, strict=True)
    return max(float(np.abs(weights[kind][:, b, :, : own.shape[2], : own.shape[3]] - own).max()) for kind, own in pairs)
