"""A head's view of positions: against what the head really does where there is nothing but positions, and against numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.analysis.position_scores import REACH, by_offset, clearest_head, overlap, position_scores
from model.errors import InvalidSettingError
from model.loading import load_translator
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from model.translator import Translator
from tests import tiny
from tests.model.marian.factories import make_marian_folder

TEXT = "The cat saw the cat, and the dog."
GIVEN = "Le chat a vu le chat."
# layers and heads differ between the stacks
SHAPES = {
    "post": {"num_encoder_layers": 3, "num_decoder_heads": 4},
    "pre, halves": {"norm": "pre", "position_layout": "halves", "num_decoder_layers": 3, "num_heads": 4, "num_decoder_heads": 2},
    "pre, unscaled": {"norm": "pre", "scale_embedding": False, "tie_embeddings": False},
}
KINDS = ("encoder_self", "decoder_self")


@pytest.fixture(params=SHAPES)
def model(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> Transformer:
    model = tiny.random_model(tiny.tiny_config(tiny_tokenizer.vocab_size, **SHAPES[request.param]), seed=5)
    if request.param == "post":  # a foreign file may hold two tables that differ
        model.tgt_positions = model.positions.flip(0).clone()
    return model


def bare(model: Transformer) -> Transformer:
    """Nothing left but positions: no words, no biases in what attention reads, and sublayers that add nothing."""
    with torch.no_grad():
        model.src_embedding.tokens.weight.zero_()
        model.tgt_embedding.tokens.weight.zero_()
        for layer in (*model.encoder, *model.decoder):
            for name, part in layer.named_modules():
                if name.endswith("_norm") or name.endswith(("q_proj", "k_proj")):
                    part.bias.zero_()
                if name.endswith(("out_proj", "linear2")):
                    part.weight.zero_()
                    part.bias.zero_()
    return model


def sizes(model: Transformer, kind: str) -> tuple[int, int]:
    stack = model.config.encoder if kind == "encoder_self" else model.config.decoder
    return stack.num_layers, stack.num_heads


@pytest.mark.parametrize("kind", KINDS)
def test_where_there_is_nothing_but_positions_they_are_the_whole_map(model: Transformer, tiny_tokenizer: Tokenizer, kind: str) -> None:
    """Every layer and head of both stacks: the real pass, recorded by hooks, against the softmax of these scores."""
    translator = Translator(bare(model), tiny_tokenizer, "bare")
    translation = translator.force(TEXT, GIVEN)
    trace = translator.trace(translation)
    real = trace.encoder_self_attention if kind == "encoder_self" else trace.decoder_self_attention
    assert real.shape[:2] == sizes(model, kind) and np.ptp(real) > 0.3
    for layer, head in np.ndindex(real.shape[:2]):
        found = position_scores(translator, translation, kind, layer, head)
        np.testing.assert_allclose(found.weights, real[layer, head], atol=2e-5)
        ahead = np.triu(np.ones(found.scores.shape, bool), k=1)
        assert (kind == "decoder_self") == bool(np.isneginf(found.scores[ahead]).all())
        assert np.isfinite(found.scores[~ahead]).all()


@pytest.mark.parametrize("kind", KINDS)
def test_in_the_first_layer_they_are_exactly_one_of_the_parts_of_the_real_score(
    model: Transformer, tiny_tokenizer: Tokenizer, kind: str
) -> None:
    """In numpy: word with word, word with position, position with word and the constants, worked out here, plus ours, give the real map."""
    translator = Translator(model, tiny_tokenizer, "random")
    translation = translator.force(TEXT, GIVEN)
    config = model.config
    source = kind == "encoder_self"
    ids = list(translation.src_ids) if source else [config.bos_id, *translation.tgt_ids[:-1]]
    embedding = model.src_embedding if source else model.tgt_embedding
    layer = (model.encoder if source else model.decoder)[0]
    word = embedding.tokens.weight.detach().double().numpy()[ids] * (math.sqrt(config.d_model) if config.scale_embedding else 1)
    table = model.positions if source or model.tgt_positions is None else model.tgt_positions
    place = table[: len(ids)].double().numpy()
    constant = np.zeros(config.d_model)
    if config.norm == "pre":
        norm = layer.self_attn_norm
        weight, constant = (each.detach().double().numpy() for each in (norm.weight, norm.bias))
        deviation = np.sqrt((word + place).var(axis=1, keepdims=True) + norm.eps)
        word, place = (weight * (part - part.mean(axis=1, keepdims=True)) / deviation for part in (word, place))
    trace = translator.trace(translation)
    real = (trace.encoder_self_attention if source else trace.decoder_self_attention)[0]
    for head in range(real.shape[0]):
        width = config.d_model // real.shape[0]
        own = slice(head * width, (head + 1) * width)
        q, k = (
            [(part @ projection.weight.detach().double().numpy()[own].T) for part in (word, place, constant)]
            + [projection.bias.detach().double().numpy()[own]]
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj)
        )
        q, k = ([part if part.ndim == 2 else np.tile(part, (len(ids), 1)) for part in side] for side in (q, k))
        others = sum(q[a] @ k[b].T for a in range(4) for b in range(4) if (a, b) != (1, 1)) / math.sqrt(width)
        scores = others + np.nan_to_num(position_scores(translator, translation, kind, 0, head).scores, neginf=0)
        if not source:
            scores[np.triu_indices(len(ids), k=1)] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        np.testing.assert_allclose(weights / weights.sum(axis=1, keepdims=True), real[head], atol=2e-5)


def test_the_offsets_of_a_post_norm_model_are_the_literal_product(tiny_tokenizer: Tokenizer) -> None:
    """PE W_q W_k^T PE^T / sqrt(d_k) of 64 positions, its diagonals averaged one by one."""
    config = tiny.tiny_config(tiny_tokenizer.vocab_size, num_heads=4)
    translator = Translator(tiny.random_model(config, seed=9), tiny_tokenizer, "random")
    translation = translator.force(TEXT, GIVEN)
    table = translator.positional_encoding(64).astype(np.float64)
    attention = translator.model.encoder[0].self_attn
    w_q, w_k = (part.weight.detach().double().numpy()[8:12] for part in (attention.q_proj, attention.k_proj))
    product = table @ w_q.T @ w_k @ table.T / math.sqrt(4)
    found = position_scores(translator, translation, "encoder_self", 0, 2)
    assert found.offsets.tolist() == list(range(-REACH, REACH + 1))
    for i, offset in enumerate(found.offsets):
        line = [product[p, p + offset] for p in range(64) if 0 <= p + offset < 64]
        assert found.mean[i] == pytest.approx(np.mean(line), abs=1e-4)
        assert (found.lowest[i], found.highest[i]) == pytest.approx((min(line), max(line)), abs=1e-4)
    backwards = np.abs(found.mean - found.mean[::-1]).max()
    assert backwards > 0.01, "key minus query: the sign matters"
    causal = position_scores(translator, translation, "decoder_self", 1, 1)
    assert causal.offsets.tolist() == list(range(-REACH, 1))


def test_offsets_of_a_later_layer_go_through_the_norms_as_the_sentence_does(tiny_tokenizer: Tokenizer) -> None:
    """Post-norm, layer 1: two norms lie on the way; their mean deviations are measured here on torch's own layers."""
    config = tiny.tiny_config(tiny_tokenizer.vocab_size)
    translator = Translator(tiny.random_model(config, seed=2), tiny_tokenizer, "random")
    translation = translator.force(TEXT, GIVEN)
    model = translator.model
    ids = torch.tensor(translation.src_ids)
    rows = torch.tensor(translator.positional_encoding(64))
    with torch.no_grad():
        x = model.src_embedding.tokens(ids) * 4 + model.positions[: len(ids)]
        below = model.encoder[0]
        attend = (below.self_attn_norm, lambda y: below.self_attn(y[None], None, None)[0])
        for norm, sublayer in (attend, (below.feed_forward_norm, below.feed_forward)):
            x = x + sublayer(x)
            deviation = (x.var(dim=1, unbiased=False) + norm.eps).sqrt().mean()
            rows = norm.weight * (rows - rows.mean(dim=1, keepdim=True)) / deviation
            x = norm(x)
        attention = model.encoder[1].self_attn
        q, k = (rows @ part.weight[8:].T for part in (attention.q_proj, attention.k_proj))
        product = (q @ k.T / math.sqrt(8)).numpy()
    found = position_scores(translator, translation, "encoder_self", 1, 1)
    np.testing.assert_allclose(found.mean, [np.diagonal(product, offset=o).mean() for o in found.offsets], atol=1e-4)


