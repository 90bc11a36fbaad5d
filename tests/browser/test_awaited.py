"""While a sentence waits for its answer, every tab says that what it shows is the former one's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from model.translator import Translator
from tests.browser.conftest import NARROW, WIDE, Ignored, Open, wait_for_words
from viz.text import LANGUAGES

NEW = "The young teacher reads a very long book."
PARTS = {
    "heads": "#heads-sheet .sheet-groups",
    "steps": "#steps-view .walk",
    "machine": "#machine-picture .machine-status",
    "positions": "#at-lengths .plot-view",
}


@pytest.fixture
def held(embedded: Translator, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Translations of NEW wait for this."""
    go, quick = threading.Event(), embedded.translate_and_examine

    def slow(text: str, *args: object, **kwargs: object):
        assert text != NEW or go.wait(120)
        return quick(text, *args, **kwargs)

    monkeypatch.setattr(embedded, "translate_and_examine", slow)
    yield go
    go.set()


def tab(page: Page, name: str) -> None:
    page.locator(f"#tab-{name}-button").click()


def old(page: Page) -> bool:
    return page.evaluate("document.body.classList.contains('atlas-old')")


def belongs(lang: str, owner: str) -> str:
    return " ".join(LANGUAGES[lang][name] for name in ("page.belongs", "page.belongs.until")).format(text=owner)


def expect_old(page: Page, owner: str) -> None:
    """All five tabs step back and say whose it is that they show."""
    expect(page.locator("#result .place")).to_contain_text(f"belongs to “{owner}”")
    expect(page.locator("#result .words")).to_have_css("opacity", "0.45")
    expect(page.locator("#heads-strip")).to_have_css("opacity", "0.45")
    line = page.locator("[data-belongs]")
    expect(line).to_be_hidden()
    for name, part in PARTS.items():
        tab(page, name)
        expect(line).to_be_visible()
        expect(line).to_have_text(belongs("en", owner))
        expect(page.locator(part).first).to_have_css("opacity", "0.4" if name == "positions" else "0.45")
    page.locator("[data-lang=zh]").click()
    expect(line).to_have_text(belongs("zh", owner))
    page.locator("[data-lang=en]").click()
    tab(page, "translate")


def visit_all(page: Page) -> None:
    """Every tab has been looked at, so that each has something to show."""
    for name, part in PARTS.items():
        tab(page, name)
        page.locator(part).first.scroll_into_view_if_needed()
        if name == "positions":
            page.wait_for_selector("#at-lengths .main-svg")
    page.wait_for_function("document.querySelector('.walk-root').dataset.state === 'here'")
    tab(page, "translate")


def test_what_waits_is_not_taken_for_what_is_shown(open_real: Open, held: threading.Event) -> None:
    page = open_real()
    visit_all(page)
    owner = page.evaluate("atlas.result().request.text")
    page.locator("#sentence textarea").fill(NEW)
    page.locator("#sentence textarea").press("Enter")
    assert not old(page)  # a quick answer would come without a flicker
    page.wait_for_timeout(1000)
    assert old(page)
    expect_old(page, owner)
    held.set()
    page.wait_for_function("(text) => atlas.result().request.text === text", arg=NEW)
    assert not old(page)
    for name, part in PARTS.items():
        tab(page, name)
        expect(page.locator("[data-belongs]")).to_be_hidden()
        page.locator(part).first.scroll_into_view_if_needed()
        expect(page.locator(part).first).to_have_css("opacity", "1")


def test_a_link_s_sentence_is_not_taken_for_the_example_that_the_page_opens_with(open_real: Open, held: threading.Event) -> None:
    page = open_real()
    owner = page.evaluate("atlas.result().request.text")
    page.add_init_script(  # patience would hide for how long
        """const later = window.setTimeout;
        window.setTimeout = (run, wait, ...rest) => later(run, wait === 500 ? 20_000 : wait, ...rest);"""
    )
    page.goto(f"{page.url.split('?')[0]}?lang=en&beam=8&text={quote(NEW)}")
    expect(page.locator("#sentence textarea")).to_have_value(NEW)
    expect(page.locator("#result .place")).to_contain_text(f"belongs to “{owner}”", timeout=10_000)
    expect(page.locator("#result .words")).to_have_css("opacity", "0.45")
    held.set()
    page.wait_for_function("(text) => atlas.result().request.text === text", arg=NEW)
    assert not old(page)


