"""Figures of the experiments on the Machine tab: gradients by depth, scores with and without the division, memory and steps by length.

Pairs of lines have the two colours that are no kind of attention's: ochre and drawn through, violet and dashed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.figures.colors import NEGATIVE_COLOR, POSITIVE_COLOR, kind_color, rgba
from viz.figures.lanes import Axis, Lane, decades, lanes

FIRST, SECOND = {"color": POSITIVE_COLOR, "width": 2}, {"color": NEGATIVE_COLOR, "width": 2, "dash": "6px,3px"}


@dataclass(frozen=True)
class GradientTexts:
    """post, pre: names of the lines. encoder, decoder: of the lanes. layer: of the axis and in hover."""

    post: str
    pre: str
    encoder: str
    decoder: str
    layer: str


def gradient_lanes(encoder: Mapping[str, np.ndarray], decoder: Mapping[str, np.ndarray], *, texts: GradientTexts) -> go.Figure:
    """Gradient norms [seed, layer] by "post" and "pre", one lane a stack, on one log scale: lines are means, dots the seeds.

    Raises ValueError for a norm that is not above zero and finite.
    """
    stacks = (encoder, decoder)
    values = np.concatenate([np.ravel(stack[norm]) for stack in stacks for norm in ("post", "pre")])
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError("a gradient norm must be finite and above zero to be drawn on a log scale")
    low, high = _decent(float(values.min())), _decent(float(values.max()), up=True)
    depth = max(stack["post"].shape[1] for stack in stacks)
    parts = []
    for stack, name in zip(stacks, (texts.encoder, texts.decoder), strict=True):
        traces = []
        for norm, line, said in (("post", FIRST, texts.post), ("pre", SECOND, texts.pre)):
            seeds, layers = stack[norm].shape
            x = np.arange(layers)
            dots = {"size": 4, "color": rgba(line["color"], 0.45)}
            where = {"x": np.tile(x, seeds), "y": stack[norm].ravel(), "mode": "markers", "marker": dots, "hoverinfo": "skip"}
            traces.append(go.Scatter(**where, name=said))
            hover = f"{texts.layer} %{{x}} · {said} <b>%{{y:.3g}}</b><extra></extra>"
            look = {"mode": "lines+markers", "line": line, "marker": {"size": 6, "color": line["color"]}}
            traces.append(go.Scatter(x=x, y=stack[norm].mean(axis=0), name=said, hovertemplate=hover, **look))
        parts.append(Lane(Axis(low, high, _log_ticks(low, high), log=True, title=name), traces))
    across = Axis(-0.4, max(depth - 0.6, 0.6), {i: str(i) for i in range(depth)}, title=texts.layer)
    return lanes(parts, across, uirevision=f"{depth}")


@dataclass(frozen=True)
class ScaleTexts:
    """plain, divided: names of the lines. measures: names of the lanes, by measure. width: of the axis and in hover."""

    plain: str
    divided: str
    measures: Mapping[str, str]
    width: str


def score_scale_lanes(
    widths: Sequence[int],
    plain: Mapping[str, np.ndarray],
    divided: Mapping[str, np.ndarray],
    heads: tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]] | None = None,
    *,
    head_dim: int,
    chosen: int | None = None,
    head_names: Sequence[str] = (),
    texts: ScaleTexts,
) -> go.Figure:
    """Measures of random vectors by width, arrays [widths]; the variance on a log scale, the others from 0 to 1.

    heads: plain and divided measures of real heads, arrays [heads], as dots beside `head_dim` (plain to the right, divided to the left);
    the dot of the `chosen` one is the large one. Lanes come in the order of texts.measures.
    """
    parts = []
    for measure, name in texts.measures.items():
        traces = []
        for side, line, said, shift in ((plain, FIRST, texts.plain, 1.12), (divided, SECOND, texts.divided, 1 / 1.12)):
            hover = f"{texts.width} %{{x}} · {said} <b>%{{y:.3g}}</b><extra></extra>"
            traces.append(go.Scatter(x=list(widths), y=side[measure], mode="lines", line=line, name=said, hovertemplate=hover))
            if heads is None:
                continue
            values = heads[side is divided][measure]
            marker = {
                "color": [rgba(line["color"], 1 if h == chosen else 0.4) for h in range(len(values))],
                "size": [11 if h == chosen else 6 for h in range(len(values))],
                "line": {"width": 0},
            }
            hover = f"%{{text}} · {said} <b>%{{y:.3g}}</b><extra></extra>"
            place = {"x": [head_dim * shift] * len(values), "y": values, "mode": "markers", "marker": marker}
            traces.append(go.Scatter(**place, name=said, text=list(head_names), hovertemplate=hover))
        if measure == "variance":
            drawn = np.concatenate([np.asarray(trace.y, dtype=float) for trace in traces])
            drawn = drawn[drawn > 0]
            low, high = _decent(float(drawn.min())), _decent(float(drawn.max()), up=True)
            axis = Axis(low, high, decades(low, high), log=True, title=name)
        else:
            axis = Axis(-0.03, 1.05, {0: "0", 0.5: "0.5", 1: "1"}, title=name)
        parts.append(Lane(axis, traces))
    across = Axis(widths[0] * 0.9, widths[-1] * 1.1, {width: str(width) for width in widths}, log=True, title=texts.width)
    return lanes(parts, across, hover="closest", uirevision="scale")


@dataclass(frozen=True)
class MemoryTexts:
    """bytes, steps: names of the lanes. kinds: names of the areas, by kind. recurrent, attention: names of the lines.
    length: of the axis and in hover. mega: the unit of a million bytes.
    """

    bytes: str
    steps: str
    kinds: Mapping[str, str]
    recurrent: str
    attention: str
    length: str
    mega: str


def memory_lanes(lengths: Sequence[int], kinds: Mapping[str, Sequence[int]], *, here: int | None, texts: MemoryTexts) -> go.Figure:
    """Bytes of the weights of all layers by kind, stacked, for sentences of each length on both sides; and the serial steps of one layer.

    here: the length of the sentence on the page, marked by a line; None for none.
    """
    areas = []
    for kind, values in kinds.items():
        megabytes = np.asarray(values, dtype=float) / 1e6
        hover = f"{texts.length} %{{x}} · {texts.kinds[kind]} <b>%{{y:.3g}} {texts.mega}</b><extra></extra>"
        look = {"mode": "lines", "line": {"color": kind_color(kind), "width": 1.5}, "fillcolor": rgba(kind_color(kind), 0.35)}
        areas.append(go.Scatter(x=list(lengths), y=megabytes, stackgroup="bytes", name=texts.kinds[kind], hovertemplate=hover, **look))
    most = float(sum(max(values) for values in kinds.values())) / 1e6
    hover = f"{texts.length} %{{x}} · %{{fullData.name}} <b>%{{y}}</b><extra></extra>"
    steps = [
        go.Scatter(x=list(lengths), y=list(lengths), mode="lines", line=FIRST, name=texts.recurrent, hovertemplate=hover),
        go.Scatter(x=list(lengths), y=[1] * len(lengths), mode="lines", line=SECOND, name=texts.attention, hovertemplate=hover),
    ]
    across = Axis(0, lengths[-1], _round_ticks(lengths[-1]), title=texts.length)
    parts = [
        Lane(Axis(0, most * 1.04, _round_ticks(most * 1.04, f" {texts.mega}"), title=texts.bytes), areas),
        Lane(Axis(0, lengths[-1] * 1.04, _round_ticks(lengths[-1] * 1.04), title=texts.steps), steps),
    ]
    figure = lanes(parts, across, uirevision=f"{lengths[-1]}")
    if here is not None:
        line = {"width": 1, "dash": "2px,3px", "color": "rgba(128,132,140,0.9)"}  # the grey of masks shows on both pages
        figure.add_shape(type="line", xref="x", x0=here, x1=here, yref="paper", y0=0, y1=1, line=line)
    return figure


def _decent(value: float, up: bool = False) -> float:
    """The next 1, 2 or 5 times a power of ten, below or above."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = [base * power for base in (0.5, 1, 2, 5, 10, 20)]
    return min(step for step in steps if step >= value * 1.05) if up else max(step for step in steps if step <= value / 1.05)


def _log_ticks(low: float, high: float) -> dict[float, str]:
    """1, 2 and 5 times powers of ten; where that is more than five, powers of ten alone."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [base * 10.0**power for power in powers for base in (1, 2, 5) if low * 0.99 <= base * 10.0**power <= high * 1.01]
    if len(values) > 5:
        return decades(low, high)
    return {value: f"{value:.4g}" for value in values}


def _round_ticks(most: float, unit: str = "") -> dict[float, str]:
    """Round numbers from 0 to `most`, four to seven of them."""
    power = 10.0 ** math.floor(math.log10(most))
    step = next(step for base in (0.1, 0.2, 0.25, 0.5, 1, 2) if most / (step := base * power) <= 6)
    return {n * step: f"{n * step:,.6g}{unit}" for n in range(int(most / step) + 1)}
