"""Files of a model on the Hugging Face hub, by way of `huggingface_hub` and its cache: only those that are needed, none of them run."""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import HfApi, constants, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from model.checkpoint import CONFIG_FILE
from model.errors import (
    AtlasError,
    CheckpointMissingError,
    DiskFullError,
    GatedRepositoryError,
    HubUnreachableError,
    ModelIdError,
    ModelTooLargeError,
    UnknownRepositoryError,
    UnknownRevisionError,
)
from model.layout import read_layout
from model.reasons import because

MB = 10**6
BROKEN = because("broken_off")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
REMAINS_AGE = 900.0  # seconds without a byte; a download that lives gives up much earlier
TIMEOUT = 10.0  # seconds for the list of files; huggingface_hub has its own for the files
SMALL_FILES = (
    CONFIG_FILE,
    "generation_config.json",
    "tokenizer_config.json",
    "vocab.json",
    "target_vocab.json",
    "source.spm",
    "target.spm",
    "tokenizer.model",
)
# The same weights lie in a repository up to five times, for other programs too: the first kind that is there is taken.
_WEIGHTS = (("model", "safetensors"), ("pytorch_model", "bin"))

Progress = Callable[[int, int], None]  # bytes that are here, bytes in all

# The base of every error of the HTTP library, be that httpx (huggingface_hub 1) or httpx2 (2).
_HTTPError = HfHubHTTPError.__bases__[0]


@dataclass(frozen=True)
class Fetched:
    """A folder with a model's files, and the commit they are of (40 hexadecimal digits)."""

    folder: Path
    revision: str


def fetch(
    repo_id: str,
    revision: str | None = None,
    progress: Progress | None = None,
    *,
    max_bytes: int | None = None,
    endpoint: str | None = None,
    cache_dir: Path | None = None,
) -> Fetched:
    """Brings the files of a model into the cache of `huggingface_hub`, if they are not there. Without a network, the cache has to do.

    revision: a commit, tag or branch; None is the newest commit of the main branch. It is resolved to a commit first, so that all files
    are of the same one. config.json comes first: a model of another architecture costs no download.
    progress: called with bytes. max_bytes: refuses weights larger than that before they are fetched.
    Raises HubUnreachableError, UnknownRepositoryError, UnknownRevisionError, GatedRepositoryError, WrongArchitectureError,
    CheckpointMissingError, DiskFullError, ModelTooLargeError and ModelIdError.
    """
    where = {"endpoint": endpoint, "cache_dir": cache_dir}
    try:
        with _told(repo_id, revision):
            info = HfApi(endpoint=endpoint).model_info(repo_id, revision=revision, files_metadata=True, timeout=TIMEOUT)
            sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
            commit = info.sha
    except HubUnreachableError:
        cached = _cached(repo_id, revision, cache_dir)
        if cached is None:
            raise
        return cached
    names = needed_files(sizes)
    weights = sum(sizes[name] for name in names if name not in SMALL_FILES)
    if max_bytes is not None and weights > max_bytes:
        raise ModelTooLargeError(round(weights / MB), round(max_bytes / MB))
    total, done = sum(sizes[name] for name in names), 0
    _remove_remains(repo_id, cache_dir)
    _check_room(total - sum(sizes[name] for name in names if _is_cached(repo_id, name, commit, cache_dir)), cache_dir)
    report = progress or (lambda done, total: None)
    report(0, total)
    folder = Path()
    for name in names:
        with _told(repo_id, revision, name, total, cache_dir):
            bar = _bar_class(lambda here, start=done, size=sizes[name]: report(min(start + here, start + size), total))
            # The first one under the name that was asked for, so that the cache knows it without a network too.
            at = revision if name == CONFIG_FILE else commit
            folder = Path(hf_hub_download(repo_id, name, revision=at, tqdm_class=bar, **where)).parent
        done += sizes[name]
        report(done, total)
        if name == CONFIG_FILE:
            read_layout(folder)
            commit = folder.name  # the same, unless somebody committed in this very moment
    return Fetched(folder, commit)


def needed_files(names: Iterable[str]) -> list[str]:
    """Of all files of a repository or folder those that make up the model: config.json first, the weights last, a split one in order.

    Raises CheckpointMissingError naming what is not there.
    """
    names = set(names)
    if CONFIG_FILE not in names:
        raise CheckpointMissingError(CONFIG_FILE)
    small = [name for name in SMALL_FILES if name in names]
    for stem, ending in _WEIGHTS:
        if f"{stem}.{ending}" in names:
            return [*small, f"{stem}.{ending}"]
        shards = [match for name in sorted(names) if (match := re.fullmatch(rf"{stem}-\d{{5}}-of-(\d{{5}})\.{ending}", name))]
        if shards:
            parts = [f"{stem}-{number:05}-of-{shards[-1][1]}.{ending}" for number in range(1, int(shards[-1][1]) + 1)]
            if missing := [part for part in parts if part not in names]:
                raise CheckpointMissingError(missing[0])
            index = f"{stem}.{ending}.index.json"
            return [*small, *([index] if index in names else []), *parts]
    raise CheckpointMissingError("model.safetensors")


