"""The Positions tab on the embedded model: sections, the table on both axes, similarity, clocks and M_k, counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from model.analysis.learned_positions import load_learned_table
from model.config import count_parameters
from model.translator import Translator
from tests.browser.conftest import NARROW, Open
from viz.text import say

TABLE = """(id) => { const t = document.querySelector(`#${id} .plot`)._fullData;
  const list = (values) => Array.from(values || []);
  return t.map(({x, y, z, name}) => ({name, x: list(x), y: list(y), z: list(z).map(list)})); }"""


def section(page: Page, name: str) -> None:
    """By the contents, as a visitor goes there."""
    page.locator(f"[data-section={name}]").click()
    expect(page.locator(f"#at-{name} h3").first).to_be_focused()


def traces(page: Page, plot: str) -> list[dict]:
    page.wait_for_selector(f"#{plot} .main-svg", state="attached")
    return page.evaluate(TABLE, plot)


def number(text: str) -> float:
    digits, _, power = text.partition("·10")  # 1.2·10⁻⁸
    raised = power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789"))
    return float(digits.replace("−", "-").replace(",", "")) * 10.0 ** int(raised or 0)


def cosine_sum(d_model: int, k: int) -> float:
    return math.fsum(math.cos(k / 10000 ** (2 * i / d_model)) for i in range(d_model // 2))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_sections_show_the_models_numbers(open_real: Open, embedded: Translator, lang: str) -> None:
    page = open_real("positions", lang=lang)
    config = embedded.config
    d_model, max_len = config.d_model, config.max_len
    table = embedded.positional_encoding(50)
    titles = page.locator(".contents button").all_inner_texts()
    assert titles[:5] == [say(lang, f"positions.{name}.title") for name in ("table", "waves", "wavelengths", "distance", "clocks")]
    np.testing.assert_allclose(traces(page, "positions-table")[0]["z"], table, atol=1e-6)

    # nothing is asked for before it comes near the screen
    assert page.locator("#schemes-plot .main-svg").count() == 0

    page.locator("[data-axis] label").nth(1).click()
    page.wait_for_function("document.querySelector('#positions-table .plot')._fullData[0].x?.length === 257")
    log = traces(page, "positions-table")[0]
    np.testing.assert_allclose(log["z"], table, atol=1e-6)
    np.testing.assert_allclose(log["x"], np.log2(1 + np.arange(d_model + 1)), atol=1e-9)
    page.wait_for_function("new URLSearchParams(location.search).get('axis') === 'log'")

    section(page, "wavelengths")
    sines, cosines = traces(page, "wavelengths-plot")
    assert [sines["name"], cosines["name"]] == [say(lang, "positions.sine"), say(lang, "positions.cosine")]
    np.testing.assert_allclose(sines["y"], [2 * math.pi * 10000 ** (2 * i / d_model) for i in range(d_model // 2)], rtol=1e-5)

    section(page, "distance")
    curve = traces(page, "distance-curve")[0]
    exact = [cosine_sum(d_model, abs(int(k))) / (d_model / 2) for k in curve["x"]]
    np.testing.assert_allclose(curve["y"], exact, atol=1e-5)
    first = next(k for k in range(1, 200) if cosine_sum(d_model, k) > cosine_sum(d_model, k - 1))
    expect(page.locator("#distance-bar output")).to_have_text(str(first))
    expect(page.locator("#distance-foot .caption").nth(1)).to_contain_text(str(first))
    rise = cosine_sum(d_model, first) - cosine_sum(d_model, first - 1)
    np.testing.assert_allclose(sum(traces(page, "distance-steps")[0]["y"]), rise, atol=1e-5)

    section(page, "schemes")
    lines = traces(page, "schemes-plot")
    assert len(lines) == config.num_heads + 5
    np.testing.assert_allclose(lines[0]["y"], -0.5 * np.arange(51))
    expect(page.locator("[data-number=learned]")).to_have_text(f"{max_len * d_model:,}")
    expect(page.locator("[data-number=rotary]")).to_have_text("0")
    expect(page.locator("#schemes-foot [data-said]")).to_contain_text(f"{load_learned_table().tokens:,}")

    section(page, "join")
    counts = page.locator("#join .way-number b")
    expect(counts).to_have_count(6)
    total = sum(count_parameters(config).values())
    assert number(counts.nth(0).inner_text()) == total
    assert number(counts.nth(2).inner_text()) == total + 2 * (2 * d_model * d_model + d_model)
    for name in ("wavelengths", "distance", "clocks", "schemes", "join"):
        expect(page.locator(f"#{name}-notice [role=alert]")).to_be_hidden()


def clock(page: Page, n: int) -> dict:
    """What the n-th clock shows: its numbers, and where its full hand points (sine to the right, cosine up)."""
    return page.evaluate(
        """(n) => { const clock = document.querySelectorAll('.clock')[n]; const spans = clock.querySelectorAll('span');
          const hand = clock.querySelector('.now'); const at = (name) => Number(hand.getAttribute(name));
          const then = clock.querySelector('.then'); const to = (name) => Number(then.getAttribute(name));
          return {dims: clock.querySelector('b').textContent, sine: spans[1].textContent, cosine: spans[2].textContent,
            tip: [(at('x2') - 50) / 40, (50 - at('y2')) / 40], then: [(to('x2') - 50) / 40, (50 - to('y2')) / 40]}; }""",
        n,
    )


def source_tokens(page: Page, embedded: Translator) -> tuple[str, ...]:
    request = page.evaluate("atlas.result().request")
    return embedded.translate(request["text"], request["target"], request["beam_size"]).src_tokens


def test_rows_named_by_tokens_take_the_slider_away(open_real: Open, embedded: Translator) -> None:
    page = open_real("positions")
    page.evaluate("document.getElementById('at-table').scrollIntoView()")
    slider, count = page.locator("#positions-length"), page.locator("#positions-table-bar [data-length]")
    expect(slider).to_be_enabled()
    expect(count).to_have_text("50")
    page.locator("#positions-table-bar [data-tokens]").check()
    expect(slider).to_be_disabled()
    expect(count).to_have_text(str(len(source_tokens(page, embedded))))
    drawn = "(n) => document.querySelector('#positions-table .plot')._fullData[0].z.length === Number(n)"
    page.wait_for_function(drawn, arg=count.inner_text())
    page.locator("#positions-table-bar [data-tokens]").uncheck()
    expect(slider).to_be_enabled()
    expect(count).to_have_text("50")


def test_clocks_turn_with_the_table_and_the_matrix_moves_them(open_real: Open, embedded: Translator) -> None:
    page = open_real("positions", search="&p=3&k=7")
    section(page, "clocks")
    page.wait_for_selector(".clock")
    d_model = embedded.config.d_model
    table = embedded.positional_encoding(embedded.config.max_len)

    def check(p: int, k: int) -> None:
        for n in (0, 1, 4):
            shown = clock(page, n)
            sine, cosine = (int(d) for d in shown["dims"].split(" · "))
            assert (number(shown["sine"].split()[-1]), number(shown["cosine"].split()[-1])) == pytest.approx(
                (table[p, sine], table[p, cosine]), abs=5.1e-4
            )
            assert shown["tip"] == pytest.approx([table[p, sine], table[p, cosine]], abs=1e-3)
            assert shown["then"] == pytest.approx([table[p + k, sine], table[p + k, cosine]], abs=1e-3)
        rows = page.locator("[data-turn] tr").all_inner_texts()
        dims = [int(d) for d in rows[0].split("\t")[1:9]]
        assert dims[0] == 0 and dims[1] == 1 and len(rows) == 9
        for row, d in zip(rows[1:], dims, strict=True):
            cells = row.split("\t")
            assert int(cells[0]) == d
            entries = np.array([number(cell) for cell in cells[1:9]])
            start, product, end, difference = (number(cell) for cell in cells[9:])
            pair = d // 2
            angle = k / 10000 ** (2 * pair / d_model)
            expected = [0.0] * 8
            mine, other = dims.index(d), dims.index(d ^ 1)
            expected[mine], expected[other] = math.cos(angle), (math.sin(angle) if d % 2 == 0 else -math.sin(angle))
            assert entries == pytest.approx(expected, abs=5.1e-3)
            assert (start, product, end) == pytest.approx((table[p, d], table[p + k, d], table[p + k, d]), abs=5.1e-5)
            assert 0 <= difference < 1e-6

    check(3, 7)
    page.locator("#clock-p").fill("11")
    check(11, 7)
    page.locator("#clock-k").focus()
    page.keyboard.press("ArrowRight")
    check(11, 8)
    page.wait_for_function("['p', 'k'].map((name) => new URLSearchParams(location.search).get(name)).join() === '11,8'")
    last = embedded.config.max_len - 1 - 8
    expect(page.locator("#clocks [data-said]")).to_contain_text(f"from 0 to {last} and all {d_model} dimensions")

    play = page.locator("#clocks [data-play]")
    play.click()
    expect(play).to_have_attribute("aria-pressed", "true")
    page.wait_for_function("atlas.state.positions.p >= 13")
    play.click()
    expect(play).to_have_attribute("aria-pressed", "false")
    check(page.evaluate("atlas.state.positions.p"), 8)


def test_the_address_restores_positions_and_says_what_it_cannot(open_real: Open) -> None:
    page = open_real("positions", search="&length=30&pairs=16,48&axis=log&named=1&distance=40&p=1&k=99")
    expect(page.locator("#positions-length")).to_have_value("30")
    page.wait_for_selector("#positions-table .main-svg")
    state = page.evaluate("atlas.state.positions")
    assert state == {"axis": "log", "tokens": True, "distance": 40, "p": 1, "k": 5, "length": 30, "pairs": [16, 48]}
    assert page.evaluate("atlas.leftOut.all()") == [["k", "99"]]
    section(page, "distance")
    page.wait_for_selector("#distance-curve .main-svg")
    expect(page.locator("#distance-bar output")).to_have_text("40")
    page.locator("#distance-bar [data-first]").click()
    page.wait_for_function("!new URLSearchParams(location.search).has('distance')")
    expect(page.locator("#distance-bar [data-first]")).to_be_hidden()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_positions_fit_a_narrow_page(open_real: Open, theme: str) -> None:
    page = open_real("positions", size=NARROW, theme=theme)
    for name in ("waves", "wavelengths", "distance", "clocks", "schemes", "join"):
        section(page, name)
    page.wait_for_selector("#join .way")
    page.wait_for_selector("#schemes-plot .main-svg", state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    small = page.evaluate(
        """() => [...document.querySelectorAll('#positions-sections *')].filter((node) => node.checkVisibility() &&
          [...node.childNodes].some((child) => child.nodeType === 3 && child.nodeValue.trim())
          && parseFloat(getComputedStyle(node).fontSize) < 12).map((node) => node.outerHTML.slice(0, 80))"""
    )
    assert small == []


def test_without_a_model_of_that_kind_the_tab_still_answers(open_page: Open) -> None:
    page = open_page()
    page.locator("#tab-positions-button").click()
    for name in ("wavelengths", "distance", "clocks", "schemes", "join"):
        section(page, name)
        expect(page.locator(f"#{name}-notice [role=alert]")).to_be_hidden()
    for name, drawn in (("clocks", ".clock"), ("join", "#join .way")):
        section(page, name)  # what was only passed by may not have been asked for
        page.wait_for_selector(drawn)
