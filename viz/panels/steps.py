"""The Step by step tab: one row of attention, computed before the visitor's eyes, with the model's own numbers."""

from __future__ import annotations

from typing import Any

import gradio as gr

from viz.page import report_end, static_block
from viz.panels import steps_answers
from viz.runs import RunCache

_HEAD = """
<div class="lead">
  <h2 data-t="steps.question"></h2>
  <p data-t="steps.lead"></p>
</div>
"""
_CONTROLS = """
<section class="steps-controls" data-t-label="steps.controls">
  <p class="steps-sentence" data-steps="sentence"></p>
  <div class="steps-line steps-where">
    <div class="kinds" role="radiogroup" data-t-label="kind.label" data-kinds></div>
    <div class="setting"><span class="setting-name" data-t="layer.label"></span>
      <div class="chips" role="radiogroup" data-t-label="layer.label" data-layers></div></div>
    <div class="setting"><span class="setting-name" data-t="head.label"></span>
      <div class="chips" role="radiogroup" data-t-label="head.label" data-steps="heads"></div>
      <span class="faint" data-steps="heads-note"></span></div>
  </div>
  <p class="field-name" data-steps="words-name"></p>
  <div class="steps-words" role="radiogroup" data-t-label="steps.words" data-steps="words"></div>
  <p class="faint" data-steps="space" data-t="steps.space" hidden></p>
  <div class="steps-line">
    <div class="setting"><span class="setting-name" data-t="steps.depth"></span>
      <div class="segments" role="radiogroup" data-t-label="steps.depth" data-steps="depth"></div></div>
    <div class="setting"><span class="setting-name" data-t="steps.without.label"></span>
      <div class="segments" role="radiogroup" data-t-label="steps.without.label" data-steps="without"></div></div>
    <label class="check" data-t-title="steps.guess.help"><input type="checkbox" data-steps="guess">
      <span data-t="steps.guess.all"></span></label>
  </div>
</section>
"""
_NOTICE = '<div class="notice" role="alert" hidden></div>'
_VIEW = """
<div class="walk-root" data-state="nothing" data-depth="story">
  <p class="walk-empty faint" data-t="steps.empty"></p>
  <p class="walk-first faint" data-t="steps.first"></p>
  <nav class="walk-nav" data-t-label="steps.contents"></nav>
  <div class="walk"></div>
</div>
"""


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays the tab out inside the current Blocks and wires it."""
    with gr.Column(elem_id="steps-area"):
        static_block(_HEAD, "atlas.applyText(element)", "steps-head")
        static_block(_CONTROLS, "atlas.stepsControls(element)", "steps-controls")
        message = static_block(_NOTICE, "atlas.stepsNotice(element, props, watch)", "steps-notice")
        static_block(_VIEW, "atlas.stepsView(element)", "steps-view")
        value = static_block("", "atlas.stepsValue(props, watch)", "steps-value", None, visible="hidden")
        sum_of_cell = static_block("", "atlas.stepsCell(props, watch)", "steps-cell", None, visible="hidden")

    def on_steps(shown: dict, store: dict) -> tuple[Any, Any]:
        return steps_answers.steps(runs, shown, store)

    def on_cell(shown: dict, store: dict) -> tuple[Any, Any]:
        return steps_answers.cell(runs, shown, store)

    options = {
        "concurrency_id": "model",
        "concurrency_limit": 1,
        "show_progress": "hidden",
        "trigger_mode": "always_last",
        "api_visibility": "private",
    }
    report_end(bridge.steps(on_steps, [result, bridge], [message, value], **options), "steps")
    report_end(bridge.cell(on_cell, [result, bridge], [message, sum_of_cell], **options), "cell")
