"""What the division by sqrt(d_k) does: heads against the maps of the model with and without it, random vectors against the theory."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.analysis.score_scale import MEASURES, head_score_scale, random_score_scale
from model.errors import InvalidSettingError
from model.loading import load_translator
from model.translator import Translator
from tests import tiny
from tests.model.marian.factories import make_marian_folder

KINDS = {"encoder_self": "encoder_self_attention", "decoder_self": "decoder_self_attention", "cross": "cross_attention"}


@pytest.fixture(scope="module", params=["post", "pre", "halves", "marian"])
def translator(request, tmp_path_factory, tiny_tokenizer) -> Translator:
    if request.param == "marian":
        return load_translator(make_marian_folder(tmp_path_factory.mktemp("marian") / "opus-mt-en-fr", seed=3), "cpu")
    changes = {"position_layout": "halves"} if request.param == "halves" else {"norm": request.param}
    return Translator(tiny.random_model(tiny.tiny_config(tiny_tokenizer.vocab_size, **changes)), tiny_tokenizer, "tiny")


@pytest.fixture(scope="module")
def translation(translator):
    return translator.force("The cat sat on the mat.", "Le chat a vu le chat.", translator.targets[0])


def by_hand(weights: np.ndarray, causal: bool) -> dict[str, float]:
    """Of one head's weights [queries, keys], over rows that may look at two keys or more."""
    rows = [row[: i + 1] if causal else row for i, row in enumerate(weights.astype(np.float64).tolist())][int(causal) :]
    return {
        "entropy": np.mean([-sum(w * math.log(w) for w in row if w) / math.log(len(row)) for row in rows]),
        "largest": np.mean([max(row) for row in rows]),
        "slope": np.mean([sum(w * (1 - w) for w in row) for row in rows]),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_divided_is_what_the_model_does(translator, translation, kind):
    maps = getattr(translator.trace(translation), KINDS[kind])
    for layer in range(len(maps)):
        found = head_score_scale(translator.model, translation, kind, layer)
        assert found.divided["entropy"].shape == (maps.shape[1],)
        for head, weights in enumerate(maps[layer]):
            for name, value in by_hand(weights, kind == "decoder_self").items():
                assert found.divided[name][head] == pytest.approx(value, abs=2e-5), (layer, head, name)


@pytest.mark.parametrize("kind", KINDS)
def test_plain_is_what_the_first_layer_does_without_the_division(translator, translation, kind):
    """In the first layer nothing has changed below it yet, except that cross-attention stands after self-attention."""
    if kind == "cross":
        # the weights themselves say it: softmax of log-weights times sqrt(d_k)
        weights = translator.trace(translation).cross_attention[0].astype(np.float64)
        width = translator.config.d_model // translator.config.decoder.num_heads
        maps = np.exp(np.log(weights / weights.max(axis=-1, keepdims=True)) * math.sqrt(width))
        maps /= maps.sum(axis=-1, keepdims=True)
    else:
        maps = getattr(translator.without("score_scale").trace(translation), KINDS[kind])[0]
    found = head_score_scale(translator.model, translation, kind, 0)
    for head, weights in enumerate(maps):
        for name, value in by_hand(weights, kind == "decoder_self").items():
            assert found.plain[name][head] == pytest.approx(value, abs=2e-4), (head, name)


def test_the_variance_is_that_of_the_scores_that_may_be(translator, translation):
    model = translator.model
    attention = model.decoder[0].self_attn
    ids = torch.tensor([[translator.config.bos_id, *translation.tgt_ids[:-1]]])
    with torch.inference_mode():
        x = model.tgt_embedding(ids, model.positions[: ids.shape[1]])
        x = model.decoder[0].self_attn_norm(x) if translator.config.norm == "pre" else x
        q, k = attention.q_proj(x)[0].numpy(), attention.k_proj(x)[0].numpy()
    width = q.shape[1] // attention.num_heads
    found = head_score_scale(model, translation, "decoder_self", 0)
    for head in range(attention.num_heads):
        columns = slice(head * width, (head + 1) * width)
        seen = [float(q[i, columns] @ k[j, columns]) for i in range(1, len(q)) for j in range(i + 1)]
        assert found.plain["variance"][head] == pytest.approx(np.var(seen), rel=1e-4)
        assert found.divided["variance"][head] == pytest.approx(np.var(seen) / width, rel=1e-4)


def test_random_vectors_follow_the_theory():
    widths = [1, 4, 64, 512]
    found = random_score_scale(widths, 11, seed=3)
    np.testing.assert_allclose(found.plain["variance"], widths, rtol=0.15)
    np.testing.assert_allclose(found.divided["variance"], 1, rtol=0.15)
    for name, sign in (("entropy", -1), ("largest", 1), ("slope", -1)):
        assert (sign * np.diff(found.plain[name]) > 0.03).all(), name
        assert np.ptp(found.divided[name]) < 0.08, name
    assert found.plain["largest"][0] == found.divided["largest"][0]  # sqrt(1)
    assert found.plain["slope"][-1] < 0.15 and set(found.plain) == set(MEASURES)


def test_what_there_is_not(translator, translation):
    for kind, layer in (("other", 0), ("cross", 99), ("encoder_self", -1), ("encoder_self", True), ("encoder_self", 1.0)):
        with pytest.raises(InvalidSettingError):
            head_score_scale(translator.model, translation, kind, layer)
    for widths, keys in (([4], 1), ([0], 5)):
        with pytest.raises(ValueError, match="keys"):
            random_score_scale(widths, keys)


def test_a_single_token_has_no_choice(translator):
    one = translator.force("I am a student.", "Je", translator.targets[0])
    one = type(one)(**{**vars(one), "tgt_ids": one.tgt_ids[:1], "tgt_in_tokens": one.tgt_in_tokens[:1],
                       "tgt_out_tokens": one.tgt_out_tokens[:1], "token_log_probs": one.token_log_probs[:1]})
    assert head_score_scale(translator.model, one, "decoder_self", 0) is None
    assert head_score_scale(translator.model, one, "cross", 0) is not None
