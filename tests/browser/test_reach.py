"""Translate and Heads for everybody: by keyboard alone, by name, on a narrow screen, legible, without motion, and with nothing lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, Open, wait_for_words

# 58 words and a full stop, with the prefix and the end 61 tokens; some of the words stand there more than once
CLAUSE = "The old captain and his seven sailors saw a bright light over the dark sea before the storm came"
LONG_TEXT = " ".join([CLAUSE] * 3 + ["again and again."])
TABS = ("translate", "heads")

# In the page: what is on the screen, and how it looks.
HELPERS = """
window.reach = (() => {
  const there = (node) => node.checkVisibility({visibilityProperty: true}) && node.getClientRects().length > 0;
  const shown = (node) => there(node) && node.checkVisibility({opacityProperty: true});
  const say = (node) => {
    const name = node.className?.baseVal ?? node.className;
    const text = (node.textContent || node.getAttribute("aria-label") || "").trim().slice(0, 40);
    return `${node.tagName.toLowerCase()}.${name} in #${node.closest("[id]")?.id}: ${text}`;
  };
  const hiddenAway = (node) => {
    const {clip, clipPath, position} = getComputedStyle(node.closest(".only-spoken, .sr-only, .visually-hidden") || node);
    return position === "absolute" && (clipPath !== "none" || clip !== "auto");
  };
  const texts = function* () {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      const host = node.parentElement;
      if (!node.nodeValue.trim() || host.closest("script, style, noscript, option") || !shown(host) || hiddenAway(host)) continue;
      const {left, right} = host.getBoundingClientRect();
      if (right < 0 || left > innerWidth + 5000) continue; // the skip link before it has the focus
      yield [node, host];
    }
  };
  return {there, shown, say, texts};
})();
"""


def prepare(page: Page, text: str = "The cat sat on the mat because it was tired.", wanted: str = "assis") -> Page:
    page.evaluate(HELPERS)
    page.locator("#sentence textarea").fill(text)
    wait_for_words(page, wanted)
    page.wait_for_timeout(400)
    return page


def tabs(page: Page) -> Iterator[str]:
    """Opens Translate and Heads one after the other."""
    for name in TABS:
        page.locator(f"#tabs [role=tab][id^='tab-{name}']").click()
        page.mouse.move(2, 2)
        page.wait_for_timeout(500)
        yield name


# --- keyboard ---

# Every place that the tab key should stop at: of a group of radio buttons the one that is chosen, of a row with arrow keys the one with
# tabindex 0.
STOPS = """() => {
  const found = [...document.querySelectorAll("button, input, select, textarea, a[href], summary, [tabindex]")].filter((node) => {
    if (node.tabIndex < 0 || node.disabled || !reach.there(node)) return false;
    if (node.type !== "radio") return true;
    const group = [...document.getElementsByName(node.name)];
    return node.checked || (!group.some((radio) => radio.checked) && group[0] === node);
  });
  found.forEach((node, i) => (node.dataset.stop = String(i)));
  return found.map(reach.say);
}"""
FOCUSED = """() => {
  const node = document.activeElement;
  if (!node || node === document.body) return null;
  const ring = [node, node.closest("label"), node.closest(".choice")].filter(Boolean).some((each) => {
    const {outlineStyle, outlineWidth, boxShadow} = getComputedStyle(each);
    return (outlineStyle !== "none" && parseFloat(outlineWidth) >= 1.5) || (each.tagName === "TEXTAREA" && boxShadow !== "none");
  });
  const {left, right, top, bottom} = (node.closest("label") || node).getBoundingClientRect();
  const inSight = bottom > 0 && top < innerHeight && right > 0 && left < innerWidth;
  return {stop: node.dataset.stop ?? null, say: reach.say(node), ring, inSight};
}"""


@pytest.mark.parametrize("tab", TABS)
def test_the_tab_key_goes_through_everything_in_order_and_shows_where_it_is(open_page: Open, tab: str) -> None:
    page = prepare(open_page())
    page.locator(f"#tabs [role=tab][id^='tab-{tab}']").click()
    page.wait_for_timeout(500)
    stops = page.evaluate(STOPS)
    page.locator("[data-skip]").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    seen = [page.evaluate(FOCUSED)]
    assert seen[0]["stop"] == "0"
    while len(seen) < len(stops) + 12:
        page.keyboard.press("Tab")
        at = page.evaluate(FOCUSED)
        if at is None or at["stop"] == "0":  # past the end
            break
        seen.append(at)
    visited = [int(at["stop"]) for at in seen if at["stop"] is not None]
    assert [stops[i] for i in range(len(stops)) if i not in visited] == []
    assert visited == sorted(visited), "the order on the page is the order of the tab key"
    assert [at["say"] for at in seen if not at["ring"]] == []
    assert [at["say"] for at in seen if not at["inSight"]] == []


@pytest.mark.parametrize("tab", TABS)
def test_what_the_tab_key_skips_is_reached_with_arrow_keys(open_page: Open, tab: str) -> None:
    """Rows of words and of heads have one stop each; from there arrow keys, Home and End reach all the others."""
    page = prepare(open_page())
    page.locator(f"#tabs [role=tab][id^='tab-{tab}']").click()
    page.wait_for_timeout(500)
    for host in page.evaluate(
        """() => [...document.querySelectorAll(".words-line, .mosaic")].filter(reach.shown).map((host, i) => {
          host.dataset.reachRow = String(i);
          return [i, host.querySelectorAll("button").length, host.querySelectorAll("button[tabindex='0']").length];
        })"""
    ):
        index, count, stops = host
        assert count > 2 and stops == 1, host
        row = page.locator(f"[data-reach-row='{index}']")
        row.locator("button[tabindex='0']").focus()
        reached = set()
        for key in ["Home", "ArrowUp"] * 12 + ["Home", *["ArrowRight"] * 20] + ["ArrowDown", "Home", *["ArrowRight"] * 20] * 12:
            if len(reached) == count:
                break
            if "words-line" in row.get_attribute("class") and key in ("ArrowUp", "ArrowDown"):
                continue  # goes to the other line
            page.keyboard.press(key)
            reached.add(row.evaluate("(host) => [...host.querySelectorAll('button')].indexOf(document.activeElement)"))
        assert reached - {-1} == set(range(count)), f"row {index}"


def test_a_head_is_chosen_and_a_word_is_pinned_by_keyboard(open_page: Open) -> None:
    page = prepare(open_page())
    before = page.evaluate("[atlas.state.layer, atlas.state.head]")
    page.locator("#heads-strip .mosaic-head[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    after = page.evaluate("[atlas.state.layer, atlas.state.head]")
    assert after != before and after[1] == 1
    page.locator("#words-view .words-line.rows .token[tabindex='0']").focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.evaluate("atlas.focus.pinned().row") == 1
    page.keyboard.press("Escape")
    assert page.evaluate("atlas.focus.pinned().row") is None


# --- names ---

NAMED = {"button", "checkbox", "combobox", "link", "listbox", "menu", "menuitem", "radio", "radiogroup", "tab", "textbox", "toolbar", "img"}
# Latin words that stay in the Chinese page: tokens and sentences (taken from the page), names of languages in their own words, formulas.
STAYS = set("Attention Atlas Transformer softmax log Marian OPUS Plotly PNG SVG CSV JSON npz NumPy Tatoeba fra cmn eng max".split())


def spoken(page: Page) -> list[tuple[str, str]]:
    """Role and name of everything that the accessibility tree shows."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    return [(node["role"]["value"], node.get("name", {}).get("value", "")) for node in tree if not node["ignored"] and "role" in node]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_control_has_a_name_in_the_language_of_the_page(open_page: Open, lang: str) -> None:
    page = prepare(open_page(lang=lang))
    for tab in tabs(page):
        names = spoken(page)
        assert len(names) > 100
        nameless = [role for role, name in names if role in NAMED and not name.strip()]
        assert nameless == [], tab
        if lang == "en":
            chinese = [name for role, name in names if role in NAMED and re.search("[一-鿿]", name) and name != "中文"]
            assert chinese == [], tab
            continue
        own = page.evaluate(
            """() => [...document.querySelectorAll(".example, .token-word, #result .word-text, #sentence textarea, #share input")]
            .map((node) => node.value || node.textContent).concat(Object.values(atlas.maps.current().sides).flatMap((side) =>
              side.pieces.en.flatMap(({text, raw, full}) => [text, raw, full]))).join(" ")"""
        )
        # Words of the sentence in any writing, so the case of the fake translation does not matter.
        own_words = {word.lower() for word in re.findall("[A-Za-zÀ-ÿ]+", own)}
        texts = page.evaluate("[...reach.texts()].map(([node]) => node.nodeValue)")
        for text in [name for role, name in names if role in NAMED or role == "StaticText"] + texts:
            left = [word for word in re.findall("[A-Za-zÀ-ÿ]{3,}", text) if word.lower() not in own_words and word not in STAYS]
            assert left == [], f"{tab}: {text}"


