"""Our Transformer with the weights of a Marian folder against transformers' own model of that folder: everything a pass computes."""

# B batch, S src_len, T tgt_len, H heads, L layers, D d_model, V target vocabulary

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from model.cache import DecoderCache
from model.hooks import ATTENTION_KINDS, AttentionRecorder, attention_hook
from model.marian.config import read_marian_config
from model.marian.weights import load_marian
from model.transformer import Transformer
from tests.model.marian.factories import load_reference, make_marian_folder, marian_config, random_state, save_weights, stored

TOLERANCE = {"atol": 1e-5, "rtol": 0.0}
ALIKE = {
    "encoder_layers": 3,
    "decoder_layers": 3,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
}
CASES: dict[str, dict[str, Any]] = {
    "unequal stacks": {},
    "equal stacks": ALIKE,
    "more heads and layers in the encoder": {
        "encoder_layers": 4,
        "decoder_layers": 1,
        "encoder_attention_heads": 1,
        "decoder_attention_heads": 8,
        "encoder_ffn_dim": 56,
        "decoder_ffn_dim": 8,
    },
    "relu": {"activation_function": "relu"},
    "silu": {"activation_function": "silu"},
    "gelu": {"activation_function": "gelu"},
    "no scaling of embeddings": {"scale_embedding": False},
    "two vocabularies": {"separate_vocabs": True},
    "two vocabularies, output untied": {"separate_vocabs": True, "tie_word_embeddings": False},
    "two vocabularies of one size": {"share_encoder_decoder_embeddings": False},
    "four matrices": {"tie_word_embeddings": False},
    "end token elsewhere": {"eos_token_id": 7},
    "shards": {"form": "sharded"},
    "zipped pickle": {"form": "bin"},
    "pickle stream": {"form": "legacy_bin"},
    "half precision": {"dtype": torch.float16},
    "half precision, pickle stream, two vocabularies": {"dtype": torch.float16, "form": "legacy_bin", "separate_vocabs": True},
    "like the large models": {
        **ALIKE,
        "d_model": 64,
        "encoder_attention_heads": 16,
        "decoder_attention_heads": 16,
        "encoder_ffn_dim": 256,
        "decoder_ffn_dim": 256,
        "activation_function": "relu",
        "max_position_embeddings": 1024,
        "eos_token_id": 43,
        "dtype": torch.float16,
        "init_std": 0.15,
    },
    "like the small students": {
        **ALIKE,
        "encoder_layers": 6,
        "decoder_layers": 2,
        "d_model": 32,
        "encoder_ffn_dim": 192,
        "decoder_ffn_dim": 192,
        "encoder_attention_heads": 8,
        "decoder_attention_heads": 8,
        "activation_function": "relu",
        "max_position_embeddings": 256,
        "init_std": 0.15,
    },
    "old configuration": {"generation_file": False, "seed": 5},
}


@dataclass
class Pair:
    """The same weights twice, and inputs for both: src_ids [B=3, S=7] with 0, 2 and 5 padded positions, tgt_ids [B, T=6]."""

    ours: Transformer
    theirs: Any
    src_ids: Tensor
    src_mask: Tensor
    tgt_ids: Tensor


def pair(folder: Path, warnings: tuple[str, ...] = ()) -> Pair:
    """warnings: the codes of those that loading has to give."""
    config = read_marian_config(folder)
    loaded = load_marian(folder, config)
    assert tuple(warning.code for warning in loaded.warnings) == warnings
    sizes = config.transformer
    generator = torch.Generator().manual_seed(3)
    src_ids = torch.randint(sizes.encoder.vocab_size, (3, 7), generator=generator)
    tgt_ids = torch.randint(sizes.decoder.vocab_size, (3, 6), generator=generator)
    tgt_ids[:, 0] = sizes.bos_id
    tgt_ids[1, 4:] = sizes.pad_id  # in a target, padding is not masked
    src_mask = torch.arange(7) < torch.tensor([[7], [5], [2]])
    return Pair(loaded.model, load_reference(folder), src_ids.masked_fill(~src_mask, sizes.pad_id), src_mask, tgt_ids)


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "-"))
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return pair(make_marian_folder(tmp_path_factory.mktemp("marian"), **CASES[request.param]))


