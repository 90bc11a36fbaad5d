"""The tabs on a narrow screen: all in one line that scrolls, in the page's language, and the one a link asks for in view."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW, Open
from tests.browser.machine_view import machine
from viz.text import say

TABS = ("translate", "heads", "steps", "positions", "machine")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_tab_is_there_and_the_linked_one_in_view(open_page: Open, lang: str) -> None:
    page = open_page(size=NARROW, lang=lang)
    page.goto(page.url + "&tab=machine")
    chosen = page.locator("#tab-machine-button")
    expect(chosen).to_have_attribute("aria-selected", "true")
    expect(page.locator("#tabs [role=tab]")).to_have_text([say(lang, f"tab.{name}") for name in TABS])
    box = chosen.bounding_box()
    assert 0 <= box["x"] and box["x"] + box["width"] <= NARROW[0]
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for name in TABS:
        page.locator(f"#tab-{name}-button").click()
        expect(page.locator(f"#tab-{name}-button")).to_have_attribute("aria-selected", "true")
        expect(page.locator(f"#tab-{name}")).to_be_visible()


HEADINGS = """() => [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')]
  .filter((node) => node.checkVisibility({visibilityProperty: true})).map((node) => [Number(node.tagName[1]), node.textContent.trim()])"""


def test_headings_go_down_without_a_leap(open_real: Open) -> None:
    page = open_real()
    for name in TABS:
        page.locator(f"#tab-{name}-button").click()
        expect(page.locator(f"#tab-{name}")).to_be_visible()
        page.wait_for_function("(name) => document.querySelectorAll(`#tab-${name} :is(h2, h3)`).length > 0", arg=name)
        for details in page.locator(f"#tab-{name} details:not([open]) > summary").all():
            if details.is_visible():
                details.click()
        found = page.evaluate(HEADINGS)
        assert found[0] == [1, say("en", "page.title")] and all(text for _, text in found), name
        levels = [level for level, _ in found]
        assert levels.count(1) == 1 and len(levels) > 1, name
        assert all(lower <= upper + 1 for upper, lower in zip(levels, levels[1:], strict=False)), (name, found)


SCROLLS = """(selector) => {
  const node = document.querySelector(selector);
  return [node.scrollWidth > node.clientWidth, getComputedStyle(node).backgroundImage.includes('gradient')];
}"""


def test_what_scrolls_sideways_shows_that_there_is_more(open_real: Open) -> None:
    page = open_real("positions", size=NARROW)
    page.wait_for_selector("#at-schemes .schemes")
    for selector in ("#tabs [role=tablist]", ".turn-room:has(.schemes)", ".plot-schemes .plot-frame"):
        page.locator(selector).first.scroll_into_view_if_needed()
        page.wait_for_function(f"({SCROLLS})('{selector}')[0]")
        assert page.evaluate(SCROLLS, selector) == [True, True], selector


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_configurations_stand_in_one_line(open_real: Open, lang: str) -> None:
    page = machine(open_real("machine", size=NARROW, lang=lang, search="&config=own"))
    tops = page.evaluate("[...document.querySelectorAll('[data-machine=configs] .choice')].map((node) => node.getBoundingClientRect().top)")
    assert len(tops) == 4 and len(set(tops)) == 1
