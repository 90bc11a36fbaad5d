"""The Machine tab: the whole encoder-decoder as a picture, with this sentence's shapes and every part's parameters."""

from __future__ import annotations

import gradio as gr

from viz.page import static_block
from viz.runs import RunCache

_HEAD = """
<div class="lead">
  <h2 data-t="machine.question"></h2>
  <p data-t="machine.lead"></p>
</div>
"""


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays the tab out inside the current Blocks and wires it."""
    del runs, bridge, result
    with gr.Column(elem_id="machine-area"):
        static_block(_HEAD, "atlas.applyText(element)", "machine-head")
