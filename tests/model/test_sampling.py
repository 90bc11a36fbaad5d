"""Greedy search and sampling against full passes and the distribution itself."""

import math
from collections import Counter

import pytest
import torch

from model.beam import beam_search
from model.sampling import filtered_probs, greedy_search, sample
from tests.model.decoding_reference import BANNED, EOS, SRC_IDS, finish, full_log_probs, sequence_log_probs, small_model


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_is_the_argmax_of_full_passes(seed, norm):
    model = small_model(40, seed, norm=norm)
    ids = []
    while EOS not in ids and len(ids) < 12:
        ids.append(int(full_log_probs(model, ids)[-1].argmax()))
    _, (hypothesis,) = finish(greedy_search(model, SRC_IDS, max_new_tokens=12, banned_ids=BANNED))
    assert list(hypothesis.token_ids) == ids
    assert hypothesis.finished == (ids[-1] == EOS)
    assert hypothesis.token_log_probs == pytest.approx(sequence_log_probs(model, ids), abs=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_greedy_is_a_beam_of_one(seed):
    model = small_model(40, seed)
    steps, greedy = finish(greedy_search(model, SRC_IDS, max_new_tokens=12, banned_ids=BANNED, length_penalty=0.7))
    beam_steps, beam = finish(beam_search(model, SRC_IDS, beam_size=1, max_new_tokens=12, banned_ids=BANNED, length_penalty=0.7))
    assert beam == greedy and steps == beam_steps


def test_top_k_of_one_is_greedy():
    for seed in range(5):
        model = small_model(40, seed)
        _, (greedy,) = finish(greedy_search(model, SRC_IDS, max_new_tokens=10, banned_ids=BANNED))
        for options in ({"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-300}):
            _, (drawn,) = finish(sample(model, SRC_IDS, max_new_tokens=10, seed=seed, banned_ids=BANNED, **options))
            assert drawn == greedy


def test_a_seed_repeats_and_nothing_else_is_disturbed():
    model = small_model(40, 0)

    def draw(seed):
        return finish(sample(model, SRC_IDS, max_new_tokens=10, temperature=3.0, seed=seed, banned_ids=BANNED))[1][0].token_ids

    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = [draw(seed) for seed in range(6)]
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert [draw(seed) for seed in range(6)] == first
    assert len(set(first)) > 3
    assert len({draw(None) for _ in range(6)}) > 1


@pytest.mark.parametrize("options", [{"temperature": 0.7}, {"temperature": 1.6, "top_k": 5}, {"temperature": 1.2, "top_p": 0.8}])
def test_draws_follow_the_distribution(options):
    model, draws = small_model(16, 2), 1500
    # Written apart from the code: weights p ** (1 / T), the filter by sorting, then normalised.
    probs = full_log_probs(model, [])[-1].exp()
    weights = {i: float(p) ** (1 / options["temperature"]) for i, p in enumerate(probs) if p > 0}
    ranked = sorted(weights, key=weights.get, reverse=True)[: options.get("top_k", 16)]
    total, kept = sum(weights[i] for i in ranked), []
    for i in ranked:
        if kept and sum(weights[j] for j in kept) / total >= options.get("top_p", 1.0):
            break
        kept.append(i)
    expected = {i: weights[i] / sum(weights[j] for j in kept) for i in kept}
    counts = Counter()
    for seed in range(draws):
        step = next(sample(model, SRC_IDS, max_new_tokens=1, seed=seed, banned_ids=BANNED, **options))
        (candidate,) = (c for c in step.beams[0].candidates if c.fate != "dropped")
        assert candidate.draw_prob == pytest.approx(expected[candidate.token_id], abs=1e-5)
        counts[candidate.token_id] += 1
    assert set(counts) <= set(expected)
    # Chi-squared, at a level that a right sampler with these fixed seeds passes by a wide margin.
    chi = sum((counts[i] - draws * p) ** 2 / (draws * p) for i, p in expected.items())
    assert chi < len(expected) + 4 * math.sqrt(2 * len(expected))


def test_filters():
    log_probs = torch.tensor([0.5, 0.2, 0.2, 0.1]).log()
    assert filtered_probs(log_probs, 1.0).tolist() == pytest.approx([0.5, 0.2, 0.2, 0.1])
    assert filtered_probs(log_probs, 1.0, top_k=2).count_nonzero() == 2
    assert filtered_probs(log_probs, 1.0, top_k=1).tolist() == [1, 0, 0, 0]
    assert filtered_probs(log_probs, 1.0, top_k=99).tolist() == pytest.approx([0.5, 0.2, 0.2, 0.1])
    assert filtered_probs(log_probs, 1.0, top_p=0.6).tolist() == pytest.approx([5 / 7, 2 / 7, 0, 0])
    assert filtered_probs(log_probs, 1.0, top_k=3, top_p=0.7).tolist() == pytest.approx([5 / 7, 2 / 7, 0, 0])
    assert filtered_probs(log_probs, 1e308).tolist() == pytest.approx([0.25] * 4)
    assert filtered_probs(log_probs, 5e-324).tolist() == [1, 0, 0, 0]


def test_a_drawn_token_outside_the_best_is_told_too():
    model = small_model(40, 0)
    steps, (hypothesis,) = finish(sample(model, SRC_IDS, max_new_tokens=10, temperature=9.0, seed=3, banned_ids=BANNED))
    for step, token_id in zip(steps, hypothesis.token_ids, strict=True):
        (beam,) = step.beams
        assert [c.token_id for c in beam.candidates if c.fate != "dropped"] == [token_id]
    assert max(len(step.beams[0].candidates) for step in steps) == 9
    # What is reported is the model's own probability, whatever the temperature.
    assert hypothesis.token_log_probs == pytest.approx(sequence_log_probs(model, list(hypothesis.token_ids)), abs=1e-5)
