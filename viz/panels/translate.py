"""The Translate tab: a sentence, its translation, and any one of its attention maps.

Handlers first: plain functions that take what the page sent and return what the page shows, callable without a browser.
"""

from __future__ import annotations

import time
from typing import Any

import gradio as gr

from model.catalogue import EMBEDDED
from model.errors import AtlasError
from viz.components import MapView, root
from viz.figures.heatmap_template import heatmap_template
from viz.page import report_end, static_block
from viz.panels import models
from viz.panels.choice import MapChoice, as_mapping
from viz.panels.maps_value import layer_value, maps_value
from viz.panels.notice import notice
from viz.panels.reading import result_value
from viz.runs import BEAM_SIZES, Request, RunCache
from viz.text import say


class EmptyGivenError(AtlasError):
    """The visitor asked for the maps of their own translation and wrote none."""

    code = "empty_given"

    def __init__(self) -> None:
        super().__init__("Write a translation first, then ask for its maps.")


# --- handlers ---


def request_of(text: object, store: object, given: object = None) -> Request:
    """What the page asks for. Raises InvalidSettingError; the text itself is checked by the model."""
    store = as_mapping(store)
    return Request(text, store.get("target"), store.get("beam_size", 4), given, model=store.get("model", EMBEDDED.name))


def show_run(runs: RunCache, request: Request, store: object) -> tuple[Any, Any, Any]:
    """Message, result and all maps of a run; on an error the message alone, and what was shown stays."""
    try:
        run = runs.get(request)
        choice = MapChoice.fitted(store, run.trace, run.best_heads)
        return None, result_value(run), maps_value(run, wanted=(choice.kind, choice.layer))
    except Exception as error:
        return notice(error), gr.skip(), gr.skip()


def translate(runs: RunCache, text: str, store: object) -> tuple[Any, Any, Any]:
    """The visitor stopped typing: translate."""
    try:
        request = request_of(text, store)
    except AtlasError as error:
        return notice(error), gr.skip(), gr.skip()
    return show_run(runs, request, store)


def force(runs: RunCache, text: str, given: str, store: object) -> tuple[Any, Any, Any]:
    """The visitor gave a translation: the model reads it (teacher forcing) instead of writing one."""
    try:
        if not isinstance(given, str) or not given.strip():
            raise EmptyGivenError
        request = request_of(text, store, given)
    except AtlasError as error:
        return notice(error), gr.skip(), gr.skip()
    return show_run(runs, request, store)


def asked_by(event: Any) -> Request | None:
    """What an event of Gradio's queue asks to be translated; None for other events, and for what is no request."""
    if not any(name == "translate" for _, name in event.fn.targets):
        return None
    try:
        text, given, store = event.data.data
        return request_of(text, store, given if as_mapping(store).get("forced") is True else None)
    except (AtlasError, ValueError):
        return None


def answer(runs: RunCache, text: str, given: str, store: object) -> tuple[Any, Any, Any]:
    """`translate` or `force`, as the page wants. One event for both, so that the last one asked for is the last one answered."""
    if as_mapping(store).get("forced") is True:
        return force(runs, text, given, store)
    return translate(runs, text, store)


def more_maps(runs: RunCache, result: object, store: object, message: object = None) -> tuple[Any, Any, Any]:
    """The page lacks a layer of a long sentence, `store["wanted_layer"]` = {"kind", "layer"}: message, result and that layer.

    message: what stands on the page; if it complains of an earlier such wish, an answer takes it back. Never runs the model: if
    the cache has let the run go, the result is marked stale, so that the page asks for it anew.
    """
    wanted = as_mapping(as_mapping(store).get("wanted_layer"))
    try:
        request = Request.from_page(as_mapping(result).get("request"))
        run = runs.find(request)
        if run is None:
            return gr.skip(), {**as_mapping(result), "stale": time.time()}, gr.skip()
        layer = layer_value(run, wanted.get("kind"), wanted.get("layer"))
    except Exception as error:
        return {**notice(error), "about": "maps"}, gr.skip(), gr.skip()
    return _without_complaint(runs, request, message, "maps"), gr.skip(), layer


def _without_complaint(runs: RunCache, request: Request, message: object, about: str) -> Any:
    """The message that stands, or what is to stand in its place if it was a complaint about this."""
    if as_mapping(message).get("about") != about:
        return gr.skip()
    standing = runs.problem if request.model == EMBEDDED.name else None
    return notice(standing) if standing else None


