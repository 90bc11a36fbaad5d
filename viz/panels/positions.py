"""The Positions tab: its sections one under the other, with a table of contents beside them. What a section holds is its own module's."""

from __future__ import annotations

import gradio as gr

from viz.page import static_block
from viz.panels import position_clocks, position_facts, position_schemes, position_sentence, position_table
from viz.runs import RunCache

SECTIONS = ("table", "waves", "wavelengths", "distance", "clocks", *position_sentence.SECTIONS, "schemes", "join")

_HEAD = """
<div class="lead">
  <h2 data-t="positions.question"></h2>
  <p data-t="positions.lead"></p>
  <p class="faint" data-layout></p>
</div>
"""


def contents(sections: tuple[str, ...]) -> str:
    """The list of these sections in markup. Buttons, not links: the page's address holds the state of the page."""
    items = "".join(
        f'<li><button type="button" data-section="{name}" data-t="positions.{name}.title"></button></li>' for name in sections
    )
    return f'<nav class="contents" data-t-label="positions.contents"><ol>{items}</ol></nav>'


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays the tab out inside the current Blocks and wires it. A section asks for its picture when it is first scrolled into view."""
    static_block('<p class="lead" data-t="positions.missing"></p>', "atlas.applyText(element)", "positions-missing")
    with gr.Column(elem_id="positions-area"):
        static_block(_HEAD, "atlas.positions.head(element)", "positions-head")
        static_block(contents(SECTIONS), "atlas.positions.contents(element)", "positions-contents")
        with gr.Column(elem_id="positions-sections"):
            position_table.build(runs, bridge, result)
            position_facts.build_wavelengths(runs, bridge, result)
            position_facts.build_distance(runs, bridge, result)
            position_clocks.build(runs, bridge, result)
            position_sentence.build(runs, bridge, result)
            position_schemes.build(runs, bridge, result)
