"""The tabs on a narrow screen: all in one line that scrolls, in the page's language, and the one a link asks for in view."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW, Open
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
