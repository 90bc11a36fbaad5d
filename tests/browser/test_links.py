"""Links: the page's state stands in its address, and a new page opened on that address is the same. A hostile address does no harm."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, Gate, Open, choose, wait_for_words
from tests.viz.fakes import ARABIC, ROMANCE
from viz.text import say

NAMES = ["kind", "layer", "head", "rows", "units", "specials", "colour", "target", "beam_size", "model", "lang", "tab", "forced"]
FIGURE = """() => { const plot = document.querySelector('#map .plot');
  return {z: Array.from(plot._fullData[0].z, (row) => Array.from(row)), rows: plot.layout.meta.queries, kind: plot.layout.meta.kind}; }"""


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query, keep_blank_values=True).items()}


def expect_query(page: Page, **expected: object) -> None:
    """Waits until the address says this, and lang as the test opened it, and nothing else."""
    wanted = {"lang": "en"} | {name: str(value) for name, value in expected.items()}
    page.wait_for_function(
        """(wanted) => {
          const now = Object.fromEntries(new URLSearchParams(location.search));
          const names = Object.keys({...now, ...wanted});
          return names.every((name) => now[name] === wanted[name]);
        }""",
        arg=wanted,
    )


def state(page: Page) -> dict:
    found = page.evaluate("(names) => Object.fromEntries(names.map((name) => [name, atlas.state[name]]))", NAMES)
    return found | {"pin": page.evaluate("atlas.focus.pinned()"), "text": page.locator("#sentence textarea").input_value()}


def linked(open_page: Open, search: str, **options: object) -> Page:
    """A page opened by a link, which may lead to another tab than the map's."""
    return open_page(lang=None, search=search, seen=False, **options)


def pick(page: Page, group: str, label: str) -> None:
    page.locator(f"[data-{group}] label").filter(has_text=re.compile(f"^{re.escape(label)}$")).click()


def test_a_fresh_page_has_a_short_address(open_page: Open) -> None:
    page = open_page()
    page.wait_for_timeout(800)
    assert query(page) == {"lang": "en"}


def test_every_choice_is_written_and_a_new_page_is_the_same(open_page: Open) -> None:
    page = open_page()
    page.locator("#sentence textarea").fill("The cat saw the cat & “50%” + #1?")
    wait_for_words(page, "CAT")
    pick(page, "kinds", "Decoder")
    pick(page, "layers", "0")
    pick(page, "heads", "1")
    pick(page, "rows", "the token it reads")
    pick(page, "units", "whole words")
    pick(page, "colours", "log")
    page.evaluate("atlas.focus.pin(2, 1)")
    wanted = {"text": "The cat saw the cat & “50%” + #1?", "kind": "decoder_self", "layer": 0, "head": 1, "rows": "read"}
    expect_query(page, **wanted, units="words", colour="log", row=2, column=1)
    before, picture = state(page), page.evaluate(FIGURE)

    other = linked(open_page, urlsplit(page.url).query)
    wait_for_words(other, "CAT")
    other.wait_for_function("atlas.focus.pinned().row === 2")
    assert state(other) == before
    other.wait_for_function("document.querySelector('#map .plot').layout.meta.kind === 'decoder_self'")
    assert other.evaluate(FIGURE) == picture
    other.reload()
    other.wait_for_selector("#map .main-svg")
    wait_for_words(other, "CAT")
    other.wait_for_function("atlas.focus.pinned().row === 2")
    assert state(other) == before
    expect(other.locator("[data-left-out]")).to_be_hidden()


