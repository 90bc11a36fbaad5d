"""The lower half of the Machine tab: six experiments, each with a question, a picture of real numbers and what it shows.

Handlers first: plain functions that take what the page sent and return what the page shows, callable without a browser. Each experiment
asks for itself, once it is scrolled into view (static/machine_lab.js); its values are those of `viz.panels.lab_values`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradio as gr

from model.analysis.norm_gradients import MAX_DEPTH
from viz.components import PlotlyView
from viz.page import report_end, static_block
from viz.panels import lab_values
from viz.panels.notice import notice
from viz.runs import RunCache

EXPERIMENTS = ("masks", "serial", "norms", "heads", "scale", "memory")
DEPTHS = (2, 6, 12, MAX_DEPTH)

# --- handlers ---


def answer(name: str, values: Callable[[], Any], store: object) -> Any:
    """What `values` makes; on an error the message in its place, with the question that it answers, and no new picture."""
    try:
        return values()
    except Exception as error:
        failed = {"key": lab_values.asked_key(store, name), "problem": notice(error)}
        return failed if name in ("masks", "serial") else (failed, gr.skip())


# --- layout ---

_HEAD = """
<div class="lead lab-head">
  <h2 data-t="lab.question"></h2>
  <p data-t="lab.lead"></p>
  <nav class="lab-contents" data-t-label="lab.contents" data-lab="contents"></nav>
</div>
"""
_TITLE = """
<div class="lab-title"><h3 tabindex="-1" data-t="lab.{name}.question"></h3><p data-t="lab.{name}.lead"></p>
  <p class="lab-problem" role="status" data-lab="problem" hidden></p></div>
"""
_MASKS = (
    _TITLE.format(name="masks")
    + """
<div class="lab-second"><label for="lab-second" data-t="lab.masks.second"></label>
  <input type="text" id="lab-second" maxlength="400" autocomplete="off" spellcheck="false" dir="auto"></div>
<p class="lab-shorter" data-lab="shorter" hidden><span data-t="lab.masks.shorter"></span>
  <button type="button" class="plain lab-again" dir="auto" data-lab="shorter-text"></button></p>
<div class="lab-masks" data-lab="masks"></div>
<p class="lab-note"><span data-t="lab.masks.rows"></span> <span data-t="lab.masks.dense" data-lab="dense" hidden></span></p>
<p class="lab-checked" data-lab="checked" aria-live="polite"></p>
"""
)
_SERIAL = (
    _TITLE.format(name="serial")
    + """
<div class="lab-scroll" tabindex="0" role="region" data-t-label="lab.serial.ways">
  <table class="lab-table lab-ways" data-lab="ways"></table></div>
<p class="lab-note"><span data-lab="measured"></span>
  <button type="button" class="plain lab-again" data-t="lab.serial.again" data-lab="again"></button></p>
<div class="lab-scroll lab-steps-frame" tabindex="0" role="region" data-t-label="lab.serial.steps">
  <table class="lab-table lab-steps" data-lab="steps"></table></div>
<p class="lab-note" data-lab="note"></p>
"""
)
_NORMS = (
    _TITLE.format(name="norms")
    + """
<div class="lab-bar"><div class="setting"><span class="setting-name" data-t="lab.norms.depth"></span>
  <div class="segments" role="radiogroup" data-t-label="lab.norms.depth" data-lab="depth"></div></div>
  <p class="lab-legend"><span class="first" data-t="lab.norms.post"></span><span class="second" data-t="lab.norms.pre"></span></p></div>
"""
)
_NORMS_FOOT = """
<div class="lab-foot"><p class="lab-checked" data-lab="growth" aria-live="polite"></p>
  <p class="lab-note" data-t="lab.norms.why"></p><p class="lab-note" data-lab="how"></p></div>
"""
_HEADS = (
    _TITLE.format(name="heads")
    + """
<p class="lab-note" data-lab="place"></p>
<div class="lab-scroll" tabindex="0" role="region" data-t-label="lab.heads.question">
  <table class="lab-table lab-heads" data-lab="heads"></table></div>
<p class="lab-note" data-t="lab.heads.note"></p>
"""
)
_SCALE = (
    _TITLE.format(name="scale")
    + """
<div class="lab-bar"><p class="lab-legend"><span class="first" data-t="lab.scale.plain"></span>
  <span class="second" data-t="lab.scale.divided"></span><span class="dots" data-lab="dots"></span></p></div>
