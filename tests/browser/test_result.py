"""The translation: a card for each word with what else the model might have written, and words that point at their rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import app
from tests.browser.conftest import NARROW, Open, serve, wait_for_words
from tests.viz.fakes import FakeTranslator, recorded_run

TEXT = "The cat sleeps."


class Pieces(FakeTranslator):
    """Words of several pieces, one of them twice, and an unknown one."""

    known = {
        ("I am a student.", "fra"): "▁Je ▁suis ▁étudiant .",
        (TEXT, "fra"): "▁Le ▁ch at ▁ dor t <unk> ▁ch at .",
    }

    def _translation(self, text, target, source, out, forced):
        """The third token was not the likeliest. As by the embedded model, capitals are read as small letters."""
        translation = super()._translation(text, target, source, out, forced)
        log_probs = translation.token_log_probs
        return replace(translation, source_text=text.capitalize(), token_log_probs=(*log_probs[:2], -1.7, *log_probs[3:]))


@pytest.fixture(scope="module")
def model() -> Pieces:
    return Pieces()


@pytest.fixture(scope="module")
def pieces_site(model: Pieces) -> Iterator[str]:
    demo = app.build_app(model, recorded_run(model))
    yield serve(demo)
    demo.close()


@pytest.fixture
def open_pieces(open_page: Open, pieces_site: str):
    def open_it(**options) -> Page:
        page = open_page(url=pieces_site, picture=False, **options)
        page.wait_for_selector("#result .word", timeout=60_000)
        page.locator("#sentence textarea").fill(TEXT)
        wait_for_words(page, "Lechatdort⟨unknown⟩chat.")
        page.wait_for_function("(text) => atlas.maps.current().request.text === text", arg=TEXT)
        return page

    return open_it


def test_capitals_that_were_read_as_small_letters_are_told(open_pieces) -> None:
    page = open_pieces()
    facts = page.locator("#result [data-status]")
    expect(facts).not_to_contain_text("capitals")
    page.locator("#sentence textarea").fill("THE DOG RAN.")
    expect(facts).to_contain_text("capitals read as small letters")
    expect(facts.get_by_text("capitals")).to_have_attribute("title", re.compile("small letters"))
    page.locator("#sentence textarea").fill("The dog ran.")
    expect(facts).not_to_contain_text("capitals")


def card(page: Page) -> list[list[tuple[str, float, bool, float]]]:
    """For each piece of the card: every line's token, probability, whether it was written, and how far its bar reaches."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.word-card:not([hidden]) .card-piece')]
          .map((piece) => [...piece.querySelectorAll('li')].map((line) => [
            line.querySelector('.card-token').textContent, Number(line.querySelector('.card-value').textContent),
            line.classList.contains('written'), Number(line.querySelector('i').style.getPropertyValue('--p'))]))"""
    )


def focus(page: Page) -> dict:
    return page.evaluate("atlas.focus.get()")


def test_the_card_holds_the_models_runner_ups(open_pieces, model: Pieces) -> None:
    page = open_pieces()
    translation = model.translate(TEXT)
    beside = model.examine(translation).runner_ups
    words = [(0, 1), (1, 3), (3, 6), (6, 7), (7, 9), (9, 10), (10, 11)]
    names = {"</s>": "⟨end⟩", "<unk>": "⟨unknown⟩"}
    for index, (start, stop) in enumerate(words):
        page.locator("#result .word").nth(index).hover()
        page.wait_for_function("(i) => document.querySelectorAll('#result .word')[i].getAttribute('aria-expanded') === 'true'", arg=index)
        shown = card(page)
        assert len(shown) == stop - start
        for piece, position in zip(shown, range(start, stop), strict=True):
            own = (translation.tgt_out_tokens[position], float(np.exp(translation.token_log_probs[position])), True)
            expected = sorted([own, *((token, p, False) for token, p in beside[position].others)], key=lambda line: -line[1])
            assert [(token, written) for token, _, written, _ in piece] == [(names.get(t, t), written) for t, _, written in expected]
            np.testing.assert_allclose([p for _, p, _, _ in piece], [p for _, p, _ in expected], atol=0.00006)
            np.testing.assert_allclose([bar for *_, bar in piece], [p for _, p, _ in expected], atol=0.00006)
    page.mouse.move(2, 2)
    expect(page.locator(".word-card")).to_be_hidden()


def test_a_word_points_at_its_row_under_either_name(open_pieces) -> None:
    page = open_pieces()
    page.evaluate("atlas.set({kind: 'cross', layer: 0, head: 0, rows: 'predicted'})")
    word = page.locator("#result .word")
    for index, (predicted, read) in enumerate([(0, 1), (1, 2), (4, 5), (6, 7), (7, 8), (9, 10), (10, None)]):
        for rows, row in (("predicted", predicted), ("read", read)):  # a piece that is only a space is nobody's first
            page.mouse.move(2, 2)
            page.evaluate("(rows) => atlas.set({rows})", rows)
            word.nth(index).hover()
            assert focus(page)["row"] == row, (index, rows)
    page.mouse.move(2, 2)
    assert focus(page)["row"] is None
    # and the other way round: a row in focus lights the word that it belongs to
    lit = "[...document.querySelectorAll('#result .word')].flatMap((word, i) => (word.classList.contains('lit') ? [i] : []))"
    page.evaluate("atlas.set({rows: 'predicted'}); atlas.focus.hover(8, null)")
    assert page.evaluate(lit) == [4]
    page.evaluate("atlas.set({rows: 'read'}); atlas.focus.hover(8, null)")
    assert page.evaluate(lit) == [4]
    page.evaluate("atlas.focus.hover(7, null)")
    assert page.evaluate(lit) == [3]
    page.evaluate("atlas.set({kind: 'encoder_self'}); atlas.focus.hover(2, null)")
    assert page.evaluate(lit) == []


def test_keys_and_screen_readers(open_pieces, model: Pieces) -> None:
    page = open_pieces()
    assert page.locator('#result .word[tabindex="0"]').count() == 1
    page.locator("#given-toggle button").focus()
    page.locator('#result .word[tabindex="0"]').focus()
    page.keyboard.press("ArrowRight")
    word = page.locator("#result .word").nth(1)
    expect(word).to_be_focused()
    expect(word).to_have_attribute("aria-describedby", "word-card")
    value = np.exp(sum(model.translate(TEXT).token_log_probs[1:3]))
    expect(word).to_have_attribute("aria-label", f"chat: probability {value:.4f}")
    expect(page.get_by_role("tooltip")).to_contain_text(f"{value:.4f}, the product of its pieces")
    assert focus(page)["row"] == 1
    page.keyboard.press("Escape")
    expect(page.locator(".word-card")).to_be_hidden()
    expect(word).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".word-card")).to_be_visible()
    page.keyboard.press("End")
    expect(page.locator("#result .word").last).to_be_focused()
    assert [token for token, *_ in card(page)[0]].count("⟨end⟩") == 1


def test_the_card_stays_on_a_narrow_screen_and_pushes_nothing(open_pieces) -> None:
    page = open_pieces(size=NARROW)
    before = page.evaluate("document.querySelector('#map-area').getBoundingClientRect().top + scrollY")
    for index in range(7):
        page.locator("#result .word").nth(index).click()
        box = page.locator(".word-card").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= NARROW[0]
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
        assert page.evaluate("document.querySelector('#map-area').getBoundingClientRect().top + scrollY") == before
    page.mouse.click(200, 20)
    expect(page.locator(".word-card")).to_be_hidden()


def test_a_run_without_runner_ups_still_has_its_probabilities(open_pieces) -> None:
    page = open_pieces()
    page.evaluate(
        """() => {
          const result = structuredClone(atlas.result());
          result.words.forEach((word) => word.pieces.forEach((piece) => { delete piece.others; delete piece.rank; }));
          atlas.showResult(document.querySelector('#result'), {result, problem: null, owner: ''});
        }"""
    )
    page.locator("#result .word").nth(1).hover()
    assert [[token for token, *_ in piece] for piece in card(page)] == [["▁ch"], ["at"]]
