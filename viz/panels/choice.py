"""What a page or an API client sent, checked. Any client can send any value, whatever the controls on the screen allow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from model.errors import InvalidSettingError
from model.reasons import because
from viz.text import known_language

if TYPE_CHECKING:
    from model.best_heads import BestHeads
    from model.translator import AttentionTrace

KINDS = ("encoder_self", "decoder_self", "cross")
ROWS = ("predicted", "read")
AGGREGATES = ("mean", "max", "rollout", "norm")  # of all heads of a layer
UNITS = ("pieces", "words")
SPECIALS = ("shown", "hidden")
COLOURS = ("linear", "max", "log")


def whole_number(name: str, value: object, low: int, high: int) -> int:
    """`value` if it is a whole number between `low` and `high`, both included. Raises InvalidSettingError otherwise."""
    if isinstance(value, float) and value.is_integer():  # JavaScript knows no integers
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidSettingError(name, value, because("whole_number", low=low, high=high))
    return value


def one_of(name: str, value: object, allowed: tuple[str, ...]) -> str:
    """`value` if it is one of `allowed`. Raises InvalidSettingError otherwise."""
    if not isinstance(value, str) or value not in allowed:
        raise InvalidSettingError(name, value, ", ".join(allowed))
    return value


def as_mapping(value: object) -> Mapping[str, object]:
    """The store of a page, or nothing for anything else."""
    return value if isinstance(value, Mapping) else {}


def language_of(store: object) -> str:
    """The language a page asks for; English if it names none that there is."""
    return known_language(as_mapping(store).get("lang"))


def maps_of(trace: AttentionTrace, kind: str) -> np.ndarray:
    """The maps of one kind, float32 [layer, head, query, key]."""
    return {
        "encoder_self": trace.encoder_self_attention,
        "decoder_self": trace.decoder_self_attention,
        "cross": trace.cross_attention,
    }[kind]


def _last_at_most(value: object, count: int) -> object:
    """A whole number from `count` on as the last index; anything else as it is."""
    whole = (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, float) and value.is_integer())
    return count - 1 if whole and value >= count else value


@dataclass(frozen=True)
class MapChoice:
    """One map and how it is looked at.

    head      a head, or of all heads of the layer together "mean", "max", "rollout" (`model.analysis.rollout`: of this layer and all below)
              or "norm" (`model.analysis.norms`)
    rows      whether decoder and cross rows are named by the token "predicted" or "read"
    units     "pieces" as the model has them, or "words"
    specials  "shown", or "hidden": rows and columns of start, end, padding and language tokens are left out
    colour    the scale: "linear" from 0 to 1, "max" from 0 to the largest weight of the map, "log" from 0.001 to 1
    """

    kind: str
    layer: int
    head: int | str
    rows: str = "predicted"
    units: str = "pieces"
    specials: str = "shown"
    colour: str = "linear"

    @classmethod
    def checked(
        cls,
        trace: AttentionTrace,
        kind: object,
        layer: object,
        head: object,
        rows: object = "predicted",
        units: object = "pieces",
        specials: object = "shown",
        colour: object = "linear",
    ) -> MapChoice:
        """A choice that this trace has; no layer means the last. Each kind is checked against its own array, since encoder and decoder
        may differ in layers and heads. Whether a run has norms is asked only when they are (`viz.panels.map_view`).

        Raises InvalidSettingError with what is possible.
        """
        kind = one_of("kind", kind, KINDS)
        num_layers, num_heads = maps_of(trace, kind).shape[:2]
        layer = num_layers - 1 if layer is None else whole_number("layer", layer, 0, num_layers - 1)
        if not isinstance(head, str) or head not in AGGREGATES:
            try:
                head = whole_number("head", head, 0, num_heads - 1)
            except InvalidSettingError:
                possible = because("named_or_whole_number", named=", ".join(AGGREGATES), low=0, high=num_heads - 1)
                raise InvalidSettingError("head", head, possible) from None
        look = one_of("rows", rows, ROWS), one_of("units", units, UNITS), one_of("specials", specials, SPECIALS)
        return cls(kind, layer, head, *look, one_of("colour", colour, COLOURS))

    @classmethod
    def from_page(cls, store: object, trace: AttentionTrace, best_heads: BestHeads | None = None) -> MapChoice:
        """The choice in a page's store; as long as it has chosen nothing, what `first` gives. Raises InvalidSettingError."""
        store = as_mapping(store)
        look = {name: store[name] for name in ("rows", "units", "specials", "colour") if name in store}
        choice = cls.checked(trace, store.get("kind"), store.get("layer"), store.get("head"), **look)
        if store.get("layer") is None and choice.kind == "cross" and choice.head == "mean":
            wanted = choice.rows if choice.rows != "predicted" else None  # what a page begins with is no wish
            first = cls.first(trace, best_heads, wanted)
            return replace(choice, layer=first.layer, head=first.head, rows=first.rows)
        return choice

    @classmethod
    def fitted(cls, store: object, trace: AttentionTrace, best_heads: BestHeads | None = None) -> MapChoice:
        """`from_page` for a new run, which may be of a model with fewer layers or heads than the one chosen from: what lies beyond the last
        becomes the last. The page does the same to its controls (`fit` in static/translate.js). Raises InvalidSettingError for the rest.
        """
        store = as_mapping(store)
        num_layers, num_heads = maps_of(trace, one_of("kind", store.get("kind"), KINDS)).shape[:2]
        layer, head = store.get("layer"), store.get("head")
        store = {**store, "layer": _last_at_most(layer, num_layers), "head": _last_at_most(head, num_heads)}
        return cls.from_page(store, trace, best_heads)

    @classmethod
    def first(cls, trace: AttentionTrace, best_heads: BestHeads | None = None, rows: str | None = None) -> MapChoice:
        """What the page opens with: the cross-attention head that aligns best, its rows named as it does so (or, if given, by `rows`); the
        mean of the last layer if that was not measured.

        best_heads: rows -> (layer, head), the best first. A head that this trace does not have counts as not measured.
        """
        num_layers, num_heads = trace.cross_attention.shape[:2]
        for naming, (layer, head) in (best_heads or {}).items():
            if rows in (None, naming) and layer < num_layers and head < num_heads:
                return cls("cross", layer, head, naming)
        return cls("cross", num_layers - 1, "mean", rows or "predicted")

    def weights(self, trace: AttentionTrace) -> np.ndarray:
        """float32 [query, key] of a head, the mean or the maximum, read off the trace alone. Rows of a head or of the mean sum to 1.

        Of any choice: `viz.panels.map_view.piece_weights`. Raises InvalidSettingError for what a trace does not hold.
        """
        layer = maps_of(trace, self.kind)[self.layer]
        if self.head == "mean":
            return layer.mean(axis=0)
        if self.head == "max":
            return layer.max(axis=0)
        if isinstance(self.head, str):
            raise InvalidSettingError("head", self.head, "a head, mean or max")
        return layer[self.head]

    def row_tokens(self, trace: AttentionTrace) -> tuple[str, ...]:
        """Names of the rows: row t of a decoder or cross map reads tgt_in_tokens[t] and predicts tgt_out_tokens[t]."""
        if self.kind == "encoder_self":
            return trace.src_tokens
        return trace.tgt_out_tokens if self.rows == "predicted" else trace.tgt_in_tokens

    def column_tokens(self, trace: AttentionTrace) -> tuple[str, ...]:
        """Names of the columns: what is looked at is always what was read."""
        return trace.tgt_in_tokens if self.kind == "decoder_self" else trace.src_tokens


def read_cell(data: object, num_rows: int, num_columns: int) -> tuple[int, int]:
    """Row and column of a cell_click or cell_hover event of a PlotlyView. Raises InvalidSettingError for anything outside the picture."""
    data = as_mapping(data)
    return whole_number("row", data.get("row"), 0, num_rows - 1), whole_number("column", data.get("column"), 0, num_columns - 1)
