"""Decoding against independent references: full forward passes, exhaustive enumeration, and a beam search written another way."""

import itertools
import math
from collections import Counter

import pytest
import torch

from model.beam import beam_search
from model.decoding import default_max_new_tokens, masked_log_softmax
from model.errors import CheckpointCorruptError
from model.hooks import attention_hook
from model.sampling import filtered_probs, greedy_search, sample
from tests.tiny import random_model, tiny_config

BOS, EOS = 1, 2
BANNED = (0, 1, 3)
SRC_IDS = [4, 5, 6, 4, 2]


def finish(decoding):
    """The steps and the hypotheses of a decoding."""
    steps = []
    while True:
        try:
            steps.append(next(decoding))
        except StopIteration as stop:
            return steps, stop.value


def small_model(vocab_size=7, seed=0, eos_bias=1.0, **changes):
    return random_model(tiny_config(vocab_size, **changes), seed, eos_bias)


def full_log_probs(model, prefix, src_ids=SRC_IDS, banned=BANNED):
    """Log-probabilities [T + 1, V] of every position after the start token and `prefix`, without any cache, by way of the softmax."""
    with torch.no_grad():
        logits = model(torch.tensor([src_ids]), torch.tensor([[BOS, *prefix]]))[0].double()
    logits[:, list(banned)] = -math.inf
    return logits.softmax(-1).log()


def sequence_log_probs(model, ids, **options):
    log_probs = full_log_probs(model, ids[:-1], **options)
    return [float(log_probs[t, i]) for t, i in enumerate(ids)]


# --- greedy ---


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


# --- beam search ---


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
    assert [hypothesis.score for hypothesis in hypotheses] == pytest.approx([score for _, score in expected], abs=1e-5)


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


# --- limits ---


@pytest.mark.parametrize("limit", [1, 3])
def test_the_length_limit_leaves_an_unfinished_hypothesis(limit):
    model = small_model(20, 0, eos_bias=-40.0)
    for decoding in (
        greedy_search(model, SRC_IDS, max_new_tokens=limit, banned_ids=BANNED),
        sample(model, SRC_IDS, max_new_tokens=limit, seed=1, banned_ids=BANNED),
        beam_search(model, SRC_IDS, beam_size=3, max_new_tokens=limit, banned_ids=BANNED),
    ):
        steps, hypotheses = finish(decoding)
        assert len(steps) == limit
        assert not any(hypothesis.finished for hypothesis in hypotheses)
        assert all(len(hypothesis.token_ids) == limit and EOS not in hypothesis.token_ids for hypothesis in hypotheses)


def test_a_finished_hypothesis_comes_before_any_that_was_cut():
    for seed in range(10):
        _, hypotheses = finish(beam_search(small_model(9, seed, 0.5), SRC_IDS, beam_size=4, max_new_tokens=3, banned_ids=BANNED))
        order = [hypothesis.finished for hypothesis in hypotheses]
        assert order == sorted(order, reverse=True)


def test_the_model_can_be_filled_to_its_last_position():
    model = small_model(12, 0, eos_bias=-40.0, max_len=9)
    _, hypotheses = finish(beam_search(model, SRC_IDS, beam_size=2, max_new_tokens=9, banned_ids=BANNED))
    assert len(hypotheses[0].token_ids) == 9


def test_default_length():
    assert default_max_new_tokens(5, 512) == 20
    assert default_max_new_tokens(400, 512) == 512


@pytest.mark.parametrize("seed", range(3))
def test_banned_tokens_are_never_produced(seed):
    model = small_model(12, seed)
    with torch.no_grad():
        model.output_bias[list(BANNED)] += 50.0
    for decoding in (
        greedy_search(model, SRC_IDS, max_new_tokens=6, banned_ids=BANNED),
        sample(model, SRC_IDS, max_new_tokens=6, seed=seed, temperature=50.0, banned_ids=BANNED),
        beam_search(model, SRC_IDS, beam_size=4, max_new_tokens=6, banned_ids=BANNED),
    ):
        steps, hypotheses = finish(decoding)
        assert not {i for hypothesis in hypotheses for i in hypothesis.token_ids} & set(BANNED)
        assert not {c.token_id for step in steps for beam in step.beams for c in beam.candidates} & set(BANNED)
        assert all(math.isfinite(hypothesis.score) for hypothesis in hypotheses)


def test_log_probabilities_are_float32_and_sum_to_one():
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(0)).half()
    log_probs = masked_log_softmax(logits, (0, 7))
    assert log_probs.dtype == torch.float32
    assert torch.allclose(log_probs.exp().sum(-1), torch.ones(3))
    assert bool((log_probs[:, [0, 7]] == -math.inf).all())