def test_mean_weights_by_offset_and_shared_weight() -> None:
    weights = np.array([[0.5, 0.3, 0.2], [0.1, 0.7, 0.2], [0.6, 0.1, 0.3]], np.float32)
    found = by_offset(weights, [-3, -2, -1, 0, 1, 2])
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[1:], [0.6, 0.1, 0.5, 0.25, 0.2], atol=1e-6)
    other = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1]])
    assert overlap(weights, other) == pytest.approx((0.5 + 0.7 + 0.3) / 3)
    assert overlap(weights, weights) == pytest.approx(1)


def test_cross_attention_and_heads_that_there_are_not_are_refused(tiny_translator: Translator) -> None:
    translation = tiny_translator.force(TEXT, GIVEN)
    wrong = [("encoder_self", 2, 0), ("encoder_self", 0, 2), ("decoder_self", -1, 0), ("encoder_self", True, 0), ("encoder_self", 0, "1")]
    for choice in (("cross", 0, 0), (None, 0, 0), *wrong):
        with pytest.raises(InvalidSettingError):
            position_scores(tiny_translator, translation, *choice)


def test_whole_numbers_of_numpy_are_whole_numbers(tiny_translator: Translator) -> None:
    translation = tiny_translator.force(TEXT, GIVEN)
    ours, theirs = (position_scores(tiny_translator, translation, "encoder_self", whole(1), whole(1)) for whole in (int, np.uint8))
    np.testing.assert_array_equal(ours.weights, theirs.weights)


