"""The files of a Marian tokenizer: vocab.json, target_vocab.json and tokenizer_config.json, checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from model.errors import CheckpointCorruptError, CheckpointMissingError
from model.reasons import because

VOCAB_FILE = "vocab.json"
TARGET_VOCAB_FILE = "target_vocab.json"
SETTINGS_FILE = "tokenizer_config.json"
DEFAULT_MODEL_MAX_LENGTH = 512
# Far beyond any real vocabulary; a larger id can only come from a damaged file.
MAX_ID = 1 << 22


@dataclass(frozen=True)
class TokenizerSettings:
    """What tokenizer_config.json says, with the defaults of the format for what it does not.

    eos, unk, pad      the special tokens as they are spelled in vocab.json
    added              id -> token for tokens that the file adds to the vocabulary; special_added: those that are left out of text
    clean_up           remove the space before punctuation when decoding, a habit of English that some repositories prescribe
    model_max_length   the longest source in tokens
    source_lang, target_lang   language codes such as "en", "" if not named
    """

    eos: str = "</s>"
    unk: str = "<unk>"
    pad: str = "<pad>"
    separate_vocabs: bool = False
    clean_up: bool = False
    model_max_length: int = DEFAULT_MODEL_MAX_LENGTH
    source_lang: str = ""
    target_lang: str = ""
    added: Mapping[int, str] = field(default_factory=dict)
    special_added: frozenset[str] = frozenset()


def read_settings(folder: Path) -> TokenizerSettings:
    """The settings of this folder; the defaults if it has no tokenizer_config.json.

    Raises CheckpointCorruptError for a file that is no JSON object or holds values of the wrong kind.
    """
    try:
        values = _read_object(folder / SETTINGS_FILE)
    except CheckpointMissingError:
        return TokenizerSettings()
    added, special = {}, set()
    for key, entry in _entries(values, "added_tokens_decoder"):
        token = _token(entry, key)
        if not key.isdecimal() or not key.isascii() or len(key) > 9 or int(key) > MAX_ID:
            raise CheckpointCorruptError(SETTINGS_FILE, f"it adds a token with the id {key[:20]!r}")
        added[int(key)] = token
        if isinstance(entry, dict) and entry.get("special") is True:
            special.add(token)
    for name in ("additional_special_tokens", "extra_special_tokens"):
        more = values.get(name) or []
        entries = more.values() if isinstance(more, dict) else more if isinstance(more, list) else [more]
        special |= {_token(entry, name) for entry in entries}
    languages = {name: value for name in ("source_lang", "target_lang") if isinstance(value := values.get(name), str)}
    return TokenizerSettings(
        eos=_token(values.get("eos_token", "</s>"), "eos_token"),
        unk=_token(values.get("unk_token", "<unk>"), "unk_token"),
        pad=_token(values.get("pad_token", "<pad>"), "pad_token"),
        separate_vocabs=_flag(values, "separate_vocabs"),
        clean_up=_flag(values, "clean_up_tokenization_spaces"),
        model_max_length=_length(values.get("model_max_length")),
        added=added,
        special_added=frozenset(special),
        **languages,
    )


def read_vocabulary(path: Path) -> dict[str, int]:
    """token -> id. Raises CheckpointMissingError and CheckpointCorruptError."""
    vocabulary = _read_object(path)
    for token, i in vocabulary.items():
        if not isinstance(i, int) or isinstance(i, bool) or not 0 <= i <= MAX_ID:
            raise CheckpointCorruptError(path.name, f"the id of {token[:40]!r} is {str(i)[:40]}")
    return vocabulary


def _read_object(path: Path) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CheckpointMissingError(path.name) from None
    except OSError as error:
        raise CheckpointCorruptError(path.name, because("unreadable", why=error.strerror)) from error
    except ValueError as error:
        raise CheckpointCorruptError(path.name, because("no_utf8")) from error
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointCorruptError(path.name, because("no_json")) from error
    if not isinstance(values, dict):
        raise CheckpointCorruptError(path.name, because("no_object"))
    return values


def _entries(values: Mapping[str, object], name: str) -> Iterator[tuple[str, object]]:
    entries = values.get(name) or {}
    if not isinstance(entries, dict):
        raise CheckpointCorruptError(SETTINGS_FILE, f"{name} is a {type(entries).__name__}, not an object")
    return iter(entries.items())


def _token(entry: object, name: str) -> str:
    """A token stands in the file as its string, or as an object that holds it."""
    token = entry.get("content") if isinstance(entry, dict) else entry
    if not isinstance(token, str) or not token:
        raise CheckpointCorruptError(SETTINGS_FILE, f"{name[:40]} is no token")
    return token


def _flag(values: Mapping[str, object], name: str) -> bool:
    value = values.get(name)
    if value is not None and not isinstance(value, bool):
        raise CheckpointCorruptError(SETTINGS_FILE, because("wrong_value", what=name, found=str(value)[:40], wanted=because("flag")))
    return bool(value)


def _length(value: object) -> int:
    if value is None:
        return DEFAULT_MODEL_MAX_LENGTH
    # The format writes "no limit" as 1e30, as a whole number or not.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 1:
        why = because("wrong_value", what="model_max_length", found=str(value)[:40], wanted=because("number"))
        raise CheckpointCorruptError(SETTINGS_FILE, why)
    return int(min(value, MAX_ID))
