"""The words of a map under the pointer and the keys: the same word is in focus everywhere, and keys lead everywhere."""

from __future__ import annotations

import re

import numpy as np
from playwright.sync_api import expect

from tests.browser.conftest import WIDE
from tests.browser.words_view import LEAST, LEAST_OWN, boxes, choose, ribbons, trace_of
from tests.viz.fakes import TWICE, Scripts


def test_a_word_in_focus_has_its_own_ribbons_and_the_other_line_its_weights(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=1, head=0)
    weights = trace_of(scripts, TWICE).cross_attention[1, 0]
    row, column = 6, 3  # the second "ch", the second "the"
    page.locator(".words-line.rows .token").nth(row).hover()
    own = ribbons(page, "own")
    assert set(own) == {(row, j) for j in range(weights.shape[1]) if weights[row, j] >= LEAST_OWN}
    assert all(own[cell] == ribbons(page)[cell] for cell in own if weights[cell] >= LEAST)  # they stay where they were
    shown = boxes(page, "columns")
    np.testing.assert_allclose([box["tint"] for box in shown], weights[row], atol=0.001)
    assert [box["number"] for box in shown] == [f"{w:.2f}" if w >= 0.005 else "" for w in weights[row]]
    assert all(box["number"] == "" for box in boxes(page, "rows"))
    order = np.argsort(-weights[row], kind="stable")
    expect(page.locator(".words-said")).to_contain_text(f"ch looks most at {shown[order[0]]['text']} {weights[row, order[0]]:.4f}")
    page.locator(".words-decimals").click()
    page.locator(".words-line.columns .token").nth(column).hover()
    shown = boxes(page, "rows")
    np.testing.assert_allclose([box["tint"] for box in shown], weights[:, column], atol=0.001)
    for box, weight in zip(shown, weights[:, column], strict=True):
        assert abs(float(box["number"] or 0) - weight) < 0.0001
    # from another view: a cell
    page.mouse.move(2, 2)
    page.evaluate("([row, column]) => atlas.focus.hover(row, column)", [2, 5])
    assert set(ribbons(page, "own")) >= {(2, 5)}
    expect(page.locator(".words-ribbons .own .strong")).to_have_attribute("data-cell", "2,5")
    expect(page.locator(".words-said")).to_contain_text(f"at looks at other: {weights[2, 5]:.4f}")


def test_a_click_pins_and_again_lets_go(open_words) -> None:
    page = open_words()
    word = page.locator(".words-line.rows .token").nth(1)
    word.click()
    assert page.evaluate("atlas.focus.pinned()") == {"row": 1, "column": None}
    page.mouse.move(2, 2)
    page.evaluate("document.activeElement.blur()")
    expect(word).to_have_attribute("aria-pressed", "true")
    expect(word).to_have_class(re.compile(r"\bpinned\b.*"))
    assert page.evaluate("atlas.focus.get()") == {"row": 1, "column": None, "pinned": True}
    page.locator(".words-line.columns .token").nth(3).hover()  # another one on top, then back to the pinned one
    assert page.evaluate("atlas.focus.get().column") == 3
    page.mouse.move(2, 2)
    assert page.evaluate("atlas.focus.get().row") == 1
    choose(page, head=1)
    expect(word).to_have_attribute("aria-pressed", "true")
    word.click()
    expect(word).to_have_attribute("aria-pressed", "false")
    word.click()
    page.keyboard.press("Escape")
    expect(word).to_have_attribute("aria-pressed", "false")
    assert page.evaluate("atlas.focus.get()") == {"row": None, "column": None, "pinned": False}


def test_keys_lead_along_the_lines_and_across_to_the_strongest_partner(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=1, head=0)
    weights = trace_of(scripts, TWICE).cross_attention[1, 0]
    for line in ("columns", "rows"):
        assert [box["stop"] for box in boxes(page, line)].count(0) == 1
    focus = lambda: page.evaluate("(({row, column}) => [row, column])(atlas.focus.get())")  # noqa: E731
    page.locator('.words-line.rows .token[tabindex="0"]').focus()
    page.keyboard.press("Home")
    assert focus() == [0, None]
    page.keyboard.press("ArrowLeft")
    assert focus() == [0, None]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert focus() == [2, None]
    page.keyboard.press("ArrowUp")
    partner = int(weights[2].argmax())
    assert focus() == [None, partner]
    page.keyboard.press("ArrowDown")
    assert focus() == [int(weights[:, partner].argmax()), None]
    page.keyboard.press("End")
    last = len(weights) - 1
    assert focus() == [last, None]
    name = page.evaluate("document.activeElement.getAttribute('aria-label')")
    best = int(weights[last].argmax())
    assert name == f"⟨end⟩, row {last}: looks most at {boxes(page, 'columns')[best]['text']}, {weights[last, best]:.2f}"
    page.keyboard.press("Enter")
    assert page.evaluate("atlas.focus.pinned().row") == last
    page.keyboard.press("Space")
    assert page.evaluate("atlas.focus.pinned().row") is None
    assert [box["stop"] for box in boxes(page, "rows")].index(0) == last


def test_nothing_below_moves_when_words_are_pointed_at(open_words) -> None:
    page = open_words(size=WIDE)
    top = lambda: page.evaluate("document.querySelector('#map').getBoundingClientRect().top + scrollY")  # noqa: E731
    before = top()
    page.evaluate("atlas.focus.hover(1, null)")
    assert top() == before
    page.evaluate("atlas.focus.pin(1, 4)")
    assert top() == before
    choose(page, kind="decoder_self", head=0)
    assert top() == before
