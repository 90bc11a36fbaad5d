"""One run (a translation and its attention maps) as a single .npz file that holds no pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path

import numpy as np

from model.errors import CheckpointCorruptError, CheckpointMissingError
from model.results import MAPS, AttentionTrace, Translation

FORMAT = "attention-atlas-run-1"


def save_run(path: str | Path, translation: Translation, trace: AttentionTrace) -> None:
    """Writes the run, compressed; a file that is there is replaced as a whole or not at all. Loading gives equal values back.

    Raises ValueError if the maps are those of another translation.
    """
    path = Path(path)
    _check_pair(translation, trace)
    # Strings go in as UTF-8 bytes of JSON: numpy would pickle them, or pad them to one width.
    text = json.dumps({"format": FORMAT, **asdict(translation)}, ensure_ascii=False)
    arrays = {name: getattr(trace, name) for name in MAPS}
    unfinished = path.with_name(path.name + ".part")
    with unfinished.open("wb") as file:
        np.savez_compressed(file, translation=np.frombuffer(text.encode("utf-8"), dtype=np.uint8), **arrays)
    os.replace(unfinished, path)


def load_run(path: str | Path) -> tuple[Translation, AttentionTrace]:
    """Reads and checks a run. Raises CheckpointMissingError, or CheckpointCorruptError for one that is damaged or holds something else."""
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            values = json.loads(bytes(file["translation"]).decode("utf-8"))
            arrays = {name: file[name] for name in MAPS}
        if values.pop("format") != FORMAT:
            raise ValueError(f"its format is not {FORMAT!r}")
        translation = Translation(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
        trace = AttentionTrace(**arrays, **{name: getattr(translation, name) for name in _TOKEN_FIELDS})
    except FileNotFoundError:
        raise CheckpointMissingError(path.name) from None
    except Exception as error:  # a damaged archive makes zipfile, its decompressors, numpy and json raise nearly anything
        raise CheckpointCorruptError(path.name, "it is damaged or no recorded run") from error
    return translation, trace


_TOKEN_FIELDS = tuple(field.name for field in fields(AttentionTrace) if field.name not in MAPS)


def _check_pair(translation: Translation, trace: AttentionTrace) -> None:
    for name in _TOKEN_FIELDS:
        ours, theirs = getattr(translation, name), getattr(trace, name)
        if ours != theirs:
            raise ValueError(f"the maps belong to another translation: {len(ours)} {name} against {len(theirs)}, {ours} against {theirs}")
