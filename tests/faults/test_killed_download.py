"""A process that is killed while it downloads a model: what it left is never taken for the whole, and doesn't fill the disk for ever."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from model.errors import HubUnreachableError
from model.hub import REMAINS_AGE, fetch
from tests.model.hub_server import serve_hub

ROOT = Path(__file__).resolve().parents[2]
REPO = "Helsinki-NLP/opus-mt-en-xx"
WEIGHTS = bytes(range(256)) * 120_000  # 31 MB
MARIAN = {"config.json": b'{"model_type": "marian", "architectures": ["MarianMTModel"]}', "vocab.json": b"{}", "source.spm": b"s" * 70}
MARIAN |= {"target.spm": b"t" * 90, "tokenizer_config.json": b"{}", "model.safetensors": WEIGHTS}
FETCH = """
import sys
from pathlib import Path
from model.hub import fetch
fetch(sys.argv[1], endpoint=sys.argv[2], cache_dir=Path(sys.argv[3]))
"""


def test_a_killed_download_is_no_model_and_the_next_one_is_whole(tmp_path: Path) -> None:
    repository, cache = tmp_path / "repository", tmp_path / "cache"
    repository.mkdir()
    for name, content in MARIAN.items():
        (repository / name).write_bytes(content)
    with serve_hub({REPO: repository}) as hub:
        hub.stall = "model.safetensors"
        process = subprocess.Popen([sys.executable, "-c", FETCH, REPO, hub.url, str(cache)], cwd=ROOT)
        try:
            half = wait_for_half(cache)
        finally:
            process.kill()
            process.wait()
            hub.go_on.set()
        assert 0 < half < len(WEIGHTS)
        with pytest.raises(HubUnreachableError):  # without the hub there is no model
            fetch(REPO, endpoint="http://127.0.0.1:9", cache_dir=cache)
        hub.stall = ""
        hub.asked.clear()
        remains = list(cache.rglob("*.incomplete"))
        folder = fetch(REPO, endpoint=hub.url, cache_dir=cache).folder
        assert (folder / "model.safetensors").read_bytes() == WEIGHTS
        assert hub.files_asked() == ["model.safetensors"]  # the other files were there
        # They may be another process's that is alive, until nothing has come for a while.
        assert len(remains) == 1 and remains[0].exists()
        os.utime(remains[0], (time.time() - REMAINS_AGE - 60,) * 2)
        fetch(REPO, endpoint=hub.url, cache_dir=cache)
        assert not list(cache.rglob("*.incomplete"))


def wait_for_half(cache: Path) -> int:
    """Bytes of the file that is being written, once there are some and no more come."""
    before = -1
    for _ in range(600):
        time.sleep(0.2)
        size = max((file.stat().st_size for file in cache.rglob("*.incomplete")), default=0)
        if size > 1_000_000 and size == before:
            return size
        before = size
    raise TimeoutError("nothing was downloaded")
