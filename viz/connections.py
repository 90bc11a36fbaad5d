"""The connections that the server holds open: idle ones are closed, and there are never so many that none can be opened any more.

uvicorn ends a connection that waits for a next request, but not one that never sends its first, sends half a header, or goes on after it
was answered; a machine with many visitors has a proxy before it that does (README, "Put it on the internet").
"""

from __future__ import annotations

import logging
import time
from typing import Any

try:
    import resource
except ImportError:  # Windows has neither this nor the limit
    resource = None

IDLE = 20.0  # seconds without a request under way, after which a connection is closed within as many again
FILES = 4096  # that the server may open, where the system lets it ask for so many
SHARE = 0.75  # of these for connections: the rest is for models, exports and the interpreter
SAY_EVERY = 10.0  # seconds between two lines in the log of the same complaint

_BUSY = object()
_log = logging.getLogger(__name__)


class OneLine(logging.Filter):
    """For asyncio's log: that no connection could be accepted is one line now and then, instead of a trace for each that waits."""

    def __init__(self) -> None:
        super().__init__()
        self._said = -SAY_EVERY

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.getMessage().startswith("socket.accept() out of system resource"):
            return True
        now = time.monotonic()
        if now - self._said < SAY_EVERY:
            return False
        self._said = now
        record.msg, record.args, record.exc_info = "Too many open files: no further connection can be accepted for now.", (), None
        return True


def most_connections() -> int:
    """How many may be open at the same time. Raises the process's limit of open files as far as FILES, where that is allowed."""
    if resource is None:
        return int(FILES * SHARE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (ValueError, OSError):  # some systems say no all the same
            pass
    return int(SHARE * (FILES if soft == resource.RLIM_INFINITY else min(soft, FILES)))


def quieten() -> None:
    """Keeps asyncio's log short from now on."""
    logging.getLogger("asyncio").addFilter(OneLine())


def _close_if_idle(connection: Any) -> None:
    if connection.cycle is None or connection.cycle.response_complete:
        connection.transport.close()


def watch(server: Any, idle: float = IDLE, most: int | None = None) -> None:
    """Sees to the connections that come from now on, and closes the idle ones that are there. server: a running uvicorn.Server."""
    limit = most_connections() if most is None else most
    complaint = [-SAY_EVERY]

    class Watched(server.config.http_protocol_class):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > limit:
                if time.monotonic() - complaint[0] >= SAY_EVERY:
                    complaint[0] = time.monotonic()
                    _log.warning("More than %d open connections: further ones are closed.", limit)
                transport.abort()
            else:
                self.loop.call_later(idle, self._look, _BUSY)

        def _look(self, last: Any) -> None:
            """last: the last request that had been answered at the last look (None: there had been none), or _BUSY."""
            if self.transport.is_closing() or self not in self.connections:  # the latter of a WebSocket
                return
            now = _BUSY if self.cycle is not None and not self.cycle.response_complete else self.cycle
            if now is last is not _BUSY:
                self.transport.close()  # once what was written has been read
            else:
                self.loop.call_later(idle, self._look, now)

    server.config.http_protocol_class = Watched
    for each in list(server.server_state.connections):
        each.loop.call_soon_threadsafe(_close_if_idle, each)
