"""Token strings -> labels that Plotly shows exactly as they are.

Plotly reads a subset of HTML in every text (`<s>` strikes through, `<b>`, `<a href>`, entities) and hands `$...$` to MathJax
where the page has it, so a token is escaped before it comes near a figure. A label also says something where the token shows
nothing (a lone space, a control character, the empty string), and keeps right-to-left text from turning its surroundings.

    rows = token_labels(translation.tgt_out_tokens, texts)    # texts: LabelTexts in the reader's language
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import unescape

WORD_START = "\u2581"  # SentencePiece writes the space before a word as this block
SPACE = "␣"
ELLIPSIS = "…"
FIRST_STRONG_ISOLATE, POP_ISOLATE = "\u2068", "\u2069"
ZERO_WIDTH_JOINER = "\u200d"

_TARGET_PREFIX = re.compile(r">>(.+)<<")
_BIDI = {"R", "AL", "AN", "LRE", "RLE", "LRO", "RLO", "LRI", "RLI", "FSI", "PDF", "PDI"}
_UNSEEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"}


@dataclass(frozen=True)
class LabelTexts:
    """How special tokens are shown; `{target}` in `target` is the code inside `>>fra<<`. The defaults need no language."""

    start: str = "⟨s⟩"
    end: str = "⟨/s⟩"
    unknown: str = "⟨?⟩"
    padding: str = "⟨pad⟩"
    target: str = "⟨→ {target}⟩"
    empty: str = "⟨⟩"


@dataclass(frozen=True)
class Label:
    """One token, ready for a figure.

    raw: the token as the tokenizer gives it ("▁Je"); it is not escaped, so it belongs in data and never in a text.
    short: escaped, for an axis; cut with "…" where it is wide.
    full: escaped, for hover; never cut.
    piece: escaped raw token where it reads differently from `full` ("▁Je" beside "Je"), else "".
    width: how wide `short` is, in ems of its font: an estimate, for margins.
    special: start, end, unknown, padding or target prefix.
    """

    raw: str
    short: str
    full: str
    piece: str
    width: float
    special: bool = False

    @property
    def hover(self) -> str:
        """What hover shows: the piece as the model has it ("▁Je"); for a special token its name first ("⟨start⟩ <s>")."""
        return f"{self.full} {self.piece}".strip() if self.special else self.piece or self.full

    @property
    def text(self) -> str:
        """`full` unescaped, for what reads no markup: a text node, a canvas."""
        return unescape(self.full)


@lru_cache(maxsize=4096)  # a vocabulary has few thousand pieces that are seen again and again
def token_label(token: str, texts: LabelTexts | None = None, max_width: float = 8.0) -> Label:
    """Label of one token; `max_width` in ems is where `short` is cut."""
    name = _special_name(token, texts or LabelTexts())
    shown = _visible(_without_word_start(token)) if name is None else name
    short = _shorten(shown, max_width)
    raw_shown = _visible(token, keep_word_start=True)
    return Label(
        raw=token,
        short=escape(_isolate(short)),
        full=escape(_isolate(shown)),
        piece=escape(_isolate(raw_shown)) if raw_shown != shown and token else "",
        width=text_width(short),
        special=name is not None and token != "",
    )


def plain_label(text: str, max_width: float = 8.0) -> Label:
    """Label of text that is no token, such as a whole word: it never names a special token, and a block in it is a space."""
    shown = _visible(text)
    short = _shorten(shown, max_width)
    return Label(text, escape(_isolate(short)), escape(_isolate(shown)), "", text_width(short))


def token_labels(tokens: Sequence[str | Label], texts: LabelTexts | None = None, max_width: float = 8.0) -> tuple[Label, ...]:
    """Labels of a sequence of tokens, in order; labels already made pass through. TypeError for a bare string."""
    if isinstance(tokens, str):
        raise TypeError("Tokens must be a sequence of strings, one per position; this is one string.")
    return tuple(t if isinstance(t, Label) else token_label(t, texts, max_width) for t in tokens)


def escape(text: str) -> str:
    """Text that Plotly prints as it stands: no tag, entity or formula is left in it for Plotly to read.

    Only what Plotly's own small entity table knows is used (it prints `&quot;` literally), and numeric entities.
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


def text_width(text: str) -> float:
    """Estimated width in ems of a proportional interface font."""
    return sum(_em(char) for char in text)


def _special_name(token: str, texts: LabelTexts) -> str | None:
    names = {"<s>": texts.start, "</s>": texts.end, "<unk>": texts.unknown, "<pad>": texts.padding, "": texts.empty}
    if token in names:
        return names[token]
    prefix = _TARGET_PREFIX.fullmatch(token)
    return texts.target.replace("{target}", _visible(prefix[1])) if prefix else None


def _without_word_start(token: str) -> str:
    if token.strip(WORD_START) == "":
        return token.replace(WORD_START, SPACE)
    return token.removeprefix(WORD_START)


def _visible(text: str, keep_word_start: bool = False) -> str:
    """Printed form of characters that would leave no ink, or would break the line."""
    if text and all(unicodedata.category(c) in _UNSEEN or "\ufe00" <= c <= "\ufe0f" for c in text) and text.strip(" "):
        return " ".join(f"U+{ord(c):04X}" for c in text)
    shown = "".join(_visible_char(c, keep_word_start) for c in text)
    # a space between two things is seen as it is ("😀 1/4"); at an end, or alone, it needs a sign
    inner = shown.strip(" ")
    start = shown.index(inner) if inner else len(shown)
    shown = SPACE * start + inner + SPACE * (len(shown) - start - len(inner))
    # a combining mark would otherwise land on whatever happens to stand before the label
    return "◌" + shown if shown and unicodedata.category(shown[0]).startswith("M") else shown


def _visible_char(char: str, keep_word_start: bool) -> str:
    code = ord(char)
    if char == WORD_START:
        return char if keep_word_start else SPACE
    if char == " ":
        return char
    if char.isspace() and code >= 0x20:
        return SPACE if unicodedata.category(char) == "Zs" else "␤"
    if code < 0x20:
        return chr(0x2400 + code)
    if 0x7F <= code < 0xA0 or 0xD800 <= code <= 0xDFFF:
        return f"U+{code:04X}"
    return char


def _isolate(text: str) -> str:
    """Set right-to-left text, and text that changes direction, apart from what stands around it (UAX #9, FSI ... PDI)."""
    if not any(unicodedata.bidirectional(c) in _BIDI for c in text):
        return text
    # a token's own POP would end the isolate early; it has no ink, so leaving it out changes nothing that is read
    return FIRST_STRONG_ISOLATE + text.replace(POP_ISOLATE, "") + POP_ISOLATE


def _shorten(text: str, max_width: float) -> str:
    if text_width(text) <= max_width:
        return text
    stop = 1
    while text_width(text[: stop + 1] + ELLIPSIS) <= max_width:
        stop += 1
    # step back so that no accent, joiner or selector is cut off its letter
    while stop > 1 and (_em(text[stop]) == 0 or text[stop - 1] == ZERO_WIDTH_JOINER):
        stop -= 1
    return text[: max(stop, 1)] + ELLIPSIS


def _em(char: str) -> float:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0.0
    if unicodedata.east_asian_width(char) in {"W", "F"}:
        return 1.0
    if char in "mwMW@%…→":
        return 0.9
    if char.isupper():
        return 0.68
    return 0.32 if char in "iljtfr.,;:'’!|()[] " else 0.56
