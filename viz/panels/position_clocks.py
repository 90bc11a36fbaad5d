"""The section of Positions in which every pair of dimensions is the hand of a clock, and moving by k is one rotation everywhere.

The page draws it from the numbers that it gets here once for each model: rows of the model's own table, and the check of M_k on all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gradio as gr
import numpy as np

from model.analysis.position_facts import pair_angles, pair_columns, rotation_residuals, wavelengths
from viz.page import static_block
from viz.panels.notice import notice
from viz.panels.position_section import NOTICE, ask_server, of_model, section
from viz.panels.position_table import offered_pairs, slider_steps
from viz.panels.steps_value import vector
from viz.runs import RunCache

if TYPE_CHECKING:
    from model.translator import Translator

def clocks_value(translator: Translator) -> dict[str, Any]:
    """What the page draws the section from.

    {"layout", "d_model", "limit": max_len, "steps": positions and distances go from 0 to steps - 1,
     "pairs": [{"pair", "dims": [sine, cosine], "angle": per position, in radians, by the formula, "wavelength": read off the table}],
     "rows": vector [2 steps - 1, 2 pairs]: the table at positions 0 ..., of each of these pairs its sine and its cosine,
     "residuals": [for k = 0 .. steps - 1: largest |M_k PE(p) - PE(p + k)| over all positions and dimensions of the whole table]}
    """
    config = translator.config
    table = translator.positional_encoding(config.max_len)
    steps = slider_steps(config.max_len)
    sines, cosines = pair_columns(config.d_model, config.position_layout)
    pairs = offered_pairs(config.d_model)
    angles, long = pair_angles(config.d_model), wavelengths(table, config.position_layout)
    columns = [column for pair in pairs for column in (sines[pair], cosines[pair])]
    return {
        "layout": config.position_layout,
        "d_model": config.d_model,
        "limit": config.max_len,
        "steps": steps,
        "pairs": [
            {"pair": i, "dims": [int(sines[i]), int(cosines[i])], "angle": float(angles[i]), "wavelength": float(long[i])} for i in pairs
        ],
        "rows": vector(np.ascontiguousarray(table[: 2 * steps - 1, columns])),
        "residuals": [float(value) for value in rotation_residuals(table, config.position_layout, range(steps))],
    }


def draw_clocks(runs: RunCache, result: object, store: object) -> tuple[Any, Any]:
    """Message and numbers; on an error the message alone."""
    del result
    try:
        return None, clocks_value(of_model(runs, store))
    except Exception as error:
        return notice(error), gr.skip()


_CLOCKS = """
<div class="section-bar clock-bar">
  <button type="button" class="quiet" data-play aria-pressed="false"></button>
  <div class="option wide"><label class="option-name" for="clock-p"><span data-t="positions.clocks.p"></span>
    <output data-p></output></label><input type="range" id="clock-p" min="0"></div>
  <div class="option wide"><label class="option-name" for="clock-k"><span data-t="positions.clocks.k"></span>
    <output data-k></output></label><input type="range" id="clock-k" min="0"></div>
</div>
<div class="clocks" data-clocks></div>
<p class="faint clock-key" data-t="positions.clocks.key"></p>
<h4 data-t="positions.turn.title"></h4>
<p class="section-lead" data-t="positions.turn.lead"></p>
<div class="turn-room" tabindex="0" role="region" data-t-label="positions.turn.title"><table class="turn" data-turn></table></div>
<div class="map-foot"><div data-said aria-live="polite"></div>
  <details><summary data-t="more.open"></summary><p data-t="positions.turn.more"></p>
    <p class="formula">PE(<i>p</i> + <i>k</i>) = <i>M</i><sub><i>k</i></sub> PE(<i>p</i>)</p></details></div>
"""


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays the section out inside the current column and wires it."""
    with section("clocks"):
        message = static_block(NOTICE, "atlas.notice(element, props, watch)", "clocks-notice")
        clocks = static_block(_CLOCKS, "atlas.positions.clocks(element, props, watch)", "clocks")
    ask_server(bridge, "position_clocks", draw_clocks, runs, result, [message, clocks])
