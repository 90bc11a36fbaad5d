"""Changes to the JSON files of a Marian folder, and what its refusal has to say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from model.errors import AtlasError
from model.marian.config import read_marian_config

GONE = object()


def values(folder: Path, name: str = "config.json") -> dict[str, Any]:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def change(folder: Path, name: str = "config.json", **changes: object) -> None:
    changed = {**values(folder, name), **changes}
    (folder / name).write_text(json.dumps({key: value for key, value in changed.items() if value is not GONE}), encoding="utf-8")


def change_generation(folder: Path, **changes: object) -> None:
    change(folder, "generation_config.json", **changes)


def refusal(folder: Path, kind: type[AtlasError], *said: str) -> None:
    with pytest.raises(kind) as error:
        read_marian_config(folder)
    assert str(folder) not in str(error.value)
    for words in said:
        assert words in str(error.value)
