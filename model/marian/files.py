"""The tensors of a Marian folder: model.safetensors, its shards, or pytorch_model.bin, of which nothing but plain tensors is read."""

from __future__ import annotations

import pickle
import pickletools
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from model.checkpoint import read_json, reason
from model.device import ran_out_of_memory
from model.errors import CheckpointCorruptError, CheckpointMissingError, UnsafeFileError
from model.reasons import because

SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
_INDEX = ".index.json"
# The names and shapes of a few hundred tensors take less than a thousandth of this.
_MAX_PICKLE = 1 << 26


def read_tensors(folder: Path) -> tuple[dict[str, Tensor], str]:
    """Every tensor of the checkpoint by its name in the file, and the name of the file to blame for it (the first, if there are several).

    safetensors before pickle, one file before shards. The tensors may lie in the mapped file: copy what is kept.
    Raises CheckpointMissingError, CheckpointCorruptError for a truncated or damaged file, and UnsafeFileError for a pickle that holds
    more than tensors; none of it is run.
    """
    kinds: tuple[tuple[str, Callable[[Path], dict[str, Tensor]]], ...] = ((SAFETENSORS, _safetensors), (PICKLE, _pickle))
    for name, read in kinds:
        if (folder / name).exists():
            return read(folder / name), name
        if (folder / (name + _INDEX)).exists():
            return _shards(folder, name + _INDEX, read)
    raise CheckpointMissingError(SAFETENSORS)


def _shards(folder: Path, index: str, read: Callable[[Path], dict[str, Tensor]]) -> tuple[dict[str, Tensor], str]:
    places = read_json(folder, index).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise CheckpointCorruptError(index, because("lacks", what="weight_map"))
    for key, name in places.items():
        # A plain file name of this folder, never a path out of it.
        if not isinstance(name, str) or Path(name).name != name or name in ("", ".", "..") or "\\" in name:
            raise CheckpointCorruptError(index, f"the file of {key[:80]} is {str(name)[:80]}")
    names = sorted(set(places.values()))
    for name in names:
        if not (folder / name).exists():
            raise CheckpointMissingError(name)
    tensors: dict[str, Tensor] = {}
    for name in names:
        part = read(folder / name)
        if lacking := sorted(key for key, place in places.items() if place == name and key not in part):
            raise CheckpointCorruptError(name, f"it lacks {lacking[0]}, which {index} says it has")
        if twice := sorted(part.keys() & tensors.keys()):
            raise CheckpointCorruptError(name, because("twice", what=twice[0]))
        tensors |= part
    return tensors, names[0]


def _safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        if ran_out_of_memory(error):
            raise
        raise CheckpointCorruptError(path.name, because("damaged_why", why=reason(error))) from error


def _pickle(path: Path) -> dict[str, Tensor]:
    """Both formats of torch.save: a zip, or a bare pickle stream (before torch 1.6)."""
    try:
        # weights_only: an unpickler that knows tensors and their storages, and refuses every other name before it is looked up.
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes make an unpickler fail in any way there is
        if ran_out_of_memory(error):  # never by its words alone: those of a refusal quote the file
            raise
        if isinstance(error, pickle.UnpicklingError) and is_sound_pickle(path):
            raise UnsafeFileError(path.name) from error
        raise CheckpointCorruptError(path.name, because("damaged")) from error
    if not isinstance(state, dict):
        raise CheckpointCorruptError(path.name, f"it holds a {type(state).__name__}, not tensors by name")
    tensors = {}
    for key, value in state.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            raise CheckpointCorruptError(path.name, f"{str(key)[:80]} is a {type(value).__name__}, not a tensor")
        # A view that repeats its memory is small in the file and as large as it likes once copied.
        if value.layout != torch.strided or value.untyped_storage().nbytes() < value.numel() * value.element_size():
            raise CheckpointCorruptError(path.name, f"{key[:80]} is no plain tensor")
        tensors[key] = value.detach()
    return tensors


def is_sound_pickle(path: Path) -> bool:
    """Whether a file that torch refused is undamaged, so that it was refused for what it holds. Reads the opcodes and runs none.

    The message of the refusal doesn't tell: torch words it alike for both, and otherwise in every version.
    """
    try:
        with ExitStack() as stack:
            file = stack.enter_context(path.open("rb"))
            if zipfile.is_zipfile(file):
                archive = stack.enter_context(zipfile.ZipFile(file))
                entry = next(info for info in archive.infolist() if info.filename.endswith("data.pkl"))
                if entry.file_size > _MAX_PICKLE:
                    return False
                file = stack.enter_context(archive.open(entry))
            else:
                file.seek(0)  # from where is_zipfile left it
            # The old format is a stream: a magic number, a version, facts of the machine, then the object.
            for _ in range(4):
                if not file.peek(1):
                    break
                for _opcode in pickletools.genops(file):
                    pass
    except Exception:
        return False
    return True
