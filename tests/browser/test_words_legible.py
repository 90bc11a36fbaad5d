"""The words of a map can be read: right-to-left lines, all scripts, hostile tokens, long sentences, tints."""

from __future__ import annotations

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import NARROW
from tests.browser.words_view import boxes, check_ribbons, choose, ribbons, trace_of
from tests.viz.fakes import Scripts
from viz.figures.colors import DARK, KIND_COLORS, LIGHT


def test_right_to_left_lines_run_right_to_left(open_words, scripts: Scripts) -> None:
    page = open_words(target="ara")
    weights = trace_of(scripts, "I am a student.", "ara").cross_attention[1].mean(axis=0)
    rows, columns = boxes(page, "rows"), boxes(page, "columns")
    assert "".join(box["text"] for box in rows[:3]).replace("\u2068", "").replace("\u2069", "") == "أناطالب"
    lefts = [box["left"] for box in rows]
    assert lefts == sorted(lefts, reverse=True) and [box["left"] for box in columns] == sorted(box["left"] for box in columns)
    assert page.locator(".words-line.rows").get_attribute("lang") == "ar"
    choose(page, head="mean", layer=1)
    check_ribbons(page, weights)
    # the ribbons of a word leave it in the order of the words on the other line, so they don't cross at its edge
    ends = [end for _, (_, _, end) in sorted((column, ends) for (row, column), ends in ribbons(page).items() if row == 1)]
    assert ends == sorted(ends)
    starts = [start for _, (_, start, _) in sorted((row, ends) for (row, column), ends in ribbons(page).items() if column == 2)]
    assert starts == sorted(starts, reverse=True)
    page.locator(".words-line.rows .token").first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("atlas.focus.get().row") == 1
    page.keyboard.press("ArrowRight")
    assert page.evaluate("atlas.focus.get().row") == 0


@pytest.mark.parametrize(
    ("target", "tokens"), [("jpn", ["␣", "私", "は", "学生", "です", "。"]), ("hin", ["मैं", "एक", "छात", "◌्र", "हूँ", "।"])]
)
def test_other_scripts(open_words, target: str, tokens: list[str]) -> None:
    page = open_words(target=target)
    assert [box["text"] for box in boxes(page, "rows")][:-1] == tokens
    assert page.locator(".words-line.rows").get_attribute("lang") == {"jpn": "ja", "hin": "hi"}[target]


def test_hostile_tokens_are_only_text(open_words) -> None:
    page = open_words("I love you.")
    texts = [box["text"] for box in boxes(page, "rows")]
    assert texts == ["<b>x</b>", "<img/src=x>", "&lt;", "👩‍👩‍👧", "⟨unknown⟩", "$y$", *(f"😀 {i}/4" for i in range(1, 5)), "⟨end⟩"]
    assert page.locator("#words-view img, #words-view b, #result img, #result b").count() == 0
    page.evaluate("atlas.focus.hover(1, null)")
    expect(page.locator(".words-said")).to_contain_text("<img/src=x> looks most at")
    choose(page, units="words")
    assert "😀" in [box["text"] for box in boxes(page, "rows")]


def test_a_long_sentence_scrolls_in_its_own_frame(open_words) -> None:
    text = " ".join(f"word{i}" for i in range(100))
    page = open_words(text, size=NARROW)
    state = "(() => [document.documentElement.scrollWidth, document.querySelectorAll('.words-ribbons .all path').length])()"
    width, drawn = page.evaluate(state)
    assert width <= NARROW[0] and 0 < drawn <= 240
    expect(page.locator(".words-said")).to_contain_text("strongest ribbons of")
    page.evaluate("atlas.focus.hover(80, null)")
    seen = page.evaluate(
        """() => {
          const [frame, word] = ['.words-frame', '.words-line.rows .token.chosen']
            .map((name) => document.querySelector(name).getBoundingClientRect());
          return frame.left <= word.left && word.right <= frame.right;
        }"""
    )
    assert seen
    page.locator(".words-line.columns .token").nth(0).focus()
    page.keyboard.press("End")
    assert page.evaluate("document.querySelector('.words-frame').scrollLeft") > 1000
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]


def _luminance(color: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (channel / 255 for channel in color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(color: str) -> tuple[int, ...]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_tinted_words_can_be_read(open_words, theme: str) -> None:
    """Contrast of at least 4.5:1 (WCAG 2.2, 1.4.3) at the deepest tint of every kind, as the browser computes it."""
    page = open_words(theme=theme)
    page_color = _rgb({"light": LIGHT, "dark": DARK}[theme].page)
    for kind, color in KIND_COLORS.items():
        choose(page, kind=kind, layer=0, head=0)
        page.evaluate("document.querySelectorAll('.words-line.columns .token').forEach((node) => node.style.setProperty('--t', '1'))")
        page.wait_for_timeout(300)  # the end of the change of colour
        seen = page.evaluate(
            """() => [...document.querySelectorAll('.words-line.columns .token-word')].map((node) => {
              const {color, backgroundColor} = getComputedStyle(node);
              return [color, backgroundColor];
            })"""
        )
        for ink, ground in seen:
            rgb = re.findall(r"[\d.]+", ground)
            scale = 255 if ground.startswith("color(") else 1
            alpha = float(rgb[3])
            assert 0.5 < alpha < 1
            base = [float(channel) * scale for channel in rgb[:3]]
            np.testing.assert_allclose(base, _rgb(color), atol=1.5)
            mixed = tuple(alpha * channel + (1 - alpha) * under for channel, under in zip(base, page_color, strict=True))
            inks = [float(channel) * (255 if ink.startswith("color(") else 1) for channel in re.findall(r"[\d.]+", ink)[:3]]
            high, low = sorted((_luminance(mixed), _luminance(tuple(inks))), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (kind, ink, ground)
