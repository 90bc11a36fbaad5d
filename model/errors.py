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


def _shown(value: object) -> str:
    """A visitor's value, short enough for a message; Python refuses to print very large whole numbers."""
    try:
        return str(value)[:40]
    except ValueError:
        return f"a very large {type(value).__name__}"


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

    def __init__(self, path: str) -> None:
        super().__init__(f"The model file {path} is missing: restore it from the repository or choose another model.", path=path)


class CheckpointCorruptError(AtlasError):
    """A file of the checkpoint cannot be read, or does not fit the configuration."""

    code = "checkpoint_corrupt"

    def __init__(self, path: str, detail: str) -> None:
        detail = detail if len(detail) <= 400 else detail[:400] + " ..."
        super().__init__(f"The model file {path} cannot be used ({detail}): restore it from the repository.", path=path, detail=detail)


class DeviceError(AtlasError):
    """The requested device does not exist here."""

    code = "device"

    def __init__(self, device: str, detail: str) -> None:
        super().__init__(f"The device {device} cannot be used ({detail}).", device=device, detail=detail)
