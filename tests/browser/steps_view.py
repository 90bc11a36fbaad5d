"""What the Step by step tab shows, read back from the page as numbers."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
from playwright.sync_api import Locator, Page

from model.analysis.walkthrough import Walk
from model.config import TransformerConfig
from viz.panels.steps_value import Steps, steps_value

RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
ARITHMETIC = re.compile(r"[-+*/().\de ]+")


def wait_for_walk(page: Page, **wanted: object) -> None:
    """Waits until the walk on the page is the one that is asked for, and its `wanted` fields are such."""
    page.wait_for_function(
        """(wanted) => document.querySelector(".walk-root")?.dataset.state === "here"
          && Object.entries(wanted).every(([name, value]) => atlas.steps.current()[name] === value)""",
        arg=wanted,
    )


def step(page: Page, name: str, nth: int = 0) -> Locator:
    return page.locator(f'.walk [data-step="{name}"]').nth(nth)


def parsed(text: str) -> float:
    """A number as the page writes it: with a true minus, a power of ten or an infinity."""
    text = text.replace("−", "-").replace("∞", "inf").replace(",", "")
    factor, _, power = text.partition("·10")
    return float(factor) * 10.0 ** int(power.translate(RAISED) or 0)


def table(page: Page, name: str) -> tuple[list[str], dict[str, np.ndarray]]:
    """The first table of a step: names of its columns, and row -> exact values, hidden rows included."""
    columns, rows = page.evaluate(
        """(name) => {
          const table = document.querySelector(`.walk [data-step="${name}"] .key-table`);
          const rows = [...table.querySelectorAll("tbody tr")];
          return [[...table.querySelectorAll("thead th")].map((node) => node.textContent),
                  rows.map((row) => [row.dataset.row, [...row.querySelectorAll("td button")].map((node) => node.title)])];
        }""",
        name,
    )
    return columns, {row: np.array([parsed(value) for value in values]) for row, values in rows}


def payload(config: TransformerConfig, walk: Walk) -> str:
    """What the page is sent of a walk, of a model that needs no words."""
    tokens = [f"t{at}" for at in range(64)]
    maps = np.zeros((8, 8, 64, len(walk.attention.weights)), np.float32)
    trace = SimpleNamespace(encoder_self_attention=maps, decoder_self_attention=maps, cross_attention=maps)
    translation = SimpleNamespace(src_tokens=tokens, tgt_in_tokens=tokens)
    run = SimpleNamespace(translation=translation, trace=trace, request=SimpleNamespace(as_dict=dict))
    return steps_value(run, config, Steps(walk))


def built(page: Page, sent: str, read: str, words: list[str] | None = None) -> object:
    """What `read`, a JavaScript function of (groups, asked), finds in a walk that is built from a payload and shown nowhere. words: what
    its tokens are called."""
    return page.evaluate(
        """([sent, words, read]) => {
          const real = atlas.maps.current;
          const pieces = {en: words.map((text) => ({text, raw: text, hover: text}))};
          atlas.maps.current = () => ({sides: {source: {pieces}, read: {pieces}, predicted: {pieces}}});
          const asked = atlas.steps.asked(() => asked.renamed());
          try {
            const {groups} = atlas.steps.walk(atlas.steps.decode(JSON.parse(sent)), () => {}, asked);
            return eval(read)(groups.map(({steps}) => steps), asked);
          } finally {
            atlas.maps.current = real;
          }
        }""",
        [sent, words or [f"t{at}" for at in range(64)], read],
    )


def strip_values(frame: Locator) -> np.ndarray:
    """What every bar of a strip tells when the keyboard goes along it."""
    frame.press("Home")
    found = [frame.get_attribute("aria-valuetext")]
    for _ in range(int(frame.get_attribute("data-size")) - 1):
        frame.press("ArrowRight")
        found.append(frame.get_attribute("aria-valuetext"))
    return np.array([parsed(text.split(" · ")[-1]) for text in found])


def bars(frame: Locator) -> np.ndarray:
    """[n, 2]: how many pixels of colour each bar of an even strip has above and below the middle line."""
    return np.array(
        frame.evaluate(
            """(node) => {
              const canvas = node.querySelector("canvas");
              const {width, height} = canvas;
              const count = Number(node.dataset.size);
              const middle = Math.round(height / 2);
              const {data} = canvas.getContext("2d").getImageData(0, 0, width, height);
              const inked = (x, y) => data[4 * (y * width + x) + 3] > 0;
              return Array.from({length: count}, (_, bar) => {
                const x = Math.floor((bar * width) / count);
                const rows = Array.from({length: height}, (_, y) => y).filter((y) => inked(x, y));
                return [rows.filter((y) => y < middle).length, rows.filter((y) => y > middle).length];
              });
            }"""
        )
    )


def click_bar(frame: Locator, index: int) -> None:
    frame.scroll_into_view_if_needed()
    box = frame.locator("canvas").bounding_box()
    size = int(frame.get_attribute("data-size"))
    frame.click(position={"x": (index + 0.5) * box["width"] / size, "y": box["height"] / 2})


def sums(section: Locator) -> list[tuple[float, float]]:
    """The lines of arithmetic of a step that are equations: what stands before the last "=", worked out here, and what stands after it."""
    found = []
    for line in section.locator(".sum-line").all_inner_texts():
        left, equals, right = line.rpartition("=")
        if not equals:
            continue
        left = re.sub(r"·10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda power: f"e{power[1].translate(RAISED)}", left.rsplit("=", 1)[0])
        left = re.sub(r"\([\d,]+ more: ([^)]+)\)", r"(\1)", left).replace("bias ", "").replace("−", "-").replace("×", "*")
        assert ARITHMETIC.fullmatch(left.strip()), line
        found.append((float(eval(left)), parsed(right.strip())))
    return found
