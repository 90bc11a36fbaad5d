"""A section of the Positions tab: a heading, one idea in a sentence or two, and below them whatever its module lays out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gradio as gr

from model.catalogue import EMBEDDED
from viz.page import report_end, static_block
from viz.panels.choice import as_mapping
from viz.runs import Request, Run, RunCache

if TYPE_CHECKING:
    from model.translator import Translator

NOTICE = '<div class="notice" role="alert" hidden></div>'
DRAWING = {  # what runs no model
    "show_progress": "hidden",
    "trigger_mode": "always_last",
    "concurrency_id": "draw",
    "concurrency_limit": 8,
    "api_visibility": "private",
}

Said = list[dict[str, Any]]  # lines of text on the page: {key, params}, worded in the visitor's language by the browser


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


def ask_server(bridge: gr.HTML, name: str, answer: Callable[..., Any], runs: RunCache, result: gr.HTML, outputs: list[gr.HTML]) -> None:
    """Wires the page's event `name`: answer(runs, result, store) fills `outputs`."""

    def on_draw(shown: dict, store: dict) -> tuple[Any, ...]:
        return answer(runs, shown, store)

    report_end(getattr(bridge, name)(on_draw, [result, bridge], outputs, **DRAWING), name)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def decimals(value: float, digits: int, sign: str = "") -> str:
    """A number as the page writes it, with a true minus sign; sign: "+" for one before positive numbers, too."""
    return f"{value:{sign}.{digits}f}".replace("-", "−")


def tiny(value: float) -> str:
    """A small difference as the page writes it: 3.6·10⁻⁷, with true minus signs; "0" for none."""
    if value == 0:
        return "0"
    digits, power = f"{value:.1e}".split("e")
    return f"{digits.replace('-', '−')}·10{str(int(power)).translate(_RAISED)}"


def of_model(runs: RunCache, store: object) -> Translator:
    """The visitor's model. Raises the errors of `RunCache.translator_of`."""
    return runs.translator_of(as_mapping(store).get("model", EMBEDDED.name))


def current_run(runs: RunCache, result: object, store: object) -> Run | None:
    """The run on the page, if it is of the visitor's model and still known: another model cut its sentence in its own way."""
    request = as_mapping(result).get("request")
    run = runs.find(Request.from_page(request)) if request else None
    return run if run is not None and run.request.model == as_mapping(store).get("model", EMBEDDED.name) else None
