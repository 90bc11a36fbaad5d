"""A whole Marian translator: from a folder and from the hub, against transformers, with unequal stacks, and what fails."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import torch

import model.loading
from model.errors import (
    AtlasError,
    CheckpointCorruptError,
    CheckpointMissingError,
    InvalidSettingError,
    UnknownTargetError,
    UnsupportedModelError,
    WrongArchitectureError,
)
from model.hub import fetch
from model.loading import load_offered, load_translator
from model.pool import ModelPool
from tests.model.hub_server import COMMIT, serve_hub
from tests.model.marian.factories import load_reference, make_marian_folder

TEXTS = ("I am a student.", "The cat saw the dog.", "We will go home 12 times.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_marian_folder(tmp_path_factory.mktemp("marian") / "opus-mt-en-fr", seed=3)


@pytest.fixture(scope="module")
def translator(folder):
    return load_translator(folder, "cpu")


@pytest.fixture(scope="module")
def reference(folder):
    return load_reference(folder)


def test_what_a_folder_says_of_itself(translator):
    assert (translator.targets, translator.source_language, translator.revision) == (("fr",), "en", None)
    assert (translator.config.encoder.num_layers, translator.config.decoder.num_layers) == (2, 3)
    assert (translator.config.encoder.num_heads, translator.config.decoder.num_heads) == (4, 2)
    assert translator.config.position_layout == "halves" and translator.warnings == ()


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("text", TEXTS)
def test_the_ids_of_a_translation_are_those_of_transformers(translator, reference, text, beam_size):
    ours = translator.translate(text, beam_size=beam_size, max_new_tokens=20)
    src = torch.tensor([ours.src_ids])
    theirs = reference.generate(src, attention_mask=torch.ones_like(src), num_beams=beam_size, max_new_tokens=20)[0, 1:]
    assert list(ours.tgt_ids) == [i for i in theirs.tolist() if i != translator.config.pad_id]


OWN = [
    {"num_beams": 1},
    {"num_beams": 2, "length_penalty": 0.0},
    {"num_beams": 6, "length_penalty": 2.5},
    {"num_beams": 3, "length_penalty": -1.0},
]


@pytest.mark.parametrize("own", OWN, ids=str)
def test_nothing_said_means_what_the_checkpoint_says(tmp_path, own):
    """The reference is told nothing but the limit; explicit settings stay as they are."""
    folder = make_marian_folder(tmp_path / "own", seed=1, init_std=0.15, generation=own)
    loaded, reference = load_translator(folder, "cpu"), load_reference(folder)
    differ = 0
    for text in (*TEXTS, *(text[::-1] for text in TEXTS), " ".join(TEXTS)):
        ours = loaded.translate(text, max_new_tokens=20)
        src = torch.tensor([ours.src_ids])
        theirs = reference.generate(src, attention_mask=torch.ones_like(src), max_new_tokens=20)[0, 1:]
        assert list(ours.tgt_ids) == [i for i in theirs.tolist() if i != loaded.config.pad_id]
        explicit = loaded.translate(text, beam_size=own["num_beams"], length_penalty=own.get("length_penalty", 1.0), max_new_tokens=20)
        assert ours == explicit
        differ += ours != loaded.translate(text, beam_size=4, length_penalty=1.0, max_new_tokens=20)
    assert differ > 0


def test_settings_beyond_the_limits_are_cut_and_named(tmp_path):
    loaded = load_translator(make_marian_folder(tmp_path / "far", generation={"num_beams": 40, "length_penalty": -7.5}), "cpu")
    assert (loaded.generation.num_beams, loaded.generation.length_penalty) == (16, -5.0)
    assert {"num_beams", "length_penalty"} <= set(loaded.generation.not_applied)
    assert any("num_beams" in str(warning) for warning in loaded.warnings)
    assert loaded.translate(TEXTS[0], max_new_tokens=3).tgt_ids


def test_maps_are_those_of_transformers_and_every_kind_has_its_own_size(translator, reference):
    translation = translator.translate(TEXTS[1])
    trace = translator.trace(translation)
    tgt_in = torch.tensor([[translator.config.bos_id, *translation.tgt_ids[:-1]]])
    with torch.no_grad():
        theirs = reference(input_ids=torch.tensor([translation.src_ids]), decoder_input_ids=tgt_in, output_attentions=True)
    for ours, maps in (
        (trace.encoder_self_attention, theirs.encoder_attentions),
        (trace.decoder_self_attention, theirs.decoder_attentions),
        (trace.cross_attention, theirs.cross_attentions),
    ):
        np.testing.assert_allclose(ours, torch.cat(maps).numpy(), atol=1e-5)
    assert trace.encoder_self_attention.shape[:2] == (2, 4) and trace.cross_attention.shape[:2] == (3, 2)
    assert trace.tgt_in_tokens[0] == "<s>" and trace.src_tokens[-1] == "</s>"


def test_a_given_translation(translator, reference):
    forced = translator.force(TEXTS[0], "Je suis étudiant.")
    tgt_in = torch.tensor([[translator.config.bos_id, *forced.tgt_ids[:-1]]])
    with torch.no_grad():
        logits = reference(input_ids=torch.tensor([forced.src_ids]), decoder_input_ids=tgt_in).logits[0]
    logits[:, translator.config.pad_id] = -torch.inf
    expected = logits.log_softmax(-1).gather(1, torch.tensor(forced.tgt_ids)[:, None])[:, 0]
    np.testing.assert_allclose(forced.token_log_probs, expected.numpy(), atol=1e-4)
    again = translator.translate(TEXTS[0])
    own = translator.force(TEXTS[0], again.text)
    if own.tgt_ids == again.tgt_ids and again.finished:
        np.testing.assert_allclose(own.token_log_probs, again.token_log_probs, atol=1e-4)


def test_several_targets_and_none_that_is_not_there(tmp_path):
    loaded = load_translator(make_marian_folder(tmp_path / "opus-mt-en-mul", targets=("fra", "cmn_Hans")), "cpu")
    assert loaded.targets == ("fra", "cmn_Hans")
    assert loaded.translate(TEXTS[0]).target == "fra"
    assert loaded.translate(TEXTS[0], "cmn_Hans").src_tokens[0] == ">>cmn_Hans<<"
    with pytest.raises(UnknownTargetError, match="fra, cmn_Hans"):
        loaded.translate(TEXTS[0], "de")


def test_separate_vocabularies(tmp_path):
    loaded = load_translator(make_marian_folder(tmp_path / "two", separate_vocabs=True), "cpu")
    translation = loaded.translate(TEXTS[1])
    trace = loaded.trace(translation)
    assert trace.cross_attention.shape[2:] == (len(translation.tgt_ids), len(translation.src_ids))
    source, target = loaded.config.encoder.vocab_size, loaded.config.decoder.vocab_size
    assert source != target
    other = load_translator(make_marian_folder(tmp_path / "small", seed=1), "cpu")
    larger = loaded.force(TEXTS[0], "Je suis étudiant.")
    if max(larger.src_ids) >= other.config.encoder.vocab_size or max(larger.tgt_ids) >= other.config.decoder.vocab_size:
        with pytest.raises(InvalidSettingError):
            other.trace(larger)


def test_the_limit_of_the_checkpoint_holds(tmp_path):
    loaded = load_translator(make_marian_folder(tmp_path / "short", generation={"max_length": 4}), "cpu")
    assert len(loaded.translate(TEXTS[2]).tgt_ids) <= 3
    assert len(loaded.translate(TEXTS[2], max_new_tokens=9).tgt_ids) <= 9


def test_from_the_hub_and_in_the_pool(folder, translator, tmp_path, monkeypatch):
    with serve_hub({"Helsinki-NLP/opus-mt-en-fr": folder}) as hub:
        monkeypatch.setattr(
            model.loading, "fetch", lambda *args, **kwargs: fetch(*args, **kwargs, endpoint=hub.url, cache_dir=tmp_path / "cache")
        )
        pool = ModelPool(load_offered, 10**9)
        loaded = pool.get("Helsinki-NLP/opus-mt-en-fr")
        assert (loaded.revision, loaded.targets) == (COMMIT, ("fr",))
        assert loaded.translate(TEXTS[1]) == translator.translate(TEXTS[1])
        assert sorted(hub.files_asked())[0] == "config.json" and "model.safetensors" in hub.files_asked()


class Explosive:
    def __reduce__(self):
        return exec, ("raise SystemExit('executed')",)


def test_a_failed_load_leaves_the_former_model_working(folder, tmp_path, monkeypatch):
    """Every kind of damage that a folder can have, through the pool, with the error each is told by."""

    def damaged(name, damage, **options):
        path = make_marian_folder(tmp_path / name, **options)
        damage(path)
        return path

    def edit(**changes):
        def write(path):
            values = json.loads((path / "config.json").read_text())
            (path / "config.json").write_text(json.dumps(values | changes))

        return write

    def cut(file):
        return lambda path: (path / file).write_bytes((path / file).read_bytes()[:-200])

    bad = {
        damaged("arch", edit(architectures=["BartForConditionalGeneration"], model_type="bart")): WrongArchitectureError,
        damaged("flags", edit(normalize_before=True)): UnsupportedModelError,
        damaged("shape", edit(decoder_ffn_dim=48)): CheckpointCorruptError,
        damaged("layers", edit(encoder_layers=5, num_hidden_layers=5)): CheckpointCorruptError,
        damaged("vocab", lambda path: (path / "vocab.json").unlink()): CheckpointMissingError,
        damaged("spm", lambda path: (path / "source.spm").unlink()): CheckpointMissingError,
        damaged("weights", lambda path: (path / "model.safetensors").unlink()): CheckpointMissingError,
        damaged("cut", cut("model.safetensors")): CheckpointCorruptError,
        damaged("cut-bin", cut("pytorch_model.bin"), form="bin"): CheckpointCorruptError,
        damaged("json", cut("vocab.json")): CheckpointCorruptError,
        damaged("pickle", lambda path: (path / "pytorch_model.bin").write_bytes(pickle.dumps(Explosive())), form="bin"): AtlasError,
        damaged("explosive", lambda path: torch.save({"a": Explosive()}, path / "pytorch_model.bin"), form="bin"): AtlasError,
    }
    monkeypatch.setenv("ATLAS_ALLOW_MODELS", ",".join(map(str, [folder, *bad])))
    pool = ModelPool(load_offered, 10**9)
    former = pool.get("opus-mt-en-fr")
    before = former.translate(TEXTS[0])
    for path, expected in bad.items():
        with pytest.raises(expected) as caught:
            pool.get(path.name)
        assert str(tmp_path) not in str(caught.value), path.name
    assert pool.find("opus-mt-en-fr") is former and former.translate(TEXTS[0]) == before
