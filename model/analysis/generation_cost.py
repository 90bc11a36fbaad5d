"""Training's pass over a whole sentence against generation, token by token, with and without the cache.

Row t of the decoder sees the same tokens either way, by the causal mask, so the maps are the same; what it costs is not (Vaswani et al.
2017, sections 3.2.3 and 4). Counted are the floating-point operations, a multiplication and an addition each, of the decoder's matrix
products and of the projection onto the vocabulary. The encoder's pass is the same in all three and is left out, as are softmax, norms
and biases.
"""

# S src_len, T tgt_len, D d_model, F d_ff, V vocabulary, L layers, H heads

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from model.cache import DecoderCache
from model.config import TransformerConfig
from model.hooks import AttentionRecorder, attention_hook
from model.results import AttentionTrace, Translation
from model.transformer import Transformer

WAYS = ("parallel", "cached", "uncached")
MAX_STEPS = 24  # tokens of the target that are generated anew
REPEATS = 3
SECONDS = 0.5  # after so much time no further repeat begins


@dataclass(frozen=True, eq=False)
class GenerationCost:
    """Of the first T target tokens of a translation, by way: "parallel", "cached", "uncached".

    operations     of each step: 1 number for "parallel", T for the others
    difference     for "cached" and "uncached": float32 [T], the largest difference of any weight of that step, over all layers and
                   heads of the decoder's self-attention and cross-attention, from row t of the parallel pass
    seconds        measured here, one number per repeat; the ways take turns, so that what else the machine does falls on all
    """

    tgt_len: int
    src_len: int
    operations: dict[str, tuple[int, ...]]
    difference: dict[str, np.ndarray]
    seconds: dict[str, tuple[float, ...]]


def generation_cost(
    model: Transformer,
    translation: Translation,
    trace: AttentionTrace,
    max_steps: int = MAX_STEPS,
    repeats: int = REPEATS,
    seconds: float = SECONDS,
) -> GenerationCost:
    """Generates the tokens of a translation once more, the choice of each token being given, and times it.

    trace: of the same translation, from its parallel pass. At least one repeat is measured, and none begins after `seconds`.
    """
    device = model.positions.device
    tgt_len = min(len(translation.tgt_ids), max_steps)
    src_ids = torch.tensor([translation.src_ids], device=device)
    tgt_in_ids = torch.tensor([[model.config.bos_id, *translation.tgt_ids[: tgt_len - 1]]], device=device)
    with torch.inference_mode():
        memory = model.encode(src_ids)
        passes = {
            "parallel": lambda: model.project(model.decode(tgt_in_ids, memory)),
            "cached": lambda: _serial(model, tgt_in_ids, memory, DecoderCache(len(model.decoder))),
            "uncached": lambda: _serial(model, tgt_in_ids, memory, None),
        }
        difference = {
            "cached": _differences(model, tgt_in_ids, memory, DecoderCache(len(model.decoder)), trace),
            "uncached": _differences(model, tgt_in_ids, memory, None, trace),
        }
        measured = _measured(passes, repeats, seconds, device)
    return GenerationCost(
        tgt_len,
        src_ids.shape[1],
        {way: step_operations(model.config, way, src_ids.shape[1], tgt_len) for way in WAYS},
        difference,
        measured,
    )


def step_operations(config: TransformerConfig, way: str, src_len: int, tgt_len: int) -> tuple[int, ...]:
    """Floating-point operations of each step: of all rows at once for "parallel", of row after row for "cached" and "uncached".

    The dense products are counted as they are computed: what the mask hides is multiplied too. Without a cache, keys and values of
    memory are made anew in every step, as is every earlier row; only the last row is projected onto the vocabulary.
    Raises ValueError for another way.
    """
    if way == "parallel":
        return (_decoder(config, rows=tgt_len, keys=tgt_len, src_len=src_len, memory_rows=src_len, projected=tgt_len),)
    if way == "cached":
        first_only = [src_len, *[0] * (tgt_len - 1)]
        return tuple(_decoder(config, 1, t + 1, src_len, memory_rows, 1) for t, memory_rows in enumerate(first_only))
    if way == "uncached":
        return tuple(_decoder(config, t + 1, t + 1, src_len, src_len, 1) for t in range(tgt_len))
    raise ValueError(f"unknown way {way!r}: choose one of {', '.join(WAYS)}")


def _decoder(config: TransformerConfig, rows: int, keys: int, src_len: int, memory_rows: int, projected: int) -> int:
    """rows: positions that go through the layers; memory_rows: positions of memory whose keys and values are made."""
    # pairs of a multiplication and an addition
    d_model, decoder = config.d_model, config.decoder
    self_attn = 4 * rows * d_model**2 + 2 * rows * keys * d_model  # q, k, v, output; q.k and weights times v
    cross_attn = 2 * (rows + memory_rows) * d_model**2 + 2 * rows * src_len * d_model
    feed_forward = 2 * rows * d_model * decoder.d_ff
    return 2 * (decoder.num_layers * (self_attn + cross_attn + feed_forward) + projected * d_model * decoder.vocab_size)


def _steps(model: Transformer, tgt_in_ids: Tensor, memory: Tensor, cache: DecoderCache | None, t: int) -> Tensor:
    """States of step t, [1, 1 or t + 1, D]: of the new token, or of all tokens so far where there is no cache."""
    return model.decode(tgt_in_ids[:, (0 if cache is None else t) : t + 1], memory, cache=cache)


def _serial(model: Transformer, tgt_in_ids: Tensor, memory: Tensor, cache: DecoderCache | None) -> None:
    for t in range(tgt_in_ids.shape[1]):
        model.project(_steps(model, tgt_in_ids, memory, cache, t)[:, -1])


def _differences(model: Transformer, tgt_in_ids: Tensor, memory: Tensor, cache: DecoderCache | None, trace: AttentionTrace) -> np.ndarray:
    found = np.zeros(tgt_in_ids.shape[1], dtype=np.float32)
    for t in range(len(found)):
        with attention_hook(AttentionRecorder()) as recorder:
            _steps(model, tgt_in_ids, memory, cache, t)
        causal, cross = (recorder.stack(kind)[:, 0, :, -1].float().cpu().numpy() for kind in ("decoder_self", "cross"))  # [L, H, keys]
        row = trace.decoder_self_attention[:, :, t, : t + 1]
        found[t] = max(np.abs(causal - row).max(), np.abs(cross - trace.cross_attention[:, :, t]).max())
    return found


def _measured(passes: dict[str, Callable[[], object]], repeats: int, seconds: float, device: torch.device) -> dict[str, tuple[float, ...]]:
    measured: dict[str, list[float]] = {way: [] for way in passes}
    began = time.perf_counter()
    while not measured["uncached"] or (len(measured["uncached"]) < repeats and time.perf_counter() - began < seconds):
        for way, run in passes.items():
            _wait(device)
            start = time.perf_counter()
            run()
            _wait(device)
            measured[way].append(time.perf_counter() - start)
    return {way: tuple(each) for way, each in measured.items()}


def _wait(device: torch.device) -> None:
    """A graphics card works on after the call has returned."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
