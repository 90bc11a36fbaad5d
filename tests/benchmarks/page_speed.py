"""How fast the page is, in a real Chromium: `python -m tests.benchmarks.page_speed [URL]` (default: http://127.0.0.1:7860, started before).

Prints medians of: first Plotly picture after opening the page with a cold and with a warm browser cache; a ten-word sentence from the
last key to its map drawn; another kind of attention from click to map drawn. The goals stand beside them. Every number includes
whatever else the machine is doing, so the load average is printed too.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from tempfile import TemporaryDirectory

from playwright.sync_api import BrowserContext, Page, sync_playwright

ARGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]
RUNS = 5
WORDS = "The old man and his dog walked slowly to the river {n}."

# Resolves with the milliseconds from now until the plot has been drawn again; `act` is what to do at the start.
UNTIL_DRAWN = """(act) => new Promise((resolve) => {
  const plot = document.querySelector('#map .plot'), before = plot.dataset.drawn, start = performance.now();
  new Function(act)();
  const done = () => resolve(performance.now() - start);
  const look = () => requestAnimationFrame(plot.dataset.drawn === before ? look : done);
  look();
})"""


def first_picture(context: BrowserContext, url: str) -> float:
    page = context.new_page()
    page.goto(url)
    page.wait_for_function("window.atlasFirstPicture", timeout=60_000)
    found = page.evaluate("window.atlasFirstPicture")
    page.wait_for_timeout(500)  # the browser writes its cache of compiled scripts a moment later
    page.close()
    return found / 1000


def typed_to_drawn(page: Page, number: int) -> float:
    """From the last key to the map: the typing pause, the translation, its maps, the drawing."""
    text = WORDS.format(n=number)
    act = f"""const box = document.querySelector('#sentence textarea');
      Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value').set.call(box, {text!r});
      box.dispatchEvent(new Event('input', {{bubbles: true}}));"""
    return page.evaluate(UNTIL_DRAWN, act) / 1000


def kind_to_drawn(page: Page, index: int) -> float:
    return page.evaluate(UNTIL_DRAWN, f"document.querySelectorAll('[data-kinds] input')[{index % 3}].click()") / 1000


def report(name: str, goal: float | None, measure: Callable[[int], float]) -> None:
    times = [measure(i) for i in range(RUNS)]
    beside = f"  goal {goal:.1f} s" if goal else ""
    print(f"{name:34} {statistics.median(times):6.2f} s  ({min(times):.2f} to {max(times):.2f}){beside}", flush=True)


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7860"
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {RUNS} runs each")
    with sync_playwright() as play, ExitStack() as stack:

        def fresh_browser() -> BrowserContext:
            """With a profile on disk: what Playwright calls a context keeps no compiled scripts, which a visitor's browser does."""
            folder = stack.enter_context(TemporaryDirectory(ignore_cleanup_errors=True))
            context = play.chromium.launch_persistent_context(folder, executable_path="/usr/bin/chromium", args=ARGS)
            context.new_page().goto("about:blank")
            return context

        def cold(_: int) -> float:
            context = fresh_browser()
            try:
                return first_picture(context, url)
            finally:
                context.close()

        report("first picture, cold cache", 2.5, cold)
        context = fresh_browser()
        for _ in range(3):
            first_picture(context, url)
        report("first picture, warm cache", 1.2, lambda _: first_picture(context, url))
        page = context.new_page()
        page.goto(url)
        page.wait_for_function("window.atlasFirstPicture", timeout=60_000)
        report("ten words typed to map drawn", 1.5, lambda i: typed_to_drawn(page, i))
        report("another kind, click to map drawn", None, lambda i: kind_to_drawn(page, i))
        context.close()


if __name__ == "__main__":
    main()