# --- narrow, legible ---

WIDER = """(width) => [...document.querySelectorAll("body *")].filter((node) => {
  if (!reach.shown(node)) return false;
  for (let host = node; host; host = host.parentElement) {
    const {overflowX, textOverflow, position} = getComputedStyle(host);
    if (host !== node && (["auto", "scroll"].includes(overflowX) || textOverflow === "ellipsis")) return false; // in a frame of its own
    if (position === "fixed" || host.tagName === "svg" && host !== node) return false;
  }
  return node.getBoundingClientRect().right > width + 1;
}).map(reach.say)"""


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_long_sentence_does_not_widen_a_narrow_page(open_page: Open, lang: str) -> None:
    page = prepare(open_page(NARROW, lang=lang), LONG_TEXT, "CAPTAIN")
    assert page.evaluate("atlas.maps.size('cross').keys") >= 60
    for tab in tabs(page):
        for choice in ({"units": "words"}, {"units": "pieces", "kind": "encoder_self"}):
            page.evaluate("(choice) => atlas.set(choice)", choice)
            page.wait_for_timeout(600)
            assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0], (tab, choice)
            assert page.evaluate(WIDER, NARROW[0]) == [], (tab, choice)  # nor is anything cut off


SMALL = """() => [...reach.texts()].filter(([, host]) => {
  let size = parseFloat(getComputedStyle(host).fontSize);
  const svg = host.closest("svg"); // may be drawn smaller than its own units
  if (svg && host.getScreenCTM) size *= Math.hypot(host.getScreenCTM().a, host.getScreenCTM().b);
  return size < 11.95;
}).map(([node, host]) => `${getComputedStyle(host).fontSize} ${reach.say(host)}`)"""
# Contrast of a text with what is behind it, where that is plain colour: WCAG's formula. Disabled controls need none.
FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (css) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = css;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const [node, host] of reach.texts()) {
    if (host.closest(":disabled, [data-off], [aria-disabled=true]")) continue;
    const chain = [];
    for (let each = host; each; each = each.parentElement) chain.unshift(each);
    let ground = rgba(getComputedStyle(document.documentElement).backgroundColor);
    let opacity = 1;
    for (const each of chain) {
      const style = getComputedStyle(each);
      ground = over(rgba(style.backgroundColor), ground);
      opacity *= Number(style.opacity);
    }
    const style = getComputedStyle(host);
    const [r, g, b, a] = rgba(host.closest("svg") ? style.fill : style.color);
    const ink = over([r, g, b, a * opacity], ground);
    const [low, high] = [light(ink), light(ground)].sort((x, y) => x - y);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.45) found.push(`${ratio.toFixed(2)} ${reach.say(host)}`);
  }
  return found;
}"""


@pytest.mark.parametrize(("size", "theme", "lang"), [(WIDE, "light", "en"), (WIDE, "dark", "zh"), (NARROW, "dark", "en")])
def test_every_text_is_large_and_dark_enough(open_page: Open, size: tuple[int, int], theme: str, lang: str) -> None:
    page = prepare(open_page(size, theme, lang))
    for tab in tabs(page):
        for choice in ({"kind": "cross"}, {"kind": "decoder_self", "units": "words"}):
            page.evaluate("(choice) => atlas.set(choice)", choice)
            if tab == "translate":
                page.evaluate("atlas.focus.pin(1, null)")
            page.wait_for_timeout(600)
            assert page.evaluate("[...reach.texts()].length") > 60
            assert page.evaluate(SMALL) == [], (tab, choice)
            assert page.evaluate(FAINT) == [], (tab, choice)
            page.evaluate("atlas.focus.clear()")


# --- motion ---

MOVING = """() => [...document.querySelectorAll("*")].flatMap((node) => [null, "::before", "::after"].map((part) => [node, part]))
  .filter(([node, part]) => {
    const {transitionDuration, animationName, animationDuration} = getComputedStyle(node, part);
    const takes = (list) => list.split(",").some((each) => parseFloat(each) > 0);
    return takes(transitionDuration) || (animationName !== "none" && takes(animationDuration));
  }).map(([node, part]) => `${reach.say(node)} ${part || ""}`)"""


def test_nothing_moves_for_those_who_ask_for_less_motion(open_page: Open) -> None:
    page = open_page()
    page.emulate_media(reduced_motion="reduce")
    prepare(page)
    for tab in tabs(page):
        for kind in ("encoder_self", "cross"):
            page.evaluate("(kind) => atlas.set({kind})", kind)
            running = page.evaluate("document.getAnimations().filter(({playState}) => playState === 'running').length")
            assert running == 0, (tab, kind)
        assert page.evaluate(MOVING) == [], tab
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(MOVING) != [], "the check sees motion where there is some"


# --- nothing is lost ---

KEPT = """() => {
  const {model, target, beam_size, kind, layer, head, rows, units, specials, colour} = atlas.state;
  const {rows: across, columns: down, z, max, hidden} = atlas.maps.view();
  return JSON.stringify([document.querySelector("#sentence textarea").value, model, target, beam_size, kind, layer, head, rows, units,
    specials, colour, atlas.focus.pinned(), across.map(({start}) => start), down.map(({start}) => start), Array.from(z), max, hidden]);
}"""


def test_language_and_theme_change_nothing_else(open_page: Open) -> None:
    page = prepare(open_page())
    choice = {"kind": "decoder_self", "layer": 1, "head": 2, "rows": "read", "units": "words", "specials": "hidden", "colour": "log"}
    page.evaluate("(choice) => (atlas.set(choice), atlas.focus.pin(2, null))", choice)
    before = page.evaluate(KEPT)
    assert '"row":2' in before
    for switch in ("[data-lang=zh]", "[data-theme]", "[data-lang=en]", "[data-theme]"):
        page.locator(switch).click()
        page.wait_for_timeout(400)
        assert page.evaluate(KEPT) == before, switch
        expect(page.locator("#words-view .token.pinned")).to_have_count(1)
