"""How fast the linked views of Translate are, in a real Chromium, and BertViz's pages of the same maps beside them.

    python -m tests.benchmarks.linked_views [--repeats 9] [--only page long bertviz]

The maps are random, of a model with 6 layers x 8 heads for each of the three kinds (144 heads). Prints medians (smallest to largest) and
merges ratios into benchmarks.json. What paint is and how it is measured: tests/benchmarks/clock.py. A machine that does other things
meanwhile, or has few cores, makes every time longer; so two fixed pieces of work are measured between all others, and ratios to them
say more than milliseconds: an empty click to its second animation frame, and Plotly.react of a plain 30 x 30 heatmap in an empty page.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import defaultdict

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from playwright.sync_api import Browser, Page, sync_playwright

from tests.benchmarks import bertviz_pages, clock
from tests.benchmarks.long_fake import HEADS, LAYERS, LongFake, sentence
from tests.benchmarks.page_speed import ARGS
from tests.benchmarks.table import Ratios, line, paired, spread
from tests.benchmarks.visitor import SIZE, TOGETHER, Steps, click, fresh, opened, pick, reference_page, serving, state, switches
from viz.panels.maps_value import maps_value

SHORT, LONG, LONGEST = 30, 200, 512
GOALS = {"switch": 50, "payload": 0.5e6, "long first": 3000, "long head": 150}
EMPTY, PLAIN = "empty click", "Plotly.react 30x30"

# --- what is measured ---


def slug(name: str) -> str:
    return "_".join("".join(char if char.isalnum() else " " for char in name.lower()).split())


def short_page(browser: Browser, url: str, repeats: int, ratios: Ratios) -> dict[str, list[float]]:
    """Every switch at 30 x 30 tokens, between the two references, `repeats` times."""
    context = fresh(browser)
    reference, page = reference_page(context), opened(context, url)
    steps = switches(page)
    found: dict[str, list[float]] = defaultdict(list)
    busy: dict[str, list[float]] = defaultdict(list)
    for turn in range(repeats + 1):
        reference.bring_to_front()
        measured = {EMPTY: click(reference, reference.locator("#empty")), PLAIN: click(reference, reference.locator("#react"))}
        page.bring_to_front()
        for name, step in steps.items():
            if name.startswith("rows") and state(page, "kind") == "encoder_self":  # whose rows have one name only
                pick(page, "data-kinds", 2)
            measured[name] = step()
        if turn:  # the first round warms the scripts up
            for name, timing in measured.items():
                found[name].append(timing.painted)
                busy[name].append(timing.last)
    line("30 x 30 tokens, 144 heads", "click to paint, ms", "of it until last change", "times an empty click", f"times {PLAIN}")
    for name, times in found.items():
        empty, plain = paired(times, found[EMPTY]), paired(times, found[PLAIN])
        line(name, spread(times), spread(busy[name]), spread(empty, 1), spread(plain, 1))
        if name not in (EMPTY, PLAIN):
            ratios.add(f"linked_views.{slug(name)}.vs_empty_click", empty, "an empty click, to its second animation frame")
            ratios.add(f"linked_views.{slug(name)}.vs_plotly_react", plain, "Plotly.react of a plain 30 x 30 heatmap, click to paint")
    slow = [name for name, times in found.items() if name not in (EMPTY, PLAIN) and statistics.median(times) > GOALS["switch"]]
    print(f"goal: under {GOALS['switch']} ms; over it: {', '.join(slow) or 'none'}")
    context.close()
    return found


class Traffic:
    """Bytes of the bodies that a page has received since `restart`, by DevTools' count: what arrives, decompressed and as sent."""

    def __init__(self, page: Page) -> None:
        session = page.context.new_cdp_session(page)
        session.on("Network.requestWillBeSent", lambda event: self.urls.__setitem__(event["requestId"], event["request"]["url"]))
        session.on("Network.dataReceived", self._count)
        session.on("Network.loadingFinished", lambda event: self._add_sent(event["requestId"], event["encodedDataLength"]))
        self.urls: dict[str, str] = {}
        self.restart()
        session.send("Network.enable")

    def restart(self) -> None:
        self.bodies: dict[str, int] = defaultdict(int)
        self.sent: dict[str, int] = defaultdict(int)

    def _count(self, event: dict) -> None:
        self.bodies[self.urls.get(event["requestId"], "")] += event["dataLength"]

    def _add_sent(self, request: str, length: int) -> None:
        self.sent[self.urls.get(request, "")] += length

    def stream(self) -> int:
        """Bytes of Gradio's event stream."""
        return sum(size for url, size in self.bodies.items() if "queue/data" in url)


