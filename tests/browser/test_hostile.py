"""Texts that would be scripts, markup, links, formulas or pictures if any part of the page took them for more than text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

import app
from tests.browser.conftest import Ignored, Open, serve
from tests.browser.test_exports import saved
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.offline import offline_page
from viz.runs import Request, Run

# Without spaces, so that the fake model's tokens are these very texts. Whatever ran would set window.hit, ask hit.invalid or open a dialog.
TOKENS = (
    "<script>window.hit=1</script>",
    "</script><script>window.hit=1</script>",
    "<img/src=//hit.invalid/1.png/onerror=window.hit=1>",
    "<svg/onload=window.hit=1>",
    "<iframe/src=javascript:parent.hit=1>",
    "<a/href=javascript:window.hit=1>x</a>",
    "<b>bold</b><br><sup>2</sup>",
    "\"onmouseover=window.hit=1//",
    "'-alert(1)-'",
    "$\\frac{1}{2}$",
    "${window.hit=1}",
    "{{constructor.constructor('window.hit=1')()}}",
    "%{x}<extra></extra>",
    "&lt;img/src=x/onerror=window.hit=1&gt;",
    "javascript:window.hit=1",
    "=HYPERLINK(\"//hit.invalid\")",
    "\u202egnp.exe",
    "👩‍👩‍👧",
)
SENTENCE = " ".join(TOKENS)


class Trap:
    """What must not have happened on a page."""

    def __init__(self, page: Page) -> None:
        self.page, self.sprung = page, []
        page.on("dialog", lambda dialog: (self.sprung.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: urlsplit(request.url).hostname == "hit.invalid" and self.sprung.append(request.url))
        page.on("popup", lambda popup: self.sprung.append(popup.url))

    def check(self) -> None:
        assert self.page.evaluate("[window.hit, ...[...document.querySelectorAll('iframe')].map((f) => f.src)]") == [None]
        assert self.sprung == []
        made = self.page.evaluate(
            """(inside) => [...document.querySelectorAll(inside)]
              .flatMap((part) => [...part.querySelectorAll('script, img, iframe, a[href]')])
              .filter((made) => !made.closest('.modebar') && !made.src?.startsWith('data:image/png')) // small maps, drawn by ourselves
              .map((made) => made.outerHTML.slice(0, 200))""",
            "#result, #map, #words-view, #heads-strip, #heads-sheet, .notice, .link-note, .share, .walk, #machine-area, #positions-area",
        )
        assert made == [], made


class Hostile(FakeTranslator):
    """Writes for one plain sentence all of TOKENS; for others, what it is given in the other case."""

    known = {("I love you.", "fra"): " ".join(f"▁{token}" for token in TOKENS)}


@pytest.fixture(scope="module")
def hostile_site() -> Iterator[str]:
    translator = Hostile()
    demo = app.build_app(translator, recorded_run(translator))
    yield serve(demo)
    demo.close()


@pytest.fixture
def open_hostile(open_page: Open, hostile_site: str):
    def open_it(text: str = "", **options) -> tuple[Page, Trap]:
        page = open_page(url=hostile_site, **options)
        trap = Trap(page)
        if text:
            page.locator("#sentence textarea").fill(text)
            page.wait_for_function("(text) => atlas.maps.current().request.text === text", arg=text)
        return page, trap

    return open_it


def test_tokens_are_shown_as_they_are(open_hostile) -> None:
    page, trap = open_hostile("I love you.")
    words = page.evaluate("[...document.querySelectorAll('#result .word-text')].map((word) => word.textContent)")
    assert [word for word in TOKENS if "\u202e" not in word and word not in words] == []
    labels = page.evaluate("document.querySelector('#map .plot').layout.meta.queries")
    assert [f"▁{token}" for token in TOKENS] == labels[:-1]
    assert "<scri" in page.locator("#map").evaluate("(map) => map.textContent")  # long labels are cut
    trap.check()
    # the same as the visitor's own translation, in the other language, as whole words, and on the sheet of heads
    page.locator("#given-toggle button").click()
    page.locator("#given textarea").fill(SENTENCE)
    page.locator("#given-buttons [data-show]").click()
    page.wait_for_function("atlas.maps.current().request.given !== null")
    page.locator("[data-lang=zh]").click()
    page.evaluate("atlas.set({units: 'words', kind: 'decoder_self', head: 'mean'})")
    page.hover("#result .word >> nth=2")
    page.locator("#tab-heads-button").click()
    expect(page.locator("#heads-sheet [data-cell]").first).to_be_visible(timeout=60_000)
    trap.check()


def test_the_sentence_is_shown_as_it_is(open_hostile) -> None:
    page, trap = open_hostile(SENTENCE)
    assert page.evaluate("document.querySelector('#map .plot').layout.meta.keys").count(f"▁{TOKENS[0]}") == 1
    assert "<script>" in page.locator("#words-view").inner_text()
    trap.check()
    # it stands in the address now; opened anew it is the same
    page.reload()
    page.wait_for_selector("#map .main-svg")
    expect(page.locator("#sentence textarea")).to_have_value(SENTENCE)
    page.wait_for_function("(text) => atlas.maps.current().request.text === text", arg=SENTENCE)
    trap.check()


def test_saved_pictures_and_tables_run_nothing(open_hostile, browser: Browser, tmp_path: Path) -> None:
    page, trap = open_hostile(SENTENCE)
    for name in ("Map, SVG", "Words and ribbons, SVG"):
        path = saved(page, name, tmp_path)
        context = browser.new_context()
        opened = context.new_page()
        sprung = Trap(opened)
        opened.goto(path.as_uri())  # as a document of its own, in which scripts would run
        assert "<script>window.hit=1</script>" in opened.evaluate("document.documentElement.textContent")
        assert opened.evaluate("window.hit ?? null") is None and sprung.sprung == []
        context.close()
    text = saved(page, "This map, CSV", tmp_path).read_text(encoding="utf-8-sig")
    cells = [cell for line in csv.reader(io.StringIO(text)) for cell in line]
    assert [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t", "\r") or (cell[:1] == "-" and not cell[1:2].isdigit())] == []
    trap.check()


def test_the_saved_page_runs_nothing(browser: Browser, tmp_path: Path) -> None:
    translator = Hostile()
    translation = translator.translate("I love you.")
    run = Run.of(Request(SENTENCE, "fra", given=SENTENCE), translation, translator.examine(translation))
    path = tmp_path / "page.html"
    path.write_text(offline_page(run, {"lang": "en", "kind": "cross"}), encoding="utf-8")
    context = browser.new_context(offline=True)
    context.set_default_timeout(60_000)
    page = context.new_page()
    trap = Trap(page)
    page.goto(path.as_uri())
    page.wait_for_selector("#map .main-svg")
    assert "<script>window.hit=1</script>" in page.locator(".offline-sentence").inner_text()
    trap.check()
    context.close()


@pytest.mark.parametrize("value", [TOKENS[1] + TOKENS[2], "javascript:window.hit=1", "\x00\u202e${window.hit=1}__proto__"])
def test_any_value_of_any_name_of_a_link(open_hostile, value: str) -> None:
    names = (
        "tab text model target beam given kind layer head rows units specials colour row column order rising kinds roles basis step depth "
        "without guess length pairs named axis distance p k side places seed wordorder inorder config own block fold zoom second "
        "norm_layers __proto__ constructor theme"
    )
    page, trap = open_hostile(search="".join(f"&{quote(name)}={quote(value)}" for name in names.split()), picture=False)
    expect(page.locator("[data-link-note]")).to_contain_text(value[2:12], timeout=60_000)
    assert page.evaluate("({}).hit ?? null") is None
    trap.check()


def test_a_model_s_name_is_text(open_hostile) -> None:
    page, trap = open_hostile()
    page.locator("[data-model]").click()
    for name in (TOKENS[2], "../../etc/passwd", "javascript:window.hit=1", "a/" + TOKENS[0]):
        page.locator("#models [data-id]").fill(name)
        page.locator("#models [data-id]").press("Enter")
        expect(page.locator("#models [data-problem]")).to_be_visible()
        expect(page.locator("#models [data-problem]")).to_contain_text(name[:30], timeout=60_000)
        trap.check()


def test_a_megabyte_is_answered_with_a_message(open_page: Open, hostile_site: str) -> None:
    page = open_page(url=hostile_site)
    trap = Trap(page)
    alert = page.locator("#notice [role=alert]")
    paste(page, "<b>x</b> ", 110_000)
    expect(alert).to_contain_text("tokens", timeout=60_000)
    page.locator("#sentence textarea").fill("I love you.")
    page.wait_for_function("atlas.maps.current().request.text === 'I love you.'")
    expect(alert).to_be_hidden()
    trap.check()


def test_more_than_the_server_takes_is_answered_with_a_message(open_page: Open, hostile_site: str) -> None:
    page = open_page(url=hostile_site)
    open_page.guards[-1].complaints = Ignored()  # Chromium writes of each refused request into the console
    alert = page.locator("#notice [role=alert]")
    paste(page, "日", 500_000)  # 1.5 MB
    expect(alert).to_contain_text("longer than this server takes", timeout=60_000)
    page.locator("#sentence textarea").fill("I love you.")
    page.wait_for_function("atlas.maps.current().request.text === 'I love you.'")
    expect(alert).to_be_hidden()


def paste(page: Page, text: str, times: int) -> None:
    page.evaluate(
        """([text, times]) => {
          const box = document.querySelector('#sentence textarea');
          box.value = text.repeat(times);
          box.dispatchEvent(new Event('input', {bubbles: true}));
        }""",
        [text, times],
    )


def test_every_tab_of_the_real_model(open_real: Open) -> None:
    page = open_real()
    trap = Trap(page)
    text = f"I {TOKENS[1]} {TOKENS[2]} $x$ ${{window.hit=1}} love <b>you</b>."
    page.locator("#sentence textarea").fill(text)
    page.wait_for_function("(text) => atlas.maps.current().request.text === text", arg=text)
    trap.check()
    for tab, drawn in (
        ("heads", "#heads-sheet [data-cell]"),
        ("steps", ".walk *"),
        ("positions", "#positions-table .main-svg"),
        ("machine", "#machine-area [data-machine=frame] svg"),
    ):
        page.locator(f"#tab-{tab}-button").click()
        expect(page.locator(drawn).first).to_be_visible(timeout=60_000)
        trap.check()
    page.locator("[data-lang=zh]").click()
    trap.check()
