"""A section of the Positions tab: a heading, one idea in a sentence or two, and below them whatever its module lays out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import gradio as gr

from viz.page import static_block

NOTICE = '<div class="notice" role="alert" hidden></div>'


def heading(name: str) -> str:
    """Title and lead of a section in markup. The title takes the focus when the contents lead there."""
    return f'<h3 tabindex="-1" data-t="positions.{name}.title"></h3><p class="section-lead" data-t="positions.{name}.lead"></p>'


@contextmanager
def section(name: str, head: bool = True) -> Iterator[gr.Column]:
    """A column `#at-NAME` with its heading, for the blocks that are made inside. head: False where the module brings its own."""
    with gr.Column(elem_id=f"at-{name}", elem_classes="position-section") as column:
        if head:
            static_block(heading(name), "atlas.applyText(element)", f"at-{name}-head")
        yield column
