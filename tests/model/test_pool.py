"""The pool of loaded models: once for everybody, bounded in bytes, and a failure takes nothing away."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from model.errors import HubUnreachableError, InvalidSettingError, ModelTooLargeError, TooManyLoadsError
from model.pool import GB, IN_ALL, MB, ModelPool, memory_limit


@dataclass(frozen=True)
class Model:
    name: str
    memory_bytes: int = 10
    revision: str | None = None


class Shelf:
    """A loader that counts, and that waits at a gate where it is asked to."""

    def __init__(self, size: int = 10) -> None:
        self.size = size
        self.loaded: list[str] = []
        self.asked: list[str | None] = []
        self.gate = threading.Event()
        self.gate.set()
        self.inside = 0
        self.most_inside = 0
        self.failing: set[str] = set()
        self.serial = 0

    def load(self, name, revision, progress, max_bytes):
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        try:
            progress(3, 10)
            assert self.gate.wait(120)
            progress(10, 10)
            if name in self.failing:
                raise HubUnreachableError(name, "no connection")
            self.loaded.append(name)
            self.asked.append(revision)
            self.serial += 1
            return Model(name, self.size, f"commit {self.serial}")
        finally:
            self.inside -= 1


def until(condition) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_many_who_ask_at_once_load_once():
    shelf = Shelf()
    shelf.gate.clear()
    pool = ModelPool(shelf.load, 100)
    with ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(pool.get, "a") for _ in range(6)]
        until(lambda: pool.start("a").stage == "downloading")
        shelf.gate.set()
        models = {id(answer.result(timeout=60)) for answer in answers}
    assert len(models) == 1 and shelf.loaded == ["a"]
    assert pool.start("a").translator is pool.find("a") is pool.get("a")
    assert shelf.loaded == ["a"]


def test_the_one_used_longest_ago_leaves():
    shelf = Shelf(size=40)
    pool = ModelPool(shelf.load, 100)
    pool.get("a")
    pool.get("b")
    assert pool.names() == ("a", "b")
    pool.find("a")
    pool.get("c")
    assert pool.names() == ("a", "c") and pool.find("b") is None
    pool.get("b")
    assert pool.names() == ("c", "b")


def test_a_model_too_large_is_refused_and_the_others_stay():
    shelf = Shelf(size=40)
    pool = ModelPool(shelf.load, 100)
    pool.get("a")
    shelf.size = 101
    with pytest.raises(ModelTooLargeError):
        pool.get("huge")
    assert pool.names() == ("a",)
    shelf.size = 100
    pool.get("just fits")
    assert pool.names() == ("just fits",)


def test_a_failure_is_told_once_more_until_it_is_tried_again_and_takes_nothing_away():
    shelf = Shelf()
    pool = ModelPool(shelf.load, 100)
    former = pool.get("a")
    shelf.failing.add("b")
    with pytest.raises(HubUnreachableError):
        pool.get("b")
    state = pool.start("b")
    assert state.stage == "failed" and isinstance(state.error, HubUnreachableError)
    assert pool.find("a") is former and pool.names() == ("a",)
    shelf.failing.clear()
    assert pool.start("b").stage == "failed"  # asked how far it is, not to try again
    pool.start("b", again=True)
    until(lambda: pool.start("b").stage == "ready")


def test_progress_is_told():
    shelf = Shelf()
    shelf.gate.clear()
    pool = ModelPool(shelf.load, 100)
    assert pool.start("a").stage in ("waiting", "reading", "downloading")
    until(lambda: pool.start("a").stage == "downloading")
    assert (pool.start("a").done, pool.start("a").total) == (3, 10)
    shelf.gate.set()
    until(lambda: pool.start("a").stage == "ready")


def test_so_many_at_once_and_so_many_in_all():
    shelf = Shelf()
    shelf.gate.clear()
    pool = ModelPool(shelf.load, 10_000, at_once=2)
    for number in range(IN_ALL):
        pool.start(f"m{number}")
    with pytest.raises(TooManyLoadsError):
        pool.start("one more")
    with pytest.raises(TooManyLoadsError):
        pool.get("one more")
    until(lambda: shelf.inside == 2)
    shelf.gate.set()
    until(lambda: len(pool.names()) == IN_ALL)
    assert shelf.most_inside == 2
    assert pool.get("one more").name == "one more"


def test_a_name_stays_with_its_commit():
    shelf = Shelf(size=60)
    pool = ModelPool(shelf.load, 100)
    pool.get("a")
    pool.get("b")
    pool.get("a")
    assert shelf.loaded == ["a", "b", "a"] and shelf.asked == [None, None, "commit 1"]


def test_failures_are_not_kept_for_ever():
    shelf = Shelf()
    pool = ModelPool(shelf.load, 100)
    shelf.failing = {f"m{number}" for number in range(60)}
    for name in sorted(shelf.failing):
        with pytest.raises(HubUnreachableError):
            pool.get(name)
    assert len(pool._loads) <= 33


@pytest.mark.parametrize(("value", "expected"), [("1500", 1500 * MB), ("3GB", 3 * GB), (" 700 mb ", 700 * MB)])
def test_the_memory_that_is_set_aside(value, expected, monkeypatch):
    monkeypatch.setenv("ATLAS_MODEL_MEMORY", value)
    assert memory_limit() == expected == ModelPool(Shelf().load).max_bytes


@pytest.mark.parametrize("value", ["lots", "-1", "0", "1.5GB", "3TB", "²"])
def test_memory_that_is_none(value, monkeypatch):
    monkeypatch.setenv("ATLAS_MODEL_MEMORY", value)
    with pytest.raises(InvalidSettingError, match="ATLAS_MODEL_MEMORY"):
        memory_limit()


def test_memory_by_default(monkeypatch):
    monkeypatch.delenv("ATLAS_MODEL_MEMORY", raising=False)
    assert 1 * GB <= memory_limit() <= 4 * GB
