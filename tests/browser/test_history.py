"""Tabs as places to come back to, and what a link gets wrong said wherever the link leads."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open
from viz.page import STATIC
from viz.text import LANGUAGES


def test_back_and_forward_turn_to_the_tab_of_then(open_page: Open) -> None:
    page = open_page()
    for name in ("steps", "heads"):
        page.locator(f"#tab-{name}-button").click()
        page.wait_for_function("(name) => new URLSearchParams(location.search).get('tab') === name", arg=name)
    page.evaluate("atlas.set({colour: 'log'})")
    page.wait_for_function("location.search.includes('colour=log')")
    page.go_back()
    expect(page.locator("#tab-steps-button")).to_have_attribute("aria-selected", "true")
    page.wait_for_function("location.search.includes('tab=steps') && location.search.includes('colour=log')")  # choices stay as they are
    page.go_back()
    expect(page.locator("#tab-translate-button")).to_have_attribute("aria-selected", "true")
    page.wait_for_function("!location.search.includes('tab=')")
    page.go_forward()
    expect(page.locator("#tab-steps-button")).to_have_attribute("aria-selected", "true")
    assert page.evaluate("atlas.state.colour") == "log"


def test_tabs_turned_at_once_while_a_sentence_waits_are_places_too(open_page: Open) -> None:
    page = open_page()
    page.route("**/queue/join*", lambda route: None)  # no answer
    page.locator("#sentence textarea").fill("Nobody answers.")
    page.locator("#sentence textarea").press("Enter")
    for name in ("heads", "machine"):
        page.locator(f"#tab-{name}-button").click()
        page.wait_for_function("(name) => atlas.state.tab === name", arg=name)
    for name in ("heads", "translate"):
        page.go_back()
        expect(page.locator(f"#tab-{name}-button")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#sentence textarea")).to_have_value("Nobody answers.")
    page.unroute("**/queue/join*")


def test_a_reloaded_page_pins_no_head_that_nobody_chose(open_real: Open) -> None:
    page = open_real()
    page.wait_for_function("atlas.state.layer !== null")
    chosen = page.evaluate("[atlas.state.layer, atlas.state.head, atlas.state.rows]")
    assert chosen[1] != "mean"
    page.evaluate("atlas.isUnanswered = () => true")  # as when the server is started anew: what is kept comes back
    page.reload()
    page.wait_for_selector("#map .main-svg")
    page.wait_for_function("atlas.result()?.badge === 'live' && atlas.maps.current()")
    page.wait_for_timeout(600)
    assert page.evaluate("[atlas.state.layer, atlas.state.head, atlas.state.rows]") == chosen
    assert "layer=" not in page.url and "head=" not in page.url and "rows=" not in page.url


@pytest.mark.parametrize(
    ("search", "said", "shown"),
    [
        ("layer=9&head=77", ("layer “9”", "head “77”"), None),
        ("head=77", ("head “77”",), None),
        ("layer=1&head=77", ("head “77”",), [1, "mean"]),
        ("lang=xx", ("language “xx”",), None),
    ],
)
def test_what_there_is_not_leaves_the_choice_to_the_page(open_real: Open, search: str, said: tuple, shown: list | None) -> None:
    page = open_real()
    page.wait_for_function("atlas.state.layer !== null")
    own = page.evaluate("[atlas.state.layer, atlas.state.head]")
    page.goto(page.url.split("?")[0] + ("?" if "lang" in search else "?lang=en&") + search)
    for part in said:
        expect(page.locator("[data-left-out]")).to_contain_text(part)
    page.wait_for_function("(shown) => String([atlas.state.layer, atlas.state.head]) === String(shown)", arg=shown or own)
    page.wait_for_timeout(600)
    assert page.evaluate("[atlas.state.layer, atlas.state.head]") == (shown or own)
    assert ("layer=" in page.url) == bool(shown)


def test_what_a_link_gets_wrong_is_said_on_the_tab_it_leads_to(open_page: Open) -> None:
    page = open_page()
    page.goto(page.url + "&tab=steps&layer=9&head=77&without=foo&depth=deep")
    note = page.locator("[data-left-out]")
    expect(page.locator("#tab-steps-button")).to_have_attribute("aria-selected", "true")
    expect(note).to_be_visible()
    for part in ("layer “9”", "head “77”", "what is taken away “foo”", "depth “deep”"):
        expect(note).to_contain_text(part)
    page.locator("[data-lang=zh]").click()
    expect(note).to_contain_text("拿掉的部分“foo”")
    note.get_by_role("button").click()
    expect(note).to_be_hidden()


@pytest.mark.parametrize("language", sorted(LANGUAGES))
def test_every_name_of_an_address_has_a_word(language: str) -> None:
    script = (STATIC / "link.js").read_text(encoding="utf-8")
    names = re.findall(r'"(\w+)"', script[script.index("const NAMES") : script.index("/* ---- reading")])
    assert len(names) > 30
    assert [name for name in names if f"link.name.{name}" not in LANGUAGES[language]] == []
