"""What the positional encoding does, in four pictures: wavelengths, similarity by distance and as a table, and one step of it by pairs.

Sines are ochre and cosines violet, as in `viz.figures.positional`; what rises or is above zero is violet or ochre as its text says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.figures import frame
from viz.figures.colors import LIGHT, MASK_COLOR, NEGATIVE_COLOR, POSITIVE_COLOR, THEMES, WAVE_COLORS, diverging, opaque_diverging
from viz.figures.positional import pair_index

DECADES = (10, 100, 1000, 10_000, 100_000)
SIDE_MARGINS = (62, 14)  # px, left and right of the wavelengths
DASHES = {"width": 1, "dash": "4px,3px", "color": MASK_COLOR}  # this grey shows on both pages


@dataclass(frozen=True)
class WavelengthTexts:
    """dimension, wavelength: names of the axes, and in hover. sine, cosine: the two functions."""

    dimension: str
    wavelength: str
    sine: str
    cosine: str


def wavelength_figure(
    wavelengths: np.ndarray, *, layout: str, marks: Sequence[tuple[float, str]], texts: WavelengthTexts, uirevision: str | None = None
) -> go.Figure:
    """Wavelength of every dimension on a log axis: `wavelengths` [I] in positions, one per pair. Traces: sines, then cosines.

    marks: lengths to compare them with, each a line across with its name. Raises ValueError for a wavelength that is not positive, and as
    `viz.figures.positional.pair_index` does.
    """
    long = np.asarray(wavelengths, dtype=np.float64)
    if long.ndim != 1 or not (long > 0).all():
        raise ValueError("Wavelengths must be one positive number per pair.")
    d_model = 2 * len(long)
    of = [pair_index(d, d_model, layout) for d in range(d_model)]
    each = long[[pair for pair, _ in of]]
    traces = []
    for is_sine, name, color in ((True, texts.sine, WAVE_COLORS[0]), (False, texts.cosine, WAVE_COLORS[1])):
        dims = [d for d in range(d_model) if of[d][1] is is_sine]
        traces.append(
            go.Scatter(
                x=np.array(dims, dtype=np.int16),
                y=np.array([long[of[d][0]] for d in dims]),
                name=name,
                mode="markers",
                marker={"size": 5, "color": color},
                hovertemplate=f"{texts.dimension} %{{x}} · {name}<br>{texts.wavelength} <b>%{{y:,.1f}}</b><extra></extra>",
            )
        )
    low, high = np.log10(long.min()) - 0.2, np.log10(max([long.max(), *(value for value, _ in marks)])) + 0.25
    key = "&nbsp;&nbsp;".join(f'<span style="color:{t.marker.color}">●</span> {t.name}' for t in traces)
    notes = [frame.note(key, xanchor="right", x=1, yshift=8)]
    for value, text in marks:  # at the right, where the waves are far longer than any text; two that are close, one above and one below
        under = any(value < other < 2 * value for other, _ in marks)
        at = {"y": float(np.log10(value)), "yref": "y", "yanchor": "top" if under else "bottom"}
        # On the narrowest page, too, a note has room beside the last point below its line.
        passed = (np.flatnonzero(each <= value).max(initial=-1) + 1) / d_model
        fitting = frame.folded(text, (1 - passed) * (frame.MIN_SIDE - sum(SIDE_MARGINS)))
        notes.append(frame.note(fitting, x=1, xanchor="right", align="right", **at))
    shapes = [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": DASHES} for value, _ in marks]
    decades = {"type": "log", "tickvals": DECADES, "ticktext": [f"{n:,}" for n in DECADES]}
    height = 360
    figure_layout = frame.base_layout(height, uirevision) | {
        "margin": {"l": SIDE_MARGINS[0], "r": SIDE_MARGINS[1], "t": 34, "b": 46},
        "xaxis": _axis(texts.dimension, [-1.5, d_model + 0.5]),
        "yaxis": _axis(texts.wavelength, [float(low), float(high)], showgrid=True, **decades),
        "annotations": notes,
        "shapes": shapes,
        "meta": _meta("wavelengths", height, len(notes), ["yaxis.gridcolor"]),
    }
    return frame.light(go.Figure(data=traces, layout=figure_layout))


@dataclass(frozen=True)
class SimilarityTexts:
    """distance, cosine, dot: names of axes and in hover. first: beside the first rise, with {k} in it, or "" for none."""

    distance: str
    cosine: str
    dot: str
    first: str


def similarity_curve(
    dot: np.ndarray,
    *,
    scale: float,
    rises: Sequence[tuple[int, int]],
    marked: int | None,
    texts: SimilarityTexts,
    uirevision: str | None = None,
) -> go.Figure:
    """PE(p).PE(p+k) for k = -K .. K, as a cosine; `dot` [K + 1] holds k = 0 .. K and `scale` the product of a row with itself.

    Traces: the curve, then what of it rises with the distance (`rises`: stretches of k as (from, to)), both ways. marked: a distance with
    a line at it and its mirror. Raises ValueError for a distance that `dot` has not.
    """
    values = np.asarray(dot, dtype=np.float64)
    last = len(values) - 1
    if any(not 0 <= start < end <= last for start, end in rises) or not (marked is None or 0 <= marked <= last):
        raise ValueError(f"Distances go from 0 to {last}.")
    k = np.arange(-last, last + 1)
    both = values[np.abs(k)]
    climbing = np.full(len(k), np.nan)
    for start, end in rises:
        inside = (np.abs(k) >= start) & (np.abs(k) <= end)
        climbing[inside] = both[inside] / scale
    hover = f"{texts.distance} %{{x}}<br>{texts.dot} <b>%{{customdata:.2f}}</b><br>{texts.cosine} <b>%{{y:.4f}}</b><extra></extra>"
    curve = {"x": k.astype(np.int16), "mode": "lines", "customdata": both, "hovertemplate": hover, "connectgaps": False}
    traces = [
        go.Scatter(**curve, y=both / scale, line={"color": POSITIVE_COLOR, "width": 2}),
        go.Scatter(**(curve | {"hovertemplate": None, "hoverinfo": "skip"}), y=climbing, line={"color": NEGATIVE_COLOR, "width": 4}),
    ]
    notes, shapes = [], []
    low = min(float(both.min() / scale), 0) - 0.06
    if marked is not None:
        shapes = [{"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": DASHES} for at in (-marked, marked)]
        # above the line at its right, or where that is near the edge, ending there
        anchor = "center" if 2 * marked < last else "right"
        notes = [frame.note(texts.first.format(k=marked), x=marked, xref="x", y=1, xanchor=anchor, yshift=2)] if texts.first else []
    height = 320
    figure_layout = frame.base_layout(height, uirevision) | {
        "margin": {"l": 52, "r": 14, "t": 30, "b": 46},
        "xaxis": _axis(texts.distance, [-last - 0.5, last + 0.5]),
        "yaxis": _axis(texts.cosine, [low, 1.16], showgrid=True, zeroline=True, zerolinewidth=1),
        "annotations": notes,
        "shapes": shapes,
        "hovermode": "x",
        "meta": _meta("similarity", height, len(notes), ["yaxis.gridcolor", "yaxis.zerolinecolor"]),
    }
    return frame.light(go.Figure(data=traces, layout=figure_layout))


@dataclass(frozen=True)
class StepTexts:
    """pair, wavelength, change: names of axes and in hover. title: above, whole."""

    pair: str
    wavelength: str
    change: str
    title: str


def pair_steps(changes: np.ndarray, wavelengths: np.ndarray, *, texts: StepTexts, uirevision: str | None = None) -> go.Figure:
    """What each pair adds to one step of the dot product: `changes` [I] as bars, ochre above zero and violet below, fast pairs at the left.

    Raises ValueError if there are not as many wavelengths.
    """
    values, long = np.asarray(changes, dtype=np.float64), np.asarray(wavelengths, dtype=np.float64)
    if values.shape != long.shape or values.ndim != 1:
        raise ValueError(f"There are {values.size} pairs, but {long.size} wavelengths.")
    bars = go.Bar(
        x=np.arange(len(values), dtype=np.int16),
        y=values,
        customdata=long,
        marker={"color": [POSITIVE_COLOR if value >= 0 else NEGATIVE_COLOR for value in values], "line": {"width": 0}},
        hovertemplate=f"{texts.pair} %{{x}} · {texts.wavelength} %{{customdata:,.1f}}<br>{texts.change} <b>%{{y:+.4f}}</b><extra></extra>",
    )
    top = max(float(np.abs(values).max()), 1e-9) * 1.1
    height = 394  # as the table beside it
    figure_layout = frame.base_layout(height, uirevision) | {
        "margin": {"l": 52, "r": 14, "t": 40, "b": 46},
        "bargap": 0.15,
        "xaxis": _axis(texts.pair, [-0.75, len(values) - 0.25]),
        "yaxis": _axis("", [-top, top], showgrid=True, zeroline=True, zerolinewidth=1),
        "annotations": [frame.note(frame.folded(texts.title), yshift=6)],
        "meta": _meta("pair_steps", height, 1, ["yaxis.gridcolor", "yaxis.zerolinecolor"]),
    }
    return frame.light(go.Figure(data=[bars], layout=figure_layout))


@dataclass(frozen=True)
class MatrixTexts:
    """row, column, scale: for the corner. position: in hover. cosine: the value's name in hover."""

    row: str
    column: str
    scale: str
    position: str
    cosine: str


