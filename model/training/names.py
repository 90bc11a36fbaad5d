"""Other names in place of those that the data repeats without end: a model that has seen a thousand names copies the next one too."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

from model.training.corpus import Pair

NEW_NAMES = 0.15

_WORD = re.compile(r"\b[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]{2,}\b")
# A capital after a space that follows no end of sentence: a name rather than a first word.
_INNER = re.compile(r"(?<=[^.!?:\"“”«»—-] )[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]{2,}\b")
_LOWER_CASE = re.compile(r"\b[a-z]{3,}\b")
# What the Chinese sentences call the names that fill the data; others are too rare to matter.
_CHINESE = {"Tom": "汤姆", "Mary": "玛丽", "John": "约翰", "Jane": "简", "Bill": "比尔", "Jim": "吉姆", "Ken": "肯"}
_VOWELS = frozenset("aeiouyhàâäéèêëîïôöùûü")


class NameSwapper:
    """Knows every name that stands unchanged in both sentences of some pair, and puts one in the place of another."""

    def __init__(self, pairs: Iterable[Pair]) -> None:
        found: set[str] = set()
        lower_case: set[str] = set()
        for pair in pairs:
            found.update(set(_INNER.findall(pair.source)) & set(_INNER.findall(pair.translation)))
            lower_case.update(_LOWER_CASE.findall(pair.source))
        # "The" and "Street" of titles are words, not names.
        self._all = frozenset(name for name in found if name.lower() not in lower_case)
        # French elides before a vowel ("d'Anne", "de Tom"): a name is replaced by one that begins alike. Sorted, sets have no order.
        self.names = {vowel: sorted(name for name in self._all if _begins_with_vowel(name) == vowel) for vowel in (True, False)}

    def swap(self, pair: Pair, rng: random.Random) -> Pair:
        """The pair with one of its names replaced on both sides; the pair itself if it has none that can be."""
        shared = sorted({word for word in _WORD.findall(pair.source) if self._other_side(word, pair)})
        if not shared:
            return pair
        name = rng.choice(shared)
        choices = self.names[_begins_with_vowel(name)]
        if not choices:
            return pair
        new = rng.choice(choices)
        source = re.sub(rf"\b{name}\b", new, pair.source)
        return Pair(pair.target, source, self._replace(pair.translation, self._other_side(name, pair), new))

    def _other_side(self, word: str, pair: Pair) -> str | None:
        """How the translation writes the name, if it does so as often as the source."""
        written = word if word in self._all else None
        if pair.target == "cmn" and word in _CHINESE and _CHINESE[word] in pair.translation:
            written = _CHINESE[word]
        if written is None:
            return None
        there = pair.translation.count(written) if written != word else len(re.findall(rf"\b{word}\b", pair.translation))
        return written if there == len(re.findall(rf"\b{word}\b", pair.source)) else None

    @staticmethod
    def _replace(text: str, written: str | None, new: str) -> str:
        if written is None:
            return text
        return text.replace(written, new) if not written.isascii() else re.sub(rf"\b{written}\b", new, text)


def _begins_with_vowel(name: str) -> bool:
    return name[0].lower() in _VOWELS
