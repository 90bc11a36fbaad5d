"""Questions of Step by step in a browser: words that stand more than once, what an open question covers, and what outlives a language."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import app
from model.translator import Translator
from tests.browser.conftest import Open
from tests.browser.steps_view import built, parsed, payload, step, table, wait_for_walk
from viz.runs import Run
from viz.text import LANGUAGES

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


LONG = "The cat sat on the mat because it was tired."
ATTRIBUTES = """(word) => [...document.querySelectorAll("#steps-area *")]
  .filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.closest(".guess-options"))
  .flatMap((node) => [...node.attributes].filter(({value}) => value.includes(word)).map(({name, value}) => `${name}: ${value}`))"""


def test_no_name_or_hover_gives_the_next_word_away(open_real: Open, embedded: Translator) -> None:
    """Eighteen tokens, of which twelve have a strip at first; the row's next one has a name of its own."""
    row, secret = 4, "assit"
    assert embedded.trace(embedded.translate(LONG, "fra")).tgt_out_tokens[row] == secret
    search = f"&text={LONG.replace(' ', '+')}&kind=decoder_self&layer=1&head=2&step={row}&depth=numbers&guess=1"
    page = open_real("steps", search=search)
    page.wait_for_function("(text) => atlas.steps.current()?.request.text === text", arg=LONG)
    wait_for_walk(page, row=row, kind="decoder_self")
    for name in ("qkv", "scores", "mask", "softmax"):
        step(page, name).locator(".guess-show").click()
    more = page.locator(".key-strips > .plain")
    for left in (3, 2, 1):  # each goes away
        expect(more).to_have_count(left)
        more.first.click()
    expect(page.locator(".key-strips > .plain")).to_have_count(0)

    def found() -> list[str]:
        return seen(page, secret) + page.evaluate(ATTRIBUTES, secret)

    assert found() == []
    strips = step(page, "qkv").locator(".key-strips").first
    expect(strips.locator(".key-word.covered")).to_have_count(1)
    strips.locator(".strip-frame").nth(row + 1).hover()
    expect(strips.locator(".strip-said")).to_contain_text("… · ")
    assert found() == []
    for name, line in (("scores", "product"), ("softmax", "weight"), ("mask", "masked")):
        cell = step(page, name).locator(f'.row-{line} button[data-column="{row + 1}"]')
        cell.hover()
        expect(step(page, name).locator(".sum-name")).to_contain_text("“…”")
        assert found() == []
        cell.click()
    assert found() == []

    step(page, "logits").locator(".guess-show").click()
    expect(step(page, "scores").locator(".sum-name")).to_have_text(EN["steps.sum.of_key"].format(name="q · k", key=secret))
    assert table(page, "scores")[0][row + 1] == secret
    expect(strips.locator(".key-word").nth(row + 1)).to_have_text(secret)
    spoken = EN["steps.strip.of_key"].format(name="keys", key=secret)
    expect(strips.locator(".strip-frame").nth(row + 1)).to_have_attribute("aria-label", spoken)
    expect(page.locator(".key-word.covered")).to_have_count(0)


def test_a_word_is_not_told_from_a_covered_one(open_real: Open, embedded: Translator, run: Run) -> None:
    """That one reads like another would be seen from the position that tells them apart."""
    page = open_real("steps", search="&guess=1")
    sent = payload(embedded.config, embedded.walk(run.translation, "decoder_self", 1, 3, 2))
    read = """(groups, asked) => {
      const heads = () => [...groups.flat().find((step) => step.dataset.step === "scores").querySelectorAll("thead th")];
      asked.renamed();
      const before = heads().map((node) => node.textContent);
      asked.to("logits", "answered");
      return [before, heads().map((node) => node.textContent)];
    }"""
    before, after = built(page, sent, read, ["a", "b", "c", "b", "d"])
    assert (before, after) == (["a", "b", "c", "…", "d"], ["a", "b (1)", "c", "b (3)", "d"])


