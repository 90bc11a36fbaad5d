"""Runs as they are kept: whole, in memory of their own, as much of it as is counted."""

from __future__ import annotations

import gc
import mmap
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from model.analysis.profile import HeadProfile
from model.results import MAPS
from tests.viz.fakes import FakeTranslator, recorded_run
from viz import kept
from viz.kept import KeptRun
from viz.panels.maps_value import maps_value
from viz.panels.reading import result_value
from viz.runs import Request, Run, RunCache

STATUS = Path("/proc/self/status")


def a_run(text: str = "The cat sat on the mat because it was tired.") -> Run:
    translator = FakeTranslator()
    translator.profile, translator.best_heads = HeadProfile(7, ()), {"read": (1, 2)}
    return RunCache(translator).get(Request(text, "fra", 2))


def arrays(run: Run) -> list[np.ndarray]:
    return [*(getattr(run.trace, name) for name in MAPS), *run.norms.values(), *run.rollout.values()]


def test_a_kept_run_is_the_run() -> None:
    run = a_run()
    found = KeptRun(run).run()
    for name in ("request", "translation", "seconds", "runner_ups", "roles", "revision"):
        assert getattr(found, name) == getattr(run, name)
    assert found.profile is run.profile and found.best_heads is run.best_heads  # of the model, not of the run
    for ours, theirs in zip(arrays(found), arrays(run), strict=True):
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == np.float32 and not ours.flags.writeable and ours.ctypes.data % kept.ALIGNMENT == 0
    assert maps_value(found) == maps_value(run) and result_value(found) == result_value(run)
    for name in ("src_tokens", "tgt_in_tokens", "tgt_out_tokens", "causal"):
        assert getattr(found.trace, name) == getattr(run.trace, name)
    assert KeptRun(found).run().roles == run.roles  # and a kept one can be kept


def test_a_run_without_norms() -> None:
    assert KeptRun(replace(a_run(), norms=None)).run().norms is None


def test_an_array_outlives_the_run_that_is_let_go() -> None:
    run = a_run()
    maps = KeptRun(run).run().trace.cross_attention
    gc.collect()
    np.testing.assert_array_equal(maps, run.trace.cross_attention)


def test_what_is_counted_is_what_it_takes() -> None:
    """Nothing but its block is of a size that matters, and the block is whole pages."""
    held = KeptRun(a_run())
    maps = sum(each.nbytes for each in arrays(held.run()))
    assert maps < held.num_bytes < maps + 60_000 and (held.num_bytes - kept.OWN_BYTES) % mmap.PAGESIZE == 0


@pytest.mark.skipif(not STATUS.exists(), reason="needs Linux's account of memory")
def test_a_full_cache_takes_what_its_limit_says() -> None:
    def taken() -> int:
        gc.collect()
        return next(int(line.split()[1]) * 1024 for line in STATUS.read_text().splitlines() if line.startswith("RssShmem"))

    limit, before, rng = 4 * 2**20, taken(), random.Random(5)
    runs = RunCache(FakeTranslator(), recorded_run(FakeTranslator()), max_bytes=limit)
    for i in range(120):
        runs.get(Request(" ".join(["word"] * rng.randint(2, 40)) + f" {i}", "fra"))
    assert len(runs._runs) < 100  # it has let some go
    assert 0.9 * limit < taken() - before < 1.1 * limit
    runs._runs.clear()
    assert taken() - before < 0.1 * limit


def test_what_cannot_be_kept_is_answered_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    runs, request = RunCache(FakeTranslator()), Request("I love you.", "fra")
    monkeypatch.setattr(kept.mmap, "mmap", full)
    assert runs.get(request).translation.text == "Je t'aime." and runs.find(request) is None
    monkeypatch.undo()
    assert runs.get(request).translation.text == "Je t'aime." and runs.find(request) is not None
