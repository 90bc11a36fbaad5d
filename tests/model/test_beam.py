"""Beam search against exhaustive enumeration and a beam search written another way."""

import itertools
import math

import pytest

from model.beam import beam_search
from tests.model.decoding_reference import BANNED, EOS, SRC_IDS, finish, full_log_probs, sequence_log_probs, small_model


def reference_beam(model, beam_size, max_new_tokens, length_penalty):
    """Beam search from its definition, with full passes, dictionaries and no cache."""
    live, finished = {(): 0.0}, {}

    def score(total, length):
        return total / length**length_penalty

    for length in range(1, max_new_tokens + 1):
        grown = {}
        for prefix, total in live.items():
            last = full_log_probs(model, list(prefix))[-1]
            for token, log_prob in enumerate(last.tolist()):
                if log_prob > -math.inf:
                    grown[(*prefix, token)] = total + log_prob
        best = sorted(grown, key=grown.get, reverse=True)[: 2 * beam_size]
        finished |= {ids: score(grown[ids], length) for ids in best[:beam_size] if ids[-1] == EOS}
        finished = dict(sorted(finished.items(), key=lambda item: -item[1])[:beam_size])
        live = {ids: grown[ids] for ids in best if ids[-1] != EOS}
        live = dict(list(live.items())[:beam_size])
        if len(finished) == beam_size and score(max(live.values()), length) <= min(finished.values()):
            return list(finished.items())
    cut = sorted(((ids, score(total, max_new_tokens)) for ids, total in live.items()), key=lambda item: -item[1])
    return (list(finished.items()) + cut)[:beam_size]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0, 2.0, -1.0])
@pytest.mark.parametrize("beam_size", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("seed", range(4))
def test_beam_search_follows_its_definition(seed, beam_size, length_penalty):
    model = small_model(9 + 5 * seed, seed, eos_bias=seed)
    _, hypotheses = finish(
        beam_search(model, SRC_IDS, beam_size=beam_size, max_new_tokens=7, length_penalty=length_penalty, banned_ids=BANNED)
    )
    expected = reference_beam(model, beam_size, 7, length_penalty)
    assert [hypothesis.token_ids for hypothesis in hypotheses] == [ids for ids, _ in expected]
    assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for _, score in expected], abs=1e-5, rel=1e-6)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_beam_wide_enough_finds_the_best_of_all(seed, length_penalty):
    model, longest = small_model(7, seed), 4
    words = [i for i in range(7) if i not in (*BANNED, EOS)]
    every = [(*ids, EOS) for length in range(longest) for ids in itertools.product(words, repeat=length)]
    scored = {ids: sum(sequence_log_probs(model, list(ids))) / len(ids) ** length_penalty for ids in every}
    _, hypotheses = finish(
        beam_search(model, SRC_IDS, beam_size=4**longest, max_new_tokens=longest, length_penalty=length_penalty, banned_ids=BANNED)
    )
    best = max(scored, key=scored.get)
    assert hypotheses[0].token_ids == best
    assert hypotheses[0].score == pytest.approx(scored[best], abs=1e-5)
    assert {hypothesis.token_ids for hypothesis in hypotheses if hypothesis.finished} == set(every)


def test_beams_part_and_trade_places():
    # Otherwise the tests of this file would pass with the rows in any order.
    model = small_model(40, 3)
    steps, hypotheses = finish(beam_search(model, SRC_IDS, beam_size=4, max_new_tokens=10, banned_ids=BANNED))
    assert any(len(set(hypothesis.rows)) > 1 for hypothesis in hypotheses)
    assert any([beam.parent for beam in step.beams] != sorted({beam.parent for beam in step.beams}) for step in steps[2:])


