"""Token ids as strings fit for a screen: every piece printable, the byte pieces of one character joined."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TokenGroup:
    """What is read as one unit: a token, or all the byte pieces of one character. Covers positions start .. stop - 1."""

    text: str
    start: int
    stop: int


class TokenDisplay:
    """pieces: id -> piece, for every id of a vocabulary. byte_values: id -> the byte it stands for, for byte pieces only.

    An invisible character reads "<U+200D>", a combining mark is drawn on "◌".
    """

    def __init__(self, pieces: Mapping[int, str], byte_values: Mapping[int, int]) -> None:
        self._bytes = dict(byte_values)
        self._shown = {i: piece if i in self._bytes else _printable(piece) for i, piece in pieces.items()}

    def tokens(self, ids: Sequence[int]) -> tuple[str, ...]:
        """One string per id; the byte pieces of one character read "😀 1/4", "😀 2/4", ..., a byte of no character "<0xE4>".

        Raises ValueError for an id outside the vocabulary.
        """
        shown: list[str] = []
        for group in self.groups(ids):
            size = group.stop - group.start
            shown += [group.text] if size == 1 else [f"{group.text} {part}/{size}" for part in range(1, size + 1)]
        return tuple(shown)

    def groups(self, ids: Sequence[int]) -> tuple[TokenGroup, ...]:
        """Byte pieces of one character joined, everything else alone. The spans cover every position, in order.

        Raises ValueError for an id outside the vocabulary.
        """
        self.check(ids)
        groups: list[TokenGroup] = []
        start = 0
        while start < len(ids):
            character, size = self._character_at(ids, start)
            groups.append(TokenGroup(character or self._shown[ids[start]], start, start + size))
            start += size
        return tuple(groups)

    def check(self, ids: Sequence[int]) -> None:
        """Raises ValueError for an id outside the vocabulary."""
        for i in ids:
            if i not in self._shown:
                raise ValueError(f"token id {i} lies outside the vocabulary of {len(self._shown)}")

    def _character_at(self, ids: Sequence[int], start: int) -> tuple[str, int]:
        """The character whose byte pieces begin at `start`, and how many there are; ("", 1) if there is none."""
        first = self._bytes.get(ids[start], -1)
        size = 1 if 0 <= first < 0x80 else 2 if 0xC2 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4 if 0xF0 <= first < 0xF5 else 0
        run = [self._bytes.get(i, -1) for i in ids[start : start + size]]
        if not run or -1 in run:
            return "", 1
        try:
            character = bytes(run).decode("utf-8")
        except UnicodeDecodeError:
            return "", 1
        if size == 1 and not character.isprintable():
            return "", 1
        return _printable(character), size


def _printable(text: str) -> str:
    shown = "".join(character if character.isprintable() else f"<U+{ord(character):04X}>" for character in text)
    return f"◌{shown}" if unicodedata.category(shown[:1] or " ").startswith("M") else shown
