"""What is in focus is the same place in every view, whatever it was pointed at with, and the heat map can be read with keys alone."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, Open, wait_for_words
from tests.viz.fakes import FakeTranslator

WITHIN = 0.7  # px; the bands have whole and half px

# Where the axes of the drawn map put a row and a column, in px of the page.
CELL = """([row, column]) => {
  const plot = document.querySelector('#map .plot'), {xaxis, yaxis} = plot._fullLayout, box = plot.getBoundingClientRect();
  const of = (axis, index) => [axis._offset + axis.l2p(index - 0.5), axis._offset + axis.l2p(index + 0.5)];
  const [left, right] = of(xaxis, column), [top, bottom] = of(yaxis, row);
  return {left: box.left + left, right: box.left + right, top: box.top + top, bottom: box.top + bottom};
}"""
BANDS = """() => Object.fromEntries(['row', 'column'].map((name) => {
  const node = document.querySelector(`#map .map-lights .${name}`);
  const {left, right, top, bottom} = node.getBoundingClientRect();
  return [name, node.hidden ? null : {left, right, top, bottom}];
}))"""
FOCUS = "() => { const {row, column} = atlas.focus.get(); return [row, column]; }"


def bands(page: Page) -> dict:
    return page.evaluate(BANDS)


def cell(page: Page, row: int, column: int) -> dict:
    return page.evaluate(CELL, [row, column])


def assert_lit(page: Page, row: int | None, column: int | None) -> None:
    lit, place = bands(page), cell(page, row or 0, column or 0)
    assert (lit["row"] is None, lit["column"] is None) == (row is None, column is None)
    if row is not None:
        assert [lit["row"][side] for side in ("top", "bottom")] == pytest.approx([place["top"], place["bottom"]], abs=WITHIN)
        assert lit["row"]["left"] < place["left"] + 1
    if column is not None:
        assert [lit["column"][side] for side in ("left", "right")] == pytest.approx([place["left"], place["right"]], abs=WITHIN)
        assert lit["column"]["top"] < place["top"] + 1


def point(page: Page, row: int, column: int) -> None:
    page.locator("#map .nsewdrag").first.scroll_into_view_if_needed()
    before, place = None, cell(page, row, column)
    while place != before:  # what is drawn later may still push the map down
        page.wait_for_timeout(250)
        before, place = place, cell(page, row, column)
    x, y = (place["left"] + place["right"]) / 2, (place["top"] + place["bottom"]) / 2
    page.mouse.move(x - 3, y - 3)
    page.mouse.move(x, y)


def choose(page: Page, **choice: object) -> None:
    """A choice in the store, and its drawing."""
    page.evaluate("(choice) => atlas.set(choice)", choice)
    page.wait_for_function("(choice) => Object.entries(choice).every(([name, value]) => atlas.shown.map[name] === value)", arg=choice)


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_pointing_at_a_cell_lights_its_row_and_column_and_a_click_pins(open_page: Open, size: tuple[int, int]) -> None:
    page = open_page(size)
    point(page, 1, 4)
    page.wait_for_function("() => atlas.focus.get().row === 1")
    assert page.evaluate(FOCUS) == [1, 4]
    assert_lit(page, 1, 4)
    page.mouse.down()
    page.mouse.up()
    page.wait_for_function("() => atlas.focus.pinned().row === 1")
    point(page, 3, 2)
    page.wait_for_function("() => atlas.focus.get().row === 3")
    assert_lit(page, 3, 2)
    page.mouse.move(5, 5)
    page.wait_for_function("() => atlas.focus.get().row === 1")
    assert page.evaluate(FOCUS) == [1, 4]  # back to the pin
    assert_lit(page, 1, 4)


def test_a_word_lights_its_row_alone_and_a_key_its_column(open_page: Open) -> None:
    page = open_page()
    page.evaluate("() => atlas.focus.hover(2, null)")
    assert_lit(page, 2, None)
    page.evaluate("() => atlas.focus.hover(null, 5)")
    assert_lit(page, None, 5)
    page.evaluate("() => atlas.focus.leave()")
    assert_lit(page, None, None)


def test_the_map_is_read_with_keys(open_page: Open, translator: FakeTranslator) -> None:
    page = open_page()
    weights = translator.trace(translator.translate("I am a student.")).cross_attention[-1].mean(axis=0)
    frame, said = page.locator("#map .plot-frame"), page.locator("#map [aria-live]")
    frame.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(FOCUS) == [0, 0]
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate(FOCUS) == [1, 4]
    assert_lit(page, 1, 4)
    expect(said).to_have_text(f"suis looks at student: {weights[1, 4]:.4f}")
    page.keyboard.press("Enter")
    assert page.evaluate("atlas.focus.pinned()") == {"row": 1, "column": 4}
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")  # there is nothing to the right of it
    assert page.evaluate(FOCUS) == [1, 6]
    expect(said).to_contain_text("⟨end⟩")
    frame.blur()
    assert page.evaluate(FOCUS) == [1, 4]
    frame.focus()
    page.keyboard.press("Escape")
    assert page.evaluate(FOCUS) == [None, None]
    assert_lit(page, None, None)


def test_a_masked_cell_is_said_to_be_masked(open_page: Open) -> None:
    page = open_page()
    choose(page, kind="decoder_self")
    page.locator("#map .plot-frame").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#map [aria-live]")).to_have_text("Je cannot look at Je: masked")


def test_a_pin_stays_on_its_word(open_page: Open) -> None:
    page = open_page()
    tokens = """() => {
      const {row, column} = atlas.focus.get(), view = atlas.maps.view();
      return [view.rows[row]?.text, view.columns[column]?.text];
    }"""
    page.evaluate("() => atlas.focus.pin(2, 4)")
    assert page.evaluate(tokens) == ["étudiant", "student"]
    choose(page, specials="hidden", units="words", layer=0, head=1)
    assert page.evaluate(tokens) == ["étudiant", "student"] or page.evaluate(tokens) == ["étudiant.", "student."]
    choose(page, specials="shown", units="pieces", rows="read")
    assert page.evaluate(FOCUS) == [2, 4]  # the row stays, its name moves
    choose(page, kind="encoder_self")
    assert page.evaluate(FOCUS) == [None, 4]  # a source word is no target word
    choose(page, kind="cross", rows="predicted")
    page.evaluate("() => { atlas.focus.clear(); atlas.focus.pin(4, 6); }")
    choose(page, specials="hidden")
    assert page.evaluate(FOCUS) == [None, None]  # both are special tokens
    page.evaluate("() => atlas.focus.pin(1, 1)")
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "aime")
    page.wait_for_function("() => atlas.focus.get().row === null")


def test_light_follows_zoom(open_page: Open) -> None:
    page = open_page()
    page.evaluate("() => atlas.focus.pin(2, 4)")
    page.evaluate("() => Plotly.relayout(document.querySelector('#map .plot'), {'xaxis.range': [2.5, 5.5], 'yaxis.range': [3.5, 0.5]})")
    assert_lit(page, 2, 4)
    page.evaluate("() => Plotly.relayout(document.querySelector('#map .plot'), {'xaxis.range': [-0.5, 2.5]})")
    assert_lit(page, 2, None)  # the column is out of sight
    page.set_viewport_size({"width": 1100, "height": 900})
    page.wait_for_timeout(500)
    assert_lit(page, 2, None)


def test_a_long_map_scrolls_to_the_cell_in_its_frame(open_page: Open, translator: FakeTranslator) -> None:
    page = open_page(NARROW)
    text = " ".join(f"word{i}" for i in range(60))
    page.locator("#sentence textarea").fill(text)
    page.wait_for_function("() => atlas.shown.map && atlas.maps.axes().columns.length > 60 && !atlas.isUnanswered()")
    page.wait_for_function("() => document.querySelector('#map .plot').layout.meta.keys.length === atlas.maps.axes().columns.length")
    frame = page.locator("#map .plot-frame")
    frame.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    columns = page.evaluate("atlas.maps.axes().columns.length")
    assert page.evaluate(FOCUS) == [0, columns - 1]
    box, lit = frame.bounding_box(), bands(page)["column"]
    assert box["x"] <= lit["left"] and lit["right"] <= box["x"] + box["width"] + 1
    assert_lit(page, 0, columns - 1)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_every_value_of_every_choice_is_the_traces(open_page: Open, translator: FakeTranslator) -> None:
    page = open_page()
    trace = translator.trace(translator.translate("I am a student."))
    for kind, maps in (
        ("encoder_self", trace.encoder_self_attention),
        ("decoder_self", trace.decoder_self_attention),
        ("cross", trace.cross_attention),
    ):
        for layer, head in np.ndindex(*maps.shape[:2]):
            found = page.evaluate("([kind, layer, head]) => Array.from(atlas.maps.weights(kind, layer, head))", [kind, layer, head])
            np.testing.assert_allclose(np.reshape(found, maps.shape[2:]), maps[layer, head], atol=1e-5)
