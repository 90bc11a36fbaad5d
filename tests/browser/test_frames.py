"""The page inside a page of another origin, as a Space is shown: without cookies, storage or clipboard; still the whole app."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, FrameLocator, expect

from tests.browser.proxy import Proxy, serve_proxy

HOST = '<!doctype html><title>Host</title><iframe {sandbox} src="{url}/?lang=en" style="width: 1400px; height: 860px"></iframe>'
# What a browser does that lets a frame of another origin store nothing.
BLOCKED = """
for (const name of ["localStorage", "sessionStorage"])
  Object.defineProperty(window, name, {get() { throw new DOMException("denied", "SecurityError"); }});
Object.defineProperty(document, "cookie", {get() { return ""; }, set() {}});
"""


@pytest.mark.parametrize("sandbox", ["", 'sandbox="allow-scripts allow-forms allow-popups allow-downloads"'])
def test_in_a_frame_of_another_origin(browser: Browser, site: str, sandbox: str) -> None:
    complaints: list[str] = []
    # Two sites for the browser; Gradio lets no other origin at a server that is called by a name of this machine alone. A sandbox without
    # allow-same-origin is an origin of its own and has no storage at all.
    url = site.replace("127.0.0.1", "space.localhost")
    with serve_proxy(Proxy([], pages={"/": HOST.format(sandbox=sandbox, url=url)})) as host:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
        context.set_default_timeout(60_000)
        try:
            page = context.new_page()
            if not sandbox:
                page.add_init_script(BLOCKED)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.goto(host.url)
            frame = page.frame_locator("iframe")
            use(frame)
            inner = page.frames[1]
            denied = inner.evaluate("() => { try { localStorage.length; return false; } catch { return true; } }")
            assert denied, "the test has not blocked the storage"
        finally:
            context.close()
    assert complaints == []


def use(frame: FrameLocator) -> None:
    expect(frame.locator("#map .main-svg").first).to_be_attached(timeout=60_000)
    frame.locator("#sentence textarea").fill("In a frame")
    expect(frame.locator("#result .words")).to_contain_text("iN")
    frame.locator("[data-kinds] label").nth(1).click()
    expect(frame.locator("#map-head h2")).not_to_contain_text("Cross")
    frame.locator("[data-lang=zh]").click()
    expect(frame.locator("#tab-translate-button")).not_to_contain_text("Translate")
    frame.locator("[data-lang=en]").click()
    for tab in ("heads", "positions", "machine"):
        frame.locator(f"#tab-{tab}-button").click()
        expect(frame.locator(f"#tab-{tab}")).to_be_visible()
    frame.locator("#tab-translate-button").click()
