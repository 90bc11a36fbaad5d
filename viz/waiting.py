"""Who still waits for what is being computed: a tab may be closed meanwhile, and the model has others to serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradio.context import LocalContext

if TYPE_CHECKING:
    from viz.runs import Request


def waiting_for(asked_by: Callable[[Any], Request | None]) -> Callable[[Request | None], Callable[[], bool]]:
    """The argument `waiting` of `viz.runs.RunCache`. asked_by: which run an event of Gradio's queue asks for, None for other events.

    Gradio takes note of it when the connection is closed by which an answer should have gone, and then keeps no answer. Whoever waits for
    the same run in its queue counts as well: theirs is the next turn, or one soon.
    """

    def waiting(request: Request | None) -> Callable[[], bool]:
        """Called where Gradio calls a function of ours, since the context alone says for which event that is."""
        blocks, event_id = LocalContext.blocks.get(None), LocalContext.event_id.get(None)
        queue = None if blocks is None else blocks._queue
        event = None if queue is None else queue.event_ids_to_events.get(event_id)
        if event is None:  # no event of the queue
            return lambda: True

        def still_wanted() -> bool:
            if event.alive:
                return True
            behind = list(queue.event_queue_per_concurrency_id[event.concurrency_id].queue)
            return request is not None and any(asked_by(each) == request for each in behind)

        return still_wanted

    return waiting
