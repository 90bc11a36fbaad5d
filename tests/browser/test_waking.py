"""A server that sleeps, is started anew, or is one of several, behind a proxy: the open page goes on."""

from __future__ import annotations

from playwright.sync_api import Page, expect

import app
from tests.browser.conftest import Ignored, Open, serve, wait_for_words
from tests.browser.proxy import Proxy, serve_proxy
from tests.viz.fakes import FakeTranslator, recorded_run


def type_sentence(page: Page, text: str) -> None:
    page.locator("#sentence textarea").fill(text)


def test_a_page_open_while_the_server_slept_goes_on_by_itself(open_page: Open, site: str) -> None:
    """As on a Space: the first request wakes it up, and until it is awake something else answers."""
    with serve_proxy(Proxy([site])) as proxy:
        page = open_page(url=proxy.url)
        open_page.guards[-1].complaints = Ignored()  # the browser itself logs the refused requests
        page.locator("#given-toggle button").click()
        page.locator("#given textarea").fill("Half a translation")
        proxy.asleep = True
        type_sentence(page, "Is anybody awake?")
        alert = page.locator("#notice [role=alert]")
        expect(alert).to_be_visible(timeout=30_000)
        page.wait_for_timeout(6000)  # every way in which the page gives up is gone
        proxy.asleep = False
        wait_for_words(page, "iSANYBODYAWAKE?")
        expect(alert).to_be_hidden()
        expect(page.locator("#sentence textarea")).to_have_value("Is anybody awake?")
        expect(page.locator("#given textarea")).to_have_value("Half a translation")


def test_a_page_that_asked_nothing_meanwhile_does_not_notice_another_server(open_page: Open, site: str) -> None:
    translator = FakeTranslator()
    other = app.build_app(translator, recorded_run(translator))
    try:
        with serve_proxy(Proxy([site])) as proxy:
            page = open_page(url=proxy.url)
            page.locator("#given-toggle button").click()
            page.locator("#given textarea").fill("Half a translation")
            proxy.servers[0] = serve(other)
            type_sentence(page, "Who are you?")
            wait_for_words(page, "wHOAREYOU?")
            expect(page.locator("#given textarea")).to_have_value("Half a translation")
            assert translator.calls > 1
    finally:
        other.close()


def test_several_servers_behind_a_proxy_that_keeps_a_visitor_at_one(open_page: Open, site: str) -> None:
    translator = FakeTranslator()
    other = app.build_app(translator, recorded_run(translator))
    try:
        with serve_proxy(Proxy([site, serve(other)], sticky=True)) as proxy:
            first, second = open_page(url=proxy.url), open_page(url=proxy.url)
            before = translator.calls
            for page, text in ((first, "To the one"), (second, "To the other")):
                type_sentence(page, text)
                wait_for_words(page, text.swapcase().replace(" ", ""))
            assert translator.calls > before
    finally:
        other.close()


