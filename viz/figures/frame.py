"""What all figures share: the plain layout, pairs of axes for tokens, sizes, and the colours that follow the page's theme.

Theme. A figure is built for the light page. All of it that must change on the dark page is in its layout, and
`layout.meta["theme"]` holds both sets as flat attribute paths, so the page swaps them without asking the server:

    Plotly.relayout(gd, gd.layout.meta.theme.dark)         // or .light

or, before drawing, sets the same paths on the layout. In Python: `figure.plotly_relayout(figure.layout.meta["theme"]["dark"])`.

Double click. The page's plot needs the setting `doubleClick: "autosize"`: under "reset" Plotly goes back to the range of the first
figure ever drawn there, which is another sentence's.

Size. `layout.height` suits the number of rows; the width is the page's. `layout.meta` holds `min_width` (narrower, and labels would
run into each other: let the frame scroll), `min_height`, and `max_width` (wider, and cells would be more than twice as wide as high).

Token axes. Labels on a picture are short and, in long sentences, thinned; hover needs every token in full. Plotly takes both
from the axis (`tickvals`/`ticktext`), so there are two axes over the same range: `x`/`y` carry the data and the full text of every
position and print nothing; `x2`/`y2` carry the printed labels. That is one string per position, where texts in customdata would be
one per cell (a map of 120 x 120: 15 kB instead of 400 kB). A repeated token is no trouble, since positions are integers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from viz.figures.colors import LIGHT, THEMES, ColorScale
from viz.figures.labels import Label, text_width

FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif'
TOKEN_SIZE = 13  # px
NOTE_SIZE = 12  # px, the smallest there is
LABEL_PITCH = 16  # px from one label to the next; where cells are smaller, labels are thinned
MIN_SIDE = 320  # px, the narrowest figure
EDGE = 12  # px of air at the left and right
HEADER = 60  # px above a map and its labels

# Buttons that double what dragging and double-clicking do, or make no sense here.
_REMOVED_BUTTONS = ["zoom", "pan", "select", "lasso", "zoomIn", "zoomOut", "autoScale", "toggleSpikelines", "hoverClosest", "hoverCompare"]


def base_layout(height: float, uirevision: str | None) -> dict:
    """Layout without Plotly's template (6.5 kB), without a background, in the interface's font, for the light page.

    uirevision: zoom survives a new figure while this stays the same, so it names the sentence and the shape, not the head.
    """
    return {
        "template": "none",
        "autosize": True,
        "height": whole(height),
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": TOKEN_SIZE, "color": LIGHT.ink},
        "hoverlabel": {"align": "left", "font": {"family": FONT, "size": TOKEN_SIZE}, "namelength": -1},
        "modebar": {"remove": _REMOVED_BUTTONS, "bgcolor": "rgba(0,0,0,0)"},
        "dragmode": "zoom",
        "showlegend": False,
        "uirevision": uirevision,
    }


def whole(pixels: float) -> int:
    """The nearest whole number, of two equally near ones the lower: the page, which adds up widths in another order, finds the same."""
    return math.floor(pixels + 0.5 - 1e-6)


def cell_size(count: int, comfortable: float, room: float, smallest: float = 6) -> float:
    """Side of a cell in px: `comfortable` while `count` of them fit into `room`, then what fits, never under `smallest`."""
    return max(min(comfortable, room / count), smallest)


def hidden_axis(hover: Sequence[str], reverse: bool = False) -> dict:
    """Axis that carries the data and, for hover, one text per position; prints nothing."""
    low, high = -0.5, len(hover) - 0.5
    return {
        **_bare_axis(),
        "range": [high, low] if reverse else [low, high],
        "autorangeoptions": {"clipmin": low, "clipmax": high},
        "tickmode": "array",
        "tickvals": list(range(len(hover))),
        "ticktext": list(hover),
        "showticklabels": False,
    }


def label_axis(labels: Sequence[Label], cell: float, over: str, **settings: object) -> dict:
    """Axis that prints labels over the same range as the axis named `over` ("x" or "y"): all, or every nth if `cell` px is too little."""
    shown = range(0, len(labels), max(1, math.ceil(LABEL_PITCH / cell - 1e-9)))
    return {
        **_bare_axis(),
        "matches": over,
        "overlaying": over,
        "tickmode": "array",
        "tickfont": {"size": TOKEN_SIZE if cell >= 20 else NOTE_SIZE},
        "tickvals": list(shown),
        "ticktext": [labels[i].short for i in shown],
        "ticklabelstandoff": 5,
        # Margins have room for every label, so none has to be measured to see whether it fits: with 60 labels that is most of a drawing.
        "ticklabeloverflow": "allow",
        "automargin": True,
        **settings,
    }


def number_axis(count: int, over: str, most: int = 9) -> dict:
    """Axis that prints at most `most` round numbers of 0 ... count - 1 over the same range as the axis named `over`."""
    step = next(base * 10**power for power in range(9) for base in (1, 2, 5) if count <= most * base * 10**power)
    return {
        **_bare_axis(),
        "matches": over,
        "overlaying": over,
        "tickmode": "array",
        "tickvals": list(range(0, count, step)),
        "tickfont": {"size": NOTE_SIZE},
        "ticklabelstandoff": 5,
        "automargin": True,
    }


def axis_title(text: str) -> dict:
    return {"text": text, "standoff": 8, "font": {"size": NOTE_SIZE}}


def light(figure: go.Figure) -> go.Figure:
    """The figure with its light theme set: what it is before the page says otherwise."""
    figure.plotly_relayout(figure.layout.meta["theme"]["light"])
    return figure


def _bare_axis() -> dict:
    return {"showgrid": False, "zeroline": False, "showline": False, "ticks": ""}


@dataclass(frozen=True)
class Header:
    """What stands above a map, HEADER px high: title (what rows, columns and colours are), coloraxis and the trace that carries it."""

    title: dict
    coloraxis: dict
    carrier: go.Scatter


def header(row: str, column: str, scale: str, ticks: dict[float, str], ramps: dict[str, ColorScale]) -> Header:
    """Sentences on rows, columns and colours at the left, a thin scale from the lowest to the highest of `ticks` at the right.

    The scale hangs on a trace without points: the map's own colours are see-through, and Plotly paints scales opaque. The trace
    lies on `x2`/`y2`, which makes Plotly draw the label axes. The sentences are the layout's title, for which margins make room: the
    name of the scale among them, as beside the scale there is no room for it on a narrow page.
    """
    end = whole(2 + NOTE_SIZE * text_width(ticks[max(ticks)]) / 2)  # the last number stands around the end of the scale
    length = (52 if len(ticks) < 4 else 88) + 2 * end
    title = {
        "text": "<br>".join((f"↓ {row}", f"→ {column}", scale)),
        "font": {"size": NOTE_SIZE, "color": LIGHT.muted},
        "xref": "container",
        "x": 0,
        "xanchor": "left",
        "yref": "container",
        "y": 1,
        "yanchor": "top",
        "pad": {"l": EDGE, "t": 20, "b": 8},
        "automargin": True,
    }
    bar = {
        "orientation": "h",
        "thickness": 6,
        "lenmode": "pixels",
        "len": length,
        "x": 1,
        "xanchor": "right",
        "xpad": end,
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "ypad": 10,
        "outlinewidth": 0,
        "ticks": "",
        "tickvals": list(ticks),
        "ticktext": list(ticks.values()),
        "tickangle": 0,
        "tickfont": {"size": NOTE_SIZE},
        "ticklabeloverflow": "allow",
    }
    marker = {"coloraxis": "coloraxis", "color": [min(ticks)]}
    carrier = go.Scatter(x=[None], y=[None], xaxis="x2", yaxis="y2", mode="markers", marker=marker, hoverinfo="skip")
    coloraxis = {"cmin": min(ticks), "cmax": max(ticks), "colorscale": ramps["light"], "colorbar": bar}
    return Header(title, coloraxis, carrier)


def note(text: str, **settings: object) -> dict:
    """Quiet text beside a picture, as a Plotly annotation anchored to the figure's top left."""
    return {
        "text": text,
        "showarrow": False,
        "align": "left",
        "xref": "paper",
        "yref": "paper",
        "x": 0,
        "xanchor": "left",
        "y": 1,
        "yanchor": "bottom",
        "font": {"size": NOTE_SIZE, "color": LIGHT.muted},
        **settings,
    }


