"""One translation with all its maps and its controls as a single HTML file that needs no network: `offline_page(run) -> str`.

The file holds the page's own scripts, style and text tables, plotly.js, the blocks of the Translate screen, and the data; what Gradio does
on the live page (mounting the blocks, handing them their values) a few lines at the end do here. Its Content-Security-Policy forbids every
connection, so what a visitor wrote stays where the file is. Inside script elements "<" is written as an escape, so no sentence can end one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import date
from html import escape
from typing import TYPE_CHECKING, BinaryIO

from viz.components import TEMPLATE as PLOT
from viz.delivery import PLOTLY_SCRIPT
from viz.exports import ExportTooLargeError, num_weights
from viz.figures.heatmap_template import heatmap_template
from viz.page import HEADER, SCRIPTS, STATIC, STYLES, TOUR
from viz.panels import translate as screen
from viz.panels.choice import MapChoice, as_mapping, language_of
from viz.panels.map_view import piece_weights
from viz.panels.maps_value import maps_value
from viz.panels.reading import result_value
from viz.text import LANGUAGES, say

if TYPE_CHECKING:
    from viz.runs import Run

MAX_WEIGHTS = 12_000_000  # about 32 MB of base64
EARLY = 3  # of SCRIPTS: page.js to link.js, which read what the page begins with
_LIVE = ("tour.js", "tour.css")  # the tour shows what only the live page has
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
)


def offline_page(run: Run, state: Mapping[str, object] | None = None, saved_on: date | None = None) -> str:
    """The page as HTML text, opened on the map that `state` names.

    state: kind, layer, head, rows, units, specials, colour, lang, dark (true or false), row and column (pinned), as in the page's store;
    what is missing is as on a fresh page. saved_on: the day in the badge, by default today.
    Raises InvalidSettingError for a map that the run does not have, ExportTooLargeError beyond MAX_WEIGHTS.
    """
    if num_weights(run) > MAX_WEIGHTS:
        raise ExportTooLargeError("HTML", num_weights(run), MAX_WEIGHTS)
    state = as_mapping(state)
    language = language_of(state)
    begin = _beginning(run, state)
    facts = {"date": (saved_on or date.today()).isoformat(), "model": run.request.model, "revision": run.revision}
    values = {"begin": begin, "result": {**result_value(run), "badge": "saved"}, "facts": facts, "template": heatmap_template()}
    data = f'{_json(values)[:-1]},"maps":{_inert(maps_value(run, max_tokens=10**9))}}}'
    scripts = [name for name in SCRIPTS if name not in _LIVE]
    early, late = ("\n".join((STATIC / name).read_text(encoding="utf-8") for name in names) for names in (scripts[:EARLY], scripts[EARLY:]))
    style = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in STYLES if name not in _LIVE)
    return f"""<!doctype html>
<html lang="{"zh-CN" if language == "zh" else language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{escape(say(language, "page.title"))}</title>
<style>{style}{_STYLE}</style>
<script data-plotly>{_script(PLOTLY_SCRIPT.read_text(encoding="utf-8"))}</script>
<script>window.atlasText = {_json(LANGUAGES)};</script>
<script>window.atlasSaved = {data};</script>
<script>{_script(early)}</script>
<script>{_BEFORE}</script>
<script>{_script(late)}</script>
</head>
<body class="atlas-offline">
<div class="gradio-container">
<div id="masthead">{HEADER.replace(TOUR, "")}</div>
<main>
<div id="sentence-area">
  <p class="field-name" data-saved></p>
  <p class="offline-sentence" dir="auto">{escape(run.request.text)}</p>
  <div id="result">{screen.RESULT}</div>
  <div id="share">{screen.SHARE}</div>
</div>
<div id="map-area">
  <div id="map-head">{screen.MAP_HEAD}</div>
  <div id="map-main">
    <div id="words-view">{screen.WORDS}</div>
    <div id="map" class="plot-map">{PLOT}</div>
    <div id="map-foot">{screen.MAP_FOOT}</div>
  </div>
  <div id="map-side">
    <div id="heads-strip">{screen.STRIP}</div>
    <div id="map-options">{screen.MAP_OPTIONS}</div>
  </div>
