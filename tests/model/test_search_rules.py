"""What a checkpoint's own rules change, against a beam search written another way."""

import dataclasses
import itertools
import math

import pytest
import torch

from model.beam import beam_search
from model.decoding import OWN_RULES, SearchRules, hypothesis_score, masked_log_softmax
from model.errors import CheckpointCorruptError
from model.sampling import greedy_search, sample
from tests.model.decoding_reference import BANNED, EOS, SRC_IDS, finish, full_log_probs, sequence_log_probs, small_model

RULES = [
    SearchRules(early_stopping=early_stopping, cut_may_win=cut_may_win, forced_last_id=forced)
    for early_stopping, cut_may_win, forced in itertools.product((False, True, "never"), (True, False), (None, EOS))
]

# Seed and bias of the end token: with these, every rule decides some search.
MODELS = ((4, 3.0), (4, 5.0), (9, 4.0))
SEARCHES = list(itertools.product(MODELS, (3, 5), (-1.0, 0.6, 2.0)))


def make_model(seed, eos_bias):
    return small_model(14 + seed, seed, eos_bias)


def reference_beam(model, beam_size, limit, length_penalty, rules):
    """(hypotheses with scores, number of steps) by full passes. `live` and `ended` map ids to the sum and to the score; nothing is cached
    and no row is counted."""
    live, ended = {(): 0.0}, {}
    for length in range(1, limit + 1):
        grown = {}
        for prefix, total in live.items():
            log_probs = full_log_probs(model, list(prefix))[-1].tolist()
            if length == limit and rules.forced_last_id is not None:
                log_probs = [0.0 if i == rules.forced_last_id else -math.inf for i in range(len(log_probs))]
            grown |= {(*prefix, i): total + p for i, p in enumerate(log_probs) if p > -math.inf}
        order = sorted(grown, key=grown.get, reverse=True)[: 2 * beam_size]
        scores = {ids: grown[ids] / length**length_penalty for ids in order}
        new = {ids for ids in order[:beam_size] if ids[-1] == EOS or (length == limit and rules.cut_may_win)}
        ended = dict(sorted([*ended.items(), *((ids, scores[ids]) for ids in order if ids in new)], key=lambda item: -item[1])[:beam_size])
        live = {ids: grown[ids] for ids in [ids for ids in order if ids[-1] != EOS][:beam_size]}
        if length == limit:
            break
        if len(ended) == beam_size:
            at = limit if rules.early_stopping == "never" and length_penalty > 0 else length
            if rules.early_stopping is True or max(live.values()) / at**length_penalty <= min(ended.values()):
                return ended, length
    if not rules.cut_may_win:
        ended |= dict([(ids, total / limit**length_penalty) for ids, total in live.items()][: beam_size - len(ended)])
    return ended, limit


@pytest.mark.parametrize("rules", RULES, ids=lambda r: f"{r.early_stopping}-{'any' if r.cut_may_win else 'whole'}-{r.forced_last_id}")
def test_beam_search_obeys_the_rules(rules):
    for kind, limit, length_penalty in SEARCHES:
        model = make_model(*kind)
        options = {"beam_size": 3, "max_new_tokens": limit, "length_penalty": length_penalty, "banned_ids": BANNED}
        steps, found = finish(beam_search(model, SRC_IDS, rules=rules, **options))
        expected, num_steps = reference_beam(model, 3, limit, length_penalty, rules)
        assert len(steps) == num_steps
        assert [hypothesis.token_ids for hypothesis in found] == list(expected)
        assert [hypothesis.score for hypothesis in found] == pytest.approx(list(expected.values()), abs=1e-5, rel=1e-6)
        for hypothesis in found:
            forced = rules.forced_last_id is not None and len(hypothesis.token_ids) == limit
            assert hypothesis.finished == (hypothesis.token_ids[-1] == EOS and not forced)


@pytest.mark.parametrize("change", [{"early_stopping": True}, {"early_stopping": "never"}, {"cut_may_win": True}, {"forced_last_id": EOS}])
def test_each_rule_changes_some_search(change):
    results = []
    for rules in (OWN_RULES, dataclasses.replace(OWN_RULES, **change)):
        options = {"beam_size": 3, "banned_ids": BANNED, "rules": rules}
        searches = [
            beam_search(make_model(*kind), SRC_IDS, max_new_tokens=limit, length_penalty=length_penalty, **options)
            for kind, limit, length_penalty in SEARCHES
        ]
        results.append([[hypothesis.token_ids for hypothesis in finish(search)[1]] for search in searches])
    assert results[0] != results[1]


def test_a_forced_end_for_one_row():
    model, rules = small_model(20, 0, eos_bias=-40.0), SearchRules(forced_last_id=EOS)
    for decoding in (
        greedy_search(model, SRC_IDS, max_new_tokens=4, banned_ids=BANNED, rules=rules),
        sample(model, SRC_IDS, max_new_tokens=4, seed=1, temperature=3.0, banned_ids=BANNED, rules=rules),
        beam_search(model, SRC_IDS, beam_size=1, max_new_tokens=4, banned_ids=BANNED, rules=rules),
    ):
        steps, (hypothesis,) = finish(decoding)
        assert len(steps) == 4 and hypothesis.token_ids.index(EOS) == 3
        assert hypothesis.token_log_probs[-1] == 0.0 and not hypothesis.finished
        assert hypothesis.token_log_probs[:3] == pytest.approx(sequence_log_probs(model, list(hypothesis.token_ids))[:3], abs=1e-5)
        (candidate,) = steps[-1].beams[0].candidates
        assert (candidate.token_id, candidate.fate, candidate.prob) == (EOS, "finished", 1.0)
        assert steps[-1].pool == (hypothesis,)


def test_the_share_of_banned_tokens_is_given_away_or_lost():
    logits = torch.randn(2, 9, generator=torch.Generator().manual_seed(1))
    every = logits.softmax(-1)
    lost = masked_log_softmax(logits, (0, 4), renormalize=False).exp()
    assert torch.allclose(lost[:, 1:4], every[:, 1:4]) and not lost[:, [0, 4]].any()
    kept = masked_log_softmax(logits, (0, 4)).exp()
    assert torch.allclose(kept, lost / lost.sum(-1, keepdim=True))
    model, rules = small_model(20, 0), SearchRules(renormalize=False)
    _, (hypothesis,) = finish(greedy_search(model, SRC_IDS, max_new_tokens=5, banned_ids=BANNED, rules=rules))
    expected = sequence_log_probs(model, list(hypothesis.token_ids), banned=())
    assert hypothesis.token_log_probs == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("rules", [OWN_RULES, SearchRules(renormalize=False), SearchRules(forced_last_id=EOS)])
def test_no_rule_hides_a_model_without_numbers(rules):
    model = small_model(12, 0)
    with torch.no_grad():
        model.decoder[0].feed_forward.linear2.bias[0] = math.nan
    for limit in (1, 3):
        with pytest.raises(CheckpointCorruptError, match="finite"):
            finish(beam_search(model, SRC_IDS, beam_size=2, max_new_tokens=limit, banned_ids=(*BANNED, 11), rules=rules))


def test_scores():
    assert hypothesis_score([-1.0, -2.0, -3.0], 1.0) == pytest.approx(-2.0)
    assert hypothesis_score([-1.0, -2.0, -3.0], 0.0) == pytest.approx(-6.0)
    assert hypothesis_score((-0.5, -1.5), 2.0) == pytest.approx(-0.5)
