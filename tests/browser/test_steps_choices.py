"""Step by step in a browser: which row, how deep, what is taken away, what is asked; and what it does without numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import app
from model.tokenizer import Tokenizer
from model.translator import Translator
from tests import tiny
from tests.browser.conftest import NARROW, Open, serve
from tests.browser.steps_view import click_bar, parsed, step, table, wait_for_walk
from viz.runs import Run
from viz.text import LANGUAGES

EN, ZH = LANGUAGES["en"], LANGUAGES["zh"]
SMALLEST = """() => Math.min(...[...document.querySelectorAll("#steps-area *")]
  .filter((node) => node.offsetParent && [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim()))
  .map((node) => parseFloat(getComputedStyle(node).fontSize)))"""


@pytest.fixture(scope="module")
def run() -> Run:
    return app.recorded_run()


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def entropy(weights: np.ndarray) -> float:
    seen = weights[weights > 0].astype(np.float64)
    return float(-(seen * np.log(seen)).sum())


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores.astype(np.float64) - scores.max())
    return powers / powers.sum()


def test_row_depth_and_what_is_taken_away_are_in_the_address(open_real: Open) -> None:
    page = open_real("steps", search="&kind=cross&layer=0&head=2")
    wait_for_walk(page, row=2)  # the middle one of five, as long as nobody has chosen
    assert not {"step", "depth", "without", "guess"} & set(query(page))
    page.evaluate("atlas.focus.pin(1, null)")
    wait_for_walk(page, row=1)
    page.locator(".steps-words label").nth(3).click()
    wait_for_walk(page, row=3)
    page.locator('[data-steps="depth"] label', has_text=EN["steps.depth.formula"]).click()
    expect(page.locator("[data-step=qkv] pre")).to_be_visible()
    page.locator('[data-steps="without"] label').nth(4).click()
    wait_for_walk(page, without="positions")
    page.wait_for_function("location.search.includes('without=positions')")
    found = query(page)
    assert (found["step"], found["depth"], found["without"]) == ("3", "formula", "positions")
    page.reload()
    page.wait_for_selector("#map .main-svg", state="attached")
    wait_for_walk(page, row=3, without="positions", kind="cross", layer=0, head=2)
    expect(page.locator("[data-step=qkv] pre")).to_be_visible()
    expect(page.locator(".steps-words input").nth(3)).to_be_checked()


def test_all_heads_together_are_shown_by_one_and_the_page_says_so(open_real: Open) -> None:
    page = open_real("steps", search="&kind=encoder_self&layer=2&head=mean")
    wait_for_walk(page, kind="encoder_self", layer=2, head=0)
    expect(page.locator('[data-steps="heads-note"]')).to_have_text(EN["steps.head.one"].format(head=0))
    page.locator('[data-steps="heads"] label').nth(6).click()
    wait_for_walk(page, head=6)
    expect(page.locator('[data-steps="heads-note"]')).to_be_empty()


def test_without_the_division_before_stands_beside_after(open_real: Open, embedded: Translator, run: Run) -> None:
    place = ("cross", 2, 1, 2)
    page = open_real("steps", search="&kind=cross&layer=2&head=1&step=2&depth=numbers&without=score_scale")
    wait_for_walk(page, without="score_scale", layer=2)
    walks = embedded.walk(run.translation, *place), embedded.without("score_scale").walk(run.translation, *place)
    rows = page.locator(".compare tbody tr")
    for at, walk in enumerate(walks):
        found = [parsed(text) for text in rows.nth(at).locator("td span").all_inner_texts()]
        np.testing.assert_allclose(found, walk.attention.weights, atol=6e-5)
    np.testing.assert_allclose(walks[1].attention.weights, softmax(walks[1].attention.products), atol=1e-5)
    spread = page.locator(".compare-fact").nth(1)
    assert parsed(spread.locator("span").inner_text()) == pytest.approx(entropy(walks[0].attention.weights), abs=0.006)
    assert parsed(spread.locator("b").inner_text()) == pytest.approx(entropy(walks[1].attention.weights), abs=0.006)
    texts = page.locator(".compare-text").all_inner_texts()
    assert texts == [run.translation.text, embedded.without("score_scale").translate("I am a student.", run.request.target).text]
    stands = EN["steps.compare.changed" if texts[0] != texts[1] else "steps.compare.same"]
    expect(page.locator(".compare")).to_contain_text(stands)
    both = step(page, "mix").locator('[data-strip="head_output"]')
    expect(both).to_have_count(2)
    expect(both.nth(1).locator(".strip-name")).to_contain_text(EN["steps.without.score_scale.short"])
    page.locator('[data-steps="without"] label').first.click()
    wait_for_walk(page, without="")
    expect(page.locator(".compare")).to_have_count(0)


def test_questions_are_answered_from_the_numbers(open_real: Open, embedded: Translator, run: Run) -> None:
    page = open_real("steps", search="&kind=cross&layer=1&head=4&step=1&guess=1")
    wait_for_walk(page, row=1, layer=1, head=4)
    walk = embedded.walk(run.translation, "cross", 1, 4, 1)
    attention = walk.attention

    def options(name: str) -> list[str]:
        return [text.strip() for text in step(page, name).locator(".guess-option").all_inner_texts()]

    def answer(name: str, option: str) -> None:
        step(page, name).locator(".guess-option").nth(options(name).index(option)).click()

    keys, _ = table(page, "scores")
    best = keys[int(np.argmax(attention.products))]
    answer("qkv", best)
    expect(step(page, "qkv").locator(".guess-answer")).to_contain_text(EN["steps.guess.right"])

    covered = step(page, "scores").locator(".key-table")
    expect(covered).to_be_hidden()
    others = np.arange(len(keys)) != np.argmax(attention.products)  # the one that fits best is not told
    j = int(np.argmax(np.where(others, np.abs(attention.products), -1)))
    expect(step(page, "scores").locator(".guess-ask")).to_contain_text(f"“{keys[j]}”")
    wanted = f"{attention.products[j] / np.sqrt(len(attention.q)):.2f}".replace("-", "−")
    wrong = next(option for option in options("scores") if option != wanted)
    answer("scores", wrong)
    expect(step(page, "scores").locator(".guess-answer")).to_contain_text(EN["steps.guess.wrong"])
    expect(step(page, "scores").locator("[data-mark=right]")).to_have_text(wanted)
    expect(covered).to_be_visible()

    now, then = (int((weights >= 0.01).sum()) for weights in (attention.weights, softmax(attention.products)))
    assert now > then
    expect(step(page, "softmax").locator(".guess-ask")).to_have_text(EN["steps.ask.softmax"].format(now=now))
    assert options("softmax") == ["1", "2", "3", EN["steps.ask.softmax.more"].format(count=4)]
    answer("softmax", options("softmax")[min(then, 4) - 1])
    expect(step(page, "softmax").locator(".guess-answer")).to_contain_text(EN["steps.guess.right"])

    said = {text: re.fullmatch(r"dimension (\d+): (−?[\d.]+)", text) for text in options("position")}
    dimensions = {text: int(found[1]) for text, found in said.items()}
    assert len(set(dimensions.values())) == 4
    for text, at in dimensions.items():
        assert parsed(said[text][2]) == pytest.approx(float(walk.scaled[at]), abs=0.006)
    (turned,) = [text for text, at in dimensions.items() if walk.scaled[at] * (walk.scaled[at] + walk.encoding[at]) < 0]
    answer("position", next(text for text in dimensions if text != turned))
    expect(step(page, "position").locator(".guess-answer")).to_contain_text(EN["steps.guess.wrong"])
    expect(step(page, "position").locator("[data-mark=right]")).to_have_text(turned)
    at = dimensions[turned]
    numbers = [f"{values[at]:.2f}" for values in (walk.scaled, walk.encoding, walk.total)]
    added = f"({numbers[1]})" if walk.encoding[at] < 0 else numbers[1]
    expect(step(page, "position").locator(".guess-answer")).to_contain_text(f"{numbers[0]} + {added} = {numbers[2]}".replace("-", "−"))

    share = float((walk.active > 0).mean())
    band = ("few", "some", "half", "most")[int(np.searchsorted([0.1, 0.3, 0.6], share, side="right"))]
    answer("hidden", EN[f"steps.ask.hidden.{band}"])
    expect(step(page, "hidden").locator(".guess-answer")).to_contain_text(EN["steps.guess.right"])
    answer("logits", walk.top[0].token.replace("▁", ""))
    expect(step(page, "logits").locator(".guess-answer")).to_contain_text(EN["steps.guess.right"])
    page.locator('[data-steps="guess"]').uncheck()
    expect(step(page, "scores").locator(".guess-start")).to_be_visible()


def test_the_mask_question_counts_what_a_row_may_see(open_real: Open) -> None:
    page = open_real("steps", lang="zh", search="&kind=decoder_self&layer=0&head=0&step=3&guess=1")
    wait_for_walk(page, row=3, kind="decoder_self")
    step(page, "mask").locator(".guess-option", has_text="4").click()
    expect(step(page, "mask").locator(".guess-answer")).to_contain_text(ZH["steps.guess.right"])


def test_another_sentence_replaces_the_walk(open_real: Open) -> None:
    page = open_real("steps", search="&depth=numbers")
    wait_for_walk(page)
    page.locator("#tab-translate-button").click()
    page.locator("#sentence textarea").fill("I love you.")
    page.wait_for_function("atlas.maps.current().request.text === 'I love you.'")
    assert page.evaluate("atlas.steps.current().request.text") == "I am a student."  # not asked for while the tab is closed
    page.locator("#tab-steps-button").click()
    wait_for_walk(page)
    assert page.evaluate("atlas.steps.current().request.text") == "I love you."
    assert table(page, "softmax")[0][:4] == ["⟨→ fra⟩", "I", "love", "you"]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_on_a_phone_nothing_leaves_the_page_and_all_can_be_read(open_real: Open, lang: str) -> None:
    page = open_real("steps", lang=lang, size=NARROW, theme="dark", search="&depth=formula&without=embedding_scale&guess=1")
    wait_for_walk(page, without="embedding_scale")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    assert page.evaluate(SMALLEST) >= 12
    unnamed = page.evaluate(
        "[...document.querySelectorAll('.walk [role=slider], .walk button, .walk table')]"
        ".filter((node) => !(node.getAttribute('aria-label') || node.textContent.trim())).length"
    )
    assert unnamed == 0


def test_without_a_model_the_tab_says_why(open_page: Open) -> None:
    page = open_page(picture=False)
    page.locator("#tab-steps-button").click()
    expect(page.locator("#steps-notice [role=alert]")).to_have_text(EN["error.no_model_steps"])
    expect(page.locator(".walk-first")).to_be_hidden()


@pytest.fixture(scope="module")
def halves(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """Post-norm, sines before cosines, embeddings as they are, a decoder of other sizes than the encoder."""
    tokenizer = Tokenizer(tiny.train_tokenizer(Path(tmp_path_factory.mktemp("tokenizer")) / "tokenizer.model"))
    config = tiny.tiny_config(
        tokenizer.vocab_size,
        num_decoder_layers=3,
        num_decoder_heads=4,
        decoder_d_ff=24,
        position_layout="halves",
        norm="post",
        activation="silu",
        scale_embedding=False,
    )
    return Translator(tiny.taught_model(config, tokenizer, steps=120), tokenizer, "tiny")


@pytest.fixture(scope="module")
def halves_site(halves: Translator) -> Iterator[str]:
    demo = app.build_app(halves)
    yield serve(demo)
    demo.close()


def test_a_post_norm_model_is_walked_in_its_own_order(open_page: Open, halves: Translator, halves_site: str) -> None:
    search = "&text=I+am+a+student.&kind=cross&layer=2&head=3&step=1&depth=numbers"
    page = open_page(url=halves_site, picture=False, search=search)
    page.locator("#tab-steps-button").click()
    wait_for_walk(page, kind="cross", layer=2, head=3, row=1)
    names = page.locator(".walk .step").evaluate_all("(steps) => steps.map((step) => step.dataset.step)")
    attended = ["qkv", "scores", "mask", "softmax", "mix", "join", "add"]
    assert names == ["token", "embedding", "position", "stream", "other", "add", *attended, "hidden", "output", "add", "later", "logits"]
    walk = halves.walk(halves.translate("I am a student.", "fra"), "cross", 2, 3, 1)
    np.testing.assert_allclose(table(page, "softmax")[1]["weight"], walk.attention.weights, atol=6e-5)
    position = step(page, "position").locator('[data-strip="encoding"] .strip-frame')
    position.focus()
    for _ in range(10):
        position.press("ArrowRight")
    position.press("Enter")
    expect(step(page, "position").locator(".sum-line")).to_contain_text("cos(1 / 10000^0.1250)")  # 9 is the cosine of pair 1 of 8
    said = parsed(step(page, "position").locator(".sum-line").inner_text().rpartition("= ")[2])
    assert said == pytest.approx(np.cos(10000**-0.125), abs=1e-4)
    click_bar(step(page, "later").locator('[data-strip="ended"] .strip-frame'), 5)
    value = f"{walk.final[5]:.4f}".replace("-", "−")
    expect(step(page, "later").locator(".sum-line")).to_have_text(EN["steps.sum.ended"].format(value=value, last=2))
    expect(page.locator(".step-check.fine")).to_be_visible()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_factor_that_the_model_never_had_cannot_be_taken_away(open_page: Open, halves_site: str, lang: str) -> None:
    search = "&text=I+am+a+student.&kind=cross&layer=1&head=3&step=1&depth=numbers&without=embedding_scale"
    page = open_page(url=halves_site, picture=False, lang=lang, search=search)
    page.locator("#tab-steps-button").click()
    wait_for_walk(page, kind="cross", row=1, without="embedding_scale")
    reason = LANGUAGES[lang]["steps.without.no_factor"]
    expect(page.locator(".compare .step-story")).to_have_text(reason)
    for gone in (".compare table", ".compare-text", ".strip.after", "[data-step=softmax] .key-table >> nth=1"):
        expect(page.locator(gone)).to_have_count(0)
    expect(page.locator('[data-steps="without"] label').nth(2)).to_have_attribute("title", reason)
    expect(step(page, "embedding")).to_contain_text(LANGUAGES[lang]["steps.embedding.plain"][-12:])
    one = LANGUAGES[lang]["steps.stream.one"].format(layer=1)
    expect(step(page, "stream").locator(".step-story")).to_have_text(one)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_corner_of_the_compared_rows_has_their_ground(open_real: Open, theme: str) -> None:
    page = open_real("steps", theme=theme, search="&kind=cross&layer=2&head=1&step=2&without=score_scale")
    wait_for_walk(page, without="score_scale")
    grounds = page.evaluate(
        """[".compare", ".compare thead td", ".compare tbody th", "[data-step=scores] thead td", "body"]
          .map((each) => getComputedStyle(document.querySelector(each)).backgroundColor)"""
    )
    assert grounds[0] == grounds[1] == grounds[2] and grounds[3] != grounds[0]