"""
)
_SCALE_FOOT = """
<div class="lab-foot"><div class="lab-scroll" tabindex="0" role="region" data-t-label="lab.scale.table">
  <table class="lab-table lab-scale" data-lab="scale"></table></div><p class="lab-note" data-t="lab.scale.note"></p></div>
"""
_MEMORY = (
    _TITLE.format(name="memory")
    + """
<div class="lab-bar"><p class="lab-legend"><span class="encoder_self" data-t="kind.encoder_self.short"></span>
  <span class="decoder_self" data-t="kind.decoder_self.short"></span><span class="cross" data-t="kind.cross.short"></span>
  <span class="first" data-t="lab.memory.recurrent"></span><span class="second" data-t="lab.memory.attention"></span></p></div>
"""
)
_MEMORY_FOOT = """
<div class="lab-foot"><div class="lab-scroll" tabindex="0" role="region" data-t-label="lab.memory.table">
  <table class="lab-table lab-memory" data-lab="memory"></table></div><p class="lab-note" data-t="lab.memory.note"></p></div>
"""


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays the experiments out inside the current Blocks, under the picture, and wires them."""
    static_block(_HEAD, "atlas.lab.head(element, props)", "lab-head", {"experiments": list(EXPERIMENTS)})

    def block(template: str, name: str, part: str = "", value: Any = None) -> gr.HTML:
        return static_block(template, f"atlas.lab.{name}{part.title()}(element, props, watch)", f"lab-{name}{part and '-'}{part}", value)

    def section(name: str) -> gr.Column:
        return gr.Column(elem_id=f"lab-{name}-area", elem_classes=["lab-section"])

    with section("masks"):
        masks = block(_MASKS, "masks")
    with section("serial"):
        serial = block(_SERIAL, "serial")
    with section("norms"):
        block(_NORMS, "norms", value={"depths": list(DEPTHS)})
        norms_plot = PlotlyView(label_key="lab.norms.question", elem_id="lab-norms-plot", css_class="plot-lab")
        norms = block(_NORMS_FOOT, "norms", "foot")
    with section("heads"):
        heads = block(_HEADS, "heads")
    with section("scale"):
        block(_SCALE, "scale")
        scale_plot = PlotlyView(label_key="lab.scale.question", elem_id="lab-scale-plot", css_class="plot-lab")
        scale = block(_SCALE_FOOT, "scale", "foot")
    with section("memory"):
        block(_MEMORY, "memory")
        memory_plot = PlotlyView(label_key="lab.memory.question", elem_id="lab-memory-plot", css_class="plot-lab")
        block(_MEMORY_FOOT, "memory", "foot")

    def on_masks(shown: dict, store: dict) -> Any:
        return answer("masks", lambda: lab_values.masks(runs, shown, store), store)

    def on_serial(shown: dict, store: dict) -> Any:
        return answer("serial", lambda: lab_values.serial(runs, shown, store), store)

    def on_norms(shown: dict, store: dict) -> Any:
        return answer("norms", lambda: lab_values.norms(runs, store), store)

    def on_scale(shown: dict, store: dict) -> Any:
        return answer("scale", lambda: lab_values.scale(runs, shown, store), store)

    def on_counts(shown: dict, store: dict) -> Any:
        return answer("counts", lambda: lab_values.counts(runs, shown, store), store)

    quiet = {"show_progress": "hidden", "trigger_mode": "always_last", "api_visibility": "private"}
    on_model = {"concurrency_id": "model", "concurrency_limit": 1, **quiet}  # what computes waits for its turn, so that times are true
    drawing = {"concurrency_id": "draw", "concurrency_limit": 8, **quiet}
    asked = [result, bridge]
    events = {
        "lab_masks": bridge.lab_masks(on_masks, asked, masks, **on_model),
        "lab_serial": bridge.lab_serial(on_serial, asked, serial, **on_model),
        "lab_norms": bridge.lab_norms(on_norms, asked, [norms, norms_plot], **on_model),
        "lab_scale": bridge.lab_scale(on_scale, asked, [scale, scale_plot], **on_model),
        "lab_counts": bridge.lab_counts(on_counts, asked, [heads, memory_plot], **drawing),
    }
    for name, event in events.items():
        report_end(event, name)
