"""Word alignment read off cross-attention, and its error rate against alignments made by hand."""

# L layers, H heads, T target positions, S source positions, I source words, J target words

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from model.tokenizer import TokenGroup

Links = frozenset[tuple[int, int]]  # (source word, target word), counted from 0


@dataclass(frozen=True)
class GoldAlignment:
    """A sentence pair cut into words, with its sure links and its possible ones (which include the sure)."""

    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    sure: Links
    possible: Links


def parse_links(line: str) -> tuple[Links, Links]:
    """`i-j` is a sure link, `i?j` a possible one, source index first. Returns (sure, possible). Raises ValueError for anything else."""
    sure, possible = set(), set()
    for item in line.split():
        is_sure = "-" in item
        i, j = (int(part) for part in item.split("-" if is_sure else "?"))
        possible.add((i, j))
        if is_sure:
            sure.add((i, j))
    return frozenset(sure), frozenset(possible)


def word_of_piece(groups: Sequence[TokenGroup], words: Sequence[str], specials: Iterable[str] = ()) -> np.ndarray:
    """For every position the index of the word its piece begins in, -1 for a special token. int64 [positions].

    Pieces and words are matched by their letters, whatever the spaces between them.
    Raises ValueError if the pieces spell something else than the words.
    """
    owner = [i for i, word in enumerate(words) for _ in word]
    letters, specials, at = "".join(words), frozenset(specials), 0
    found = np.full(groups[-1].stop if groups else 0, -1, dtype=np.int64)
    for group in groups:
        if group.text in specials:
            continue
        text = group.text.replace("▁", "")
        if letters[at : at + len(text)] != text:
            raise ValueError(f"the pieces spell {text!r} where the words have {letters[at : at + len(text)]!r}")
        # A piece that is only a space belongs to the word it stands before.
        found[group.start : group.stop] = owner[min(at, len(owner) - 1)]
        at += len(text)
    if at != len(letters):
        raise ValueError(f"the words go on with {letters[at : at + 20]!r} after the last piece")
    return found


def merge_to_words(weights: np.ndarray, query_words: np.ndarray, key_words: np.ndarray) -> np.ndarray:
    """Piece weights [..., T, S] to word weights [..., J, I]: columns of a word's pieces are summed, rows averaged.

    query_words [T] and key_words [S] hold word indices; positions of -1 (special tokens) are left out, so rows may sum to less than 1.
    """
    if weights.shape[-2:] != (len(query_words), len(key_words)):
        raise ValueError(f"weights of shape {weights.shape[-2:]} for {len(query_words)} queries and {len(key_words)} keys")
    rows = _membership(query_words)
    rows /= np.maximum(rows.sum(axis=1, keepdims=True), 1)
    return rows @ weights @ _membership(key_words).T


def strongest_links(word_weights: np.ndarray) -> Links:
    """One link per target word: to the source word with the largest weight. word_weights [J, I]."""
    return frozenset((int(i), j) for j, i in enumerate(word_weights.argmax(axis=1)))


def alignment_error_rate(found: Sequence[Links], gold: Sequence[GoldAlignment]) -> float:
    """AER = 1 - (|A & S| + |A & P|) / (|A| + |S|) over all sentences together (Och and Ney 2003, section 5.1). 0 is perfect."""
    if len(found) != len(gold):
        raise ValueError(f"{len(found)} alignments for {len(gold)} sentences")
    hits = sum(len(links & g.sure) + len(links & g.possible) for links, g in zip(found, gold, strict=True))
    return 1.0 - hits / max(sum(len(links) + len(g.sure) for links, g in zip(found, gold, strict=True)), 1)


def _membership(words: np.ndarray) -> np.ndarray:
    """[number of words, positions], 1 where the position belongs to the word."""
    return (words[None, :] == np.arange(words.max(initial=-1) + 1)[:, None]).astype(np.float32)
