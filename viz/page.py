"""The page around the tabs: head (texts, script, style), header, footer, theme, and how the server is started."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import gradio as gr

from viz import limits
from viz.delivery import PlotlyDelivery, plotly_script_url
from viz.door import guarded
from viz.text import LANGUAGES

STATIC = Path(__file__).parent / "static"
SCRIPTS = (
    "page.js",
    "requests.js",
    "link.js",
    "controls.js",
    "plot.js",
    "maps.js",
    "heatmap.js",
    "map.js",
    "ribbons.js",
    "words.js",
    "mosaic.js",
    "strip.js",
    "headmap.js",
    "heads.js",
    "models.js",
    "card.js",
    "result.js",
    "translate.js",
    "choice.js",
    "positions.js",
    "position_table.js",
    "position_facts.js",
    "position_clocks.js",
    "small_map.js",
    "position_sentence.js",
    "word_order.js",
    "steps_numbers.js",
    "steps_strips.js",
    "steps_table.js",
    "steps_sums.js",
    "steps_formulas.js",
    "steps_questions.js",
    "steps_parts.js",
    "steps_step.js",
    "steps_attention.js",
    "steps_walk.js",
    "steps.js",
    "steps_controls.js",
    "machine_parts.js",
    "machine_draw.js",
    "machine_inside.js",
    "machine_sizes.js",
    "machine.js",
    "machine_lab.js",
    "machine_lab_batch.js",
    "machine_lab_costs.js",
    "pictures.js",
    "share.js",
    "tour.js",
)
STYLES = (
    "atlas.css",
    "map.css",
    "words.css",
    "heads.css",
    "positions.css",
    "position_facts.css",
    "position_sentence.css",
    "steps.css",
    "machine.css",
    "machine_lab.css",
    "share.css",
    "tour.css",
)
EVENTS = (  # by which the page asks Python
    "translate",
    "maps",
    "export",
    "positions",
    "load_model",
    "steps",
    "cell",
    "position_wavelengths",
    "position_distance",
    "position_clocks",
    "position_schemes",
    "position_join",
    "position_lengths",
    "position_places",
    "position_head",
    "position_order",
    "machine",
    "lab_masks",
    "lab_serial",
    "lab_norms",
    "lab_scale",
    "lab_counts",
)
FONTS = [
    "system-ui",
    "-apple-system",
    "Segoe UI",
    "Roboto",
    "Noto Sans",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "sans-serif",
]

TOUR = '<button type="button" class="tour-again" data-tour data-t="tour.replay" data-t-title="tour.replay.help"></button>'
HEADER = f"""
<header class="masthead">
  <button type="button" class="skip" data-skip data-t="page.skip"></button>
  <div class="brand"><svg viewBox="0 0 22 22" aria-hidden="true">
      <path d="M3 4 L19 11 M3 11 L19 4 M3 18 L19 18"/>
      <circle cx="3" cy="4" r="1.8"/><circle cx="3" cy="11" r="1.8"/><circle cx="3" cy="18" r="1.8"/>
      <circle cx="19" cy="4" r="1.8"/><circle cx="19" cy="11" r="1.8"/><circle cx="19" cy="18" r="1.8"/></svg>
    <h1 data-t="page.title"></h1><span data-t="page.tagline"></span></div>
  <div class="switches">
    {TOUR}
    <div class="languages" role="group" data-t-label="header.language">
      <button type="button" data-lang="en" lang="en">EN</button><button type="button" data-lang="zh" lang="zh-CN">中文</button>
    </div>
    <button type="button" class="theme" data-theme data-t-label="header.theme" data-t-title="header.theme">
      <svg viewBox="0 0 20 20" aria-hidden="true">
        <circle cx="10" cy="10" r="7.25"/><path d="M10 2.75 a7.25 7.25 0 0 1 0 14.5 z"/></svg></button>
  </div>
</header>
<div class="link-note" data-link-note></div>
<p class="server-note notice" role="status" data-server-note hidden></p>
<p class="belongs-note" role="status" data-belongs hidden></p>
"""


def static_block(template: str, script: str, elem_id: str, value: Any = None, **kwargs: Any) -> gr.HTML:
    """A piece of page drawn by our own script: a constant template (never with user text in it) and data in `value`."""
    return gr.HTML(value, html_template=template, js_on_load=script, apply_default_css=False, elem_id=elem_id, **kwargs)


def report_end(event: Any, name: str) -> None:
    """Tells the page's script that an event of this name has ended, well or badly, without asking the server."""
    event.success(None, None, None, js=f"() => atlas.succeeded('{name}')")
    event.failure(None, None, None, js=f"() => atlas.failed('{name}')")


def bridge() -> gr.HTML:
    """The hidden component through which the page's store reaches Python; its events are named in the script."""
    script = f"atlas.connect(props, trigger, [{', '.join(map(repr, EVENTS))}])"
    return static_block("", script, "bridge", {}, visible="hidden")


def header() -> gr.HTML:
    """Name, language switch, theme switch."""
    return static_block(HEADER, "atlas.header(element)", "masthead")


def footer() -> gr.HTML:
    """One line at the end of every tab."""
    return static_block('<footer class="footer"><p data-t="footer.model"></p></footer>', "atlas.applyText(element)", "footer")


def head() -> str:
    """What goes into the page's <head>: plotly.js (early, once), style, both text tables, script. Nothing from another host."""
    # "<" as an escape: no string of a table can end the script element.
    texts = json.dumps(LANGUAGES, ensure_ascii=False, default=dict).replace("<", "\\u003c")
    script = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in SCRIPTS)
    style = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES)
    return (
        f'<script data-plotly async src="{plotly_script_url()}"></script>'
        '<meta name="color-scheme" content="light dark">'
        f"<style>{style}</style><script>window.atlasText = {texts};</script><script>{script}</script>"
    )


def theme() -> gr.themes.Base:
    """Gradio's plainest theme with system fonts only; static/atlas.css does the rest."""
    return gr.themes.Base(font=FONTS, font_mono=["ui-monospace", "Consolas", "monospace"], primary_hue="neutral", neutral_hue="neutral")


def port() -> int:
    """The port to serve on: PORT, else 7860. Ends the program with a plain sentence if PORT is none."""
    value = os.environ.get("PORT", "7860")
    if not value.isascii() or not value.isdecimal() or not 0 < int(value[:6]) < 65536:
        raise SystemExit(f"PORT={value} is no port: give a number from 1 to 65535.")
    return int(value)


def launch_options() -> dict[str, Any]:
    """Arguments for `Blocks.launch`: no history, no monitoring, no telemetry, small uploads, limits, our head and theme."""
    on_space = bool(os.environ.get("SPACE_ID"))
    return {
        "server_name": os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if on_space else "127.0.0.1"),
        "server_port": port(),
        "theme": theme(),
        "head": head(),
        "favicon_path": str(STATIC / "favicon.png"),
        "run_history": False,
        "ssr_mode": False,
        "enable_monitoring": False,
        "show_error": False,
        "max_file_size": "1mb",
        "state_session_capacity": 200,
        "footer_links": [],
        "pwa": False,
        "app_kwargs": {"lifespan": guarded, "middleware": [(limits.Gate, (), limits.settings()), (PlotlyDelivery, (), {})]},
    }
