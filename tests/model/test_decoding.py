"""What holds for every way of decoding: limits, banned tokens, and the attention of each step."""

import math
from collections import Counter
from contextlib import nullcontext

import pytest
import torch

from model.beam import beam_search
from model.decoding import default_max_new_tokens, masked_log_softmax
from model.errors import CheckpointCorruptError
from model.hooks import attention_hook
from model.sampling import greedy_search, sample
from model.stepping import DecoderWeights, Stepper
from tests.model.decoding_reference import BANNED, BOS, EOS, SRC_IDS, StepRecorder, finish, small_model


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
    kept = logits.float()
    assert torch.equal(masked_log_softmax(kept, (0, 7)), log_probs) and torch.equal(kept, logits.float())


def test_a_model_without_numbers_is_an_error():
    model = small_model(12, 0)
    with torch.no_grad():
        model.decoder[0].feed_forward.linear2.bias[0] = math.nan
    with pytest.raises(CheckpointCorruptError, match="finite"):
        finish(greedy_search(model, SRC_IDS, max_new_tokens=3, banned_ids=BANNED))


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


@pytest.mark.parametrize("watched", [False, True], ids=["by steps", "by modules"])
@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_only_the_last_position_is_projected_and_the_source_is_encoded_once(method, watched, monkeypatch):
    model = small_model(12, 0)
    weights, calls = DecoderWeights(model), Counter()
    encode, decode, output, step = model.encode, model.decode, weights.output, Stepper.__call__

    def counted(name, ids, rows):
        calls[name] += 1
        assert ids.shape == (rows,)
        assert rows == 1 if method == "greedy" else rows in (1, 4)

    def counted_decode(tgt_in_ids, *args, **kwargs):
        counted("by modules", tgt_in_ids.squeeze(1), len(tgt_in_ids))
        return decode(tgt_in_ids, *args, **kwargs)

    monkeypatch.setattr(model, "encode", lambda *args: calls.update(["encode"]) or encode(*args))
    monkeypatch.setattr(model, "decode", counted_decode)
    monkeypatch.setattr(Stepper, "__call__", lambda self, ids, rows: counted("by steps", ids, len(rows)) or step(self, ids, rows))
    monkeypatch.setattr(weights, "output", lambda states: calls.update(project=states[..., 0].numel()) or output(states))
    way, options = ("by modules" if watched else "by steps"), {"max_new_tokens": 8, "banned_ids": BANNED, "weights": weights}
    with attention_hook(lambda site, attn_weights: None) if watched else nullcontext():
        if method == "greedy":
            steps, _ = finish(greedy_search(model, SRC_IDS, **options))
            assert calls == {"encode": 1, way: len(steps), "project": len(steps)}
        else:
            steps, _ = finish(beam_search(model, SRC_IDS, beam_size=4, **options))
            assert calls == {"encode": 1, way: len(steps), "project": 1 + 4 * (len(steps) - 1)}


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_who_begins_to_watch_midway_sees_the_steps_from_there_on(method):
    """Modules take over from the steps, with all that was written before, and change nothing."""
    model = small_model(40, 3)
    options = {"max_new_tokens": 8, "banned_ids": BANNED} | ({"beam_size": 4} if method == "beam" else {})
    search = beam_search if method == "beam" else greedy_search
    whole, seen = StepRecorder(), StepRecorder()
    with attention_hook(whole):
        steps, hypotheses = finish(search(model, SRC_IDS, **options))
    assert len(steps) > 5
    decoding = search(model, SRC_IDS, **options)
    alone = [next(decoding) for _ in range(3)]
    with attention_hook(seen):
        rest, found = finish(decoding)
    assert [hypothesis.token_ids for hypothesis in found] == [hypothesis.token_ids for hypothesis in hypotheses]
    assert [step.index for step in (*alone, *rest)] == list(range(len(steps)))
    for kind in ("decoder_self", "cross"):
        assert len(seen.steps[kind]) == len(rest)
        for ours, theirs in zip(seen.steps[kind], whole.steps[kind][3:], strict=True):
            for layer in theirs:
                torch.testing.assert_close(ours[layer], theirs[layer], atol=1e-5, rtol=0)
    # And whoever stops watching leaves the modules at work.
    decoding = search(model, SRC_IDS, **options)
    with attention_hook(StepRecorder()):
        next(decoding)
    assert [hypothesis.token_ids for hypothesis in finish(decoding)[1]] == [hypothesis.token_ids for hypothesis in hypotheses]
