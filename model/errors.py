"""Typed errors. Each carries a stable `code` and the `params` its message names, so that an interface can say it in its own language."""

from __future__ import annotations

from collections.abc import Sequence


class AtlasError(Exception):
    """Base of every error a caller can act on. `str(error)` is one English sentence that says what to do."""

    code = "error"

    def __init__(self, message: str, **params: object) -> None:
        super().__init__(message)
        self.params = params

    def __reduce__(self) -> tuple[object, ...]:
        # Exception's own way calls the class with the message alone, which the subclasses don't take.
        return _rebuild, (type(self), str(self), self.params)


def _rebuild(kind: type[AtlasError], message: str, params: dict[str, object]) -> AtlasError:
    error = kind.__new__(kind, message)
    error.params = params
    return error


# No hub id with its revision is longer, nor the name of a folder.
MAX_MODEL_NAME = 300


def _shown(value: object, whole: int = 40) -> str:
    """A visitor's value, short enough for a message: what has more than `whole` characters is cut to 40 and ends with "…"."""
    try:
        text = str(value)
    except ValueError:  # Python refuses to print very large whole numbers
        return f"a very large {type(value).__name__}"
    return text if len(text) <= whole else text[:40] + "…"


def _name(value: object) -> str:
    """The name of a model, whole: the page knows its model by it, and a person may copy it from the message."""
    return _shown(value, MAX_MODEL_NAME)


class EmptyTextError(AtlasError):
    """There was no text at all."""

    code = "empty_text"

    def __init__(self) -> None:
        super().__init__("There is nothing to translate: type a sentence.")


class UnusableTextError(AtlasError):
    """Nothing printable is left after control characters are removed."""

    code = "unusable_text"

    def __init__(self) -> None:
        super().__init__("The text holds only control or invisible characters: type a sentence in letters.")


class TextTooLongError(AtlasError):
    """More tokens than the model has positions. `num_tokens` counts the target prefix and the end token."""

    code = "text_too_long"

    def __init__(self, num_tokens: int, limit: int) -> None:
        super().__init__(
            f"The text has {num_tokens} tokens and this model reads at most {limit}: shorten it or split it into sentences.",
            num_tokens=num_tokens,
            limit=limit,
        )


class UnknownTargetError(AtlasError):
    """The model cannot translate into this language."""

    code = "unknown_target"

    def __init__(self, target: object, supported: Sequence[str]) -> None:
        shown = _shown(target)
        super().__init__(
            f"This model has no target language {shown!r}: choose one of {', '.join(supported)}.", target=shown, supported=list(supported)
        )


class InvalidSettingError(AtlasError):
    """A setting is outside what is allowed."""

    code = "invalid_setting"

    def __init__(self, name: str, value: object, allowed: str) -> None:
        shown = _shown(value)
        super().__init__(f"{name} = {shown} is not possible: use {allowed}.", name=name, value=shown, allowed=allowed)


class CheckpointMissingError(AtlasError):
    """A file or folder of the checkpoint is not there. `path` is a file name, never a full path of the server."""

    code = "checkpoint_missing"

    def __init__(self, path: str, is_folder: bool = False) -> None:
        missing = f"The model file {path} is missing: restore it from the repository"
        if is_folder:
            missing = f"There is no folder {path}: check the path"
        super().__init__(f"{missing} or choose another model.", path=path)


class CheckpointCorruptError(AtlasError):
    """A file of the checkpoint cannot be read, or does not fit the configuration."""

    code = "checkpoint_corrupt"

    def __init__(self, path: str, detail: str) -> None:
        detail = detail if len(detail) <= 400 else detail[:400] + " ..."
        super().__init__(f"The model file {path} cannot be used ({detail}): restore it from the repository.", path=path, detail=detail)


class UnsafeFileError(AtlasError):
    """A pickle that holds more than plain tensors. Nothing of it was run."""

    code = "unsafe_file"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"The model file {path} holds more than plain tensors, so nothing of it was read or run: "
            "choose a model that has model.safetensors.",
            path=path,
        )


class DeviceError(AtlasError):
    """The requested device does not exist here."""

    code = "device"

    def __init__(self, device: str, detail: str) -> None:
        super().__init__(f"The device {device} cannot be used ({detail}).", device=device, detail=detail)


class ModelIdError(AtlasError):
    """What was typed is no hub id of the form owner/name (with @revision if wanted), nor a folder, where that would do too."""

    code = "model_id"

    def __init__(self, model: object, or_folder: bool = False) -> None:
        shown = _shown(model)
        what = "is neither a folder here nor a model id: write an id" if or_folder else "is no model id: write it"
        super().__init__(f"{shown!r} {what} as owner/name, such as Helsinki-NLP/opus-mt-en-de.", model=shown)


