"""Strict loading and saving of a checkpoint folder: config.json and model*.safetensors.

Weights are stored in half precision and computed in float32. Nothing is unpickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from model.config import TransformerConfig
from model.errors import CheckpointCorruptError, CheckpointMissingError
from model.transformer import Transformer

CONFIG_FILE = "config.json"
FORMAT = "attention-atlas"
# With tied embeddings the module holds one matrix under two names; the file holds it once, under the first.
_TIED = ("tgt_embedding.tokens.weight", "src_embedding.tokens.weight")


def save_checkpoint(model: Transformer, folder: Path, dtype: torch.dtype = torch.float16, max_shard_size: str = "9MB") -> None:
    """Writes config.json and model*.safetensors into `folder` (created if needed), replacing what was there.

    Shards stay under 10 MB, the size above which a Space's git wants large-file storage.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("model*.safetensors*"):
        old.unlink()
    state = {key: value.detach().to("cpu", dtype).contiguous() for key, value in _state_dict(model).items()}
    save_torch_state_dict(state, folder, max_shard_size=max_shard_size, safe_serialization=True)
    text = json.dumps({"format": FORMAT, **asdict(model.config)}, indent=2)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")


def load_config(folder: Path) -> TransformerConfig:
    """Reads config.json. Raises CheckpointMissingError, or CheckpointCorruptError if it describes no model."""
    values = read_json(folder, CONFIG_FILE)
    if values.pop("format", None) != FORMAT:
        raise CheckpointCorruptError(CONFIG_FILE, f"its format is not {FORMAT!r}")
    known = {field.name for field in fields(TransformerConfig)}
    if unknown := sorted(set(values) - known):
        raise CheckpointCorruptError(CONFIG_FILE, f"unknown entries {', '.join(unknown)}")
    try:
        return TransformerConfig(**values)
    except (TypeError, ValueError) as error:
        raise CheckpointCorruptError(CONFIG_FILE, str(error)) from error


def load_checkpoint(folder: Path, device: str | torch.device = "cpu") -> Transformer:
    """The model in `folder`, in float32 on `device`, in evaluation mode.

    Raises CheckpointMissingError for a missing file and CheckpointCorruptError for a truncated one, a key left over on either side,
    a shape that does not fit or a weight that is not a finite number.
    """
    config = load_config(folder)
    files = sorted(folder.glob("model*.safetensors"))
    if not files:
        raise CheckpointMissingError("model.safetensors")
    state: dict[str, Tensor] = {}
    for file in files:
        try:
            state.update(load_file(file))
        except (SafetensorError, OSError, ValueError) as error:
            raise CheckpointCorruptError(file.name, f"it is truncated or damaged: {error}") from error
    model = Transformer(config)
    load_state(model, state, files[0].name)
    return model.to(device).eval()


def load_state(model: Transformer, state: Mapping[str, Tensor], name: str) -> None:
    """Copies `state` into the model after checking every key, shape and value. Raises CheckpointCorruptError, naming the file `name`."""
    expected = _state_dict(model)
    missing, unknown = sorted(set(expected) - set(state)), sorted(set(state) - set(expected))
    if missing or unknown:
        parts = (("lacks", missing), ("has unknown", unknown))
        said = [f"it {what} {', '.join(keys[:3])}{' ...' if len(keys) > 3 else ''}" for what, keys in parts if keys]
        raise CheckpointCorruptError(name, " and ".join(said))
    with torch.no_grad():
        for key, target in expected.items():
            if state[key].shape != target.shape:
                raise CheckpointCorruptError(name, f"{key} has shape {tuple(state[key].shape)}, expected {tuple(target.shape)}")
            if not bool(torch.isfinite(state[key]).all()):
                raise CheckpointCorruptError(name, f"{key} holds values that are not finite numbers")
            target.copy_(state[key])


def read_json(folder: Path, name: str) -> dict[str, object]:
    """A JSON object from a file of the checkpoint. Raises CheckpointMissingError or CheckpointCorruptError."""
    try:
        values = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointMissingError(name) from None
    except (OSError, ValueError) as error:
        raise CheckpointCorruptError(name, f"it is not readable JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointCorruptError(name, "it is not a JSON object")
    return values


def _state_dict(model: Transformer) -> dict[str, Tensor]:
    state = dict(model.state_dict())
    if model.config.tie_embeddings:
        del state[_TIED[0]]
    return state