</div>
</main>
<footer class="footer"><p data-t="offline.note"></p></footer>
</div>
<script>{_AFTER}</script>
</body>
</html>
"""


def write_page(run: Run, file: BinaryIO, state: Mapping[str, object] | None = None) -> None:
    """`offline_page` into a binary file, UTF-8."""
    # what a page sends may hold halves of surrogate pairs
    file.write(offline_page(run, state).encode("utf-8", errors="replace"))


# The first two lines: what Gradio's own style sets on the live page and ours relies on.
_STYLE = """
.atlas-offline *, .atlas-offline *::before, .atlas-offline *::after { box-sizing: border-box; }
.atlas-offline :is(p, h2, figure) { margin: 0; }
.atlas-offline { margin: 0; }
.atlas-offline .skip { display: none; }
.offline-sentence { font-size: var(--read); letter-spacing: -0.012em; line-height: 1.35; padding: 6px 0 8px; overflow-wrap: anywhere; }
.atlas-offline #sentence-area [data-saved] { padding-inline-start: 14px; }
"""

# Between the scripts that read what the page begins with and those that take it over. There is no server: nothing is ever asked.
_BEFORE = """
atlas.offline = true;
atlas.begin = () => {};
atlas.kept = {...atlasSaved.begin, runs: false, ...atlas.kept};
if (!new URLSearchParams(location.search).has("lang")) atlas.set({lang: atlasSaved.begin.lang});
"""

# What Gradio does on the live page: every block gets its element, its value, and somebody to tell when it changes (here it never does).
_AFTER = """
(() => {
  const {begin, result, facts, template, maps} = atlasSaved;
  const quiet = () => {};
  const part = (id) => document.getElementById(id);
  document.body.classList.toggle("dark", begin.dark ?? matchMedia("(prefers-color-scheme: dark)").matches);
  const saved = document.querySelector("[data-saved]");
  saved.classList.add("badge");
  const showSaved = () => {
    const model = facts.model === "embedded" ? atlas.say("offline.embedded") : [facts.model, facts.revision].filter(Boolean).join(" @ ");
    atlas.fill(saved, atlas.say("offline.badge", {date: facts.date, model}));
  };
  atlas.onChange(["lang"], showSaved);
  showSaved();
  atlas.header(part("masthead"));
  atlas.maps.take(maps);
  atlas.resultView(part("result"), {value: result}, quiet);
  atlas.share(part("share"));
  atlas.mapControls(part("map-head"));
  atlas.mapWords(part("map-head"));
  atlas.wordsView(part("words-view"));
  atlas.mapView({element: part("map"), props: {value: template}});
  atlas.mapWords(part("map-foot"));
  atlas.headsStrip(part("heads-strip"));
  atlas.mapControls(part("map-options"));
  atlas.applyText();
  if (begin.row !== null || begin.column !== null) atlas.focus.pin(begin.row, begin.column);
})();
"""


def _beginning(run: Run, state: Mapping[str, object]) -> dict[str, object]:
    """The state that the page begins with."""
    told = {name: value for name, value in state.items() if value is not None}
    choice = MapChoice.from_page({"kind": "cross", "layer": None, "head": "mean", **told}, run.trace, run.best_heads)
    piece_weights(run, choice)  # raises if it was not measured
    begin: dict[str, object] = {**asdict(choice), "lang": language_of(state)}
    begin |= {"model": run.request.model, "target": run.request.target, "beam_size": run.request.beam_size}
    begin["dark"] = state["dark"] if isinstance(state.get("dark"), bool) else None
    for name in ("row", "column"):
        value = state.get(name)
        begin[name] = int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 10_000 else None
    return begin


def _json(value: object) -> str:
    return _inert(json.dumps(value, ensure_ascii=False, default=dict, allow_nan=False))


def _inert(text: str) -> str:
    """JSON that may stand inside a script element: "<" is found only in its strings, where an escape says the same."""
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _script(text: str) -> str:
    """A script that may stand inside a script element. Only strings and regular expressions hold these; both forms are the same there."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")
