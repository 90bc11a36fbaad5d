"""Positions in one sentence: how long word and position are at each place, and how alike two places are, stage by stage.

Ink is drawn in the layout's first colour (`colorway`), so that it follows the page's theme; ochre is the positional encoding's everywhere.
"""

# S tokens, N stages

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.figures import frame
from viz.figures.colors import MASK_COLOR, POSITIVE_COLOR, THEMES
from viz.figures.labels import Label, token_labels

ROOM = 560  # px for all tokens, while their rows are no lower than SMALLEST
ROW, SMALLEST = 28, 6
LIKENESS_HEIGHT = 300


@dataclass(frozen=True)
class LengthTexts:
    """Every word on the figure of lengths, in the reader's language: the axis, and what each mark is."""

    axis: str
    embedding: str
    scaled: str
    position: str


@dataclass(frozen=True)
class LikenessTexts:
    """Every word on the figure of likeness. stages: one name for each stage, on the axis."""

    axis: str
    with_positions: str
    without: str
    stages: Sequence[str]


def input_lengths(
    embedding: np.ndarray,
    scaled: np.ndarray,
    position: np.ndarray,
    labels: Sequence[Label | str],
    *,
    uses_factor: bool,
    texts: LengthTexts,
    uirevision: str | None = None,
) -> go.Figure:
    """Lengths [S] of the embedding, of the embedding times sqrt(d_model), and of the position, a row for each token.

    Of the two lengths of a word, the filled one is what this model adds the position to (`uses_factor`), the other is hollow.
    Traces: a line between the two, embedding, scaled, position. Raises ValueError for lengths and labels of different number, or for
    a length that is negative or not finite.
    """
    rows = token_labels(labels)
    arrays = [np.asarray(each, np.float32) for each in (embedding, scaled, position)]
    for name, values in zip(("embedding", "scaled", "position"), arrays, strict=True):
        if values.shape != (len(rows),):
            raise ValueError(f"There are {len(rows)} labels, but lengths of {name} have shape {values.shape}.")
        if not np.isfinite(values).all() or (values < 0).any():
            raise ValueError(f"Lengths of {name} must be finite and not negative.")
    places = np.arange(len(rows), dtype=np.int16)
    names = [f"{label.hover} · {place}" for place, label in enumerate(rows)]

    def marks(values: np.ndarray, name: str, **marker: object) -> go.Scatter:
        hover = f"%{{customdata}}<br>{name} <b>%{{x:.4f}}</b><extra></extra>"
        return go.Scatter(x=values, y=places, mode="markers", name=name, marker=marker, customdata=names, hovertemplate=hover)

    ink = {"size": 9, "line": {"width": 1.6}}
    line = go.Scatter(
        x=[x for a, b in zip(arrays[0], arrays[1], strict=True) for x in (float(a), float(b), None)],
        y=[y for place in range(len(rows)) for y in (place, place, None)],
        mode="lines",
        line={"color": MASK_COLOR, "width": 1},
        opacity=0.55,
        hoverinfo="skip",
    )
    traces = [
        line,
        marks(arrays[0], texts.embedding, symbol="circle-open" if uses_factor else "circle", **ink),
        marks(arrays[1], texts.scaled, symbol="circle" if uses_factor else "circle-open", **ink),
        marks(arrays[2], texts.position, symbol="line-ns-open", color=POSITIVE_COLOR, size=15, line={"width": 3}),
    ]
    row = frame.cell_size(len(rows), ROW, ROOM, smallest=SMALLEST)
    height = round(46 + row * len(rows) + 10)
    left = frame.EDGE + 8 + round(frame.TOKEN_SIZE * max(label.width for label in rows))
    largest = max(float(values.max()) for values in arrays)
    layout = frame.base_layout(height, uirevision)
    layout |= {
        "margin": {"l": left, "r": frame.EDGE + 8, "t": 46, "b": 10},
        "xaxis": {**_number_axis(texts.axis), "range": [0, largest * 1.06], "side": "top", "rangemode": "nonnegative"},
        "yaxis": {
            **frame.label_axis(rows, row, "y"),
            "range": [len(rows) - 0.5, -0.5],
            "autorangeoptions": {"clipmin": -0.5, "clipmax": len(rows) - 0.5},
        },
        "hovermode": "closest",
        "meta": {
            "kind": "lengths",
            "min_width": frame.MIN_SIDE,
            "min_height": height,
            "theme": _theme(("xaxis.gridcolor", "xaxis.zerolinecolor")),
        },
    }
    for name in ("matches", "overlaying"):  # one axis alone
        layout["yaxis"].pop(name)
    return frame.light(go.Figure(data=traces, layout=layout))


def likeness_lines(
    with_positions: np.ndarray, without: np.ndarray, *, texts: LikenessTexts, uirevision: str | None = None
) -> go.Figure:
    """Cosines [N] of two places at each stage, through with positions and dashed without.

    Raises ValueError if stages and cosines differ in number, or for a cosine outside -1 to 1.
    """
    count = len(texts.stages)
    lines = [np.asarray(each, np.float32) for each in (with_positions, without)]
    for values in lines:
        if values.shape != (count,):
            raise ValueError(f"There are {count} stages, but cosines have shape {values.shape}.")
        if not np.isfinite(values).all() or (np.abs(values) > 1 + 1e-5).any():
            raise ValueError("A cosine must lie between -1 and 1.")
    looks = (({"width": 2.2}, "circle", texts.with_positions), ({"width": 1.6, "dash": "5px,4px"}, "circle-open", texts.without))
    traces = [
        go.Scatter(
            x=np.arange(count, dtype=np.int16),
            y=values,
            mode="lines+markers",
            name=name,
            line=line,
            marker={"symbol": symbol, "size": 8},
            customdata=list(texts.stages),
            hovertemplate=f"%{{customdata}} · {name} <b>%{{y:.4f}}</b><extra></extra>",
        )
        for values, (line, symbol, name) in zip(lines, looks, strict=True)
    ]
    lowest = min(0.0, *(float(values.min()) for values in lines))
    layout = frame.base_layout(LIKENESS_HEIGHT, uirevision)
    layout |= {
        "margin": {"l": 44, "r": 14, "t": 14, "b": 48},
        "xaxis": {
            "range": [-0.4, count - 0.6],
            "tickmode": "array",
            "tickvals": list(range(count)),
            "ticktext": list(texts.stages),
            "tickfont": {"size": frame.NOTE_SIZE},
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
            "fixedrange": True,
        },
        "yaxis": {**_number_axis(texts.axis), "range": [1.15 * lowest - 0.05, 1.06], "fixedrange": True},
        "hovermode": "closest",
        "meta": {
            "kind": "likeness",
            "min_width": max(frame.MIN_SIDE, 44 * count + 58),
            "min_height": LIKENESS_HEIGHT,
            "theme": _theme(("yaxis.gridcolor", "yaxis.zerolinecolor"), inks=2),
        },
    }
    return frame.light(go.Figure(data=traces, layout=layout))


def _number_axis(title: str) -> dict:
    return {
        "title": frame.axis_title(title),
        "tickfont": {"size": frame.NOTE_SIZE},
        "ticks": "",
        "showline": False,
        "showgrid": True,
        "gridwidth": 1,
        "zeroline": True,
        "zerolinewidth": 1,
        "nticks": 6,
    }


def _theme(lines: Sequence[str], inks: int = 4) -> dict[str, dict[str, object]]:
    """Both themes' colours, ink for every trace that has no colour of its own."""
    both = frame.theme_paths(lines=lines)
    for name, theme in THEMES.items():
        both[name]["colorway"] = [theme.ink] * inks
    return both
