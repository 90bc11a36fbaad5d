"""Browser tests: skipped with the reason where there is no Chromium, failed where ATLAS_REQUIRE_BROWSER=1 says that there must be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
BROWSER_TESTS = Path(__file__).parent / "browser"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if BROWSER_TESTS in item.path.parents:
            item.add_marker(pytest.mark.browser)


# First, since a fixture of the test would otherwise try to start the browser and fail with a longer story.
@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("browser") is None or CHROMIUM.exists():
        return
    message = f"there is no {CHROMIUM} (Debian's package chromium)"
    if os.environ.get("ATLAS_REQUIRE_BROWSER") == "1":
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
