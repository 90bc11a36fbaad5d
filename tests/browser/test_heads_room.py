"""The strip of heads and the Heads tab with many heads, on a laptop and on a phone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from model.config import StackSizes
from tests.browser.conftest import NARROW, WIDE, Open, heads_tab, order_by
from tests.viz.fakes import FakeConfig, FakeTranslator
from viz.panels.maps_value import maps_value
from viz.runs import Request, Run
from viz.text import LANGUAGES


class Large(FakeTranslator):
    """As many layers and heads as asked for."""

    def __init__(self, layers: int, heads: int, decoder_layers: int) -> None:
        super().__init__()
        encoder, decoder = (StackSizes(count, heads, d_ff=128, vocab_size=100) for count in (layers, decoder_layers))
        self.config = FakeConfig(encoder=encoder, decoder=decoder)


def value_of(layers: int, heads: int, words: int, decoder_layers: int | None = None) -> str:
    translator = Large(layers, heads, decoder_layers or layers)
    translation = translator.translate(" ".join(f"word{i}" for i in range(words)))
    return maps_value(Run(Request(translation.source_text, "fra"), translation, translator.trace(translation), 0.0))


def test_many_heads_fit_a_laptop(open_heads: Open) -> None:
    page = heads_tab(open_heads())
    bottom = "Math.max(...[...document.querySelectorAll('#heads-sheet [data-cell]')].map((b) => b.getBoundingClientRect().bottom))"
    page.evaluate("(value) => atlas.maps.take(value)", value_of(6, 8, 28, 3))
    for order in ("role", "start", "place"):
        order_by(page, order)
        assert page.locator("#heads-sheet [data-cell]").count() == 96
        assert page.evaluate(bottom) <= WIDE[1], order
    page.evaluate("(value) => atlas.maps.take(value)", value_of(6, 8, 28))
    assert page.locator("#heads-sheet [data-cell]").count() == 144
    assert page.evaluate(bottom) <= WIDE[1]
    order_by(page, "start")
    assert page.evaluate(bottom) <= WIDE[1]
    page.evaluate("(value) => atlas.maps.take(value)", value_of(12, 16, 5))
    order_by(page, "place")
    assert page.locator("#heads-sheet [data-cell]").count() == 576
    assert page.evaluate(bottom) <= WIDE[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDE[0]


@pytest.mark.parametrize("size", [(3, 4), (12, 16)])
def test_a_phone_in_chinese_and_dark_has_room_for_all(open_heads: Open, size: tuple[int, int]) -> None:
    page = open_heads(NARROW, "dark", "zh")
    page.evaluate("(value) => atlas.maps.take(value)", value_of(*size, 5))
    strip = page.locator("#heads-strip")
    expect(strip.locator(".head-said-name")).to_have_text(re.compile("^已选："))
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    right = "Math.max(...[...document.querySelectorAll('.mosaic-head')].map((b) => b.getBoundingClientRect().right))"
    assert page.evaluate(right) <= NARROW[0]  # nor is anything cut off
    heads_tab(page)
    for order in ("place", "role", "distance"):
        order_by(page, order)
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
        assert page.evaluate(right) <= NARROW[0]
    sizes = page.evaluate(
        """[...document.querySelectorAll("#heads-sheet *, #heads-strip *")].filter((n) => n.childNodes.length && [...n.childNodes]
          .some((c) => c.nodeType === 3 && c.nodeValue.trim())).map((n) => parseFloat(getComputedStyle(n).fontSize))"""
    )
    assert min(sizes) >= 12
    expect(page.locator("[data-sheet=status]")).to_have_text(re.compile("^全部 .* 个头，按平均距离，从大到小$"))
    expect(page.locator("[data-sheet=help]")).to_contain_text(LANGUAGES["zh"]["measure.distance.help"])
