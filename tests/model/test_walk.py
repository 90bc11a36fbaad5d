"""`Translator.walk` and `cell`: on Marian models against transformers, on variants, and what they refuse."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from model.errors import InvalidSettingError
from model.hooks import attention_hook
from model.loading import load_translator
from model.results import MAPS
from model.variants import PARTS
from tests.model.marian.factories import load_reference, make_marian_folder

TEXT = "The cat saw the cat, and the dog."
KINDS = ("encoder_self", "decoder_self", "cross")
FOLDERS = {
    "shared vocabulary": {},
    "two vocabularies, output untied": {"separate_vocabs": True, "tie_word_embeddings": False, "activation_function": "relu"},
    "unscaled": {"scale_embedding": False, "generation": {"renormalize_logits": True}},
}


@pytest.fixture(scope="module", params=FOLDERS)
def marian(request, tmp_path_factory):
    """A Marian translator, a translation, and what transformers' own model computes of it: attentions, states and logits."""
    folder = make_marian_folder(tmp_path_factory.mktemp("marian") / "opus-mt-en-fr", seed=3, init_std=0.3, **FOLDERS[request.param])
    translator, reference = load_translator(folder, "cpu"), load_reference(folder)
    translation = translator.translate(TEXT, max_new_tokens=7)
    read = torch.tensor([[translator.config.bos_id, *translation.tgt_ids[:-1]]])
    options = {"output_attentions": True, "output_hidden_states": True}
    with torch.no_grad():
        output = reference(input_ids=torch.tensor([translation.src_ids]), decoder_input_ids=read, **options)
    return translator, translation, output


