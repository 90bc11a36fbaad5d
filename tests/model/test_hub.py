"""The hub: what is fetched, what is told meanwhile, what each failure is called; against a small server, and against none."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest
from huggingface_hub import constants

import model.hub
from model.errors import (
    CheckpointMissingError,
    DiskFullError,
    GatedRepositoryError,
    HubUnreachableError,
    ModelTooLargeError,
    UnknownRepositoryError,
    UnknownRevisionError,
    WrongArchitectureError,
)
from model.hub import fetch, needed_files
from tests.model.hub_server import COMMIT, serve_hub

REPO = "Helsinki-NLP/opus-mt-en-xx"
ROOT = Path(__file__).resolve().parents[2]
MARIAN = {"config.json": b'{"model_type": "marian", "architectures": ["MarianMTModel"]}', "vocab.json": b"{}", "source.spm": b"s" * 70}
MARIAN |= {"target.spm": b"t" * 90, "tokenizer_config.json": b"{}", "model.safetensors": b"w" * 50_000}
OTHERS = {"pytorch_model.bin": b"b" * 60_000, "tf_model.h5": b"h" * 60_000, "README.md": b"#", "run.py": b"raise SystemExit"}


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    for name, content in (MARIAN | OTHERS).items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def hub(repository):
    with serve_hub({REPO: repository}) as hub:
        yield hub


@pytest.fixture
def bring(hub, tmp_path):
    """fetch() from the small server into a cache of its own."""

    def bring_it(revision=None, progress=None, repo=REPO, **more):
        return fetch(repo, revision, progress, endpoint=hub.url, cache_dir=tmp_path / "cache", **more)

    return bring_it


def test_only_what_is_needed_is_fetched_and_of_one_commit(hub, bring):
    fetched = bring()
    assert sorted(path.name for path in fetched.folder.iterdir()) == sorted(MARIAN)
    for name, content in MARIAN.items():
        assert (fetched.folder / name).read_bytes() == content
    assert fetched.revision == COMMIT
    assert hub.files_asked()[0] == "config.json" and hub.files_asked()[-1] == "model.safetensors"
    later = [line for line in hub.asked if "/resolve/" in line and not line.endswith("/config.json")]
    assert len(later) >= len(MARIAN) - 1 and all(f"/resolve/{COMMIT}/" in line for line in later)


def test_a_second_time_nothing_is_fetched_and_the_files_are_the_same(hub, bring):
    first = bring()
    hub.asked.clear()
    assert bring() == first
    assert not hub.files_asked()
    assert bring(revision=COMMIT) == first


def test_progress_counts_bytes_up_to_all_of_them(bring):
    told: list[tuple[int, int]] = []
    bring(progress=lambda done, total: told.append((done, total)))
    total = sum(map(len, MARIAN.values()))
    assert {each for _, each in told} == {total}
    done = [each for each, _ in told]
    assert done[0] == 0 and done[-1] == total and done == sorted(done) and len(set(done)) > len(MARIAN) / 2


def test_another_architecture_costs_no_download(hub, bring, repository):
    (repository / "config.json").write_text('{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}')
    with pytest.raises(WrongArchitectureError, match="GPT2LMHeadModel"):
        bring()
    assert hub.files_asked() == ["config.json"]


@pytest.mark.parametrize(
    ("status", "expected", "said"),
    [
        ("gated", GatedRepositoryError, "HF_TOKEN"),
        (401, UnknownRepositoryError, REPO),
        (404, UnknownRepositoryError, REPO),
        (503, HubUnreachableError, "503"),
        (429, HubUnreachableError, "429"),
    ],
)
def test_what_the_hub_answers(hub, bring, status, expected, said):
    hub.status[REPO] = status
    with pytest.raises(expected, match=said):
        bring()


def test_what_is_not_there(hub, bring, repository):
    with pytest.raises(UnknownRepositoryError, match="opus-mt-en-yy"):
        bring(repo="Helsinki-NLP/opus-mt-en-yy")
    with pytest.raises(UnknownRevisionError, match="v9"):
        bring(revision="v9")
    for name in ("model.safetensors", "pytorch_model.bin", "config.json"):
        (repository / name).unlink()
        if name != "model.safetensors":
            with pytest.raises(CheckpointMissingError):
                bring()


def test_a_transfer_that_breaks_off_leaves_nothing_behind_and_works_the_next_time(hub, bring, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    hub.cut = "model.safetensors"
    with pytest.raises(HubUnreachableError, match="broke off"):
        bring()
    assert not list((tmp_path / "cache").rglob("model.safetensors"))
    hub.cut = ""
    assert (bring().folder / "model.safetensors").read_bytes() == MARIAN["model.safetensors"]


def test_without_a_network_the_cache_has_to_do(hub, bring, tmp_path):
    online = bring()
    nowhere = {"endpoint": "http://127.0.0.1:9", "cache_dir": tmp_path / "cache"}
    assert fetch(REPO, **nowhere) == online
    assert fetch(REPO, COMMIT, **nowhere) == online
    with pytest.raises(HubUnreachableError, match="no connection"):
        fetch("Helsinki-NLP/opus-mt-en-yy", **nowhere)
    hub.status[REPO] = 503
    assert bring() == online
    (online.folder / "model.safetensors").unlink()  # half a download is none
    with pytest.raises(HubUnreachableError):
        fetch(REPO, **nowhere)


def test_offline_by_the_variable(bring, monkeypatch, tmp_path):
    online = bring()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert bring() == online
    with pytest.raises(HubUnreachableError, match="HF_HUB_OFFLINE"):
        bring(repo="Helsinki-NLP/opus-mt-en-yy")


def test_no_room_on_the_disk_is_known_before_anything_is_written(hub, bring, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(model.hub.shutil, "disk_usage", lambda path: usage(10**9, 10**9, 40_000))
    with pytest.raises(DiskFullError) as caught:
        bring()
    assert caught.value.params == {"needed": 1, "free": 0} and not hub.files_asked()


def test_a_disk_that_fills_up_on_the_way(bring, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device", "/secret/path")

    monkeypatch.setattr(model.hub, "hf_hub_download", full)
    with pytest.raises(DiskFullError) as caught:
        bring()
    assert "/secret" not in str(caught.value)


def test_a_cache_that_cannot_be_written(bring, monkeypatch):
    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", "/secret/path")

    monkeypatch.setattr(model.hub, "hf_hub_download", denied)
    with pytest.raises(HubUnreachableError, match="Permission denied") as caught:
        bring()
    assert "/secret" not in str(caught.value)


def test_a_mistake_of_ours_stays_one(bring):
    def broken(done, total):
        raise KeyError("ours")

    with pytest.raises(KeyError):
        bring(progress=broken)


def test_weights_larger_than_the_memory_are_not_fetched(hub, bring):
    with pytest.raises(ModelTooLargeError):
        bring(max_bytes=49_999)
    assert not hub.files_asked()
    assert bring(max_bytes=50_000)


SMALL = ["config.json", "vocab.json", "source.spm", "target.spm"]


@pytest.mark.parametrize(
    ("weights", "chosen"),
    [
        (["model.safetensors", "pytorch_model.bin"], ["model.safetensors"]),
        (["pytorch_model.bin", "flax_model.msgpack"], ["pytorch_model.bin"]),
        (
            ["model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json", "pytorch_model.bin"],
            ["model.safetensors.index.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ),
        (["pytorch_model-00001-of-00001.bin"], ["pytorch_model-00001-of-00001.bin"]),
    ],
)
def test_which_weights_are_taken(weights, chosen):
    assert needed_files([*weights, *SMALL, "rust_model.ot"]) == [*SMALL, *chosen]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["model.safetensors"], "config.json"),
        (["config.json", "tf_model.h5", "model-of.safetensors"], "model.safetensors"),
        (["config.json", "model-00001-of-00003.safetensors", "model-00003-of-00003.safetensors"], "model-00002-of-00003.safetensors"),
    ],
)
def test_which_files_are_missing(names, missing):
    with pytest.raises(CheckpointMissingError) as caught:
        needed_files(names)
    assert caught.value.params["path"] == missing


@pytest.mark.slow
def test_a_whole_run_by_way_of_the_environment(hub, tmp_path):
    """HF_ENDPOINT and HF_HOME as a user sets them, in a process of its own; then the same without a network."""
    program = f"from model.hub import fetch; import json; f = fetch({REPO!r}); print(json.dumps([f.revision, str(f.folder)]))"

    def run(endpoint: str) -> list[str]:
        environment = os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=120)
        return json.loads(done.stdout)

    revision, folder = run(hub.url)
    assert revision == COMMIT and Path(folder).is_relative_to(tmp_path / "home")
    assert run("http://127.0.0.1:9") == [revision, folder]
