"""The Machine tab: the whole encoder-decoder as a picture, with this sentence's shapes and every part's parameters.

Handlers first: plain functions that take what the page sent and return what the page shows, callable without a browser.
What is drawn is made in the browser (static/machine*.js) from `viz.panels.machine_value`.
"""

from __future__ import annotations

from typing import Any

import gradio as gr

from model.catalogue import EMBEDDED
from viz.page import report_end, static_block
from viz.panels import machine_lab
from viz.panels.machine_value import LIMITS, MachineChoice, machine_value
from viz.panels.notice import notice
from viz.runs import RunCache

# --- handlers ---


def answer(runs: RunCache, result: object, store: object) -> tuple[Any, Any]:
    """Message and picture for what the page chose; on an error the message alone. Never runs the model."""
    try:
        choice = MachineChoice.from_page(result, store)
        without = choice.model == EMBEDDED.name and runs.translator is None  # the base model of the paper can be drawn all the same
        return None, machine_value(choice, None if without else runs.translator_of(choice.model))
    except Exception as error:
        return notice(error), gr.skip()


# --- layout ---

_HEAD = """
<div class="lead">
  <h2 data-t="machine.question"></h2>
  <p data-t="machine.lead"></p>
</div>
"""
_NOTICE = '<div class="notice" role="alert" hidden></div>'
_PICTURE = """
<section class="machine" data-t-label="machine.label">
  <div class="machine-bar">
    <div class="setting"><span class="setting-name" data-t="machine.config"></span>
      <div class="segments" role="radiogroup" data-t-label="machine.config" data-machine="configs"></div></div>
    <div class="setting"><span class="setting-name" data-t="machine.layers"></span>
      <div class="segments" role="radiogroup" data-t-label="machine.layers" data-machine="fold"></div></div>
    <div class="setting machine-zoom" role="group" data-t-label="machine.zoom">
      <button type="button" class="plain" data-t-label="machine.zoom.out" data-t-title="machine.zoom.out" data-machine="out">−</button>
      <output data-machine="scale"></output>
      <button type="button" class="plain" data-t-label="machine.zoom.in" data-t-title="machine.zoom.in" data-machine="in">+</button></div>
  </div>
  <p class="machine-status" aria-live="polite"><strong data-machine="total"></strong> <span data-machine="status"></span></p>
  <form class="machine-own" data-machine="own" hidden novalidate></form>
  <p class="machine-refused" role="alert" data-machine="refused"></p>
  <div class="machine-body">
    <div class="machine-frame" data-machine="frame"></div>
    <aside class="machine-inside" aria-live="off" data-t-label="machine.inside" data-machine="inside"></aside>
  </div>
  <div class="map-foot">
    <p class="caption" data-t="machine.caption"></p>
    <details><summary data-t="more.open"></summary>
      <p data-t="machine.more.stream"></p><p data-t="machine.more.shapes"></p><p data-t="machine.more.operations"></p></details>
  </div>
  <section class="machine-facts" data-t-label="machine.facts" data-machine="facts"></section>
  <section class="machine-compare" data-t-label="machine.compare" data-machine="compare"></section>
</section>
"""


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays the tab out inside the current Blocks and wires it. Its picture is asked for when the tab is first opened."""
    with gr.Column(elem_id="machine-area"):
        static_block(_HEAD, "atlas.applyText(element)", "machine-head")
        message = static_block(_NOTICE, "atlas.notice(element, props, watch)", "machine-notice")
        static_block(_PICTURE, "atlas.machine.view(element, props)", "machine-picture", {"limits": LIMITS})
        value = static_block("", "atlas.machine.value(props, watch)", "machine-value", None, visible="hidden")
        machine_lab.build(runs, bridge, result)

    def on_machine(shown: dict, store: dict) -> tuple[Any, Any]:
        return answer(runs, shown, store)

    event = bridge.machine(
        on_machine,
        [result, bridge],
        [message, value],
        show_progress="hidden",
        trigger_mode="always_last",
        concurrency_id="draw",
        concurrency_limit=8,
        api_visibility="private",
    )
    report_end(event, "machine")
