"""Every visible string, once per language, and the lookup that fills in names.

Templates use `{name}` and nothing else: the browser fills the same templates with the same rule (static/page.js), and text of a
visitor that ends up in a parameter is never read as a template again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from viz.text.en import TEXT as ENGLISH
from viz.text.zh import TEXT as CHINESE

LANGUAGES: dict[str, Mapping[str, str]] = {"en": ENGLISH, "zh": CHINESE}
DEFAULT_LANGUAGE = "en"

_HOLE = re.compile(r"\{(\w+)\}")


def known_language(language: object) -> str:
    """`language` if there is a table for it, else English: a wrong code from a browser must not break a page."""
    return language if isinstance(language, str) and language in LANGUAGES else DEFAULT_LANGUAGE


def say(language: str, key: str, **params: object) -> str:
    """The string for `key`, with `{name}` filled from `params`. Raises KeyError for a key that no table has."""
    template = LANGUAGES[known_language(language)][key]
    return _HOLE.sub(lambda hole: str(params.get(hole[1], hole[0])), template)


def error_text(language: str, code: str, params: Mapping[str, object], variant: str = "") -> str:
    """The message for an error code of `model.errors`, or the general one for a code that this page does not know.

    variant: such as ".other", for a message that differs where it is not about the embedded model, if it does."""
    table = LANGUAGES[known_language(language)]
    key = next((key for key in (f"error.{code}{variant}", f"error.{code}") if key in table), "error.unexpected")
    flat = {name: ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value for name, value in params.items()}
    return say(language, key, **flat)
