"""What kind of checkpoint a folder holds, as its config.json says."""

from __future__ import annotations

from pathlib import Path

from model.checkpoint import CONFIG_FILE, FORMAT, read_json
from model.errors import CheckpointCorruptError, WrongArchitectureError
from model.reasons import because


def read_layout(folder: Path) -> str:
    """ "atlas" for a checkpoint of this project, "marian" for one of Marian, as config.json says.

    Raises WrongArchitectureError naming anything else, CheckpointMissingError and CheckpointCorruptError.
    """
    values = read_json(folder, CONFIG_FILE)
    if values.get("format") == FORMAT:
        return "atlas"
    architectures = values.get("architectures")
    names = [name for name in architectures if isinstance(name, str)] if isinstance(architectures, list) else []
    kind = values.get("model_type")
    # Some configurations of 2020 call their type "bart" though the model is Marian's, and TFMarianMTModel has the same weights.
    if any(name.endswith("MarianMTModel") for name in names) or (kind == "marian" and not names):
        return "marian"
    found = names[0] if names else kind if isinstance(kind, str) and kind else values.get("format")
    if found is None:
        raise CheckpointCorruptError(CONFIG_FILE, because("no_architecture"))
    raise WrongArchitectureError(found)
