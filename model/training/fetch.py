"""Fetching one file over HTTP: continued where it broke off, checked, and in its place only when it is whole."""

from __future__ import annotations

import bz2
import time
import urllib.error
import urllib.request
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from tqdm import tqdm

ATTEMPTS = 4
_BLOCK = 1 << 18
_MAGIC = b"BZh"
# Of the answers that mean "not now".
_PASSING = (408, 425, 429, 500, 502, 503, 504)


class DownloadError(Exception):
    """A file could not be fetched, or is not what it should be. The message says what to do."""


class _Broken(Exception):
    """The connection ended too early or never came about: worth another try."""


def fetch(url: str, path: Path, *, timeout: float = 30.0, attempts: int = ATTEMPTS, pause: float = 2.0) -> Path:
    """Fetches the bz2 file at `url` to `path` and returns `path`; a file that is there already is kept as it is.

    Until it is whole it is called <name>.part. A part of an earlier try is continued if the server still has the same file (HTTP range
    requests, RFC 9110, section 14), else fetched anew. A whole file is unpacked once, since every bz2 block has a checksum.

    timeout: seconds without a byte. pause: seconds before the second try; doubled for each further one.
    Raises DownloadError: no network, an answer such as 404, a file that stays incomplete, or one that is no sound bz2 file.
    """
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(attempts):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            part = _download(url, path, timeout)
            break
        except _Broken as error:
            reason = str(error)
    else:
        raise DownloadError(f"{url}: {reason} (tried {attempts} times). Run the same command again to go on.")
    try:
        _check(part)
    except DownloadError as error:
        # What is broken cannot be continued.
        part.unlink()
        _tag(path).unlink(missing_ok=True)
        raise DownloadError(f"{url}: {error}") from None
    part.replace(path)
    _tag(path).unlink(missing_ok=True)
    return path


def _download(url: str, path: Path, timeout: float) -> Path:
    part = path.with_name(path.name + ".part")
    headers = {"User-Agent": "attention-atlas-training/1", "Accept-Encoding": "identity"}
    tag = _tag(path).read_text(encoding="ascii") if _tag(path).exists() else ""
    if tag and part.exists():
        headers |= {"Range": f"bytes={part.stat().st_size}-", "If-Range": tag}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout) as answer:
            return _receive(answer, path, part)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # a part as long as the file, or longer
            part.unlink(missing_ok=True)
            raise _Broken("what was fetched before does not fit the file") from None
        if error.code in _PASSING:
            raise _Broken(f"the server answers {error.code} {error.reason}") from None
        hint = ": is there such a language, and is the base address right?" if error.code in (404, 410) else ""
        raise DownloadError(f"{url}: the server answers {error.code} {error.reason}{hint}") from None
    except (OSError, HTTPException) as error:  # URLError and timeouts are OSErrors
        raise _Broken(f"no connection, or it broke ({getattr(error, 'reason', None) or error or type(error).__name__})") from None
    except ValueError as error:
        raise DownloadError(f"{url}: not an address ({error})") from None


def _receive(answer: HTTPResponse, path: Path, part: Path) -> Path:
    have = part.stat().st_size if answer.status == 206 else 0
    if answer.status == 206 and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        part.unlink()
        raise _Broken("the server sends another part than it was asked for")
    length = answer.headers.get("Content-Length")
    expected = have + int(length) if length else None
    if not have:
        # Without a validator a part may be one of last week's file: then the next try begins anew.
        etag = answer.headers.get("ETag", "")
        strong = etag if etag.startswith('"') else answer.headers.get("Last-Modified", "")
        _tag(path).write_text(strong, "ascii", "replace")
    with tqdm(total=expected, initial=have, desc=path.name, unit="B", unit_scale=True, mininterval=1) as bar:
        mode = "ab" if have else "wb"
        while block := answer.read(_BLOCK):
            try:
                with part.open(mode) as file:
                    file.write(block)
            except OSError as error:  # a full disk is no broken connection
                raise DownloadError(f"{part.name} cannot be written: {error.strerror}") from None
            mode = "ab"
            have += len(block)
            bar.update(len(block))
    if expected is not None and have != expected:
        raise _Broken(f"the connection ended after {have:,} of {expected:,} bytes")
    return part


def _check(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(16)
    if not start.startswith(_MAGIC):
        raise DownloadError(f"this is no bz2 file, it begins with {start!r}: is the base address right?")
    try:
        with bz2.open(path) as unpacked:
            while unpacked.read(1 << 20):
                pass
    except (OSError, EOFError) as error:
        raise DownloadError(f"the bz2 file is damaged ({error}). Run the same command again to fetch it anew.") from None


def _tag(path: Path) -> Path:
    """Beside a part, what the server called this version of the file (its ETag or date)."""
    return path.with_name(path.name + ".tag")
