"""Folders, the catalogue and devices."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import model as package
import model.checkpoint
import model.loading
from model.catalogue import EMBEDDED, find_model
from model.config import count_parameters
from model.device import pick_device
from model.errors import (
    AtlasError,
    CheckpointCorruptError,
    CheckpointMissingError,
    DeviceError,
    InvalidSettingError,
    ModelIdError,
    ModelTooLargeError,
    OutOfMemoryError,
    UnknownRepositoryError,
    UnknownRevisionError,
)
from model.hub import fetch
from model.loading import load_offered, load_translator
from model.pool import ModelPool
from model.translator import Translator
from tests.model.hub_server import COMMIT, serve_hub
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


@pytest.mark.parametrize(
    "source",
    ["opus-mt-en-de", "gpt2", "https://host.example/Helsinki-NLP/a", "path/to/folder", "Helsinki-NLP/", "", "  ", "a\0b", "x" * 5000],
    ids=lambda source: repr(source)[:20],
)
def test_a_name_that_is_no_model(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelIdError, match="neither a folder here nor a model id: .* owner/name, such as Helsinki-NLP/opus-mt-en-de"):
        load_translator(source, "cpu")


@pytest.mark.parametrize("kind", [str, Path])
def test_a_folder_that_is_not_there(kind, tmp_path):
    with pytest.raises(CheckpointMissingError, match="There is no folder mine: check the path") as error:
        load_translator(kind(tmp_path / "mine"), "cpu")
    assert error.value.params == {"path": "mine"} and str(tmp_path) not in str(error.value)
    with pytest.raises(CheckpointMissingError, match="no folder mine"):
        load_translator(kind("mine") if kind is Path else "./mine", "cpu")


def test_spaces_around_a_name(tiny_folder, tmp_path):
    assert find_model(" embedded\n") == EMBEDDED
    assert find_model(" Helsinki-NLP/opus-mt-en-de ") == find_model("Helsinki-NLP/opus-mt-en-de")
    assert find_model(f" {tiny_folder} ") == find_model(tiny_folder)
    (tmp_path / "mine ").mkdir()  # a name that has a space indeed
    assert find_model(f"{tmp_path}/mine ").folder == tmp_path / "mine "


@pytest.mark.parametrize("revision", [5, b"main", 1.5, ["main"], True])
def test_a_revision_is_text(tiny_folder, revision):
    for source in ("Helsinki-NLP/opus-mt-en-de", tiny_folder):
        with pytest.raises(InvalidSettingError, match="revision") as error:
            load_translator(source, "cpu", revision=revision)
        assert error.value.params["name"] == "revision"


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


# --- the hub, where it is not the network that matters ---


@pytest.fixture
def hub(monkeypatch, tiny_folder, tmp_path):
    """A hub that has the tiny model; `load_translator` reaches it as it would reach the real one."""
    with serve_hub({"Helsinki-NLP/tiny": tiny_folder}) as served:
        monkeypatch.setattr(
            model.loading, "fetch", lambda *args, **kwargs: fetch(*args, **kwargs, endpoint=served.url, cache_dir=tmp_path / "cache")
        )
        yield served


def test_a_model_from_the_hub_translates_like_the_folder(hub, tiny_translator):
    told = []
    loaded = load_translator("Helsinki-NLP/tiny", "cpu", progress=lambda done, total: told.append((done, total)))
    assert (loaded.name, loaded.revision) == ("Helsinki-NLP/tiny", COMMIT)
    assert loaded.translate(TEXT) == tiny_translator.translate(TEXT)
    assert told[0][0] == 0 and told[-1][0] == told[-1][1] > 0
    assert load_translator(f"Helsinki-NLP/tiny@{COMMIT}", "cpu").revision == COMMIT
    with pytest.raises(UnknownRevisionError):
        load_translator("Helsinki-NLP/tiny", "cpu", revision="v1")
    assert load_translator(hub.folders["Helsinki-NLP/tiny"], "cpu").revision is None


def test_a_folder_has_no_revisions(tiny_folder):
    with pytest.raises(InvalidSettingError, match="revision"):
        load_translator(tiny_folder, revision="main")


def test_a_pool_of_models_from_the_hub(hub, tiny_translator):
    pool = ModelPool(load_offered, 10**9)
    loaded = pool.get("Helsinki-NLP/tiny")
    assert loaded.translate(TEXT) == tiny_translator.translate(TEXT) and pool.find("Helsinki-NLP/tiny") is loaded
    with pytest.raises(UnknownRepositoryError):
        pool.get("Helsinki-NLP/none")
    with pytest.raises(ModelTooLargeError):
        ModelPool(load_offered, 1000).get("Helsinki-NLP/tiny")


NO_MEMORY = [
    MemoryError("Cannot allocate memory (os error 12)"),
    OSError(errno.ENOMEM, "Cannot allocate memory"),
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError("MPS backend out of memory (MPS allocated: 17.5 GB)"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:115] data. DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes. "
        "Error code 12 (Cannot allocate memory)"
    ),
    RuntimeError("unable to mmap 8780160 bytes from file </a/model-00001-of-00003.safetensors>: Cannot allocate memory (12)"),
]


@pytest.mark.parametrize("error", NO_MEMORY, ids=lambda error: type(error).__name__)
def test_no_memory_left(tiny_folder, monkeypatch, error):
    def full(*args):
        raise error

    monkeypatch.setattr(model.loading, "load_checkpoint", full)
    with pytest.raises(OutOfMemoryError, match="cpu"):
        load_translator(tiny_folder, "cpu")
    monkeypatch.undo()
    monkeypatch.setattr(model.checkpoint, "load_file", full)
    with pytest.raises(OutOfMemoryError, match="cpu"):
        load_translator(tiny_folder, "cpu")


@pytest.mark.parametrize("error", [RuntimeError("a mistake"), RuntimeError("the memory of the encoder"), KeyError("out of memory")])
def test_another_error_is_not_taken_for_one_of_memory(tiny_folder, monkeypatch, error):
    def fail(*args):
        raise error

    monkeypatch.setattr(model.loading, "load_checkpoint", fail)
    with pytest.raises(type(error)):
        load_translator(tiny_folder, "cpu")


SCARCE = """
import resource, torch
from pathlib import Path
from model.errors import OutOfMemoryError
from model.loading import load_translator
torch.set_num_threads(1)
load_translator("embedded", "cpu")
for spare in range(0, 60, 6):
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + spare * 10**6, resource.RLIM_INFINITY))
    try:
        load_translator("embedded", "cpu")
        outcome = "loaded"
    except OutOfMemoryError:
        outcome = "out of memory"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(outcome)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the address space of a process")
def test_a_process_with_little_memory(request):
    """The system's own refusals, at every stage of loading: whatever runs out, it is said as such, and loading works again afterwards."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCARCE]
    done = subprocess.run(command, cwd=request.config.rootpath, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    outcomes = done.stdout.split("\n")[:-1]
    assert outcomes[0] == "out of memory" and outcomes[-1] == "loaded" and outcomes.count("out of memory") > 1


def test_the_bytes_of_a_model(tiny_translator):
    config = tiny_translator.config
    assert tiny_translator.num_bytes == 4 * (sum(count_parameters(config).values()) + config.max_len * config.d_model)
