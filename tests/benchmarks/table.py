"""What a benchmark found: printed as a table, and kept as ratios in benchmarks.json (git-ignored), whatever else stands there."""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "benchmarks.json"


def spread(values: Sequence[float], digits: int = 0) -> str:
    """Median, and in brackets the smallest and the largest."""
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def line(name: str, *cells: str) -> None:
    print(f"{name:44}" + "".join(f"  {cell:>24}" for cell in cells).rstrip(), flush=True)


def paired(values: Sequence[float], references: Sequence[float]) -> list[float]:
    """Ratios of measurements that were taken next to each other, so that a busy moment of the machine slows both."""
    return [value / reference for value, reference in zip(values, references, strict=True)]


class Ratios:
    """Collects ratios and merges them into `path`: a list of {"name", "ratio_median", "ratio_min", "ratio_max", "against"}."""

    def __init__(self, path: Path = RESULTS) -> None:
        self.path = path
        self.found: dict[str, dict[str, object]] = {}

    def add(self, name: str, ratios: Sequence[float], against: str) -> None:
        median, low, high = statistics.median(ratios), min(ratios), max(ratios)
        self.found[name] = {"name": name, "ratio_median": median, "ratio_min": low, "ratio_max": high, "against": against}

    def save(self) -> None:
        """Replaces entries of the same name, keeps all others. Raises ValueError if the file is there and holds something else."""
        kept = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else []
        if not isinstance(kept, list):
            raise ValueError(f"{self.path} does not hold a list")
        merged = [entry for entry in kept if entry["name"] not in self.found] + list(self.found.values())
        unfinished = self.path.with_name(self.path.name + ".part")
        unfinished.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
        os.replace(unfinished, self.path)
