"""Models that cannot be loaded, or that leave the server while a page uses them: said in the box, and the page goes on."""

from __future__ import annotations

import threading

from playwright.sync_api import expect

from model.errors import UnknownRepositoryError
from model.pool import ModelPool
from tests.browser.conftest import Gate, Open, choose, targets, type_id, wait_for_words
from tests.viz.fakes import ARABIC, GERMAN

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