# --- layout ---

_OPTIONS = """
<div class="options">
  <div class="examples"><span class="faint" data-t="examples.label"></span> <span data-examples></span></div>
  <div class="settings">
    <div class="setting"><span class="setting-name" data-t="model.label"></span>
      <button type="button" class="pick" aria-expanded="false" aria-controls="models-panel" data-model></button></div>
    <div class="setting"><span class="setting-name" data-t="target.into"></span>
      <div class="segments" role="radiogroup" data-t-label="target.label" data-targets></div>
      <select data-t-label="target.label" data-many-targets hidden></select></div>
    <div class="setting" data-t-title="beam.help"><span class="setting-name" data-t="beam.label"></span>
      <div class="segments" role="radiogroup" data-t-label="beam.label" data-beams></div></div>
  </div>
</div>
"""
_NOTICE = '<div class="notice" role="alert" hidden></div>'
RESULT = """
<section class="result" data-t-label="result.label">
  <p class="field-name" data-language></p>
  <p class="words" dir="auto" aria-live="polite" data-words></p>
  <p class="status" data-status></p>
  <div class="progress" aria-hidden="true"></div>
</section>
"""
SHARE = '<div class="share"></div>'
_GIVEN_TOGGLE = """
<button type="button" class="toggle" aria-expanded="false" aria-controls="given-area" data-t="given.summary"></button>
"""
_GIVEN_BUTTONS = """
<div class="given-actions">
  <button type="button" class="quiet" data-show data-t="given.show"></button>
  <button type="button" class="plain" data-back data-t="given.back" hidden></button>
  <p class="faint" data-t="given.help"></p>
</div>
"""
MAP_HEAD = """
<div class="map-head">
  <div class="kinds" role="radiogroup" data-t-label="kind.label" data-kinds></div>
  <h2 data-part="heading"></h2>
</div>
"""
WORDS = '<section class="words-view" data-t-label="words.label"></section>'
STRIP = '<section class="heads-strip" data-t-label="heads.strip.label"></section>'
MAP_OPTIONS = """
<div class="map-options">
  <div class="option"><span class="option-name" data-t="layer.label"></span>
    <div class="chips" role="radiogroup" data-t-label="layer.label" data-layers></div></div>
  <div class="option"><span class="option-name" data-t="head.label"></span>
    <div class="chips" role="radiogroup" data-t-label="head.label" data-heads></div></div>
  <div class="option" data-t-title="rows.help"><span class="option-name" data-t="rows.label"></span>
    <div class="lines" role="radiogroup" data-t-label="rows.label" data-rows></div></div>
  <div class="option" data-t-title="units.help"><span class="option-name" data-t="units.label"></span>
    <div class="segments" role="radiogroup" data-t-label="units.label" data-units></div></div>
  <div class="option" data-t-title="specials.help"><span class="option-name" data-t="specials.label"></span>
    <div class="segments" role="radiogroup" data-t-label="specials.label" data-specials></div>
    <span class="hidden-share" data-hidden-share aria-live="polite"></span></div>
  <div class="option"><span class="option-name" data-t="colour.label"></span>
    <div class="segments" role="radiogroup" data-t-label="colour.label" data-colours></div></div>
</div>
"""
MAP_FOOT = f"""
<div class="map-foot">
  <p class="caption" data-part="caption"></p>
  <p class="caveat" data-t="caveat"></p>
  <details><summary data-t="more.open"></summary>
    <p data-part="paragraph"></p>
    <p class="formula" data-plain>
      Attention(<i>Q</i>, <i>K</i>, <i>V</i>) = softmax(<i>QK</i><sup>⊤</sup> / {root("<i>d<sub>k</sub></i>")}<span
      data-mask hidden> + <i>M</i></span>) <i>V</i><span data-mask hidden>,&emsp;<i>M<sub>ij</sub></i> = 0 (<i>j</i> ≤ <i>i</i>), −∞
      (<i>j</i> &gt; <i>i</i>)</span></p>
    <p class="formula" data-for="rollout" hidden><i>A</i> = ½ · <span data-t="more.mean"></span> + ½ <i>I</i>,&emsp;<i>A<sub>ℓ</sub></i> ⋯
      <i>A</i><sub>1</sub></p>
    <p class="formula" data-for="norm" hidden>‖ Σ<sub><i>h</i></sub> <i>α</i><sup><i>h</i></sup><sub><i>ij</i></sub>
      <i>v</i><sup><i>h</i></sup><sub><i>j</i></sub> <i>W<sub>O</sub></i><sup><i>h</i></sup> ‖ / Σ<sub><i>k</i></sub>
      ‖ Σ<sub><i>h</i></sub> <i>α</i><sup><i>h</i></sup><sub><i>ik</i></sub> <i>v</i><sup><i>h</i></sup><sub><i>k</i></sub>
      <i>W<sub>O</sub></i><sup><i>h</i></sup> ‖</p>
    <p class="faint" data-plain><i>d<sub>k</sub></i> <span data-t="more.where"></span></p>
  </details>
</div>
"""


