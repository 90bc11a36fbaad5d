"""A translation as the page reads it: words with their probabilities, and what the controls need to know. No Gradio here."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

from viz.panels.choice import KINDS, maps_of
from viz.runs import Run

SPACE = "▁"  # SentencePiece writes a space before a word as this character
SPECIALS = ("<s>", "</s>", "<pad>", "<unk>")

# Byte pieces of one character read "😀 1/4", "😀 2/4", ...: pieces hold no spaces, so this cannot be anything else.
_BYTE_PIECE = re.compile(r"(.+) (\d+)/(\d+)")


def _joins(token: str, previous: str) -> bool:
    """Whether `token` is read as one word with the token before it."""
    byte = _BYTE_PIECE.fullmatch(token)
    if byte:
        return byte[2] != "1"
    if token in SPECIALS or previous in SPECIALS or token.startswith(SPACE) or _BYTE_PIECE.fullmatch(previous):
        return False
    parts = (token.lstrip(SPACE), previous.lstrip(SPACE))
    return all(map(_is_wordlike, parts)) and not any(map(_is_ideographic, parts))


def _is_wordlike(text: str) -> bool:
    """Letters, digits, and what stands inside words, as in "l'argent" and "peut-être"; also nothing (a lone space)."""
    return all(char in "'’-" or unicodedata.category(char)[0] in "LMN" for char in text)


def _is_ideographic(text: str) -> bool:
    """Chinese and Japanese do without spaces: every piece stands alone."""
    return any("぀" <= char <= "ヿ" or "㐀" <= char <= "鿿" or "豈" <= char <= "﫿" or char >= "\U00020000" for char in text)


def words(tokens: Sequence[str], log_probs: Sequence[float]) -> list[dict[str, object]]:
    """Tokens joined to words for reading; a word's probability is the product of its pieces'.

    Each word: text, probability, spaced (a space stands before it), special (the end token), mark (punctuation only),
    pieces [{token, probability}]. The product of all words' probabilities is that of the translation.
    """
    out: list[dict[str, object]] = []
    previous = ""
    spaces: list[dict[str, object]] = []  # pieces that are only a space, before the word they belong to
    for token, log_prob in zip(tokens, log_probs, strict=True):
        byte = _BYTE_PIECE.fullmatch(token)
        shown = (byte[1] if byte else token).replace(SPACE, "")
        probability = math.exp(min(0.0, log_prob))
        piece = {"token": token, "probability": probability}
        if not shown:
            spaces.append(piece)
        elif out and not spaces and _joins(token, previous):
            word = out[-1]
            word["text"] += "" if byte else shown
            word["probability"] *= probability
            word["pieces"].append(piece)
        else:
            word = {
                "text": shown,
                "probability": math.prod(space["probability"] for space in spaces) * probability,
                "spaced": bool(out) and (bool(spaces) or token.startswith(SPACE)),
                "special": token in SPECIALS,
                "mark": not any(unicodedata.category(char)[0] in "LMNS" for char in shown),
                "pieces": [*spaces, piece],
            }
            out.append(word)
            spaces = []
        previous = token
    if spaces and out:  # a translation cut off after a space
        out[-1]["probability"] *= math.prod(space["probability"] for space in spaces)
        out[-1]["pieces"] += spaces
    return out


def best_heads(run: Run) -> dict[str, list[int]]:
    """How rows are named -> [layer, head] of the cross-attention head that aligns best: those of the model that this run has."""
    layers, heads = run.trace.cross_attention.shape[:2]
    return {rows: [layer, head] for rows, (layer, head) in run.best_heads.items() if layer < layers and head < heads}


def result_value(run: Run) -> dict[str, object]:
    """What the page knows of a run (static/translate.js reads exactly these fields). Plain JSON values only."""
    translation = run.translation
    return {
        "request": run.request.as_dict(),
        "badge": run.badge,
        "revision": run.revision,
        "text": translation.text,
        "words": words(translation.tgt_out_tokens, translation.token_log_probs),
        "log_prob": float(sum(translation.token_log_probs)),
        "finished": bool(translation.finished),
        "seconds": round(run.seconds, 3),
        "maps": {kind: {"layers": maps_of(run.trace, kind).shape[0], "heads": maps_of(run.trace, kind).shape[1]} for kind in KINDS},
        "best_heads": best_heads(run),
        "num_tokens": {"source": len(translation.src_tokens), "target": len(translation.tgt_out_tokens)},
    }
