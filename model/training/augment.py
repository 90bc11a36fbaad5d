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

_NUMBER = re.compile(r"\d+")
_FINAL_MARK = re.compile(r"\s*[.!?。！？]$")


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
    """Replaces the numbers of both sides by others of the same length, where both sides hold the same numbers in digits."""
    numbers = _NUMBER.findall(source)
    # A one-digit number often decides the grammar around it ("1 dog", "2 dogs"): left alone.
    if sorted(numbers) != sorted(_NUMBER.findall(translation)) or not any(len(number) > 1 for number in numbers):
        return source, translation
    new = {number: _other(number, rng) for number in numbers if len(number) > 1}
    return tuple(_NUMBER.sub(lambda m: new.get(m[0], m[0]), side) for side in (source, translation))  # type: ignore[return-value]


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
