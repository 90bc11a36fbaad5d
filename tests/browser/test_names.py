"""The names along the heat map have their room: the page measures them and sets margins and angles itself, so that Plotly draws once.

Read from what is on the screen: no name is cut off, lies on the title or on a cell, or touches its neighbour.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import NARROW, WIDE, Open
from tests.browser.test_focus import choose
from viz.panels.maps_value import maps_value
from viz.runs import Request, Run

LONG = "be Unverhältnismäßigkeitsbeschwerdeführer or not to be an Unverhältnismäßigkeitsbeschwerdeführer"
SENTENCES = {
    "few": "Yes .",
    "wide last": "I am so Unverhältnismäßigkeitsbeschwerdeführer",
    "long": f"{LONG} " + "to be or not " * 6,
    "hostile": "I <b>am</b> & <s> $x$ &amp; <so> so & $y$ then",
    "scripts": "שלום مرحبا नमस्ते 👩‍👩‍👧 你好 مدرسة",
    "wider than thought": "so 😀😀😀😀😀😀😀😀 it is",
}
BOXES = """() => {
  const plot = document.querySelector('#map .plot'), {xaxis, yaxis, _size: size} = plot._fullLayout;
  const origin = plot.querySelector('.main-svg').getBoundingClientRect();
  const box = (node) => {
    const {left, right, top, bottom} = node.getBoundingClientRect();
    return [left - origin.left, right - origin.left, top - origin.top, bottom - origin.top];
  };
  const all = (selector) => Array.from(plot.querySelectorAll(selector), box);
  const {l, r, t, b} = plot.layout.margin;
  return {
    width: origin.width, cells: [xaxis._offset, xaxis._offset + xaxis._length, yaxis._offset], angle: plot.layout.xaxis2.tickangle,
    columns: all('.x2tick text'), rows: all('.y2tick text'), title: all('.gtitle')[0],
    asked: [l, r, t, b], given: [size.l, size.r, size.t, size.b],
  };
}"""


def show(page: Page, text: str, translator) -> None:
    translation = translator.translate(text)
    run = Run.of(Request(text, "fra", 4), translation, translator.examine(translation))
    before = page.evaluate("document.querySelector('#map .plot').dataset.drawn")
    page.evaluate("(value) => atlas.maps.take(value)", maps_value(run))
    page.wait_for_function("(before) => document.querySelector('#map .plot').dataset.drawn !== before", arg=before)


def assert_room(boxes: dict, where: object) -> None:
    assert boxes["given"] == boxes["asked"], where  # Plotly adds nothing of its own, for which it would draw twice
    left, right, top = boxes["cells"]
    assert boxes["columns"] and boxes["rows"], where
    for x0, x1, y0, y1 in boxes["columns"]:
        assert 0 <= x0 and x1 <= boxes["width"], where
        assert boxes["title"][3] <= y0 + 1 and y1 <= top, where
    leading = 0 if boxes["angle"] == 0 else 2  # a line of text is a little higher than its letters
    for (_, end, *_), (start, *_) in zip(boxes["columns"], boxes["columns"][1:], strict=False):
        assert end <= start + leading, where
    for x0, x1, *_ in boxes["rows"]:
        assert 0 <= x0 and x1 <= left, where


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_name_has_its_room(open_page: Open, translator, size: tuple[int, int]) -> None:
    page = open_page(size=size)
    angles = set()
    for name, text in SENTENCES.items():
        show(page, text, translator)
        for kind in ("encoder_self", "decoder_self", "cross"):
            for units, specials in (("pieces", "shown"), ("words", "hidden")):
                choose(page, kind=kind, units=units, specials=specials)
                boxes = page.evaluate(BOXES)
                angles.add(boxes["angle"])
                assert_room(boxes, (name, kind, units))
    assert angles == {0, -90}


def test_names_lie_down_where_zoom_makes_room_and_stand_up_again(open_page: Open, translator) -> None:
    page = open_page()
    show(page, SENTENCES["long"], translator)
    before = page.evaluate(BOXES)
    assert before["angle"] == -90
    page.evaluate("Plotly.relayout(document.querySelector('#map .plot'), {'xaxis.range': [2.5, 6.5]})")
    page.wait_for_function("document.querySelector('#map .plot').layout.xaxis2.tickangle === 0")
    zoomed = page.evaluate(BOXES)
    assert zoomed["cells"] == before["cells"]  # nothing moves
    assert_room(zoomed, "zoomed")
    page.evaluate("atlas.set({head: 1})")  # another map of the same sentence keeps the zoom, and the names as they are
    page.wait_for_function("atlas.shown.map.head === 1")
    assert page.evaluate(BOXES)["angle"] == 0
    page.evaluate("Plotly.relayout(document.querySelector('#map .plot'), {'xaxis.range': [-0.5, atlas.maps.view().columns.length - 0.5]})")
    page.wait_for_function("document.querySelector('#map .plot').layout.xaxis2.tickangle === -90")


def test_a_page_that_gets_narrower_turns_the_names(open_page: Open, translator) -> None:
    page = open_page()
    show(page, "the quick brown foxes jumped over the lazy sleeping dogs", translator)
    assert page.evaluate(BOXES)["angle"] == 0
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    page.wait_for_function("document.querySelector('#map .plot').layout.xaxis2.tickangle === -90")
    assert_room(page.evaluate(BOXES), "narrower")