class ModelNotAllowedError(AtlasError):
    """The id is of an owner whose models are not loaded here."""

    code = "model_not_allowed"

    def __init__(self, model: str, allowed: Sequence[str]) -> None:
        shown = _name(model)
        super().__init__(
            f"{shown} is not loaded here, only models of {', '.join(allowed)}: choose one of those, or start again with "
            f"ATLAS_ALLOW_MODELS={shown}.",
            model=shown,
            allowed=list(allowed),
        )


class HubUnreachableError(AtlasError):
    """The hub did not answer, and the model is not (or not wholly) in the cache of this machine."""

    code = "hub_unreachable"

    def __init__(self, model: str, detail: str) -> None:
        detail = detail if len(detail) <= 200 else detail[:200]
        super().__init__(
            f"{_name(model)} is not on this machine and the hub cannot be reached ({detail}): check the network and try again, "
            "or choose a model that is here.",
            model=_name(model),
            detail=detail,
        )


class UnknownRepositoryError(AtlasError):
    """The hub has no such repository, or hides it. It answers alike for both."""

    code = "unknown_repository"

    def __init__(self, model: str) -> None:
        super().__init__(
            f"The hub has no model {_name(model)} that anybody may see: check its spelling (not every pair of languages exists).",
            model=_name(model),
        )


class UnknownRevisionError(AtlasError):
    """The repository is there, the revision is not."""

    code = "unknown_revision"

    def __init__(self, model: str, revision: str) -> None:
        super().__init__(
            f"{_name(model)} has no revision {_name(revision)!r}: leave it out for the newest.",
            model=_name(model),
            revision=_name(revision),
        )


class GatedRepositoryError(AtlasError):
    """The repository is there, but its owner lets in only those who asked."""

    code = "gated_repository"

    def __init__(self, model: str) -> None:
        super().__init__(
            f"The owner of {_name(model)} lets in only those who asked: ask for access on its page and start again with your HF_TOKEN, "
            "or choose another model.",
            model=_name(model),
        )


class WrongArchitectureError(AtlasError):
    """config.json describes something other than a 2017 encoder-decoder that we can load. `found` says what."""

    code = "wrong_architecture"

    def __init__(self, found: object) -> None:
        shown = _shown(found)
        super().__init__(f"This model is of the kind {shown!r}: choose a Marian one (OPUS-MT), or one that was trained here.", found=shown)


class UnsupportedModelError(AtlasError):
    """A model of the right kind with a setting that the computation here does not have. `detail` names it."""

    code = "unsupported_model"

    def __init__(self, detail: str) -> None:
        detail = detail if len(detail) <= 200 else detail[:200]
        super().__init__(f"This model needs something that is not built here ({detail}): choose another model.", detail=detail)


class DiskFullError(AtlasError):
    """There is no room for the files of a model. Both numbers in MB (10^6 bytes)."""

    code = "disk_full"

    def __init__(self, needed: int, free: int) -> None:
        super().__init__(
            f"The disk has {free} MB left and the model needs {needed} MB: make room, or let HF_HOME name a folder on another disk.",
            needed=needed,
            free=free,
        )


class ModelTooLargeError(AtlasError):
    """The model alone is larger than all models together may be. Both numbers in MB (10^6 bytes)."""

    code = "model_too_large"

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(
            f"The model takes {size} MB of memory and {limit} MB are set aside for models here: choose a smaller one, or start again "
            "with a larger ATLAS_MODEL_MEMORY.",
            size=size,
            limit=limit,
        )


class OutOfMemoryError(AtlasError):
    """The memory of the device ran out while the model was loaded. What was loaded before still works."""

    code = "out_of_memory"

    def __init__(self, device: str) -> None:
        super().__init__(f"The memory of {device} ran out while the model was loaded: choose a smaller model.", device=device)


class TooManyLoadsError(AtlasError):
    """More models are being loaded at once than this machine takes on."""

    code = "too_many_loads"

    def __init__(self) -> None:
        super().__init__("Many models are being loaded at this moment: try again in a minute, or choose one that is loaded.")


class NotWantedError(AtlasError):
    """A translation was given up half way: whoever asked for it has left."""

    code = "not_wanted"

    def __init__(self) -> None:
        super().__init__("Nobody waited for this translation any more, so it was not written to its end: ask again.")


class ModelNotLoadedError(AtlasError):
    """A run was asked of a model that is not in memory: never loaded, or put away for others."""

    code = "model_not_loaded"

    def __init__(self, model: object) -> None:
        super().__init__(f"The model {_name(model)} is not in memory: load it (again) first.", model=_name(model))
