"""One attention map as a figure in the reader's language: the bridge from a choice to `viz.figures`. No Gradio here."""

from __future__ import annotations

from dataclasses import asdict
from html import unescape

import numpy as np
import plotly.graph_objects as go

from viz.components import view_value
from viz.figures.attention_heatmap import HeatmapTexts, attention_heatmap
from viz.figures.labels import LabelTexts, token_labels
from viz.panels.choice import MapChoice, maps_of
from viz.runs import Run
from viz.text import say

SENTENCES_IN_WORDS = 40  # of a long map, only so many rows are told


def label_texts(language: str) -> LabelTexts:
    """How special tokens are called on pictures."""
    return LabelTexts(**{name: say(language, f"token.{name}") for name in ("start", "end", "unknown", "padding", "empty")})


def heatmap_texts(choice: MapChoice, num_heads: int, language: str) -> HeatmapTexts:
    """Every word on the heat map of this choice."""
    rows = "encoder_self" if choice.kind == "encoder_self" else choice.rows
    return HeatmapTexts(
        row=say(language, f"map.row.{rows}"),
        column=say(language, "map.column"),
        query_axis="",
        key_axis="",
        query=say(language, f"map.hover.{rows}"),
        key=say(language, "map.hover.key"),
        weight=say(language, "map.hover.weight"),
        masked=say(language, "map.hover.masked"),
        scale=say(language, "map.scale.max" if choice.head == "max" else "map.scale", count=num_heads),
    )


def map_figure(run: Run, choice: MapChoice, language: str) -> go.Figure:
    """The heat map of one choice. Zoom survives another head or layer of the same shape, not another sentence."""
    rows, columns = choice.row_tokens(run.trace), choice.column_tokens(run.trace)
    names = label_texts(language)
    return attention_heatmap(
        choice.weights(run.trace),
        token_labels(rows, names),
        token_labels(columns, names),
        kind=choice.kind,
        texts=heatmap_texts(choice, maps_of(run.trace, choice.kind).shape[1], language),
        uirevision=f"{run.request}|{choice.kind}",
    )


def map_view(run: Run, choice: MapChoice, languages: tuple[str, ...]) -> str:
    """The heat map of one choice as the value of a PlotlyView, in each of `languages`."""
    return view_value(
        {language: map_figure(run, choice, language) for language in languages},
        {language: map_in_words(run, choice, language) for language in languages},
        {"request": run.request.as_dict(), **asdict(choice)},
    )


def map_in_words(run: Run, choice: MapChoice, language: str) -> str:
    """The map as sentences for people who cannot see it: for every row the column with the largest weight."""
    weights: np.ndarray = choice.weights(run.trace)
    names = label_texts(language)
    rows, columns = (token_labels(tokens, names) for tokens in (choice.row_tokens(run.trace), choice.column_tokens(run.trace)))
    lines = [
        say(language, "alt.map.line", row=unescape(rows[i].full), column=unescape(columns[j].full), value=f"{weights[i, j]:.2f}")
        for i, j in enumerate(weights.argmax(axis=1)[:SENTENCES_IN_WORDS])
    ]
    if len(rows) > SENTENCES_IN_WORDS:
        lines.append(say(language, "alt.map.more", count=len(rows) - SENTENCES_IN_WORDS))
    return say(language, "alt.map", rows=len(rows), columns=len(columns), lines=("" if language == "zh" else " ").join(lines))
