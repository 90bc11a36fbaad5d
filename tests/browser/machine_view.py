"""What the tests of the Machine tab read off its page."""

from __future__ import annotations

import re

from playwright.sync_api import Page


def machine(page: Page) -> Page:
    page.wait_for_selector(".m-block")
    return page


def numbers(text: str) -> list[int]:
    return [int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", text)]


def block(page: Page, name: str):
    return page.locator(f'.m-block[data-id="{name}"]')


def drawn(page: Page, name: str) -> str:
    """All that is written in a block of the picture."""
    return " ".join(block(page, name).locator("text").all_text_contents())


def shapes(page: Page) -> list[list[int]]:
    """Every shape that stands in the picture, in the order in which it is drawn."""
    return [numbers(text) for text in page.locator(".m-shape").all_text_contents() if "[" in text]


def count_of(module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def state(page: Page, *names: str) -> list:
    return page.evaluate("(names) => names.map((name) => atlas.state[name])", list(names))
