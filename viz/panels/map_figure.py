"""One attention map as a figure in the reader's language: the bridge from a choice to `viz.figures`. No Gradio here."""

from __future__ import annotations

import plotly.graph_objects as go

from viz.figures.attention_heatmap import HeatmapTexts, attention_heatmap
from viz.panels.choice import MapChoice, maps_of
from viz.panels.map_view import label_texts, map_view, shown_units
from viz.runs import Run
from viz.text import say

SENTENCES_IN_WORDS = 40  # of a long map, only so many rows are told


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
        scale=say(language, f"map.scale.{choice.colour}", measure=measure_name(choice, num_heads, language), largest="{largest}"),
    )


def measure_name(choice: MapChoice, num_heads: int, language: str) -> str:
    """What the numbers of this choice are, in a word or two."""
    form = choice.head if isinstance(choice.head, str) else "head"
    return say(language, f"map.measure.{form}", count=num_heads)


def map_figure(run: Run, choice: MapChoice, language: str = "en") -> go.Figure:
    """The heat map of one choice. Zoom survives another head, layer or colour, not another sentence or shape.

    Raises InvalidSettingError if the run does not have this map (see `viz.panels.map_view.map_view`).
    """
    view = map_view(run, choice, language)
    return attention_heatmap(
        view.weights,
        view.row_labels,
        view.column_labels,
        kind=choice.kind,
        texts=heatmap_texts(choice, maps_of(run.trace, choice.kind).shape[1], language),
        colour=choice.colour,
        masked=view.masked,
        row_width=_row_width(run, choice, language),
        uirevision=f"{run.request}|{choice.kind}|{choice.units}|{choice.specials}",
    )


def _row_width(run: Run, choice: MapChoice, language: str) -> float:
    """The widest name of a row, in ems, of all maps of this run in these units."""
    sides = (run.trace.src_tokens, run.trace.tgt_in_tokens, run.trace.tgt_out_tokens)
    return max(unit.label.width for tokens in sides for unit in shown_units(tokens, choice, label_texts(language)))


def map_in_words(run: Run, choice: MapChoice, language: str) -> str:
    """The map as sentences for people who cannot see it: for every row the column with the largest weight."""
    view = map_view(run, choice, language)
    rows, columns = view.row_labels, view.column_labels
    lines = [
        say(language, "alt.map.alone", row=rows[i].text)
        if view.masked is not None and view.masked[i, j]
        else say(language, "alt.map.line", row=rows[i].text, column=columns[j].text, value=f"{view.weights[i, j]:.2f}")
        for i, j in enumerate(view.weights.argmax(axis=1)[:SENTENCES_IN_WORDS])
    ]
    if len(rows) > SENTENCES_IN_WORDS:
        lines.append(say(language, "alt.map.more", count=len(rows) - SENTENCES_IN_WORDS))
    return say(language, "alt.map", rows=len(rows), columns=len(columns), lines=("" if language == "zh" else " ").join(lines))