def ask(page: Page, text: str) -> clock.Timing:
    """Types the text at once and presses Enter; from the key to the last change of the picture."""
    box = page.locator("#sentence textarea")
    box.fill("")
    box.fill(text)
    return clock.timed(page, "keydown", lambda: box.press("Enter"), quiet=600)


def payload(page: Page, traffic: Traffic, translator: LongFake, tokens: int, ratios: Ratios) -> clock.Timing:
    """A translation of this length: its bytes, and its times."""
    text = sentence(tokens, seed=tokens)
    run = translator.run(text)
    value = len(maps_value(run).encode())
    traffic.restart()
    timing = ask(page, text)
    page.wait_for_timeout(1500)  # a stream's last bytes
    rows, columns = page.evaluate("[atlas.maps.view().rows.length, atlas.maps.view().columns.length]")
    if (rows, columns) != (tokens, tokens):
        raise RuntimeError(f"the page shows {rows} x {columns} tokens, not {tokens} x {tokens}")
    stream = traffic.stream()
    print(f"{tokens} x {tokens} tokens: value of all maps {value:,} bytes, event stream of the translation {stream:,} bytes")
    if tokens == SHORT:
        print(f"goal: under {GOALS['payload']:,.0f} bytes: {'met' if stream < GOALS['payload'] else 'missed'}")
        ratios.add("linked_views.payload.vs_goal", [stream / GOALS["payload"]], "0.5 MB for 30 x 30 tokens and 144 heads")
    return timing


def long_page(browser: Browser, url: str, translator: LongFake, tokens: int, repeats: int, ratios: Ratios) -> None:
    """A sentence of 200 or 512 tokens: its first picture, then other heads and layers of it."""
    context = fresh(browser)
    reference, page = reference_page(context), opened(context, url)
    traffic = Traffic(page)
    payload(page, traffic, translator, tokens, ratios)  # warms up
    steps = Steps(page)
    found: dict[str, list[float]] = defaultdict(list)
    for turn in range(repeats):
        reference.bring_to_front()
        found[EMPTY].append(click(reference, reference.locator("#empty")).painted)
        page.bring_to_front()
        text = sentence(tokens, seed=tokens + 7 * (turn + 1))
        translator.run(text)  # the fake numbers are made beforehand: what is measured is the page and its server
        timing = ask(page, text)
        found["first picture, from Enter"].append(timing.painted)
        found["first picture, from the answer"].append(timing.painted - timing.answered)
        found["another head"].append(steps.choice("head", "data-heads", HEADS, first=TOGETHER).painted)
        found["another layer, fetched"].append(steps.choice("layer", "data-layers", LAYERS).painted)
        found["hover a word, to lit"].append(steps.hover().painted)
    line(f"{tokens} x {tokens} tokens", "ms", "times an empty click")
    for name, times in found.items():
        empty = paired(times, found[EMPTY])
        line(name, spread(times), spread(empty, 1))
        if name != EMPTY:
            ratios.add(f"linked_views.{tokens}_tokens.{slug(name)}.vs_empty_click", empty, "an empty click, to its second animation frame")
    first, head = (statistics.median(found[name]) for name in ("first picture, from Enter", "another head"))
    if tokens == LONG:
        print(f"goals: first picture under {GOALS['long first']} ms: {'met' if first < GOALS['long first'] else 'missed'}; "
              f"another head under {GOALS['long head']} ms: {'met' if head < GOALS['long head'] else 'missed'}")
    context.close()


COUNT = """(selector) => document.querySelectorAll(selector).length"""


