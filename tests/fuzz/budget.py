"""How much is tried: about 1,500 examples as part of the suite, the same each time; ATLAS_FUZZ=10000 tries that many new ones."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, settings

TOTAL = int(os.environ.get("ATLAS_FUZZ", "1500"))
SLOWEST = 10.0  # seconds of this process's own time, so that a busy machine is no failure


def share(part: float) -> settings:
    """Hypothesis's settings for a test that gets this part of all examples."""
    return settings(
        max_examples=max(10, round(part * TOTAL)),
        deadline=None,  # `in_time` below instead
        derandomize="ATLAS_FUZZ" not in os.environ,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def in_time() -> Iterator[None]:
    """Fails if what is inside computes for longer than SLOWEST."""
    start = time.process_time()
    yield
    took = time.process_time() - start
    assert took < SLOWEST, f"{took:.1f} s"
