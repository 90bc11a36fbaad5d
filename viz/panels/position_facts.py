"""Two sections of Positions on what the table does: how long each wave is, and how alike two places are by their distance.

Handlers first: plain functions that take what the page sent and return what the page shows, callable without a browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from model.analysis.position_facts import first_rise, pair_changes, rise_at, rises, similarity, wavelengths
from model.config import PRESETS
from viz.components import PlotlyView, view_value
from viz.figures.position_facts import (
    MatrixTexts,
    SimilarityTexts,
    StepTexts,
    WavelengthTexts,
    pair_steps,
    similarity_curve,
    similarity_matrix,
    wavelength_figure,
)
from viz.page import static_block
from viz.panels.choice import as_mapping, language_of, whole_number
from viz.panels.notice import notice
from viz.panels.position_section import NOTICE, Said, ask_server, current_run, decimals, of_model, section, tiny
from viz.panels.position_table import MAX_LENGTH
from viz.runs import RunCache
from viz.text import say

if TYPE_CHECKING:
    from model.translator import Translator

LEAST_DISTANCES = 50  # so far the curve goes in any case, if the model has so many positions
BEYOND = 4  # and at least so many times as far as the first rise
PAPER_WIDTH = PRESETS["base"].d_model
SLOW = 10_000  # positions: pairs with a longer wave hardly move in any sentence


# --- wavelengths ---


def wavelength_views(translator: Translator, num_tokens: int | None, language: str) -> tuple[str, Said]:
    """The picture, and what it says in numbers. num_tokens: of the sentence on the page; None if there is none."""
    config = translator.config
    long = wavelengths(translator.positional_encoding(2), config.position_layout)
    marks = [(config.max_len, say(language, "positions.wavelengths.longest", count=config.max_len))]
    if num_tokens is not None:
        marks.append((num_tokens, say(language, "positions.wavelengths.sentence", count=num_tokens)))
    texts = WavelengthTexts(*(say(language, f"positions.{name}") for name in ("hover.dimension", "hover.wavelength", "sine", "cosine")))
    figure = wavelength_figure(long, layout=config.position_layout, marks=marks, texts=texts)
    said = [{"key": "positions.wavelengths.said", "params": {
        "pairs": len(long), "shortest": f"{long[0]:.2f}", "longest": f"{long[-1]:,.0f}", "limit": config.max_len,
        "inside": int((long <= config.max_len - 1).sum()), "slow": int((long > SLOW).sum()), "bound": f"{SLOW:,}",
    }}]
    if num_tokens is not None:
        inside = int((long <= num_tokens - 1).sum())
        said.append({"key": "positions.wavelengths.said.sentence", "params": {"tokens": num_tokens, "inside": inside}})
    alternative = say(language, "alt.wavelengths", dimensions=config.d_model, shortest=f"{long[0]:.1f}", longest=f"{long[-1]:,.0f}")
    return view_value({language: figure}, {language: alternative}), said


def draw_wavelengths(runs: RunCache, result: object, store: object) -> tuple[Any, Any, Any]:
    """Message, picture and lines; on an error the message alone."""
    try:
        run = current_run(runs, result, store)
        return None, *wavelength_views(of_model(runs, store), None if run is None else len(run.translation.src_tokens), language_of(store))
    except Exception as error:
        return notice(error), gr.skip(), gr.skip()


# --- distance ---


@dataclass(frozen=True)
class DistanceChoice:
    """length: rows of the matrix. distance: the step that is taken apart ends there; None for that of the first rise."""

    length: int
    distance: int | None

    @classmethod
    def from_page(cls, store: object, max_len: int) -> DistanceChoice:
        """The choice in a page's store. Raises InvalidSettingError."""
        chosen = as_mapping(as_mapping(store).get("positions"))
        distance = chosen.get("distance")
        checked = None if distance is None else whole_number("distance", distance, 1, max_len - 1)
        return cls(whole_number("positions", chosen.get("length"), 2, min(MAX_LENGTH, max_len)), checked)


def shown_distances(max_len: int, first: int | None) -> int:
    """How far the curve goes: past the first rise, where there is one."""
    return min(max_len - 1, max(LEAST_DISTANCES, BEYOND * (first or 0)))


