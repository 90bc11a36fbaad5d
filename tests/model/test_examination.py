"""`Translator.examine`: one pass that shows the maps, what each key really adds, and what else was likely."""

import dataclasses

import numpy as np
import pytest
import torch

from model.analysis.norms import norm_weighted
from model.errors import InvalidSettingError
from model.hooks import attention_hook
from model.marian.config import GenerationDefaults
from model.results import MAPS, NORM_KINDS, Examination, RunnerUps
from model.runner_ups import ROWS_AT_ONCE, find_runner_ups
from model.translator import Translator

TEXT = "The cat saw the cat, and the dog."  # tokens that repeat
BANNED = (0, 1, 4, 5)  # padding, start and the two language prefixes


def full_pass(model, translation):
    """Probabilities [T, V] of the model's own parallel pass, without the tokens it never writes."""
    with torch.no_grad():
        logits = model(torch.tensor([translation.src_ids]), torch.tensor([[1, *translation.tgt_ids[:-1]]]))[0].double().numpy()
    logits[:, BANNED] = -np.inf
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    return probabilities / probabilities.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("text", "target", "options"), [(TEXT, "fra", {}), ("I love you.", "cmn", {"method": "sample", "seed": 3, "temperature": 3.0})]
)
def test_runner_ups_are_those_of_a_plain_pass(tiny_translator, tiny_model, text, target, options):
    translation = tiny_translator.translate(text, target, **options)
    found = tiny_translator.examine(translation).runner_ups
    assert len(found) == len(translation.tgt_ids)
    probabilities = full_pass(tiny_model, translation)
    for row, token_id, log_prob, beside in zip(probabilities, translation.tgt_ids, translation.token_log_probs, found, strict=True):
        order = [int(i) for i in np.argsort(-row)]
        assert beside.rank == 1 + order.index(token_id)
        likeliest = [i for i in order if i != token_id][:5]
        assert [token for token, _ in beside.others] == [tiny_translator.tokenizer.tokens([i])[0] for i in likeliest]
        assert [p for _, p in beside.others] == pytest.approx(row[likeliest], rel=1e-4)
        assert np.exp(log_prob) == pytest.approx(row[token_id], rel=1e-4)  # probabilities of the same kind


def test_a_token_may_be_less_likely_than_its_runner_ups(tiny_translator):
    forced = tiny_translator.force("I love you.", "Le chat, chat.", "fra")
    found = tiny_translator.examine(forced).runner_ups
    assert max(beside.rank for beside in found) > 5
    for beside, token, log_prob in zip(found, forced.tgt_out_tokens, forced.token_log_probs, strict=True):
        likelier = [p for _, p in beside.others if p > np.exp(log_prob) * (1 + 1e-5)]
        assert len(likelier) == min(beside.rank - 1, 5) and token not in dict(beside.others)
        assert [p for _, p in beside.others] == sorted((p for _, p in beside.others), reverse=True)


def test_tokens_that_are_never_written_are_no_runner_ups(tiny_translator, tiny_tokenizer):
    never = {tiny_tokenizer.tokens([i])[0] for i in BANNED}
    for beside in tiny_translator.examine(tiny_translator.translate(TEXT)).runner_ups:
        assert not never & set(dict(beside.others))


def test_the_trace_and_the_norms_are_those_of_their_own_passes(tiny_translator, tiny_model):
    translation = tiny_translator.translate(TEXT)
    found, trace = tiny_translator.examine(translation), tiny_translator.trace(translation)
    for name in MAPS:
        np.testing.assert_array_equal(getattr(found.trace, name), getattr(trace, name))
    norms = norm_weighted(tiny_model, translation.src_ids, (1, *translation.tgt_ids[:-1])).layers
    for kind, name in zip(NORM_KINDS, MAPS, strict=True):
        weights = getattr(trace, name)
        assert found.norms[kind].shape == (len(weights), *weights.shape[2:]) and not found.norms[kind].flags.writeable
        np.testing.assert_allclose(found.norms[kind], norms[kind] / norms[kind].sum(axis=-1, keepdims=True), atol=1e-6)
        assert not np.allclose(found.norms[kind], weights.mean(axis=1), atol=1e-2)
    assert not np.triu(found.norms["decoder_self"], 1).any()


def test_hooks_are_heeded_and_nothing_is_left_behind(tiny_translator):
    translation = tiny_translator.translate(TEXT)
    plain = tiny_translator.examine(translation)
    with attention_hook(lambda site, weights: torch.full_like(weights, 1 / weights.shape[-1]) if site.kind == "cross" else None):
        even = tiny_translator.examine(translation)
    assert np.allclose(even.trace.cross_attention, 1 / len(translation.src_ids)) and even.runner_ups != plain.runner_ups
    again = tiny_translator.examine(translation)
    assert again.runner_ups == plain.runner_ups and not torch.is_inference_mode_enabled()
    np.testing.assert_array_equal(again.norms["cross"], plain.norms["cross"])


