"""Two sections of Positions on what might have been: other schemes beside the model's, and joining the position instead of adding it."""

from __future__ import annotations

from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import gradio as gr
import numpy as np

from model.analysis.learned_positions import ENOUGH, LearnedTable, learned_scores, load_learned_table
from model.analysis.position_facts import similarity
from model.analysis.position_join import join_costs
from model.analysis.position_schemes import alibi_scores, rotary_scores, sinusoidal_scores
from model.errors import AtlasError
from viz.components import PlotlyView, view_value
from viz.figures.position_schemes import SchemeTexts, scheme_figure
from viz.page import static_block
from viz.panels.choice import language_of
from viz.panels.notice import notice
from viz.panels.position_section import NOTICE, ask_server, current_run, of_model, section
from viz.runs import RunCache
from viz.text import say

if TYPE_CHECKING:
    from model.config import TransformerConfig
    from model.translator import Translator

DISTANCES = 51  # 0 .. 50
FEWEST_PAIRS = 20  # of places, that a mean over the learned table is taken of
SCHEMES = ("added", "learned", "rotary", "alibi")
QUESTIONS = ("where", "parameters", "sees", "beyond")
NO_SENTENCE = (10, 10)  # lengths to count with while there is no sentence


# --- schemes ---


@lru_cache(maxsize=1)
def _learned_table() -> LearnedTable | None:
    """The trained table that belongs to the program; None, said in the log, if its file cannot be read: the picture goes without."""
    try:
        return load_learned_table()
    except AtlasError as error:
        print(f"No learned positions to show: {error}")
        return None


def _learned_facts(table: LearnedTable) -> dict[str, Any]:
    """What the table was trained in, how many of its rows count, and how long they are on average beside sines of that width."""
    rows = table.trained
    return {
        **{name: getattr(table, name) for name in ("d_model", "num_encoder_layers", "num_decoder_layers", "tokens", "valid_loss")},
        "places": len(rows),
        "texts": ENOUGH,
        "norm": float(np.linalg.norm(rows, axis=1).mean()),
        "sines": (table.d_model / 2) ** 0.5,
    }


def schemes_value(translator: Translator, language: str) -> tuple[str, dict[str, Any]]:
    """The picture; and {sizes, "parameters": by scheme, "spread": of RoPE's scores between places, None without RoPE, "table": what the
    learned table was trained in, None without one}."""
    config = translator.config
    head_dim, num_heads = config.d_model // config.encoder.num_heads, config.encoder.num_heads
    table = translator.positional_encoding(config.max_len)
    count = min(DISTANCES, config.max_len)
    rotary, spread = None, None
    if head_dim % 2 == 0:
        starts = np.array([rotary_scores(head_dim, count, start) for start in range(0, config.max_len - count + 1)])
        rotary, spread = starts[0], float(np.ptp(starts, axis=0).max())
    texts = SchemeTexts(
        distance=say(language, "positions.schemes.distance"),
        score=say(language, "positions.schemes.score"),
        added=say(language, "positions.schemes.added.line"),
        rotary=say(language, "positions.schemes.rotary.line", head_dim=head_dim),
        slope=say(language, "positions.schemes.alibi.line"),
        learned=say(language, "positions.schemes.learned.line"),
    )
    table_of_rows = _learned_table()
    learned = None
    if table_of_rows is not None:
        found = learned_scores(table_of_rows.trained, max(1, min(count, len(table_of_rows.trained) + 1 - FEWEST_PAIRS)))
        learned = (found.mean, found.lowest, found.highest)
    added = sinusoidal_scores(similarity(table).dot[:count], config.d_model)
    figure = scheme_figure(added, rotary, alibi_scores(num_heads, count), texts=texts, learned=learned)
    facts = {
        "head_dim": head_dim,
        "num_heads": num_heads,
        "limit": config.max_len,
        "d_model": config.d_model,
        "parameters": {"added": 0, "learned": config.max_len * config.d_model, "rotary": 0, "alibi": 0},
        "spread": spread,
        "table": None if table_of_rows is None else _learned_facts(table_of_rows),
    }
    return view_value({language: figure}, {language: say(language, "alt.schemes", last=count - 1, heads=num_heads)}), facts


