"""Browser tests: skipped with the reason where there is no Chromium, failed where ATLAS_REQUIRE_BROWSER=1 says that there must be.
Servers of tests: waited for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.programs import PATIENCE

CHROMIUM = Path("/usr/bin/chromium")
BROWSER_TESTS = Path(__file__).parent / "browser"


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """Gradio asks a server that it has just started whether it is there, and takes one that needs three seconds to answer for none."""

    def is_there(url: str) -> bool:
        return httpx.head(url, timeout=PATIENCE, verify=False).status_code < 400

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradio.networking.url_ok", is_there)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if BROWSER_TESTS in item.path.parents:
            item.add_marker(pytest.mark.browser)
            # One that fails is run once more, and named as such at the end: a machine with other work to do moves what a test points at.
            item.add_marker(pytest.mark.flaky(reruns=1))


# First, since a fixture of the test would otherwise try to start the browser and fail with a longer story.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser") is None or CHROMIUM.exists():
        return
    message = f"there is no {CHROMIUM} (Debian's package chromium)"
    if os.environ.get("ATLAS_REQUIRE_BROWSER") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
