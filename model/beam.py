"""Beam search that tells of every step: what each beam could have said, and what was kept, dropped and finished."""

# N beams

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

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
)
from model.decoding_record import DecodingRecord
from model.stepping import DecoderWeights
from model.transformer import Transformer


@dataclass(frozen=True)
class _Row:
    """A live hypothesis."""

    token_ids: tuple[int, ...] = ()
    token_log_probs: tuple[float, ...] = ()
    rows: tuple[int, ...] = ()
    sum_log_prob: float = 0.0


def beam_search(
    model: Transformer,
    src_ids: Sequence[int],
    *,
    beam_size: int,
    max_new_tokens: int,
    length_penalty: float = 1.0,
    banned_ids: Collection[int] = (),
    rules: SearchRules = OWN_RULES,
    weights: DecoderWeights | None = None,
    record: DecodingRecord | None = None,
) -> Decoding:
    """Yields each step; returns up to beam_size hypotheses: finished ones first, each kind best score first, or by score alone if the
    rules say that a cut one may win.

    A step ranks the continuations of all N live beams together by summed log-probability and looks at the best 2N: since a beam has one
    end token, at least N of these go on (fewer only where the vocabulary is smaller than that). An end token among the best N finishes
    its hypothesis; one ranked lower is dropped, as N live continuations beat it already. The pool keeps the N finished hypotheses of
    best score. The search ends when the pool is full and the live beams can add nothing to it (see SearchRules.early_stopping), or at
    max_new_tokens, where live beams become unfinished hypotheses. With `model.marian.generation`'s rules this is transformers' beam search,
    result by result; only where fewer than 2N continuations have any probability does that one keep copies at a score of -1e9, and this
    one fewer beams.
    """
    scorer = NextTokenScorer(model, src_ids, banned_ids, rules, weights, record)
    eos_id = model.config.eos_id
    count = max(MIN_CANDIDATES, 2 * beam_size)
    live, pool = [_Row()], []
    for index in range(max_new_tokens):
        last = index + 1 == max_new_tokens
        tails = [row.token_ids[-1] for row in live] if index else [model.config.bos_id]
        ids, log_probs = scorer.best(tails, [row.rows[-1] for row in live] if index else [0], count, last)
        # Every one of the best 2N lies among the best 2N of its own row, so N short lists are enough.
        totals = [add_log_probs(row.sum_log_prob, values) for row, values in zip(live, log_probs, strict=True)]
        continuations = [(total, row, rank) for row, values in enumerate(totals) for rank, total in enumerate(values)]
        ranked = sorted(continuations, key=lambda continuation: (-continuation[0], *continuation[1:]))
        fates: dict[tuple[int, int], tuple[Fate, int | None]] = {}
        following: list[_Row] = []
        for place, (sum_log_prob, row, rank) in enumerate(ranked[: 2 * beam_size]):
            token_id = ids[row][rank]
            if token_id == eos_id and place < beam_size:
                fates[row, rank] = "finished", None
                ended = _extend(live[row], row, token_id, log_probs[row][rank], sum_log_prob)
                pool.append(_hypothesis(ended, length_penalty, not (last and rules.forced_last_id is not None)))
            elif token_id != eos_id and len(following) < beam_size:
                fates[row, rank] = "kept", len(following)
                following.append(_extend(live[row], row, token_id, log_probs[row][rank], sum_log_prob))
        pool = _best(pool, beam_size)
        yield _step(index, live, ids, log_probs, totals, fates, pool)
        live = following
        if not live or last or (len(pool) == beam_size and _is_settled(live[0], pool[-1], max_new_tokens, length_penalty, rules)):
            break
    cut = _best([_hypothesis(row, length_penalty, False) for row in live], beam_size)
    if rules.cut_may_win and last:
        return tuple(_best([*pool, *cut], beam_size))
    return (*pool, *cut)[:beam_size]


def _is_settled(best: _Row, worst: Hypothesis, max_new_tokens: int, length_penalty: float, rules: SearchRules) -> bool:
    """Whether a full pool stays as it is: whatever the best live row becomes, it will not beat the pool's worst."""
    if rules.early_stopping is True:
        return True
    length = max_new_tokens if rules.early_stopping == "never" and length_penalty > 0 else len(best.token_ids)
    return length_score(best.sum_log_prob, length, length_penalty) <= worst.score


def _best(hypotheses: Sequence[Hypothesis], count: int) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:count]


def _extend(row: _Row, number: int, token_id: int, log_prob: float, sum_log_prob: float) -> _Row:
    return _Row((*row.token_ids, token_id), (*row.token_log_probs, log_prob), (*row.rows, number), sum_log_prob)


def _hypothesis(row: _Row, length_penalty: float, finished: bool) -> Hypothesis:
    score = length_score(row.sum_log_prob, len(row.token_ids), length_penalty)
    return Hypothesis(row.token_ids, row.token_log_probs, score, finished, row.rows)


def _step(
    index: int,
    live: Sequence[_Row],
    ids: Sequence[Sequence[int]],
    log_probs: Sequence[Sequence[float]],
    totals: Sequence[Sequence[float]],
    fates: dict[tuple[int, int], tuple[Fate, int | None]],
    pool: Sequence[Hypothesis],
) -> DecodingStep:
    beams = []
    for number, row in enumerate(live):
        candidates = tuple(
            Candidate(token_id, log_prob, total, *fates.get((number, rank), ("dropped", None)))
            for rank, (token_id, log_prob, total) in enumerate(zip(ids[number], log_probs[number], totals[number], strict=True))
        )
        beams.append(Beam(row.token_ids, row.sum_log_prob, row.rows[-1] if row.rows else None, candidates))
    return DecodingStep(index, tuple(beams), tuple(pool))
