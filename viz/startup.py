"""What has to be settled before the large packages are imported. Nothing but the standard library here."""

from __future__ import annotations

import os
import signal
import tempfile


def prepare() -> None:
    """Lets Ctrl-C and SIGTERM end the program at once and without a trace while it starts (`viz.serve` takes over once it serves), and
    makes do without a folder for temporary files: importing Gradio would fail.
    """
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, frame: os._exit(128 + number))
    try:
        tempfile.gettempdir()
    except FileNotFoundError:
        print("No folder for temporary files can be written to, so nothing can be saved from the page: set TMPDIR to one.", flush=True)
        os.environ.setdefault("GRADIO_TEMP_DIR", os.path.join(os.sep, "tmp", "gradio"))


def limit_threads() -> None:
    """As many processor threads as there are cores, at most 4, unless OMP_NUM_THREADS says otherwise: a small model gains nothing from
    more, and loses much where a machine has many."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(min(cores, 4)))
