"""The page around the tabs in a browser: languages, themes, widths, positions, the plot component, a missing model."""

from __future__ import annotations

import re

import gradio as gr
import numpy as np
import plotly.graph_objects as go
import pytest
from playwright.sync_api import expect

import app
from model.errors import CheckpointMissingError
from tests.browser.conftest import NARROW, WIDE, Open, figure, resting_box, serve, wait_for_words, wait_until_drawn
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.components import PlotlyView, view_value
from viz.panels.choice import read_cell

# every two of these meet
MIXES = [(WIDE, "light", "en"), (WIDE, "dark", "zh"), (NARROW, "light", "zh"), (NARROW, "dark", "en")]


@pytest.mark.parametrize(("size", "theme", "lang"), MIXES)
def test_both_widths_themes_and_languages(open_page: Open, size: tuple[int, int], theme: str, lang: str) -> None:
    page = open_page(size, theme, lang)
    words = {"en": ("Attention Atlas", "row: the word being written", "Translate"), "zh": ("注意力图谱", "行：正在写出的词", "翻译")}[lang]
    assert page.title() == words[0]
    assert page.evaluate("document.documentElement.lang")[:2] == lang
    expect(page.locator("#map .g-gtitle")).to_contain_text(words[1])
    expect(page.get_by_role("tab").first).to_have_text(words[2])
    ink = page.evaluate("document.querySelector('#map .plot')._fullLayout.font.color")
    assert ink == {"light": "#1c2024", "dark": "#e7e9ec"}[theme]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(15, 18, 22)"}[theme]
    page.locator("#sentence textarea").fill("The cat sat on the mat because it was tired and the dog was not tired at all today.")
    wait_for_words(page, "TIRED")
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.wait_for_timeout(300)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_the_browser_s_language_is_taken_and_the_switch_keeps_everything(open_page: Open) -> None:
    page = open_page(lang=None, locale="zh-CN")
    expect(page.locator("#sentence textarea")).to_have_attribute("placeholder", "输入一句英文……")
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "aime")
    before = figure(page)["drawn"]
    page.locator("[data-heads] label", has_text="1").click()
    wait_until_drawn(page, before)
    page.locator("#tab-positions-button").click()
    expect(page.locator("#positions-table .main-svg").first).to_be_visible()

    page.locator("[data-lang=en]").click()
    assert page.title() == "Attention Atlas"
    expect(page.get_by_role("tab", name="Positions")).to_have_attribute("aria-selected", "true")
    assert "lang=en" in page.url
    page.get_by_role("tab", name="Translate").click()
    expect(page.locator("#sentence textarea")).to_have_value("I love you.")
    expect(page.locator("#map-head h2")).to_have_text("Cross-attention · layer 1 · head 1")
    expect(page.locator("#map .g-gtitle")).to_contain_text("row: the word being written")
    expect(page.locator("#map figcaption")).to_contain_text("looks most at")
    expect(page.locator("#map .plot-frame")).to_have_attribute("aria-label", re.compile("^Attention map. Arrow keys"))


def test_the_theme_switch_recolours_without_losing_the_picture(open_page: Open) -> None:
    page = open_page(theme="light")
    page.locator("[data-theme]").click()
    page.wait_for_function("document.querySelector('#map .plot')._fullLayout.font.color === '#e7e9ec'")
    assert page.evaluate("document.body.classList.contains('dark')") and "__theme=dark" in page.url
    page.locator("[data-theme]").click()
    page.wait_for_function("document.querySelector('#map .plot')._fullLayout.font.color === '#1c2024'")


def test_the_keyboard_is_enough(open_page: Open) -> None:
    page = open_page()
    before = figure(page)["drawn"]
    page.locator("[data-kinds] input:checked").focus()
    page.keyboard.press("ArrowLeft")
    wait_until_drawn(page, before)
    assert figure(page)["kind"] == "decoder_self"
    expect(page.locator("[data-kinds] input:checked")).to_be_focused()
    assert page.evaluate("getComputedStyle(document.querySelector('[data-kinds] .choice:focus-within')).outlineStyle") == "solid"