def outputs(models: Pair) -> tuple[Any, dict[str, Tensor], dict[str, Tensor]]:
    """(theirs; our logits, memory and states after the embedding and each layer; our attentions by kind)"""
    with torch.no_grad():
        theirs = models.theirs(
            input_ids=models.src_ids,
            attention_mask=models.src_mask.long(),
            decoder_input_ids=models.tgt_ids,
            output_attentions=True,
            output_hidden_states=True,
        )
    ours, embedded, seen = models.ours, [], {"encoder": [], "decoder": []}
    # The source is embedded first, then the target, be it by one module or by two.
    modules = {ours.src_embedding, ours.tgt_embedding}
    handles = [module.register_forward_hook(lambda _module, _args, out: embedded.append(out)) for module in modules]
    for side, layers in (("encoder", ours.encoder), ("decoder", ours.decoder)):
        handles += [layer.register_forward_hook(lambda _module, _args, out, side=side: seen[side].append(out)) for layer in layers]
    try:
        with torch.no_grad(), attention_hook(AttentionRecorder()) as recorder:
            memory = ours.encode(models.src_ids, models.src_mask)
            logits = ours.project(ours.decode(models.tgt_ids, memory, models.src_mask))
    finally:
        for handle in handles:
            handle.remove()
    layers = {side: torch.stack([first, *seen[side]]) for side, first in zip(seen, embedded, strict=True)}
    return theirs, {"logits": logits, "memory": memory, **layers}, {kind: recorder.stack(kind) for kind in ATTENTION_KINDS}


def test_states_after_the_embedding_and_every_layer(models):
    theirs, ours, _ = outputs(models)
    torch.testing.assert_close(ours["encoder"], torch.stack(theirs.encoder_hidden_states), **TOLERANCE)
    torch.testing.assert_close(ours["decoder"], torch.stack(theirs.decoder_hidden_states), **TOLERANCE)
    torch.testing.assert_close(ours["memory"], theirs.encoder_last_hidden_state, **TOLERANCE)


def test_logits_and_all_three_attentions(models):
    theirs, ours, attentions = outputs(models)
    torch.testing.assert_close(ours["logits"], theirs.logits, **TOLERANCE)
    for kind, expected in (
        ("encoder_self", theirs.encoder_attentions),
        ("decoder_self", theirs.decoder_attentions),
        ("cross", theirs.cross_attentions),
    ):
        torch.testing.assert_close(attentions[kind], torch.stack(expected), **TOLERANCE)
        assert attentions[kind].std() > 0.05  # far from uniform, or the comparison would say little
    assert (theirs.logits.std(dim=-1) > 0.5).all()


def test_logits_without_hooks_and_with_a_cache(models):
    """The fused kernel, and one token after the other, give what transformers gives for the whole target at once."""
    theirs, _, _ = outputs(models)
    with torch.no_grad():
        memory = models.ours.encode(models.src_ids, models.src_mask)
        torch.testing.assert_close(
            models.ours.project(models.ours.decode(models.tgt_ids, memory, models.src_mask)), theirs.logits, **TOLERANCE
        )
        cache = DecoderCache(len(models.ours.decoder))
        steps = [models.ours.decode(ids, memory, models.src_mask, cache) for ids in models.tgt_ids.split(1, dim=1)]
        torch.testing.assert_close(models.ours.project(torch.cat(steps, dim=1)), theirs.logits, **TOLERANCE)


