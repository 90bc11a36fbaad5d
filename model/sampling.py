"""Decoding with one live row: greedy, and sampling with temperature, top-k and top-p."""

# V vocabulary

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import torch
from torch import Tensor

from model.decoding import (
    MIN_CANDIDATES,
    OWN_RULES,
    Beam,
    Candidate,
    Decoding,
    DecodingStep,
    Fate,
    Hypothesis,
    NextTokenScorer,
    SearchRules,
    add_log_probs,
    length_score,
    top_tokens,
)
from model.decoding_record import DecodingRecord
from model.stepping import DecoderWeights
from model.transformer import Transformer

# Log-probabilities [V] and the most probable tokens, best first, to the chosen one and, if it was drawn, the probabilities [V] of the draw.
Choose = Callable[[Tensor, list[int]], "tuple[int, Tensor | None]"]


def greedy_search(
    model: Transformer,
    src_ids: Sequence[int],
    *,
    max_new_tokens: int,
    length_penalty: float = 1.0,
    banned_ids: Collection[int] = (),
    rules: SearchRules = OWN_RULES,
    weights: DecoderWeights | None = None,
    record: DecodingRecord | None = None,
) -> Decoding:
    """The most probable token each time. Yields each step; returns the one hypothesis."""

    def most_probable(log_probs: Tensor, best: list[int]) -> tuple[int, None]:
        return best[0] if best else int(log_probs.argmax()), None

    return _one_row(model, src_ids, most_probable, max_new_tokens, length_penalty, banned_ids, rules, weights, record)


def sample(
    model: Transformer,
    src_ids: Sequence[int],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int | None = None,
    length_penalty: float = 1.0,
    banned_ids: Collection[int] = (),
    rules: SearchRules = OWN_RULES,
    weights: DecoderWeights | None = None,
    record: DecodingRecord | None = None,
) -> Decoding:
    """Draws each token. Yields each step; returns the one hypothesis, with the model's own log-probabilities.

    The draw has its own generator on the CPU, so that a seed gives the same output on each device and no other draw is disturbed.
    """
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)

    def draw(log_probs: Tensor, best: list[int]) -> tuple[int, Tensor]:
        del best
        draw_probs = filtered_probs(log_probs.cpu(), temperature, top_k, top_p)
        return int(torch.multinomial(draw_probs, 1, generator=generator)), draw_probs

    return _one_row(model, src_ids, draw, max_new_tokens, length_penalty, banned_ids, rules, weights, record)


def filtered_probs(log_probs: Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """log_probs [V] to the probabilities of the draw [V], float64: temperature first, then top_k, then top_p of what is left.

    top_p keeps the most probable tokens up to and including the one that reaches p, so at least one. Equal probabilities at the edge of
    top_k: as many as asked for are kept.
    """
    # float64, and the largest at 0: no temperature, however small, makes NaN of it.
    log_probs = log_probs.double()
    probs = ((log_probs - log_probs.max()) / temperature).softmax(dim=-1)
    if 0 < top_k < len(probs):
        kept = probs.topk(top_k).indices
        probs = torch.zeros_like(probs).index_copy(0, kept, probs[kept])
        probs /= probs.sum()
    if top_p < 1.0:
        ordered, order = probs.sort(descending=True, stable=True)
        reached_before = ordered.cumsum(dim=0) - ordered
        kept = order[reached_before < top_p]
        probs = torch.zeros_like(probs).index_copy(0, kept, probs[kept])
        probs /= probs.sum()
    return probs


def _one_row(
    model: Transformer,
    src_ids: Sequence[int],
    choose: Choose,
    max_new_tokens: int,
    length_penalty: float,
    banned_ids: Collection[int],
    rules: SearchRules,
    weights: DecoderWeights | None,
    record: DecodingRecord | None,
) -> Decoding:
    scorer = NextTokenScorer(model, src_ids, banned_ids, rules, weights, record)
    token_id = model.config.bos_id
    token_ids: tuple[int, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    sum_log_prob = 0.0
    for index in range(max_new_tokens):
        last = index + 1 == max_new_tokens
        log_probs = scorer.log_probs([token_id], [0], last)
        (values,), (ids,) = top_tokens(log_probs, MIN_CANDIDATES)
        token_id, draw_probs = choose(log_probs[0], ids)
        if token_id not in ids:
            ids, values = [*ids, token_id], [*values, float(log_probs[0, token_id])]
        ended = token_id == model.config.eos_id
        candidates = _candidates(ids, values, token_id, draw_probs, sum_log_prob, "finished" if ended else "kept")
        beam = Beam(token_ids, sum_log_prob, 0 if index else None, candidates)
        chosen = next(candidate for candidate in candidates if candidate.token_id == token_id)
        token_ids, token_log_probs, sum_log_prob = (*token_ids, token_id), (*token_log_probs, chosen.log_prob), chosen.sum_log_prob
        score = length_score(sum_log_prob, len(token_ids), length_penalty)
        finished = ended and not (last and rules.forced_last_id is not None)
        hypothesis = Hypothesis(token_ids, token_log_probs, score, finished, (0,) * len(token_ids))
        yield DecodingStep(index, (beam,), (hypothesis,) if ended else ())
        if ended:
            break
    return (hypothesis,)


def _candidates(
    ids: Sequence[int], values: Sequence[float], chosen: int, draw_probs: Tensor | None, so_far: float, fate: Fate
) -> tuple[Candidate, ...]:
    """Of tokens and their log-probabilities, the chosen one among them."""
    drawn = [None] * len(ids) if draw_probs is None else draw_probs[ids].tolist()
    next_row = 0 if fate == "kept" else None
    return tuple(
        Candidate(i, p, total, fate if i == chosen else "dropped", next_row if i == chosen else None, q)
        for i, p, total, q in zip(ids, values, add_log_probs(so_far, values), drawn, strict=True)
    )
