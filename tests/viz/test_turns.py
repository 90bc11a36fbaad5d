"""Turns at the model go round by address and, behind one address, by page."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from viz.turns import KEY, Caller, FairQueues, Turns, caller


def event(name: str, address: str, page: str = "") -> SimpleNamespace:
    return SimpleNamespace(name=name, concurrency_id="model", request=SimpleNamespace(scope={KEY: Caller(address, page, 1.0)}))


def order(asked: list[tuple[str, str]], running: tuple[tuple[str, str], ...] = ()) -> str:
    """asked: (address, page), one after the other -> the events' numbers in the order of their turns."""
    queue = Turns([], lambda: [event("", *each) for each in running])
    for i, who in enumerate(asked):
        queue.append(event(str(i), *who))
    return " ".join(each.name for each in queue)


@pytest.mark.parametrize(("asked", "expected"), [
    ([("a", "")] * 4, "0 1 2 3"),
    ([("a", ""), ("b", ""), ("c", "")], "0 1 2"),
    ([("a", "")] * 3 + [("b", "")], "0 3 1 2"),
    ([("a", "")] * 3 + [("b", "")] * 2 + [("c", "")], "0 3 5 1 4 2"),
    ([("a", "x")] * 3 + [("a", "y")], "0 3 1 2"),  # pages of one address
    ([("a", "x")] * 3 + [("b", "z"), ("a", "y")], "0 3 4 1 2"),
    ([("a", str(i)) for i in range(4)] + [("b", "")], "0 4 1 2 3"),  # pages are named freely, addresses are not
])
def test_turns(asked: list[tuple[str, str]], expected: str) -> None:
    assert order(asked) == expected


def test_whoever_is_being_served_has_had_this_turn() -> None:
    assert order([("a", ""), ("a", ""), ("b", "")], running=(("a", ""),)) == "2 0 1"
    assert order([("a", "x"), ("a", "y")], running=(("a", "x"),)) == "1 0"
    assert order([("a", "x"), ("a", "y")], running=(("b", "x"),)) == "0 1"


def test_visitors_are_served_before_a_flood_and_the_flood_is_not_forgotten() -> None:
    rng = random.Random(3)
    running: list[SimpleNamespace] = []
    queue = Turns([], lambda: running)
    served: list[str] = []
    for i in range(600):
        queue.append(event(str(i), rng.choice("bcd") if i % 3 == 0 else "flood", rng.choice("xyz")))
        if i % 2:
            running[:] = [queue[0]]
            queue.remove(queue[0])
            served.append(caller(running[0]).address)
    left = [caller(each).address for each in queue]
    assert len(set(map(id, queue))) == len(queue) == 300
    assert len(left) - left.count("flood") < 10  # nearly all of the visitors' 200
    gaps = "".join("F" if each == "flood" else "." for each in served).split("F")
    assert max(map(len, gaps)) <= 6  # three others, twice at most


def test_an_event_that_passed_no_gate_and_gradio_s_table() -> None:
    gradio = SimpleNamespace(active_jobs=[None, [event("", "a")]])
    table = FairQueues(gradio)
    table["model"] = SimpleNamespace(queue=[])
    plain = SimpleNamespace(request=SimpleNamespace(scope={}))
    for each in (event("0", "a"), plain, event("1", "b")):
        table["model"].queue.append(each)
    assert [getattr(each, "name", "plain") for each in table["model"].queue] == ["plain", "1", "0"]
