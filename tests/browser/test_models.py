"""The model box in a browser: pick, wait, two visitors, right to left, other sizes on both tabs."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import expect

from model.marian.weights import LoadWarning
from model.pool import ModelPool
from tests.browser.conftest import NARROW, WIDE, Gate, Open, choose, figure, targets, type_id, wait_for_words, wait_until_drawn
from tests.programs import program
from tests.viz.fakes import ARABIC, GERMAN, ROMANCE
from viz.text import LANGUAGES

EN, ZH = LANGUAGES["en"], LANGUAGES["zh"]


def test_another_model_translates_the_sentence_that_is_there(models_site: str, open_page: Open) -> None:
    page = open_page(url=models_site)
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "aime")
    before = figure(page)["drawn"]
    choose(page, ARABIC)
    wait_for_words(page, "أحبك")
    wait_until_drawn(page, before)
    expect(page.locator("#sentence textarea")).to_have_value("I love you.")
    expect(page.locator("[data-model]")).to_have_text("opus-mt-en-ar")
    assert targets(page) == ["Arabic"]
    expect(page.locator("#models [data-status]")).to_contain_text(
        "revision 5e1f5e1 · 1 + 4 layers, 2 / 6 heads, width 48 · rules of decoding that are not applied here: min_length"
    )
    expect(page.locator("#result .status")).to_contain_text("opus-mt-en-ar · 5e1f5e1")
    # its own numbers of layers and heads, each kind apart
    expect(page.locator("[data-layers] label")).to_have_count(4)
    expect(page.locator("[data-heads] label")).to_have_count(6 + 4)
    before = figure(page)["drawn"]
    page.locator("[data-kinds] label", has_text="Encoder").click()
    wait_until_drawn(page, before)
    expect(page.locator("[data-layers] label")).to_have_count(1)
    # and back
    choose(page, "embedded")
    wait_for_words(page, "aime")
    assert targets(page) == ["French", "Chinese"]
    expect(page.locator("[data-model]")).to_have_text("embedded")


def test_a_map_that_the_next_model_lacks_becomes_its_last(models_site: str, open_page: Open) -> None:
    page = open_page(url=models_site)
    heading = page.locator("#map-head h2")

    def shows(kind: str, layer: int, head: int, name: str) -> None:
        expect(heading).to_have_text(f"{name} · layer {layer} · head {head}")
        page.wait_for_function(
            """([kind, layer, head]) => {
              const {map} = atlas.shown;
              return map.kind === kind && map.layer === layer && map.head === head && !atlas.isUnanswered();
            }""",
            arg=[kind, layer, head],
        )
        expect(page.locator("#notice [role=alert]")).to_be_hidden()

    choose(page, ARABIC)
    wait_for_words(page, "طالب")
    page.locator("[data-layers] label").nth(3).click()
    page.locator("[data-heads] label").nth(4 + 5).click()
    shows("cross", 3, 5, "Cross-attention")
    choose(page, "embedded")  # two decoder layers of three heads
    wait_for_words(page, "étudiant")
    shows("cross", 1, 2, "Cross-attention")
    page.locator("[data-kinds] label", has_text="Encoder").click()
    page.locator("[data-layers] label").nth(2).click()
    page.locator("[data-heads] label").nth(4 + 3).click()
    shows("encoder_self", 2, 3, "Encoder self-attention")
    choose(page, ARABIC)  # one encoder layer of two heads
    wait_for_words(page, "طالب")
    shows("encoder_self", 0, 1, "Encoder self-attention")
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "أحبك")


def test_a_model_with_another_table_of_positions_is_not_told_as_sines(models_site: str, open_page: Open, pool: ModelPool) -> None:
    known = pool.get(ARABIC)
    known.warnings = (LoadWarning("own_positions", "1.4"),)
    page = open_page(url=models_site)
    choose(page, ARABIC)
    expect(page.locator("#models [data-status]")).to_contain_text("table of positions is up to 1.4 away")
    page.locator("#tab-positions-button").click()
    head = page.locator("#positions-head [data-layout]")
    expect(head).to_have_text(f"{EN['positions.layout.halves']} {EN['positions.own'].format(difference='1.4')}")
    page.locator("[data-lang=zh]").click()
    expect(head).to_have_text(ZH["positions.layout.halves"] + ZH["positions.own"].format(difference="1.4"))


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_arabic_reads_from_right_to_left(models_site: str, open_page: Open, size: tuple[int, int]) -> None:
    page = open_page(size, url=models_site)
    choose(page, ARABIC)
    wait_for_words(page, "طالب")
    line = page.locator("#result .words")
    assert line.evaluate("(node) => getComputedStyle(node).direction") == "rtl"
    expect(line).to_have_attribute("lang", "ar")
    first, second = (line.locator(".word").nth(i).bounding_box() for i in range(2))
    assert first["x"] > second["x"]  # the first word stands at the right
    frame = line.bounding_box()
    assert frame["x"] + frame["width"] - (first["x"] + first["width"]) < 12
    assert figure(page)["rows"] == ["▁أنا", "▁طالب", ".", "</s>"]
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_how_far_a_load_is_and_that_the_page_goes_on_meanwhile(models_site: str, open_page: Open, gate: Gate) -> None:
    gate.waiting[ARABIC] = threading.Event()
    page = open_page(url=models_site)
    choose(page, ARABIC)
    status = page.locator("#models [data-status]")
    expect(status).to_have_text("Downloading opus-mt-en-ar: 150 of 300 MB")
    expect(page.locator("[data-model]")).to_have_text("opus-mt-en-ar 50%")
    page.locator("[data-lang=zh]").click()
    expect(status).to_have_text("正在下载 opus-mt-en-ar：150 / 300 MB")
    page.locator("[data-lang=en]").click()
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "aime")  # the former model still works
    gate.waiting[ARABIC].set()
    wait_for_words(page, "أحبك")
    expect(page.locator("[data-bar]")).to_be_hidden()


def test_programs_that_wait_for_a_slow_download_block_no_page(models_site: str, open_page: Open, gate: Gate) -> None:
    gate.waiting[ARABIC] = threading.Event()
    page = open_page(url=models_site)
    calls = [program(models_site).submit(ARABIC, api_name="/load_model") for _ in range(10)]
    try:
        choose(page, ARABIC)
        expect(page.locator("#models [data-status]")).to_have_text("Downloading opus-mt-en-ar: 150 of 300 MB")
        choose(page, GERMAN)
        expect(page.locator("[data-model]")).to_have_text("opus-mt-de-en")
        for _ in range(300):
            if sum(call.done() for call in calls) == 6:  # four may wait, the others are told so
                break
            page.wait_for_timeout(100)
        assert sum(call.done() for call in calls) == 6
    finally:
        gate.waiting[ARABIC].set()
    found = [call.exception(timeout=30) or call.result() for call in calls]
    assert [each["targets"] for each in found if isinstance(each, dict)] == [["ara"]] * 4
    refusals = [each for each in found if not isinstance(each, dict)]
    assert [each for each in refusals if "Try again in a minute" not in str(each)] == []


def test_the_last_model_asked_for_is_the_one(models_site: str, open_page: Open, gate: Gate, pool: ModelPool) -> None:
    gate.waiting[ARABIC] = threading.Event()
    page = open_page(url=models_site)
    choose(page, ARABIC)
    expect(page.locator("#models [data-status]")).to_contain_text("150 of 300")
    type_id(page, ROMANCE)
    wait_for_words(page, "iAMASTUDENT.")
    gate.waiting[ARABIC].set()
    page.wait_for_timeout(1200)
    expect(page.locator("[data-model]")).to_have_text("opus-mt-en-ROMANCE")
    assert ARABIC in pool.names()  # it is there for the next one who asks


def test_any_id_can_be_typed_and_many_targets_are_a_list(models_site: str, open_page: Open) -> None:
    page = open_page(url=models_site)
    type_id(page, " opus-mt-en-ROMANCE ")
    expect(page.locator("[data-model]")).to_have_text("opus-mt-en-ROMANCE")
    many = page.locator("[data-many-targets]")
    expect(many).to_be_visible()
    expect(page.locator("[data-targets]")).to_be_hidden()
    assert many.locator("option").all_inner_texts()[:3] == ["French", "Spanish", "Italian"]
    before = figure(page)["drawn"]
    many.select_option("it")
    wait_until_drawn(page, before)
    expect(page.locator("#result [data-language]")).to_have_text("Italian")


def test_the_box_is_named_by_the_language_it_wants(models_site: str, open_page: Open) -> None:
    page = open_page(url=models_site)
    box = page.locator("#sentence textarea")
    choose(page, GERMAN)
    expect(box).to_have_attribute("placeholder", "Type a sentence in German…")
    expect(page.locator("#sentence-hint")).to_contain_text("German · type any sentence")
    expect(page.locator("[data-examples] .example").first).to_have_text("Ich bin Student.")
    page.locator("[data-lang=zh]").click()
    expect(box).to_have_attribute("aria-label", "德语句子")
    page.locator("[data-examples] .example").first.click()
    wait_for_words(page, "iCHBINsTUDENT.")
    choose(page, "embedded")
    expect(box).to_have_attribute("placeholder", "输入一句英文……")
    expect(page.locator("[data-examples] .example").first).to_have_text("I am a student.")


def test_two_visitors_use_different_models_at_once(models_site: str, open_page: Open) -> None:
    one, two = open_page(url=models_site), open_page(url=models_site)
    choose(one, ARABIC)
    wait_for_words(one, "طالب")
    two.locator("#sentence textarea").fill("I love you.")
    wait_for_words(two, "aime")
    expect(two.locator("[data-model]")).to_have_text("embedded")
    one.locator("#sentence textarea").fill("I love you.")
    wait_for_words(one, "أحبك")
    before = figure(two)["drawn"]
    two.locator("[data-heads] label", has_text="1").first.click()
    wait_until_drawn(two, before)
    assert figure(two)["rows"][0] == "▁Je" and figure(one)["rows"][0] == "▁أنا"


def test_positions_follow_the_model(models_site: str, open_page: Open) -> None:
    page = open_page(url=models_site)
    page.get_by_role("tab", name="Positions").click()
    page.wait_for_selector("#positions-waves .main-svg")
    expect(page.locator("[data-layout]")).to_contain_text("interleaved")
    page.get_by_role("tab", name="Translate").click()
    choose(page, ARABIC)
    wait_for_words(page, "طالب")
    page.get_by_role("tab", name="Positions").click()
    page.wait_for_function("document.querySelector('#positions-table .plot')._fullData[0].z[0].length === 48")
    expect(page.locator("[data-layout]")).to_contain_text("halves")
    expect(page.locator("[data-heat-caption]")).to_contain_text("The left half holds all sines")
    expect(page.locator("[data-pairs] label").first).to_have_text("0 · 24")
    expect(page.locator("#positions-length")).to_have_attribute("max", "64")
    expect(page.locator("#positions-notice [role=alert]")).to_be_hidden()


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_open_box_fits_a_phone_and_works_by_keyboard(models_site: str, open_page: Open, theme: str, lang: str) -> None:
    page = open_page(NARROW, theme, lang, url=models_site)
    button = page.locator("[data-model]")
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(page.locator("#models-panel")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    page.locator(f'.entry[value="{ARABIC}"]').focus()
    page.keyboard.press("Enter")
    wait_for_words(page, "طالب")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#models-panel")).to_be_hidden()
