"""Questions of Step by step in a browser: words that stand more than once, what an open question covers, and what outlives a language."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import app
from model.translator import Translator
from tests.browser.conftest import Open
from tests.browser.steps_view import step, table, wait_for_walk
from viz.runs import Run
from viz.text import LANGUAGES

expect.set_options(timeout=60_000)  # a busy machine is no failure
EN, ZH = LANGUAGES["en"], LANGUAGES["zh"]
REPEATED = "&text=no+no+no+no&kind=cross&layer=1&head=2&step=2"


@pytest.fixture(scope="module")
def run() -> Run:
    return app.recorded_run()


def options(page: Page, name: str) -> list[str]:
    return [text.strip() for text in step(page, name).locator(".guess-option").all_inner_texts()]


def chips(page: Page) -> list[str]:
    return page.locator(".steps-words label").all_inner_texts()


def seen(page: Page, word: str) -> list[str]:
    """Where the page lets a word be read, but for the answers to choose from."""
    return page.evaluate(
        """(word) => [...document.querySelectorAll("#steps-area *")]
          .filter((node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.includes(word)))
          .filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.closest(".guess-options"))
          .map((node) => node.outerHTML)""",
        word,
    )


def test_a_word_that_stands_more_than_once_is_told_by_its_position(open_real: Open, embedded: Translator) -> None:
    page = open_real("steps", search=REPEATED + "&depth=numbers&guess=1")
    page.wait_for_function("atlas.steps.current()?.request.text === 'no no no no'")
    wait_for_walk(page, row=2, layer=1, head=2)
    walk = embedded.walk(embedded.translate("no no no no", "fra"), "cross", 1, 2, 2)
    products = walk.attention.products
    pieces = [piece.removeprefix("▁") for piece in embedded.translate("no no no no", "fra").src_tokens]
    places = [at for at, piece in enumerate(pieces) if piece == "no"]
    assert len(places) == 4
    columns, _ = table(page, "scores")
    assert [columns[at] for at in places] == [f"no ({at})" for at in places] and len(set(columns)) == len(columns)
    assert step(page, "qkv").locator(".key-strips").first.locator(".key-word").all_inner_texts() == columns
    said = options(page, "qkv")
    assert len(set(said)) == len(said) == 4 and set(said) <= set(columns)
    best = columns[int(np.argmax(products))]
    step(page, "qkv").get_by_role("button", name=best, exact=True).click()
    expect(step(page, "qkv").locator(".guess-answer")).to_contain_text(f"“{best}”")
    expect(step(page, "qkv").locator(".guess-answer")).to_contain_text(EN["steps.guess.right"])
    asked = step(page, "scores").locator(".guess-ask").inner_text()
    other = next(name for name in columns if f"“{name}”" in asked)
    assert other != best and f"{products[columns.index(other)]:.2f}".replace("-", "−") in asked
    for name in ("scores", "softmax", "logits"):
        step(page, name).locator(".guess-show").click()
    heaviest = columns[int(np.argmax(walk.attention.weights))]
    expect(step(page, "softmax").locator(".step-story")).to_contain_text(f"“{heaviest}”")
    step(page, "softmax").locator(".row-weight button").nth(places[2]).click()
    expect(step(page, "softmax").locator(".sum-name")).to_have_text(EN["steps.sum.of_key"].format(name="weight", key=columns[places[2]]))


def test_two_keys_that_fit_equally_well_are_not_asked_about(open_real: Open) -> None:
    page = open_real("steps", search="&kind=cross&layer=1&head=3&step=3")
    wait_for_walk(page, row=3)
    same = """(equal) => {
      const now = atlas.steps.current();
      const products = now.before.attention.products.slice();
      const order = [...products.keys()].sort((a, b) => products[b] - products[a]);
      if (equal) products[order[1]] = products[order[0]];
      const before = {...now.before, attention: {...now.before.attention, products}};
      const section = atlas.steps.walk({...now, before}, () => {}, atlas.steps.asked(() => {})).groups
        .flatMap(({steps}) => steps).find((node) => node.dataset.step === "qkv");
      return section.dataset.asks ?? "";
    }"""
    assert (page.evaluate(same, False), page.evaluate(same, True)) == ("closed", "")


def test_nothing_on_the_page_gives_an_open_question_away(open_real: Open, run: Run) -> None:
    """The row reads "suis" and writes "étudiant"."""
    row = run.trace.tgt_out_tokens.index("▁étudiant")
    page = open_real("steps", search=f"&kind=decoder_self&layer=2&head=5&step={row}&guess=1&depth=numbers")
    wait_for_walk(page, row=row, kind="decoder_self")
    assert seen(page, "étudiant") == []
    assert chips(page)[row : row + 2] == ["suis → …", "… → ."]
    expect(step(page, "mask").locator(".veil span")).to_be_hidden()
    expect(step(page, "mask").locator(".key-table")).to_be_hidden()
    expect(step(page, "softmax").locator(".veil span")).to_be_hidden()
    expect(step(page, "mix").locator(".key-strip").first).to_be_hidden()

    step(page, "mask").locator(".guess-show").click()
    hidden = len(run.trace.tgt_in_tokens) - row - 1
    expect(step(page, "mask").locator(".veil span")).to_have_text(EN["steps.mask.count"].format(count=hidden))
    expect(step(page, "mask").locator(".veil span")).to_be_visible()
    expect(step(page, "mask").locator(".key-table")).to_be_hidden()  # its numbers answer two other questions
    step(page, "qkv").locator(".guess-show").click()
    step(page, "scores").locator(".guess-show").click()
    expect(step(page, "mask").locator(".key-table")).to_be_visible()
    expect(step(page, "mix").locator(".key-strip").first).to_be_visible()
    assert seen(page, "étudiant") == []
    step(page, "logits").get_by_role("button", name="étudiant", exact=True).click()
    expect(step(page, "softmax").locator(".veil span")).to_be_visible()
    expect(step(page, "softmax").locator(".veil")).to_contain_text("étudiant")
    assert chips(page)[row : row + 2] == ["suis → étudiant", "étudiant → ."]


def test_of_a_causal_row_only_what_it_may_see_is_asked_for(open_real: Open, embedded: Translator, run: Run) -> None:
    page = open_real("steps", search="&kind=decoder_self&layer=2&head=5&step=1&guess=1")
    wait_for_walk(page, row=1, kind="decoder_self")
    expect(step(page, "qkv").locator(".guess-ask")).to_have_text(EN["steps.ask.fits.seen"])
    columns, _ = table(page, "scores")
    assert set(options(page, "qkv")) == set(columns[:2])
    products = embedded.walk(run.translation, "decoder_self", 2, 5, 1).attention.products
    step(page, "qkv").get_by_role("button", name=columns[int(np.argmax(products[:2]))], exact=True).click()
    expect(step(page, "qkv").locator(".guess-answer")).to_contain_text(EN["steps.guess.right"])


def test_an_answered_question_stays_so_in_the_other_language(open_real: Open) -> None:
    page = open_real("steps", search="&kind=cross&layer=1&head=4&step=1")
    wait_for_walk(page, row=1)
    step(page, "softmax").locator(".guess-start").click()
    step(page, "softmax").locator(".guess-option").nth(2).click()
    step(page, "position").locator(".guess-start").click()
    page.evaluate("atlas.chooseLanguage('zh')")
    wait_for_walk(page, row=1, language="zh")
    expect(step(page, "softmax").locator(".guess-option").nth(2)).to_have_attribute("aria-pressed", "true")
    expect(step(page, "softmax").locator(".guess-answer")).to_contain_text(ZH["steps.ask.softmax.answer"].partition("{then}")[2][:9])
    expect(step(page, "position")).to_have_attribute("data-asks", "open")
    page.locator(".steps-words label").nth(2).click()
    wait_for_walk(page, row=2)
    expect(step(page, "softmax")).to_have_attribute("data-asks", "closed")  # another row, other answers