@pytest.mark.parametrize(
    "search",
    [
        {"kind": "encoder_self", "layer": "2", "head": "3"},
        {"kind": "encoder_self", "layer": "0", "head": "max", "specials": "hidden", "colour": "max"},
        {"layer": "0", "head": "rollout", "units": "words"},
        {"rows": "read"},
        {"head": "2", "layer": "1", "rows": "read", "column": "3"},
        {"row": "1"},
        {"tab": "positions"},
        {"tab": "heads", "kind": "decoder_self", "layer": "1", "head": "0"},
        {"target": "cmn", "text": "I love you."},
        {"text": "I love you.", "beam": "8"},
        {"text": "I love you.", "given": "Je vous aime."},
        {"text": "नमस्ते 👩‍👩‍👧 شكرا", "layer": "0", "head": "0"},
    ],
)
def test_what_a_link_says_is_restored_and_stays_in_the_address(open_page: Open, search: dict[str, str]) -> None:
    page = linked(open_page, urlencode({"lang": "en", **search}))
    for name, value in search.items():
        if name in ("layer", "head", "row", "column"):
            value = int(value) if value.isdecimal() else value
        if name in ("kind", "layer", "head", "rows", "units", "specials", "colour", "target", "tab"):
            page.wait_for_function("([name, value]) => atlas.state[name] === value", arg=[name, value])
        if name in ("row", "column"):
            page.wait_for_function("([name, value]) => atlas.focus.pinned()[name] === value", arg=[name, value])
    if "text" in search:
        expect(page.locator("#sentence textarea")).to_have_value(search["text"])
        page.wait_for_function("(text) => atlas.result().request.text === text", arg=search["text"])
    if search.get("target") == "cmn":
        wait_for_words(page, "我爱你。")
    if search.get("beam"):
        assert page.evaluate("atlas.result().request.beam_size") == 8
    if "given" in search:
        wait_for_words(page, "Jevousaime.")
        expect(page.locator("#result .badge")).to_have_text("given")
    if "tab" in search:
        expect(page.locator(f"#tab-{search['tab']}-button")).to_have_attribute("aria-selected", "true")
    expect(page.locator("[data-left-out]")).to_be_hidden()
    page.wait_for_timeout(600)
    assert query(page) == {"lang": "en", **search}


def test_tabs_language_and_theme(open_page: Open) -> None:
    page = open_page()
    page.get_by_role("tab", name="Heads").click()
    expect_query(page, tab="heads")
    page.locator("[data-lang=zh]").click()
    page.locator("[data-theme]").click()
    page.wait_for_function("location.search.includes('__theme=dark')")
    other = linked(open_page, urlsplit(page.url).query, size=NARROW)
    other.wait_for_function("document.body.classList.contains('dark') && atlas.state.lang === 'zh' && atlas.state.tab === 'heads'")
    other.locator("#tab-translate-button").click()
    other.wait_for_function("!location.search.includes('tab=')")


HOSTILE = (
    ("kind=diagonal&layer=0&head=1", ["kind “diagonal”"], {"kind": "cross", "layer": 0, "head": 1}),
    ("layer=999&head=2", ["layer “999”"], {"layer": 1, "head": 2}),
    ("layer=1e3&head=-1&rows=both&units=", ["layer “1e3”", "head “-1”", "names of rows “both”"], {"rows": "predicted"}),
    ("head=99&layer=0&colour=rainbow", ["head “99”", "colour “rainbow”"], {"layer": 0}),
    ("row=77&column=1&layer=0&head=0", ["pinned row “77”"], {"layer": 0}),
    ("target=tlh&layer=0&head=0", ["target language “tlh”"], {"target": "fra", "layer": 0}),
    ("tab=nosuch&layer=0&head=0", ["screen “nosuch”"], {"tab": "translate", "layer": 0}),
    ("text=%ED%A0%80&layer=0&head=1", ["sentence"], {"layer": 0, "head": 1}),
    ("text=%E0%A4%zz&given=%F0&kind=encoder_self", ["sentence", "given translation"], {"kind": "encoder_self", "forced": False}),
    ("beam=3&layer=0&head=1", ["beam “3”"], {"beam_size": 4, "layer": 0}),
    ("model=a%0Ab&kind=__proto__&head=constructor&layer=0", ["model", "kind", "head"], {"model": "embedded", "layer": 0}),
    ("text=" + "x" * 6000 + "&layer=0&head=1", ["sentence “" + "x" * 40 + "…”"], {"layer": 0, "head": 1}),
    ("kind=cross&kind=decoder_self&layer=0&layer=1&head=1", [], {"kind": "cross", "layer": 0, "head": 1}),
    ("scale=q&sort=zz&role=%3Cb%3E&pin=99&layer=0", ["scale “q”", "sort “zz”", "role “<b>”", "pin “99”"], {"layer": 0}),
    ("ref=board&fbclid=a1&utm_source=b&__sign=c&layer=0&head=1", [], {"layer": 0, "head": 1}),  # those who hand links on add such names
)


