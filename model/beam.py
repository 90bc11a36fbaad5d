"""Beam search that tells of every step: what each beam could have said, and what was kept, dropped and finished."""

# N beams

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from model.decoding import MIN_CANDIDATES, Beam, Candidate, Decoding, DecodingStep, Fate, Hypothesis, NextTokenScorer, hypothesis_score
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
) -> Decoding:
    """Yields each step; returns up to beam_size hypotheses, finished ones first, each kind best score first.

    A step ranks the continuations of all N live beams together by summed log-probability and looks at the best 2N: since a beam has one
    end token, at least N of these go on (fewer only where the vocabulary is smaller than that). An end token among the best N finishes
    its hypothesis; one ranked lower is dropped, as N live continuations beat it already. The pool keeps the N finished hypotheses of
    best score. The search ends when the pool is full and the best live beam, scored at its present length, is no better than the pool's
    worst, or at max_new_tokens, where live beams become unfinished hypotheses. (The rule of Marian's and transformers' beam search,
    except that there an unfinished hypothesis may win over a finished one.)
    """
    scorer = NextTokenScorer(model, src_ids, banned_ids)
    eos_id = model.config.eos_id
    count = max(MIN_CANDIDATES, 2 * beam_size)
    live, pool = [_Row()], []
    ids, log_probs = scorer.best([model.config.bos_id], [0], count)
    for index in range(max_new_tokens):
        # Every one of the best 2N lies among the best 2N of its own row, so N short lists are enough.
        continuations = [(live[row].sum_log_prob + p, row, rank) for row, values in enumerate(log_probs) for rank, p in enumerate(values)]
        ranked = sorted(continuations, key=lambda continuation: (-continuation[0], *continuation[1:]))
        fates: dict[tuple[int, int], tuple[Fate, int | None]] = {}
        following: list[_Row] = []
        for place, (sum_log_prob, row, rank) in enumerate(ranked[: 2 * beam_size]):
            token_id = ids[row][rank]
            if token_id == eos_id and place < beam_size:
                fates[row, rank] = "finished", None
                pool.append(_hypothesis(_extend(live[row], row, token_id, log_probs[row][rank], sum_log_prob), length_penalty, True))
            elif token_id != eos_id and len(following) < beam_size:
                fates[row, rank] = "kept", len(following)
                following.append(_extend(live[row], row, token_id, log_probs[row][rank], sum_log_prob))
        pool = sorted(pool, key=lambda hypothesis: -hypothesis.score)[:beam_size]
        yield _step(index, live, ids, log_probs, fates, pool)
        live = following
        if not live or index + 1 == max_new_tokens:
            break
        if len(pool) == beam_size and _hypothesis(live[0], length_penalty, False).score <= pool[-1].score:
            break
        ids, log_probs = scorer.best([row.token_ids[-1] for row in live], [row.rows[-1] for row in live], count)
    if len(pool) < beam_size:
        unfinished = [_hypothesis(row, length_penalty, False) for row in live]
        pool += sorted(unfinished, key=lambda hypothesis: -hypothesis.score)[: beam_size - len(pool)]
    return tuple(pool)


def _extend(row: _Row, number: int, token_id: int, log_prob: float, sum_log_prob: float) -> _Row:
    return _Row((*row.token_ids, token_id), (*row.token_log_probs, log_prob), (*row.rows, number), sum_log_prob)


def _hypothesis(row: _Row, length_penalty: float, finished: bool) -> Hypothesis:
    score = hypothesis_score(row.token_log_probs, length_penalty)
    return Hypothesis(row.token_ids, row.token_log_probs, score, finished, row.rows)


def _step(
    index: int,
    live: Sequence[_Row],
    ids: Sequence[Sequence[int]],
    log_probs: Sequence[Sequence[float]],
    fates: dict[tuple[int, int], tuple[Fate, int | None]],
    pool: Sequence[Hypothesis],
) -> DecodingStep:
    beams = []
    for number, row in enumerate(live):
        candidates = tuple(
            Candidate(token_id, log_prob, row.sum_log_prob + log_prob, *fates.get((number, rank), ("dropped", None)))
            for rank, (token_id, log_prob) in enumerate(zip(ids[number], log_probs[number], strict=True))
        )
        beams.append(Beam(row.token_ids, row.sum_log_prob, row.rows[-1] if row.rows else None, candidates))
    return DecodingStep(index, tuple(beams), tuple(pool))
