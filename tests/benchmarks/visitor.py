"""A visitor of the benchmark's page: opens it with an empty cache, and clicks on what there is to choose, with a real mouse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import plotly
from playwright.sync_api import Browser, BrowserContext, Locator, Page

import app
from tests.benchmarks import clock
from tests.benchmarks.long_fake import HEADS, LAYERS, LongFake
from viz import page as page_parts

TOGETHER = 4  # ways to see all heads of a layer as one, before the single heads in their row of choices
SIZE = {"width": 1440, "height": 1400}  # all linked views in sight at once, so that all of them are painted
REFERENCE = """
<meta charset="utf-8">
<button id="empty">0</button><button id="react">draw</button>
<div id="plain" style="width: 640px; height: 480px"></div>
"""
REFERENCE_SCRIPT = """
document.querySelector("#empty").addEventListener("click", (event) => (event.target.textContent = Number(event.target.textContent) + 1));
const weights = () => Array.from({length: 30}, () => Array.from({length: 30}, Math.random));
const layout = {width: 640, height: 480, xaxis: {constrain: "domain"}, yaxis: {autorange: "reversed"}};
const draw = () => Plotly.react("plain", [{type: "heatmap", z: weights(), zmin: 0, zmax: 1}], layout);
document.querySelector("#react").addEventListener("click", draw);
draw();
bench.watch("body");
"""


# --- the page of the benchmark ---


@contextmanager
def serving(translator: LongFake, opens_with: str) -> Iterator[str]:
    """The whole app with this translator; its address. The page opens with the maps of `opens_with`."""
    demo = app.build_app(translator, translator.run(opens_with))
    options = page_parts.launch_options() | {"server_name": "127.0.0.1", "server_port": None}
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    try:
        yield url.rstrip("/")
    finally:
        demo.close()


def fresh(browser: Browser, from_opening: bool = False) -> BrowserContext:
    """A visitor with an empty cache."""
    context = browser.new_context(viewport=SIZE, color_scheme="light", locale="en-US")
    context.set_default_timeout(120_000)
    # The offer of the tour would lie over what is clicked; an empty page has nothing to remember it by.
    context.add_init_script("try { localStorage.setItem('attention-atlas-tour', '1'); } catch {}")
    context.add_init_script(clock.SCRIPT + (clock.FROM_OPENING if from_opening else ""))
    return context


def opened(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(f"{url}/?lang=en")
    page.wait_for_function("window.atlasFirstPicture")
    page.wait_for_timeout(500)
    clock.watch(page, "#map-area")
    return page


def reference_page(context: BrowserContext) -> Page:
    page = context.new_page()
    page.set_content(REFERENCE)
    page.add_script_tag(path=str(Path(plotly.__file__).parent / "package_data" / "plotly.min.js"))
    page.add_script_tag(content=REFERENCE_SCRIPT)
    return page


# --- what is clicked ---


def click(page: Page, target: Locator, event: str = "click") -> clock.Timing:
    """A real click in the middle of the target; the pointer is there before, so that hovering is over and done with."""
    target.scroll_into_view_if_needed()
    box = target.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.wait_for_timeout(clock.QUIET)
    return clock.timed(page, event, lambda: page.mouse.click(x, y))


def pick(page: Page, group: str, index: int) -> clock.Timing:
    """Another one of a row of choices."""
    return click(page, page.locator(f"[{group}] label").nth(index))


def state(page: Page, name: str) -> object:
    return page.evaluate("(name) => atlas.state[name]", name)


def drawn(page: Page) -> str:
    """What the heatmap shows now, to see that a click has changed it."""
    return page.evaluate("""() => {
      const plot = document.querySelector('#map .plot');
      const {z, zmin, zmax, colorscale} = plot._fullData[0];
      return JSON.stringify([plot.layout.meta, zmin, zmax, colorscale, Array.from(z || [], (row) => Array.from(row))]);
    }""")


class Steps:
    """One step after another through the choices of the page, each a real click, each seen to change what is chosen and what is drawn."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.turn: dict[str, int] = defaultdict(int)

    def choice(self, name: str, group: str, count: int, key: str | None = None, first: int = 0) -> clock.Timing:
        """The next of `count` in this row of choices; `key` is its name in the page's store."""
        key = key or name
        radios = self.page.locator(f"[{group}] input")
        chosen = radios.evaluate_all("(all) => all.findIndex((one) => one.checked)")
        index = first + (chosen - first + 1 if first <= chosen < first + count else 0) % count
        before, picture = state(self.page, key), drawn(self.page)
        found = pick(self.page, group, index)
        if state(self.page, key) == before or drawn(self.page) == picture:
            raise RuntimeError(f"{name}: {key} was {before} and is {state(self.page, key)}, nothing new is drawn; {found}")
        return found

    def strip(self) -> clock.Timing:
        """A head of another row and another column of the strip."""
        self.turn["strip"] += 1
        turn, picture = self.turn["strip"], drawn(self.page)
        wanted = (turn * 2 + 1) % LAYERS, (turn * 3 + 1) % HEADS
        if (state(self.page, "layer"), state(self.page, "head")) == wanted:
            wanted = wanted[0], (wanted[1] + 1) % HEADS
        found = click(self.page, self.page.locator("#heads-strip .mosaic-head").nth(wanted[0] * HEADS + wanted[1]))
        if (state(self.page, "layer"), state(self.page, "head")) != wanted or drawn(self.page) == picture:
            raise RuntimeError(f"strip: wanted {wanted}, chosen is {state(self.page, 'layer')}, {state(self.page, 'head')}")
        return found

    def hover(self) -> clock.Timing:
        """The pointer comes from outside to a word that was translated. Its first event there is pointerover."""
        self.turn["hover"] += 1
        words = self.page.locator("#words-view .words-line.rows .token")
        index = 1 + 3 * self.turn["hover"] % (words.count() - 2)
        words.nth(index).scroll_into_view_if_needed()
        box = words.nth(index).bounding_box()
        self.page.mouse.move(2, 2)
        self.page.wait_for_timeout(clock.QUIET)
        where = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        found = clock.timed(self.page, "pointerover", lambda: self.page.mouse.move(*where))
        if self.page.evaluate("atlas.focus.get().row") != index:
            raise RuntimeError("hover: the word is not in focus")
        self.page.mouse.move(2, 2)
        self.page.wait_for_timeout(clock.QUIET)
        return found


def switches(page: Page) -> dict[str, Callable[[], clock.Timing]]:
    """Everything that a visitor can switch in the map that is shown."""
    steps = Steps(page)
    return {
        "kind": lambda: steps.choice("kind", "data-kinds", 3),
        "layer": lambda: steps.choice("layer", "data-layers", LAYERS),
        "head (chips)": lambda: steps.choice("head", "data-heads", HEADS, first=TOGETHER),
        "head (strip)": steps.strip,
        "mean, max, rollout, norms": lambda: steps.choice("together", "data-heads", TOGETHER, "head"),
        "rows read or predicted": lambda: steps.choice("rows", "data-rows", 2),
        "pieces or words": lambda: steps.choice("units", "data-units", 2),
        "special tokens": lambda: steps.choice("specials", "data-specials", 2),
        "colour scale": lambda: steps.choice("colour", "data-colours", 3),
        "hover a word, to lit": steps.hover,
    }