def test_what_is_nothing_of_ours_leaves_the_address(open_page: Open) -> None:
    page = linked(open_page, "lang=xx&scale=q&sort=zz&role=zz&pin=99&layer=0&head=1&ref=board&__sign=c")
    note = page.locator("[data-left-out]")
    for part in ("language “xx”", "scale “q”", "sort “zz”", "role “zz”", "pin “99”"):
        expect(note).to_contain_text(part)
    page.wait_for_function("!/scale|sort|role|pin|lang/.test(location.search)")
    assert query(page) == {"layer": "0", "head": "1", "ref": "board", "__sign": "c"}
    page.locator("[data-lang=zh]").click()
    pick(page, "units", "整词")
    page.wait_for_function("location.search.includes('units=words')")
    assert query(page)["lang"] == "zh"


def test_a_translation_of_ones_own_that_is_refused_is_not_in_the_address(open_page: Open) -> None:
    page = open_page()
    page.locator("#given-toggle button").click()
    field = page.locator("#given textarea")
    field.fill("Je vous aime")
    field.press("Enter")
    expect(page.locator("#result .badge")).to_have_text("given")
    expect_query(page, given="Je vous aime")
    field.fill("y " * 600)
    field.press("Enter")
    expect(page.locator("#notice [role=alert]")).to_be_visible()
    page.wait_for_timeout(800)
    assert query(page) == {"lang": "en", "given": "Je vous aime"}  # as the screen
    page.locator("[data-back]").click()
    expect(page.locator("#result .badge")).not_to_have_text("given")
    expect_query(page)
    field.press("Enter")
    expect(page.locator("#notice [role=alert]")).to_be_visible()
    page.wait_for_timeout(800)
    page.evaluate("atlas.link()")  # writes the address
    assert query(page) == {"lang": "en"}
    expect(field).to_have_value("y " * 600)


@pytest.mark.parametrize(("search", "said", "kept"), HOSTILE)
def test_what_cannot_be_used_is_left_out_and_the_rest_stays(open_page: Open, search: str, said: list[str], kept: dict) -> None:
    page = linked(open_page, f"lang=en&{search}")
    note = page.locator("[data-left-out]")
    for part in said:
        expect(note).to_contain_text(part)
    if not said:
        page.wait_for_timeout(600)
        expect(note).to_be_hidden()
    for name, value in kept.items():
        page.wait_for_function("([name, value]) => atlas.state[name] === value", arg=[name, value])
    if said:
        note.get_by_role("button").click()
        expect(note).to_be_hidden()
    page.locator("#sentence textarea").fill("I love you.")  # the page goes on
    wait_for_words(page, "aime")
    page.wait_for_function("new URLSearchParams(location.search).get('text') === 'I love you.'")


def test_a_script_in_the_text_is_only_text(open_page: Open) -> None:
    text = '"><script>window.broken=1</script><img src=x onerror="window.broken=1"> ${window.broken=1}'
    model = quote("<img src=x onerror=alert(1)>")
    page = linked(open_page, f"lang=en&text={quote(text)}&head=<script>window.broken=1</script>&model={model}")
    wait_for_words(page, "WINDOW.BROKEN")
    expect(page.locator("#sentence textarea")).to_have_value(text)
    expect(page.locator("[data-left-out]")).to_contain_text("head “<script>window.broken=1</script>”")
    assert page.evaluate("window.broken") is None
    assert page.locator("#share script, #share img, #result script, #result img").count() == 0


def test_another_model_is_loaded_with_its_target_and_translation(models_site: str, open_page: Open, gate: Gate) -> None:
    search = urlencode({"lang": "en", "text": "I love you.", "model": ROMANCE, "target": "it", "layer": 3, "head": 5})
    page = linked(open_page, search, url=models_site)
    page.wait_for_function("atlas.result()?.request.model.endsWith('ROMANCE')")
    assert page.evaluate("[atlas.result().request.target, atlas.state.layer, atlas.state.head]") == ["it", 3, 5]
    expect(page.locator("#notice [role=alert]")).to_be_hidden()
    expect_query(page, text="I love you.", model=ROMANCE, target="it", layer=3, head=5)
    choose(page, ARABIC)
    page.wait_for_function("atlas.result().request.model.endsWith('en-ar')")
    page.wait_for_function("location.search.includes('opus-mt-en-ar') && !location.search.includes('target')")


