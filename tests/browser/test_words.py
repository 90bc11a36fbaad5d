"""The words of a map and their ribbons: what is drawn is the map, whatever is in focus is the same word, and keys lead everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import app
from model.results import AttentionTrace
from tests.browser.conftest import NARROW, WIDE, Open, serve, wait_for_words
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.figures.colors import DARK, KIND_COLORS, LIGHT
from viz.panels.choice import maps_of

TWICE = "the cat saw the other cat and the cat ran"  # repeated words: a map that goes by their names would mix them up
LEAST, LEAST_OWN = 0.02, 0.005


class Scripts(FakeTranslator):
    """Pieces and scripts that are easily drawn wrong."""

    targets = ("fra", "ara", "jpn", "hin")
    known = {
        ("I am a student.", "fra"): "▁Je ▁suis ▁étudiant .",
        (TWICE, "fra"): "▁le ▁ch at ▁a ▁vu ▁le ▁ch at ▁et ▁a ▁couru .",
        ("I am a student.", "ara"): "▁أنا ▁طال ب .",
        ("I am a student.", "jpn"): "▁ 私 は 学生 です 。",
        ("I am a student.", "hin"): "▁मैं ▁एक ▁छात ्र ▁हूँ ।",
        ("I love you.", "fra"): "▁<b>x</b> ▁<img/src=x> ▁&lt; ▁👩‍👩‍👧 <unk> ▁$y$ 😀~1/4 😀~2/4 😀~3/4 😀~4/4",
    }

    def _translation(self, text, target, source, out, forced):
        return super()._translation(text, target, source, tuple(token.replace("~", " ") for token in out), forced)


@pytest.fixture(scope="module")
def scripts() -> Scripts:
    return Scripts()


@pytest.fixture(scope="module")
def scripts_site(scripts: Scripts) -> Iterator[str]:
    demo = app.build_app(scripts, recorded_run(scripts))
    yield serve(demo)
    demo.close()


@pytest.fixture
def open_words(open_page: Open, scripts_site: str):
    def open_it(text: str = "", target: str = "", **options) -> Page:
        page = open_page(url=scripts_site, picture=False, **options)
        page.wait_for_selector(".words-ribbons .all path", state="attached", timeout=60_000)
        if target:
            page.evaluate("(target) => atlas.set({target})", target)
            page.wait_for_function("(target) => atlas.maps.current().request.target === target", arg=target)
        if text:
            page.locator("#sentence textarea").fill(text)
            page.wait_for_function("(text) => atlas.maps.current().request.text === text", arg=text)
        return page

    return open_it


def choose(page: Page, **choice: object) -> None:
    page.evaluate("(choice) => atlas.set(choice)", choice)


def ribbons(page: Page, group: str = "all") -> dict[tuple[int, int], tuple[float, float, float]]:
    """(row, column) -> width, and where it starts (above) and ends (below) in px of the stage."""
    found = page.evaluate(
        """(group) => [...document.querySelectorAll(`.words-ribbons .${group} path`)].map((path) => {
          const ends = path.getAttribute('d').match(/-?[\\d.]+/g).map(Number);
          return [path.dataset.cell.split(',').map(Number), Number(path.getAttribute('stroke-width')), ends[0], ends.at(-2)];
        })""",
        group,
    )
    return {(row, column): (width, above, below) for (row, column), width, above, below in found}


def boxes(page: Page, line: str) -> list[dict]:
    """Every word of a line: its text, its edges in px of the stage, its number and how strong its tint is."""
    return page.evaluate(
        """(line) => [...document.querySelectorAll(`.words-line.${line} .token`)].map((node) => ({
          text: node.querySelector('.token-word').textContent, left: node.offsetLeft, right: node.offsetLeft + node.offsetWidth,
          number: node.querySelector('.token-number').textContent, tint: Number(node.style.getPropertyValue('--t')),
          name: node.getAttribute('aria-label'), stop: node.tabIndex, pressed: node.getAttribute('aria-pressed'),
          masked: node.classList.contains('masked')}))""",
        line,
    )


def check_ribbons(page: Page, expected: np.ndarray, least: float = LEAST, group: str = "all") -> None:
    """Exactly the weights above `least`, as wide as they are large, each between its own two words."""
    drawn = ribbons(page, group)
    assert set(drawn) == {(i, j) for i, j in np.ndindex(*expected.shape) if round(float(expected[i, j]) * 65535) / 65535 >= least}
    cells = list(drawn)
    widths = np.array([drawn[cell][0] for cell in cells])
    weights = np.array([expected[cell] for cell in cells])
    np.testing.assert_allclose(widths, weights * (widths.sum() / weights.sum()), atol=0.002)
    keys, queries = boxes(page, "columns"), boxes(page, "rows")
    for (row, column), (_, above, below) in drawn.items():
        assert keys[column]["left"] - 0.1 <= above <= keys[column]["right"] + 0.1
        assert queries[row]["left"] - 0.1 <= below <= queries[row]["right"] + 0.1


def trace_of(translator: FakeTranslator, text: str, target: str = "fra") -> AttentionTrace:
    return translator.trace(translator.translate(text, target))


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
def test_a_ribbon_is_as_wide_as_its_weight_and_joins_its_two_words(open_words, scripts: Scripts, kind: str) -> None:
    page = open_words(TWICE)
    trace = trace_of(scripts, TWICE)
    choose(page, kind=kind, layer=1, head=2)
    weights = maps_of(trace, kind)[1, 2]
    assert weights.shape[0] != weights.shape[1] or kind != "cross"
    assert (len(boxes(page, "rows")), len(boxes(page, "columns"))) == weights.shape
    check_ribbons(page, weights)
    # another head, at once
    choose(page, head="max")
    check_ribbons(page, maps_of(trace, kind)[1].max(axis=0))


def test_lines_are_the_tokens_and_the_names_of_rows_follow_the_choice(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=0, head=1, rows="predicted")
    plain = [token.removeprefix("▁") for token in trace_of(scripts, TWICE).tgt_out_tokens]
    assert [box["text"] for box in boxes(page, "rows")] == [*plain[:-1], "⟨end⟩"]
    assert [box["text"] for box in boxes(page, "columns")] == ["⟨→ fra⟩", *TWICE.split(), "⟨end⟩"]
    expect(page.locator(".words-name").nth(1)).to_have_text("Below: the words being written")
    choose(page, rows="read")
    assert [box["text"] for box in boxes(page, "rows")] == ["⟨start⟩", *plain[:-1]]
    expect(page.locator(".words-name").nth(1)).to_have_text("Below: the words just read")
    choose(page, kind="encoder_self", head=0)
    assert [box["text"] for box in boxes(page, "rows")] == [box["text"] for box in boxes(page, "columns")]
    page.locator("[data-lang=zh]").click()
    expect(page.locator(".words-name").nth(1)).to_have_text("下行：在看的词")
    assert boxes(page, "rows")[-1]["text"] == "⟨结束⟩"


def test_whole_words_and_hidden_special_tokens(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=1, head=1, rows="predicted", units="words", specials="hidden")
    assert [box["text"] for box in boxes(page, "rows")] == ["le", "chat", "a", "vu", "le", "chat", "et", "a", "couru", "."]
    assert [box["text"] for box in boxes(page, "columns")] == TWICE.split()
    pieces = trace_of(scripts, TWICE).cross_attention[1, 1]
    spans = [(0, 1), (1, 3), (3, 4), (4, 5), (5, 6), (6, 8), (8, 9), (9, 10), (10, 11), (11, 12)]
    check_ribbons(page, np.array([pieces[start:stop].mean(axis=0)[1:-1] for start, stop in spans]))


def test_what_is_left_out_is_said(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=0, head=0)
    weights = trace_of(scripts, TWICE).cross_attention[0, 0]
    share = weights[weights < LEAST].sum() / weights.sum()
    assert share > 0.005
    expect(page.locator(".words-said")).to_contain_text(f"Ribbons under 0.02 are not drawn: {round(100 * share)}% of the weight.")


def test_a_word_in_focus_has_its_own_ribbons_and_the_other_line_its_weights(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=1, head=0)
    weights = trace_of(scripts, TWICE).cross_attention[1, 0]
    row, column = 6, 3  # the second "ch", the second "the"
    page.locator(".words-line.rows .token").nth(row).hover()
    own = ribbons(page, "own")
    assert set(own) == {(row, j) for j in range(weights.shape[1]) if weights[row, j] >= LEAST_OWN}
    assert all(own[cell] == ribbons(page)[cell] for cell in own if weights[cell] >= LEAST)  # they stay where they were
    shown = boxes(page, "columns")
    np.testing.assert_allclose([box["tint"] for box in shown], weights[row], atol=0.001)
    assert [box["number"] for box in shown] == [f"{w:.2f}" if w >= 0.005 else "" for w in weights[row]]
    assert all(box["number"] == "" for box in boxes(page, "rows"))
    order = np.argsort(-weights[row], kind="stable")
    expect(page.locator(".words-said")).to_contain_text(f"ch looks most at {shown[order[0]]['text']} {weights[row, order[0]]:.4f}")
    page.locator(".words-decimals").click()
    page.locator(".words-line.columns .token").nth(column).hover()
    shown = boxes(page, "rows")
    np.testing.assert_allclose([box["tint"] for box in shown], weights[:, column], atol=0.001)
    for box, weight in zip(shown, weights[:, column], strict=True):
        assert abs(float(box["number"] or 0) - weight) < 0.0001
    # from another view: a cell
    page.mouse.move(2, 2)
    page.evaluate("([row, column]) => atlas.focus.hover(row, column)", [2, 5])
    assert set(ribbons(page, "own")) >= {(2, 5)}
    expect(page.locator(".words-ribbons .own .strong")).to_have_attribute("data-cell", "2,5")
    expect(page.locator(".words-said")).to_contain_text(f"at looks at other: {weights[2, 5]:.4f}")


def test_colours_follow_the_rule_of_the_map(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=1, head=0, colour="max")
    weights = trace_of(scripts, TWICE).cross_attention[1, 0]
    page.evaluate("atlas.focus.hover(4, null)")
    np.testing.assert_allclose([box["tint"] for box in boxes(page, "columns")], weights[4] / weights.max(), atol=0.001)
    choose(page, colour="log")
    expected = np.clip(1 + np.log10(weights[4]) / 3, 0, 1)
    np.testing.assert_allclose([box["tint"] for box in boxes(page, "columns")], expected, atol=0.003)


def test_a_click_pins_and_again_lets_go(open_words) -> None:
    page = open_words()
    word = page.locator(".words-line.rows .token").nth(1)
    word.click()
    assert page.evaluate("atlas.focus.pinned()") == {"row": 1, "column": None}
    page.mouse.move(2, 2)
    page.evaluate("document.activeElement.blur()")
    expect(word).to_have_attribute("aria-pressed", "true")
    expect(word).to_have_class(re.compile(r"\bpinned\b.*"))
    assert page.evaluate("atlas.focus.get()") == {"row": 1, "column": None, "pinned": True}
    page.locator(".words-line.columns .token").nth(3).hover()  # another one on top, then back to the pinned one
    assert page.evaluate("atlas.focus.get().column") == 3
    page.mouse.move(2, 2)
    assert page.evaluate("atlas.focus.get().row") == 1
    choose(page, head=1)
    expect(word).to_have_attribute("aria-pressed", "true")
    word.click()
    expect(word).to_have_attribute("aria-pressed", "false")
    word.click()
    page.keyboard.press("Escape")
    expect(word).to_have_attribute("aria-pressed", "false")
    assert page.evaluate("atlas.focus.get()") == {"row": None, "column": None, "pinned": False}


def test_keys_lead_along_the_lines_and_across_to_the_strongest_partner(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=1, head=0)
    weights = trace_of(scripts, TWICE).cross_attention[1, 0]
    for line in ("columns", "rows"):
        assert [box["stop"] for box in boxes(page, line)].count(0) == 1
    focus = lambda: page.evaluate("(({row, column}) => [row, column])(atlas.focus.get())")  # noqa: E731
    page.locator('.words-line.rows .token[tabindex="0"]').focus()
    page.keyboard.press("Home")
    assert focus() == [0, None]
    page.keyboard.press("ArrowLeft")
    assert focus() == [0, None]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert focus() == [2, None]
    page.keyboard.press("ArrowUp")
    partner = int(weights[2].argmax())
    assert focus() == [None, partner]
    page.keyboard.press("ArrowDown")
    assert focus() == [int(weights[:, partner].argmax()), None]
    page.keyboard.press("End")
    last = len(weights) - 1
    assert focus() == [last, None]
    name = page.evaluate("document.activeElement.getAttribute('aria-label')")
    best = int(weights[last].argmax())
    assert name == f"⟨end⟩, row {last}: looks most at {boxes(page, 'columns')[best]['text']}, {weights[last, best]:.2f}"
    page.keyboard.press("Enter")
    assert page.evaluate("atlas.focus.pinned().row") == last
    page.keyboard.press("Space")
    assert page.evaluate("atlas.focus.pinned().row") is None
    assert [box["stop"] for box in boxes(page, "rows")].index(0) == last


def test_the_causal_mask_is_seen(open_words) -> None:
    page = open_words(TWICE)
    choose(page, kind="decoder_self", layer=0, head=0)
    page.evaluate("atlas.focus.hover(3, null)")
    keys = boxes(page, "columns")
    assert [box["masked"] for box in keys] == [False] * 4 + [True] * (len(keys) - 4)
    page.evaluate("atlas.focus.hover(null, 3)")
    rows = boxes(page, "rows")
    assert [box["masked"] for box in rows] == [True] * 3 + [False] * (len(rows) - 3)
    page.evaluate("atlas.focus.hover(2, 6)")
    expect(page.locator(".words-said")).to_contain_text("cannot look at")


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


def test_nothing_below_moves_when_words_are_pointed_at(open_words) -> None:
    page = open_words(size=WIDE)
    top = lambda: page.evaluate("document.querySelector('#map').getBoundingClientRect().top + scrollY")  # noqa: E731
    before = top()
    page.evaluate("atlas.focus.hover(1, null)")
    assert top() == before
    page.evaluate("atlas.focus.pin(1, 4)")
    assert top() == before
    choose(page, kind="decoder_self", head=0)
    assert top() == before


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


def test_the_picture_follows_a_new_translation(open_words) -> None:
    page = open_words()
    page.evaluate("atlas.focus.pin(1, null)")
    page.locator("#sentence textarea").fill("We will go home.")
    wait_for_words(page, "wEWILLGOHOME.")
    page.wait_for_function("atlas.maps.current().request.text === 'We will go home.'")
    assert [box["text"] for box in boxes(page, "columns")][1:-1] == ["We", "will", "go", "home", "."]
    assert page.locator(".token.pinned").count() == 0