def similarity_matrix(table: np.ndarray, *, texts: MatrixTexts, uirevision: str | None = None) -> go.Figure:
    """PE PE^T of `table` [P, D] as cosines, from -1 to 1: position p down, position q across. Square."""
    rows = np.asarray(table, dtype=np.float64)
    products = rows @ rows.T / (rows[0] @ rows[0])
    count = len(rows)
    ramps = {name: opaque_diverging(theme) for name, theme in THEMES.items()}
    header = frame.header(texts.row, texts.column, texts.scale, {-1: "−1", 0: "0", 1: "1"}, ramps)
    hover = f"{texts.position} %{{y}}, %{{x}}<br>{texts.cosine} <b>%{{z:.4f}}</b><extra></extra>"
    heatmap = go.Heatmap(z=products.astype(np.float32), zmin=-1, zmax=1, colorscale=diverging(), showscale=False, hovertemplate=hover)
    side = count * frame.cell_size(count, 22, 300, smallest=1.2)
    left, top = 40, frame.HEADER + 24
    height, numbers = round(top + side + 10), [str(p) for p in range(count)]
    figure_layout = frame.base_layout(height, uirevision) | {
        "margin": {"l": left, "r": frame.EDGE, "t": top, "b": 10},
        "xaxis": {**frame.hidden_axis(numbers), "side": "top"},
        "yaxis": frame.hidden_axis(numbers, reverse=True),
        "xaxis2": {**frame.number_axis(count, "x"), "side": "top", "anchor": "y2"},
        "yaxis2": {**frame.number_axis(count, "y"), "side": "left", "anchor": "x2"},
        "coloraxis": header.coloraxis,
        "title": header.title,
        "meta": {
            "kind": "similarity_matrix",
            "min_width": 280,
            "min_height": height,
            "max_width": (left + side + frame.EDGE) / 1.5,  # the page allows one and a half of it: so wide it is square
            "theme": frame.theme_paths(ramps),
        },
    }
    return frame.light(go.Figure(data=[heatmap, header.carrier], layout=figure_layout))


def _axis(title: str, span: list[float], **settings: object) -> dict:
    return {
        "range": span,
        "title": frame.axis_title(title),
        "tickfont": {"size": frame.NOTE_SIZE},
        "showgrid": False,
        "gridcolor": LIGHT.line,
        "zeroline": False,
        "zerolinecolor": LIGHT.line,
        "ticks": "",
        "ticklabelstandoff": 4,
        **settings,
    }


def _meta(kind: str, height: int, notes: int, lines: list[str]) -> dict:
    return {
        "kind": kind,
        "min_width": frame.MIN_SIDE,
        "min_height": height,
        "theme": frame.theme_paths(notes=notes, lines=lines),
    }
