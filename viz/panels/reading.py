"""A translation as the page reads it: words with their probabilities, and what the controls need to know. No Gradio here."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from model.analysis.measures import is_special
from viz.panels.choice import KINDS, maps_of
from viz.runs import Run

if TYPE_CHECKING:
    from model.results import RunnerUps

SPACE = "▁"  # SentencePiece writes a space before a word as this character
SPECIALS = ("<s>", "</s>", "<pad>", "<unk>")
LONE_SPACE = "␣"

# Byte pieces of one character read "😀 1/4", "😀 2/4", ...: pieces hold no spaces, so this cannot be anything else.
_BYTE_PIECE = re.compile(r"(.+) ([1-4])/([2-4])")
_NAMED = re.compile(r"<U\+([0-9A-F]{4,6})>")  # how model/token_display.py writes a character that cannot be seen
_NUMBER_POINT = re.compile(r"(?<=\d)[.,](?=\d)")
_JOINER = "\u200d"
_INSIDE_WORDS = f"'’-\u200c{_JOINER}"
_VARIANTS = "\ufe0e\ufe0f"  # after a sign: drawn as text, or as emoji
_FLAG_LETTERS = "".join(map(chr, range(0x1F1E6, 0x1F200)))  # two of them are drawn as one flag
_SKINS = "".join(map(chr, range(0x1F3FB, 0x1F400)))


def _joins(token: str, previous: str, word: str, following: str) -> bool:
    """Whether `token` is read as one word with the token before it. word: what the word of that one reads so far. following: the next
    token, or nothing."""
    if _ends_a_character(token):
        byte, before = _BYTE_PIECE.fullmatch(token), _BYTE_PIECE.fullmatch(previous)
        return before is not None and int(before[2]) + 1 == int(byte[2])
    if _stands_alone(token) or _stands_alone(previous) or token.startswith(SPACE):
        return False
    parts = (_letters(token), _letters(previous))
    if _is_one_sign(word, parts[0]):
        return True
    if any(map(_is_ideographic, parts)):
        return False
    ahead = "" if _stands_alone(following) or following.startswith(SPACE) else _letters(following)[:1]
    return all(map(_is_wordlike, _without_number_points(word, *parts, ahead)))


def _without_number_points(word: str, text: str, previous: str, ahead: str) -> tuple[str, str]:
    """`text` and `previous` without the commas and points that stand between digits, as in "12,345.67"."""
    before = word[: len(word) - len(previous)][-1:]
    whole = before + previous + text + ahead
    points = {found.start() - len(before) for found in _NUMBER_POINT.finditer(whole)}
    kept = ["" if at in points else char for at, char in enumerate(previous + text)]
    return "".join(kept[len(previous) :]), "".join(kept[: len(previous)])


def _ends_a_character(token: str) -> bool:
    """Whether a piece is a byte of a character that has begun before it."""
    byte = _BYTE_PIECE.fullmatch(token)
    return byte is not None and byte[2] != "1"


def _letters(token: str) -> str:
    """The characters that a piece stands for, without the space before it; of a piece that is a byte, its whole character."""
    byte = _BYTE_PIECE.fullmatch(token)
    text = _NAMED.sub(lambda name: chr(int(name[1], 16)), byte[1]).removeprefix("◌") if byte else token
    return text.replace(SPACE, "")


def _is_one_sign(before: str, after: str) -> bool:
    """Whether the end of one text and the beginning of the other are drawn as one: an accent, joined emoji, a flag."""
    if not before or not after:
        return False
    if before[-1] == _JOINER or after[0] == _JOINER or after[0] in _SKINS or unicodedata.category(after[0])[0] == "M":
        return True
    flags = len(before) - len(before.rstrip(_FLAG_LETTERS))
    return after[0] in _FLAG_LETTERS and flags % 2 == 1


def _stands_alone(token: str) -> bool:
    return token in SPECIALS or is_special(token)


def _is_wordlike(text: str) -> bool:
    """Letters, digits, and what stands inside words, as in "l'argent" and "peut-être"; also nothing (a lone space)."""
    return all(char in _INSIDE_WORDS or (unicodedata.category(char)[0] in "LMN" and char not in _VARIANTS) for char in text)


def _is_ideographic(text: str) -> bool:
    """Chinese and Japanese do without spaces: every piece stands alone. Korean has them."""
    ranges = (("\u3040", "\u30ff"), ("\u3400", "\u9fff"), ("\uf900", "\ufaff"), ("\U00020000", "\U0010ffff"))
    return any(first <= char <= last for char in text for first, last in ranges)


def _is_space(token: str) -> bool:
    """Whether a piece is only a space, before the word it belongs to."""
    return not token.replace(SPACE, "")


def word_spans(tokens: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Tokens joined to words for reading: (start, stop) of each word. The spans cover every position, in order.

    A piece that is only a space belongs to the word after it; before a special token and at the end, to the word before.
    A special token stands alone.
    """
    starts: list[int] = []
    space: int | None = None  # where the spaces before the next word begin
    previous = word = ""
    for position, (token, following) in enumerate(pairwise((*tokens, ""))):
        if _is_space(token):
            space = position if space is None else space
        elif space is not None and _stands_alone(token):
            if not starts or _stands_alone(tokens[starts[-1]]):  # no word to belong to
                starts.append(space)
            starts.append(position)
            space = None
            word = ""
        elif space is not None or not starts or not _joins(token, previous, word, following):
            starts.append(position if space is None else space)
            space = None
            word = ""
        if not _ends_a_character(token):
            word += _letters(token)
        previous = token
    if space is not None and (not starts or _stands_alone(tokens[starts[-1]])):
        starts.append(space)
    return tuple(pairwise([*starts, len(tokens)]))