def distance_views(translator: Translator, choice: DistanceChoice, language: str) -> tuple[str, str, str, dict[str, Any]]:
    """Curve, pairs of one step, matrix; and {said, first, last, distance}: lines, first rise, how far the curve goes, step shown."""
    config = translator.config
    table = translator.positional_encoding(config.max_len)
    found = similarity(table)
    first = first_rise(found.dot)
    last = shown_distances(config.max_len, first)
    distance = min(choice.distance or first or 1, last)
    climbing = [(start, min(end, last)) for start, end in rises(found.dot) if start < last]

    def words(*names: str) -> list[str]:
        return [say(language, f"positions.distance.{name}") for name in names]

    beside = say(language, "positions.distance.first") if distance == first else "{k}"
    texts = SimilarityTexts(*words("axis", "cosine", "dot"), first=beside)
    curve = similarity_curve(found.dot[: last + 1], scale=found.scale, rises=climbing, marked=distance, texts=texts, uirevision=str(last))
    changes = pair_changes(table, config.position_layout, distance)
    title = say(language, "positions.distance.step", before=distance - 1, after=distance, sum=decimals(changes.sum(), 4, "+"))
    texts = StepTexts(*words("pair"), say(language, "positions.hover.wavelength"), *words("change"), title)
    steps = pair_steps(changes, wavelengths(table, config.position_layout), texts=texts)
    texts = MatrixTexts(*words("row", "column", "cosine"), say(language, "positions.hover.position"), *words("cosine"))
    matrix = similarity_matrix(table[: choice.length], texts=texts, uirevision=str(choice.length))

    params = {"first": first, "spread": tiny(found.spread), "limit": config.max_len}
    params |= {"paper": rise_at(PAPER_WIDTH), "paper_width": PAPER_WIDTH}
    said = [{"key": "positions.distance.said", "params": params}]
    said.append({"key": "positions.distance.said.first" if first else "positions.distance.said.none", "params": params})
    near, far = (decimals(found.cosine[min(k, last)], 2) for k in (1, last))
    alternatives = (
        say(language, "alt.similarity", last=last, near=near, far=far, first=first or "–"),
        title,
        say(language, "alt.similarity_matrix", rows=choice.length),
    )
    views = (view_value({language: figure}, {language: text}) for figure, text in zip((curve, steps, matrix), alternatives, strict=True))
    return *views, {"said": said, "first": first, "last": last, "distance": distance}


def draw_distance(runs: RunCache, result: object, store: object) -> tuple[Any, Any, Any, Any, Any]:
    """Message, the three pictures and what stands beside them; on an error the message alone."""
    del result
    try:
        translator = of_model(runs, store)
        choice = DistanceChoice.from_page(store, translator.config.max_len)
        return None, *distance_views(translator, choice, language_of(store))
    except Exception as error:
        return notice(error), *(gr.skip() for _ in range(4))


# --- layout ---

_WAVELENGTHS_FOOT = """
<div class="map-foot"><div data-said></div>
  <details><summary data-t="more.open"></summary><p data-t="positions.wavelengths.more"></p>
    <p class="formula">λ<sub><i>i</i></sub> = 2π · 10000<sup>2<i>i</i>/<i>d</i></sup></p></details></div>
"""
_DISTANCE_BAR = """
<div class="section-bar"><div class="option wide"><label class="option-name" for="positions-distance"><span
  data-t="positions.distance.choose"></span> <output data-shown></output></label><input type="range" id="positions-distance" min="1"></div>
  <button type="button" class="plain" data-first data-t="positions.distance.back"></button></div>
"""
_DISTANCE_FOOT = """
<div class="map-foot"><div data-said></div>
  <details><summary data-t="more.open"></summary><p data-t="positions.distance.more"></p>
    <p class="formula">PE(<i>p</i>) · PE(<i>p</i>+<i>k</i>) = ∑<sub><i>i</i></sub> cos(<i>k</i> / 10000<sup>2<i>i</i>/<i>d</i></sup>)</p>
  </details></div>
"""


def build_wavelengths(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """The section on wavelengths, inside the current column."""
    with section("wavelengths"):
        message = static_block(NOTICE, "atlas.notice(element, props, watch)", "wavelengths-notice")
        plot = PlotlyView(label_key="positions.wavelengths.title", elem_id="wavelengths-plot", css_class="plot-wavelengths")
        lines = static_block(_WAVELENGTHS_FOOT, "atlas.positions.wavelengths(element, props, watch)", "wavelengths-foot", [])
    ask_server(bridge, "position_wavelengths", draw_wavelengths, runs, result, [message, plot, lines])


def build_distance(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """The section on distance, inside the current column."""
    with section("distance"):
        message = static_block(NOTICE, "atlas.notice(element, props, watch)", "distance-notice")
        curve = PlotlyView(label_key="positions.distance.title", elem_id="distance-curve", css_class="plot-similarity")
        static_block(_DISTANCE_BAR, "atlas.positions.distanceBar(element)", "distance-bar")
        with gr.Column(elem_id="distance-pair"):
            steps = PlotlyView(label_key="positions.distance.steps.label", elem_id="distance-steps", css_class="plot-similarity")
            matrix = PlotlyView(label_key="positions.distance.matrix.label", elem_id="distance-matrix", css_class="plot-similarity")
        facts = static_block(_DISTANCE_FOOT, "atlas.positions.distance(element, props, watch)", "distance-foot", {})
    ask_server(bridge, "position_distance", draw_distance, runs, result, [message, curve, steps, matrix, facts])
