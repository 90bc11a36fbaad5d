"""Fetching a file from a server that hangs up, changes its mind or has something else."""

from __future__ import annotations

import bz2
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.training.fetch import DownloadError, fetch
from tests.model.training import samples
from tests.model.training.file_server import FileServer, serving

CONTENT = bz2.compress(random.Random(0).randbytes(200_000))
OTHER = bz2.compress(random.Random(1).randbytes(150_000))
NAME = "/data.tsv.bz2"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as running:
        running.files[NAME] = CONTENT
        yield running


def get(server: FileServer, folder: Path, **options: object) -> Path:
    return fetch(server.url + NAME, folder / "data.tsv.bz2", **{"timeout": 5, "pause": 0.01, **options})


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_file_is_fetched_once(server: FileServer, tmp_path: Path) -> None:
    path = get(server, tmp_path / "new" / "folder")
    assert path.read_bytes() == CONTENT
    assert names(path.parent) == {"data.tsv.bz2"}
    assert get(server, path.parent) == path
    assert len(server.seen) == 1


def test_a_broken_connection_is_continued(server: FileServer, tmp_path: Path) -> None:
    server.faults[NAME] = [("cut", 70_000), ("cut", 50_000)]
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.seen] == ["", "bytes=70000-", "bytes=120000-"]


def test_the_next_run_goes_on_where_this_one_gave_up(server: FileServer, tmp_path: Path) -> None:
    server.faults[NAME] = [("cut", 70_000), ("cut", 10)]
    with pytest.raises(DownloadError, match=r"ended after 70,010 of \d+,\d+ bytes .*tried 2 times.*again"):
        get(server, tmp_path, attempts=2)
    assert "data.tsv.bz2" not in names(tmp_path)
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert server.seen[-1][1] == "bytes=70010-"
    assert names(tmp_path) == {"data.tsv.bz2"}


def test_a_part_of_another_version_is_thrown_away(server: FileServer, tmp_path: Path) -> None:
    """The exports change every week: halves of two of them make no file."""
    server.faults[NAME] = [("cut", 70_000)]
    with pytest.raises(DownloadError):
        get(server, tmp_path, attempts=1)
    server.files[NAME] = OTHER
    assert get(server, tmp_path).read_bytes() == OTHER


@pytest.mark.parametrize("tag", ["", 'W/"weak"'])
def test_without_a_strong_tag_nothing_is_continued(tag: str, server: FileServer, tmp_path: Path) -> None:
    server.tags[NAME] = tag
    server.faults[NAME] = [("cut", 70_000)]
    assert get(server, tmp_path).read_bytes() == CONTENT
    assert [asked for _, asked in server.seen] == ["", ""]


def test_a_server_without_ranges_sends_it_all_again(server: FileServer, tmp_path: Path) -> None:
    server.ranges = False
    server.faults[NAME] = [("cut", 70_000)]
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_another_range_than_asked_for_is_not_pasted_in(server: FileServer, tmp_path: Path) -> None:
    server.faults[NAME] = [("cut", 70_000), ("lie", 1000)]
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_a_part_that_is_too_long_is_thrown_away(server: FileServer, tmp_path: Path) -> None:
    server.faults[NAME] = [("cut", 70_000)]
    with pytest.raises(DownloadError):
        get(server, tmp_path, attempts=1)
    with (tmp_path / "data.tsv.bz2.part").open("ab") as part:
        part.write(bytes(len(CONTENT)))
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_a_busy_server_is_asked_again(server: FileServer, tmp_path: Path) -> None:
    server.faults[NAME] = [503, 429]
    assert get(server, tmp_path).read_bytes() == CONTENT
    server.faults[NAME] = [503] * 9
    with pytest.raises(DownloadError, match="503"):
        get(server, tmp_path / "other", attempts=3)
    assert len(server.seen) == 6


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_is_not_repeated(status: int, server: FileServer, tmp_path: Path) -> None:
    server.faults[NAME] = [status]
    with pytest.raises(DownloadError, match=str(status)):
        get(server, tmp_path)
    assert len(server.seen) == 1
    assert names(tmp_path) == set()


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"no connection.*tried 2 times"):
        fetch(f"http://127.0.0.1:{samples.free_port()}{NAME}", tmp_path / "data", timeout=5, pause=0.01, attempts=2)


def test_no_address(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="not an address"):
        fetch("here", tmp_path / "data", pause=0.01)


def test_a_page_instead_of_the_file(server: FileServer, tmp_path: Path) -> None:
    server.files[NAME] = b"<!DOCTYPE html><title>Please log in</title>"
    with pytest.raises(DownloadError, match=r"no bz2 file.*DOCTYPE"):
        get(server, tmp_path)
    assert names(tmp_path) == set()


@pytest.mark.parametrize("damaged", [CONTENT[:-5], CONTENT[:1000] + b"XX" + CONTENT[1002:]])
def test_a_damaged_file_is_not_kept(damaged: bytes, server: FileServer, tmp_path: Path) -> None:
    server.files[NAME] = damaged
    with pytest.raises(DownloadError, match="damaged"):
        get(server, tmp_path)
    assert names(tmp_path) == set()
    server.files[NAME] = CONTENT
    assert get(server, tmp_path).read_bytes() == CONTENT


def test_a_folder_that_cannot_be_written(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "data.tsv.bz2.part").mkdir()
    with pytest.raises(DownloadError, match="cannot be written"):
        get(server, tmp_path)
