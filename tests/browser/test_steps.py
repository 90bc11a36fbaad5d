"""Step by step in a browser, on the embedded model: numbers, bars and arithmetic against the model's own."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import app
from model.analysis.walkthrough import Walk
from model.translator import Translator
from tests.browser.conftest import Open
from tests.browser.steps_view import bars, click_bar, parsed, step, strip_values, sums, table, wait_for_walk
from viz.runs import Run
from viz.text import LANGUAGES

EN, ZH = LANGUAGES["en"], LANGUAGES["zh"]
LAYER, HEAD, ROW = 1, 3, 3
CROSS = f"&kind=cross&layer={LAYER}&head={HEAD}&step={ROW}"


@pytest.fixture(scope="module")
def run() -> Run:
    return app.recorded_run()


@pytest.fixture(scope="module")
def walk(embedded: Translator, run: Run) -> Walk:
    return embedded.walk(run.translation, "cross", LAYER, HEAD, ROW)


@pytest.fixture
def cross(open_real: Open) -> Page:
    page = open_real("steps", search=CROSS + "&depth=numbers")
    wait_for_walk(page, kind="cross", layer=LAYER, head=HEAD, row=ROW)
    return page


def test_the_tab_says_what_it_is_about(open_real) -> None:
    expect(open_real("steps").locator("#steps-head h2")).to_have_text("How is one row computed?")
    expect(open_real("machine", lang="zh").locator("#machine-head h2")).to_have_text("它是怎样搭成的？")


def test_tables_strips_and_sums_are_the_models(cross: Page, embedded: Translator, run: Run, walk: Walk) -> None:
    """Five rows and seven keys: a table turned, shifted or of another row would be seen."""
    q, k, attention = walk.attention.q, walk.attention.k, run.trace.cross_attention[LAYER, HEAD, ROW]
    assert len(run.trace.tgt_in_tokens) != len(run.trace.src_tokens) == len(attention)
    columns, scores = table(cross, "scores")
    assert columns == ["⟨→ fra⟩", "I", "am", "a", "student", ".", "⟨end⟩"]
    np.testing.assert_allclose(scores["product"], k @ q, atol=2e-4)
    np.testing.assert_allclose(scores["score"], k @ q / np.sqrt(len(q)), atol=1e-4)
    _, masks = table(cross, "mask")
    assert (masks["mask"] == 0).all()
    _, weights = table(cross, "softmax")
    np.testing.assert_allclose(weights["weight"], attention, atol=6e-5)
    powers = np.exp(k @ q / np.sqrt(len(q)) - (k @ q).max() / np.sqrt(len(q)))
    np.testing.assert_allclose(weights["power"], powers, atol=6e-5)
    tints = cross.locator("[data-step=softmax] .row-weight td").evaluate_all(
        "(cells) => cells.map((cell) => +cell.style.getPropertyValue('--t'))"
    )
    np.testing.assert_allclose(tints, attention, atol=6e-5)

    # strips: what the keyboard reads out, and what is painted
    query = step(cross, "qkv").locator(".strip-frame").first
    np.testing.assert_allclose(strip_values(query), q, atol=6e-5)
    keys, values = (step(cross, "qkv").locator(".key-strips").nth(at).locator(".strip-frame") for at in (0, 1))
    np.testing.assert_allclose(strip_values(keys.nth(4)), k[4], atol=6e-5)
    np.testing.assert_allclose(strip_values(values.nth(1)), walk.attention.v[1], atol=6e-5)
    painted = bars(query)
    seen = np.abs(q) > 0.06 * np.abs(q).max()
    assert seen.sum() > 20
    assert ((painted[:, 0] > painted[:, 1]) == (q > 0))[seen].all()
    tallest = painted.max(axis=1)
    assert tallest.argmax() == np.abs(q).argmax() and np.corrcoef(tallest, np.abs(q))[0, 1] > 0.99

    # arithmetic: of a key, of a mixed value, and of maps whose weights the server has
    cross.locator("[data-step=scores] .row-product button").nth(2).click()
    ((worked_out, said),) = sums(step(cross, "scores"))
    assert said == pytest.approx(float(k[2] @ q), abs=1e-4) and worked_out == pytest.approx(said, abs=0.05)
    mixed = step(cross, "mix").locator('[data-strip="head_output"] .strip-frame')
    click_bar(mixed, 11)
    ((worked_out, said),) = sums(step(cross, "mix"))
    assert said == pytest.approx(float(attention @ walk.attention.v[:, 11]), abs=1e-4) and worked_out == pytest.approx(said, abs=0.02)
    hidden = step(cross, "hidden").locator('[data-strip="hidden"] .strip-frame')
    hidden.focus()
    for _ in range(18):
        hidden.press("ArrowRight")
    at = int(hidden.get_attribute("aria-valuenow"))
    hidden.press("Enter")
    expect(step(cross, "hidden").locator(".sum-name")).to_contain_text(f"dimension {at}")
    expect(step(cross, "hidden").locator(".sum .strip-frame")).to_have_attribute("data-size", str(embedded.config.d_model))
    ((worked_out, said),) = sums(step(cross, "hidden"))
    assert said == pytest.approx(float(walk.hidden[at]), abs=1e-3) and worked_out == pytest.approx(said, abs=0.05)
    level = step(cross, "norm", 1)
    click_bar(level.locator('[data-strip="normed"] .strip-frame'), 40)
    expect(level.locator(".sum-line")).to_have_count(2)
    said = parsed(level.locator(".sum-line").nth(1).inner_text().rpartition("= ")[2])
    assert said == pytest.approx(float(walk.sublayers[1].normed[40]), abs=1e-3)

    # what is weighted, copied from the heads, and levelled by the closing norm
    click_bar(step(cross, "mix").locator(".key-strip.weighted .strip-frame").nth(2), 5)
    expect(step(cross, "mix").locator(".sum-name")).to_contain_text(EN["steps.name.weighted"])
    ((worked_out, said),) = sums(step(cross, "mix"))
    assert said == pytest.approx(float(attention[2] * walk.attention.v[2, 5]), abs=1e-4) and worked_out == pytest.approx(said, abs=2e-3)
    at, size = 77, len(q)
    joined = step(cross, "join").locator('[data-strip="joined"] .strip-frame')
    joined.scroll_into_view_if_needed()
    click_bar(joined, at)
    said = f"{walk.attention.joined[at]:.4f}".replace("-", "−")
    expect(step(cross, "join").locator(".sum-line")).to_have_text(
        EN["steps.sum.joined"].format(value=said, head=at // size, index=at % size)
    )
    click_bar(step(cross, "later").locator('[data-strip="final"] .strip-frame'), 40)
    expect(step(cross, "later").locator(".sum-line")).to_have_count(2)
    level, last = (line.inner_text() for line in step(cross, "later").locator(".sum-line").all())
    shown = parsed(level.rpartition("= ")[2].partition(";")[0])
    closing = walk.closing
    assert shown == pytest.approx((closing.before[40] - closing.mean) / np.sqrt(closing.variance + 1e-5), abs=2e-4)
    assert parsed(last.rpartition("= ")[2]) == pytest.approx(float(walk.final[40]), abs=1e-3)
    silent = cross.locator(".walk .strip-frame:not([data-asks])")
    assert silent.count() == silent.and_(cross.locator(".sum .strip-frame")).count()  # every bar says how it was made

    # the next token, and the check of it all
    first = step(cross, "logits").locator(".top-line:not(.top-head)").first
    assert walk.top[0].token.strip("▁") == first.locator(".top-word").inner_text()
    assert float(first.locator(".top-probability").get_attribute("title")) == pytest.approx(walk.top[0].probability, abs=1e-4)
    expect(cross.locator(".step-check.fine")).to_be_visible()


def test_a_wrong_number_does_not_pass_the_check(cross: Page) -> None:
    """The page works the weights out once more by itself: two that have changed places are seen."""
    expect(cross.locator(".step-check.fine h3")).to_have_text(EN["steps.check.fine"])
    cross.evaluate(
        """() => {
          const now = atlas.steps.current();
          const packed = (array) => ({shape: array.shape, data: btoa(String.fromCharCode(...new Uint8Array(array.slice().buffer)))});
          const pack = (value) => value instanceof Float32Array ? packed(value)
            : Array.isArray(value) ? value.map(pack)
            : value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(([k, v]) => [k, pack(v)])) : value;
          const sent = pack(now);
          const weights = now.before.attention.weights.slice();
          [weights[1], weights[2]] = [weights[2], weights[1] + 0.001];
          weights.shape = now.before.attention.weights.shape;
          sent.before.attention.weights = packed(weights);
          atlas.stepsValue({value: JSON.stringify(sent)}, () => {});
        }"""
    )
    expect(cross.locator(".step-check.off h3")).to_have_text(EN["steps.check.off"])


def test_a_causal_row_in_chinese(open_real: Open, embedded: Translator, run: Run) -> None:
    page = open_real("steps", lang="zh", search="&kind=decoder_self&layer=2&head=5&step=1&depth=formula")
    wait_for_walk(page, kind="decoder_self", layer=2, head=5, row=1, language="zh")
    weights = run.trace.decoder_self_attention[2, 5, 1]
    columns, masks = table(page, "mask")
    assert columns == ["⟨开始⟩", "Je", "suis", "étudiant", "."]
    np.testing.assert_array_equal(np.isneginf(masks["mask"]), np.arange(len(weights)) > 1)
    np.testing.assert_array_equal(np.isneginf(masks["masked"]), np.arange(len(weights)) > 1)
    _, found = table(page, "softmax")
    np.testing.assert_allclose(found["weight"], weights, atol=6e-5)
    hidden = page.locator("[data-step=softmax] .row-weight td.off button")
    assert hidden.count() == len(weights) - 2
    for cell in hidden.all():  # named as hidden, not as a weight that happens to be zero
        assert "被掩码遮住" in cell.get_attribute("aria-label") and "0.0000" not in cell.get_attribute("aria-label")
    titles = page.locator(".walk h3").all_inner_texts()
    assert any(ZH["steps.other.cross.title"] in title for title in titles)
    assert not any(ZH["steps.other.decoder_self.title"] in title for title in titles)
    expect(page.locator("[data-step=scores] code")).to_contain_text("head_dim ** 0.5")
    text = page.locator("#steps-area").inner_text()
    assert "steps." not in text and "undefined" not in text and "NaN" not in text and not re.search(r"\{[a-z]", text)


def test_the_encoder_ends_in_a_row_of_the_memory(open_real: Open, embedded: Translator, run: Run) -> None:
    page = open_real("steps", search="&kind=encoder_self&layer=4&head=0&step=4")
    wait_for_walk(page, kind="encoder_self", layer=4, row=4)
    walk = embedded.walk(run.translation, "encoder_self", 4, 0, 4)
    lengths = [float(text) for text in page.locator(".stream-item b").all_inner_texts()]
    np.testing.assert_allclose(lengths, walk.stream_norms, atol=0.06)
    expect(page.locator(".stream-item.chosen .stream-name")).to_have_text("L4")
    expect(step(page, "token")).to_contain_text(f"“student” is number {walk.token_id}")
    expect(page.locator("[data-step=logits]")).to_have_count(0)
    page.get_by_role("button", name=EN["steps.memory.open"]).click()
    wait_for_walk(page, kind="cross")
    expect(page.locator("[data-step=logits]")).to_be_visible()
