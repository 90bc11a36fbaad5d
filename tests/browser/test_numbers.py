"""Numbers read the same all over the page: percentages, minus signs, roots, large counts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.machine_view import block, machine
from tests.browser.steps_view import wait_for_walk


def test_a_share_is_never_rounded_to_nothing_nor_to_all(open_page: Open) -> None:
    page = open_page()
    shares = [(0, 0), (0, 1), (0.004, 0), (0.006, 0), (0.0004, 1), (0.0006, 1)]
    shares += [(0.534, 0), (0.534, 1), (0.996, 0), (0.9996, 1), (1, 1), (1.5, 0)]
    said = page.evaluate("(shares) => shares.map(([share, digits]) => atlas.percent(share, digits))", shares)
    assert said == ["0%", "0%", "<1%", "1%", "<0.1%", "0.1%", "53%", "53.4%", ">99%", ">99.9%", "100%", "150%"]


def hovered(page: Page, plot: str, x: float, y: float) -> str:
    """What Plotly says where the pointer rests on a place of a plot."""
    page.locator(f"{plot} .plot-frame").scroll_into_view_if_needed()
    page.mouse.move(0, 0)
    label = page.locator(f"{plot} .hoverlayer .hovertext")
    expect(label).to_have_count(0)
    place = """([plot, x, y]) => {
      const node = document.querySelector(`${plot} .plot`);
      const {left, top} = node.getBoundingClientRect();
      const {xaxis, yaxis} = node._fullLayout;
      return [left + xaxis._offset + xaxis.l2p(x), top + yaxis._offset + yaxis.l2p(y)];
    }"""
    at = page.evaluate(place, [plot, x, y])
    page.mouse.move(*at)
    page.mouse.move(at[0] + 1, at[1])
    expect(label).to_have_count(1)
    return label.text_content()


def test_a_hover_writes_minus_as_the_rest_of_the_page_does(open_real: Open) -> None:
    page = open_real("positions")
    page.wait_for_selector("#position-table .main-svg, #at-table .main-svg")
    plot = "#" + page.evaluate("document.querySelector('#at-table .plot-view').closest('[id]').id")
    for _ in range(2):  # another language is another drawing: what formats numbers is made anew
        assert "−0.7568" in hovered(page, plot, 0, 4)  # sin 4
        page.evaluate("atlas.chooseLanguage('zh')")
        expect(page.locator(f"{plot} .plot")).to_contain_text("行：位置")


@pytest.mark.parametrize(("lang", "theme"), [("en", "light"), ("zh", "dark")])
def test_a_root_covers_what_it_is_of(open_real: Open, lang: str, theme: str) -> None:
    page = open_real("steps", lang=lang, theme=theme, search="&depth=formula")
    wait_for_walk(page)
    roots = page.evaluate("""() => [...document.querySelectorAll('.formula .root')].filter((node) => node.checkVisibility()).map((node) => {
      const [sign, under] = node.children;
      const text = document.createRange();
      text.selectNodeContents(under);
      const [a, bar, of] = [sign, under, text].map((part) => part.getBoundingClientRect());
      const style = getComputedStyle(under);
      return {text: node.textContent, gap: bar.left - a.right,
        covers: bar.left <= of.left && bar.right >= of.right && bar.top <= of.top + 3,
        drawn: style.borderTopWidth === '1px' && style.borderTopColor === getComputedStyle(sign, '::after').backgroundColor};
    })""")
    assert {root["text"] for root in roots} == {"√dk", "√dmodel", "√σ2 + ε"}
    assert all(abs(root["gap"]) < 0.6 and root["covers"] and root["drawn"] for root in roots)
    assert not re.search("√", "".join(page.evaluate("[...document.querySelectorAll('.formula')].map((node) => [...node.childNodes]"
                                                    ".filter((part) => part.nodeType === 3).map((part) => part.data).join(''))")))


def test_thousands_of_millions_have_the_readers_own_unit(open_real: Open) -> None:
    page = machine(open_real("machine", lang="zh", search="&config=own&own=16384.64.48.48.65536.1000000.pre.none"))
    expect(block(page, "decoder.0.feed_forward").locator(".m-count")).to_have_text("21.5亿")
    assert not re.search(r"\d\s?B\b", page.locator(".m-picture").text_content())