@pytest.mark.parametrize("kind", KINDS)
def test_a_walk_of_a_marian_model_is_what_transformers_computes(marian, kind):
    translator, translation, output = marian
    stack = translator.config.encoder if kind == "encoder_self" else translator.config.decoder
    attentions = getattr(output, {"encoder_self": "encoder_attentions", "cross": "cross_attentions"}.get(kind, "decoder_attentions"))
    states = output.encoder_hidden_states if kind == "encoder_self" else output.decoder_hidden_states
    rows = len(translation.src_ids if kind == "encoder_self" else translation.tgt_ids)
    assert len(translation.src_ids) != len(translation.tgt_ids)
    for layer, head, row in ((0, 0, 0), (stack.num_layers - 1, stack.num_heads - 1, rows - 1), (1, 1, rows // 2)):
        ours = translator.walk(translation, kind, layer, head, row)
        tolerance = {"atol": 2e-5, "rtol": 1e-4}
        np.testing.assert_allclose(ours.attention.weights, attentions[layer][0, head, row].numpy(), **tolerance)
        np.testing.assert_allclose(ours.total, states[0][0, row].numpy(), **tolerance)
        np.testing.assert_allclose(ours.sublayers[0].before, states[layer][0, row].numpy(), **tolerance)
        np.testing.assert_allclose(ours.sublayers[-1].after, states[layer + 1][0, row].numpy(), **tolerance)
        np.testing.assert_allclose(ours.final, states[-1][0, row].numpy(), **tolerance)
        assert ours.stream_norms == pytest.approx([float(each[0, row].norm()) for each in states], rel=1e-4)
        assert (ours.embedding_scale == 1.0) is not translator.config.scale_embedding
        check = ours.check
        assert max(check.weights, check.layer, check.final, check.logits or 0.0) < 2e-5
        if kind == "encoder_self":
            continue
        logits = output.logits[0, row].double()
        for guess in (*ours.top, ours.written):
            assert guess.logit == pytest.approx(float(logits[guess.token_id]), abs=1e-4)
            assert guess.token == translator.tokenizer.tokens([guess.token_id])[0]
        found = translator.cell(translation, kind, layer, head, row, "logit", ours.top[0].token_id)
        assert found.total == pytest.approx(ours.top[0].logit, abs=1e-4)


def test_probabilities_are_those_of_the_translation(marian):
    translator, translation, _ = marian
    beside = translator.examine(translation).runner_ups
    for row, log_prob in enumerate(translation.token_log_probs[:-1]):  # the last is forced at the limit, which is no matter of a pass
        ours = translator.walk(translation, "cross", 0, 0, row)
        assert ours.written.probability == pytest.approx(math.exp(log_prob), rel=1e-3)
        others = [(each.token, each.probability) for each in ours.top if each.token_id != translation.tgt_ids[row]][:5]
        assert [name for name, _ in others] == [name for name, _ in beside[row].others]
        assert [p for _, p in others] == pytest.approx([p for _, p in beside[row].others], rel=1e-3)
        assert ours.written.rank == beside[row].rank


# --- variants ---


@pytest.fixture(scope="module", params=["tiny", "marian"])
def translator(request, tmp_path_factory):
    if request.param == "tiny":
        return request.getfixturevalue("tiny_translator")
    return load_translator(make_marian_folder(tmp_path_factory.mktemp("marian") / "opus-mt-en-fr", seed=5, init_std=0.3), "cpu")


@pytest.mark.parametrize("part", PARTS)
def test_a_walk_of_a_variant_shows_what_is_missing(translator, part):
    variant = translator.without(part)
    translation = translator.translate(TEXT, max_new_tokens=7)
    for kind in KINDS:
        layer, head, row = 1, 1, 2
        before = translator.walk(translation, kind, layer, head, row)
        after = variant.walk(translation, kind, layer, head, row)
        maps = getattr(variant.trace(translation), dict(zip(KINDS, MAPS, strict=True))[kind])
        np.testing.assert_allclose(after.attention.weights, maps[layer, head, row], atol=1e-5)
        check = after.check
        assert max(check.weights, check.layer, check.final, check.logits or 0.0) < 3e-5
        root = math.sqrt(len(after.attention.q))
        divided = 1.0 if part == "score_scale" else root
        np.testing.assert_allclose(after.attention.scores * divided, after.attention.products, rtol=1e-5)
        assert after.scale_scores is (part != "score_scale")
        factor = 1.0 if part == "embedding_scale" else before.embedding_scale
        assert after.embedding_scale == factor
        np.testing.assert_allclose(after.scaled, before.embedding * factor, rtol=1e-6)
        np.testing.assert_array_equal(after.encoding, np.zeros_like(before.encoding) if part == "positions" else before.encoding)
        if kind == "decoder_self":
            hidden = [False] * 3 if part == "causal_mask" else [False] * 3 + [True] * (len(translation.tgt_ids) - 3)
            assert after.attention.masked.tolist()[: len(hidden)] == hidden
            assert (after.attention.weights[3:] > 0).all() == (part == "causal_mask")
        untouched = part == "causal_mask" and kind == "encoder_self"
        assert np.allclose(after.final, before.final, atol=1e-4) is untouched
        stage = translator.cell(translation, kind, layer, head, row, "q", 3), variant.cell(translation, kind, layer, head, row, "q", 3)
        for walked, found in zip((before, after), stage, strict=True):
            assert found.total == pytest.approx(walked.attention.q[3], abs=1e-5)


# --- what it refuses, and what it leaves alone ---


def test_a_walk_needs_a_translation_of_its_own_model(tiny_translator):
    translation = tiny_translator.translate(TEXT)
    foreign = dataclasses.replace(translation, tgt_ids=(10**6, *translation.tgt_ids[1:]))
    for wrong in (None, "text", foreign):
        with pytest.raises(InvalidSettingError):
            tiny_translator.walk(wrong, "cross", 0, 0, 0)
        with pytest.raises(InvalidSettingError):
            tiny_translator.cell(wrong, "cross", 0, 0, 0, "q", 0)


def test_one_token_is_walked_as_well(tiny_translator):
    """A translation of the end token alone: one row, one key."""
    translation = tiny_translator.force("I love you.", "Je")
    alone = dataclasses.replace(
        translation, tgt_ids=(2,), tgt_in_tokens=("<s>",), tgt_out_tokens=("</s>",), token_log_probs=translation.token_log_probs[:1]
    )
    ours = tiny_translator.walk(alone, "decoder_self", 0, 0, 0)
    assert ours.attention.weights.tolist() == [1.0] and ours.attention.entropy == 0.0 and ours.written.token == "</s>"
    assert ours.check.final < 1e-5


def test_others_may_compute_meanwhile(tiny_translator):
    """A walk inside somebody's hook sees the model's own pass, and leaves the hook in place."""
    translation = tiny_translator.translate(TEXT)
    seen = []
    with attention_hook(lambda site, weights: seen.append(site)):
        inside = tiny_translator.walk(translation, "cross", 1, 1, 2)
        count = len(seen)
        tiny_translator.trace(translation)
    assert len(seen) == count + 6 and inside.check.weights < 1e-6
    outside = tiny_translator.walk(translation, "cross", 1, 1, 2)
    np.testing.assert_array_equal(inside.final, outside.final)