def test_padding_changes_nothing(models):
    """A sentence of the padded batch comes out as it does alone."""
    with torch.no_grad():
        batch = models.ours.project(
            models.ours.decode(models.tgt_ids, models.ours.encode(models.src_ids, models.src_mask), models.src_mask)
        )
        alone = models.ours.project(models.ours.decode(models.tgt_ids[1:2], models.ours.encode(models.src_ids[1:2, :5])))
    torch.testing.assert_close(batch[1:2], alone, **TOLERANCE)


@pytest.mark.parametrize("form", ["safetensors", "bin", "legacy_bin"])
@pytest.mark.parametrize("sides", [("encoder", "decoder"), ("decoder",), ("encoder",)], ids="+".join)
def test_a_stored_table_of_positions_goes_before_the_formula(tmp_path, form, sides):
    """transformers reads it as well, so its model says what is right."""
    folder = make_marian_folder(tmp_path)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    state = stored(random_state(config), config)
    generator = torch.Generator().manual_seed(9)
    for side in sides:
        state[f"model.{side}.embed_positions.weight"] = torch.randn(64, 16, generator=generator)
    (folder / "model.safetensors").unlink()
    save_weights(folder, state, form)
    models = pair(folder, warnings=("own_positions",))
    theirs, ours, _ = outputs(models)
    torch.testing.assert_close(ours["encoder"], torch.stack(theirs.encoder_hidden_states), **TOLERANCE)
    torch.testing.assert_close(ours["logits"], theirs.logits, **TOLERANCE)
    for side, table in (("encoder", models.ours.positions), ("decoder", models.ours.tgt_positions)):
        if side in sides:
            assert torch.equal(table, state[f"model.{side}.embed_positions.weight"])


def test_the_longest_source_and_target(tmp_path):
    folder = make_marian_folder(tmp_path, max_position_embeddings=24)
    models = pair(folder)
    generator = torch.Generator().manual_seed(4)
    models.src_ids, models.tgt_ids = torch.randint(200, (2, 2, 24), generator=generator)
    models.src_mask = torch.ones(2, 24, dtype=torch.bool)
    theirs, ours, attentions = outputs(models)
    torch.testing.assert_close(ours["logits"], theirs.logits, **TOLERANCE)
    torch.testing.assert_close(attentions["cross"], torch.stack(theirs.cross_attentions), **TOLERANCE)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("tie", [True, False])
def test_what_transformers_writes_is_read(tmp_path, share, tie):
    """Its own save_pretrained: it decides which of the tied matrices stand in the file, and what config.json says."""
    written = make_marian_folder(tmp_path / "ours", share_encoder_decoder_embeddings=share, tie_word_embeddings=tie)
    theirs = load_reference(written)
    theirs.save_pretrained(tmp_path / "theirs")
    for name in ("vocab.json", "tokenizer_config.json"):
        (tmp_path / "theirs" / name).write_bytes((written / name).read_bytes())
    assert read_marian_config(tmp_path / "theirs") == read_marian_config(written)
    one, other = (load_marian(folder, read_marian_config(folder)).model for folder in (written, tmp_path / "theirs"))
    assert one.state_dict().keys() == other.state_dict().keys()
    assert all(torch.equal(value, other.state_dict()[key]) for key, value in one.state_dict().items())


def test_the_factory_fills_what_transformers_has():
    """Every tensor of transformers' model is among the random ones, so that none is left at its initial value, and no two are alike."""
    from transformers import MarianConfig, MarianMTModel

    config = marian_config(23, 23, 0, 22, tie_word_embeddings=False)
    state = random_state(config)
    theirs = MarianMTModel(MarianConfig(**config)).state_dict()
    assert {key: tuple(value.shape) for key, value in theirs.items() if "embed_positions" not in key} == {
        key: tuple(value.shape) for key, value in state.items()
    }
    flat = [tuple(value.flatten()[:4].tolist()) for value in state.values()]
    assert len(set(flat)) == len(flat)
