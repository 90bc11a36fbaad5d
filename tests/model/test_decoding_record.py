"""Maps from the decoding itself against those of a teacher-forced pass over what it wrote."""

import dataclasses

import numpy as np
import pytest
import torch

from model import stepping
from model.decoding import OWN_RULES
from model.hooks import attention_hook, value_hook
from model.results import MAPS, NORM_KINDS
from model.translator import Translator
from model.variants import PARTS
from tests.tiny import random_model, tiny_config

TEXT = "The cat saw the cat, and the dog."
WAYS = (
    {"beam_size": 1},
    {"beam_size": 4},
    {"beam_size": 16, "length_penalty": 0.0},
    {"beam_size": 4, "max_new_tokens": 1},
    {"beam_size": 3, "max_new_tokens": 5},  # cut off
    {"method": "sample", "seed": 3, "temperature": 3.0},
)


def same(translator, **options):
    """Raises AssertionError if one call gives anything else than two."""
    translation, found = translator.translate_and_examine(TEXT, "fra", **options)
    assert translation == translator.translate(TEXT, "fra", **options)  # to the last digit
    expected = translator.examine(translation)
    for name in MAPS:
        ours, theirs = getattr(found.trace, name), getattr(expected.trace, name)
        assert ours.dtype == np.float32 and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, atol=2e-5, rtol=0)
    for name in ("src_tokens", "tgt_in_tokens", "tgt_out_tokens", "causal"):
        assert getattr(found.trace, name) == getattr(expected.trace, name)
    for kind in NORM_KINDS:
        np.testing.assert_allclose(found.norms[kind], expected.norms[kind], atol=2e-5, rtol=0)
    assert [each.rank for each in found.runner_ups] == [each.rank for each in expected.runner_ups]
    for ours, theirs in zip(found.runner_ups, expected.runner_ups, strict=True):
        assert [token for token, _ in ours.others] == [token for token, _ in theirs.others]
        assert [p for _, p in ours.others] == pytest.approx([p for _, p in theirs.others], rel=1e-4)
    again, trace = translator.translate_and_trace(TEXT, "fra", **options)
    assert again == translation and all(np.array_equal(getattr(trace, name), getattr(found.trace, name)) for name in MAPS)
    return translation


@pytest.mark.parametrize("options", WAYS, ids=str)
def test_one_call_gives_what_two_give(tiny_translator, options):
    same(tiny_translator, **options)


@pytest.mark.parametrize(
    "changes", [{"norm": "pre"}, {"num_decoder_heads": 4, "decoder_d_ff": 24, "activation": "gelu"}, {"scale_embedding": False}], ids=str
)
def test_with_a_model_of_another_shape(tiny_tokenizer, changes):
    translator = Translator(random_model(tiny_config(tiny_tokenizer.vocab_size, **changes)), tiny_tokenizer, "another")
    same(translator, beam_size=4)


def test_when_the_room_for_the_past_grows(tiny_translator, monkeypatch):
    monkeypatch.setattr(stepping, "FIRST_ROOM", 2)
    translation = same(tiny_translator, beam_size=4)
    assert len(translation.tgt_ids) > 2


@pytest.mark.parametrize("part", PARTS)
def test_without_a_part_of_the_model(tiny_translator, part):
    """Without its causal mask a model looks ahead in the pass, and couldn't while it decoded."""
    same(tiny_translator.without(part), beam_size=4)


@pytest.mark.parametrize("hook", [attention_hook, value_hook])
def test_hooks_see_the_pass_that_they_are_there_for(tiny_translator, hook):
    """Such as a hook that changes weights: it changes the translation and its maps, as it does in two calls."""

    def watch(site, tensor):
        seen.append((site, tuple(tensor.shape)))
        return torch.full_like(tensor, 1 / tensor.shape[-1]) if hook is attention_hook and site.kind == "cross" else None

    seen = []
    with hook(watch):
        same(tiny_translator, beam_size=2)
    count = len(seen)
    assert count > 0
    seen.clear()
    same(tiny_translator, beam_size=2)
    assert not seen


def test_the_usual_errors(tiny_translator):
    for options in ({"beam_size": 0}, {"method": "guess"}, {"temperature": 0.0}):
        with pytest.raises(Exception, match=".") as alone:
            tiny_translator.translate(TEXT, "fra", **options)
        with pytest.raises(type(alone.value)) as together:
            tiny_translator.translate_and_examine(TEXT, "fra", **options)
        assert str(together.value) == str(alone.value)
    with pytest.raises(TypeError):
        tiny_translator.translate_and_trace(TEXT, "fra", beams=3)


def test_an_end_that_a_rule_forces(tiny_translator):
    """The last token has probability one in the decoding, and stands there by no choice of the model's."""
    forced = dataclasses.replace(OWN_RULES, forced_last_id=tiny_translator.config.eos_id)
    tiny_translator._rules, before = forced, tiny_translator._rules
    try:
        translation = same(tiny_translator, beam_size=2, max_new_tokens=3)
    finally:
        tiny_translator._rules = before
    assert translation.tgt_ids[-1] == tiny_translator.config.eos_id and translation.token_log_probs[-1] == 0.0
