"""Positions in the visitor's sentence, four sections of the Positions tab: lengths of what is added, one word at two places, a head's view
of positions, and the words in another order.

Handlers first: plain functions that take what the page sent and return what the page shows, callable without a browser.
"""

from __future__ import annotations

import json
from typing import Any

import gradio as gr
import numpy as np

from model.analysis.position_scores import by_offset, clearest_head, overlap, position_scores
from model.analysis.position_sentence import input_lengths, likeness
from model.analysis.word_order import Orders, read_orders, token_order
from viz.components import PlotlyView, root, view_value
from viz.figures import position_sentence as figures
from viz.figures.labels import token_labels
from viz.figures.position_offsets import OffsetTexts, position_offsets
from viz.page import report_end, static_block
from viz.panels.choice import as_mapping, language_of, maps_of
from viz.panels.map_view import label_texts, side_units
from viz.panels.maps_value import fixed_point
from viz.panels.notice import notice
from viz.panels.position_choice import (
    MAX_DRAWN,
    MAX_ORDERED,
    NoWeightsError,
    SelfHead,
    TooFewToOrderError,
    TooLongToOrderError,
    order_of,
    places_of,
    repeated,
    side_of,
)
from viz.panels.position_section import NOTICE, decimals, section
from viz.runs import Request, Run, RunCache
from viz.text import say

SECTIONS = ("lengths", "places", "head", "order")  # #at-NAME on the page, texts positions.NAME.title and .lead

_MEANS = ("embedding", "scaled", "position")


# --- handlers: each answers (message, facts, pictures ...), on an error the message alone ---


def run_of(runs: RunCache, result: object) -> Run:
    """The run that the page shows. Raises the typed errors of `model.errors`, and NoWeightsError."""
    request = Request.from_page(as_mapping(result).get("request"))
    if not hasattr(runs.translator_of(request.model), "model"):
        raise NoWeightsError
    return runs.get(request)


def draw_lengths(runs: RunCache, result: object, store: object) -> tuple[Any, Any, Any]:
    """Lengths of embedding and position at every place of one side."""
    try:
        run = run_of(runs, result)
        side, language = side_of(store), language_of(store)
        found = runs.ask(run.request.model, input_lengths, run.translation, side)
        tokens = run.trace.src_tokens if side == "source" else run.trace.tgt_in_tokens
        texts = figures.LengthTexts(*(say(language, f"positions.lengths.{name}") for name in ("axis", "embedding", "scaled", "position")))
        labels = token_labels(tokens, label_texts(language))
        figure = figures.input_lengths(
            found.embedding,
            found.scaled,
            found.position,
            labels,
            uses_factor=found.factor != 1,
            texts=texts,
            uirevision=f"{run.request}{side}",
        )
        facts = {
            "request": run.request.as_dict(),
            "side": side,
            "embedding": float(found.embedding.mean()),
            "scaled": float(found.scaled.mean()),
            "position": float(found.position.mean()),
            "factor": found.factor,
            "sqrt_d": found.sqrt_d,
            "d_model": round(found.sqrt_d**2),
        }
        said = say(language, "positions.lengths.alt", count=len(tokens), **{name: f"{facts[name]:.2f}" for name in _MEANS})
        return None, facts, view_value({language: figure}, {language: said})
    except Exception as error:
        return notice(error), gr.skip(), gr.skip()


def draw_places(runs: RunCache, result: object, store: object) -> tuple[Any, Any, Any]:
    """How alike two places of the source are, stage by stage."""
    try:
        run = run_of(runs, result)
        language = language_of(store)
        first, second = places_of(store, run)
        found = runs.ask(run.request.model, likeness, run.translation, first, second)
        names = [
            say(language, f"positions.stage.{stage}") if not stage.isdigit() else say(language, "positions.stage.layer", layer=stage)
            for stage in found.stages
        ]
        texts = figures.LikenessTexts(
            say(language, "positions.places.axis"), say(language, "positions.with"), say(language, "positions.without"), names
        )
        figure = figures.likeness_lines(found.with_positions, found.without, texts=texts, uirevision=f"{run.request}")
        facts = {
            "request": run.request.as_dict(),
            "places": [first, second],
            "same": run.translation.src_ids[first] == run.translation.src_ids[second],
            "repeated": repeated(run.translation.src_ids),
            "stages": list(found.stages),
            "with": [float(value) for value in found.with_positions],
            "without": [float(value) for value in found.without],
        }
        rows = zip(names, found.with_positions, found.without, strict=True)
        values = ", ".join(f"{name} {decimals(on, 2)} / {decimals(off, 2)}" for name, on, off in rows)
        said = say(language, "positions.places.alt", values=values)
        return None, facts, view_value({language: figure}, {language: said})
    except Exception as error:
        return notice(error), gr.skip(), gr.skip()


