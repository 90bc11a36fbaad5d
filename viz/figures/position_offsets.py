"""One head's view of positions, by how far key and query are apart: its score from positions alone, and the weight that it really gives."""

# R offsets

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.figures import frame
from viz.figures.colors import MASK_COLOR, THEMES, kind_color, rgba

HEIGHT = 440
ABOVE, BELOW = [0.53, 0.97], [0.0, 0.36]  # shares of the height


@dataclass(frozen=True)
class OffsetTexts:
    """Every word on the figure, in the reader's language.

    offset: the axis that both parts share. score, weight: what the upper and the lower part show, as lines above them.
    mean, lowest, highest, real, alone, at: names in hover.
    """

    offset: str
    score: str
    weight: str
    mean: str
    lowest: str
    highest: str
    real: str
    alone: str
    at: str


def position_offsets(
    offsets: np.ndarray,
    mean: np.ndarray,
    lowest: np.ndarray,
    highest: np.ndarray,
    real: np.ndarray,
    alone: np.ndarray,
    *,
    kind: str,
    texts: OffsetTexts,
    uirevision: str | None = None,
) -> go.Figure:
    """Above, the score at each offset [R] with the range it has over the places; below, mean weights of the real map and of positions
    alone, NaN where the sentence is too short. Traces: range, mean, real, alone.

    Raises ValueError for arrays of different length, a range that does not hold its mean, or an unknown kind.
    """
    color = kind_color(kind)
    offsets = np.asarray(offsets, np.int16)
    arrays = [np.asarray(each, np.float32) for each in (mean, lowest, highest, real, alone)]
    for values in arrays:
        if values.shape != offsets.shape or offsets.ndim != 1:
            raise ValueError(f"There are {offsets.shape} offsets, but values of shape {values.shape}.")
    mean, lowest, highest, real, alone = arrays
    slack = 1e-4 * (1 + np.abs(mean))
    if not np.isfinite(np.stack([mean, lowest, highest])).all() or (lowest > mean + slack).any() or (mean > highest + slack).any():
        raise ValueError("Each score must lie between the lowest and the highest of its offset.")

    at = f"{texts.at} <b>%{{x}}</b><br>"
    grey = rgba(MASK_COLOR, 0.22)
    span = go.Scatter(
        x=np.concatenate([offsets, offsets[::-1]]),
        y=np.concatenate([highest, lowest[::-1]]),
        yaxis="y",
        mode="none",
        fill="toself",
        fillcolor=grey,
        hoverinfo="skip",
    )
    middle = go.Scatter(
        x=offsets,
        y=mean,
        yaxis="y",
        mode="lines+markers",
        line={"width": 2},
        marker={"size": 5},
        customdata=np.stack([lowest, highest], axis=1),
        hovertemplate=f"{at}{texts.mean} <b>%{{y:.4f}}</b><br>{texts.lowest} %{{customdata[0]:.4f}} · "
        f"{texts.highest} %{{customdata[1]:.4f}}<extra></extra>",
    )
    here = np.isfinite(real)
    guess = go.Scatter(
        x=offsets[here],
        y=alone[here],
        yaxis="y2",
        mode="markers",
        name=texts.alone,
        marker={"symbol": "circle-open", "size": 9, "line": {"width": 1.6}},
        hovertemplate=f"{at}{texts.alone} <b>%{{y:.4f}}</b><extra></extra>",
    )
    bars = go.Bar(
        x=offsets[here],
        y=real[here],
        yaxis="y2",
        width=0.55,
        name=texts.real,
        marker={"color": color, "line": {"width": 0}},
        hovertemplate=f"{at}{texts.real} <b>%{{y:.4f}}</b><extra></extra>",
    )
    ticks = [int(offset) for offset in offsets if len(offsets) <= 12 or offset % 8 == 0]
    top = max(float(np.nanmax(real, initial=0)), float(np.nanmax(alone, initial=0)), 1e-6)
    low, high = float(lowest.min()), float(highest.max())
    pad = 0.06 * max(high - low, 1e-6)
    layout = frame.base_layout(HEIGHT, uirevision)
    layout |= {
        "margin": {"l": 44, "r": 14, "t": 26, "b": 44},
        "xaxis": {
            "range": [float(offsets[0]) - 0.7, float(offsets[-1]) + 0.7],
            "title": frame.axis_title(texts.offset),
            "anchor": "y2",
            "tickfont": {"size": frame.NOTE_SIZE},
            "ticks": "",
            "tickmode": "array",
            "tickvals": ticks,
            "ticktext": [f"{tick:+d}".replace("-", "−") if tick else "0" for tick in ticks],
            "showgrid": False,
            "zeroline": True,
            "zerolinewidth": 1,
            "fixedrange": True,
        },
        "yaxis": {**_value_axis(ABOVE), "range": [low - pad, high + pad]},
        "yaxis2": {**_value_axis(BELOW), "range": [0, 1.1 * top]},
        "annotations": [frame.note(frame.folded(texts.score), y=ABOVE[1]), frame.note(frame.folded(texts.weight), y=BELOW[1])],
        "hovermode": "closest",
        "meta": {"kind": kind, "min_width": frame.MIN_SIDE, "min_height": HEIGHT, "theme": _theme()},
    }
    return frame.light(go.Figure(data=[span, middle, bars, guess], layout=layout))


def _value_axis(domain: list[float]) -> dict:
    return {
        "domain": domain,
        "anchor": "x",
        "tickfont": {"size": frame.NOTE_SIZE},
        "ticks": "",
        "nticks": 5,
        "showgrid": True,
        "gridwidth": 1,
        "zeroline": True,
        "zerolinewidth": 1,
        "fixedrange": True,
    }


def _theme() -> dict[str, dict[str, object]]:
    lines = [f"{axis}.{part}" for axis in ("yaxis", "yaxis2") for part in ("gridcolor", "zerolinecolor")]
    both = frame.theme_paths(notes=2, lines=(*lines, "xaxis.zerolinecolor"))
    for name, theme in THEMES.items():
        both[name]["colorway"] = [theme.ink] * 4
    return both
