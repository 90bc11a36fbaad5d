"""One map as it is looked at: pieces or whole words, special tokens shown or left out. The page does the same to its own copy of the
maps (static/maps.js); this is for programs, exports and notebooks, and what the page is held against. No Gradio here."""

# L layers, H heads, Q queries, K keys

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from model.analysis.measures import is_special
from model.errors import InvalidSettingError
from viz.figures.labels import Label, LabelTexts, plain_label, token_label
from viz.panels.choice import MapChoice, maps_of
from viz.panels.reading import word_spans, word_text
from viz.text import say

if TYPE_CHECKING:
    from viz.runs import Run


@dataclass(frozen=True)
class Unit:
    """One row or column: its label, the token positions start .. stop - 1 that it stands for, and whether it is a special token."""

    label: Label
    start: int
    stop: int
    special: bool


@dataclass(frozen=True, eq=False)
class MapView:
    """One map, ready to be drawn.

    weights  float32 [rows, columns]; 0 where masked
    masked   bool [rows, columns]: nothing in this cell may be looked at; None outside a causal map
    hidden   mean over the rows of the weight that lies on columns left out; 0 where none is
    largest  the largest weight that is not masked
    """

    choice: MapChoice
    weights: np.ndarray
    rows: tuple[Unit, ...]
    columns: tuple[Unit, ...]
    masked: np.ndarray | None
    hidden: float
    largest: float

    @property
    def row_labels(self) -> tuple[Label, ...]:
        return tuple(unit.label for unit in self.rows)

    @property
    def column_labels(self) -> tuple[Label, ...]:
        return tuple(unit.label for unit in self.columns)


def map_view(run: Run, choice: MapChoice, language: str = "en") -> MapView:
    """The map of `choice` in its units, without special tokens if it hides them. Labels name special tokens in `language`.

    Whole words: the columns of a word's pieces are summed, their rows averaged, so that rows which summed to 1 still do. A cell is masked
    if all that it stands for is. Without special tokens nothing is divided anew: rows then sum to less than 1. A side that holds nothing
    else keeps them. Raises InvalidSettingError for norms that were not measured.
    """
    weights, texts = piece_weights(run, choice), label_texts(language)
    masked = np.triu(np.ones(weights.shape, bool), k=1) if choice.kind == "decoder_self" else None
    rows, columns = (
        side_units(tokens, choice.units, texts) for tokens in (choice.row_tokens(run.trace), choice.column_tokens(run.trace))
    )
    if choice.units == "words":
        row_starts, column_starts = ([unit.start for unit in side] for side in (rows, columns))
        sizes = np.array([unit.stop - unit.start for unit in rows])
        # of the maximum: the head that gives most to the word, not a sum of what several heads give to its pieces
        pieces = maps_of(run.trace, choice.kind)[choice.layer] if choice.head == "max" else weights[None]
        merged = np.add.reduceat(np.add.reduceat(pieces.astype(np.float64), column_starts, axis=2), row_starts, axis=1)
        weights = (merged / sizes[:, None]).max(axis=0).astype(np.float32)
        if masked is not None:
            masked = np.logical_and.reduceat(np.logical_and.reduceat(masked, column_starts, axis=1), row_starts, axis=0)
    hidden = 0.0
    if choice.specials == "hidden":
        shown_rows, shown_columns = _shown(rows), _shown(columns)
        weights = weights[shown_rows]
        hidden = float(weights[:, ~shown_columns].sum(axis=1, dtype=np.float64).mean())
        weights = np.ascontiguousarray(weights[:, shown_columns])
        masked = None if masked is None else masked[shown_rows][:, shown_columns]
        rows, columns = (tuple(compress(side, kept)) for side, kept in ((rows, shown_rows), (columns, shown_columns)))
    return MapView(choice, weights, rows, columns, masked, hidden, float(weights.max()))


def piece_weights(run: Run, choice: MapChoice) -> np.ndarray:
    """float32 [query, key] of a choice, all tokens, as the model has them. Rows sum to 1, but for the maximum over heads.

    Raises InvalidSettingError for norms that were not measured.
    """
    if choice.head == "rollout":
        return run.rollout[choice.kind][choice.layer]
    if choice.head == "norm":
        if run.norms is None:
            raise InvalidSettingError("head", "norm", "another one: it was not measured when this run was recorded")
        return run.norms[choice.kind][choice.layer]
    return choice.weights(run.trace)


def side_units(tokens: Sequence[str], units: str, texts: LabelTexts) -> tuple[Unit, ...]:
    """The pieces or the words of one side of a map, in order; together they cover every position.

    An unknown token stands for a word, so it is none of the special ones.
    """
    spans = word_spans(tokens) if units == "words" else [(position, position + 1) for position in range(len(tokens))]
    label = _word_label if units == "words" else _piece_label
    return tuple(Unit(label(tokens[start:stop], texts), start, stop, is_special(tokens[start])) for start, stop in spans)


def shown_units(tokens: Sequence[str], choice: MapChoice, texts: LabelTexts) -> tuple[Unit, ...]:
    """`side_units` without the special tokens, if the choice hides them."""
    units = side_units(tokens, choice.units, texts)
    return tuple(compress(units, _shown(units))) if choice.specials == "hidden" else units


def label_texts(language: str) -> LabelTexts:
    """How special tokens are called on pictures."""
    return LabelTexts(**{name: say(language, f"token.{name}") for name in ("start", "end", "unknown", "padding", "empty")})


def _shown(units: Sequence[Unit]) -> np.ndarray:
    shown = np.array([not unit.special for unit in units])
    return shown if shown.any() else ~shown


def _piece_label(tokens: Sequence[str], texts: LabelTexts) -> Label:
    return token_label(tokens[0], texts)


def _word_label(tokens: Sequence[str], texts: LabelTexts) -> Label:
    first = token_label(tokens[0], texts)
    if first.special or not tokens[0]:  # it has a name of its own
        return first
    return plain_label(word_text(tokens) or tokens[0])
