"""Folders, the catalogue and devices."""

import pytest
import torch

import model as package
from model.catalogue import EMBEDDED, find_model
from model.device import pick_device
from model.errors import AtlasError, CheckpointCorruptError, CheckpointMissingError, DeviceError, InvalidSettingError
from model.translator import Translator, load_translator
from tests.tiny import random_model, tiny_config

TEXT = "The cat saw 12 apples."


def test_a_loaded_folder_translates_like_the_model(tiny_folder, tiny_translator):
    for loaded in (load_translator(tiny_folder, device="cpu"), package.load_translator(str(tiny_folder), "cpu")):
        assert (loaded.name, loaded.device, loaded.targets, loaded.config) == ("tiny", "cpu", ("fra", "cmn"), tiny_translator.config)
        assert loaded.translate(TEXT) == tiny_translator.translate(TEXT)


def test_missing_and_damaged_files(tiny_folder, tmp_path):
    names = [path.name for path in tiny_folder.iterdir()]
    assert {"config.json", "tokenizer.model"} < set(names)
    for name in names:
        for damage, expected in (("remove", CheckpointMissingError), ("cut", CheckpointCorruptError), ("empty", CheckpointCorruptError)):
            folder = tmp_path / f"{name}-{damage}"
            folder.mkdir()
            for other in names:
                content = (tiny_folder / other).read_bytes()
                if other != name:
                    (folder / other).write_bytes(content)
                elif damage != "remove":
                    (folder / other).write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
            with pytest.raises(expected) as error:
                load_translator(folder, "cpu")
            assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("source", ["no-such-folder", "", "a\0b", "x" * 5000])
def test_no_such_model(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((CheckpointMissingError, CheckpointCorruptError)):
        load_translator(source, "cpu")


def test_sources_that_are_no_folder(tiny_folder):
    with pytest.raises(CheckpointCorruptError, match="file"):
        find_model(tiny_folder / "config.json")
    with pytest.raises(InvalidSettingError):
        find_model(5)


def test_a_tokenizer_of_another_model_is_refused(tiny_tokenizer):
    for config in (tiny_config(tiny_tokenizer.vocab_size + 1), tiny_config(tiny_tokenizer.vocab_size, eos_id=6)):
        with pytest.raises(CheckpointCorruptError):
            Translator(random_model(config), tiny_tokenizer)


def test_the_catalogue():
    assert find_model() == find_model("embedded") == EMBEDDED


# --- devices ---


def test_device_order(monkeypatch):
    monkeypatch.delenv("ATLAS_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert str(pick_device()) == "cuda:0"
    assert str(pick_device("cuda")) == "cuda" and str(pick_device("cuda:1")) == "cuda:1" and str(pick_device("mps")) == "mps"
    with pytest.raises(DeviceError, match="cuda:0, cuda:1, mps, cpu"):
        pick_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert str(pick_device()) == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert str(pick_device()) == "cpu"


def test_the_environment_overrides(monkeypatch, tiny_folder):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("ATLAS_DEVICE", "CPU")
    assert str(pick_device()) == "cpu"
    assert str(pick_device("cuda")) == "cuda"
    monkeypatch.setenv("ATLAS_DEVICE", " ")
    assert str(pick_device()) == "cuda:0"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for bad in ("tpu", "cuda", "cuda:x", "-1"):
        monkeypatch.setenv("ATLAS_DEVICE", bad)
        with pytest.raises(DeviceError, match="available: .*cpu") as error:
            load_translator(tiny_folder)
        assert error.value.code == "device" and isinstance(error.value, AtlasError)
    for bad in ("", 3, "gpu"):
        with pytest.raises(DeviceError):
            pick_device(bad)
