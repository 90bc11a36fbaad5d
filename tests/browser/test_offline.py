"""The saved page: one file, opened from the disk without a network, whose controls all work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import NARROW, WIDE
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.offline import offline_page
from viz.panels.choice import MapChoice
from viz.panels.map_view import map_view
from viz.runs import Request, Run

HOSTILE = "</script><script>window.broken=1</script> <!-- the cat and the <b>cat</b> ${1} \u2028 $x$"


def run_of(text: str) -> Run:
    translator = FakeTranslator()
    translation = translator.translate(text)
    return Run(Request(text, "fra"), translation, translator.trace(translation), 0.1)


@pytest.fixture
def open_file(browser: Browser, tmp_path: Path) -> Iterator:
    contexts, complaints = [], []

    def open_it(run: Run, size: tuple[int, int] = WIDE, theme: str = "light", **state: object) -> Page:
        path = tmp_path / "page.html"
        path.write_text(offline_page(run, state, date(2026, 2, 3)), encoding="utf-8")
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, offline=True, color_scheme=theme)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or complaints.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("#map .main-svg")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []


def drawn(page: Page) -> dict:
    return page.evaluate(
        """() => {
          const plot = document.querySelector('#map .plot');
          const {queries: rows, keys: columns} = plot.layout.meta;
          return {z: Array.from(plot._fullData[0].z, (row) => Array.from(row)), rows, columns};
        }"""
    )


def expect_map(page: Page, run: Run, choice: MapChoice, language: str = "en") -> None:
    view = map_view(run, choice, language)
    shape = list(view.weights.shape)
    rows = [unit.label.raw for unit in view.rows]
    page.wait_for_function(
        """([shape, rows, first]) => {
          const {z} = document.querySelector('#map .plot')._fullData[0];
          const shown = document.querySelector('#map .plot').layout.meta.queries;
          return z.length === shape[0] && z[0].length === shape[1] && String(shown) === String(rows) && Math.abs(z[0][0] - first) < 1e-4;
        }""",
        arg=[shape, rows, float(view.weights[0, 0])],
    )
    found = drawn(page)
    assert found["columns"] == [unit.label.raw for unit in view.columns]
    z = np.array(found["z"], dtype=float)
    seen = np.ones(view.weights.shape, bool) if view.masked is None else ~view.masked
    np.testing.assert_allclose(z[seen], view.weights[seen], atol=2e-5)


def pick(page: Page, group: str, label: str) -> None:
    page.locator(f"[data-{group}] label").filter(has_text=re.compile(f"^{label}$")).click()


def test_every_control_works_without_a_network(open_file) -> None:
    run = run_of("The cat saw the cat again.")
    page = open_file(run, kind="cross", layer=0, head=2)
    choice = MapChoice("cross", 0, 2)
    expect_map(page, run, choice)
    for group, label, change in (
        ("layers", "1", {"layer": 1}),
        ("heads", "mean", {"head": "mean"}),
        ("heads", "1", {"head": 1}),
        ("rows", "the token it reads", {"rows": "read"}),
        ("units", "whole words", {"units": "words"}),
        ("specials", "hidden", {"specials": "hidden"}),
        ("kinds", "Decoder", {"kind": "decoder_self"}),
        ("kinds", "Encoder", {"kind": "encoder_self"}),
        ("units", "pieces", {"units": "pieces"}),
        ("heads", "rollout", {"head": "rollout"}),
    ):
        pick(page, group, label)
        choice = replace(choice, **change)
        expect_map(page, run, choice)


def test_hover_gives_the_trace_s_number(open_file) -> None:
    run = run_of("I am a student.")
    page = open_file(run, layer=1, head=1)
    page.locator("#map").scroll_into_view_if_needed()
    spot = page.evaluate(
        """() => {
          const plot = document.querySelector('#map .plot'), layout = plot._fullLayout, box = plot.getBoundingClientRect();
          return [box.left + layout.xaxis._offset + layout.xaxis.l2p(4), box.top + layout.yaxis._offset + layout.yaxis.l2p(1)];
        }"""
    )
    page.mouse.move(spot[0] - 3, spot[1] - 3)
    page.mouse.move(*spot)
    value = run.trace.cross_attention[1, 1][1, 4]
    expect(page.locator("#map .hoverlayer .hovertext")).to_contain_text(f"{value:.4f}")
    expect(page.locator(".words-said")).to_contain_text(f"{value:.4f}")


@pytest.mark.parametrize(("size", "theme", "lang"), [(WIDE, "dark", "zh"), (NARROW, "light", "en"), (NARROW, "dark", "zh")])
def test_languages_themes_and_widths(open_file, size: tuple[int, int], theme: str, lang: str) -> None:
    run = recorded_run(FakeTranslator())
    page = open_file(run, size, theme, lang=lang)
    badge = {"en": "saved on 2026-02-03 from the embedded model", "zh": "2026-02-03 保存，来自内置模型"}
    expect(page.locator("[data-saved]")).to_have_text(badge[lang])
    assert page.evaluate("document.body.classList.contains('dark')") == (theme == "dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    other = {"en": "zh", "zh": "en"}[lang]
    page.locator(f"[data-lang={other}]").click()
    expect(page.locator("[data-saved]")).to_have_text(badge[other])
    assert page.title() == {"en": "Attention Atlas", "zh": "注意力图谱"}[other]
    page.locator("[data-theme]").click()
    assert page.evaluate("document.body.classList.contains('dark')") == (theme != "dark")


def test_it_opens_as_it_was_left(open_file) -> None:
    run = run_of("The cat saw the cat again.")
    state = {"kind": "decoder_self", "layer": 0, "head": "max", "rows": "read", "units": "words", "specials": "hidden", "colour": "max"}
    page = open_file(run, WIDE, "light", **state, lang="zh", dark=True, row=1, column=0)
    expect_map(page, run, MapChoice(**state), "zh")
    assert page.evaluate("atlas.focus.pinned()") == {"row": 1, "column": 0}
    assert page.evaluate("document.body.classList.contains('dark')") and page.evaluate("document.documentElement.lang") == "zh-CN"
    assert page.evaluate("atlas.state.colour") == "max"


def test_hostile_text_stays_text(open_file) -> None:
    run = run_of(HOSTILE)
    page = open_file(run)
    assert page.evaluate("window.broken") is None
    expect(page.locator(".offline-sentence")).to_contain_text("</script><script>window.broken=1</script>")
    assert page.locator("#result script, #map script, #words-view script, .offline-sentence *").count() == 0
    assert drawn(page)["columns"] == list(run.trace.src_tokens)


def test_pictures_can_be_saved_from_it_but_nothing_of_a_server(open_file) -> None:
    page = open_file(recorded_run(FakeTranslator()))
    page.locator(".menu-button").click()
    assert page.get_by_role("menuitem").count() == 4
    with page.expect_download() as download:
        page.get_by_role("menuitem", name="Map, SVG").click()
    assert download.value.suggested_filename.endswith(".svg")


def test_the_tour_of_the_live_page_is_not_offered(open_file) -> None:
    run = recorded_run(FakeTranslator())
    page = open_file(run)  # with a store that remembers no tour
    page.wait_for_timeout(900)  # the live page offers it after 600 ms
    expect(page.locator(".languages")).to_be_visible()
    assert page.locator("[data-tour], .tour").count() == 0 and page.evaluate("atlas.offerTour") is None


def test_the_file_forbids_connections_and_names_no_other_host() -> None:
    text = offline_page(run_of(HOSTILE), {"lang": "en"})
    assert "default-src 'none'" in text and "connect-src" not in text  # falls back to none
    saved = text.split("window.atlasSaved = ")[1].split(";</script>")[0]
    assert "<" not in saved and json.loads(saved)["result"]["request"]["text"] == HOSTILE
    assert "http-equiv" in text and 'src="' not in text.split("<body")[1]
