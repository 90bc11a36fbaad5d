"""All benchmarks, one after another: `make bench`, or `python -m tests.benchmarks [--quick]`.

Each runs in a process of its own and adds its ratios to benchmarks.json, which begins anew. What cannot be installed (no network, no npm)
or is not there (Chromium, a GPU) is named and left out. At the end all ratios stand in one table, with the goals. A benchmark that fails,
because programs did not do the same work or one of them broke, makes the exit status 1; a goal that is missed does not, since that
depends on the machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

import torch

from tests.benchmarks import bertviz_pages, rivals
from tests.benchmarks.cold_start import CHROMIUM
from tests.benchmarks.table import RESULTS
from tests.benchmarks.translation import AGAINST

# The largest ratio that is good.
GOALS = {
    "translate_and_capture.embedded.vs_ctranslate2": 1.0,
    "translate_and_capture.base.vs_ctranslate2": 1.1,
    "translate_and_capture.embedded.vs_transformers": 1 / 3,
    "translate_and_capture.base.vs_transformers": 1 / 1.3,
    "capture_on.embedded.vs_off": 1.15,
    "capture_on.base.vs_off": 1.15,
}


def parts(quick: bool, against: list[str]) -> list[list[str]]:
    """The modules to run, with their arguments."""
    rounds = "3" if quick else "7"
    found = [
        ["translation", "--rounds", rounds, "--against", *against],
        ["costs", "--rounds", rounds, *(["--lengths", "10", "30"] if quick else [])],
        ["cold_start", "--rounds", "2" if quick else "5"],
    ]
    if torch.cuda.is_available():
        found += [["translation", "--device", "cuda", "--rounds", rounds, "--against", *against]]
    found += [["gpu", "--rounds", rounds]]
    if CHROMIUM.exists():
        found += [["linked_views", *(["--only", "bertviz", "--repeats", "3"] if quick else [])]]
    return found


def rivals_here(quick: bool) -> list[str]:
    """Installs what is missing. Returns the names of those that ours is measured against."""
    found = [name for name in AGAINST if not (quick and name == "transformers_in_two_passes")]
    try:
        try:
            rivals.import_ctranslate2()
        except ImportError:
            rivals.install()
            rivals.import_ctranslate2()
    except (ImportError, subprocess.CalledProcessError) as error:
        print(f"CTranslate2 is not measured: {error}")
        found.remove("ctranslate2")
    try:
        try:
            bertviz_pages.check()
        except bertviz_pages.NotInstalledError:
            bertviz_pages.install()
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"BertViz is not measured: {error}")
    return found


def table() -> None:
    """All ratios, ours divided by the other's."""
    entries = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    width = max((len(entry["name"]) for entry in entries), default=0)
    print(f"\n{'ratio':{width}}  median (smallest to largest)")
    for entry in entries:
        median, low, high = (entry[f"ratio_{which}"] for which in ("median", "min", "max"))
        limit = GOALS.get(entry["name"])
        goal = "" if limit is None else f"  goal: at most {limit:.2f}, {'met' if median <= limit else 'missed'}"
        print(f"{entry['name']:{width}}  {median:6.2f} ({low:.2f} to {high:.2f}){goal}")
    missing = [name for name in GOALS if name not in {entry["name"] for entry in entries}]
    if missing:
        print(f"not measured: {', '.join(missing)}")
    print(f"in {RESULTS.name}, each with what it is measured against")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="minutes instead of half an hour")
    quick = parser.parse_args().quick
    against = rivals_here(quick)
    RESULTS.unlink(missing_ok=True)
    failed = []
    for module, *arguments in parts(quick, against):
        print(f"\n--- {' '.join([module, *arguments])}", flush=True)
        start = time.perf_counter()
        if subprocess.run([sys.executable, "-m", f"tests.benchmarks.{module}", *arguments]).returncode:
            failed.append(module)
        print(f"--- {module}: {time.perf_counter() - start:.0f} s", flush=True)
    table()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
