"""Runs of the models for many visitors: one lock, one cache that is bounded in bytes.

A run is a translation with its attention maps. It is found by what was asked (`Request`), never by who asked, so no visitor can
see another one's sentence without typing it, and nothing of a visitor is kept in a session.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from cachetools import LRUCache

from model.analysis.roles import head_roles
from model.analysis.rollout import rollout
from model.catalogue import EMBEDDED, MAX_SOURCE
from model.device import gpu_is_lent
from model.errors import AtlasError, InvalidSettingError, ModelNotLoadedError
from model.reasons import because
from viz.kept import KeptRun
from viz.lent_gpu import LentGpu

if TYPE_CHECKING:
    import numpy as np

    from model.analysis.profile import HeadProfile
    from model.analysis.roles import HeadRole
    from model.best_heads import BestHeads
    from model.hooks import AttentionKind
    from model.pool import ModelPool
    from model.results import Examination, RunnerUps
    from model.translator import AttentionTrace, Translation, Translator

Answer = TypeVar("Answer")
StillWanted = Callable[[], bool]

log = logging.getLogger(__name__)

MAX_CACHE_BYTES = 256 * 2**20
MAX_TEXTS = 256  # of variants, at most some kilobytes each
BEAM_SIZES = (1, 2, 4, 8)


class NoModelError(AtlasError):
    """There is no model to run; the page shows recorded pictures only."""

    code = "no_model"

    def __init__(self) -> None:
        super().__init__("No model is loaded, so nothing can be translated.")


@dataclass(frozen=True)
class Request:
    """What decides a run: the text, the target language, the beam size, a given translation if there is one, and the model's name."""

    text: str
    target: str
    beam_size: int = 4
    given: str | None = None
    recorded: bool = False
    model: str = EMBEDDED.name

    def __post_init__(self) -> None:
        for name in ("text", "target", "model"):
            if not isinstance(getattr(self, name), str):
                raise InvalidSettingError(name, getattr(self, name), because("text"))
        if len(self.model) > MAX_SOURCE:
            raise InvalidSettingError("model", self.model, f"at most {MAX_SOURCE} characters")
        if self.given is not None and not isinstance(self.given, str):
            raise InvalidSettingError("given", self.given, because("text"))
        if isinstance(self.beam_size, bool) or not isinstance(self.beam_size, int) or not 1 <= self.beam_size <= max(BEAM_SIZES):
            raise InvalidSettingError("beam_size", self.beam_size, because("whole_number", low=1, high=max(BEAM_SIZES)))

    @classmethod
    def from_page(cls, value: object) -> Request:
        """The request a page sends back for the run it shows. Raises InvalidSettingError for anything that is not one."""
        if not isinstance(value, Mapping):
            raise InvalidSettingError("request", type(value).__name__, "what the page was given")
        given = value.get("given")
        model = value.get("model", EMBEDDED.name)
        return cls(value.get("text"), value.get("target"), value.get("beam_size", 4), given, value.get("recorded") is True, model)

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Run:
    """One pass of a model: translation, its maps, the seconds both took on this server, and the model's commit if it is of the hub.

    best_heads: "predicted" and "read" (how rows are named) -> (layer, head) of the model's cross-attention; nothing if not measured.
    norms: norm-weighted attention by kind, all heads of a layer together, float32 [layer, query, key], rows sum to 1; None if not measured.
    runner_ups: for each target token, what else was likely; none if not measured.
    profile: what the model's heads do over many sentences; None if not measured.
    """

    request: Request
    translation: Translation
    trace: AttentionTrace
    seconds: float
    revision: str | None = None
    best_heads: BestHeads = field(default_factory=dict)
    norms: Mapping[AttentionKind, np.ndarray] | None = None
    runner_ups: tuple[RunnerUps, ...] = ()
    profile: HeadProfile | None = None

    @classmethod
    def of(
        cls,
        request: Request,
        translation: Translation,
        examination: Examination,
        seconds: float = 0.0,
        revision: str | None = None,
        best_heads: BestHeads | None = None,
        profile: HeadProfile | None = None,
    ) -> Run:
        """A translation with all that one pass over it shows."""
        found = examination
        return cls(request, translation, found.trace, seconds, revision, best_heads or {}, found.norms, found.runner_ups, profile)

    @property
    def badge(self) -> str:
        """Where these numbers come from: "recorded", "given" or "live"."""
        if self.request.recorded:
            return "recorded"
        return "live" if self.request.given is None else "given"

    @cached_property
    def rollout(self) -> Mapping[AttentionKind, np.ndarray]:
        """Attention rollout by kind, float32 [layer, query, key], rows sum to 1 (see `model.analysis.rollout`)."""
        found = rollout(self.trace)
        return {"encoder_self": found.encoder_self, "decoder_self": found.decoder_self, "cross": found.cross}

    @cached_property
    def roles(self) -> tuple[HeadRole, ...]:
        """What each head does in this sentence, by kind, layer and head (see `model.analysis.roles`)."""
        return head_roles(self.trace)


def _somebody_waits(request: Request | None) -> StillWanted:
    return lambda: True


