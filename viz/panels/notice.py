"""Errors on their way to the page: a code and its parameters, put into words in the visitor's language by the browser."""

from __future__ import annotations

import logging
from typing import Any

from model.errors import AtlasError
from model.reasons import Reason

log = logging.getLogger(__name__)


def notice(error: Exception) -> dict[str, Any]:
    """What a notice area shows for an error. Anything that is not an AtlasError is a mistake of ours: logged here, never shown."""
    if isinstance(error, AtlasError):
        return {"code": error.code, "params": {name: _plain(value, name) for name, value in error.params.items()}}
    log.error("a handler failed", exc_info=error)
    return {"code": "unexpected", "params": {}}


def _plain(value: object, name: str = "") -> object:
    """A clause is sent by its key, so that the page can say it in its own language; one that nobody here wrote, as a quotation."""
    if isinstance(value, Reason):
        return {"reason": value.key, "params": {each: _plain(inner) for each, inner in value.params.items()}}
    if name in ("detail", "allowed") and isinstance(value, str):
        return {"reason": "quoted", "params": {"text": value}}
    return value if isinstance(value, (str, int, float, list)) else str(value)