def draw_head(runs: RunCache, result: object, store: object) -> tuple[Any, Any, Any]:
    """What one head of self-attention makes of positions alone, and its real map."""
    try:
        run = run_of(runs, result)
        language = language_of(store)
        chosen = SelfHead.from_page(store, run)
        if chosen.head is None:
            maps = maps_of(run.trace, chosen.kind)
            chosen = SelfHead(chosen.kind, *runs.ask(run.request.model, clearest_head, run.translation, chosen.kind, maps, chosen.layer))
        found = runs.ask(run.request.model, position_scores, run.translation, chosen.kind, chosen.layer, chosen.head)
        real = maps_of(run.trace, chosen.kind)[chosen.layer, chosen.head]
        even = np.isfinite(found.scores) / np.isfinite(found.scores).sum(axis=1, keepdims=True)
        weights = by_offset(real, found.offsets)
        most = np.nanargmax(weights)  # the tallest bar of the picture
        names = ("offset", "score", "weight", "mean", "lowest", "highest", "real", "alone", "at")
        figure = position_offsets(
            found.offsets,
            found.mean,
            found.lowest,
            found.highest,
            weights,
            by_offset(found.weights, found.offsets),
            kind=chosen.kind,
            texts=OffsetTexts(*(say(language, f"positions.head.{name}") for name in names)),
            uirevision=f"{run.request}{chosen.kind}",
        )
        drawn = len(real) <= MAX_DRAWN
        facts = {
            "request": run.request.as_dict(),
            "kind": chosen.kind,
            "layer": chosen.layer,
            "head": chosen.head,
            "favourite": int(found.offsets[found.mean.argmax()]),
            "spread": float(found.mean.max() - found.mean.min()),
            "real_favourite": int(found.offsets[most]),
            "real_weight": float(weights[most]),
            "real_pairs": len(real) - abs(int(found.offsets[most])),
            "overlap": overlap(real, found.weights),
            "even": overlap(real, even),
            "real": fixed_point(real) if drawn else None,
            "alone": fixed_point(found.weights) if drawn else None,
            "size": len(real),
            "limit": MAX_DRAWN,
        }
        said = say(language, "positions.head.alt", favourite=f"{facts['favourite']:+d}", real=f"{facts['real_favourite']:+d}")
        return None, json.dumps(facts), view_value({language: figure}, {language: said})
    except Exception as error:
        return notice(error), gr.skip(), gr.skip()


def draw_order(runs: RunCache, result: object, store: object) -> tuple[Any, Any]:
    """The sentence and its words in another order, read and translated with positions and without."""
    try:
        run = run_of(runs, result)
        count = len(run.translation.src_ids)
        if count > MAX_ORDERED:
            raise TooLongToOrderError(count)
        units = side_units(run.trace.src_tokens, "words", label_texts("en"))
        if sum(not unit.special for unit in units) < 2:
            raise TooFewToOrderError
        seed, order = order_of(store, units)
        chosen = SelfHead.from_page(store, run, ("encoder_self",)).neighbourly(run)
        tokens = token_order([(unit.start, unit.stop) for unit in units], order)
        found = runs.ask(run.request.model, read_orders, run.translation, tokens, run.request.beam_size, stoppable=True)
        return None, json.dumps(_order_value(run, found, chosen) | {"seed": seed, "order": list(order)}, ensure_ascii=False)
    except Exception as error:
        return notice(error), gr.skip()


def _order_value(run: Run, found: Orders, chosen: SelfHead) -> dict[str, object]:
    value: dict[str, object] = {
        "request": run.request.as_dict(),
        "tokens": list(found.tokens),
        "layer": chosen.layer,
        "head": chosen.head,
        "source": {name: read["on"].translation.source_text for name, read in (("original", found.original), ("shuffled", found.shuffled))},
    }
    for positions in ("on", "off"):
        differences = found.differences(positions)
        where = np.unravel_index(differences.argmax(), differences.shape)
        readings = {"original": found.original[positions], "shuffled": found.shuffled[positions]}
        value[positions] = {
            "maps": {name: fixed_point(read.maps[chosen.layer, chosen.head]) for name, read in readings.items()},
            "texts": {name: read.translation.text for name, read in readings.items()},
            "log_probs": {name: float(sum(read.translation.token_log_probs)) for name, read in readings.items()},
            "difference": float(differences[chosen.layer, chosen.head]),
            "largest": float(differences.max()),
            "where": [int(place) for place in where],
        }
    return value


# --- layout ---

