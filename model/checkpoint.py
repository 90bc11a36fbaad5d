"""Strict loading and saving of a checkpoint folder: config.json and model*.safetensors.

Weights are stored in half precision and computed in float32. Nothing is unpickled.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from model.config import TransformerConfig
from model.device import ran_out_of_memory
from model.errors import CheckpointCorruptError, CheckpointMissingError
from model.positional import sinusoidal_table
from model.reasons import because
from model.transformer import Transformer

CONFIG_FILE = "config.json"
FORMAT = "attention-atlas"
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_LARGEST_TABLE = 1 << 28  # numbers; four thousand times that of the embedded model
_SHARD = re.compile(r"model-\d{5}-of-(\d{5})\.safetensors")
# Entries that a config.json may lack and that are written only where they say something: the first checkpoints have none of them.
_LATER = ("num_decoder_heads", "decoder_d_ff", "tgt_vocab_size", "tie_output")
# With tied embeddings the module holds one matrix under two names; the file holds it once, under the first.
_TIED = ("tgt_embedding.tokens.weight", "src_embedding.tokens.weight")


def save_checkpoint(model: Transformer, folder: Path, dtype: torch.dtype = torch.float16, max_shard_size: str = "9MB") -> None:
    """Writes config.json and model*.safetensors into `folder` (created if needed), replacing what was there.

    Shards stay under 10 MB, the size above which a Space's git wants large-file storage, unless one matrix alone is larger.
    Raises ValueError, writing nothing, if a weight is not a finite number in `dtype`, or if the positions are not those of the formula,
    which is what loading computes. Raises OSError, and leaves the old files, if the disk is full or refuses them.
    """
    state = {key: value.detach().to("cpu", dtype).contiguous() for key, value in _state_dict(model).items()}
    for key, value in state.items():
        if not bool(torch.isfinite(value).all()):
            raise ValueError(f"{key} holds values that are not finite numbers in {dtype}: nothing was written")
    table = sinusoidal_table(model.config.max_len, model.config.d_model, model.config.position_layout)
    if model.tgt_positions is not None or not torch.equal(model.positions.cpu(), table):
        raise ValueError("the table of positions is not that of the formula: nothing was written")
    folder.mkdir(parents=True, exist_ok=True)
    # Written beside, then moved: a full disk leaves the old checkpoint whole.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as new:
        try:
            save_torch_state_dict(state, new, max_shard_size=max_shard_size, safe_serialization=True)
        except SafetensorError as error:  # how it words a full disk
            raise OSError(f"the weights were not written: {error}") from error
        later = {field.name: field.default for field in fields(TransformerConfig) if field.name in _LATER}
        values = {name: value for name, value in asdict(model.config).items() if name not in later or value != later[name]}
        text = json.dumps({"format": FORMAT, **values}, indent=2)
        (Path(new) / CONFIG_FILE).write_text(text + "\n", encoding="utf-8")
        for old in folder.glob("model*.safetensors*"):
            old.unlink()
        for file in Path(new).iterdir():
            file.replace(folder / file.name)


def load_config(folder: Path) -> TransformerConfig:
    """Reads config.json. Raises CheckpointMissingError, or CheckpointCorruptError if it describes no model."""
    values = read_json(folder, CONFIG_FILE)
    if values.pop("format", None) != FORMAT:
        raise CheckpointCorruptError(CONFIG_FILE, because("no_format", format=repr(FORMAT)))
    known = {field.name for field in fields(TransformerConfig)}
    if unknown := sorted(set(values) - known):
        raise CheckpointCorruptError(CONFIG_FILE, because("unknown_entries", what=", ".join(unknown)))
    if missing := sorted(known - set(values) - set(_LATER)):
        raise CheckpointCorruptError(CONFIG_FILE, because("lacks", what=", ".join(missing)))
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
    for file in files:
        if (shard := _SHARD.fullmatch(file.name)) is not None:
            for number in range(1, int(shard[1]) + 1):
                name = f"model-{number:05}-of-{shard[1]}.safetensors"
                if not (folder / name).exists():
                    raise CheckpointMissingError(name)
    state: dict[str, Tensor] = {}
    for file in files:
        try:
            part = load_file(file)
        except (SafetensorError, OSError, ValueError) as error:
            if ran_out_of_memory(error):
                raise
            raise CheckpointCorruptError(file.name, because("damaged_why", why=reason(error))) from error
        if twice := sorted(set(part) & set(state)):
            raise CheckpointCorruptError(file.name, because("twice", what=twice[0]))
        state.update(part)
    with torch.device("meta"):  # shapes alone: a damaged configuration must not ask for memory before it is compared
        model = Transformer(config)
    _check(_state_dict(model), state, files[0].name)
    # Copies: the tensors read lie in the mapped file, and a file that is overwritten would take the process with it.
    state = {key: state.pop(key).to(torch.float32, copy=True).contiguous() for key in list(state)}
    if config.tie_embeddings:
        state[_TIED[0]] = state[_TIED[1]]
    model.load_state_dict(state, assign=True)
    try:
        model.positions = sinusoidal_table(config.max_len, config.d_model, config.position_layout)
    except RuntimeError as error:  # the table of positions is not in the file, so that a damaged number may ask for any size
        if config.max_len * config.d_model <= _LARGEST_TABLE and ran_out_of_memory(error):
            raise
        raise CheckpointCorruptError(CONFIG_FILE, because("no_memory")) from error
    return model.to(device).eval()


def load_state(model: Transformer, state: Mapping[str, Tensor], name: str) -> None:
    """Copies `state` into the model after checking every key, shape and value. Raises CheckpointCorruptError, naming the file `name`."""
    expected = _state_dict(model)
    _check(expected, state, name)
    with torch.no_grad():
        for key, target in expected.items():
            target.copy_(state[key])


def _check(expected: Mapping[str, Tensor], state: Mapping[str, Tensor], name: str) -> None:
    check_keys(name, missing=sorted(set(expected) - set(state)), unknown=sorted(set(state) - set(expected)))
    for key, target in expected.items():
        check_tensor(name, key, state[key], target.shape)


def check_keys(name: str, missing: Sequence[str], unknown: Sequence[str]) -> None:
    """Raises CheckpointCorruptError, naming the file `name` and the first of the keys, unless both lists are empty."""
    lacking, others = (", ".join(keys[:3]) + (" ..." if len(keys) > 3 else "") for keys in (missing, unknown))
    if missing and unknown:
        raise CheckpointCorruptError(name, because("lacks_and_unknown", lacking=lacking, unknown=others))
    if missing:
        raise CheckpointCorruptError(name, because("lacks", what=lacking))
    if unknown:
        raise CheckpointCorruptError(name, because("unknown", what=others))


def check_tensor(name: str, key: str, tensor: Tensor, shape: Sequence[int]) -> None:
    """Raises CheckpointCorruptError, naming the file `name`, unless the tensor has this shape and holds finite numbers."""
    if tuple(tensor.shape) != tuple(shape):
        raise CheckpointCorruptError(name, because("shape", what=key, found=tuple(tensor.shape), wanted=tuple(shape)))
    if tensor.dtype not in _DTYPES:
        raise CheckpointCorruptError(name, because("kind", what=key, found=tensor.dtype, wanted=", ".join(map(str, _DTYPES))))
    # A sum takes a thirtieth of the time, and no infinity or NaN leaves it finite. Only where it overflows does each value count.
    if not bool(tensor.sum(dtype=torch.float32).isfinite()) and not bool(torch.isfinite(tensor.float()).all()):
        raise CheckpointCorruptError(name, because("not_finite", what=key))


def read_json(folder: Path, name: str) -> dict[str, object]:
    """A JSON object from a file of the checkpoint. Raises CheckpointMissingError or CheckpointCorruptError."""
    try:
        values = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointMissingError(name) from None
    except NotADirectoryError:
        raise CheckpointMissingError(name) from None
    except (OSError, ValueError, RecursionError) as error:
        if ran_out_of_memory(error):
            raise
        raise CheckpointCorruptError(name, because("no_json_why", why=reason(error))) from error
    if not isinstance(values, dict):
        raise CheckpointCorruptError(name, because("no_object"))
    return values


def reason(error: Exception) -> str:
    """What went wrong, without the path that an operating system's message ends with."""
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _state_dict(model: Transformer) -> dict[str, Tensor]:
    state = dict(model.state_dict())
    if model.config.tie_embeddings:
        del state[_TIED[0]]
    return state