def _cached(repo_id: str, revision: str | None, cache_dir: Path | None) -> Fetched | None:
    """What an earlier download left, if it is whole."""
    path = try_to_load_from_cache(repo_id, CONFIG_FILE, cache_dir=cache_dir, revision=revision)
    if not isinstance(path, str):
        return None
    folder = Path(path).parent
    try:
        needed_files(file.name for file in folder.iterdir())
    except CheckpointMissingError:
        return None
    return Fetched(folder, folder.name)


def _is_cached(repo_id: str, name: str, commit: str, cache_dir: Path | None) -> bool:
    return isinstance(try_to_load_from_cache(repo_id, name, cache_dir=cache_dir, revision=commit), str)


def _remove_remains(repo_id: str, cache_dir: Path | None) -> None:
    """Deletes what processes that were killed in the middle of a download left behind: huggingface_hub neither reads nor deletes it."""
    folder = Path(cache_dir or constants.HF_HUB_CACHE).expanduser() / f"models--{repo_id.replace('/', '--')}" / "blobs"
    for path in folder.glob("*.incomplete"):
        with suppress(OSError):  # the process that wrote it may be alive, and done with it just now
            if time.time() - path.stat().st_mtime > REMAINS_AGE:
                path.unlink()


def _check_room(needed: int, cache_dir: Path | None) -> None:
    """Raises DiskFullError before anything is written. huggingface_hub only warns."""
    if needed > (free := _free_bytes(cache_dir)):
        raise DiskFullError(-(-needed // MB), free // MB)


def _free_bytes(cache_dir: Path | None) -> int:
    folder = Path(cache_dir or constants.HF_HUB_CACHE).expanduser()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def _bar_class(report: Callable[[int], None]) -> type:
    """A class that huggingface_hub takes for its progress bars and that draws nothing. A file may get two bars, for bytes that came over
    the network and bytes that were written: the one ahead counts."""
    here = 0

    class Bar:
        def __init__(self, *args: object, initial: int = 0, total: int | None = None, **kwargs: object) -> None:
            del args, kwargs
            self.n, self.total = initial, total

        def update(self, amount: float | None = 1) -> None:
            nonlocal here
            self.n += amount or 0
            if self.n > here:
                here = int(self.n)
                report(here)

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *args: object) -> None:
            pass

        def __getattr__(self, name: str) -> Callable[..., None]:  # refresh, close, set_description, ...
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *args, **kwargs: None

    return Bar


@contextmanager
def _told(repo_id: str, revision: str | None, file: str = "", needed: int = 0, cache_dir: Path | None = None) -> Iterator[None]:
    """Turns what huggingface_hub and the system raise into our errors. The order matters: a gated repository is also "not found"."""
    try:
        yield
    except AtlasError:
        raise
    except GatedRepoError as error:
        raise GatedRepositoryError(repo_id) from error
    except RepositoryNotFoundError as error:
        raise UnknownRepositoryError(repo_id) from error
    except RevisionNotFoundError as error:
        raise UnknownRevisionError(repo_id, str(revision)) from error
    except (OfflineModeIsEnabled, LocalEntryNotFoundError) as error:
        raise HubUnreachableError(repo_id, because("offline" if constants.HF_HUB_OFFLINE else "no_connection")) from error
    except EntryNotFoundError as error:
        raise CheckpointMissingError(file) from error
    except HfHubHTTPError as error:
        if error.response.status_code in (401, 404):
            raise UnknownRepositoryError(repo_id) from error
        raise HubUnreachableError(repo_id, because("answered", status=error.response.status_code)) from error
    except HFValidationError as error:
        raise ModelIdError(repo_id) from error
    except _HTTPError as error:
        name = type(error).__name__
        detail = because("no_answer" if "Timeout" in name else "no_connection" if "Connect" in name else "broken_off")
        raise HubUnreachableError(repo_id, detail) from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise DiskFullError(-(-needed // MB), _free_bytes(cache_dir) // MB) from error
        raise HubUnreachableError(repo_id, os.strerror(error.errno) if error.errno else BROKEN) from error
    except RuntimeError as error:  # how hf_xet, which brings the large files, reports everything
        raise HubUnreachableError(repo_id, BROKEN) from error
