"""Endless repetition: what it is, and which next token would begin it."""

from __future__ import annotations

from collections.abc import Sequence

MAX_REPEATS = 3
LONGEST_GRAM = 4


def longest_run(ids: Sequence[int], longest_gram: int = LONGEST_GRAM) -> int:
    """How often, at most, a sequence of 1 to `longest_gram` tokens stands in a row: 1 if nothing is repeated, 0 of no tokens."""
    best = min(len(ids), 1)
    for size in range(1, longest_gram + 1):
        same = 0  # places in a row that hold what stands `size` before
        for i in range(size, len(ids)):
            same = same + 1 if ids[i] == ids[i - size] else 0
            best = max(best, same // size + 1)
    return best


def allowed_repeats(src_ids: Sequence[int], repeats: int = MAX_REPEATS) -> int:
    """How often a translation of this source may say the same in a row: `repeats` times, or as often as the source itself does
    ("no no no no no", "1000000")."""
    return max(repeats, longest_run(src_ids))


def banned_next(ids: Sequence[int], repeats: int, longest_gram: int = LONGEST_GRAM) -> set[int]:
    """The tokens that may not follow `ids`, since with them 1 to `longest_gram` tokens would stand more than `repeats` times in a row."""
    banned: set[int] = set()
    for size in range(1, longest_gram + 1):
        tail = ids[-(size * (repeats + 1) - 1) :]
        if len(tail) == size * (repeats + 1) - 1 and tail[size:] == tail[:-size]:
            banned.add(tail[-size])
    return banned
