"""Errors on their way to the page: a code and its parameters, put into words in the visitor's language by the browser."""

from __future__ import annotations

import logging
from typing import Any

from model.errors import AtlasError

log = logging.getLogger(__name__)


def notice(error: Exception) -> dict[str, Any]:
    """What a notice area shows for an error. Anything that is not an AtlasError is a mistake of ours: logged here, never shown."""
    if isinstance(error, AtlasError):
        return {"code": error.code, "params": {name: _plain(value) for name, value in error.params.items()}}
    log.error("a handler failed", exc_info=error)
    return {"code": "unexpected", "params": {}}


def _plain(value: object) -> object:
    return value if isinstance(value, (str, int, float, list)) else str(value)
