"""From `python app.py` to the first byte of the page, and to its first picture in Chromium (where it is installed).

`python -m tests.benchmarks.cold_start [--rounds 5]`. Beside it, in turns: a Python that only imports torch and Gradio, which every start
waits for. The server is a process of its own on a free port; the browser is started before, with an empty cache.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from tests.benchmarks.page_speed import ARGS
from tests.benchmarks.table import Ratios, line, paired, spread

ROOT = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
GOAL = 5.0  # s to the first byte
LIMIT = 120  # s
IMPORTS = "import torch, gradio"
AGAINST = 'python -c "import torch, gradio", to its end'


@contextmanager
def started() -> Iterator[tuple[str, float]]:
    """The app in a process of its own: its address and the seconds until its first byte. Raises RuntimeError if it never answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"PORT": str(port), "GRADIO_SERVER_NAME": "127.0.0.1", "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    server = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        while True:
            try:
                with urllib.request.urlopen(url, timeout=LIMIT) as answer:
                    answer.read(1)
                break
            except (urllib.error.URLError, ConnectionError):
                if server.poll() is not None or time.perf_counter() - start > LIMIT:
                    raise RuntimeError(f"python app.py does not answer (exit status {server.poll()})") from None
                time.sleep(0.02)
        yield url, time.perf_counter() - start
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def imports() -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, check=True)
    return time.perf_counter() - start


def first_picture(browser: Browser, url: str) -> float:
    """Seconds from the address to the picture, for a visitor with an empty cache."""
    context = browser.new_context()
    try:
        page = context.new_page()
        start = time.perf_counter()
        page.goto(url)
        page.wait_for_function("window.atlasFirstPicture", timeout=LIMIT * 1000)
        return time.perf_counter() - start
    finally:
        context.close()


def run(rounds: int, ratios: Ratios) -> None:
    found: dict[str, list[float]] = defaultdict(list)
    with ExitStack() as stack:
        browser = None
        if CHROMIUM.exists():
            browser = stack.enter_context(sync_playwright()).chromium.launch(executable_path=str(CHROMIUM), args=ARGS)
            stack.callback(browser.close)
        for turn in range(rounds + 1):
            importing = imports()
            with started() as (url, first_byte):
                picture = first_byte + first_picture(browser, url) if browser else None
            if turn:  # the first one compiles Python's files and fills the system's cache
                found["imports"].append(importing)
                found["first byte"].append(first_byte)
                if picture is not None:
                    found["first picture"].append(picture)
    line("cold start", "seconds", "times the imports")
    line("importing torch and Gradio", spread(found["imports"], 1))
    for name in ("first byte", "first picture"):
        if not found[name]:
            print(f"{name}: not measured, there is no {CHROMIUM}")
            continue
        each = paired(found[name], found["imports"])
        line(f"python app.py to the {name}", spread(found[name], 1), spread(each, 2))
        ratios.add(f"cold_start.{name.replace(' ', '_')}.vs_imports", each, AGAINST)
    median = statistics.median(found["first byte"])
    print(f"goal: first byte under {GOAL:.0f} s on a quiet machine; here {median:.1f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {given.rounds} rounds")
    ratios = Ratios()
    run(given.rounds, ratios)
    ratios.save()


if __name__ == "__main__":
    main()
