"""Files that are damaged, or replaced under the app: what was loaded stays, what is loaded next is what lies there or a clear refusal."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from pathlib import Path

import pytest

import app
from model import load_translator
from model.best_heads import EVALUATION_FILE, read_best_heads
from model.catalogue import EMBEDDED
from model.errors import CheckpointCorruptError
from model.recording import is_of, load_examination
from model.tokenizer import Tokenizer
from tests import tiny
from viz.panels.share import MAX_AGE, make_room

TEXT = "The cat sat on the mat."


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.train_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.model")


@pytest.fixture
def folder(tmp_path: Path, tokenizer_file: Path) -> Path:
    model = tiny.random_model(tiny.tiny_config(Tokenizer(tokenizer_file).vocab_size), eos_bias=3.0)
    return tiny.tiny_folder(tmp_path / "weights", model, tokenizer_file)


def test_weights_that_are_cut_or_replaced_under_a_loaded_model_change_nothing(folder: Path, tokenizer_file: Path) -> None:
    """A mapped file that shrinks ends the process that reads on."""
    loaded = load_translator(folder)
    before = loaded.trace(loaded.translate(TEXT, "fra"))
    file = next(folder.glob("model*.safetensors"))
    maps = Path("/proc/self/maps")
    if maps.exists():
        assert str(file) not in maps.read_text()
    with file.open("r+b") as weights:
        weights.truncate(100)
    assert (loaded.trace(loaded.translate(TEXT, "fra")).cross_attention == before.cross_attention).all()
    with pytest.raises(CheckpointCorruptError, match="truncated or damaged"):
        load_translator(folder)
    other = tiny.random_model(tiny.tiny_config(Tokenizer(tokenizer_file).vocab_size), seed=1, eos_bias=3.0)
    tiny.tiny_folder(folder, other, tokenizer_file)
    again = load_translator(folder)
    assert again.translate(TEXT, "fra") != loaded.translate(TEXT, "fra")


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """A copy of the embedded model's folder."""
    return Path(shutil.copytree(EMBEDDED.folder, tmp_path / "copy"))


def test_the_recorded_example_is_the_embedded_models(weights: Path, capsys: pytest.CaptureFixture) -> None:
    translator = load_translator(weights)
    run = app.recorded_run(weights / "example.npz", translator)
    assert run is not None and translator.best_heads and translator.profile and capsys.readouterr().out == ""


def test_what_was_recorded_of_other_weights_is_left_out(weights: Path, folder: Path, capsys: pytest.CaptureFixture) -> None:
    translator = load_translator(weights)
    with_other_numbers = load_translator(weights)
    with_other_numbers.model.encoder[0].self_attn.q_proj.weight.data *= 1.3
    translation, examination = load_examination(weights / "example.npz")
    assert is_of(translator, translation, examination.trace)
    for other in (with_other_numbers, translator.without("positions"), load_translator(folder)):
        assert not is_of(other, translation, examination.trace)
    assert app.recorded_run(weights / "example.npz", with_other_numbers) is None
    assert (with_other_numbers.best_heads, with_other_numbers.profile) == ({}, None)
    assert "belong to other weights" in capsys.readouterr().out


def test_damaged_measurements_are_told_of_and_the_model_loads(weights: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in (EVALUATION_FILE, "heads.json"):
        content = (weights / name).read_text()
        (weights / name).write_text(content[: len(content) // 2])
    with caplog.at_level(logging.WARNING):
        translator = load_translator(weights)
    assert (translator.best_heads, translator.profile) == ({}, None)
    assert EVALUATION_FILE in caplog.text and "heads.json" in caplog.text and str(weights) not in caplog.text
    assert translator.translate("I am a student.", "fra").text


def test_measurements_that_are_not_there_are_nothing_to_tell(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert read_best_heads(tmp_path) == {} and caplog.text == ""
    (tmp_path / EVALUATION_FILE).write_text(json.dumps({"beam_size": 4}))
    assert read_best_heads(tmp_path) == {} and caplog.text == ""


def test_exports_that_a_killed_process_left_go_after_a_while(tmp_path: Path) -> None:
    half, fresh = tmp_path / ("a" * 32) / "half.npz", tmp_path / ("b" * 32) / "fresh.npz"
    for path in (half, fresh):
        path.parent.mkdir()
        path.write_bytes(b"PK")
    os.utime(half, (time.time() - MAX_AGE - 60,) * 2)
    make_room(tmp_path)
    assert fresh.exists() and not half.exists()
