"""The model box in a browser: pick, wait, fail, two visitors, right to left, other sizes on both tabs."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from gradio_client import Client
from playwright.sync_api import Page, expect

import app
from model.errors import UnknownRepositoryError
from model.pool import ModelPool
from tests.browser.conftest import NARROW, WIDE, Open, figure, serve, wait_for_words, wait_until_drawn
from tests.viz.fakes import ARABIC, GERMAN, ROMANCE, FakeTranslator, recorded_run, shelf


class Gate:
    """Lets the loading of one model wait."""

    def __init__(self) -> None:
        self.waiting: dict[str, threading.Event] = {}
        self.first: threading.Event | None = None  # waited for before anything, a failure too

    def load(self, name, revision, progress, max_bytes):
        if self.first is not None:
            assert self.first.wait(120)
        translator = shelf(name, revision, progress, max_bytes)
        if name in self.waiting:
            assert self.waiting[name].wait(120)
        return translator


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def pool(gate: Gate) -> ModelPool:
    return ModelPool(gate.load, 10_000)


@pytest.fixture
def models_site(translator: FakeTranslator, pool: ModelPool) -> Iterator[str]:
    """Named before `open_page` by every test, so that it outlives the pages."""
    demo = app.build_app(translator, recorded_run(translator), pool=pool)
    yield serve(demo)
    demo.close()


def choose(page: Page, name: str) -> None:
    if page.locator("[data-model]").get_attribute("aria-expanded") == "false":
        page.locator("[data-model]").click()
    page.locator(f'.entry[value="{name}"]').click()


def targets(page: Page) -> list[str]:
    return page.locator("[data-targets] label").all_inner_texts()


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
    expect(page.locator("[data-heads] label")).to_have_count(6 + 2)
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
    page.locator("[data-heads] label").nth(2 + 5).click()
    shows("cross", 3, 5, "Cross-attention")
    choose(page, "embedded")  # two decoder layers of three heads
    wait_for_words(page, "étudiant")
    shows("cross", 1, 2, "Cross-attention")
    page.locator("[data-kinds] label", has_text="Encoder").click()
    page.locator("[data-layers] label").nth(2).click()
    page.locator("[data-heads] label").nth(2 + 3).click()
    shows("encoder_self", 2, 3, "Encoder self-attention")
    choose(page, ARABIC)  # one encoder layer of two heads
    wait_for_words(page, "طالب")
    shows("encoder_self", 0, 1, "Encoder self-attention")
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "أحبك")


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
    program = Client(models_site, verbose=False)
    calls = [program.submit(ARABIC, api_name="/load_model") for _ in range(10)]
    try:
        choose(page, ARABIC)
        expect(page.locator("#models [data-status]")).to_have_text("Downloading opus-mt-en-ar: 150 of 300 MB")
        assert not any(call.done() for call in calls)
        choose(page, GERMAN)
        expect(page.locator("[data-model]")).to_have_text("opus-mt-de-en")
    finally:
        gate.waiting[ARABIC].set()
    assert [call.result(timeout=30)["targets"] for call in calls] == [["ara"]] * 10


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


def type_id(page: Page, name: str) -> None:
    if page.locator("[data-model]").get_attribute("aria-expanded") == "false":
        page.locator("[data-model]").click()
    page.locator("#models [data-id]").fill(name)
    page.locator("#models [data-id]").press("Enter")


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


TROUBLE = (
    ("<img src=x onerror=alert(1)>", "is not a model's id"),
    ("somebody/opus-mt-en-de", "models of these owners are: Helsinki-NLP"),
    ("Helsinki-NLP/opus-mt-xx-yy", "The hub has no model Helsinki-NLP/opus-mt-xx-yy"),
)


def test_what_cannot_be_loaded_is_said_and_the_former_model_stays(models_site: str, open_page: Open) -> None:
    page = open_page(url=models_site)
    choose(page, ARABIC)
    wait_for_words(page, "طالب")
    problem = page.locator("#models [data-problem]")
    for name, message in TROUBLE:
        type_id(page, name)
        expect(problem).to_contain_text(message)
        expect(page.locator("[data-model]")).to_have_text("opus-mt-en-ar")
        assert page.locator("#models img").count() == 0
    page.locator("[data-lang=zh]").click()
    expect(problem).to_contain_text("模型库里没有公开的")
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "أحبك")
    choose(page, GERMAN)
    expect(page.locator("[data-model]")).to_have_text("opus-mt-de-en")
    expect(problem).to_be_hidden()


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


def test_a_model_put_away_for_others_comes_back_by_itself(models_site: str, open_page: Open, pool: ModelPool) -> None:
    page = open_page(url=models_site)
    choose(page, ARABIC)
    wait_for_words(page, "طالب")
    pool._models.clear()
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "أحبك")
    expect(page.locator("#notice [role=alert]")).to_be_hidden()
    assert pool.names() == (ARABIC,)


def test_a_model_that_does_not_come_back_leaves_the_page_with_the_embedded_one(models_site: str, open_page: Open) -> None:
    page = open_page(url=models_site)
    # what a page keeps when the server goes away; the new server cannot load that model
    kept = {"model": "Helsinki-NLP/opus-mt-en-gone", "target": "ara", "beam_size": 4, "kind": "cross", "layer": 3, "head": 5}
    kept |= {"rows": "predicted", "forced": False, "sentence": "I love you.", "given": ""}
    page.evaluate("(kept) => sessionStorage.setItem('attention-atlas', JSON.stringify(kept))", kept)
    page.reload()
    problem = page.locator("#models [data-problem]")
    expect(problem).to_be_visible()
    expect(problem).to_contain_text("The hub has no model Helsinki-NLP/opus-mt-en-gone")
    expect(problem).to_contain_text("back with the embedded model")
    wait_for_words(page, "aime")
    expect(page.locator("#sentence textarea")).to_have_value("I love you.")
    expect(page.locator("[data-model]")).to_have_text("embedded")
    expect(page.locator("#notice [role=alert]")).to_be_hidden()
    expect(page.locator("#map-head h2")).to_have_text("Cross-attention · layer 1 · head 2")
    assert targets(page) == ["French", "Chinese"]
    page.locator("#sentence textarea").fill("I am a student.")
    wait_for_words(page, "étudiant")
    choose(page, ARABIC)
    wait_for_words(page, "طالب")
    expect(problem).to_be_hidden()


def test_a_model_put_away_that_cannot_be_fetched_back(models_site: str, open_page: Open, pool: ModelPool, monkeypatch) -> None:
    page = open_page(url=models_site)
    choose(page, ARABIC)
    wait_for_words(page, "طالب")
    page.locator("[data-model]").click()
    expect(page.locator("#models-panel")).to_be_hidden()

    def gone(name: str, *rest: object) -> None:
        raise UnknownRepositoryError(name)

    monkeypatch.setattr(pool, "_load", gone)
    pool._models.clear()
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "aime")
    expect(page.locator("#models [data-problem]")).to_contain_text("back with the embedded model")
    expect(page.locator("#models-panel")).to_be_visible()
    expect(page.locator("[data-model]")).to_have_text("embedded")


def test_a_load_that_fails_behind_a_closed_box_opens_it(models_site: str, open_page: Open, gate: Gate) -> None:
    name = "Helsinki-NLP/opus-mt-xx-yy"
    gate.first = threading.Event()
    page = open_page(url=models_site)
    type_id(page, name)
    expect(page.locator("[data-model]")).to_contain_text("opus-mt-xx-yy")
    page.locator("[data-model]").click()
    expect(page.locator("#models-panel")).to_be_hidden()
    gate.first.set()
    expect(page.locator("#models [data-problem]")).to_be_visible()
    expect(page.locator("#models [data-problem]")).to_contain_text(f"The hub has no model {name}")
    expect(page.locator("#models [data-problem]")).not_to_contain_text("embedded")
    expect(page.locator("[data-model]")).to_have_attribute("aria-expanded", "true")
    expect(page.locator("[data-model]")).to_have_text("embedded")


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
