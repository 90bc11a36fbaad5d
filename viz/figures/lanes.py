"""Several quantities over one axis, one lane under the other: each has its own scale, so nothing is squeezed and lines of different
things never cross. Readable on a phone as on a wide screen.

Lines of one lane are told apart by colour and dash; what they stand for is said beside the figure by the page (`viz.panels`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.figures import frame
from viz.figures.colors import LIGHT

LANE, NAME, END = 158, 26, 142  # px: a lane; where its name ends and its plot begins; where the plot ends
LEFT, RIGHT, BELOW = 56, 18, 44  # px around the lanes


@dataclass(frozen=True)
class Axis:
    """Of a lane (upward) or of the figure (across). low, high: where it ends. ticks: what is printed at which value. Values, never logs."""

    low: float
    high: float
    ticks: Mapping[float, str]
    log: bool = False
    title: str = ""

    def settings(self) -> dict:
        """Plotly's, without grid. Raises ValueError for a log axis that does not begin above zero, or an empty one."""
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"an axis cannot go from {self.low} to {self.high}")
        ends = [math.log10(self.low), math.log10(self.high)] if self.log else [self.low, self.high]
        return {
            "type": "log" if self.log else "linear",
            "range": ends,
            "tickmode": "array",
            "tickvals": list(self.ticks),
            "ticktext": list(self.ticks.values()),
            "tickfont": {"size": frame.NOTE_SIZE},
            "ticks": "",
            "zeroline": False,
            "showspikes": False,
            "minor": {"ticks": ""},
        }


@dataclass(frozen=True)
class Lane:
    """axis: upward; its title is the lane's name. traces: lines and points, whose `yaxis` is set here."""

    axis: Axis
    traces: Sequence[go.Scatter]


def lanes(parts: Sequence[Lane], across: Axis, *, hover: str = "x", uirevision: str | None = None) -> go.Figure:
    """The lanes in order, the first on top. hover: Plotly's `hovermode`. Raises ValueError for no lane."""
    if not parts:
        raise ValueError("there must be at least one lane")
    share = 1 / len(parts)
    traces, axes, names, rules = [], {}, [], []
    for n, lane in enumerate(parts):
        number = "" if n == 0 else str(n + 1)
        top = 1 - n * share
        axes[f"yaxis{number}"] = {
            **lane.axis.settings(),
            "domain": [max(0.0, top - END / LANE * share), top - NAME / LANE * share],
            "anchor": "x",
            "fixedrange": True,
            "showgrid": True,
            "gridcolor": LIGHT.line,
            "gridwidth": 1,
        }
        rules.append(f"yaxis{number}.gridcolor")
        names.append(frame.note(lane.axis.title, y=top - (NAME - 6) / LANE * share))
        for trace in lane.traces:
            trace.yaxis = f"y{number}"
            traces.append(trace)
    height = LANE * len(parts) + BELOW
    layout = frame.base_layout(height, uirevision)
    layout |= {
        **axes,
        "margin": {"l": LEFT, "r": RIGHT, "t": 4, "b": BELOW},
        "xaxis": {
            **across.settings(),
            "anchor": "free",
            "position": 0,
            "side": "bottom",
            "showgrid": False,
            "title": frame.axis_title(across.title),
        },
        "hovermode": hover,
        "hoversubplots": "axis",
        "annotations": names,
        "meta": {
            "kind": "lanes",
            "min_width": frame.MIN_SIDE,
            "min_height": height,
            "theme": frame.theme_paths(notes=len(names), lines=rules),
        },
    }
    return frame.light(go.Figure(data=traces, layout=layout))


def decades(low: float, high: float, text: Mapping[float, str] | None = None) -> dict[float, str]:
    """Powers of ten from low to high as ticks; `text` may name some otherwise."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    values = [10.0**power for power in range(first, last + 1)]
    return {value: (text or {}).get(value, f"{value:,.10g}") for value in values}
