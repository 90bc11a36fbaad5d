"""A disk that is really full: a file system of some hundred kB, where the system lets us mount one. Nothing that was whole is lost, nothing
half is left, and each says what is the matter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.model.hub_server import serve_hub

ROOT = Path(__file__).resolve().parents[2]
REPO = "Helsinki-NLP/opus-mt-en-xx"
MARIAN = {"config.json": b'{"model_type": "marian", "architectures": ["MarianMTModel"]}', "vocab.json": b"{}", "source.spm": b"s" * 70}
MARIAN |= {"target.spm": b"t" * 90, "tokenizer_config.json": b"{}", "model.safetensors": b"w" * 5_000_000}
MOUNT = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=600k tmpfs "$0" && exec "$@"']

WRITE_ALL = """
import json, sys
from collections import namedtuple
from pathlib import Path
disk, url, repo = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
import numpy as np
import torch
import model.hub
from model.checkpoint import load_checkpoint, save_checkpoint
from model.errors import AtlasError
from model.recording import load_examination, save_run
from model.training.loop import _replace
from tests import tiny
from viz.panels.share import write_file
said = {}

def told(name, call):
    try:
        call()
        said[name] = "written"
    except AtlasError as error:
        said[name] = str(error)
    except OSError as error:
        said[name] = str(error)
    said[name + " left"] = sorted(str(path.relative_to(disk)) for path in disk.rglob("*") if path.is_file() and path not in kept)

config = tiny.tiny_config(50)
first = tiny.random_model(config)
save_checkpoint(first, disk / "weights", torch.float32)
translation, examination = load_examination(Path("model/weights/example.npz"))
save_run(disk / "example.npz", translation, examination)
torch.save({"update": 1}, disk / "last.pt")
kept = set(path for path in disk.rglob("*") if path.is_file())
(disk / "other").write_bytes(b"x" * 300_000)  # somebody else's
kept.add(disk / "other")

told("export", lambda: write_file(disk / "exports", "maps.csv", lambda file: [file.write(b"x" * 10_000) for _ in range(1000)]))
told("known before", lambda: model.hub.fetch(repo, endpoint=url, cache_dir=disk / "hub"))
usage = namedtuple("usage", "total used free")
model.hub.shutil.disk_usage = lambda path: usage(10**12, 0, 10**12)
told("on the way", lambda: model.hub.fetch(repo, endpoint=url, cache_dir=disk / "hub"))
kept |= set((disk / "hub").rglob("*"))
larger = tiny.random_model(tiny.tiny_config(50, d_model=256, d_ff=512))
told("checkpoint", lambda: save_checkpoint(larger, disk / "weights", torch.float32))
examination.norms["cross"] = np.random.default_rng(0).random((400_000,), dtype=np.float32)
told("recording", lambda: save_run(disk / "example.npz", translation, examination))
told("snapshot", lambda: _replace(disk / "last.pt", {"update": 2, "weights": torch.randn(1_000_000)}))
load_checkpoint(disk / "weights")
load_examination(disk / "example.npz")
said["update"] = torch.load(disk / "last.pt", weights_only=True)["update"]
print(json.dumps(said))
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """What a command has to begin with to find a disk of 600 kB at tmp_path / "disk"."""
    (tmp_path / "disk").mkdir()
    if shutil.which("unshare") is None or subprocess.run([*MOUNT, str(tmp_path / "disk"), "true"], capture_output=True).returncode:
        pytest.skip("the system lets us mount no disk")
    return [*MOUNT, str(tmp_path / "disk")]


def test_whatever_writes_onto_a_full_disk(tmp_path: Path, small_disk: list[str]) -> None:
    (tmp_path / "repository").mkdir()
    for name, content in MARIAN.items():
        (tmp_path / "repository" / name).write_bytes(content)
    with serve_hub({REPO: tmp_path / "repository"}) as hub:
        command = [*small_disk, sys.executable, "-c", WRITE_ALL, str(tmp_path / "disk"), hub.url, REPO]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["export"] == "The file could not be written: the disk is full or refuses it."
    for name in ("known before", "on the way"):  # by its size, and by what the system says
        assert said[name].startswith("The disk has ") and "make room" in said[name], said[name]
    assert "No space left on device" in said["checkpoint"] and "No space left on device" in said["recording"]
    assert "last.pt was not written, is the disk full?" in said["snapshot"]
    left = {name: files for name, files in said.items() if name.endswith(" left") and not name.startswith(("known", "on the way"))}
    assert left == {f"{name} left": [] for name in ("export", "checkpoint", "recording", "snapshot")}
    assert not [name for name in said["on the way left"] if "safetensors" in name or "incomplete" in name]
    assert said["update"] == 1  # and what was there before is whole
