"""The page when things go wrong: no server, answers that cross, messages that stand, old pictures under new text."""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

import app
from model.errors import CheckpointMissingError
from tests.browser.conftest import Ignored, Open, figure, serve, wait_for_words, wait_until_drawn
from tests.viz.fakes import FakeTranslator

ROOT = Path(__file__).resolve().parents[2]
SERVER = """
import os, sys
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
import app
from tests.viz.fakes import FakeTranslator, recorded_run
from viz import page
translator = FakeTranslator()
options = page.launch_options() | {"server_name": "127.0.0.1", "server_port": int(sys.argv[1])}
app.build_app(translator, recorded_run(translator)).launch(**options)
"""


@pytest.fixture
def start_server() -> Iterator[Callable[[], subprocess.Popen]]:
    """start_server() -> a server process of its own, that can be killed; always on the same port (start_server.url)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started: list[subprocess.Popen] = []

    def start() -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(port)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        started.append(process)
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{start.url}/gradio_api/app_id", timeout=5).close()
                return process
            except OSError:
                time.sleep(0.2)
        raise TimeoutError("the server did not start")

    start.url = f"http://127.0.0.1:{port}"
    yield start
    for process in started:
        process.kill()
        process.wait()


def type_sentence(page: Page, text: str) -> None:
    page.locator("#sentence textarea").fill(text)


def pick(page: Page, group: str, label: str) -> None:
    page.locator(f"[data-{group}] label", has_text=label).first.click()


@pytest.fixture
def slow(translator: FakeTranslator, monkeypatch: pytest.MonkeyPatch) -> None:
    """A translation takes a second and a half."""
    quick = translator.translate

    def translate(*args: object, **kwargs: object) -> object:
        time.sleep(1.5)
        return quick(*args, **kwargs)

    monkeypatch.setattr(translator, "translate", translate)


def test_a_dead_server_is_said_and_what_was_written_survives_its_return(open_page: Open, start_server: Callable) -> None:
    server = start_server()
    page = open_page(url=start_server.url)
    open_page.guards[-1].complaints = Ignored()  # the browser itself logs the refused requests
    alert = page.locator("#notice [role=alert]")
    server.kill()
    server.wait()
    pick(page, "heads", "1")  # all maps are here: another one needs no server
    expect(page.locator("#map-head h2")).to_have_text("Cross-attention · layer 1 · head 1")
    expect(alert).to_be_hidden()
    pick(page, "beams", "1")
    expect(alert).to_contain_text("does not answer")
    expect(page.locator("body.atlas-working")).to_have_count(0)
    page.locator("[data-lang=zh]").click()
    expect(alert).to_contain_text("没有回应")

    type_sentence(page, "Is anybody there?")
    pick(page, "kinds", "编码器")
    pick(page, "beams", "2")
    expect(page.locator("body.atlas-working")).to_have_count(1)
    expect(page.locator("body.atlas-working")).to_have_count(0)
    expect(alert).to_be_visible()
    with page.expect_event("load", timeout=60_000):
        start_server()
    wait_for_words(page, "iSANYBODYTHERE?")
    expect(page.locator("#sentence textarea")).to_have_value("Is anybody there?")
    expect(page.locator("[data-beams] label", has_text="2").locator("input")).to_be_checked()
    expect(page.locator("#map-head h2")).to_have_text("编码器自注意力 · 第 1 层 · 头 1")
    page.wait_for_function("document.querySelector('#map .plot').layout?.meta.kind === 'encoder_self'")
    expect(alert).to_be_hidden()
    page.reload()  # what the address holds is there again
    page.wait_for_selector("#map .main-svg")
    wait_for_words(page, "iSANYBODYTHERE?")
    expect(page.locator("#sentence textarea")).to_have_value("Is anybody there?")
    expect(page.locator("#map-head h2")).to_have_text("编码器自注意力 · 第 1 层 · 头 1")


def test_a_slow_answer_is_not_a_lost_server(open_page: Open, slow: None) -> None:
    page = open_page()
    for text in ("One slow answer.", "Another slow answer.", "The last slow answer."):
        type_sentence(page, text)
        page.wait_for_timeout(700)
        expect(page.locator("#notice [role=alert]")).to_be_hidden()
    wait_for_words(page, "tHELASTSLOWANSWER")
    expect(page.locator("#notice [role=alert]")).to_be_hidden()


def test_the_last_action_wins_between_the_models_translation_and_ones_own(open_page: Open, slow: None) -> None:
    page = open_page()
    page.locator("#given-toggle button").click()
    page.locator("#given textarea").fill("Bonjour le monde.")
    type_sentence(page, "A first sentence that takes its time.")
    page.wait_for_timeout(700)
    type_sentence(page, "I am happy.")
    page.wait_for_timeout(600)
    page.locator("[data-show]").click()
    wait_for_words(page, "Bonjourlemonde.")
    page.wait_for_timeout(2500)
    expect(page.locator("#result .badge")).to_have_text("given")
    expect(page.locator("body.atlas-working")).to_have_count(0)

    # a sentence typed a moment before is not sent after it either
    type_sentence(page, "I am glad.")
    page.locator("[data-show]").click()
    page.wait_for_timeout(2500)
    expect(page.locator("#result .badge")).to_have_text("given")
    assert figure(page)["columns"][3] == "▁glad"


def test_a_drawing_leaves_a_message_that_still_holds(open_page: Open) -> None:
    page = open_page()
    alert = page.locator("#notice [role=alert]")
    type_sentence(page, "")
    expect(alert).to_contain_text("nothing to translate")
    before = figure(page)["drawn"]
    pick(page, "heads", "1")
    wait_until_drawn(page, before)
    page.wait_for_timeout(300)
    expect(alert).to_contain_text("nothing to translate")


def test_an_old_translation_under_new_text_is_dimmed_and_says_whose_it_is(open_page: Open) -> None:
    page = open_page()
    words, heading = page.locator("#result .words"), page.locator("#map-head h2")
    type_sentence(page, "word " * 1000)
    expect(page.locator("#notice [role=alert]")).to_contain_text("1002 tokens")
    expect(words).to_have_css("opacity", "0.45")
    expect(page.locator("#map .plot-frame")).to_have_css("opacity", "0.45")
    expect(page.locator("#result .place")).to_have_text("French · belongs to “I am a student.”")
    expect(page.locator("#result .place")).to_be_visible()
    expect(heading).to_have_text("Cross-attention · layer 1 · mean of 3 heads · belongs to “I am a student.”")
    page.locator("[data-lang=zh]").click()
    expect(page.locator("#result .place")).to_have_text("法语 · 属于“I am a student.”")
    page.locator("[data-lang=en]").click()
    type_sentence(page, "I love you.")
    wait_for_words(page, "aime")
    expect(words).to_have_css("opacity", "1")
    expect(page.locator("#result .place")).to_have_count(0)
    expect(heading).not_to_contain_text("belongs")

    # a message that is not about this text dims nothing
    page.locator("#given-toggle button").click()
    page.locator("[data-show]").click()
    expect(page.locator("#notice [role=alert]")).to_contain_text("Write a translation first")
    expect(words).to_have_css("opacity", "1")
    expect(page.locator("#result .place")).to_have_text("French")


@pytest.mark.parametrize("problem", [CheckpointMissingError("config.json"), None])
def test_without_a_run_nothing_is_said_about_a_map(open_page: Open, problem: CheckpointMissingError | None) -> None:
    demo = app.build_app(None if problem else FakeTranslator(), None, problem)
    try:
        page = open_page(url=serve(demo), picture=False)
        expect(page.locator("#map-area")).to_be_hidden()
        assert "null" not in page.locator("#map-area").text_content()
        assert page.locator("#map-foot .caption").text_content() == ""
        if problem:
            expect(page.locator("#notice [role=alert]")).to_contain_text("config.json is missing")
            expect(page.locator("#result .words")).to_have_text("")
            return
        type_sentence(page, "I love you.")  # a model without the recorded example: the first answer brings the map
        page.wait_for_selector("#map .main-svg")
        expect(page.locator("#map-head h2")).to_have_text("Cross-attention · layer 1 · mean of 3 heads")
    finally:
        demo.close()


def test_a_probability_is_never_rounded_to_a_certainty(open_page: Open, translator: FakeTranslator, monkeypatch) -> None:
    quick = translator.translate
    probabilities = (0.9996, 0.99949, 0.996, 0.9949, 0.004)

    def translate(*args: object, **kwargs: object) -> object:
        return replace(quick(*args, **kwargs), token_log_probs=tuple(map(math.log, probabilities)))

    monkeypatch.setattr(translator, "translate", translate)
    page = open_page()
    type_sentence(page, "How sure is it")
    wait_for_words(page, "hOWSURE")
    assert page.locator("#result .word:not(.special) .word-probability").all_text_contents() == ["100%", "99.9%", "99.6%", "99%"]
