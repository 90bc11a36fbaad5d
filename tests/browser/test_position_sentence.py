"""Positions in the visitor's sentence, in a browser on the embedded model: what stands on the page against what Python computes anew."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from model.analysis.position_scores import overlap, position_scores
from model.analysis.position_sentence import input_lengths, likeness
from model.analysis.word_order import read_orders, shuffled
from model.translator import Translator
from tests.browser.conftest import NARROW, Open, resting_box

TEXT = "The cat saw the other cat."  # 9 tokens with prefix and end; "cat" at 2 and 6
SEARCH = f"&text={TEXT.replace(' ', '+')}&beam=2"


def seen(page: Page, name: str) -> Page:
    """Scrolls a section into view and waits for its answer about this sentence."""
    page.wait_for_function("(text) => atlas.result()?.request.text === text", arg=TEXT)
    page.evaluate("(name) => document.getElementById(`at-${name}`).scrollIntoView()", name)
    canvas = "canvas[data-drawn]" if name == "order" else ".main-svg"
    page.wait_for_selector(f"#at-{name} {canvas}", state="attached")
    page.wait_for_selector(f"#at-{name}:not(.stale)", state="attached")
    return page


def trace(page: Page, plot: str, number: int) -> dict:
    read = "([id, n]) => {const {x, y, name} = document.querySelector(`#${id} .plot`)._fullData[n]; return {x: [...x], y: [...y], name}}"
    return page.evaluate(read, [plot, number])


def number(text: str) -> float:
    """The last number of a line such as "cat 2 looks at saw 3 · 0.1234"."""
    return float(re.findall(r"-?\d+\.\d+", text)[-1])


def cell(page: Page, selector: str, right: int, down: int) -> float:
    """Weight that a small map tells after so many arrow keys from its upper left."""
    frame = page.locator(f"{selector} .small-map")
    frame.scroll_into_view_if_needed()
    page.mouse.move(0, 0)  # resting on a map that was scrolled under it, it would say where the keys begin
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    frame.focus()
    frame.press("Escape")
    for key, times in (("ArrowDown", 1 + down), ("ArrowRight", right)):
        for _ in range(times):
            frame.press(key)
    said = page.locator(f"{selector} .small-map-said").inner_text()
    frame.press("Escape")
    return number(said)


def test_lengths_and_likeness_are_those_of_the_model(open_real: Open, embedded: Translator) -> None:
    page = seen(open_real("positions", search=SEARCH), "lengths")
    translation = embedded.translate(TEXT, "fra", 2)
    expected = input_lengths(embedded, translation)
    for n, values in enumerate((expected.embedding, expected.scaled, expected.position), start=1):
        np.testing.assert_allclose(trace(page, "position-lengths-plot", n)["x"], values, rtol=1e-5)
    expect(page.locator("#at-lengths .caption")).to_contain_text(f"{expected.scaled.mean():.2f}")
    page.locator("#at-lengths .segments label").nth(1).click()
    read = input_lengths(embedded, translation, "read")
    there = "(first) => Math.abs(document.querySelector('#position-lengths-plot .plot')._fullData[1].x[0] - first) < 1e-4"
    page.wait_for_function(there, arg=float(read.embedding[0]))
    np.testing.assert_allclose(trace(page, "position-lengths-plot", 1)["x"], read.embedding, rtol=1e-5)

    seen(page, "places")
    pressed = page.locator("#at-places .word-chip[aria-pressed=true]")
    expect(pressed).to_have_count(2)
    assert [text.split() for text in pressed.all_inner_texts()] == [["cat", "2"], ["cat", "6"]]
    twice = likeness(embedded, translation, 2, 6)
    np.testing.assert_allclose(trace(page, "position-places-plot", 0)["y"], twice.with_positions, atol=1e-6)
    np.testing.assert_allclose(trace(page, "position-places-plot", 1)["y"], 1, atol=1e-6)
    page.locator("#at-places .word-chip").nth(3).click()  # the newest two: 6 and 3
    expect(page.locator("#at-places .caption")).to_contain_text("“saw” at 3 and “cat” at 6 are two different tokens")
    other = f"{likeness(embedded, translation, 3, 6).with_positions[0]:.2f}".replace("-", "−")
    expect(page.locator("#at-places .caption")).to_contain_text(f"their embeddings have the cosine {other}")
    other = likeness(embedded, translation, 3, 6)
    np.testing.assert_allclose(trace(page, "position-places-plot", 1)["y"], other.without, atol=1e-6)
    page.wait_for_function("() => location.search.includes('side=read') && /places=3(,|%2C)6/.test(location.search)")


def test_a_head_and_the_order_of_words(open_real: Open, embedded: Translator) -> None:
    page = seen(open_real("positions", search=f"{SEARCH}&kind=encoder_self&layer=0&head=3"), "head")
    translation = embedded.translate(TEXT, "fra", 2)
    maps = embedded.trace(translation).encoder_self_attention
    found = position_scores(embedded, translation, "encoder_self", 0, 3)
    np.testing.assert_allclose(trace(page, "position-head-plot", 1)["y"], found.mean, atol=1e-5)
    assert cell(page, "#at-head figure:nth-child(1)", 2, 4) == pytest.approx(found.weights[4, 2], abs=6e-5)
    assert cell(page, "#at-head figure:nth-child(2)", 2, 4) == pytest.approx(maps[0, 3, 4, 2], abs=6e-5)
    expect(page.locator("#at-head .head-overlap")).to_contain_text(f"{overlap(maps[0, 3], found.weights):.2f}")
    page.locator("#at-head [data-kinds] label").nth(1).click()
    page.wait_for_function("() => document.querySelector('#position-head-plot .plot').layout.meta.kind === 'decoder_self'")
    assert page.evaluate("[atlas.state.kind, atlas.state.layer, atlas.state.head]") == ["decoder_self", 0, 3]
    assert max(trace(page, "position-head-plot", 1)["x"]) == 0, "a causal head looks back"
    page.locator("#at-head [data-kinds] label").nth(0).click()

    seen(page, "order")
    page.wait_for_function("() => atlas.wordOrderShown()?.layer === 0 && atlas.wordOrderShown().head === 3")
    order = page.evaluate("() => atlas.wordOrderShown().tokens")
    expected = read_orders(embedded, translation, order, 2)
    names = [f".order-cell.{each}" for each in ("original.on", "original.off", "shuffled.on", "shuffled.off")]
    texts = [page.locator(f"{name} .order-text").inner_text() for name in names]
    readings = [expected.original["on"], expected.original["off"], expected.shuffled["on"], expected.shuffled["off"]]
    assert texts == [reading.translation.text for reading in readings] and texts[1] == texts[3] != texts[2]
    for name, reading in zip(names, readings, strict=True):
        assert cell(page, name, 5, 3) == pytest.approx(reading.maps[0, 3, 3, 5], abs=6e-5)
    verdict = page.locator("#at-order [data-verdict]").inner_text()
    assert f"{expected.differences('on').max():.3f}" in verdict and "10⁻" in verdict
    page.locator("#at-order [data-back]").check()
    back = expected.put_back("off")[0, 3]
    assert cell(page, names[3], 5, 3) == pytest.approx(back[3, 5], abs=6e-5) == pytest.approx(maps_of(expected, "off")[3, 5], abs=6e-5)
    page.wait_for_function("new URLSearchParams(location.search).get('inorder') === '1'")
    page.goto(page.url)
    page.wait_for_function("() => window.atlas?.wordOrderShown")
    seen(page, "order")
    expect(page.locator("#at-order [data-back]")).to_be_checked()
    page.wait_for_function("() => atlas.wordOrderShown()?.head === 3")
    assert cell(page, names[3], 5, 3) == pytest.approx(back[3, 5], abs=6e-5)


def maps_of(orders, positions: str) -> np.ndarray:
    return orders.original[positions].maps[0, 3]


def words(page: Page) -> list[str]:
    return [text.split("\n")[0] for text in page.locator("#at-order .movable .word-chip").all_inner_texts()]


def test_words_are_moved_by_key_by_click_and_by_dragging(open_real: Open) -> None:
    page = seen(open_real("positions", search=f"{SEARCH}&seed=7"), "order")
    assert page.locator("#at-order [data-seed]").input_value() == "7"
    written = ["The", "cat", "saw", "the", "other", "cat", "."]
    assert sorted(words(page)[1:-1]) == sorted(written) and words(page)[1:-1] != written
    page.locator("#at-order [data-restore]").click()
    page.wait_for_function("() => atlas.wordOrderShown()?.order.every((word, i) => word === i)")
    assert words(page)[1:-1] == written
    expect(page.locator("#at-order .caption")).to_contain_text("The words stand as written")
    first = page.locator("#at-order .movable button").first
    first.focus()
    for key in ("Enter", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert words(page)[1:-1] == ["cat", "saw", "The", "the", "other", "cat", "."]
    assert page.evaluate("document.activeElement.textContent").startswith("The"), "the focus stays on the word"
    page.wait_for_function("() => /wordorder=0(,|%2C)2(,|%2C)3(,|%2C)1/.test(location.search)")
    page.locator("#at-order .movable button").nth(4).click()
    page.locator("#at-order .movable button").nth(0).click()
    assert words(page)[1:-1] == ["other", "cat", "saw", "The", "the", "cat", "."]
    box, to = (resting_box(page.locator("#at-order .movable button").nth(i)) for i in (6, 1))
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(to["x"] + 12, to["y"] + 12, steps=6)
    page.mouse.up()
    assert words(page)[1:-1] == ["other", ".", "cat", "saw", "The", "the", "cat"]
    page.wait_for_function("() => atlas.wordOrderShown()?.order.join() === '0,5,7,2,3,1,4,6,8'")
    assert page.locator(".order-cell.shuffled.on .order-text").inner_text()


def test_fast_shuffles_end_with_words_and_address_of_one_seed(open_real: Open) -> None:
    page = seen(open_real("positions", search=SEARCH), "order")
    page.wait_for_function("() => atlas.wordOrderShown()")
    page.evaluate("() => {for (let i = 0; i < 6; i++) document.querySelector('#at-order [data-shuffle]').click()}")
    for _ in range(6):
        page.locator("#at-order [data-shuffle]").click(delay=0)
    page.wait_for_function("() => atlas.wordOrderShown()?.seed === 13 && !document.querySelector('.order-grid.behind')")
    page.wait_for_function("() => location.search.includes('seed=13')")
    assert page.locator("#at-order [data-seed]").input_value() == "13"
    assert words(page)[1:-1] == [TEXT.replace(".", " .").split()[place] for place in shuffled(7, 13)]


@pytest.mark.parametrize(("text", "said"), [("Hello", "at least two"), ("one two three four five six seven " * 10, "at most 64")])
def test_where_no_word_can_be_moved_there_is_a_sentence_instead(open_real: Open, text: str, said: str) -> None:
    page = open_real("positions", search=f"&text={text.strip().replace(' ', '+')}&beam=1")
    page.wait_for_function("(text) => atlas.result()?.request.text === text", arg=text.strip())
    page.evaluate("document.getElementById('at-order').scrollIntoView()")
    expect(page.locator("#at-order .notice")).to_contain_text(said)
    for part in ("[data-shuffle]", ".order-grid", ".movable", "[data-verdict]"):
        expect(page.locator(f"#at-order {part}")).to_be_hidden()
    page.evaluate("""() => {
      const box = document.querySelector('#sentence textarea');
      Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(box, 'The cat sleeps.');
      box.dispatchEvent(new Event('input', {bubbles: true}));
    }""")
    expect(page.locator("#at-order .order-grid")).to_be_visible()


FINE = """() => [...document.querySelectorAll('#at-lengths, #at-places, #at-head, #at-order')].flatMap((section) =>
  [...section.querySelectorAll('*')].filter((node) => [...node.childNodes].some((each) => each.nodeType === 3 && each.nodeValue.trim())
    && node.checkVisibility() && parseFloat(getComputedStyle(node).fontSize) < 12).map((node) => node.outerHTML.slice(0, 80)))"""


def test_in_chinese_on_a_phone_in_the_dark(open_real: Open) -> None:
    page = open_real("positions", lang="zh", size=NARROW, theme="dark", search=SEARCH)
    titles = {"lengths": "位置的声音有多大？", "places": "同一个词，两个位置", "head": "透过一个头看位置", "order": "把词换个顺序"}
    for name, title in titles.items():
        seen(page, name)
        expect(page.locator(f"#at-{name} h3")).to_have_text(title)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert not re.search("[A-Za-z]{4,}", page.locator(f"#at-{name} .section-lead").inner_text())
    assert page.evaluate(FINE) == []
    ticks = page.evaluate("document.querySelector('#position-places-plot .plot').layout.xaxis.ticktext")
    assert ticks[:3] == ["词嵌入", "+ 位置", "第 0 层"]
    assert page.evaluate("document.querySelector('#position-places-plot .plot')._fullData[0].line.color") == "#e7e9ec"
    page.evaluate("atlas.chooseLanguage('en')")
    expect(page.locator("#at-order h3")).to_have_text("The words in another order")
    expect(page.locator("#at-order [data-verdict]")).to_contain_text("Over all heads")


def test_without_weights_the_sections_say_so(open_page: Open) -> None:
    page = open_page()
    page.locator("#tab-positions-button").click()
    page.evaluate("document.getElementById('at-order').scrollIntoView()")
    expect(page.locator("#position-order-notice [role=alert]")).to_have_text(
        "This model's weights cannot be read, so there is nothing to compute here."
    )
    assert json.dumps(page.evaluate("atlas.wordOrderShown()")) == "null"


def test_places_and_orders_of_another_sentence_are_left_out_and_told(open_real: Open) -> None:
    page = seen(open_real("positions", search=f"{SEARCH}&places=3,77&wordorder=0,2,1"), "places")
    expect(page.locator("#at-places .caption")).to_contain_text("“cat” at 2 and at 6")
    seen(page, "order")
    assert page.evaluate("[atlas.state.position_sentence.places, atlas.state.word_order.order]") == [None, None]
    assert sorted(page.evaluate("atlas.leftOut.all()")) == [["places", "3,77"], ["wordorder", "0,2,1"]]
    expect(page.locator("#position-places-notice [role=alert]")).to_be_hidden()
