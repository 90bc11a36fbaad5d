"""A small Marian folder, and one of its configuration files alone that a test may change."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.marian.factories import make_marian_folder


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_marian_folder(tmp_path_factory.mktemp("marian"), eos_token_id=7)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    for file in original.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path
