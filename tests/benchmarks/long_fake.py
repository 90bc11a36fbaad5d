"""The fake translator of the tests in the sizes of "Attention Is All You Need": 6 layers x 8 heads in each stack, and no length limit."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from functools import lru_cache

from model.analysis.profile import HeadProfile
from model.config import StackSizes
from model.results import Examination, Translation
from tests.viz.fakes import FakeConfig, FakeTranslator
from viz.runs import Request, Run

LAYERS, HEADS = 6, 8
STACK = StackSizes(LAYERS, HEADS, d_ff=2048, vocab_size=10_000)
SYLLABLES = ("ba", "re", "to", "mi", "lo", "su", "ke", "an", "do", "fi", "ge", "pu")
PIECE = 4  # letters, two syllables


def sentence(tokens: int, seed: int = 1) -> str:
    """A text that this translator reads as `tokens` pieces, prefix and end included: short and long words, some of them twice."""
    generator = random.Random(seed)
    words: list[str] = []
    left = tokens - 2
    while left:
        count = min(left, generator.choice((1, 1, 2, 3)))
        words.append("".join(generator.choice(SYLLABLES) for _ in range(2 * count)))
        left -= count
    return " ".join(words)


def pieces(text: str) -> tuple[str, ...]:
    found: list[str] = []
    for word in text.split():
        parts = [word[start : start + PIECE] for start in range(0, len(word), PIECE)]
        found += ["▁" + parts[0], *parts[1:]]
    return tuple(found)


class LongFake(FakeTranslator):
    """`busy`: milliseconds that the last request spent in here, which are no part of the page."""

    config = FakeConfig(d_model=512, max_len=1024, encoder=STACK, decoder=STACK)

    def __init__(self) -> None:
        super().__init__()
        self.busy = 0.0
        self._examined = lru_cache(8)(super().examine)
        self.profile = HeadProfile(500, self.run(sentence(12)).roles)  # like the embedded model, so that the payload is as large

    def _source(self, text: str, target: str) -> tuple[str, ...]:
        return (f">>{target}<<", *pieces(text), "</s>")

    def translate(self, text: str, target: str = "fra", beam_size: int = 4) -> Translation:
        del beam_size
        source = self._source(text, target)
        out = tuple(token.swapcase() for token in source[1:-1])
        return self._translation(text, target, source, (*out, "!"), forced=False)  # as many target tokens as source tokens

    def examine(self, translation: Translation) -> Examination:
        start = time.perf_counter()
        found = self._examined(translation)
        self.busy = (time.perf_counter() - start) * 1000
        return found

    def run(self, text: str) -> Run:
        """What a page can open with."""
        translation = self.translate(text)
        request = Request(text, translation.target, recorded=True)
        run = Run.of(request, translation, self.examine(translation))
        return replace(run, profile=self.profile)
