"""Whose turn it is: requests that wait for the same thing are taken from one visitor after the other, not in the order in which they came.

So whoever asks for a hundred translations makes others wait for one of them at most. Addresses go round first, since anybody can name any
number of pages; then the pages behind one address, such as a class. Gradio's queue is a plain list that it appends to and takes the first
of: the list here puts what is appended where it belongs. What needs no turn, since its answer is at hand, waits in a queue of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gradio.queueing import EventQueue

KEY = "atlas.caller"  # where a request's scope holds who asks
AT_HAND, AT_ONCE = "at_hand", 2  # the queue of answers that are there already, and how many are made into values for the page at once


class Caller(NamedTuple):
    """page: its session, "" for a program without one. cost: what the request counts (viz/limits.py)."""

    address: str = ""
    page: str = ""
    cost: float = 0.0


def caller(event: Any) -> Caller:
    """Who asked for an event of Gradio's queue."""
    return event.request.scope.get(KEY, Caller())


class Turns(list):
    """The events that wait, in the order of their turns. under_way: gives those that run. aside: takes an event that waits elsewhere."""

    def __init__(
        self, events: Iterable[Any], under_way: Callable[[], Iterable[Any]], aside: Callable[[Any], bool] = lambda event: False
    ) -> None:
        super().__init__(events)
        self._under_way, self._aside = under_way, aside

    def append(self, event: Any) -> None:
        if self._aside(event):
            return
        who = caller(event)
        running = [caller(each) for each in self._under_way()]
        place = _place([caller(each).address for each in self], who.address, [each.address for each in running])
        self.insert(place, event)
        # The places of this address stay; among themselves its pages take turns, too.
        places = [i for i, each in enumerate(self) if caller(each).address == who.address]
        own = [self[i] for i in places if self[i] is not event]
        running = [each for each in running if each.address == who.address]
        own.insert(_place([caller(each).page for each in own], who.page, [each.page for each in running]), event)
        for i, each in zip(places, own, strict=True):
            self[i] = each


def _place(waiting: Sequence[str], name: str, running: Sequence[str]) -> int:
    """Where one more of `name` belongs: behind all that wait for their owner's n-th turn or an earlier one, if it is this owner's n-th."""
    turns = Counter(running)
    own, place = turns[name] + waiting.count(name), 0
    for i, each in enumerate(waiting):
        if turns[each] <= own:
            place = i + 1
        turns[each] += 1
    return place


class FairQueues(dict):
    """Gradio's table of its event queues, by concurrency_id. queue: Gradio's, that it is of. at_hand: whether an event's answer is there,
    so that it need not wait until others are computed."""

    def __init__(self, queue: Any, at_hand: Callable[[Any], bool] = lambda event: False) -> None:
        super().__init__()
        self._queue, self._at_hand = queue, at_hand

    def __setitem__(self, name: str, events: Any) -> None:
        def under_way() -> list[Any]:
            return [event for job in self._queue.active_jobs if job for event in job if event.concurrency_id == name]

        events.queue = Turns(events.queue, under_way) if name == AT_HAND else Turns(events.queue, under_way, self._put_aside)
        super().__setitem__(name, events)

    def _put_aside(self, event: Any) -> bool:
        if not self._at_hand(event):
            return False
        if AT_HAND not in self:
            self[AT_HAND] = EventQueue(AT_HAND, AT_ONCE)
        event.concurrency_id = AT_HAND
        self[AT_HAND].queue.append(event)
        return True
