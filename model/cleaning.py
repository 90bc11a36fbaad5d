"""The one place that says what happens to a typed text before it is cut into tokens."""

from __future__ import annotations

import re
import unicodedata

from model.errors import EmptyTextError, InvalidSettingError, UnusableTextError

# Control characters (line ends and tabs among them), halves of surrogate pairs, which no UTF-8 can hold, and SentencePiece's space mark.
_TO_SPACE = re.compile("[\\u0000-\\u001f\\u007f-\\u009f\\ud800-\\udfff\\u2581]")
# Invisible marks that only steer layout: soft hyphen, Arabic letter mark, zero-width space, left/right marks, embeddings, overrides and
# isolates of bidirectional text (they can make a text read as something else), word joiner, deprecated format marks, byte order mark,
# annotation marks. ZWNJ and ZWJ (U+200C, U+200D) stay: Persian, Indic scripts and emoji are spelled with them.
_TO_NOTHING = re.compile("[\\u00ad\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e\\u2060\\u2066-\\u206f\\ufeff\\ufff9-\\ufffb]")

# What keyboards and word processors make of apostrophes, quotation marks and dots, and the full-width forms of a Chinese keyboard: of each
# kind the English sentences of the embedded model's training know one.
_PLAIN = dict.fromkeys("‘’‚‛ʼ′＇`´", "'") | dict.fromkeys("“”„‟″＂«»", '"') | {"…": "..."}
_PLAIN |= dict(zip("！（），．：；？％＄", "!(),.:;?%$", strict=True))
_TO_PLAIN = str.maketrans(_PLAIN)

# A dot ends no sentence within a word or number, behind a letter alone ("U.S.", "J. Smith"), or behind a title.
_SENTENCE = re.compile(r"(?:[^.!?]|[.!?](?!\s|$)|(?<=\b[A-Z])\.|(?<=\b(?:MR|MS|DR|ST))\.|(?<=\bMRS)\.)+[.!?]*")
_SHORT_WORDS = {"GO", "HE", "HI", "ME", "MY", "NO", "SO", "WE"}  # two letters that are no abbreviation
_DOTTED = re.compile(r"\b(?:[a-z]\.)+")
_SMALL_DOTTED = {"a.m.", "p.m.", "e.g.", "i.e."}
_TITLE = re.compile(r"\b(?:mrs?|ms|dr|st)\.")
_LETTERS = re.compile(r"[^\W\d_]+")
_VOWEL = re.compile("[AEIOUY]")
_PRONOUN = re.compile(r"\bi\b")


def clean_text(text: str) -> str:
    """The text as the model reads it; "" if nothing visible is left. Cleaning twice changes nothing more.

    Control characters and lone surrogates become spaces, marks that only steer layout vanish, what remains is composed (Unicode NFC),
    and runs of white space (no-break and ideographic spaces too) become one space each, none at the ends. Case, punctuation and
    full-width forms stay as they are.
    """
    text = _TO_NOTHING.sub("", _TO_SPACE.sub(" ", text))
    text = " ".join(unicodedata.normalize("NFC", text).split())
    return text if any(map(_is_visible, text)) else ""


def checked_text(text: object, name: str = "text") -> str:
    """A visitor's text, cleaned. `name` is what an error calls it.

    Raises InvalidSettingError for anything but a str, EmptyTextError for nothing or white space, UnusableTextError if only invisible
    characters were typed.
    """
    if not isinstance(text, str):
        raise InvalidSettingError(name, type(text).__name__, "a text (str)")
    cleaned = clean_text(text)
    if cleaned:
        return cleaned
    if not text.strip():
        raise EmptyTextError
    raise UnusableTextError


def plain_source(text: str) -> str:
    """A cleaned English text as the embedded model's training would write it: `plain_case` of `plain_punctuation`. For sources only:
    a French or Chinese translation has quotation marks of its own."""
    return plain_case(plain_punctuation(text))


def plain_punctuation(text: str) -> str:
    """The text with the punctuation that the embedded model's training saw."""
    return text.translate(_TO_PLAIN)


def plain_case(text: str) -> str:
    """The text with its sentences in capitals written as usual ("I LOST MY KEYS." as "I lost my keys.").

    The embedded model's training saw few capitals, and cuts them into single letters. Names lose theirs, too. Sentences with a small
    letter stay, so do abbreviations alone: of two letters ("OK"), with dots ("U.S."), without a vowel ("BBC").
    """
    return _SENTENCE.sub(lambda match: _usual_case(match[0]), text)


def _usual_case(sentence: str) -> str:
    words = [word for word in _LETTERS.findall(sentence) if word.upper() != word.lower()]
    few = len(words) < 2 and not any(word in _SHORT_WORDS or (len(word) > 2 and _VOWEL.search(word)) for word in words)
    if few or max(map(len, words)) < 2 or any(map(str.islower, sentence)):
        return sentence
    small = _DOTTED.sub(lambda match: match[0] if match[0] in _SMALL_DOTTED else match[0].upper(), sentence.lower())
    small = _TITLE.sub(lambda match: match[0].capitalize(), _PRONOUN.sub("I", small))
    return _LETTERS.sub(lambda match: match[0][0].upper() + match[0][1:], small, count=1)


def _is_visible(character: str) -> bool:
    # Variation selectors are combining marks to Unicode, but alone they draw nothing.
    return character != " " and unicodedata.category(character) != "Cf" and not "\ufe00" <= character <= "\ufe0f"
