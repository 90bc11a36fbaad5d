"""A real Chromium on a real server with a fake translator, and a page that fails its test for any error or outside request."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

import app
from model import load_translator
from model.pool import ModelPool
from model.translator import Translator
from tests.conftest import CHROMIUM
from tests.viz.fakes import FakeTranslator, Scripts, recorded_run, shelf
from viz import page as page_parts

ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE, NARROW = (1440, 900), (390, 844)

expect.set_options(timeout=60_000)  # a busy machine is no failure


def serve(demo) -> str:
    """Starts `demo` on a free port in this process and returns its address."""
    options = page_parts.launch_options() | {"server_name": "127.0.0.1", "server_port": None}
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    return url.rstrip("/")


@pytest.fixture(scope="session")
def translator() -> FakeTranslator:
    return FakeTranslator()


@pytest.fixture(scope="session")
def site(translator: FakeTranslator) -> Iterator[str]:
    demo = app.build_app(translator, recorded_run(translator))
    yield serve(demo)
    demo.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=str(CHROMIUM), args=ARGS)
        yield chromium
        chromium.close()


class Guard:
    """What a page must not do: log an error, throw, or ask another host."""

    def __init__(self, page: Page, base: str) -> None:
        self.complaints: list[str] = []
        page.on("console", lambda message: message.type == "error" and self.complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.on(
            "request",
            lambda request: request.url.startswith((base + "/", "data:", "blob:")) or self.complaints.append(f"outside: {request.url}"),
        )


class Ignored(list):
    """For a test that breaks something on purpose: takes complaints and keeps none."""

    def append(self, item: object) -> None:
        del item


Open = Callable[..., Page]


@pytest.fixture(scope="session")
def shelves(browser: Browser) -> Iterator[dict[tuple, BrowserContext]]:
    """Contexts that are kept from test to test, by what they were made with: a page is there in a third of the time once its scripts lie
    in a context's cache."""
    kept: dict[tuple, BrowserContext] = {}
    yield kept
    for context in kept.values():
        context.close()


@pytest.fixture
def open_page(browser: Browser, site: str, shelves: dict[tuple, BrowserContext]) -> Iterator[Open]:
    """open_page(size, theme, lang) -> a page with its first picture drawn. Complaints of all pages are checked at the end.

    tour, fresh: a visitor who was never here, with a context of their own; so has every second page that a test opens beside its first."""
    own: list[BrowserContext] = []
    pages: list[Page] = []
    guards: list[Guard] = []

    def context_for(size: tuple[int, int], theme: str, locale: str, fresh: bool) -> BrowserContext:
        kept = shelves.get((size, theme, locale))
        if kept is not None and not kept.pages and not fresh:
            return kept
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme, locale=locale)
        context.set_default_timeout(60_000)  # a busy machine is no failure
        if fresh or kept is not None:
            own.append(context)
        else:
            shelves[size, theme, locale] = context
        return context

    def open_it(
        size: tuple[int, int] = WIDE,
        theme: str = "light",
        lang: str | None = "en",
        locale: str = "en-US",
        url: str = "",
        picture: bool = True,
        seen: bool = True,
        search: str = "",
        tour: bool = False,
        fresh: bool = False,
    ) -> Page:
        page = context_for(size, theme, locale, tour or fresh).new_page()
        pages.append(page)
        if not tour:  # who has seen it is not offered it again
            page.add_init_script("localStorage.setItem('attention-atlas-tour', '1')")
        base = url or site
        guards.append(Guard(page, base))
        page.goto(f"{base}/?{f'lang={lang}' if lang else ''}{search}")
        page.wait_for_selector("#map .main-svg" if picture else "#sentence textarea", state="visible" if seen else "attached")
        return page

    open_it.guards = guards
    yield open_it
    for page in pages:
        page.close()
    for context in own:
        context.close()
    assert [line for guard in guards for line in guard.complaints] == []


def figure(page: Page, elem_id: str = "map") -> dict:
    """What is drawn: tokens of rows and columns, weights, and how often it was drawn."""
    return page.evaluate(
        """(id) => {
          const plot = document.querySelector(`#${id} .plot`);
          const trace = plot._fullData[0];
          const meta = plot.layout.meta;
          return {z: Array.from(trace.z || [], (row) => Array.from(row)), rows: meta.queries, columns: meta.keys, kind: meta.kind,
                  drawn: Number(plot.dataset.drawn), range: plot._fullLayout.xaxis.range.map(Number)};
        }""",
        elem_id,
    )


