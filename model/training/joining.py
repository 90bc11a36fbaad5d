"""Texts of two or three sentences: the data holds hardly any, and visitors type them."""

from __future__ import annotations

import random
from collections.abc import Sequence

from model.training.corpus import Pair

JOINED = 0.2
THREE = 0.25
MAX_JOINED_CHARACTERS = 240

_ENDS = (".", "!", "?", "。", "！", "？", "…")


def join_some(pairs: Sequence[Pair], rng: random.Random, share: float = JOINED) -> list[Pair]:
    """About `share` of the pairs become part of longer texts of the same language, each pair used once; the others stay as they are.

    Only whole sentences are joined (both sides end with a mark), up to MAX_JOINED_CHARACTERS of English.
    """
    kept: list[Pair] = []
    waiting: dict[str, list[Pair]] = {}
    for pair in pairs:
        if rng.random() < share and pair.source.endswith(_ENDS) and pair.translation.endswith(_ENDS):
            waiting.setdefault(pair.target, []).append(pair)
        else:
            kept.append(pair)
    for target, parts in waiting.items():
        rng.shuffle(parts)
        at = 0
        while at < len(parts):
            group = parts[at : at + (3 if rng.random() < THREE else 2)]
            at += len(group)
            if sum(len(pair.source) for pair in group) > MAX_JOINED_CHARACTERS:
                kept.extend(group)
                continue
            space = "" if target == "cmn" else " "
            kept.append(Pair(target, " ".join(pair.source for pair in group), space.join(pair.translation for pair in group)))
    return kept