SENTENCES = [LONG, "I am a student.", "The old man who lived by the sea told the children a story.", "Why did you not call me last night?"]
ANSWERS = """(groups) => Object.fromEntries(groups.flat().filter((step) => step.dataset.asks).map((step) => {
  step.querySelector(".guess-show").click();
  const options = [...step.querySelectorAll(".guess-option")];
  const right = options.findIndex((node) => node.dataset.mark === "right");
  return [step.dataset.step, {right, options: options.map((node) => node.textContent),
    marks: options.filter((node) => node.dataset.mark === "right").length}];
}))"""


def test_no_question_has_nearly_always_the_same_answer(open_real: Open, embedded: Translator) -> None:
    """A hundred rows: neither one place among the answers nor one answer is right in more than seven of ten. Nor is, where the answers are
    numbers, the smallest of them."""
    page = open_real("steps")
    draw = np.random.default_rng(5)
    rights: dict[str, list[object]] = {}
    smallest = []
    for text, target in [(text, target) for text in SENTENCES for target in ("fra", "cmn")]:
        translation = embedded.translate(text, target)
        for _ in range(13):
            kind = str(draw.choice(["encoder_self", "decoder_self", "cross"]))
            row = int(draw.integers(len(translation.src_ids if kind == "encoder_self" else translation.tgt_ids)))
            stack = embedded.config.encoder if kind == "encoder_self" else embedded.config.decoder
            walk = embedded.walk(translation, kind, int(draw.integers(stack.num_layers)), int(draw.integers(stack.num_heads)), row)
            for name, found in built(page, payload(embedded.config, walk), ANSWERS).items():
                assert found["marks"] == 1 and len(set(found["options"])) == len(found["options"]), found
                rights.setdefault(name, []).append((found["right"], found["options"][found["right"]]))
                if name == "position":
                    sizes = [abs(parsed(option.rpartition(" ")[2])) for option in found["options"]]
                    smallest.append(sizes[found["right"]] == min(sizes))
    assert set(rights) == {"position", "qkv", "scores", "mask", "softmax", "hidden", "logits"}
    for name, found in rights.items():
        places, answers = zip(*found, strict=True)
        assert len(found) >= {"position": 100, "softmax": 90}.get(name, 20)
        shares = [max(Counter(each).values()) / len(found) for each in (places, answers)]
        assert max(shares) <= 0.7, (name, shares)
    assert np.mean(smallest) <= 0.7


def test_of_a_causal_row_only_what_it_may_see_is_asked_for(open_real: Open, embedded: Translator, run: Run) -> None:
    page = open_real("steps", search="&kind=decoder_self&layer=2&head=5&step=1&guess=1")
    wait_for_walk(page, row=1, kind="decoder_self")
    expect(step(page, "qkv").locator(".guess-ask")).to_have_text(EN["steps.ask.fits.seen"])
    columns, _ = table(page, "scores")
    assert set(options(page, "qkv")) == set(columns[:2])
    products = embedded.walk(run.translation, "decoder_self", 2, 5, 1).attention.products
    step(page, "qkv").get_by_role("button", name=columns[int(np.argmax(products[:2]))], exact=True).click()
    expect(step(page, "qkv").locator(".guess-answer")).to_contain_text(EN["steps.guess.right"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_what_is_blank_beside_a_part_taken_away_says_why(open_real: Open, lang: str) -> None:
    words = LANGUAGES[lang]["steps.compare.covered"]
    page = open_real("steps", lang=lang, search="&kind=cross&layer=1&head=4&step=1&without=score_scale&guess=1&depth=numbers")
    wait_for_walk(page, row=1, without="score_scale")
    box = page.locator(".compare")
    expect(box.get_by_text(words)).to_be_visible()
    assert box.locator(".covered").count() == 3
    for name in ("qkv", "softmax", "logits"):
        expect(box.get_by_text(words)).to_be_visible()
        step(page, name).locator(".guess-show").click()
    expect(box.locator(".covered")).to_have_count(0)
    expect(box.get_by_text(words)).to_be_hidden()


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
