"""Files for a visitor: all maps, one map, or the page itself, of the translation that is on the screen.

Handlers first: plain functions that take what the page sent, callable without a browser.

Why files and not data in the answer: the maps of a long sentence are 150 MB. Each file lies in Gradio's cache, in a folder whose name is
128 random bits, so nobody else can find it. Gradio deletes it with the rest of its cache (`delete_cache` in app.py: after an hour or two,
and when the server stops), and all exports together are kept under MAX_FOLDER_BYTES: the oldest go first.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import gradio as gr

from model.errors import AtlasError
from viz.exports import file_name, write_csv, write_json, write_npz
from viz.offline import write_page
from viz.page import report_end, static_block
from viz.panels.choice import MapChoice, as_mapping, one_of
from viz.panels.notice import notice
from viz.runs import Request, Run, RunCache

FORMS = ("csv_map", "csv", "json", "npz", "html")
MAX_FOLDER_BYTES = 2**30
MAX_AGE = 2 * 3600  # seconds; Gradio forgets what a process left behind that was killed
log = logging.getLogger(__name__)


class NotWrittenError(AtlasError):
    """The server's disk is full, or may not be written to."""

    code = "export_not_written"

    def __init__(self) -> None:
        super().__init__("The file could not be written: the disk is full or refuses it.")


# --- handlers ---


def export(runs: RunCache, result: object, store: object, folder: Path) -> dict[str, Any]:
    """Writes the file that the page asks for in `store["exporting"]` about the run in `result`. Never runs the model.

    exporting: "form" (one of FORMS), "serial", and for the page to keep "dark", "row", "column".

    Returns `serial` as sent, and one of: `file` (Gradio makes an address of it) with its `name`; `gone`, if the run has left the cache;
    `problem`, as `viz.panels.notice` words it.
    """
    asked = as_mapping(as_mapping(store).get("exporting"))
    serial = asked.get("serial")
    answer: dict[str, Any] = {"serial": serial if isinstance(serial, (int, float)) else None, "at": time.time()}
    try:
        form = one_of("form", asked.get("form"), FORMS)
        run = runs.find(Request.from_page(as_mapping(result).get("request")))
        if run is None:
            return {**answer, "gone": True}
        choice = MapChoice.from_page(store, run.trace, run.best_heads)
        path = write_file(folder, *_writer(form, run, choice, store))
    except Exception as error:
        return {**answer, "problem": notice(error)}
    return {**answer, "name": path.name, "file": {"path": str(path), "meta": {"_type": "gradio.FileData"}}}


def _writer(form: str, run: Run, choice: MapChoice, store: object) -> tuple[str, Callable[[BinaryIO], None]]:
    """The name of the file, and what writes it."""
    asked = {name: as_mapping(as_mapping(store).get("exporting")).get(name) for name in ("dark", "row", "column")}
    return {
        "csv_map": (file_name("csv", choice), lambda file: write_csv(run, file, choice)),
        "csv": (file_name("csv"), lambda file: write_csv(run, file, rows=choice.rows)),
        "json": (file_name("json"), lambda file: write_json(run, file)),
        "npz": (file_name("npz"), lambda file: write_npz(run, file)),
        "html": (file_name("html", choice), lambda file: write_page(run, file, {**as_mapping(store), **asked})),
    }[form]


def write_file(folder: Path, name: str, write: Callable[[BinaryIO], None]) -> Path:
    """Writes a file called `name` under a path that cannot be guessed. Raises NotWrittenError; then nothing of it stays."""
    path = folder / secrets.token_hex(16) / name
    try:
        make_room(folder)
        path.parent.mkdir(parents=True)
        with path.open("xb") as file:
            write(file)
    except OSError as error:
        log.warning("an export could not be written: %s", error)
        _remove(path)
        raise NotWrittenError from error
    except BaseException:
        _remove(path)
        raise
    return path


def make_room(folder: Path, most: int | None = None) -> None:
    """Deletes exports older than MAX_AGE, the oldest until the rest has at most `most` bytes, and folders that Gradio has emptied."""
    most = MAX_FOLDER_BYTES if most is None else most
    found = []
    for path in folder.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):  # Gradio deletes too
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    total = sum(size for _, size, _ in found)
    for written, size, path in sorted(found):
        if total <= most and time.time() - written <= MAX_AGE:
            break
        _remove(path)
        total -= size
    for each in folder.glob("*/"):
        with contextlib.suppress(OSError):  # it holds a file, or has just been made for one
            if time.time() - each.stat().st_mtime > 60:
                each.rmdir()


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        os.rmdir(path.parent)


# --- layout ---


def build(runs: RunCache, bridge: gr.HTML, result: gr.HTML) -> None:
    """Wires the event "export"; the buttons are drawn by static/share.js."""
    box = static_block("", "atlas.exported(props, watch)", "exported", None, visible="hidden")
    folder = Path(box.GRADIO_CACHE) / "attention-atlas-exports"
    make_room(folder)

    def on_export(shown: dict, store: dict) -> tuple[Any, Any]:
        answer = export(runs, shown, store, folder)
        # A run that is gone is computed anew by the page, which then asks once more.
        return answer, {**as_mapping(shown), "stale": time.time()} if answer.get("gone") else gr.skip()

    event = bridge.export(
        on_export,
        [result, bridge],
        [box, result],
        show_progress="hidden",
        trigger_mode="always_last",
        concurrency_id="export",
        concurrency_limit=2,
        api_visibility="private",
    )
    report_end(event, "export")
