"""The tour of a first visit: offered once, never in the way, five stops that show what they speak of, and again at any time."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, Open

TARGETS = ("#sentence", "#result", "#map-main", "#heads-strip", "#tabs [role=tablist]")


def card(page: Page):
    return page.locator(".tour")


def overlap(a: dict, b: dict) -> float:
    """Area of the smaller box's part that lies in the other, 0 to 1."""
    width = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
    height = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
    return max(0, width) * max(0, height) / min(a["width"] * a["height"], b["width"] * b["height"])


def test_a_first_visitor_is_offered_it_and_can_decline(open_page: Open) -> None:
    page = open_page(tour=True)
    expect(card(page)).to_contain_text("First time here?")
    page.keyboard.press("Tab")
    expect(card(page).get_by_role("button", name="Not now")).to_be_focused()  # the first stop of the keyboard
    box = page.locator("#sentence textarea")
    box.fill("I love you.")  # the page works beside it
    expect(page.locator("#result")).to_contain_text("aime")
    card(page).get_by_role("button", name="Not now").click()
    expect(card(page)).to_have_count(0)
    page.reload()
    page.wait_for_selector("#map .main-svg")
    page.wait_for_timeout(1500)
    expect(card(page)).to_have_count(0)


@pytest.mark.parametrize(("size", "lang"), [(WIDE, "en"), (NARROW, "zh")])
def test_five_stops_show_what_they_speak_of(open_page: Open, size: tuple[int, int], lang: str) -> None:
    page = open_page(size=size, lang=lang)
    page.locator("#tab-heads-button").click(force=True)
    page.locator("[data-tour]").click()
    said = set()
    for number, target in enumerate(TARGETS, start=1):
        expect(card(page)).to_have_attribute("data-stop", str(number))
        expect(card(page).locator(".tour-count")).to_have_text(re.compile(rf"{number}\D+5"))
        page.wait_for_timeout(900)  # the page scrolls there
        part, ring = page.locator(target).bounding_box(), page.locator(".tour-ring").bounding_box()
        grown = {"x": part["x"] - 8, "y": part["y"] - 8, "width": part["width"] + 16, "height": part["height"] + 16}
        assert overlap(ring, grown) > 0.99 and ring["width"] > 200 and ring["height"] > 40, target  # a part may keep room that is empty
        seen = {"x": 0, "y": 0, "width": size[0], "height": size[1]}
        assert overlap(card(page).bounding_box(), seen) > 0.99, target
        said.add(card(page).inner_text())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        card(page).locator("button.primary").click()
    assert len(said) == 5
    expect(card(page)).to_have_count(0)
    expect(page.locator("#tab-heads-button")).to_have_attribute("aria-selected", "true")  # where it began
    expect(page.locator("[data-tour]")).to_be_focused()


def test_it_goes_by_keyboard_and_changes_language_on_the_way(open_page: Open) -> None:
    page = open_page()
    page.locator("[data-tour]").focus()
    page.keyboard.press("Enter")
    expect(card(page)).to_have_attribute("data-stop", "1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect(card(page)).to_have_attribute("data-stop", "2")
    page.locator("[data-lang=zh]").click()
    expect(card(page)).to_contain_text("第 2 站，共 5 站")
    page.locator("#sentence textarea").focus()
    page.keyboard.press("ArrowRight")  # moves in the text, not the tour
    expect(card(page)).to_have_attribute("data-stop", "2")
    page.keyboard.press("Escape")
    expect(card(page)).to_have_count(0)
    expect(page.locator("[data-tour]")).to_be_focused()


def test_a_browser_that_may_not_remember_still_has_it(open_page: Open) -> None:
    page = open_page()
    page.add_init_script("Object.defineProperty(window, 'localStorage', {get: () => { throw new DOMException('no', 'SecurityError'); }})")
    page.goto(page.url)
    page.wait_for_selector("#map .main-svg")
    expect(card(page)).to_contain_text("First time here?")
    card(page).get_by_role("button", name="Show me around").click()
    card(page).get_by_role("button", name="End the tour").click()
    expect(card(page)).to_have_count(0)