def test_a_model_without_numbers_is_an_error():
    model = small_model(12, 0)
    with torch.no_grad():
        model.decoder[0].feed_forward.linear2.bias[0] = math.nan
    with pytest.raises(CheckpointCorruptError, match="finite"):
        finish(greedy_search(model, SRC_IDS, max_new_tokens=3, banned_ids=BANNED))


# --- sampling ---


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
    model, draws = small_model(16, 2), 3000
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


# --- attention of the steps against one teacher-forced pass ---


class StepRecorder:
    """Collects the last row of every decoder map of every step: one list of [layer] -> [rows, H, K] per kind."""

    def __init__(self):
        self.steps = {"decoder_self": [], "cross": []}

    def __call__(self, site, attn_weights):
        if site.kind != "encoder_self":
            if site.layer == 0:
                self.steps[site.kind].append({})
            self.steps[site.kind][-1][site.layer] = attn_weights[:, :, -1].clone()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("method", ["greedy", "sample", "beam"])
@pytest.mark.parametrize("seed", [0, 3, 4])
def test_row_t_of_the_parallel_pass_is_step_t_of_the_serial_one(method, seed, norm):
    model, recorder = small_model(40, seed, norm=norm), StepRecorder()
    options = {"max_new_tokens": 8, "banned_ids": BANNED}
    with attention_hook(recorder):
        if method == "beam":
            _, hypotheses = finish(beam_search(model, SRC_IDS, beam_size=4, **options))
        elif method == "greedy":
            _, hypotheses = finish(greedy_search(model, SRC_IDS, **options))
        else:
            _, hypotheses = finish(sample(model, SRC_IDS, seed=7, **options))
    parallel = {}
    for hypothesis in hypotheses:
        with torch.no_grad(), attention_hook(lambda site, weights: parallel.update({site: weights[0]})):
            model(torch.tensor([SRC_IDS]), torch.tensor([[BOS, *hypothesis.token_ids[:-1]]]))
        for site, weights in parallel.items():
            if site.kind == "encoder_self":
                continue
            for t, row in enumerate(hypothesis.rows):
                step = recorder.steps[site.kind][t][site.layer][row]  # [H, keys so far]
                assert torch.allclose(weights[:, t, : step.shape[1]], step, atol=1e-5)
                assert not weights[:, t, step.shape[1] :].any()
    # If the weights were uniform, or those of all beams alike, the test would prove nothing.
    assert float(weights.max()) > 1.5 / len(SRC_IDS)
    if method == "beam":
        assert max(float((step[0] - step[0][:1]).abs().max()) for step in recorder.steps["cross"]) > 0.01


def test_nothing_is_left_on_between_steps():
    model = small_model(12, 0)
    for decoding in (
        greedy_search(model, SRC_IDS, max_new_tokens=6, banned_ids=BANNED),
        sample(model, SRC_IDS, max_new_tokens=6, banned_ids=BANNED),
        beam_search(model, SRC_IDS, beam_size=2, max_new_tokens=6, banned_ids=BANNED),
    ):
        for _ in decoding:
            assert not torch.is_inference_mode_enabled()
            assert torch.is_grad_enabled()


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_only_the_last_position_is_projected_and_the_source_is_encoded_once(method, monkeypatch):
    model = small_model(12, 0)
    calls = Counter()
    encode, decode, project = model.encode, model.decode, model.project

    def counted_decode(tgt_in_ids, *args, **kwargs):
        assert tgt_in_ids.shape[1] == 1
        assert tgt_in_ids.shape[0] == 1 if method == "greedy" else tgt_in_ids.shape[0] in (1, 4)
        calls["decode"] += 1
        return decode(tgt_in_ids, *args, **kwargs)

    monkeypatch.setattr(model, "encode", lambda *args: calls.update(["encode"]) or encode(*args))
    monkeypatch.setattr(model, "decode", counted_decode)
    monkeypatch.setattr(model, "project", lambda states: calls.update(project=states[..., 0].numel()) or project(states))
    if method == "greedy":
        steps, _ = finish(greedy_search(model, SRC_IDS, max_new_tokens=8, banned_ids=BANNED))
        assert calls == {"encode": 1, "decode": len(steps), "project": len(steps)}
    else:
        steps, _ = finish(beam_search(model, SRC_IDS, beam_size=4, max_new_tokens=8, banned_ids=BANNED))
        assert calls == {"encode": 1, "decode": len(steps), "project": 1 + 4 * (len(steps) - 1)}