class RunCache:
    """Runs of the models, computed once and kept while there is room. All methods may be called from any thread.

    translator: the embedded model, or None with `problem` saying why there is none. recorded: a saved run that is always found.
    pool: all other models. Which one a run is of stands in its request; there is no current model.
    waiting: called with the run that is asked for (None: something else), it gives what tells whether anybody still waits for it
    (`viz.waiting`). A translation that nobody waits for any more is given up at its next step.
    """

    def __init__(
        self,
        translator: Translator | None,
        recorded: Run | None = None,
        problem: AtlasError | None = None,
        max_bytes: int = MAX_CACHE_BYTES,
        pool: ModelPool | None = None,
        waiting: Callable[[Request | None], StillWanted] = _somebody_waits,
    ) -> None:
        self.translator = translator
        self.pool = pool
        self.recorded = recorded
        self.problem = problem if translator is None else None
        self._runs: LRUCache[Request, KeptRun] = LRUCache(max_bytes, getsizeof=lambda kept: kept.num_bytes)
        self._waiting = waiting
        self._askers: dict[Request, list[StillWanted]] = {}  # of runs that somebody waits for, here in this process
        self._texts: LRUCache[tuple[Request, str], str] = LRUCache(MAX_TEXTS)
        self._runs_lock = threading.Lock()  # the tables, held for microseconds
        self._model_lock = threading.Lock()  # the model, held for a whole pass
        self._lent = LentGpu(translator) if translator is not None and gpu_is_lent() else None

    def translator_of(self, model: object = EMBEDDED.name) -> Translator:
        """The model of this name. Never loads one. Raises ModelNotLoadedError, or the reason why there is no embedded one."""
        if model == EMBEDDED.name:
            if self.translator is None:
                raise self.problem or NoModelError()
            return self.translator
        found = self.pool.find(model) if self.pool is not None and isinstance(model, str) else None
        if found is None:
            raise ModelNotLoadedError(model)
        return found

    def find(self, request: Request) -> Run | None:
        """The run if it is at hand. Never runs the model."""
        if request.recorded:
            return self.recorded
        with self._runs_lock:
            kept = self._runs.get(request)
        return None if kept is None else kept.run()

    def holds(self, request: Request | None) -> bool:
        """Whether the run is at hand."""
        with self._runs_lock:
            return request in self._runs

    def get(self, request: Request) -> Run:
        """The run, computed if need be. Raises the typed errors of `model.errors`, among them those of `translator_of`, and NotWantedError
        once nobody waits for it any more."""
        run = self.find(request)
        if run is not None:
            return run
        if request.recorded:
            raise NoModelError()
        self.translator_of(request.model)
        with self._asking(request) as still_wanted, self._model_lock:
            run = self.find(request)  # somebody else may have asked the same while we waited
            if run is None:
                run = self._compute_run(request, still_wanted)
                self._keep(run)
        return run

    def _keep(self, run: Run) -> None:
        try:
            kept = KeptRun(run)
        except OSError as error:  # no memory for its block
            log.warning("a run could not be kept: %s", error)
            return
        with self._runs_lock:
            if kept.num_bytes <= self._runs.maxsize:
                self._runs[run.request] = kept

    @contextmanager
    def _asking(self, request: Request) -> Iterator[StillWanted]:
        """Counts the caller among those who wait for a run, and tells whether any of them still does."""
        own = self._waiting(request)
        with self._runs_lock:
            askers = self._askers.setdefault(request, [])
            askers.append(own)
        try:
            yield lambda: any(each() for each in tuple(askers))
        finally:
            with self._runs_lock:
                askers.remove(own)
                if not askers:
                    del self._askers[request]

    def ask(self, model: object, question: Callable[..., Answer], *args: object, stoppable: bool = False) -> Answer:
        """`question(translator, *args)` of the model of this name, while nothing else computes with it. Nothing is kept.

        The question is a function at the top of its module and its arguments are plain values: on a GPU that is lent, both go to another
        process. stoppable: the question takes `still_wanted`, as `Translator.translate` does, and is given up when its asker has left.
        Raises the errors of `translator_of` and of the question.
        """
        translator = self.translator_of(model)
        here = {"still_wanted": self._waiting(None)} if stoppable else {}
        with self._model_lock:
            return self._ask_of(translator, question, *args, **here)

    def text_without(self, request: Request, part: str) -> str:
        """What the model writes for a request, a given translation left aside, without one of `model.variants.PARTS` ("": the whole model).

        Kept, so that it is written once. Raises the errors of `ask`, `Translator.without` and `translate`.
        """
        key = (request, part)
        with self._runs_lock:
            text = self._texts.get(key)
        if text is None:
            text = self.ask(request.model, _write, request, part, stoppable=True)
            with self._runs_lock:
                self._texts[key] = text
        return text

    def _ask_of(self, translator: Translator, question: Callable[..., Answer], *args: object, **here: object) -> Answer:
        if self._lent is not None and translator is self.translator:
            return self._lent.ask(question, *args, **here)
        return question(translator, *args, **here)

    def _compute_run(self, request: Request, still_wanted: StillWanted | None = None) -> Run:
        start = time.perf_counter()
        translator = self.translator_of(request.model)
        translation, examination = self._ask_of(translator, _make, request, still_wanted=still_wanted)
        seconds = time.perf_counter() - start
        return Run.of(request, translation, examination, seconds, translator.revision, translator.best_heads, translator.profile)


def _make(translator: Translator, request: Request, still_wanted: StillWanted | None = None) -> tuple[Translation, Examination]:
    if request.given is None:
        return translator.translate_and_examine(request.text, request.target, request.beam_size, still_wanted=still_wanted)
    translation = translator.force(request.text, request.given, request.target)
    return translation, translator.examine(translation)


def _write(translator: Translator, request: Request, part: str, still_wanted: StillWanted | None = None) -> str:
    variant = translator.without(part) if part else translator
    return variant.translate(request.text, request.target, request.beam_size, still_wanted=still_wanted).text