def folded(text: str, room: float = MIN_SIDE - 70) -> str:
    """A note on two lines where one would not fit into `room` px: Plotly folds nothing, and what is too long is cut at the edge.

    It is cut after a mark, else at a space, where both lines are nearest to one length.
    """
    if NOTE_SIZE * text_width(text) <= room:
        return text
    for places in (r"[:;,：；，]\s*", r"\s+"):
        pairs = [(text[: cut.end()].rstrip(), text[cut.end() :]) for cut in re.finditer(places, text)]
        pairs = [pair for pair in pairs if pair[1]]
        if pairs:
            best = min(pairs, key=lambda pair: max(map(text_width, pair)))
            if NOTE_SIZE * max(map(text_width, best)) <= room or places == r"\s+":
                return "<br>".join(best)
    return text


def theme_paths(ramps: dict[str, ColorScale] | None = None, notes: int = 0, lines: Sequence[str] = ()) -> dict[str, dict[str, object]]:
    """Both themes' colours as flat layout paths. ramps: scale above the map; notes: how many annotations; lines: paths of rule colours."""
    both = {}
    for name, theme in THEMES.items():
        paths: dict[str, object] = {
            "font.color": theme.ink,
            "hoverlabel.bgcolor": theme.hover,
            "hoverlabel.bordercolor": theme.line,
            "hoverlabel.font.color": theme.ink,
            "modebar.color": theme.muted,
            "modebar.activecolor": theme.ink,
        }
        if ramps:
            paths["coloraxis.colorscale"] = ramps[name]
            paths["coloraxis.colorbar.tickfont.color"] = theme.muted
            paths["title.font.color"] = theme.muted
        paths.update({f"annotations[{i}].font.color": theme.muted for i in range(notes)})
        paths.update(dict.fromkeys(lines, theme.line))
        both[name] = paths
    return both
