"""The page as a process: it starts, serves, and ends within seconds when it is told to, whatever it is doing."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import gradio as gr
from gradio.exceptions import ServerFailedToStartError

from viz import connections


def serve(demo: gr.Blocks, options: dict[str, Any]) -> None:
    """Serves the page until SIGTERM or Ctrl-C; then ends the process. A second one ends it at once.

    Answers that are under way get five seconds; a translation that takes longer, or a download, isn't waited for. The files of a model that
    are here already stay in the cache.
    Raises SystemExit with a plain sentence if it cannot be served.
    """
    told = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        if told.is_set():
            os._exit(128 + number)
        told.set()

    # Not left to Gradio, which knows Ctrl-C alone, nor to the system: SIGTERM ends the first process of a container only if it is handled.
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, end)
    connections.quieten()
    try:
        demo.launch(prevent_thread_lock=True, **options)
    except ServerFailedToStartError:
        raise SystemExit("The server did not start within five seconds: is this machine very busy? Start it again.") from None
    except OSError as error:  # Gradio's own advice names a variable that this program doesn't read
        logging.getLogger(__name__).debug("launch failed", exc_info=error)
        raise SystemExit(f"Port {options['server_port']} is taken or not allowed here: set PORT to another one.") from None
    connections.watch(demo.server)
    told.wait()
    print("Stopping.", flush=True)
    demo.close(verbose=False)
    logging.shutdown()
    sys.stderr.flush()
    os._exit(0)  # a thread that still computes would keep Python waiting
