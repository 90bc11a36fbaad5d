"""Small changes to training pairs that teach what tidy sentences lack: other numbers, missing full stops, capitals, typing errors."""

from __future__ import annotations

import random
import re

from model.training.corpus import Pair

NEW_NUMBERS = 0.5
NO_FINAL_MARK = 0.05
CAPITALS = 0.02
LOWER_CASE = 0.03
TYPING_ERROR = 0.02
# Of a few words: "hello" is typed far more often than "Hello!", which the data has.
FEW_WORDS = 3
NO_FINAL_MARK_FEW = 0.3
LOWER_CASE_FEW = 0.2

_LETTER = r"A-Za-zÀ-ÖØ-öø-ÿ"
_NUMBER = re.compile("[0-9]+")
# A number with what it is part of: letters on either side ("21st", "1990s", "COVID-19"), digits behind a mark ("10:30", "3.14", "10-20").
_IN_PLACE = re.compile(rf"(?:[{_LETTER}]+['’-]?)?[0-9]+(?:[.,:/'’–-][0-9]+)*(?:['’-]?[{_LETTER}]+)?")
_THOUSANDS = re.compile(r"[0-9]{1,3}(?:,[0-9]{3})+")
# Behind a number these make an hour of it, which ends at 12 or 24.
_HOUR = re.compile(r"\s*(?:o'clock|[ap]\.?m\b|heures?\b|h\b|[点點时時])", re.IGNORECASE)
# One mark that ends a text: not the last of several ("Wait..."), and not all there is ("?").
_FINAL_MARK = re.compile(r"(?<=[^\s.!?…。！？])\s*[.!?。！？]$")


def augment(pair: Pair, rng: random.Random) -> Pair:
    """The pair, perhaps changed. Each change keeps source and translation true to each other."""
    source, translation = pair.source, pair.translation
    if rng.random() < NEW_NUMBERS:
        source, translation = new_numbers(source, translation, rng)
    few = len(source.split()) <= FEW_WORDS
    no_final_mark, lower_case = (NO_FINAL_MARK_FEW, LOWER_CASE_FEW) if few else (NO_FINAL_MARK, LOWER_CASE)
    if rng.random() < no_final_mark and _FINAL_MARK.search(source) and _FINAL_MARK.search(translation):
        source, translation = _FINAL_MARK.sub("", source), _FINAL_MARK.sub("", translation)
    draw = rng.random()
    if draw < CAPITALS:
        source, translation = source.upper(), translation.upper()
    elif draw < CAPITALS + lower_case:
        source = source.lower()
    elif draw < CAPITALS + lower_case + TYPING_ERROR:
        source = typing_error(source, rng)
    return Pair(pair.target, source, translation)


def new_numbers(source: str, translation: str, rng: random.Random) -> tuple[str, str]:
    """Replaces the numbers of both sides by others of the same length, where both sides hold the same numbers in digits.

    A number stays if it is part of something that another number would spoil: an ordinal or a decade ("21st", "1990s"), a time, a
    decimal, a range. With letters beside it ("COVID-19") it is replaced only if both sides write all of it alike.
    """
    numbers = _NUMBER.findall(source)
    # A one-digit number often decides the grammar around it ("1 dog", "2 dogs"): left alone.
    if sorted(numbers) != sorted(_NUMBER.findall(translation)) or not any(len(number) > 1 for number in numbers):
        return source, translation
    bound = _bound(source, translation) | _bound(translation, source)
    new = {number: _other(number, rng) for number in numbers if len(number) > 1 and number not in bound}
    return tuple(_NUMBER.sub(lambda m: new.get(m[0], m[0]), side) for side in (source, translation))  # type: ignore[return-value]


def _bound(side: str, other: str) -> set[str]:
    """Numbers that some place of this side holds fast."""
    bound: set[str] = set()
    for match in _IN_PLACE.finditer(side):
        whole, parts = match[0], _NUMBER.findall(match[0])
        lettered = not whole[0].isdigit() or not whole[-1].isdigit()
        if len(parts) > 1 and not _THOUSANDS.fullmatch(whole):
            bound.update(parts)
        elif lettered and (whole not in other or re.fullmatch(r"[0-9]+(?:st|nd|rd|th|s|h|am|pm)", whole)):
            bound.update(parts)
        elif _HOUR.match(side, match.end()):
            bound.update(parts)
    return bound


def typing_error(sentence: str, rng: random.Random) -> str:
    """Drops, doubles or swaps one inner letter of one word of five letters or more."""
    words = sentence.split(" ")
    long_words = [i for i, word in enumerate(words) if len(word) >= 5 and word.isalpha()]
    if not long_words:
        return sentence
    i = rng.choice(long_words)
    word = words[i]
    at = rng.randrange(1, len(word) - 2)
    dropped, doubled = word[:at] + word[at + 1 :], word[:at] + word[at] + word[at:]
    swapped = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    words[i] = rng.choice((dropped, doubled, swapped))
    return " ".join(words)


def _other(number: str, rng: random.Random) -> str:
    return str(rng.randrange(1, 10)) + "".join(str(rng.randrange(10)) for _ in number[1:])
