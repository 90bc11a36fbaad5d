"""A model with one piece taken away: against torch's own modules, and against the whole model that it shares its weights with."""

import copy
import math

import numpy as np
import pytest
import torch

from model.errors import InvalidSettingError
from model.hooks import AttentionRecorder, attention_hook
from model.loading import load_translator
from model.recording import save_run
from model.results import MAPS
from model.variants import PARTS, without
from tests.model.factories import SRC_IDS, SRC_MASK, TGT_IN_IDS, tiny_model, torch_decoder, torch_encoder
from tests.model.marian.factories import make_marian_folder

TEXT = "The cat saw the cat, and the dog."
SHAPES = {
    "paper": {},
    "pre-norm, halves": {"norm": "pre", "position_layout": "halves", "activation": "gelu"},
    "unequal": {"num_decoder_heads": 2, "decoder_d_ff": 40, "tgt_vocab_size": 17, "tie_embeddings": False, "position_layout": "halves"},
    "unscaled": {"scale_embedding": False, "norm": "pre"},
}


@pytest.fixture(scope="module", params=SHAPES)
def model(request):
    return tiny_model(**SHAPES[request.param])


def reference(model, part):
    """States [B, T, D] of `nn.TransformerEncoder` and `nn.TransformerDecoder` with these weights and without this part."""
    model = copy.deepcopy(model)
    d_model = model.config.d_model
    if part == "score_scale":
        for stack, heads in ((model.encoder, model.config.encoder.num_heads), (model.decoder, model.config.decoder.num_heads)):
            for name, module in stack.named_modules():
                if name.endswith("q_proj"):  # torch always divides: so the queries are that much longer
                    module.weight.data *= math.sqrt(d_model // heads)
                    module.bias.data *= math.sqrt(d_model // heads)
    scale = 1.0 if part == "embedding_scale" or not model.config.scale_embedding else math.sqrt(d_model)
    positions = 0.0 if part == "positions" else 1.0

    def embedded(embedding, ids):
        return embedding.tokens.weight[ids] * scale + positions * model.positions[: ids.shape[1]]

    ahead = None if part == "causal_mask" else torch.triu(torch.ones(6, 6, dtype=torch.bool), diagonal=1)
    with torch.no_grad():
        memory = torch_encoder(model).eval()(embedded(model.src_embedding, SRC_IDS), src_key_padding_mask=~SRC_MASK)
        read = embedded(model.tgt_embedding, TGT_IN_IDS)
        return torch_decoder(model).eval()(read, memory, tgt_mask=ahead, memory_key_padding_mask=~SRC_MASK)


def states(model):
    with torch.no_grad():
        return model.decode(TGT_IN_IDS, model.encode(SRC_IDS, SRC_MASK), SRC_MASK)


@pytest.mark.parametrize("part", PARTS)
def test_a_variant_computes_what_torch_computes_without_the_part(model, part):
    variant = without(model, part)
    expected = reference(model, part)
    torch.testing.assert_close(states(variant), expected, atol=2e-5, rtol=1e-4)  # the fused kernel
    with attention_hook(AttentionRecorder()):
        torch.testing.assert_close(states(variant), expected, atol=2e-5, rtol=1e-4)  # step by step
    never_had = part == "embedding_scale" and not model.config.scale_embedding
    assert torch.allclose(states(variant), states(model), atol=1e-3) is never_had


@pytest.mark.parametrize("part", PARTS)
def test_the_weights_are_shared_and_the_model_stays_as_it_is(model, part):
    before, said = states(model), {name: dict(module.__dict__) for name, module in model.named_modules()}
    variant = without(model, part)
    assert [id(each) for each in variant.parameters()] == [id(each) for each in model.parameters()]
    assert variant.positions.untyped_storage().nbytes() <= model.positions.untyped_storage().nbytes()
    states(variant)
    assert torch.equal(states(model), before)
    assert all(module.__dict__ == said[name] for name, module in model.named_modules())
    ours, theirs = ({id(module) for module in each.modules()} for each in (model, variant))
    assert not ours & theirs and variant.training is False
    assert (variant.src_embedding is variant.tgt_embedding) is model.config.tie_embeddings


def test_parts_are_taken_away_one_after_another(model):
    both = without(without(model, "positions"), "causal_mask")
    swapped = without(without(model, "causal_mask"), "positions")
    assert torch.equal(states(both), states(swapped))
    assert not torch.allclose(states(both), states(without(model, "positions")), atol=1e-3)
    # with neither, a decoder can't tell the order of what it reads
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    with torch.no_grad():
        memory = both.encode(SRC_IDS, SRC_MASK)
        shuffled = both.decode(TGT_IN_IDS[:, order], memory, SRC_MASK)
    torch.testing.assert_close(shuffled, states(both)[:, order], atol=1e-5, rtol=1e-4)


def test_a_decoder_with_positions_of_its_own_loses_them_too():
    model = tiny_model()
    expected = states(without(model, "positions"))
    model.tgt_positions = model.positions.flip(0)
    assert torch.equal(states(without(model, "positions")), expected) and model.tgt_positions.any()


@pytest.mark.parametrize("wrong", [None, "", "scores", 3, ["positions"], "Positions"])
def test_any_other_part_is_refused(tiny_translator, wrong):
    with pytest.raises(InvalidSettingError, match="score_scale, embedding_scale, causal_mask, positions"):
        tiny_translator.without(wrong)


# --- the translator ---


@pytest.fixture(scope="module", params=["tiny", "marian"])
def translator(request, tmp_path_factory):
    if request.param == "tiny":
        return request.getfixturevalue("tiny_translator")
    return load_translator(make_marian_folder(tmp_path_factory.mktemp("marian") / "opus-mt-en-fr", seed=3), "cpu")


@pytest.mark.parametrize("part", PARTS)
def test_everything_works_on_a_variant(translator, part):
    variant = translator.without(part)
    assert (variant.taken_away, translator.taken_away, variant.name) == ((part,), (), translator.name)
    assert (variant.best_heads, variant.profile) == ({}, None) and variant.num_bytes <= translator.num_bytes
    translation = variant.translate(TEXT, max_new_tokens=12)
    given = translator.translate(TEXT, max_new_tokens=12)
    ours, theirs = translator.examine(given).trace, variant.examine(given).trace
    for name in MAPS:
        np.testing.assert_array_equal(getattr(variant.trace(given), name), getattr(theirs, name))
        unchanged = part == "causal_mask" and name.startswith("encoder")
        assert np.allclose(getattr(ours, name), getattr(theirs, name), atol=1e-4) is unchanged
    assert len(variant.force(TEXT, given.text).tgt_ids) >= 1 and translation.source_text == given.source_text
    # what is written has the log-probabilities of the variant's own pass, if that pass sees no more than writing does
    if part != "causal_mask":
        for beside, log_prob in zip(variant.examine(translation).runner_ups, translation.token_log_probs, strict=True):
            assert min(beside.rank, 6) == 1 + sum(p > math.exp(log_prob) * (1 + 1e-4) for _, p in beside.others)


def test_without_the_mask_a_pass_looks_ahead_and_writing_cannot(translator):
    variant = translator.without("causal_mask")
    ours, theirs = translator.translate(TEXT, max_new_tokens=12), variant.translate(TEXT, max_new_tokens=12)
    assert ours == theirs
    trace = variant.trace(ours)
    size = len(ours.tgt_ids)
    ahead = trace.decoder_self_attention[..., np.triu(np.ones((size, size), bool), k=1)]
    assert size > 3 and not trace.causal and ahead.min() > 0 and translator.trace(ours).causal
    np.testing.assert_allclose(trace.decoder_self_attention.sum(axis=-1), 1, atol=1e-5)


def test_what_looks_ahead_is_not_recorded(tiny_translator, tmp_path):
    translation = tiny_translator.translate(TEXT)
    with pytest.raises(ValueError, match="without its causal mask"):
        save_run(tmp_path / "run.npz", translation, tiny_translator.without("causal_mask").examine(translation))
    assert not list(tmp_path.iterdir())


def test_without_positions_a_shuffled_source_gives_shuffled_maps(translator):
    variant = translator.without("positions")
    assert not variant.positional_encoding(5).any() and translator.positional_encoding(5).any()
    translation = translator.translate(TEXT, max_new_tokens=12)
    order = np.array([4, 0, 6, 2, 1, 3, 5, *range(7, len(translation.src_ids))])
    shuffled = copy.copy(translation)
    object.__setattr__(shuffled, "src_ids", tuple(translation.src_ids[i] for i in order))
    before, after = variant.trace(translation), variant.trace(shuffled)
    np.testing.assert_allclose(after.encoder_self_attention, before.encoder_self_attention[:, :, order][..., order], atol=1e-5)
    np.testing.assert_allclose(after.cross_attention, before.cross_attention[..., order], atol=1e-5)
    whole = translator.trace(shuffled).encoder_self_attention
    assert not np.allclose(whole, translator.trace(translation).encoder_self_attention[:, :, order][..., order], atol=1e-2)