def build(runs: RunCache, bridge: gr.HTML) -> gr.HTML:
    """Lays the tab out inside the current Blocks and wires it. Returns the component that holds the result, for other tabs."""
    recorded = runs.recorded
    first_notice = notice(runs.problem) if runs.problem else None

    with gr.Column(elem_id="sentence-area"):
        static_block('<p class="field-name"></p>', "atlas.sentenceHint(element)", "sentence-hint")
        sentence = gr.Textbox(
            recorded.translation.source_text if recorded else "",
            label=say("en", "sentence.label"),
            show_label=False,
            container=False,
            lines=1,
            max_lines=6,
            elem_id="sentence",
        )
        static_block(_OPTIONS, "atlas.options(element, props)", "options", {"beams": list(BEAM_SIZES)})
        models.build(runs, bridge)
        message = static_block(_NOTICE, "atlas.complain = atlas.notice(element, props, watch, atlas.onProblem)", "notice", first_notice)
        result = static_block(RESULT, "atlas.resultView(element, props, watch)", "result", result_value(recorded) if recorded else None)
        static_block(SHARE, "atlas.share?.(element)", "share")
        static_block(_GIVEN_TOGGLE, "atlas.givenToggle(element)", "given-toggle")
        with gr.Column(elem_id="given-area"):
            static_block('<p class="field-name" data-t="given.label"></p>', "atlas.applyText(element)", "given-label")
            given = gr.Textbox(label=say("en", "given.label"), show_label=False, container=False, lines=1, max_lines=4, elem_id="given")
            static_block(_GIVEN_BUTTONS, "atlas.givenView(element)", "given-buttons")
    # All maps of the run, and a layer of a long sentence that was asked for: data only.
    first_choice = recorded and MapChoice.first(recorded.trace, recorded.best_heads)
    first_maps = recorded and maps_value(recorded, wanted=(first_choice.kind, first_choice.layer))
    maps = static_block("", "atlas.mapsValue?.(props, watch)", "maps", first_maps, visible="hidden")
    chunk = static_block("", "atlas.mapsChunk?.(props, watch)", "maps-chunk", None, visible="hidden")
    with gr.Column(elem_id="map-area"):
        static_block(MAP_HEAD, "atlas.mapControls(element); atlas.mapWords(element)", "map-head")
        with gr.Column(elem_id="map-main"):
            static_block(WORDS, "atlas.wordsView?.(element)", "words-view")
            MapView(heatmap_template(), elem_id="map")
            static_block(MAP_FOOT, "atlas.mapWords(element)", "map-foot")
        with gr.Column(elem_id="map-side"):
            static_block(STRIP, "atlas.headsStrip?.(element)", "heads-strip")
            static_block(MAP_OPTIONS, "atlas.mapControls(element)", "map-options")

    def on_translate(text: str, own: str, store: dict) -> tuple[Any, Any, Any]:
        return answer(runs, text, own, store)

    def on_maps(shown: dict, store: dict, said: dict | None) -> tuple[Any, Any, Any]:
        return more_maps(runs, shown, store, said)

    quiet = {"show_progress": "hidden", "trigger_mode": "always_last", "api_visibility": "private"}
    model_events = {"concurrency_id": "model", "concurrency_limit": 1, **quiet}
    map_events = {"concurrency_id": "maps", "concurrency_limit": 8, **quiet}
    events = {
        "translate": bridge.translate(on_translate, [sentence, given, bridge], [message, result, maps], **model_events),
        "maps": bridge.maps(on_maps, [result, bridge, message], [message, result, chunk], **map_events),
    }
    for name, event in events.items():
        report_end(event, name)
    return result