@pytest.mark.parametrize(("text", "why"), [("   ", "Type a sentence."), ("word " * 600, "reads at most")])
def test_a_sentence_that_cannot_be_translated_is_not_taken_for_what_is_shown(open_page: Open, site: str, text: str, why: str) -> None:
    """Every tab says whose sentence it shows and why, and the address holds what is shown."""
    page = open_page()
    page.locator("#sentence textarea").fill("I love you.")
    page.wait_for_function("atlas.result().request.text === 'I love you.'")
    page.locator("#sentence textarea").fill(text)
    expect(page.locator("#notice [role=alert]")).to_contain_text(why)
    tab(page, "positions")
    expect(page.locator("[data-belongs]")).to_contain_text("belongs to “I love you.”.")
    expect(page.locator("[data-belongs]")).to_contain_text(why)
    page.wait_for_function("new URLSearchParams(location.search).get('text') === 'I love you.'")
    expect(page.locator("#sentence textarea")).to_have_value(text)  # nothing is lost
    tab(page, "translate")
    page.locator("#sentence textarea").fill("We will not go home.")
    page.wait_for_function("new URLSearchParams(location.search).get('text') === 'We will not go home.'")
    assert not old(page)


def test_what_was_refused_and_given_up_is_not_taken_for_what_is_shown(open_page: Open, site: str) -> None:
    page = open_page()
    open_page.guards[-1].complaints = Ignored()
    page.route("**/queue/join*", lambda route: route.fulfill(status=503, body="full"))
    page.evaluate("Math.random = () => 0")
    page.locator("#sentence textarea").fill(NEW)
    expect(page.locator("#notice [role=alert]")).to_be_visible()
    assert old(page)
    page.evaluate(  # the tries of a minute
        """() => {
          const said = document.querySelector('#notice [role=alert]');
          for (let i = 0; i < 20 && !said.textContent.includes('in a moment'); i++) atlas.failed('translate');
        }"""
    )
    page.unroute("**/queue/join*")
    tab(page, "machine")  # answered, which takes the message back
    expect(page.locator("#machine-picture .m-block").first).to_be_visible(timeout=60_000)
    expect(page.locator("[data-server-note]")).to_be_hidden()
    expect(page.locator("[data-belongs]")).to_be_visible()
    tab(page, "translate")
    page.locator("#sentence textarea").press("Enter")
    wait_for_words(page, "YOUNG")
    assert not old(page)


def test_a_quick_answer_dims_nothing(open_page: Open) -> None:
    page = open_page()
    page.evaluate(
        """() => { window.dimmed = 0; new MutationObserver(() => (window.dimmed += document.body.classList.contains('atlas-old')))
          .observe(document.body, {attributeFilter: ['class']}); }"""
    )
    page.evaluate(  # on a busy machine nothing is quick: half a second is twenty
        """() => { const later = window.setTimeout;
          window.setTimeout = (run, wait, ...rest) => later(run, wait === 500 ? 20_000 : wait, ...rest); }"""
    )
    page.locator("#sentence textarea").fill("Crossing answers")
    wait_for_words(page, "cROSSING")
    page.locator("#sentence textarea").fill("Quick answers")
    wait_for_words(page, "qUICK")
    page.wait_for_timeout(300)
    assert page.evaluate("window.dimmed") == 0


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_the_line_of_progress_crosses_no_words(open_page: Open, size: tuple[int, int]) -> None:
    page = open_page(size)
    page.evaluate("document.body.classList.add('atlas-working')")
    inside = page.evaluate(
        """() => {
          const line = document.querySelector('#result .progress').getBoundingClientRect();
          const texts = '#share button, #given-toggle button, #result .status span';
          const others = [...document.querySelectorAll(texts)].filter((each) => each.offsetParent);
          const through = others.filter((each) => {
            const range = document.createRange();
            range.selectNodeContents(each);
            const {top, bottom} = range.getBoundingClientRect();
            return top <= line.bottom && bottom >= line.top;
          });
          return [others.length > 3, line.height, through.map((each) => each.textContent)];
        }"""
    )
    assert inside == [True, 1, []]
