"""The first two sections of Positions: the positional encoding of the visitor's model, as a table and as waves.

Handlers first: plain functions that take what the page sent and return what the page shows, callable without a browser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gradio as gr

from model.errors import InvalidSettingError
from viz.components import PlotlyView, view_value
from viz.figures.labels import token_labels
from viz.figures.positional import PositionTexts, positional_heatmap, positional_waves
from viz.page import static_block
from viz.panels.choice import as_mapping, language_of, one_of, whole_number
from viz.panels.map_view import label_texts
from viz.panels.notice import notice
from viz.panels.position_section import NOTICE, ask_server, current_run, of_model, section
from viz.runs import Run, RunCache
from viz.text import say

if TYPE_CHECKING:
    from model.config import TransformerConfig
    from model.translator import Translator

FIRST_LENGTH = 50
MAX_LENGTH = 256  # more rows than that are thinner than a pixel
MAX_PAIRS = 6
MAX_STEPS = 64  # positions that one of the clocks' sliders goes through
AXES = ("linear", "log")


@dataclass(frozen=True)
class PositionChoice:
    """How many positions, which pairs of dimensions as waves, whether the table's rows are the tokens of the current sentence, and how
    the table's dimensions are spaced."""

    length: int
    pairs: tuple[int, ...]
    tokens: bool = False
    axis: str = "linear"

    @classmethod
    def from_page(cls, store: object, d_model: int, max_len: int) -> PositionChoice:
        """The choice in a page's store. Raises InvalidSettingError."""
        store = as_mapping(store)
        pairs = store.get("pairs")
        if not isinstance(pairs, (list, tuple)) or not 1 <= len(set(map(str, pairs))) <= MAX_PAIRS:
            raise InvalidSettingError("pairs", pairs, f"1 to {MAX_PAIRS} pairs")
        checked = {whole_number("pair", pair, 0, d_model // 2 - 1) for pair in pairs}
        length = whole_number("positions", store.get("length"), 2, min(MAX_LENGTH, max_len))
        axis = one_of("axis", store.get("axis", "linear"), AXES)
        return cls(length, tuple(sorted(checked)), store.get("tokens") is True, axis)

    @classmethod
    def first(cls, d_model: int, max_len: int) -> PositionChoice:
        """What the tab opens with: a fast, a middling and a slow pair."""
        return cls(min(FIRST_LENGTH, max_len), offered_pairs(d_model)[:3])


def offered_pairs(d_model: int) -> tuple[int, ...]:
    """Pairs whose wavelengths are spread evenly on a log scale, from the fastest to the slowest."""
    half = d_model // 2
    return tuple(sorted({*(round(half * part / 8) for part in range(8)), half - 1} - {half}))


def dimensions(pairs: tuple[int, ...], d_model: int, layout: str) -> list[int]:
    """Dimensions of these pairs, sine and cosine of each side by side."""
    if layout == "interleaved":
        return [d for pair in pairs for d in (2 * pair, 2 * pair + 1)]
    return [d for pair in pairs for d in (pair, d_model // 2 + pair)]


def slider_steps(max_len: int) -> int:
    """How many positions p, and distances k, the clocks can be set to: p + k has to lie in the table."""
    return min(MAX_STEPS, (max_len + 1) // 2)


# --- handlers ---


def position_texts(language: str, tokens: bool, position_axis: str = "") -> PositionTexts:
    """Every word on a figure. The table says what its rows are in a note; the waves have a named axis."""
    return PositionTexts(
        row=say(language, "positions.row.tokens" if tokens else "positions.row"),
        column=say(language, "positions.column"),
        position_axis=position_axis,
        dimension_axis="",
        position=say(language, "positions.hover.position"),
        dimension=say(language, "positions.hover.dimension"),
        value=say(language, "positions.hover.value"),
        wavelength=say(language, "positions.hover.wavelength"),
        sine=say(language, "positions.sine"),
        cosine=say(language, "positions.cosine"),
        positions=say(language, "positions.unit"),
        wave=say(language, "positions.wave"),
        scale=say(language, "positions.scale"),
    )


def views(translator: Translator, choice: PositionChoice, run: Run | None, languages: tuple[str, ...]) -> tuple[str, str]:
    """Table and waves as the values of two PlotlyViews."""
    layout, d_model = translator.config.position_layout, translator.config.d_model
    table = translator.positional_encoding(choice.length)
    tokens = run.translation.src_tokens if choice.tokens and run is not None else None
    rows = table if tokens is None else translator.positional_encoding(len(tokens))
    dims = dimensions(choice.pairs, d_model, layout)
    heat, waves, heat_words, wave_words = {}, {}, {}, {}
    for language in languages:
        texts = position_texts(language, tokens is not None)
        labels = None if tokens is None else token_labels(tokens, label_texts(language))
        look = {"axis": choice.axis, "row_labels": labels, "uirevision": f"{len(rows)}{tokens is None}{choice.axis}"}
        heat[language] = positional_heatmap(rows, layout=layout, texts=texts, **look)
        texts = position_texts(language, False, say(language, "positions.axis.position"))
        waves[language] = positional_waves(table, dims, layout=layout, texts=texts, uirevision=f"{choice.length}")
        heat_words[language] = say(language, "alt.positions", rows=len(rows), columns=d_model)
        wave_words[language] = say(language, "alt.waves", dimensions=", ".join(map(str, dims)), rows=choice.length)
    return view_value(heat, heat_words), view_value(waves, wave_words)


def draw(runs: RunCache, result: object, store: object) -> tuple[Any, Any, Any]:
    """Message, table and waves for what the page chose; on an error the message alone."""
    try:
        translator = of_model(runs, store)
        config = translator.config
        choice = PositionChoice.from_page(as_mapping(store).get("positions"), config.d_model, config.max_len)
        run = current_run(runs, result, store) if choice.tokens else None
        return (None, *views(translator, choice, run, (language_of(store),)))
    except Exception as error:
        return notice(error), gr.skip(), gr.skip()


# --- layout ---

_TABLE_BAR = """
<div class="section-bar">
  <div class="option wide"><label class="option-name" for="positions-length"><span data-t="positions.length"></span>
    <output data-length></output></label><input type="range" id="positions-length" min="2"></div>
  <div class="option"><span class="option-name" data-t="positions.axis"></span>
    <div class="segments" role="radiogroup" data-t-label="positions.axis" data-axis></div></div>
  <label class="check"><input type="checkbox" data-tokens><span data-t="positions.tokens"></span></label>
</div>
"""
_TABLE_FOOT = '<div class="map-foot"><p class="caption" data-heat-caption></p></div>'
_WAVE_BAR = """
<div class="section-bar">
  <div class="option" data-t-title="positions.pairs.help"><span class="option-name" data-t="positions.pairs"></span>
    <div class="chips" role="group" data-t-label="positions.pairs" data-pairs></div></div>
</div>
"""
_WAVE_FOOT = """
<div class="map-foot"><p class="caption" data-t="positions.waves.caption"></p>
  <details><summary data-t="more.open"></summary>
    <p data-t="positions.more"></p>
    <p class="formula">PE(<i>pos</i>, 2<i>i</i>) = sin(<i>pos</i> / 10000<sup>2<i>i</i>/<i>d</i></sup>),&emsp;
      PE(<i>pos</i>, 2<i>i</i>+1) = cos(<i>pos</i> / 10000<sup>2<i>i</i>/<i>d</i></sup>),&emsp;<i>d</i> = <i>d</i><sub>model</sub></p>
  </details>
</div>
"""


def positions_about(config: TransformerConfig) -> dict[str, Any]:
    """What the tab's controls have to know of a model: its layout, and what can be chosen."""
    first = PositionChoice.first(config.d_model, config.max_len)
    return {
        "layout": config.position_layout,
        "d_model": config.d_model,
        "max_length": min(MAX_LENGTH, config.max_len),
        "limit": config.max_len,
        "steps": slider_steps(config.max_len),
        "length": first.length,
        "pairs": list(first.pairs),
        "max_pairs": MAX_PAIRS,
        "offered": [
            {"pair": pair, "dims": dimensions((pair,), config.d_model, config.position_layout)} for pair in offered_pairs(config.d_model)
        ],
    }


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Lays both sections out inside the current Blocks and wires them. Their pictures are asked for when the first is seen."""
    with section("table"):
        message = static_block(NOTICE, "atlas.notice(element, props, watch)", "positions-notice")
        static_block(_TABLE_BAR, "atlas.positions.tableBar(element)", "positions-table-bar")
        table = PlotlyView(label_key="positions.heatmap.label", elem_id="positions-table", css_class="plot-table")
        static_block(_TABLE_FOOT, "atlas.positions.tableFoot(element)", "positions-table-foot")
    with section("waves"):
        static_block(_WAVE_BAR, "atlas.positions.waveBar(element)", "positions-waves-bar")
        curves = PlotlyView(label_key="positions.waves.label", elem_id="positions-waves", css_class="plot-waves")
        static_block(_WAVE_FOOT, "atlas.applyText(element)", "positions-waves-foot")
    ask_server(bridge, "positions", draw, runs, result, [message, table, curves])
