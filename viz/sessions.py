"""What the server keeps of a page between two requests: next to nothing, and nothing of what was typed or shown.

Gradio's own way is to build the whole page anew for every visitor (a twentieth of a second in which nobody else is served), and to write
into it whatever they send and get, so that it could be saved under a link. Links here hold their state themselves (static/link.js), and
the model's runs are found by what was asked (viz/runs.py), so all of that is left out. These are Gradio's inner parts: tests/load would
notice if they changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from gradio.state_holder import SessionState, StateHolder
from gradio.utils import LRUCache

from viz.turns import FairQueues

UNREAD = 256  # pages whose answers are kept until they fetch them
KNOWN = 4096  # pages of which the queue knows that it owes them one


class ForgetfulSession(SessionState):
    """A session that holds what the server needs to call a function, and no copy of the page."""

    def __init__(self, blocks: Any) -> None:
        super().__init__(SimpleNamespace(default_config=blocks.default_config, blocks=()))

    def _update_config(self, key: int) -> None:
        """Nothing: the page itself knows what it shows."""

    def _update_value_in_config(self, key: int, value: Any) -> None:
        """Nothing, for the same reason."""


class ForgetfulSessions(StateHolder):
    """As many sessions as `launch(state_session_capacity=...)` says; the one used longest ago leaves."""

    def __getitem__(self, session_id: str) -> SessionState:
        if session_id not in self.session_data:
            self.session_data[session_id] = ForgetfulSession(self.blocks)
        return super().__getitem__(session_id)


def forget_visitors(app: Any) -> None:
    """Lets Gradio's application forget what visitors send and get, once it has been answered."""
    app.state_holder = ForgetfulSessions()
    app.state_holder.set_blocks(app.get_blocks())


class Mailboxes(LRUCache):
    """Gradio's table of what a page has yet to fetch, by session. At most `max_size` of them: first goes the one that was opened longest
    ago among those that wait for nothing.

    In Gradio's own table any may go, and its queue ends for good when it then has something to say to a page that waits. Here that is lost.
    """

    def __init__(self, queue: Any, max_size: int, empty: Callable[[], Any]) -> None:
        super().__init__(max_size)
        self._queue, self._empty = queue, empty

    def __setitem__(self, session: str, box: Any) -> None:
        while session not in self and len(self) >= self.max_size:
            waiting = {event.session_hash for event in self._queue.event_ids_to_events.values()}
            del self[next((each for each in self if each not in waiting), next(iter(self)))]
        super().__setitem__(session, box)

    def __missing__(self, session: str) -> Any:
        return self._empty()

    def __delitem__(self, session: str) -> None:
        if session in self:
            super().__delitem__(session)


def bounded(blocks: Any, at_hand: Callable[[Any], bool]) -> Any:
    """The same Blocks, their queue going round (viz/turns.py), keeping fewer answers that nobody fetches, and forgetting whose they were.
    at_hand: whether the answer to an event of the queue is there already.

    Gradio keeps those of 2,000 pages that left, or that never were pages, up to a megabyte and a half each, and every page's name for good.
    """
    queue = blocks._queue
    queue.pending_messages_per_session = Mailboxes(queue, UNREAD, asyncio.Queue)
    queue.pending_event_ids_session = Mailboxes(queue, KNOWN, set)
    queue.event_queue_per_concurrency_id = FairQueues(queue, at_hand)
    return blocks
