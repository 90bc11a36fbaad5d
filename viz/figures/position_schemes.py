"""What schemes of positions do to a score, on the same axes: added sines and cosines, learned rows, rotary positions, ALiBi's slopes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.figures import frame
from viz.figures.colors import LEARNED_COLOR, LIGHT, MASK_COLOR, NEGATIVE_COLOR, POSITIVE_COLOR, rgba
from viz.figures.labels import text_width

LOWEST = -10.0  # a score lower by ten is a weight smaller by e^10, over twenty thousand times
LINES_WIDTH = 330  # px at the least for axis and lines, without the names at their right


@dataclass(frozen=True)
class SchemeTexts:
    """distance, score: of the axes. added, rotary, learned: of their lines. slope: of one ALiBi line, with {head} and {slope}."""

    distance: str
    score: str
    added: str
    rotary: str
    slope: str
    learned: str = ""


def scheme_figure(
    added: np.ndarray,
    rotary: np.ndarray | None,
    alibi: np.ndarray,
    *,
    texts: SchemeTexts,
    learned: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    uirevision: str | None = None,
) -> go.Figure:
    """Scores by distance, less the score at distance 0. Traces: each head of `alibi` [H, N], then `added` [N], then `rotary` [N] if any,
    then of `learned`, if any, the mean and a band: its lowest and its highest.

    N distances 0 .. N - 1. learned: mean, lowest and highest over all places, [M] each, M <= N, as far as there are rows.
    Every line is named at its right end, or where it leaves the picture below; of ALiBi's the first and the last.
    Raises ValueError if the lengths differ.
    """
    count = len(added)
    if alibi.ndim != 2 or alibi.shape[1] != count or (rotary is not None and len(rotary) != count):
        others = [alibi.shape, *([] if rotary is None else [len(rotary)])]
        raise ValueError(f"The added code has {count} distances, the others {others}.")
    if learned is not None and (len({len(each) for each in learned}) > 1 or not 1 <= len(learned[0]) <= count):
        raise ValueError(f"The added code has {count} distances, the learned one {[len(each) for each in learned]}.")
    distances = np.arange(count, dtype=np.int16)
    lines = [
        (texts.slope.format(head=head, slope=_fraction(-scores[1]) if count > 1 else ""), scores, {"color": MASK_COLOR, "width": 1})
        for head, scores in enumerate(alibi)
    ]
    named = {0, len(alibi) - 1}
    named.add(len(lines))
    lines.append((texts.added, np.asarray(added), {"color": POSITIVE_COLOR, "width": 2.5}))
    if rotary is not None:
        named.add(len(lines))
        lines.append((texts.rotary, np.asarray(rotary), {"color": NEGATIVE_COLOR, "width": 2.5}))
    if learned is not None:
        named.add(len(lines))
        lines.append((texts.learned, np.asarray(learned[0]), {"color": LEARNED_COLOR, "width": 2.5}))
    traces = [
        go.Scatter(
            x=distances[: len(values)],
            y=values.astype(np.float64),
            name=name,
            mode="lines",
            line=line,
            hovertemplate=f"{name}<br>{texts.distance} %{{x}}: <b>%{{y:.3f}}</b><extra></extra>",
        )
        for name, values, line in lines
    ]
    if learned is not None:
        traces += [_edge(distances, values, filled) for values, filled in ((learned[1], False), (learned[2], True))]
    height = 380
    names = frame.whole(8 + frame.EDGE + frame.NOTE_SIZE * max(text_width(lines[i][0]) for i in named))  # px
    figure_layout = frame.base_layout(height, uirevision) | {
        "margin": {"l": 56, "r": names, "t": 14, "b": 46},
        "xaxis": _axis(texts.distance, [0, count - 1]),
        "yaxis": {**_axis(texts.score, [LOWEST, 0.6]), "showgrid": True},
        "annotations": _names([(lines[i][0], lines[i][1]) for i in sorted(named)], count),
        "hovermode": "closest",
        "meta": {
            "kind": "schemes",
            "min_width": LINES_WIDTH + names,
            "min_height": height,
            "theme": frame.theme_paths(notes=len(named), lines=["yaxis.gridcolor"]),
        },
    }
    return frame.light(go.Figure(data=traces, layout=figure_layout))


def _edge(distances: np.ndarray, values: np.ndarray, filled: bool) -> go.Scatter:
    """One edge of the band; the second is filled down to the first."""
    return go.Scatter(
        x=distances[: len(values)],
        y=np.asarray(values, dtype=np.float64),
        mode="lines",
        line={"width": 0, "color": LEARNED_COLOR},
        fill="tonexty" if filled else None,
        fillcolor=rgba(LEARNED_COLOR, 0.14),
        hoverinfo="skip",
    )


def _names(lines: list[tuple[str, np.ndarray]], count: int) -> list[dict]:
    """A name at the end of each line. Two that end close together are pushed apart."""
    notes, taken = [], []
    for text, values in sorted(lines, key=lambda line: -line[1][-1]):
        below = np.flatnonzero(values < LOWEST)
        if len(below):  # named where it leaves the picture
            notes.append(frame.note(text, xref="x", x=int(below[0]), xanchor="right", yref="y", y=LOWEST, xshift=-22, yshift=2))
            continue
        y = float(values[-1])
        if len(values) < count:  # ends inside the picture: named above its end, clear of the lines that go on
            notes.append(frame.note(text, xref="x", x=len(values) - 1, xanchor="right", yref="y", y=y, yshift=3))
            continue
        while any(abs(y - other) < 0.55 for other in taken):
            y -= 0.1
        taken.append(y)
        notes.append(frame.note(text, xref="x", x=count - 1, yref="y", y=y, yanchor="middle", xshift=8))
    return notes


def _fraction(slope: float) -> str:
    """A slope as one over a whole number where it is one, else to three digits."""
    whole = round(1 / slope)
    return f"1/{whole}" if abs(slope * whole - 1) < 1e-9 else f"{slope:.3g}"


def _axis(title: str, span: list[float]) -> dict:
    return {
        "range": span,
        "title": frame.axis_title(title),
        "tickfont": {"size": frame.NOTE_SIZE},
        "showgrid": False,
        "gridcolor": LIGHT.line,
        "zeroline": False,
        "ticks": "",
        "ticklabelstandoff": 4,
    }
