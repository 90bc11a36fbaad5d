"""Loaded models for many visitors: as many as fit into a number of bytes, each loaded once, whoever asks.

Loading goes on in threads of its own, so that a page can ask how far it is, and a visitor who leaves or chooses otherwise stops nobody.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.errors import InvalidSettingError, ModelTooLargeError, TooManyLoadsError

if TYPE_CHECKING:
    from model.hub import Progress
    from model.translator import Translator

ENVIRONMENT_VARIABLE = "ATLAS_MODEL_MEMORY"
MB, GB = 10**6, 10**9
AT_ONCE = 2  # loads that run; while one downloads, another may read
IN_ALL = 8  # loads that run or wait
KEPT_FAILURES = 32


@dataclass(frozen=True)
class LoadState:
    """How far a load is. stage: "waiting", "downloading" (then `done` of `total` bytes are here), "reading", "ready" or "failed"."""

    stage: str
    done: int = 0
    total: int = 0
    error: Exception | None = None
    translator: Translator | None = None


class _Load:
    def __init__(self) -> None:
        self.state = LoadState("waiting")
        self.ended = threading.Event()


def memory_limit() -> int:
    """Bytes set aside for models: ATLAS_MODEL_MEMORY (such as "1500", in MB, or "3GB"), else a quarter of this machine's memory within
    1 and 4 GB. An OPUS-MT model of the usual size takes 0.3 GB and on a
    processor 0.2 GB for copies (`model.stepping`), a "big" one 0.95 GB. Raises InvalidSettingError."""
    value = os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if value:
        match = re.fullmatch(r"(\d{1,9})\s*(MB|GB)?", value, re.IGNORECASE)
        if match is None or int(match[1]) == 0:
            raise InvalidSettingError(ENVIRONMENT_VARIABLE, value, "a number of megabytes such as 1500, or gigabytes such as 3GB")
        return int(match[1]) * (GB if (match[2] or "").upper() == "GB" else MB)
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        memory = 8 * GB
    return min(4 * GB, max(1 * GB, memory // 4))


class ModelPool:
    """Models by their names. All methods may be called from any thread.

    load: called as load(name, revision, progress, max_bytes); raises AtlasError if it cannot. max_bytes: for all models together; None
    takes `memory_limit`. When a new one needs room, the one used longest ago leaves; whoever is using it at that moment keeps it until
    the end of their call. A failed load takes nothing away.
    """

    def __init__(
        self, load: Callable[[str, str | None, Progress, int], Translator], max_bytes: int | None = None, at_once: int = AT_ONCE
    ) -> None:
        self._load = load
        self.max_bytes = memory_limit() if max_bytes is None else max_bytes
        self._models: OrderedDict[str, Translator] = OrderedDict()  # the one used longest ago first
        self._loads: OrderedDict[str, _Load] = OrderedDict()  # under way, or failed and not yet tried again
        self._revisions: dict[str, str] = {}  # a name stays with the commit that was loaded first
        self._lock = threading.Lock()  # the tables, held for microseconds
        self._slots = threading.BoundedSemaphore(at_once)

    def names(self) -> tuple[str, ...]:
        """Loaded models, the one used last at the end."""
        with self._lock:
            return tuple(self._models)

    def find(self, name: str) -> Translator | None:
        """The model if it is loaded. Never loads."""
        with self._lock:
            if name in self._models:
                self._models.move_to_end(name)
            return self._models.get(name)

    def start(self, name: str, again: bool = False) -> LoadState:
        """Begins to load the model unless it is loaded or on its way, and says at once how far it is.

        again: a load that failed is tried anew instead of told once more. Raises TooManyLoadsError.
        """
        translator = self.find(name)
        if translator is not None:
            return LoadState("ready", translator=translator)
        return self._begin(name, again).state

    def get(self, name: str) -> Translator:
        """The model, loaded if need be; waits for it. Raises what the load raised, and TooManyLoadsError."""
        translator = self.find(name)
        if translator is None:
            load = self._begin(name, again=True)
            load.ended.wait()
            if load.state.error is not None:
                raise load.state.error
            translator = load.state.translator
        return translator

    def _begin(self, name: str, again: bool) -> _Load:
        with self._lock:
            if name in self._models:  # just now, in another thread
                load = _Load()
                load.state = LoadState("ready", translator=self._models[name])
                load.ended.set()
                return load
            load = self._loads.get(name)
            if load is not None and not (again and load.ended.is_set()):
                return load
            if sum(not load.ended.is_set() for load in self._loads.values()) >= IN_ALL:
                raise TooManyLoadsError
            load = self._loads[name] = _Load()
        # A daemon: a download must not keep the program from ending.
        threading.Thread(target=self._run, args=(name, load), name=f"load {name}", daemon=True).start()
        return load

    def _run(self, name: str, load: _Load) -> None:
        def progress(done: int, total: int) -> None:
            load.state = LoadState("downloading" if done < total else "reading", done, total)

        try:
            with self._slots:
                load.state = LoadState("reading")
                translator = self._load(name, self._revisions.get(name), progress, self.max_bytes)
                self._keep(name, translator)
            load.state = LoadState("ready", translator=translator)
        except Exception as error:
            load.state = LoadState("failed", error=error)
        finally:
            load.ended.set()
            with self._lock:
                if load.state.error is None:
                    self._loads.pop(name, None)
                failed = [each for each, load in self._loads.items() if load.ended.is_set()]
                for each in failed[:-KEPT_FAILURES]:
                    del self._loads[each]

    def _keep(self, name: str, translator: Translator) -> None:
        size = translator.memory_bytes
        if size > self.max_bytes:
            raise ModelTooLargeError(-(-size // MB), self.max_bytes // MB)
        with self._lock:
            if translator.revision is not None:
                self._revisions[name] = translator.revision
            while self._models and size + sum(model.memory_bytes for model in self._models.values()) > self.max_bytes:
                self._models.popitem(last=False)
            self._models[name] = translator