def test_a_model_that_there_is_not_leaves_the_rest(models_site: str, open_page: Open) -> None:
    search = urlencode({"lang": "en", "text": "I love you.", "model": "Helsinki-NLP/opus-mt-en-nowhere", "units": "words"})
    page = linked(open_page, search, url=models_site)
    wait_for_words(page, "aime")
    expect(page.locator("#models [data-problem]")).to_contain_text("nowhere")
    assert page.evaluate("[atlas.state.model, atlas.state.units]") == ["embedded", "words"]
    expect(page.locator("#notice [role=alert]")).to_be_hidden()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_model_that_is_not_let_in_is_named_whatever_tab_the_link_leads_to(models_site: str, open_page: Open, lang: str) -> None:
    name = "evil/<img/src=x/onerror=window.broken=1>"
    search = urlencode({"lang": lang, "text": "I love you.", "model": name, "tab": "machine"})
    page = linked(open_page, search, url=models_site)
    note = page.locator("[data-link-note] [role=status]")
    expect(note).to_be_visible()
    expect(note).to_contain_text(say(lang, "link.part", name=say(lang, "link.name.model"), value=name))
    expect(note).to_contain_text(say(lang, "error.model_id", model=name))  # why
    assert page.locator("[data-link-note] img").count() == 0 and page.evaluate("window.broken") is None
    page.locator("[data-link-note] button").click()
    expect(note).to_be_hidden()
    page.locator("#tab-translate-button").click()
    choose(page, ARABIC)  # a visitor's own wish is no link's
    page.wait_for_function("atlas.state.model.endsWith('en-ar')")
    expect(note).to_be_hidden()


def test_copy_link(open_page: Open) -> None:
    page = open_page(fresh=True)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate("history.replaceState(null, '', location.href + '&__sign=secret&utm=1')")
    pick(page, "layers", "0")
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("[data-share-said]")).to_have_text("Link copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert "layer=0" in copied and "lang=en" in copied and "secret" not in copied and "utm" not in copied
    assert "__sign=secret" in page.url  # what the host added stays in its own address


def test_a_link_can_be_copied_by_hand_where_the_clipboard_is_denied(open_page: Open) -> None:
    page = open_page()
    page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('denied')); }")
    page.get_by_role("button", name="Copy link").click()
    field = page.locator("[data-by-hand]")
    expect(field).to_be_focused()
    assert field.input_value().startswith("http") and page.evaluate("getSelection().toString()") == field.input_value()
    expect(page.locator("[data-share-said]")).to_contain_text("copy it by hand")


def test_a_text_too_long_for_an_address_is_left_out_of_it(open_page: Open) -> None:
    page = open_page(fresh=True)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#sentence textarea").fill("字" * 900)
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator("[data-share-said]")).to_contain_text("too long for a link")
    assert "text=" not in page.url and len(page.url) < 1000


def test_order_and_filters_of_the_heads_are_in_the_address(open_page: Open) -> None:
    page = linked(open_page, "lang=en&tab=heads&order=start&rising=1&kinds=cross,encoder_self&roles=mixed")
    page.wait_for_selector("[data-sheet=order]")
    wanted = {"order": "start", "down": False, "kinds": ["cross", "encoder_self"], "roles": ["mixed"], "basis": "sentence"}
    assert page.evaluate("atlas.state.heads") == wanted
    assert page.locator("[data-sheet=order]").input_value() == "start"
    page.locator("[data-sheet=direction]").click()
    expect_query(page, tab="heads", order="start", kinds="cross,encoder_self", roles="mixed")
    page.locator("[data-sheet=order]").select_option("place")
    expect_query(page, tab="heads", kinds="cross,encoder_self", roles="mixed")


def test_an_order_and_filters_that_there_are_not_are_left_out_and_said(open_page: Open) -> None:
    page = linked(open_page, "lang=en&tab=heads&order=beauty&kinds=cross,nonsense&roles=%3Cb%3E&basis=everything&rising=maybe")
    page.wait_for_selector("[data-sheet=order]")
    page.wait_for_function("atlas.leftOut.all().length >= 5")
    assert page.evaluate("atlas.state.heads") == {"order": "place", "down": True, "kinds": ["cross"], "roles": [], "basis": "sentence"}
    assert sorted(name for name, _ in page.evaluate("atlas.leftOut.all()")) == ["basis", "kinds", "order", "rising", "roles"]
    expect(page.locator("[data-left-out]")).to_contain_text("beauty")
