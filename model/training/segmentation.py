"""Subword regularisation (Kudo 2018) that a seed repeats: in another process and on another day too, which a resumed run needs."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

import sentencepiece as spm

# Segmentations to choose from per word: for common words these are all there are, with hardly a ten-thousandth of the probability left out.
_BEST = 32
_WORDS = 10_000  # kept in memory: about 60 MB


class SubwordSampler:
    """Cuts text into pieces at random. One word is cut into x, among its likeliest segmentations, with probability ~ P(x)^alpha.

    SentencePiece's own sampling mixes the process into its seed: no two processes see the same epoch. Pieces do not cross spaces,
    so that a sentence cut word by word is cut as likely as a whole.
    """

    def __init__(self, vocabulary: spm.SentencePieceProcessor, alpha: float) -> None:
        self.vocabulary, self.alpha = vocabulary, alpha
        self._scores = [vocabulary.get_score(i) for i in range(vocabulary.get_piece_size())]
        self._cuts = lru_cache(maxsize=_WORDS)(self._find_cuts)

    def encode(self, texts: Iterable[str], rng: random.Random) -> list[list[int]]:
        """Ids of each text, without prefix and end."""
        return [[i for word in text.split(" ") for i in self._draw(word, rng)] for text in texts]

    def _draw(self, word: str, rng: random.Random) -> tuple[int, ...]:
        cuts, weights = self._cuts(word)
        return cuts[0] if len(cuts) == 1 else rng.choices(cuts, cum_weights=weights)[0]

    def _find_cuts(self, word: str) -> tuple[list[tuple[int, ...]], list[float]]:
        """The likeliest segmentations of a word, and their weights summed up."""
        cuts = [tuple(ids) for ids in self.vocabulary.nbest_encode(word, nbest_size=_BEST)]
        scores = [self.alpha * sum(self._scores[i] for i in ids) for ids in cuts]
        highest = max(scores)
        return cuts, list(accumulate(math.exp(score - highest) for score in scores))