@pytest.mark.parametrize("beam_size", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_steps_tell_the_whole_tree(seed, beam_size):
    model = small_model(40, seed, eos_bias=2.5)
    steps, hypotheses = finish(beam_search(model, SRC_IDS, beam_size=beam_size, max_new_tokens=10, banned_ids=BANNED))
    assert [step.index for step in steps] == list(range(len(steps)))
    for step, following in itertools.zip_longest(steps, steps[1:]):
        assert all(len(beam.token_ids) == step.index for beam in step.beams)
        assert all(len(beam.candidates) == max(8, 2 * beam_size) for beam in step.beams)
        kept = {}
        for row, beam in enumerate(step.beams):
            expected = full_log_probs(model, list(beam.token_ids))[-1].topk(len(beam.candidates))
            assert [candidate.token_id for candidate in beam.candidates] == expected.indices.tolist()
            assert [candidate.log_prob for candidate in beam.candidates] == pytest.approx(expected.values.tolist(), abs=1e-5)
            for candidate in beam.candidates:
                assert candidate.sum_log_prob == pytest.approx(beam.sum_log_prob + candidate.log_prob)
                assert candidate.prob == pytest.approx(math.exp(candidate.log_prob))
                assert (candidate.next_row is not None) == (candidate.fate == "kept")
                assert candidate.fate != "finished" or candidate.token_id == EOS
                if candidate.fate == "kept":
                    kept[candidate.next_row] = ((*beam.token_ids, candidate.token_id), row)
        assert sorted(kept) == list(range(beam_size))
        if following is not None:
            assert [(beam.token_ids, beam.parent) for beam in following.beams] == [kept[row] for row in range(beam_size)]
        # Nothing that was dropped beats what was kept or finished in the same step.
        every = [candidate for beam in step.beams for candidate in beam.candidates]
        worst = min(candidate.sum_log_prob for candidate in every if candidate.fate == "kept")
        assert all(c.sum_log_prob <= worst or c.token_id == EOS for c in every if c.fate == "dropped")
    told = {
        (*beam.token_ids, candidate.token_id)
        for step in steps
        for beam in step.beams
        for candidate in beam.candidates
        if candidate.fate == "finished"
    }
    assert {hypothesis.token_ids for hypothesis in hypotheses if hypothesis.finished} <= told
    finished = [hypothesis for hypothesis in hypotheses if hypothesis.finished]
    assert list(steps[-1].pool) == finished
    assert sorted(finished, key=lambda hypothesis: -hypothesis.score) == finished


def test_an_end_token_ranked_below_the_beams_is_dropped():
    found = False
    for eos_bias in (0.0, 0.5, 1.0, 1.5):
        model = small_model(9, 1, eos_bias)
        for step in finish(beam_search(model, SRC_IDS, beam_size=2, max_new_tokens=6, banned_ids=BANNED))[0]:
            every = sorted((c for beam in step.beams for c in beam.candidates), key=lambda c: -c.sum_log_prob)
            for rank, candidate in enumerate(every):
                if candidate.token_id == EOS:
                    assert candidate.fate == ("finished" if rank < 2 else "dropped")
                    found |= rank in (2, 3)
    assert found


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_a_full_pass(seed):
    model = small_model(40, seed, eos_bias=2.0)
    _, hypotheses = finish(beam_search(model, SRC_IDS, beam_size=4, max_new_tokens=10, length_penalty=0.6, banned_ids=BANNED))
    for hypothesis in hypotheses:
        expected = sequence_log_probs(model, list(hypothesis.token_ids))
        assert hypothesis.token_log_probs == pytest.approx(expected, abs=1e-5)
        assert hypothesis.score == pytest.approx(sum(expected) / len(expected) ** 0.6, abs=1e-5)


def test_a_vocabulary_smaller_than_the_beam():
    steps, hypotheses = finish(beam_search(small_model(6, 0), SRC_IDS[:2], beam_size=8, max_new_tokens=5, banned_ids=BANNED))
    assert [len(step.beams) for step in steps][:3] == [1, 2, 4]
    assert len(hypotheses) == len({hypothesis.token_ids for hypothesis in hypotheses}) == 8
