"""The page opens on the cross-attention head that aligns best, says so in both languages, and leaves it when somebody chooses."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import expect

import app
from tests.browser.conftest import Open, figure, serve, wait_for_words
from tests.browser.test_translate import pick, type_sentence
from tests.viz.fakes import FakeTranslator, recorded_run

HEADING = "Cross-attention · layer {} · head {}"
BEST = {rows: f" · aligns best over the measured stories, by the token {rows}" for rows in ("predicted", "read")}  # not in this sentence


@pytest.fixture(scope="module")
def measured() -> FakeTranslator:
    translator = FakeTranslator()
    translator.best_heads = {"predicted": (0, 2), "read": (1, 1)}
    return translator


@pytest.fixture(scope="module")
def address(measured: FakeTranslator) -> Iterator[str]:
    demo = app.build_app(measured, recorded_run(measured))
    yield serve(demo)
    demo.close()


def test_the_page_opens_on_it_and_says_so(open_page: Open, address: str, measured: FakeTranslator) -> None:
    page = open_page(url=address)
    heading = page.locator("#map-head h2")
    expect(heading).to_have_text(HEADING.format(0, 2) + BEST["predicted"])
    trace = measured.trace(measured.translate("I am a student."))
    np.testing.assert_allclose(figure(page)["z"], trace.cross_attention[0, 2], atol=1e-5)
    assert page.locator("[data-heads] input:checked").get_attribute("aria-label") == "Head 2, aligns best"
    page.locator("[data-lang=zh]").click()
    expect(heading).to_contain_text("对齐最好")


def test_it_is_the_one_for_the_way_rows_are_named(open_page: Open, address: str) -> None:
    page = open_page(url=address)
    heading = page.locator("#map-head h2")
    pick(page, "rows", "the token it reads")
    expect(heading).to_have_text(HEADING.format(0, 2))
    pick(page, "layers", "1")
    pick(page, "heads", "1")
    expect(heading).to_have_text(HEADING.format(1, 1) + BEST["read"])
    # a choice of one's own outlives the next sentence
    pick(page, "heads", "0")
    type_sentence(page, "I love you.")
    wait_for_words(page, "aime")
    expect(heading).to_have_text(HEADING.format(1, 0))


def test_only_cross_attention_has_one(open_page: Open, address: str) -> None:
    page = open_page(url=address)
    pick(page, "kinds", "Decoder")
    expect(page.locator("#map-head h2")).to_have_text("Decoder causal attention · layer 0 · head 2")


def test_without_a_recorded_example_the_first_sentence_opens_it(open_page: Open, measured: FakeTranslator) -> None:
    demo = app.build_app(measured)
    try:
        page = open_page(url=serve(demo), picture=False)
        type_sentence(page, "I love you.")
        page.wait_for_selector("#map .main-svg")
        expect(page.locator("#map-head h2")).to_have_text(HEADING.format(0, 2) + BEST["predicted"])
        trace = measured.trace(measured.translate("I love you."))
        np.testing.assert_allclose(figure(page)["z"], trace.cross_attention[0, 2], atol=1e-5)
    finally:
        demo.close()


def test_rows_are_named_as_the_best_head_of_all_aligns(open_page: Open) -> None:
    translator = FakeTranslator()
    translator.best_heads = {"read": (1, 1), "predicted": (0, 2)}
    demo = app.build_app(translator, recorded_run(translator))
    try:
        page = open_page(url=serve(demo))
        heading = page.locator("#map-head h2")
        expect(heading).to_have_text(HEADING.format(1, 1) + BEST["read"])
        expect(page.locator("[data-rows] input:checked + *")).to_have_text("the token it reads")
        trace = translator.trace(translator.translate("I am a student."))
        np.testing.assert_allclose(figure(page)["z"], trace.cross_attention[1, 1], atol=1e-5)
        assert figure(page)["rows"] == list(trace.tgt_in_tokens)
        # what a visitor then chooses stays chosen
        pick(page, "rows", "the token it predicts")
        type_sentence(page, "I love you.")
        wait_for_words(page, "aime")
        expect(page.locator("[data-rows] input:checked + *")).to_have_text("the token it predicts")
        expect(heading).to_have_text(HEADING.format(1, 1))
    finally:
        demo.close()
