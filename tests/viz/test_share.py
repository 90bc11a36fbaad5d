"""The handler behind "Save": what a page may ask for, where files lie, and what is said when one cannot be written."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.viz.fakes import FakeTranslator, recorded_run
from viz.panels import share
from viz.panels.share import FORMS, export, make_room, write_file
from viz.runs import Request, RunCache

TRANSLATOR = FakeTranslator()
STORE = {"lang": "en", "kind": "cross", "layer": 1, "head": 2, "rows": "read", "units": "words", "specials": "hidden", "colour": "log"}


@pytest.fixture(scope="module")
def runs() -> RunCache:
    return RunCache(TRANSLATOR, recorded_run(TRANSLATOR))


def shown(runs: RunCache) -> dict:
    return {"request": runs.recorded.request.as_dict()}


def asking(form: object, **more: object) -> dict:
    return STORE | {"exporting": {"form": form, "serial": 7, **more}}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_written_under_a_name_of_its_own(runs: RunCache, tmp_path: Path, form: str) -> None:
    names = {"csv_map": "cross-L1H2.csv", "csv": "maps.csv", "json": "maps.json", "npz": "maps.npz", "html": "cross-L1H2.html"}
    calls = TRANSLATOR.calls
    answer = export(runs, shown(runs), asking(form, dark=True, row=1, column=None), tmp_path)
    assert answer["serial"] == 7 and answer["name"] == f"attention-atlas-{names[form]}"
    path = Path(answer["file"]["path"])
    assert path.stat().st_size > 1000 and path.parent.parent == tmp_path and len(path.parent.name) == 32
    assert answer["file"]["meta"] == {"_type": "gradio.FileData"} and TRANSLATOR.calls == calls
    again = export(runs, shown(runs), asking(form), tmp_path)
    assert Path(again["file"]["path"]).parent != path.parent
    if form == "html":
        assert '"dark": true' in path.read_text(encoding="utf-8") and '"row": 1' in path.read_text(encoding="utf-8")
    if form == "npz":
        with np.load(path, allow_pickle=False) as file:
            np.testing.assert_array_equal(file["cross_attention"], runs.recorded.trace.cross_attention)


@pytest.mark.parametrize(
    "change",
    [
        {"exporting": None},
        {"exporting": {"form": "../../etc/passwd", "serial": 1}},
        {"exporting": {"form": ["npz"], "serial": {"a": 1}}},
        {"layer": 2},
        {"head": "norm", "layer": 99},
        {"kind": "diagonal"},
    ],
)
def test_what_there_is_not_is_refused(runs: RunCache, tmp_path: Path, change: dict) -> None:
    answer = export(runs, shown(runs), asking("csv_map") | change, tmp_path)
    assert answer["problem"]["code"] == "invalid_setting" and "file" not in answer
    assert list(tmp_path.rglob("*.*")) == []


@pytest.mark.parametrize("result", [None, 3, {}, {"request": {"text": 1}}])
def test_a_result_that_is_none_is_refused(runs: RunCache, tmp_path: Path, result: object) -> None:
    assert export(runs, result, asking("npz"), tmp_path)["problem"]["code"] == "invalid_setting"


def test_a_run_that_is_gone_is_not_computed_here(runs: RunCache, tmp_path: Path) -> None:
    calls = TRANSLATOR.calls
    answer = export(runs, {"request": Request("Never seen.", "fra").as_dict()}, asking("npz"), tmp_path)
    assert answer["gone"] is True and "file" not in answer and TRANSLATOR.calls == calls


def test_norms_that_were_not_measured_are_refused(tmp_path: Path) -> None:
    runs = RunCache(TRANSLATOR, replace(recorded_run(TRANSLATOR), norms=None))
    for form in ("csv_map", "html"):
        assert export(runs, shown(runs), asking(form) | {"head": "norm"}, tmp_path)["problem"]["code"] == "invalid_setting"
    assert list(tmp_path.rglob("*.*")) == []  # nothing half written stays
    assert "file" in export(runs, shown(runs), asking("csv_map") | {"head": "rollout"}, tmp_path)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["attention-atlas-cross-L1-rollout.csv"]


def test_a_full_disk_is_said_and_leaves_nothing(runs: RunCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(run, file):
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(share, "write_npz", full)
    assert export(runs, shown(runs), asking("npz"), tmp_path)["problem"] == {"code": "export_not_written", "params": {}}
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_of_ours_is_one_sentence(runs: RunCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "write_json", lambda run, file: 1 / 0)
    assert export(runs, shown(runs), asking("json"), tmp_path)["problem"] == {"code": "unexpected", "params": {}}
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_files_make_room(tmp_path: Path) -> None:
    paths = [write_file(tmp_path, f"{i}.csv", lambda file: file.write(b"x" * 100)) for i in range(4)]
    for age, path in zip((40, 30, 20, 10), paths, strict=True):
        os.utime(path, (time.time() - age,) * 2)
    make_room(tmp_path, 250)
    assert [path.exists() for path in paths] == [False, False, True, True]
    empty = tmp_path / "empty"
    empty.mkdir()
    make_room(tmp_path, 250)
    assert empty.exists()  # somebody may be about to write into it
    os.utime(empty, (time.time() - 100,) * 2)
    make_room(tmp_path, 250)
    assert not empty.exists() and paths[3].exists()
