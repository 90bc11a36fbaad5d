"""Step by step in a browser, on the embedded model."""

from __future__ import annotations

from playwright.sync_api import expect


def test_the_tab_says_what_it_is_about(open_real) -> None:
    expect(open_real("steps").locator("#steps-head h2")).to_have_text("How is one row computed?")
    expect(open_real("machine", lang="zh").locator("#machine-head h2")).to_have_text("它是怎样搭成的？")