def beside_bertviz(browser: Browser, url: str, translator: LongFake, repeats: int, ratios: Ratios) -> None:
    """The same maps in BertViz's pages and in ours, each opened by a visitor with an empty cache, in turns."""
    run = translator.run(sentence(SHORT))
    documents = bertviz_pages.documents(run.trace)
    ours, theirs = "this page", tuple(documents)
    opening: dict[str, list[float]] = defaultdict(list)
    layers: dict[str, list[float]] = defaultdict(list)
    nodes: dict[str, int] = {}
    with bertviz_pages.served(documents) as base:
        for _ in range(repeats):
            for name in theirs:
                context = fresh(browser, from_opening=True)
                refused = bertviz_pages.without_network(context, base)
                page = context.new_page()
                page.goto(f"{base}/{name}.html")
                page.wait_for_selector("#vis svg line", state="attached")
                opening[name].append(clock.settled(page, quiet=600).painted)
                nodes[name] = page.evaluate(COUNT, "*")
                if name == "head_view":
                    layers[name].append(_their_layer(page))
                if refused:
                    raise RuntimeError(f"{name} asked for {refused}")
                context.close()
            context = fresh(browser, from_opening=True)
            page = context.new_page()
            page.goto(f"{url}/?lang=en")
            page.wait_for_function("window.atlasFirstPicture")
            opening[ours].append(clock.settled(page, quiet=600).painted)
            nodes[ours] = page.evaluate(COUNT, "*")
            nodes["of it in the linked views"] = page.evaluate(COUNT, "#map-area *")
            layers[ours].append(Steps(page).choice("layer", "data-layers", LAYERS).painted)
            context.close()
    sizes = {name: len(html.encode()) for name, html in documents.items()} | {ours: len(maps_value(run).encode())}
    line("the same 144 maps, 30 x 30 tokens", "bytes of the maps", "nodes", "opened to drawn, ms", "layer switch, ms")
    for name in (*theirs, ours):
        switch = spread(layers[name]) if layers[name] else "all layers at once"
        line(name, f"{sizes[name]:,}", f"{nodes[name]:,}", spread(opening[name]), switch)
    print(f"(BertViz draws one kind at a time, its bytes are those of the HTML without its three scripts; "
          f"ours are those of the maps' value, its views have {nodes['of it in the linked views']:,} nodes)")
    for name in theirs:
        against = f"BertViz {name}, the same maps"
        ratios.add(f"linked_views.opened_to_drawn.vs_bertviz_{name}", paired(opening[ours], opening[name]), against)
        ratios.add(f"linked_views.bytes.vs_bertviz_{name}", [sizes[ours] / sizes[name]], against)
        ratios.add(f"linked_views.nodes.vs_bertviz_{name}", [nodes[ours] / nodes[name]], against)
    ratios.add("linked_views.layer.vs_bertviz_head_view", paired(layers[ours], layers["head_view"]), "BertViz head_view, the same maps")


def _their_layer(page: Page) -> float:
    """From choosing another layer in head_view to its lines."""
    before = page.evaluate(COUNT, "#vis svg line")
    change = """() => {
      const list = document.querySelector('#layer');
      list.value = '3';
      list.dispatchEvent(new Event('change', {bubbles: true}));
    }"""
    found = clock.timed(page, "change", lambda: page.evaluate(change))
    if page.evaluate(COUNT, "#vis svg line") != before:
        raise RuntimeError("head_view: other lines than before")
    return found.painted


PARTS = ("page", "long", "bertviz")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    ratios, translator = Ratios(), LongFake()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; medians (smallest to largest) of {arguments.repeats}")
    with serving(translator, sentence(SHORT)) as url, sync_playwright() as play:
        browser = play.chromium.launch(executable_path="/usr/bin/chromium", args=ARGS)
        print(f"Chromium {browser.version}, {SIZE['width']} x {SIZE['height']} px")
        if "page" in arguments.only:
            short_page(browser, url, arguments.repeats, ratios)
            context = fresh(browser)
            page = opened(context, url)
            payload(page, Traffic(page), translator, SHORT, ratios)
            context.close()
        if "long" in arguments.only:
            for tokens in (LONG, LONGEST):
                long_page(browser, url, translator, tokens, min(arguments.repeats, 5), ratios)
        if "bertviz" in arguments.only:
            try:
                beside_bertviz(browser, url, translator, min(arguments.repeats, 5), ratios)
            except bertviz_pages.NotInstalledError as error:
                print(error)
        browser.close()
    ratios.save()


if __name__ == "__main__":
    main()
