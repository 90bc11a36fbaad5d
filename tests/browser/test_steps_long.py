"""Step by step in a browser: long sentences, sums that can be added up again, what stands at the top, links to rows that are not there."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

import app
from model.translator import Translator
from tests.browser.conftest import NARROW, Open
from tests.browser.steps_view import parsed, step, sums, wait_for_walk
from viz.runs import Run
from viz.text import LANGUAGES

EN, ZH = LANGUAGES["en"], LANGUAGES["zh"]
LONG = "The old man who lived in the small house by the sea told the children a long story about a ship and its brave captain ."
IN_VIEW = """(node) => {
  const [inner, outer] = [node.getBoundingClientRect(), node.closest(".key-frame, .steps-words").getBoundingClientRect()];
  return inner.left >= outer.left - 1 && inner.right <= outer.right + 1 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
}"""
ON_TOP = """(node) => {
  node.closest(".key-frame").scrollIntoView({block: "center"});
  const box = node.getBoundingClientRect();
  const frame = node.closest(".key-frame").getBoundingClientRect();
  return Math.abs(box.left - frame.left) < 2 && document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2) === node;
}"""


@pytest.fixture(scope="module")
def run() -> Run:
    return app.recorded_run()


def long_row(embedded: Translator) -> tuple[int, int]:
    """A row and its heaviest key, far to the right."""
    maps = embedded.trace(embedded.translate(LONG, "fra")).cross_attention[1, 2]
    row = int(np.argmax(maps[:, :-1].argmax(axis=1)))
    return row, int(maps[row].argmax())


def test_of_many_keys_the_largest_are_added_up_and_in_view(open_real: Open, embedded: Translator) -> None:
    row, best = long_row(embedded)
    search = f"&text={LONG.replace(' ', '+')}&kind=cross&layer=1&head=2&step={row}&depth=numbers"
    page = open_real("steps", search=search, size=NARROW)
    page.wait_for_function("(text) => atlas.steps.current()?.request.text === text", arg=LONG)
    wait_for_walk(page, row=row)
    walk = embedded.walk(embedded.translate(LONG, "fra"), "cross", 1, 2, row)
    weights = walk.attention.weights
    assert len(weights) > 20 and best == weights.argmax() > 12
    total, share = sums(step(page, "softmax"))
    powers = np.exp(walk.attention.scores - walk.attention.scores.max())
    assert total[1] == pytest.approx(float(powers.sum()), abs=1e-3) and total[0] == pytest.approx(total[1], abs=2e-3)
    line = step(page, "softmax").locator(".sum-line").first.inner_text()
    assert f"({len(weights) - 12} more: " in line and "1.0000" in line  # the largest power is e^0
    assert share[1] == pytest.approx(float(weights.max()), abs=1e-4)

    cell = step(page, "softmax").locator(f'.row-weight button[data-column="{best}"]')
    page.wait_for_function("document.querySelector('[data-step=softmax] .key-frame').dataset.settled")
    assert cell.evaluate(IN_VIEW)
    frame = step(page, "softmax").locator(".key-frame").first
    assert "more-left" in frame.get_attribute("class")
    assert frame.locator("thead td").first.evaluate(ON_TOP)  # names of keys pass beneath the corner
    frame.evaluate("(node) => (node.scrollLeft = 0)")
    page.wait_for_function("!document.querySelector('[data-step=softmax] .key-frame').classList.contains('more-left')")
    assert "more-right" in frame.get_attribute("class")

    words = page.locator(".steps-words")
    assert words.evaluate("(node) => node.scrollHeight > node.clientHeight + 40 && node.clientHeight <= 200")
    assert page.locator(".steps-words label").nth(row).evaluate(IN_VIEW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]


def test_a_single_term_has_no_picture_of_its_terms(open_real: Open) -> None:
    page = open_real("steps", search="&kind=cross&layer=1&head=3&step=3&depth=numbers")
    wait_for_walk(page, row=3)
    page.evaluate("document.querySelector('[data-step=norm] [data-strip=normed] .strip-frame').focus()")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(step(page, "norm").locator(".sum-line")).to_have_count(2)
    expect(step(page, "norm").locator(".sum .strip-frame")).to_have_count(0)
    page.locator('[data-steps="depth"] label', has_text=EN["steps.depth.story"]).click()
    expect(page.locator(".walk-hint .shallow")).to_be_visible()
    expect(step(page, "scores").locator(".sum")).to_be_hidden()
    step(page, "scores").locator(".row-product button").nth(1).click()  # a number in Story opens its sum
    ((worked_out, said),) = sums(step(page, "scores"))
    assert worked_out == pytest.approx(said, abs=0.05)


def test_other_weights_can_be_traced_to_other_queries_and_keys(open_real: Open, embedded: Translator, run: Run) -> None:
    page = open_real("steps", search="&kind=cross&layer=2&head=1&step=2&depth=numbers&without=score_scale")
    wait_for_walk(page, without="score_scale")
    after = embedded.without("score_scale").walk(run.translation, "cross", 2, 1, 2).attention
    expect(page.locator(".compare")).to_contain_text(EN["steps.without.anew"])
    rows = step(page, "softmax").locator(".key-table").nth(1)
    found = [parsed(node.get_attribute("title")) for node in rows.locator(".row-product button").all()]
    np.testing.assert_allclose(found, after.products, atol=2e-3, rtol=1e-4)
    powers = np.exp(np.array(found) - max(found))
    np.testing.assert_allclose(powers / powers.sum(), after.weights, atol=1e-3)
    assert rows.locator(".row-score").count() == 0

    page.locator("#steps-controls [data-kinds] label").first.click()
    page.locator("#steps-controls [data-layers] label").first.click()
    wait_for_walk(page, kind="encoder_self", layer=0, without="score_scale")
    expect(page.locator(".compare")).to_contain_text(EN["steps.without.alike"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_encoder_has_no_mask_to_take_away(open_real: Open, lang: str) -> None:
    page = open_real("steps", lang=lang, search="&kind=encoder_self&layer=1&head=1&step=2&without=causal_mask")
    wait_for_walk(page, kind="encoder_self", without="causal_mask")
    expect(page.locator(".compare")).to_contain_text(LANGUAGES[lang]["steps.without.no_mask"])
    expect(page.locator(".compare table")).to_have_count(0)
    page.locator(".compare button").click()
    wait_for_walk(page, kind="decoder_self", without="causal_mask")
    expect(page.locator(".compare")).to_contain_text(LANGUAGES[lang]["steps.compare.mask"])
    before, after = page.locator(".compare-text").all_inner_texts()
    assert before == after


def test_the_sentence_stands_at_the_top_and_says_when_it_is_an_old_one(open_real: Open) -> None:
    page = open_real("steps", search="&kind=cross&layer=1&head=3&step=0")
    wait_for_walk(page)
    expect(page.locator(".walk")).to_contain_text("a list of 12,000 tokens")
    line = page.locator(".steps-sentence")
    assert line.locator("[dir]").all_inner_texts() == ["I am a student.", page.evaluate("atlas.result().text")]
    assert page.locator(".steps-words label").first.get_attribute("title").startswith("⟨start⟩ <s> → ")
    line.get_by_role("button", name=EN["steps.sentence.change"]).click()
    box = page.locator("#sentence textarea")
    expect(box).to_be_focused()
    box.fill("")
    page.wait_for_function("atlas.belongs() !== ''")
    page.locator("#tab-steps-button").click()
    expect(page.locator("[data-belongs]")).to_contain_text(EN["page.belongs"].format(text="I am a student."))
    expect(line.locator("[dir]").first).to_have_css("opacity", "0.45")


def test_a_row_that_there_is_not_is_named_and_left_out(open_real: Open) -> None:
    page = open_real("steps", search="&kind=cross&layer=1&head=3&step=99")
    wait_for_walk(page, row=2)
    expect(page.locator("[data-link-note]")).to_contain_text("99")
    page.wait_for_function("!location.search.includes('step=')")


def test_likely_tokens_that_read_the_same_show_their_space(open_real: Open) -> None:
    page = open_real("steps", search="&kind=cross&layer=1&head=3&step=3")
    wait_for_walk(page, row=3)
    words = page.evaluate(
        """() => {
          const now = atlas.steps.current();
          const [first, second, ...rest] = now.before.top;
          const like = (entry, raw) => ({...entry, label: {...entry.label, raw, text: "moi"}});
          const top = [like(first, "▁moi"), like(second, "moi"), ...rest];
          const walk = atlas.steps.walk({...now, before: {...now.before, top}}, () => {}, atlas.steps.asked(() => {}));
          const section = walk.groups.flatMap(({steps}) => steps).find((node) => node.dataset.step === "logits");
          return [...section.querySelectorAll(".top-word, .guess-option, .top .step-note")].map((node) => node.textContent);
        }"""
    )
    assert words.count("␣moi") == 2 and words.count("moi") == 2 and EN["steps.space"] in words
