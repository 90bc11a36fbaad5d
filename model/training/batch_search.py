"""Beam search over many sentences at once: the translator's own (`model.beam`), for data of hundreds of thousands of sentences."""

# A sentences under way, N beams, R = A x N rows, S src_len, T tokens written, V vocabulary

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from model.cache import DecoderCache
from model.masks import padding_mask
from model.transformer import Transformer


@dataclass(frozen=True)
class Found:
    """ids: without start and end. score: mean log-probability per token, the end included (a length penalty of 1)."""

    ids: list[int]
    score: float


@torch.inference_mode()
def search_batch(model: Transformer, src_ids: Tensor, beam_size: int, limit: int, banned: Sequence[int]) -> list[Found | None]:
    """The best translation of each sentence; None where nothing was finished within `limit` tokens.

    src_ids [B, S], padded. As `model.beam.beam_search` with a length penalty of 1 and without its rule against repetition: a step ranks
    the continuations of a sentence's beams together, an end token among the best N finishes its hypothesis, and the search of a
    sentence ends when N are finished and the best beam scores no better than the worst of them. The model must be in evaluation mode.
    """
    config, device, vocab_size = model.config, src_ids.device, model.config.decoder.vocab_size
    src_mask = padding_mask(src_ids, config.pad_id)
    memory = model.encode(src_ids, src_mask).repeat_interleave(beam_size, 0)
    src_mask = src_mask.repeat_interleave(beam_size, 0)
    places = torch.arange(len(src_ids), device=device)  # which sentence each of the A is
    sums = torch.full((len(places), beam_size), -torch.inf, device=device)
    sums[:, 0] = 0.0  # all rows of a sentence are alike so far
    written = torch.empty(len(places), beam_size, 0, dtype=torch.int64, device=device)
    pool = torch.full((len(places), beam_size), -torch.inf, device=device)  # the best finished scores
    last = torch.full((len(memory),), config.bos_id, device=device)
    cache, found = DecoderCache(config.num_decoder_layers), [None] * len(places)
    for length in range(1, limit + 1):
        logits = model.project(model.decode(last[:, None], memory, src_mask, cache)[:, 0]).float()
        logits[:, list(banned)] = -torch.inf
        totals = sums.view(-1, 1) + logits.log_softmax(dim=1)  # [R, V]
        best, continuations = totals.view(len(places), -1).topk(2 * beam_size, dim=1)
        beams, tokens = continuations // vocab_size, continuations % vocab_size  # [A, 2N]
        ends = tokens == config.eos_id

        finished = (best / length).masked_fill(~ends, -torch.inf)[:, :beam_size]
        score, rank = finished.max(dim=1)
        for i in (score > pool.max(dim=1).values).nonzero()[:, 0].tolist():
            found[places[i]] = Found(written[i, beams[i, rank[i]]].tolist(), score[i].item())
        pool = torch.cat((pool, finished), dim=1).topk(beam_size, dim=1).values

        # The best N that go on, in their order.
        kept = ends.to(torch.int8).sort(dim=1, stable=True).indices[:, :beam_size]
        sums, beams, tokens = (each.gather(1, kept) for each in (best, beams, tokens))
        written = torch.cat((written.gather(1, beams[:, :, None].expand(-1, -1, written.shape[2])), tokens[:, :, None]), dim=2)
        going = (sums[:, 0] / length > pool.min(dim=1).values).nonzero()[:, 0]
        if not len(going):
            break
        rows = (going[:, None] * beam_size + beams[going]).view(-1)
        cache.reorder(rows, cross=len(going) < len(places))
        if len(going) < len(places):
            memory, src_mask = memory[rows], src_mask[rows]
            places, sums, written, pool, tokens = (each[going] for each in (places, sums, written, pool, tokens))
        last = tokens.reshape(-1)
    return found
