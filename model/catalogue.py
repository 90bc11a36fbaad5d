"""Which models exist: the embedded one, and any folder of the same layout (config.json, model*.safetensors, tokenizer.model)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from model.errors import CheckpointCorruptError, CheckpointMissingError, InvalidSettingError


@dataclass(frozen=True)
class ModelEntry:
    """A model that can be loaded: the name to show and the folder it lies in."""

    name: str
    folder: Path


EMBEDDED = ModelEntry("embedded", Path(__file__).parent / "weights")


def find_model(source: str | Path | None = None) -> ModelEntry:
    """None or "embedded": the model that comes with the project; anything else: a folder.

    Raises CheckpointMissingError if there is no such folder, CheckpointCorruptError if it is a file.
    """
    if source is None or source == EMBEDDED.name:
        if not EMBEDDED.folder.is_dir():
            raise CheckpointMissingError("model/weights")
        return EMBEDDED
    if not isinstance(source, (str, Path)):
        raise InvalidSettingError("source", type(source).__name__, "the path of a folder, or None for the embedded model")
    folder = Path(source)
    name = folder.name or str(source)
    try:
        is_folder, exists = folder.is_dir(), folder.exists()
    except (OSError, ValueError):  # a name that no file system takes
        is_folder = exists = False
    if exists and not is_folder:
        raise CheckpointCorruptError(name, "it is a file, not a folder")
    if not is_folder:
        raise CheckpointMissingError(name)
    return ModelEntry(name, folder)
