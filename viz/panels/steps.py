"""The Step by step tab: one row of attention, computed before the visitor's eyes, with the model's own numbers."""

from __future__ import annotations

import gradio as gr

from viz.page import static_block
from viz.runs import RunCache

_HEAD = """
<div class="lead">
  <h2 data-t="steps.question"></h2>
  <p data-t="steps.lead"></p>
</div>
"""


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays the tab out inside the current Blocks and wires it."""
    del runs, bridge, result
    with gr.Column(elem_id="steps-area"):
        static_block(_HEAD, "atlas.applyText(element)", "steps-head")
