"""What the tests of the words read from the page."""

from __future__ import annotations

import numpy as np
from playwright.sync_api import Page

from model.results import AttentionTrace
from tests.viz.fakes import FakeTranslator

LEAST, LEAST_OWN = 0.02, 0.005


def choose(page: Page, **choice: object) -> None:
    page.evaluate("(choice) => atlas.set(choice)", choice)


def ribbons(page: Page, group: str = "all") -> dict[tuple[int, int], tuple[float, float, float]]:
    """(row, column) -> width, and where it starts (above) and ends (below) in px of the stage."""
    found = page.evaluate(
        """(group) => [...document.querySelectorAll(`.words-ribbons .${group} path`)].map((path) => {
          const ends = path.getAttribute('d').match(/-?[\\d.]+/g).map(Number);
          return [path.dataset.cell.split(',').map(Number), Number(path.getAttribute('stroke-width')), ends[0], ends.at(-2)];
        })""",
        group,
    )
    return {(row, column): (width, above, below) for (row, column), width, above, below in found}


def boxes(page: Page, line: str) -> list[dict]:
    """Every word of a line: its text, its edges in px of the stage, its number and how strong its tint is."""
    return page.evaluate(
        """(line) => [...document.querySelectorAll(`.words-line.${line} .token`)].map((node) => ({
          text: node.querySelector('.token-word').textContent, left: node.offsetLeft, right: node.offsetLeft + node.offsetWidth,
          number: node.querySelector('.token-number').textContent, tint: Number(node.style.getPropertyValue('--t')),
          name: node.getAttribute('aria-label'), stop: node.tabIndex, pressed: node.getAttribute('aria-pressed'),
          masked: node.classList.contains('masked')}))""",
        line,
    )


def check_ribbons(page: Page, expected: np.ndarray, least: float = LEAST, group: str = "all") -> None:
    """Exactly the weights above `least`, as wide as they are large, each between its own two words."""
    drawn = ribbons(page, group)
    assert set(drawn) == {(i, j) for i, j in np.ndindex(*expected.shape) if round(float(expected[i, j]) * 65535) / 65535 >= least}
    cells = list(drawn)
    widths = np.array([drawn[cell][0] for cell in cells])
    weights = np.array([expected[cell] for cell in cells])
    np.testing.assert_allclose(widths, weights * (widths.sum() / weights.sum()), atol=0.002)
    keys, queries = boxes(page, "columns"), boxes(page, "rows")
    for (row, column), (_, above, below) in drawn.items():
        assert keys[column]["left"] - 0.1 <= above <= keys[column]["right"] + 0.1
        assert queries[row]["left"] - 0.1 <= below <= queries[row]["right"] + 0.1


def trace_of(translator: FakeTranslator, text: str, target: str = "fra") -> AttentionTrace:
    return translator.trace(translator.translate(text, target))