def test_a_marian_checkpoint_in_both_stacks(tmp_path) -> None:
    """Two heads in the decoder and four in the encoder, halves: every head gives a map of the right size whose rows sum to 1."""
    translator = load_translator(make_marian_folder(tmp_path / "marian"))
    translation = translator.translate("the house is small")
    for kind, size in (("encoder_self", len(translation.src_ids)), ("decoder_self", len(translation.tgt_ids))):
        for layer, head in np.ndindex(sizes(translator.model, kind)):
            found = position_scores(translator, translation, kind, layer, head)
            assert found.weights.shape == (size, size)
            np.testing.assert_allclose(found.weights.sum(axis=1), 1, atol=1e-5)
    with pytest.raises(InvalidSettingError):
        position_scores(translator, translation, "decoder_self", 0, 2)


@pytest.mark.parametrize("kind", KINDS)
def test_the_clearest_head_is_found_among_all_and_in_a_layer(model: Transformer, tiny_tokenizer: Tokenizer, kind: str) -> None:
    translator = Translator(model, tiny_tokenizer, "random")
    translation = translator.force(TEXT, GIVEN)
    trace = translator.trace(translation)
    maps = trace.encoder_self_attention if kind == "encoder_self" else trace.decoder_self_attention
    size = maps.shape[-1]
    even = np.tril(np.ones((size, size))) if kind == "decoder_self" else np.ones((size, size))
    even /= even.sum(axis=1, keepdims=True)
    found = {}
    for layer, head in np.ndindex(maps.shape[:2]):
        alone = position_scores(translator, translation, kind, layer, head).weights
        found[layer, head] = sum(np.minimum(maps[layer, head], part).sum() / size * sign for part, sign in ((alone, 1), (even, -1)))
    assert clearest_head(translator, translation, kind, maps) == max(found, key=found.get)
    for layer in range(len(maps)):
        own = {place: value for place, value in found.items() if place[0] == layer}
        assert clearest_head(translator, translation, kind, maps, layer) == max(own, key=own.get)