def resting_box(found: Locator) -> dict[str, float]:
    """Where an element stands once it stands still: what is drawn later may push it down, and a click would miss it."""
    before, box = None, found.bounding_box()
    while box is None or box != before:
        found.page.wait_for_timeout(250)
        before, box = box, found.bounding_box()
    return box


def wait_until_drawn(page: Page, drawn: int, elem_id: str = "map") -> None:
    """Waits for a drawing after number `drawn`."""
    page.wait_for_function("([id, n]) => Number(document.querySelector(`#${id} .plot`).dataset.drawn || 0) > n", arg=[elem_id, drawn])


def wait_for_words(page: Page, text: str) -> None:
    """Waits until the translation on the page contains `text` (spaces are layout, not text, so they are left out)."""
    page.wait_for_function(
        "(text) => [...document.querySelectorAll('#result .word-text')].map((w) => w.textContent).join('').includes(text)", arg=text
    )


# --- models to choose from ---


class Gate:
    """Lets the loading of one model wait."""

    def __init__(self) -> None:
        self.waiting: dict[str, threading.Event] = {}
        self.first: threading.Event | None = None  # waited for before anything, a failure too

    def load(self, name, revision, progress, max_bytes):
        if self.first is not None:
            assert self.first.wait(120)
        translator = shelf(name, revision, progress, max_bytes)
        if name in self.waiting:
            assert self.waiting[name].wait(120)
        return translator


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def pool(gate: Gate) -> ModelPool:
    return ModelPool(gate.load, 10_000)


@pytest.fixture
def models_site(translator: FakeTranslator, pool: ModelPool) -> Iterator[str]:
    """Named before `open_page` by every test, so that it outlives the pages."""
    demo = app.build_app(translator, recorded_run(translator), pool=pool)
    yield serve(demo)
    demo.close()


def choose(page: Page, name: str) -> None:
    if page.locator("[data-model]").get_attribute("aria-expanded") == "false":
        page.locator("[data-model]").click()
    page.locator(f'.entry[value="{name}"]').click()


def targets(page: Page) -> list[str]:
    return page.locator("[data-targets] label").all_inner_texts()


def type_id(page: Page, name: str) -> None:
    if page.locator("[data-model]").get_attribute("aria-expanded") == "false":
        page.locator("[data-model]").click()
    page.locator("#models [data-id]").fill(name)
    page.locator("#models [data-id]").press("Enter")


# --- the Heads tab ---


@pytest.fixture
def open_heads(open_page: Open) -> Open:
    """`open_page`, up to the moment when the strip is painted."""

    def open_it(*args: object, **options: object) -> Page:
        page = open_page(*args, picture=False, **options)
        page.wait_for_selector("#heads-strip canvas[data-drawn]", state="attached")
        return page

    return open_it


def heads_tab(page: Page) -> Page:
    page.locator("#tab-heads-button").click()
    expect(page.locator("#heads-sheet [data-cell]").first).to_be_visible()
    return page


def order_by(page: Page, name: str) -> None:
    page.locator("#heads-order").select_option(name)


# --- the words of a map ---


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def scripts_site(scripts: Scripts) -> Iterator[str]:
    demo = app.build_app(scripts, recorded_run(scripts))
    yield serve(demo)
    demo.close()


@pytest.fixture
def open_words(open_page: Open, scripts_site: str):
    def open_it(text: str = "", target: str = "", **options) -> Page:
        page = open_page(url=scripts_site, picture=False, **options)
        page.wait_for_selector(".words-ribbons .all path", state="attached", timeout=60_000)
        if target:
            page.evaluate("(target) => atlas.set({target})", target)
            page.wait_for_function("(target) => atlas.maps.current().request.target === target", arg=target)
        if text:
            page.locator("#sentence textarea").fill(text)
            page.wait_for_function("(text) => atlas.maps.current().request.text === text", arg=text)
        return page

    return open_it


# --- the real thing: the embedded model, for screens that show its arithmetic ---


@pytest.fixture(scope="session")
def embedded() -> Translator:
    """The embedded model, loaded once for all browser tests."""
    return load_translator()


@pytest.fixture(scope="session")
def real_site(embedded: Translator) -> Iterator[str]:
    """The app with the embedded model and its recorded example."""
    demo = app.build_app(embedded, app.recorded_run())
    yield serve(demo)
    demo.close()


@pytest.fixture
def open_real(open_page: Open, real_site: str) -> Open:
    """open_real(tab, size=..., theme=..., lang=..., search="&...") -> the page on this tab, with the recorded example there."""

    def open_it(tab: str = "translate", **options: object) -> Page:
        page = open_page(url=real_site, **options)
        page.locator(f"#tab-{tab}-button").click()
        return page

    return open_it
