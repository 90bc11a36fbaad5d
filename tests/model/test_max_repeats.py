"""No way of decoding writes the same tokens more often in a row than the rules allow, and nothing else changes."""

from __future__ import annotations

import math

import pytest

from model.beam import beam_search
from model.decoding import SearchRules
from model.repetition import longest_run
from model.sampling import greedy_search, sample
from tests.model.decoding_reference import BANNED, EOS, SRC_IDS, finish, sequence_log_probs, small_model

LIMIT = 30
WAYS = {
    "greedy": lambda model, rules: greedy_search(model, SRC_IDS, max_new_tokens=LIMIT, banned_ids=BANNED, rules=rules),
    "beam": lambda model, rules: beam_search(model, SRC_IDS, beam_size=3, max_new_tokens=LIMIT, banned_ids=BANNED, rules=rules),
    "sample": lambda model, rules: sample(
        model, SRC_IDS, max_new_tokens=LIMIT, temperature=0.3, seed=1, banned_ids=BANNED, rules=rules
    ),
}


def results(decoding):
    return finish(decoding)[1]


def written(hypothesis) -> tuple[int, ...]:
    return hypothesis.token_ids[:-1] if hypothesis.finished else hypothesis.token_ids


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_written_too_often_in_a_row(way: str) -> None:
    looped = 0
    for seed in range(12):
        model = small_model(seed=seed, eos_bias=-2.0)
        free = results(WAYS[way](model, SearchRules()))
        bound = results(WAYS[way](model, SearchRules(max_repeats=2)))
        looped += longest_run(written(free[0])) > 2
        assert all(longest_run(written(hypothesis)) <= 2 for hypothesis in bound)
        assert all(math.isfinite(p) for hypothesis in bound for p in hypothesis.token_log_probs)
        # what is told of a token is still the model's own probability
        for hypothesis in bound:
            assert hypothesis.token_log_probs == pytest.approx(sequence_log_probs(model, list(hypothesis.token_ids)), abs=1e-4)
        if all(longest_run(written(hypothesis)) <= 1 for hypothesis in free) and way != "beam":
            assert bound == free
    assert looped > 3


def test_a_source_that_repeats_itself_may_be_repeated_as_often() -> None:
    looping = (small_model(seed=seed, eos_bias=-2.0) for seed in range(50))
    model = next(model for model in looping if longest_run(written(results(WAYS["greedy"](model, SearchRules()))[0])) > 8)
    source = [SRC_IDS[0], *[SRC_IDS[1]] * 5, EOS]
    rules = SearchRules(max_repeats=2)
    found = results(greedy_search(model, source, max_new_tokens=LIMIT, banned_ids=BANNED, rules=rules))[0]
    assert longest_run(written(found)) <= 5
