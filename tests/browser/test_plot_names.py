"""Plotly's own gradients and clip paths are found whatever the page's address has become."""

from __future__ import annotations

from tests.browser.conftest import Open, figure, wait_until_drawn

OUTSIDE = """() => [...document.querySelectorAll("#map .plot [clip-path], #map .plot [style*='url(']")]
  .map((node) => node.getAttribute("clip-path") || node.getAttribute("style")).filter((value) => value.includes("://"))"""


def test_names_inside_a_plot_do_not_hold_the_pages_address(open_page: Open) -> None:
    page = open_page()
    assert page.evaluate("document.querySelectorAll(\"#map .plot [clip-path], #map .plot [style*='url(']\").length") > 2
    assert page.evaluate(OUTSIDE) == []
    before = figure(page)["drawn"]
    page.locator("[data-kinds] label", has_text="Encoder").first.click()
    wait_until_drawn(page, before)
    page.wait_for_url("**kind=encoder_self**")
    assert page.evaluate(OUTSIDE) == []
