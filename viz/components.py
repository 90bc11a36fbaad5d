"""PlotlyView: the one component that shows a figure.

A gr.HTML that owns its plot. The browser side is static/plot.js: it draws with the plotly.min.js of the installed pip package, so the
version always fits, updates in place with Plotly.react (zoom survives), follows dark and light, and resizes when its tab is opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import gradio as gr
import plotly.graph_objects as go

# No user text is ever part of a template: gr.HTML evaluates templates as code. The figure arrives as data (props.value).
TEMPLATE = """
<figure class="plot-view">
  <div class="plot-frame" tabindex="0" role="img"><div class="plot"></div></div>
  <figcaption class="only-spoken"></figcaption>
</figure>
"""
_SCRIPT = "atlas.plotView({element, props, trigger, watch, events: ['cell_click', 'cell_hover']})"


def root(of: str) -> str:
    """A square root in a formula of the page, `of` in HTML; the bar over it is drawn by static/atlas.css."""
    return f'<span class="root"><span class="sign">√</span><span class="under">{of}</span></span>'


def view_value(figures: Mapping[str, go.Figure], alternatives: Mapping[str, str], about: Mapping[str, Any] | None = None) -> str:
    """What a PlotlyView shows, as the string that travels to the browser.

    figures: one per language, keyed by its code (one is enough; the page takes what it has). alternatives: the same keys, the picture
    in words. about: what the picture shows, for the page to compare with what is chosen now.
    Arrays travel as base64 typed arrays and NaN inside a list as null, so the string is always strict JSON.
    """
    views = ",".join(
        f'{json.dumps(language)}:{{"alt":{json.dumps(alternatives[language])},"figure":{figure.to_json(validate=False)}}}'
        for language, figure in figures.items()
    )
    return f'{{"about":{json.dumps(about)},"views":{{{views}}}}}'


class MapView(gr.HTML):
    """The heat map of the Translate tab, which the page draws by itself (static/map.js) from the maps that it has.

    value: what `viz.figures.heatmap_template.heatmap_template` gives; it never changes.
    """

    def __init__(self, value: Mapping[str, Any], *, elem_id: str, css_class: str = "plot-map", **kwargs: Any) -> None:
        super().__init__(
            value,
            html_template=TEMPLATE,
            js_on_load="atlas.mapView({element, props})",
            apply_default_css=False,
            elem_id=elem_id,
            elem_classes=[css_class],
            **kwargs,
        )

    def postprocess(self, value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """As it is: data, never markup."""
        return value


class PlotlyView(gr.HTML):
    """Shows the figure(s) of `view_value`.

    Events: cell_click and cell_hover, with integers `row`, `column`, `trace`. Any client can send any value, so a handler checks them
    (viz.panels.choice.read_cell).
    label_key: key of viz/text that names the picture for screen readers. css_class: sets the reserved height (static/atlas.css).
    """

    def __init__(self, value: str | None = None, *, label_key: str, elem_id: str, css_class: str = "plot-map", **kwargs: Any) -> None:
        super().__init__(
            value,
            html_template=TEMPLATE,
            js_on_load=_SCRIPT,
            apply_default_css=False,
            elem_id=elem_id,
            elem_classes=[css_class],
            label_key=label_key,
            view_id=elem_id,
            **kwargs,
        )

    def postprocess(self, value: str | None) -> str | None:
        """Unlike gr.HTML, does not warn about script tags: the value is data, never markup, and may quote what a visitor typed."""
        return value
