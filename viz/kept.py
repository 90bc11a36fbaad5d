"""A run of the model as it is kept for later: one block of memory of its own, of a known size.

As it was computed, a run is a hundred arrays and thousands of small objects. These lie among everything else that the process computed
meanwhile and let go, so that the memory between them could not be used again: a cache of such runs took twice what it counted.
"""

from __future__ import annotations

import mmap
import pickle
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viz.runs import Run

ALIGNMENT = 64  # bytes, as numpy has its arrays
OWN_BYTES = 2048  # of the objects around the block: this one, its key, and its place in a table


class KeptRun:
    """Holds a run, its rollout and roles with it. What all runs of a model share (best_heads, profile) is not copied.

    num_bytes: memory that it takes.
    """

    def __init__(self, run: Run) -> None:
        self._shared = {"best_heads": run.best_heads, "profile": run.profile}
        arrays: list[pickle.PickleBuffer] = []
        alone = replace(run, best_heads={}, profile=None)
        vars(alone).update(rollout=run.rollout, roles=run.roles)  # computed now: the page asks for them at once
        objects = pickle.dumps(alone, protocol=5, buffer_callback=arrays.append)
        parts = [memoryview(objects), *(each.raw() for each in arrays)]
        self._sizes = array("q", [part.nbytes for part in parts])
        *_, (_, size) = self._spans()
        self._block = mmap.mmap(-1, size)  # memory of its own, which the system gets back as a whole
        for (start, end), part in zip(self._spans(), parts, strict=True):
            self._block[start:end] = part
        self.num_bytes = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE + OWN_BYTES

    def run(self) -> Run:
        """The run. Its arrays are the kept ones, and cannot be written to; they stay as long as anybody holds them."""
        block = memoryview(self._block).toreadonly()
        objects, *arrays = (block[start:end] for start, end in self._spans())
        found: Run = pickle.loads(objects, buffers=arrays)
        vars(found).update(self._shared)
        return found

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Where each part starts and ends in the block."""
        end = 0
        for size in self._sizes:
            start = -(-end // ALIGNMENT) * ALIGNMENT
            end = start + size
            yield start, end
