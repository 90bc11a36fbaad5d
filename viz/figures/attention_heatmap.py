"""One attention map as a heat map: queries run down, keys run across.

    figure = attention_heatmap(
        trace.cross_attention[layer, head],                       # [Q, K]
        token_labels(trace.tgt_out_tokens, label_texts),          # rows: the tokens predicted (or tgt_in_tokens: the tokens read)
        token_labels(trace.src_tokens, label_texts),              # columns
        kind="cross", texts=HeatmapTexts(...), uirevision=f"{sentence}|cross",
    )

`figure.layout.meta`: kind, color, queries and keys (raw tokens by position, for the page's own use; escape before showing),
theme, min_width, min_height, max_width (see `viz.figures.frame`). A hover or click event's point has `y` = query, `x` = key.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.figures import frame
from viz.figures.colors import MASK_COLOR, MASK_OPACITY, MASK_STROKE_OPACITY, THEMES, kind_color, opaque_ramp, ramp, rgba
from viz.figures.labels import Label, token_labels

MAX_STROKES = 24  # diagonal strokes along a side of a masked map
LEAST_WITH_GAP = 10  # px of a cell; smaller ones have no line around them: of so many it is a pattern, and Plotly paints them one by one
COLOURS = ("linear", "max", "log")
LOG_LOWEST = -3  # a logarithmic scale begins at 10 ** -3


@dataclass(frozen=True)
class HeatmapTexts:
    """Every word on the figure, in the reader's language. They may hold Plotly's markup; user text must be escaped before.

    row, column: what a row and a column is, as sentences for the corner ("row: the word being written").
    query_axis, key_axis: axis titles; "" for none.
    query, key, weight: names in front of the three lines of hover; masked: stands in for the weight of a masked cell.
    scale: what the colours measure, above the scale; a map that is rescaled or aggregated says so here. "{largest}" in it stands for the
    largest weight of the map, which is always printed.
    """

    row: str
    column: str
    query_axis: str
    key_axis: str
    query: str
    key: str
    weight: str
    masked: str
    scale: str


def attention_heatmap(
    weights: np.ndarray,
    query_labels: Sequence[Label | str],
    key_labels: Sequence[Label | str],
    *,
    kind: str,
    texts: HeatmapTexts,
    colour: str = "linear",
    masked: np.ndarray | None = None,
    row_width: float = 0,
    uirevision: str | None = None,
) -> go.Figure:
    """Heat map of `weights` [Q, K] with one label per row and per column.

    kind: "encoder_self", "decoder_self" or "cross"; decides the colour. masked: bool [Q, K], True where the query may not look; by default
    every later key in a "decoder_self" map. Masked cells are hatched, hold NaN and say so in hover: they are not weights that happen to be
    zero. colour: which weights get no colour and the full colour: "linear" 0 and 1, "max" 0 and the largest of the map, "log" 0.001 or less
    and 1, evenly by powers of ten (then `z` holds logarithms, and `customdata` the weights that hover shows). row_width: ems that names of
    rows have room for at the least: maps of one sentence that share it stand on the same place, and are drawn faster one after another.

    Raises ValueError if labels do not fit the weights (both lengths named), if a weight that is not masked is negative or not finite,
    or for an unknown kind or colour.
    """
    color = kind_color(kind)
    rows, columns = token_labels(query_labels), token_labels(key_labels)
    z = _checked(weights, len(rows), len(columns))
    hidden = _mask(masked, kind, z.shape)
    z = np.where(hidden, np.float32(np.nan), z)
    if not np.all(np.isfinite(z) | hidden) or (z < 0).any():
        raise ValueError("Attention weights must be finite and not negative.")
    if colour not in COLOURS:
        raise ValueError(f"Unknown scale of colours {colour!r}; it must be one of {', '.join(COLOURS)}.")

    ramps = {name: opaque_ramp(color, theme) for name, theme in THEMES.items()}
    largest = float(np.nanmax(z, initial=0))
    ticks = _ticks(colour, largest)
    header = frame.header(texts.row, texts.column, texts.scale.replace("{largest}", f"{largest:.4f}"), ticks, ramps)
    tokens = f"{texts.query} <b>%{{y}}</b><br>{texts.key} <b>%{{x}}</b>"
    log = colour == "log"
    size = _size(rows, columns, row_width)
    gap = int(min(size["row"], size["column"]) >= LEAST_WITH_GAP)
    heatmap = go.Heatmap(
        z=np.log10(np.maximum(z.astype(np.float64), 10.0**LOG_LOWEST)).astype(np.float32) if log else z,
        customdata=z.tolist() if log else None,  # plotly.js finds no entry in an array of typed arrays
        zmin=min(ticks),
        zmax=max(ticks),
        colorscale=ramp(color),
        showscale=False,
        xgap=gap,
        ygap=gap,
        hoverongaps=False,
        hovertemplate=f"{tokens}<br>{texts.weight} <b>%{{{'customdata' if log else 'z'}:.4f}}</b><extra></extra>",
    )
    traces = [heatmap, header.carrier]
    if hidden.any():
        # under the weights: it shows, and answers the pointer, only where they have a gap
        traces.append(
            go.Heatmap(
                z=hidden.astype(np.uint8),
                zmin=0,
                zmax=1,
                zorder=-1,
                colorscale=ramp(MASK_COLOR, MASK_OPACITY),
                showscale=False,
                hovertemplate=f"{tokens}<br>{texts.masked}<extra></extra>",
            )
        )
    layout = frame.base_layout(size["height"], uirevision)
    layout |= {
        "margin": {"l": size["left"], "r": frame.EDGE, "t": size["top"], "b": 10},
        "xaxis": {**frame.hidden_axis([_hover(label, i) for i, label in enumerate(columns)]), "side": "top"},
        "yaxis": frame.hidden_axis([_hover(label, i) for i, label in enumerate(rows)], reverse=True),
        "xaxis2": frame.label_axis(
            columns, size["column"], "x", side="top", anchor="y2", autotickangles=[0, -90], title=frame.axis_title(texts.key_axis)
        ),
        "yaxis2": frame.label_axis(rows, size["row"], "y", side="left", anchor="x2", title=frame.axis_title(texts.query_axis)),
        "coloraxis": header.coloraxis,
        "title": header.title,
        "shapes": _hatching(hidden),
        "meta": {
            "kind": kind,
            "color": color,
            "queries": [label.raw for label in rows],
            "keys": [label.raw for label in columns],
            "min_width": size["min_width"],
            "min_height": size["height"],
            "max_width": size["max_width"],
            "theme": frame.theme_paths(ramps),
        },
    }
    return frame.light(go.Figure(data=traces, layout=layout))


def _ticks(colour: str, largest: float) -> dict[float, str]:
    """Values of the scale and what is printed at them; the first gets no colour, the last the full one."""
    if colour == "log":
        return {power: f"{10.0**power:g}" for power in range(LOG_LOWEST, 1)}
    if colour == "max" and largest > 0:
        return {0: "0", largest: f"{largest:.4f}"}
    return {0: "0", 1: "1"}


def _checked(weights: np.ndarray, num_queries: int, num_keys: int) -> np.ndarray:
    z = np.asarray(weights, dtype=np.float32)
    if z.ndim != 2:
        raise ValueError(f"Attention weights must be [queries, keys], they have shape {z.shape}.")
    if z.shape != (num_queries, num_keys):
        raise ValueError(
            f"Attention weights have {z.shape[0]} rows and {z.shape[1]} columns, "
            f"but there are {num_queries} query labels and {num_keys} key labels."
        )
    if 0 in z.shape:
        raise ValueError("There is no attention to show: no queries or no keys.")
    return z


def _mask(masked: np.ndarray | None, kind: str, shape: tuple[int, int]) -> np.ndarray:
    if masked is None:
        return np.triu(np.ones(shape, bool), k=1) if kind == "decoder_self" else np.zeros(shape, bool)
    masked = np.asarray(masked, dtype=bool)
    if masked.shape != shape:
        raise ValueError(f"The mask has shape {masked.shape}, the attention weights {shape}.")
    return masked


def _hover(label: Label, position: int) -> str:
    return f"{label.hover} · {position}"


def _size(rows: Sequence[Label], columns: Sequence[Label], row_width: float) -> dict[str, float]:
    """Sizes in px: margins, height, narrowest and widest width, and the least height of a row and width of a column."""
    # rows keep a line of text each as long as the figure fits a screen or so, then labels are thinned
    row = max(frame.cell_size(len(rows), 40, 560), frame.cell_size(len(rows), frame.LABEL_PITCH, 960))
    column = frame.cell_size(len(columns), frame.LABEL_PITCH, 960)
    left = frame.EDGE + 8 + frame.whole(frame.TOKEN_SIZE * max(row_width, *(label.width for label in rows)))
    longest = frame.TOKEN_SIZE * max(label.width for label in columns)
    upright = longest if longest * len(columns) > 600 else 0  # Plotly sets labels upright where the page is too narrow for them
    top = frame.HEADER + 24
    return {
        "left": left,
        "top": top,
        "height": frame.whole(top + upright + row * len(rows) + 10),
        "min_width": max(frame.MIN_SIDE, frame.whole(left + column * len(columns) + frame.EDGE)),
        "max_width": max(frame.MIN_SIDE, frame.whole(left + 1.8 * max(row, column) * len(columns) + frame.EDGE)),
        "row": row,
        "column": column,
    }


def _hatching(masked: np.ndarray) -> list[dict]:
    """Diagonal strokes over masked cells, in data coordinates so that they move with the map.

    Strokes of neighbouring cells are joined and thinned, so a causal map of n tokens has a few dozen of them, not n².
    """
    num_rows, num_columns = masked.shape
    strokes = []
    for total in range(0, num_rows + num_columns - 1, math.ceil(max(masked.shape) / MAX_STROKES)):
        # the cells with q + k = total, from bottom left to top right
        first = max(0, total - num_rows + 1)
        ks = np.arange(first, min(num_columns, total + 1))
        for start, stop in _runs(masked[total - ks, ks]):
            left, right = first + start - 0.5, first + stop - 0.5
            strokes.append(f"M{left} {total - left}L{right} {total - right}")
    line = {"width": 1, "color": rgba(MASK_COLOR, MASK_STROKE_OPACITY)}
    return [{"type": "path", "path": "".join(strokes), "layer": "below", "line": line}] if strokes else []


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """Runs of True in a vector, as (start, stop)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
