"""The facade: translate, steps, force and trace, in one thread and in several."""

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from model.analysis.word_order import read_orders
from model.decoding import NextTokenScorer
from model.errors import EmptyTextError, InvalidSettingError, NotWantedError
from model.hooks import AttentionSite, attention_hook
from model.translator import Translator
from tests.model.decoding_reference import StepRecorder, finish
from tests.tiny import random_model

TEXT = "The cat saw 12 apples."
HOSTILE = (
    "<script>alert(1)</script>",
    "<b>bold</b>",
    "$x$",
    "مرحبا بالعالم",
    "שלום",
    ">>cmn<< hello",
    "</s>",
    "<s><pad>",
    "😀 👩‍👩‍👧",
    "a\x00b\x1b[0m",
    "half \ud83d pair",
    "user\u202egpj",
    "“Où”\u00a0?\r\nNo.",
)


# --- translate ---


@pytest.mark.parametrize("target", ["fra", "cmn"])
@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"method": "greedy"}, {"method": "sample", "seed": 4}, {"length_penalty": 0.0}])
def test_a_translation_fits_together(tiny_translator, options, target):
    result = tiny_translator.translate(TEXT, target, **options)
    tokenizer = tiny_translator.tokenizer
    assert result.source_text == TEXT and result.target == target and not result.forced
    assert list(result.src_ids) == tokenizer.encode_source(TEXT, target)
    assert result.src_tokens == tokenizer.tokens(result.src_ids)
    assert result.src_tokens[0] == f">>{target}<<" and result.src_tokens[-1] == "</s>"
    assert result.tgt_in_tokens[0] == "<s>" and result.tgt_in_tokens[1:] == result.tgt_out_tokens[:-1]
    assert len(result.tgt_in_tokens) == len(result.tgt_out_tokens) == len(result.tgt_ids) == len(result.token_log_probs)
    assert result.finished == (result.tgt_ids[-1] == 2) == (result.tgt_out_tokens[-1] == "</s>")
    assert result.text == tokenizer.decode(result.tgt_ids)
    assert result.score == pytest.approx(sum(result.token_log_probs) / len(result.tgt_ids) ** options.get("length_penalty", 1.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.text = ""


def test_the_target_changes_the_output(tiny_translator):
    assert tiny_translator.translate(TEXT, "fra").token_log_probs != tiny_translator.translate(TEXT, "cmn").token_log_probs


def test_a_beam_of_one_is_greedy(tiny_translator):
    assert tiny_translator.translate(TEXT, beam_size=1) == tiny_translator.translate(TEXT, method="greedy")


def test_a_seed_repeats(tiny_translator):
    drawn = [tiny_translator.translate(TEXT, method="sample", temperature=2.0, seed=seed).tgt_ids for seed in (1, 2, 3, 1, 2, 3)]
    assert drawn[:3] == drawn[3:] and len(set(drawn)) == 3


def test_steps_lead_to_the_translation(tiny_translator):
    steps, result = finish(tiny_translator.steps(TEXT, beam_size=3))
    assert result == tiny_translator.translate(TEXT, beam_size=3)
    assert len(steps[0].beams) == 1 and all(len(step.beams) == 3 for step in steps[1:])


def test_steps_complain_before_the_first_step(tiny_translator):
    with pytest.raises(EmptyTextError):
        tiny_translator.steps("")


def test_the_length_limit_says_unfinished(tiny_translator):
    result = tiny_translator.translate(TEXT, method="greedy", max_new_tokens=1)
    assert len(result.tgt_ids) == 1 and not result.finished and result.tgt_out_tokens[-1] != "</s>"
    assert tiny_translator.trace(result).cross_attention.shape[2] == 1


def test_input_tokens_never_come_out(tiny_tokenizer, tiny_config):
    model = random_model(tiny_config)
    with torch.no_grad():
        model.output_bias[[0, 1, 4, 5]] += 30.0
    translator = Translator(model, tiny_tokenizer)
    for options in ({}, {"method": "greedy"}, {"method": "sample", "temperature": 5.0, "seed": 0}):
        assert not {0, 1, 4, 5} & set(translator.translate(TEXT, **options).tgt_ids)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(tiny_translator, text):
    result = tiny_translator.translate(text, max_new_tokens=6)
    assert not {0, 1, 2, 3, 4, 5} & set(result.src_ids[1:-1])
    assert result.src_ids[0] == 4
    assert all(token.isprintable() for token in (*result.src_tokens, *result.tgt_out_tokens))
    tiny_translator.trace(result)
    forced = tiny_translator.force(TEXT, text)
    assert not {0, 1, 2, 3, 4, 5} & set(forced.tgt_ids[:-1])
    assert np.isfinite(forced.score)


# --- force ---


def test_forcing_what_was_generated_gives_its_scores(tiny_translator):
    compared = 0
    for text in ("I am a student.", "I love you.", "The dog saw the cat.", TEXT):
        for beam_size in (1, 4):
            result = tiny_translator.translate(text, beam_size=beam_size)
            forced = tiny_translator.force(text, result.text)
            if forced.tgt_ids == result.tgt_ids:  # what is generated may spell a text in other pieces than the tokenizer would
                assert forced.token_log_probs == pytest.approx(result.token_log_probs, abs=1e-5)
                assert forced.score == pytest.approx(result.score, abs=1e-5)
                assert forced == dataclasses.replace(result, forced=True, token_log_probs=forced.token_log_probs, score=forced.score)
                compared += 1
    assert compared >= 4


def test_force_gives_log_probs_of_a_full_pass(tiny_translator, tiny_model):
    forced = tiny_translator.force("I love you.", "Je t'aime.", "fra")
    assert forced.forced and forced.finished and forced.text == "Je t'aime." and forced.tgt_out_tokens[-1] == "</s>"
    assert list(forced.tgt_ids) == tiny_translator.tokenizer.encode_target("Je t'aime.")
    with torch.no_grad():
        logits = tiny_model(torch.tensor([forced.src_ids]), torch.tensor([[1, *forced.tgt_ids[:-1]]]))[0].double()
    logits[:, [0, 1, 4, 5]] = -torch.inf
    probs = logits.exp() / logits.exp().sum(-1, keepdim=True)
    expected = [float(probs[t, i].log()) for t, i in enumerate(forced.tgt_ids)]
    assert forced.token_log_probs == pytest.approx(expected, abs=1e-5)
    assert forced.score == pytest.approx(sum(expected) / len(expected), abs=1e-5)


# --- trace ---


@pytest.mark.parametrize("options", [{"method": "greedy"}, {"beam_size": 4}, {"method": "sample", "seed": 2, "temperature": 2.0}])
def test_row_t_of_the_trace_is_step_t(tiny_translator, options):
    recorder = StepRecorder()
    with attention_hook(recorder):
        steps, result = finish(tiny_translator.steps(TEXT, **options))
    trace = tiny_translator.trace(result)
    row, rows = None, []
    # Follow the winner's parents: the beam that held its first t tokens at step t.
    for step, t in zip(steps, range(len(result.tgt_ids)), strict=False):
        row = next(i for i, beam in enumerate(step.beams) if beam.token_ids == result.tgt_ids[:t])
        rows.append(row)
    for kind, maps in (("decoder_self", trace.decoder_self_attention), ("cross", trace.cross_attention)):
        for t, row in enumerate(rows):
            for layer, step in recorder.steps[kind][t].items():
                keys = step.shape[-1]
                assert np.allclose(maps[layer, :, t, :keys], step[row].numpy(), atol=1e-5)
                assert not maps[layer, :, t, keys:].any()


def test_a_trace_is_every_map_of_one_pass(tiny_translator, tiny_model):
    result = tiny_translator.translate(TEXT)
    trace = tiny_translator.trace(result)
    seen: dict[AttentionSite, np.ndarray] = {}
    with torch.no_grad(), attention_hook(lambda site, weights: seen.update({site: weights[0].numpy()})):
        tiny_model(torch.tensor([result.src_ids]), torch.tensor([[1, *result.tgt_ids[:-1]]]))
    src_len, tgt_len = len(result.src_ids), len(result.tgt_ids)
    assert src_len != tgt_len
    assert trace.encoder_self_attention.shape == (2, 2, src_len, src_len)
    assert trace.decoder_self_attention.shape == (2, 2, tgt_len, tgt_len)
    assert trace.cross_attention.shape == (2, 2, tgt_len, src_len)
    for site, weights in seen.items():
        maps = getattr(trace, {"cross": "cross_attention"}.get(site.kind, f"{site.kind}_attention"))
        assert np.allclose(maps[site.layer], weights, atol=1e-6)
        assert maps.dtype == np.float32 and not maps.flags.writeable
    assert trace.src_tokens == result.src_tokens
    assert (trace.tgt_in_tokens, trace.tgt_out_tokens) == (result.tgt_in_tokens, result.tgt_out_tokens)


def test_a_trace_needs_a_translation_of_its_own_model(tiny_translator):
    result = tiny_translator.translate(TEXT)
    with pytest.raises(InvalidSettingError, match="tgt_ids"):
        tiny_translator.trace(dataclasses.replace(result, tgt_ids=(10**6, *result.tgt_ids[1:])))
    long = {"src_ids": result.src_ids * 20, "src_tokens": result.src_tokens * 20}
    with pytest.raises(InvalidSettingError, match="src_ids"):
        tiny_translator.trace(dataclasses.replace(result, **long))


def test_nothing_is_hooked_or_kept_after_a_call(tiny_translator):
    before = dict(vars(tiny_translator))
    tiny_translator.trace(tiny_translator.translate(TEXT))
    assert vars(tiny_translator) == before
    assert not torch.is_inference_mode_enabled()
    for step in tiny_translator.steps(TEXT):
        assert step is not None and not torch.is_inference_mode_enabled()


def test_longest_texts_run(tiny_translator):
    words = "I " * 61  # as many tokens as the model has positions, prefix and end included
    while len(tiny_translator.tokenizer.encode_source(words, "fra")) > tiny_translator.config.max_len:
        words = words[:-2]
    result = tiny_translator.force(words, words)
    assert tiny_translator.trace(result).encoder_self_attention.shape[-1] == len(result.src_ids) > 50
    assert tiny_translator.translate(words, max_new_tokens=tiny_translator.config.max_len).text is not None


# --- threads ---


def test_threads_do_not_meet(tiny_translator):
    """Different sentences, targets and hooks at once give what they give alone."""
    jobs = [(f"The cat saw {i} dogs, {'and I love you ' * (i % 4)}.", ("fra", "cmn")[i % 2], i / 10) for i in range(8)]

    def run(job):
        text, target, mix = job

        def blend(site, weights):
            # Changes what this job computes: some of the weight of cross-attention is spread evenly.
            return (1 - mix) * weights + mix / weights.shape[-1] if site.kind == "cross" else None

        with attention_hook(blend):
            result = tiny_translator.translate(text, target, beam_size=3)
            trace = tiny_translator.trace(result)
        return result, trace.cross_attention.tobytes()

    alone = [run(job) for job in jobs]
    assert len({result.token_log_probs for result, _ in alone}) == len(jobs)
    start = threading.Barrier(4)

    def together(jobs_of_one):
        start.wait(timeout=30)
        return [run(job) for job in jobs_of_one]

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(together, [jobs[i::4] for i in range(4)]))
    for i, part in enumerate(parts):
        for got, expected in zip(part, alone[i::4], strict=True):
            assert got == expected


# --- positions ---


def test_positional_encoding_is_the_models_own(tiny_translator, tiny_model, tiny_tokenizer):
    table = tiny_translator.positional_encoding(5)
    assert table.shape == (5, 16) and table.dtype == np.float32
    assert table[3, 0] == pytest.approx(np.sin(3)) and table[3, 1] == pytest.approx(np.cos(3))
    table[:] = 0
    assert tiny_translator.positional_encoding(5).any()
    halves = Translator(random_model_like(tiny_model, position_layout="halves"), tiny_tokenizer).positional_encoding(5)
    assert halves[3, 8] == pytest.approx(np.cos(3))
    for length in (0, -1, 65, 2.0, None, True):
        with pytest.raises(InvalidSettingError):
            tiny_translator.positional_encoding(length)


def random_model_like(model, **changes):
    return random_model(dataclasses.replace(model.config, **changes))


def test_without_a_target_it_is_the_first(tiny_translator):
    assert tiny_translator.translate(TEXT) == tiny_translator.translate(TEXT, "fra")
    assert tiny_translator.force(TEXT, "Je t'aime.", None).target == "fra"


def test_nothing_said_is_four_beams_and_the_mean_per_token(tiny_translator):
    for text in ("The cat saw 12 apples.", "I am here."):
        assert tiny_translator.translate(text) == tiny_translator.translate(text, beam_size=4, length_penalty=1.0)


# --- given up ---


class Leaving:
    """Says that somebody waits, for so many times, and counts how often it was asked."""

    def __init__(self, times: int) -> None:
        self.times, self.asked = times, 0

    def __call__(self) -> bool:
        self.asked += 1
        return self.asked <= self.times


@pytest.fixture
def steps_taken(monkeypatch):
    taken, usual = [], NextTokenScorer.log_probs

    def counted(self, token_ids, rows, last=False):
        taken.append(len(rows))
        return usual(self, token_ids, rows, last)

    monkeypatch.setattr(NextTokenScorer, "log_probs", counted)
    return taken


@pytest.mark.parametrize("method", ["translate", "translate_and_trace", "translate_and_examine"])
@pytest.mark.parametrize("options", [{"beam_size": 3}, {"beam_size": 1}, {"method": "sample", "seed": 4}])
def test_what_nobody_waits_for_is_given_up_at_the_next_step(tiny_translator, steps_taken, method, options):
    write, text = getattr(tiny_translator, method), "a b c d e f g h"
    expected = write(text, **options)
    whole = len(steps_taken)
    assert whole > 4
    for times in (0, 1, 4):
        steps_taken.clear()
        leaving = Leaving(times)
        with pytest.raises(NotWantedError):
            write(text, still_wanted=leaving, **options)
        assert len(steps_taken) == times and leaving.asked == times + 1
    again = write(text, still_wanted=Leaving(10**9), **options)
    assert len(steps_taken) == 4 + whole
    assert (again if method == "translate" else again[0]) == (expected if method == "translate" else expected[0])


def test_ids_and_orders_are_given_up_too(tiny_translator, steps_taken):
    translation = tiny_translator.translate(TEXT)
    steps_taken.clear()
    with pytest.raises(NotWantedError):
        tiny_translator.translate_ids(translation.src_ids, still_wanted=Leaving(2))
    order = list(range(len(translation.src_ids)))
    with pytest.raises(NotWantedError):
        read_orders(tiny_translator, translation, order, 2, Leaving(3))
    assert len(steps_taken) == 5