def word_text(tokens: Sequence[str]) -> str:
    """The tokens of one word as it is read: the byte pieces of one character as that character, and without its space. What alone could not
    be seen, or would stand on its neighbour, stays as its pieces are named."""
    first = [token for at, token in enumerate(tokens) if at == 0 or not _ends_a_character(token)]
    text = "".join(map(_letters, first))
    if all(unicodedata.category(char) == "Cf" for char in text):
        return "".join(_BYTE_PIECE.sub(r"\1", token).replace(SPACE, "") for token in first)
    return f"◌{text}" if unicodedata.category(text[0])[0] == "M" else text


def words(
    tokens: Sequence[str], log_probs: Sequence[float], runner_ups: Sequence[RunnerUps] | None = None
) -> list[dict[str, object]]:
    """Tokens joined to words for reading; a word's probability is the product of its pieces'.

    Each word: text, probability, spaced (a space stands before it), special (the end token), mark (punctuation only),
    pieces [{token, probability}, and where runner_ups are given others [[token, probability], ...] and rank].
    The product of all words' probabilities is that of the translation.
    """
    pieces = [
        {"token": token, "probability": math.exp(min(0.0, log_prob))} for token, log_prob in zip(tokens, log_probs, strict=True)
    ]
    for piece, beside in zip(pieces, runner_ups or (), strict=bool(runner_ups)):
        piece |= {"others": [list(other) for other in beside.others], "rank": beside.rank}
    out: list[dict[str, object]] = []
    for start, stop in word_spans(tokens):
        text = word_text(tokens[start:stop])
        out.append(
            {
                "text": text or LONE_SPACE,
                "probability": math.prod(piece["probability"] for piece in pieces[start:stop]),
                "spaced": start > 0 and tokens[start].startswith(SPACE),
                "special": tokens[start] in SPECIALS,
                "mark": not any(unicodedata.category(char)[0] in "LMNS" for char in text),
                "pieces": pieces[start:stop],
            }
        )
    return out


def best_heads(run: Run) -> dict[str, list[int]]:
    """How rows are named -> [layer, head] of the cross-attention head that aligns best: those of the model that this run has."""
    layers, heads = run.trace.cross_attention.shape[:2]
    return {rows: [layer, head] for rows, (layer, head) in run.best_heads.items() if layer < layers and head < heads}


def small_letters(text: str) -> int:
    return sum(map(str.islower, text))


def result_value(run: Run) -> dict[str, object]:
    """What the page knows of a run (static/translate.js reads exactly these fields). Plain JSON values only."""
    translation = run.translation
    return {
        "request": run.request.as_dict(),
        "badge": run.badge,
        "revision": run.revision,
        "text": translation.text,
        "words": words(translation.tgt_out_tokens, translation.token_log_probs, run.runner_ups),
        "log_prob": float(sum(translation.token_log_probs)),
        "finished": bool(translation.finished),
        "case_changed": small_letters(translation.source_text) > small_letters(run.request.text),
        "seconds": round(run.seconds, 3),
        "maps": {kind: {"layers": maps_of(run.trace, kind).shape[0], "heads": maps_of(run.trace, kind).shape[1]} for kind in KINDS},
        "best_heads": best_heads(run),
        "num_tokens": {"source": len(translation.src_tokens), "target": len(translation.tgt_out_tokens)},
    }