def test_positions_follow_their_controls(open_page: Open, translator: FakeTranslator) -> None:
    page = open_page()
    page.get_by_role("tab", name="Positions").click()
    page.wait_for_selector("#positions-waves .main-svg")
    z = page.evaluate("Array.from(document.querySelector('#positions-table .plot')._fullData[0].z, (row) => Array.from(row))")
    np.testing.assert_allclose(z, translator.positional_encoding(50), atol=1e-6)

    drawn = page.evaluate("Number(document.querySelector('#positions-table .plot').dataset.drawn)")
    page.locator("#positions-length").fill("20")
    wait_until_drawn(page, drawn, "positions-table")
    assert page.evaluate("document.querySelector('#positions-table .plot')._fullData[0].z.length") == 20
    drawn = page.evaluate("Number(document.querySelector('#positions-table .plot').dataset.drawn)")
    page.locator("[data-tokens]").check()
    wait_until_drawn(page, drawn, "positions-table")
    assert page.evaluate("document.querySelector('#positions-table .plot')._fullData[0].z.length") == 7

    # the sentence changes while this tab is hidden: on return it is up to date and fits its frame
    page.get_by_role("tab", name="Translate").click()
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "aime")
    page.set_viewport_size({"width": 1100, "height": 800})
    page.get_by_role("tab", name="Positions").click()
    page.wait_for_function("document.querySelector('#positions-table .plot')._fullData[0].z.length === 6")
    page.wait_for_function(
        """() => { const plot = document.querySelector('#positions-table .plot');
        return Math.abs(plot._fullLayout.width - plot.parentNode.clientWidth) < 2; }"""
    )


def test_a_page_without_a_model_says_so_and_shows_the_recorded_run(open_page: Open, translator: FakeTranslator) -> None:
    demo = app.build_app(None, recorded_run(translator), CheckpointMissingError("model.safetensors"))
    try:
        page = open_page(url=serve(demo))
        alert = page.locator("#notice [role=alert]")
        expect(alert).to_contain_text("model.safetensors is missing")
        before = figure(page)["drawn"]
        page.locator("[data-kinds] label", has_text="Encoder").click()
        wait_until_drawn(page, before)  # the recorded run can still be looked at
        page.locator("#sentence textarea").fill("I love you.")
        expect(alert).to_contain_text("Restore the folder model/weights")
        expect(page.locator("#sentence textarea")).to_have_value("I love you.")
    finally:
        demo.close()


def test_a_page_with_neither_model_nor_recording_opens(open_page: Open) -> None:
    demo = app.build_app(None, None, CheckpointMissingError("config.json"))
    try:
        page = open_page(url=serve(demo), picture=False)
        expect(page.locator("#notice [role=alert]")).to_contain_text("config.json is missing")
    finally:
        demo.close()


def test_a_run_that_left_the_cache_is_asked_for_again(open_page: Open, translator: FakeTranslator) -> None:
    demo = app.build_app(translator, recorded_run(translator), max_cache_bytes=1)
    try:
        page = open_page(url=serve(demo))
        page.locator("#sentence textarea").fill("I love you.")
        wait_for_words(page, "aime")
        before = figure(page)["drawn"]
        page.locator("[data-kinds] label", has_text="Encoder").click()
        wait_until_drawn(page, before)
        assert figure(page)["kind"] == "encoder_self" and figure(page)["columns"][2] == "▁love"
    finally:
        demo.close()


def test_plotly_view_emits_cells_and_cleans_up(open_page: Open) -> None:
    asked: list[tuple[int, int]] = []
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    figures = {"en": go.Figure(go.Heatmap(z=values), layout={"template": None, "height": 300, "title": "</script><b>"})}
    with gr.Blocks() as demo:
        view = PlotlyView(view_value(figures, {"en": "two rows"}), label_key="map.label", elem_id="map")
        hide = gr.Button("hide", elem_id="hide")
        gr.Textbox(elem_id="sentence")

        def clicked(event: gr.EventData) -> None:
            asked.append(read_cell(event._data, 2, 3))

        view.cell_click(clicked, None, None, api_visibility="private")
        hide.click(lambda: PlotlyView(visible=False, label_key="map.label", elem_id="map"), None, view, api_visibility="private")
    try:
        page = open_page(url=serve(demo))
        box = resting_box(page.locator("#map .nsewdrag").first)
        with page.expect_response("**/queue/data*"):
            page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + box["height"] * 0.7)
            page.mouse.move(box["x"] + box["width"] * 0.83, box["y"] + box["height"] * 0.75)
            page.mouse.down()
            page.mouse.up()
        for _ in range(100):  # a busy machine may take its time
            if asked:
                break
            page.wait_for_timeout(100)
        assert asked == [(0, 2)]  # an ordinary heat map has row 0 at the bottom
        page.evaluate("window.kept = document.querySelector('#map .plot')")
        page.locator("#hide").click()
        page.wait_for_function("!window.kept.isConnected && !window.kept._fullLayout")
    finally:
        demo.close()
