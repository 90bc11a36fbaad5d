"""The sinusoidal positional encoding of the loaded model: as a table (position x dimension) and as waves along the positions.

PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same angle)  (Vaswani et al., 2017, section 3.5).
`layout` says where pair i lies in the table: "interleaved" (2i and 2i+1, as in the paper) or "halves" (all sines, then all cosines:
i and d_model/2 + i, as Marian lays them out). It decides which dimension is a sine and how long its wave is.

    positional_heatmap(translator.positional_encoding(64), layout=translator.config.position_layout, texts=PositionTexts(...))
    positional_waves(table, dims=[0, 8, 16, 32], layout=..., texts=...)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.figures import frame
from viz.figures.colors import LIGHT, THEMES, WAVE_COLORS, diverging, opaque_diverging
from viz.figures.labels import Label, token_labels

LAYOUTS = ("interleaved", "halves")
AXES = ("linear", "log")
LANE, LANE_NAME, LANE_WAVE = 86, 24, 78  # px: one wave with its name; where the name ends and the wave begins; where the wave ends
MAX_WAVES = 12
MARKED_POSITIONS = 64  # up to so many positions each has a dot: the encoding exists at whole positions only


@dataclass(frozen=True)
class PositionTexts:
    """Every word on both figures, in the reader's language.

    row, column: what a row and a column of the table is, for its corner. position_axis, dimension_axis: axis titles; "" for none.
    position, dimension, value, wavelength: names in hover. sine, cosine: names of the two functions. positions: unit of a wavelength.
    wave: direct label of a wave, with {dimension}, {function} and {wavelength} in it. scale: above the colour scale.
    """

    row: str
    column: str
    position_axis: str
    dimension_axis: str
    position: str
    dimension: str
    value: str
    wavelength: str
    sine: str
    cosine: str
    positions: str
    wave: str
    scale: str


def pair_index(dimension: int, d_model: int, layout: str) -> tuple[int, bool]:
    """Pair i of a dimension, and whether the dimension is its sine. ValueError for an odd width, an unknown layout, no such dimension."""
    if layout not in LAYOUTS:
        raise ValueError(f"Unknown layout {layout!r}; it must be one of {', '.join(LAYOUTS)}.")
    if d_model % 2:
        raise ValueError(f"Sines and cosines come in pairs, so d_model must be even; it is {d_model}.")
    if not 0 <= dimension < d_model:
        raise ValueError(f"There is no dimension {dimension}; the table has {d_model}, counted from 0.")
    if layout == "interleaved":
        return dimension // 2, dimension % 2 == 0
    return dimension % (d_model // 2), dimension < d_model // 2


def wavelength(dimension: int, d_model: int, layout: str) -> float:
    """Positions after which a dimension repeats: 2π · 10000^(2i/d_model)."""
    pair, _ = pair_index(dimension, d_model, layout)
    return 2 * math.pi * 10000 ** (2 * pair / d_model)


def dimension_edges(d_model: int, layout: str, axis: str) -> np.ndarray:
    """Where each column of the table begins, and the last one ends: float64 [D + 1], along an axis of any unit.

    "linear": all columns are equally wide. "log": dimension d lies at log2(1 + d), so that the fast ones have room; where the layout is
    "halves", sines and cosines each begin anew, since each half runs from fast to slow. Raises ValueError for another axis or layout.
    """
    pair_index(0, d_model, layout)
    if axis not in AXES:
        raise ValueError(f"Unknown axis {axis!r}; it must be one of {', '.join(AXES)}.")
    if axis == "linear":
        return np.arange(d_model + 1) - 0.5
    if layout == "interleaved":
        return np.log2(1 + np.arange(d_model + 1))
    half = np.log2(1 + np.arange(d_model // 2 + 1))
    return np.concatenate([half, half[-1] + half[1:]])


def _log_ticks(d_model: int, layout: str) -> list[int]:
    """Dimensions to name on a log axis: 0, 1, 3, 7 and so on, whose columns lie at equal distances."""
    half = d_model if layout == "interleaved" else d_model // 2
    named = [2**power - 1 for power in range(half.bit_length()) if 2**power - 1 < half]
    return named if layout == "interleaved" else [*named[::2], *(half + d for d in named[::2])]  # there is room for half as many


def positional_heatmap(
    table: np.ndarray,
    *,
    layout: str,
    texts: PositionTexts,
    axis: str = "linear",
    row_labels: Sequence[Label | str] | None = None,
    uirevision: str | None = None,
) -> go.Figure:
    """Heat map of `table` [P, D]: position down, dimension across, from -1 to 1 with zero in the colour of the page.

    axis: how dimensions are spaced, see `dimension_edges`.
    row_labels: one per position, tokens of the current sentence in place of numbers.
    Raises ValueError if the labels do not fit the table (both lengths named), if a value is not finite, or as `pair_index` does.
    """
    z = _checked(table)
    num_positions, d_model = z.shape
    edges = dimension_edges(d_model, layout, axis)
    rows = token_labels(row_labels) if row_labels is not None else None
    if rows is not None and len(rows) != num_positions:
        raise ValueError(f"The table has {num_positions} positions, but there are {len(rows)} row labels.")

    ramps = {name: opaque_diverging(theme) for name, theme in THEMES.items()}
    header = frame.header(texts.row, texts.column, texts.scale, {-1: "−1", 0: "0", 1: "1"}, ramps)
    heatmap = go.Heatmap(
        z=z,
        x=edges if axis == "log" else None,
        zmin=-1,
        zmax=1,
        colorscale=diverging(),
        showscale=False,
        hovertemplate=f"{texts.position} %{{y}}<br>{texts.dimension} %{{x}}<br>{texts.value} <b>%{{z:.4f}}</b><extra></extra>",
    )
    row = frame.cell_size(num_positions, 22, 420, smallest=3)
    left = 48 if rows is None else frame.EDGE + 8 + round(frame.TOKEN_SIZE * max(label.width for label in rows))
    top = frame.HEADER + 24
    hover_rows = [str(p) for p in range(num_positions)] if rows is None else [f"{p} · {r.hover}" for p, r in enumerate(rows)]
    if rows is None:
        y2 = frame.number_axis(num_positions, "y", most=16)
    else:
        y2 = frame.label_axis(rows, row, "y")
    height = round(top + row * num_positions + 10)
    x = frame.hidden_axis([_dimension_text(d, d_model, layout, texts) for d in range(d_model)])
    x2 = frame.number_axis(d_model, "x")
    if axis == "log":
        centres, named = (edges[:-1] + edges[1:]) / 2, _log_ticks(d_model, layout)
        low, high = float(edges[0]), float(edges[-1])
        x |= {"tickvals": centres, "range": [low, high], "autorangeoptions": {"clipmin": low, "clipmax": high}}
        x2 |= {"tickvals": centres[named], "ticktext": [str(d) for d in named]}
    figure_layout = frame.base_layout(height, uirevision)
    figure_layout |= {
        "margin": {"l": left, "r": frame.EDGE, "t": top, "b": 10},
        "xaxis": {**x, "side": "top"},
        "yaxis": frame.hidden_axis(hover_rows, reverse=True),
        "xaxis2": {**x2, "side": "top", "anchor": "y2", "title": frame.axis_title(texts.dimension_axis)},
        "yaxis2": {**y2, "side": "left", "anchor": "x2", "title": frame.axis_title(texts.position_axis)},
        "coloraxis": header.coloraxis,
        "title": header.title,
        "meta": {
            "kind": "positions",
            "layout": layout,
            "min_width": frame.MIN_SIDE,
            "min_height": height,
            "theme": frame.theme_paths(ramps),
        },
    }
    return frame.light(go.Figure(data=[heatmap, header.carrier], layout=figure_layout))


def positional_waves(
    table: np.ndarray,
    dims: Sequence[int],
    *,
    layout: str,
    texts: PositionTexts,
    uirevision: str | None = None,
) -> go.Figure:
    """Chosen dimensions of `table` [P, D] as waves over the positions, one under the other on one position axis.

    Trace n is dimension dims[n] on its own y axis from -1 to 1, so that values are read directly and lines never cross; sines are
    drawn through and cosines dashed, in two colours. Each carries its name and wavelength beside it.
    Raises ValueError for no dimension or more than 12, for one named twice, and as `pair_index` does.
    """
    z = _checked(table)
    num_positions, d_model = z.shape
    dims = [int(d) for d in dims]
    if not 1 <= len(dims) <= MAX_WAVES or len(set(dims)) != len(dims):
        raise ValueError(f"Choose 1 to {MAX_WAVES} different dimensions; chosen are {dims}.")

    traces, axes, names = [], {}, []
    lane = 1 / len(dims)
    for n, d in enumerate(dims):
        _, is_sine = pair_index(d, d_model, layout)
        number = "" if n == 0 else str(n + 1)
        top = 1 - n * lane
        traces.append(
            go.Scatter(
                x=np.arange(num_positions, dtype=np.int16),
                y=z[:, d],
                yaxis="y" + number,
                name=_wave_name(d, d_model, layout, texts),
                mode="lines+markers" if num_positions <= MARKED_POSITIONS else "lines",
                line={"color": WAVE_COLORS[not is_sine], "width": 2, "dash": "solid" if is_sine else "6px,3px"},
                marker={"size": 4},
                hovertemplate=f"{texts.position} %{{x}} · <b>%{{y:.4f}}</b><extra></extra>",
            )
        )
        names.append(frame.note(traces[-1].name, y=top - LANE_NAME / LANE * lane))
        axes["yaxis" + number] = _wave_axis([top - LANE_WAVE / LANE * lane, top - LANE_NAME / LANE * lane])

    above = 36 + (20 if texts.position_axis else 0)
    height = above + LANE * len(dims) + 10
    figure_layout = frame.base_layout(height, uirevision)
    figure_layout |= {
        **axes,
        "margin": {"l": 34, "r": 14, "t": above, "b": 10},
        # on top, as in the table, and because Plotly writes the hovered position at this side of the first wave
        "xaxis": {
            "range": [-0.5, num_positions - 0.5],
            "autorangeoptions": {"clipmin": -0.5, "clipmax": num_positions - 0.5},
            "anchor": "free",
            "position": 1,
            "side": "top",
            "tickformat": "d",
            "tickfont": {"size": frame.NOTE_SIZE},
            "ticks": "",
            "showgrid": False,
            "zeroline": False,
            "showspikes": False,
            "title": frame.axis_title(texts.position_axis),
        },
        "hovermode": "x",
        "hoversubplots": "axis",
        "annotations": names,
        "meta": {
            "kind": "positions",
            "layout": layout,
            "min_width": frame.MIN_SIDE,
            "min_height": height,
            "theme": frame.theme_paths(notes=len(names), lines=[f"{name}.zerolinecolor" for name in axes]),
        },
    }
    return frame.light(go.Figure(data=traces, layout=figure_layout))


def _wave_axis(domain: list[float]) -> dict:
    return {
        "domain": domain,
        "anchor": "x",
        "range": [-1.12, 1.12],
        "fixedrange": True,
        "tickmode": "array",
        "tickvals": [-1, 0, 1],
        "ticktext": ["−1", "0", "1"],
        "tickfont": {"size": frame.NOTE_SIZE},
        "ticks": "",
        "showgrid": False,
        "zeroline": True,
        "zerolinecolor": LIGHT.line,
        "zerolinewidth": 1,
    }


def _checked(table: np.ndarray) -> np.ndarray:
    z = np.asarray(table, dtype=np.float32)
    if z.ndim != 2 or 0 in z.shape:
        raise ValueError(f"A positional encoding must be [positions, d_model] and not empty, it has shape {z.shape}.")
    if not np.isfinite(z).all():
        raise ValueError("A positional encoding must be finite.")
    return z


def _function(dimension: int, d_model: int, layout: str, texts: PositionTexts) -> str:
    return texts.sine if pair_index(dimension, d_model, layout)[1] else texts.cosine


def _number(value: float) -> str:
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _dimension_text(d: int, d_model: int, layout: str, texts: PositionTexts) -> str:
    long = _number(wavelength(d, d_model, layout))
    return f"{d} · {_function(d, d_model, layout, texts)} · {texts.wavelength} {long} {texts.positions}"


def _wave_name(d: int, d_model: int, layout: str, texts: PositionTexts) -> str:
    long = f"{_number(wavelength(d, d_model, layout))} {texts.positions}"
    return texts.wave.format(dimension=d, function=_function(d, d_model, layout, texts), wavelength=long)