def draw_schemes(runs: RunCache, result: object, store: object) -> tuple[Any, Any, Any]:
    """Message, picture and numbers; on an error the message alone."""
    del result
    try:
        return None, *schemes_value(of_model(runs, store), language_of(store))
    except Exception as error:
        return notice(error), gr.skip(), gr.skip()


# --- added against joined ---


def join_value(config: TransformerConfig, lengths: tuple[int, int] | None) -> dict[str, Any]:
    """{"src_len", "tgt_len", "sentence": whether they are those of the sentence on the page, "d_model", "d_ff": as written,
    "ways": by name its `Cost`}."""
    src_len, tgt_len = lengths or NO_SENTENCE
    d_ff = " + ".join(dict.fromkeys(f"{stack.d_ff:,}" for stack in (config.encoder, config.decoder)))  # both where they differ
    ways = {name: asdict(cost) for name, cost in join_costs(config, src_len, tgt_len).items()}
    return {"src_len": src_len, "tgt_len": tgt_len, "sentence": lengths is not None, "d_model": config.d_model, "d_ff": d_ff, "ways": ways}


def draw_join(runs: RunCache, result: object, store: object) -> tuple[Any, Any]:
    """Message and counts; on an error the message alone."""
    try:
        run = current_run(runs, result, store)
        lengths = None if run is None else (len(run.translation.src_tokens), len(run.translation.tgt_in_tokens))
        return None, join_value(of_model(runs, store).config, lengths)
    except Exception as error:
        return notice(error), gr.skip()


# --- layout ---


def scheme_table() -> str:
    """Schemes down, questions across, in markup; numbers are filled in by the page."""
    head = "".join(f'<th scope="col" data-t="positions.schemes.{question}"></th>' for question in QUESTIONS)
    rows = ""
    for name in SCHEMES:
        cells = ""
        for question in QUESTIONS:
            filled = f'data-number="{name}"' if question == "parameters" else f'data-t="positions.schemes.{name}.{question}"'
            cells += f"<td><span {filled}></span></td>"
        rows += f'<tr><th scope="row"><i class="line {name}"></i><span data-t="positions.schemes.{name}"></span></th>{cells}</tr>'
    return f'<table class="schemes"><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table>'


_SCHEMES_FOOT = f"""
<div class="map-foot"><p class="caption" data-t="positions.schemes.caption"></p><div data-said></div></div>
<div class="turn-room" tabindex="0" role="region" data-t-label="positions.schemes.title">{scheme_table()}</div>
<div class="map-foot"><details><summary data-t="more.open"></summary><p data-t="positions.schemes.more"></p>
  <p data-t="positions.schemes.more.learned"></p></details></div>
"""
_JOIN = """
<div class="ways" data-ways></div>
<div class="map-foot"><p class="caption" data-said></p>
  <details><summary data-t="more.open"></summary><p data-t="positions.join.more"></p>
    <p class="formula"><i>W</i> [<i>x</i> ; PE] = <i>W</i><sub>1</sub> <i>x</i> + <i>W</i><sub>2</sub> PE</p></details></div>
"""


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays both sections out inside the current column and wires them."""
    with section("schemes"):
        message = static_block(NOTICE, "atlas.notice(element, props, watch)", "schemes-notice")
        plot = PlotlyView(label_key="positions.schemes.title", elem_id="schemes-plot", css_class="plot-schemes")
        facts = static_block(_SCHEMES_FOOT, "atlas.positions.schemes(element, props, watch)", "schemes-foot")
    ask_server(bridge, "position_schemes", draw_schemes, runs, result, [message, plot, facts])
    with section("join"):
        message = static_block(NOTICE, "atlas.notice(element, props, watch)", "join-notice")
        ways = static_block(_JOIN, "atlas.positions.join(element, props, watch)", "join")
    ask_server(bridge, "position_join", draw_join, runs, result, [message, ways])
