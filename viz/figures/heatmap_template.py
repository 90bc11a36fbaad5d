"""What the page needs to draw heat maps by itself (static/heatmap.js): everything on an attention heat map that does not depend on the map.

The page gets it once. Colours, fonts, themes and fixed settings are therefore written in Python alone (`attention_heatmap`, `frame`,
`colors`); the page sets only what follows from the weights and the labels, by the rules of `attention_heatmap`, and a browser test holds
the two figures against each other.
"""

from __future__ import annotations

import json

import numpy as np

from viz.figures import frame
from viz.figures.attention_heatmap import LEAST_WITH_GAP, LOG_LOWEST, MAX_STROKES, HeatmapTexts, attention_heatmap
from viz.figures.colors import KIND_COLORS
from viz.figures.labels import text_width

_SIZES = {
    "token": frame.TOKEN_SIZE,
    "note": frame.NOTE_SIZE,
    "pitch": frame.LABEL_PITCH,
    "least": frame.MIN_SIDE,
    "edge": frame.EDGE,
    "header": frame.HEADER,
    "strokes": MAX_STROKES,
    "gap": LEAST_WITH_GAP,
    "log": LOG_LOWEST,
}


def heatmap_template() -> dict[str, object]:
    """{"figures": {kind: figure}, "sizes": numbers in px, "digits": widths in ems of what numbers are written with}.

    Each figure has one masked cell, so that it holds the hatching.
    """
    return {
        "figures": {kind: _figure(kind) for kind in KIND_COLORS},
        "sizes": _SIZES,
        "digits": {char: text_width(char) for char in "0123456789."},
    }


def _figure(kind: str) -> dict[str, object]:
    blank = HeatmapTexts(row="", column="", query_axis="", key_axis="", query="", key="", weight="", masked="", scale="")
    masked = np.array([[False, True]])
    figure = attention_heatmap(np.array([[1.0, 0.0]]), ["a"], ["a", "b"], kind=kind, texts=blank, masked=masked)
    return json.loads(figure.to_json(validate=False))

