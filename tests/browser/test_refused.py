"""Requests that the server refuses: said on every tab in both languages, sent again by the page itself, nothing typed is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

import app
from tests.browser.conftest import Ignored, Open, wait_for_words
from tests.viz.fakes import FakeTranslator, recorded_run
from viz import limits
from viz import page as page_parts

ALERT = "#notice [role=alert]"
ABOVE = "[data-server-note]"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple]:
    """A server, its Blocks and its gate."""
    gates: list[limits.Gate] = []

    def gate(asgi: Callable) -> limits.Gate:
        gates.append(limits.Gate(asgi))
        return gates[-1]

    translator = FakeTranslator()
    demo = app.build_app(translator, recorded_run(translator))
    options = page_parts.launch_options() | {"server_name": "127.0.0.1", "server_port": None}
    middleware = options["app_kwargs"]["middleware"]
    options["app_kwargs"] |= {"middleware": [(gate, (), {}) if each[0] is limits.Gate else each for each in middleware]}
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    yield url.rstrip("/"), demo, gates[-1]
    demo.close()


@pytest.fixture
def one_at_once(served: tuple) -> None:
    """One translation at once and one in three seconds, by a clock that stands still."""
    served[2].limits = limits.Limits(20, lambda: 100.0)
    served[2].limits._pages.burst = 1


@pytest.fixture
def no_limits(served: tuple) -> None:
    served[2].limits = limits.Limits(0)


@pytest.fixture
def refusing(open_page: Open, served: tuple) -> Page:
    """A page of the server."""
    page = open_page(url=served[0])
    open_page.guards[-1].complaints = Ignored()  # the browser itself logs the refused requests
    return page


def type_sentence(page: Page, text: str) -> None:
    page.locator("#sentence textarea").fill(text)


def tab(page: Page, name: str) -> None:
    page.locator(f"#tab-{name}-button").click()


def test_who_asks_too_often_is_told_when_and_answered_then(refusing: Page, served: tuple, one_at_once: None) -> None:
    page = refusing
    type_sentence(page, "The first one.")
    wait_for_words(page, "HEFIRSTONE")
    type_sentence(page, "The second one.")
    expect(page.locator(ALERT)).to_contain_text("only so often")
    expect(page.locator(ALERT)).to_contain_text("asks again by itself in 3 s")
    expect(page.locator("body.atlas-working")).to_have_count(1)
    tab(page, "machine")
    expect(page.locator(ABOVE)).to_contain_text("asks again by itself")
    page.locator("[data-lang=zh]").click()
    expect(page.locator(ABOVE)).to_contain_text("秒后自动再次请求")
    tab(page, "translate")
    expect(page.locator(ABOVE)).to_be_hidden()
    type_sentence(page, "What I typed while waiting.")
    served[2].limits = limits.Limits(0)
    wait_for_words(page, "TYPEDWHILEWAITING")
    expect(page.locator(ALERT)).to_be_hidden()
    expect(page.locator("#sentence textarea")).to_have_value("What I typed while waiting.")
    expect(page.locator("body.atlas-working")).to_have_count(0)


def test_a_full_queue_is_waited_for(refusing: Page, served: tuple, no_limits: None, monkeypatch) -> None:
    page, queue = refusing, served[1]._queue
    monkeypatch.setattr(queue, "max_size", 0)
    type_sentence(page, "Is there room?")
    expect(page.locator(ALERT)).to_contain_text("more to do than it can take on")
    tab(page, "machine")
    expect(page.locator(ABOVE)).to_contain_text("the page asks again by itself")
    monkeypatch.setattr(queue, "max_size", limits.QUEUE)
    expect(page.locator("#machine-picture .m-picture")).to_be_visible(timeout=30_000)
    tab(page, "translate")
    wait_for_words(page, "STHEREROOM")
    expect(page.locator(ALERT)).to_be_hidden()
    expect(page.locator("body.atlas-working")).to_have_count(0)


def test_a_page_gives_up_at_last_and_asks_anew_when_one_comes_back(refusing: Page, served: tuple, no_limits: None, monkeypatch) -> None:
    page, queue = refusing, served[1]._queue
    monkeypatch.setattr(queue, "max_size", 0)
    page.evaluate("Math.random = () => 0")
    tab(page, "machine")
    expect(page.locator(ABOVE)).to_contain_text("asks again by itself")
    page.evaluate(  # the tries of a minute
        """() => {
          const said = document.querySelector('[data-server-note]');
          for (let i = 0; i < 20 && !said.textContent.includes('in a moment'); i++) atlas.failed('machine');
        }"""
    )
    expect(page.locator(ABOVE)).to_contain_text("try again in a moment")
    expect(page.locator("body.atlas-working")).to_have_count(0)
    page.wait_for_timeout(1500)
    expect(page.locator("#machine-picture .machine.empty")).to_have_count(1)
    monkeypatch.setattr(queue, "max_size", limits.QUEUE)
    tab(page, "translate")
    tab(page, "machine")
    expect(page.locator("#machine-picture .m-picture .m-block").first).to_be_visible(timeout=30_000)
    expect(page.locator(ABOVE)).to_be_hidden()