def test_it_needs_a_translation_of_its_own_model(tiny_translator):
    translation = tiny_translator.translate(TEXT)
    foreign = dataclasses.replace(translation, tgt_ids=(10**6, *translation.tgt_ids[1:]))
    for wrong in (None, "text", tiny_translator.trace(translation), foreign):
        with pytest.raises(InvalidSettingError):
            tiny_translator.examine(wrong)


def test_many_rows_are_taken_in_parts():
    """Each row of a position of its own, one row more than a part holds."""
    size, vocabulary = 2 * ROWS_AT_ONCE + 1, 9
    rows = torch.randn(size, vocabulary, generator=torch.Generator().manual_seed(0)).log_softmax(dim=-1)
    rows[:, 3] = -torch.inf
    chosen = [(2 * i) % vocabulary for i in range(size)]
    chosen = [4 if i == 3 else i for i in chosen]
    seen = []

    def log_probs(states):
        seen.append(len(states))
        return states

    found = find_runner_ups(rows, chosen, log_probs, str)
    assert seen == [ROWS_AT_ONCE, ROWS_AT_ONCE, 1]
    for row, token_id, beside in zip(rows.tolist(), chosen, found, strict=True):
        others = sorted((i for i in range(vocabulary) if i not in (3, token_id)), key=lambda i: -row[i])
        assert [token for token, _ in beside.others] == [str(i) for i in others[:5]]
        assert beside.rank == 1 + sum(value > row[token_id] for value in row)
    few = find_runner_ups(rows[:1, :3], [1], log_probs, str)
    assert len(few[0].others) == 2


def marian_like(model, tokenizer, **changes):
    settings = {"num_beams": 1, "max_length": None, "length_penalty": 1.0, "early_stopping": False, "renormalize_logits": False}
    settings |= {"forced_eos_id": None, "bad_word_ids": (7,), "eos_id": 2, "decoder_start_id": 1, "pad_id": 0}
    return Translator(model, tokenizer, "marian", generation=GenerationDefaults(**{**settings, **changes}))


def test_what_is_banned_takes_its_share_along_where_the_makers_say_so(tiny_model, tiny_tokenizer):
    for renormalize in (False, True):
        translator = marian_like(tiny_model, tiny_tokenizer, renormalize_logits=renormalize)
        translation = translator.translate(TEXT)
        with torch.no_grad():
            logits = tiny_model(torch.tensor([translation.src_ids]), torch.tensor([[1, *translation.tgt_ids[:-1]]]))[0].double()
        probabilities = logits.softmax(dim=-1).numpy()
        probabilities[:, (*BANNED, 7)] = 0
        if renormalize:
            probabilities /= probabilities.sum(axis=1, keepdims=True)
        for row, token_id, beside in zip(probabilities, translation.tgt_ids, translator.examine(translation).runner_ups, strict=True):
            likeliest = sorted(p for i, p in enumerate(row) if i != token_id)[:-6:-1]
            assert [p for _, p in beside.others] == pytest.approx(likeliest, rel=1e-4)


def test_a_token_that_a_rule_put_at_the_limit_has_no_rivals(tiny_model, tiny_tokenizer):
    ruled = marian_like(tiny_model, tiny_tokenizer, forced_eos_id=2)
    cut = ruled.translate(TEXT, max_new_tokens=2)
    assert cut.tgt_ids[-1] == 2 and cut.token_log_probs[-1] == 0.0
    assert ruled.examine(cut).runner_ups[-1] == RunnerUps(1, ())
    assert len(ruled.examine(cut).runner_ups[0].others) == 5
    given = ruled.force(TEXT, "Le chat")  # nothing was prescribed here
    assert len(ruled.examine(given).runner_ups[-1].others) == 5


# --- the dataclass checks itself ---


def test_an_examination_refuses_what_does_not_fit(tiny_translator):
    whole = tiny_translator.examine(tiny_translator.translate(TEXT))
    with pytest.raises(ValueError, match="runner-ups of 1 tokens"):
        Examination(whole.trace, whole.norms, whole.runner_ups[:1])
    cross = whole.norms["cross"]
    for wrong in (cross.swapaxes(1, 2), cross[:1], cross.astype(np.float64), -cross, cross * np.float32(np.nan)):
        with pytest.raises(ValueError, match="norms of cross"):
            Examination(whole.trace, {**whole.norms, "cross": wrong})
