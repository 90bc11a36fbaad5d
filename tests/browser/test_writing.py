"""Sentences in other scripts than Latin, which the embedded model reads byte by byte: whole words, the way they run, and pictures kept."""

from __future__ import annotations

import re
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open

HEBREW = "אני סטודנט (new) 2026."
ARABIC = "أنا طالب."
DIRECTIONS = "(all) => all.map((node) => [node.textContent, getComputedStyle(node).direction])"


def words(page: Page, line: str) -> list[str]:
    return [word.strip("\u2068\u2069") for word in page.locator(f".words-line.{line} .token-word").all_text_contents()]


def opened(open_real: Open, text: str, **more: str) -> Page:
    page = open_real(search="&" + urlencode({"text": text, "units": "words", "kind": "encoder_self", "beam": 1, **more}), picture=False)
    page.wait_for_function("(text) => atlas.maps.current()?.request.text === text", arg=text)
    page.wait_for_selector(".words-ribbons .all path", state="attached")
    return page


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("मैं छात्र हूँ।", ["मैं", "छात्र", "हूँ", "।"]),
        ("I ❤️ 👩\u200d👧 🇫🇷", ["I", "❤️", "👩\u200d👧", "🇫🇷"]),
        (HEBREW, ["אני", "סטודנט", "(", "new", ")", "2026", "."]),
    ],
)
def test_bytes_are_joined_to_words_in_every_view(open_real: Open, text: str, expected: list[str]) -> None:
    page = opened(open_real, text)
    for line in ("rows", "columns"):
        assert words(page, line)[1:-1] == expected
    expect(page.locator("#map .main-svg").first).to_be_visible()
    for axis in ("y2tick", "x2tick"):
        names = [name.strip("\u2068\u2069") for name in page.locator(f"#map .{axis} text").all_text_contents()]
        assert names[1:-1] == expected


def test_brackets_open_the_way_the_line_runs(open_real: Open) -> None:
    page = opened(open_real, HEBREW)
    assert page.locator(".words-line.columns").get_attribute("dir") == "rtl"
    directions = dict(page.locator(".words-line.columns .token-word").evaluate_all(DIRECTIONS))
    assert directions["("] == directions[")"] == "rtl"  # drawn mirrored
    assert directions["new"] == "ltr"
    svg = page.evaluate("atlas.pictures.words('svg').then((blob) => blob.text())")
    assert [direction in svg for direction in ('direction="rtl"', 'direction="ltr"')] == [True, False]


def test_a_small_probability_reads_from_left_to_right_in_a_line_that_does_not(open_real: Open) -> None:
    page = opened(open_real, HEBREW, given=ARABIC)
    line = page.locator("#result .words")
    expect(line).to_contain_text("أنا")
    assert line.evaluate("(node) => getComputedStyle(node).direction") == "rtl"
    numbers = dict(page.locator("#result .word-probability span").evaluate_all(DIRECTIONS))
    assert "<1%" in numbers and set(numbers.values()) == {"ltr"}


def test_a_kept_picture_names_sentence_and_translation_in_this_order(open_real: Open) -> None:
    """Both run from right to left: without isolates they would be one line, and the arrow would point the wrong way."""
    page = opened(open_real, HEBREW, given=ARABIC)
    for part in ("map", "words"):
        svg = page.evaluate(f"atlas.pictures.{part}('svg').then((blob) => blob.text())")
        assert f"\u2068{HEBREW}\u2069 → \u2068{ARABIC}\u2069" in svg, part
    page = opened(open_real, " ".join([HEBREW] * 9), given=ARABIC)
    page.wait_for_selector("#map .main-svg")
    svg = page.evaluate("atlas.pictures.map('svg').then((blob) => blob.text())")
    lines = [line for line in re.findall(r">([^<>]*)<", svg) if "(new)" in line]
    assert len(lines) > 1 and all(line.count("\u2068") == line.count("\u2069") for line in lines)
