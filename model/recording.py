"""One run (a translation and its attention maps) as a single .npz file that holds no pickle."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from model.errors import AtlasError, CheckpointCorruptError, CheckpointMissingError
from model.results import MAPS, NORM_KINDS, AttentionTrace, Examination, RunnerUps, Translation

if TYPE_CHECKING:
    from model.translator import Translator

FORMAT = "attention-atlas-run-2"
FORMATS = ("attention-atlas-run-1", FORMAT)  # the first has neither norms nor runner-ups


def save_run(path: str | Path, translation: Translation, examination: Examination) -> None:
    """Writes the run, compressed; a file that is there is replaced as a whole or not at all. Loading gives equal values back.

    Raises ValueError if the maps are those of another translation, or of a model without its causal mask.
    """
    path = Path(path)
    _check_pair(translation, examination.trace)
    # Strings go in as UTF-8 bytes of JSON: numpy would pickle them, or pad them to one width.
    values = {"format": FORMAT, **asdict(translation), "runner_ups": [asdict(each) for each in examination.runner_ups]}
    arrays = {name: getattr(examination.trace, name) for name in MAPS}
    arrays |= {_norm_name(kind): norms for kind, norms in (examination.norms or {}).items()}
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("wb") as file:
            text = np.frombuffer(json.dumps(values, ensure_ascii=False).encode("utf-8"), dtype=np.uint8)
            np.savez_compressed(file, translation=text, **arrays)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)  # a full disk has its room back
        raise


def load_run(path: str | Path) -> tuple[Translation, AttentionTrace]:
    """Reads and checks a run, its maps alone. Raises the errors of `load_examination`."""
    translation, examination = load_examination(path)
    return translation, examination.trace


def load_examination(path: str | Path) -> tuple[Translation, Examination]:
    """Reads and checks a run with all that was recorded; norms and runner-ups are absent from old files.

    Raises CheckpointMissingError, or CheckpointCorruptError for a file that is damaged or holds something else.
    """
    path = Path(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            values = json.loads(bytes(file["translation"]).decode("utf-8"))
            arrays = {name: file[name] for name in MAPS}
            norms = {kind: file[_norm_name(kind)] for kind in NORM_KINDS if _norm_name(kind) in file.files}
        if values.pop("format") not in FORMATS:
            raise ValueError(f"its format is none of {FORMATS}")
        runner_ups = tuple(_runner_ups(**each) for each in values.pop("runner_ups", ()))
        translation = Translation(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
        trace = AttentionTrace(**arrays, **{name: getattr(translation, name) for name in _TOKEN_FIELDS})
        examination = Examination(trace, norms or None, runner_ups)
    except FileNotFoundError:
        raise CheckpointMissingError(path.name) from None
    except Exception as error:  # a damaged archive makes zipfile, its decompressors, numpy and json raise nearly anything
        raise CheckpointCorruptError(path.name, "it is damaged or no recorded run") from error
    return translation, examination


def is_of(translator: Translator, translation: Translation, trace: AttentionTrace) -> bool:
    """Whether this model draws these maps. No longer, once its weights were replaced and the recording beside them was not.

    Other processors and threads add up in another order, so weights may differ by 1e-3.
    """
    try:
        ours = translator.trace(translation)
    except AtlasError:  # fewer tokens or positions than the ids need
        return False
    pairs = [(getattr(ours, name), getattr(trace, name)) for name in MAPS]
    return all(mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=0, atol=1e-3) for mine, theirs in pairs)


def _norm_name(kind: str) -> str:
    return f"{kind}_norms"


def _runner_ups(rank: int, others: list[list]) -> RunnerUps:
    return RunnerUps(int(rank), tuple((str(token), float(probability)) for token, probability in others))


_TOKEN_FIELDS = ("src_tokens", "tgt_in_tokens", "tgt_out_tokens")


def _check_pair(translation: Translation, trace: AttentionTrace) -> None:
    if not trace.causal:
        raise ValueError("these are the maps of a model without its causal mask: a recorded run is one of a whole model")
    for name in _TOKEN_FIELDS:
        ours, theirs = getattr(translation, name), getattr(trace, name)
        if ours != theirs:
            raise ValueError(f"the maps belong to another translation: {len(ours)} {name} against {len(theirs)}, {ours} against {theirs}")