_LENGTHS = """
<div class="section-bar">
  <div class="option"><span class="option-name" data-t="positions.lengths.side"></span>
    <div class="segments" role="radiogroup" data-t-label="positions.lengths.side" data-sides></div></div>
  <ul class="marks" data-marks></ul>
</div>
"""
_PLACES = """
<div class="section-bar"><div class="option wide-option"><span class="option-name" data-t="positions.places.choose"></span>
  <div class="word-row" role="group" data-t-label="positions.places.choose" data-words></div></div>
  <p class="faint twice" data-twice></p>
  <ul class="marks" data-marks></ul></div>
"""
_HEAD = """
<div class="section-bar head-bar">
  <div class="option"><span class="option-name" data-t="kind.label"></span>
    <div class="segments" role="radiogroup" data-t-label="kind.label" data-kinds></div></div>
  <div class="option"><span class="option-name" data-t="layer.label"></span>
    <div class="chips" role="radiogroup" data-t-label="layer.label" data-layers></div></div>
  <div class="option"><span class="option-name" data-t="head.label"></span>
    <div class="chips" role="radiogroup" data-t-label="head.label" data-heads></div></div>
</div>
"""
_HEAD_MAPS = """
<div class="map-foot"><p class="caption" data-caption></p></div>
<div class="small-maps pair" data-maps></div>
<p class="head-overlap" aria-live="polite" data-overlap></p>
"""
_ORDER = f"""
<div class="section-bar" data-limit="{MAX_ORDERED}">
  <button type="button" class="quiet" data-shuffle data-t="positions.order.shuffle"></button>
  <label class="option seed"><span class="option-name" data-t="positions.order.seed"></span>
    <input type="number" min="0" max="9999" step="1" inputmode="numeric" data-seed></label>
  <button type="button" class="plain" data-restore data-t="positions.order.restore"></button>
  <label class="check"><input type="checkbox" data-back><span data-t="positions.order.back"></span></label>
</div>
<div class="word-row movable" role="group" data-t-label="positions.order.words" data-words></div>
<p class="faint word-help" data-t="positions.order.help"></p>
<div class="order-working"><div class="progress"></div></div>
<div class="order-grid" data-grid></div>
<div class="map-foot"><p class="caption" data-caption></p></div>
<p class="order-verdict" aria-live="polite" data-verdict></p>
"""


def _foot(name: str, formula: str = "", line: str = "") -> str:
    more = f'<details><summary data-t="more.open"></summary><p data-t="positions.{name}.more"></p>{formula}</details>'
    return f'<div class="map-foot">{line}{more}</div>'


_CAPTION = '<p class="caption" data-caption></p>'
_CAVEAT = '<p class="caveat" data-t="caveat"></p>'


_LENGTHS_FORMULA = f'<p class="formula"><i>x</i> = {root("<i>d</i><sub>model</sub>")} · <i>E</i>[token] + PE(<i>pos</i>)</p>'
_SCORES = "PE <i>W</i><sub>Q</sub> <i>W</i><sub>K</sub><sup>⊤</sup> PE<sup>⊤</sup>"
_HEAD_FORMULA = f'<p class="formula">{_SCORES} / {root("<i>d</i><sub>k</sub>")}</p>'


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays the four sections out inside the current column and wires them. Each asks for its picture when it is scrolled into view."""
    inputs = [result, bridge]
    options = {
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "concurrency_id": "model",
        "concurrency_limit": 1,
        "api_visibility": "private",
    }

    def message(name: str) -> gr.HTML:
        return static_block(NOTICE, "atlas.notice(element, props, watch)", f"position-{name}-notice")

    def wire(name: str, answer: Any, outputs: list[gr.HTML]) -> None:
        def on_draw(shown: dict, store: dict) -> tuple[Any, ...]:
            return answer(runs, shown, store)

        event = getattr(bridge, f"position_{name}")(on_draw, inputs, outputs, **options)
        report_end(event, f"position_{name}")

    with section("lengths"):
        problem = message("lengths")
        facts = static_block(_LENGTHS, "atlas.positionLengths(element, props, watch)", "position-lengths-facts")
        plot = PlotlyView(label_key="positions.lengths.title", elem_id="position-lengths-plot", css_class="plot-lengths")
        static_block(_foot("lengths", _LENGTHS_FORMULA, _CAPTION), "atlas.applyText(element)", "position-lengths-foot")
        wire("lengths", draw_lengths, [problem, facts, plot])
    with section("places"):
        problem = message("places")
        facts = static_block(_PLACES, "atlas.positionPlaces(element, props, watch)", "position-places-facts")
        plot = PlotlyView(label_key="positions.places.title", elem_id="position-places-plot", css_class="plot-places")
        static_block(_foot("places", line=_CAPTION), "atlas.applyText(element)", "position-places-foot")
        wire("places", draw_places, [problem, facts, plot])
    with section("head"):
        problem = message("head")
        facts = static_block(_HEAD, "atlas.positionHead(element, props, watch)", "position-head-facts")
        plot = PlotlyView(label_key="positions.head.title", elem_id="position-head-plot", css_class="plot-offsets")
        static_block(_HEAD_MAPS, "atlas.positionHeadMaps(element)", "position-head-maps")
        static_block(_foot("head", _HEAD_FORMULA, _CAVEAT), "atlas.applyText(element)", "position-head-foot")
        wire("head", draw_head, [problem, facts, plot])
    with section("order"):
        problem = message("order")
        facts = static_block(_ORDER, "atlas.wordOrder(element, props, watch)", "position-order-facts")
        static_block(_foot("order", line=_CAVEAT), "atlas.applyText(element)", "position-order-foot")
        wire("order", draw_order, [problem, facts])
