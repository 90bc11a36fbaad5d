"""The cache of runs: bounded in bytes, computed once, never mixed between visitors."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from model.analysis.profile import HeadProfile
from model.analysis.roles import head_roles
from model.analysis.rollout import rollout
from model.errors import (
    CheckpointMissingError,
    EmptyTextError,
    InvalidSettingError,
    ModelNotLoadedError,
    NotWantedError,
    UnknownTargetError,
)
from model.pool import ModelPool
from tests.viz.fakes import ARABIC, ROMANCE, FakeTranslator, recorded_run, shelf
from viz.kept import KeptRun
from viz.panels.choice import KINDS
from viz.runs import NoModelError, Request, Run, RunCache


class SlowTranslator(FakeTranslator):
    """Notices when two passes overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.overlaps = 0

    def translate(self, text: str, target: str = "fra", beam_size: int = 4):
        self.inside += 1
        self.overlaps += self.inside > 1
        time.sleep(0.005)
        try:
            return super().translate(text, target, beam_size)
        finally:
            self.inside -= 1


def same(run: Run, other: Run) -> bool:
    """Whether both are of one pass of the model, down to its seconds."""
    return all(getattr(run, name) == getattr(other, name) for name in ("request", "translation", "seconds", "runner_ups"))


def test_a_run_is_computed_once() -> None:
    translator = FakeTranslator()
    runs = RunCache(translator)
    request = Request("I love you.", "fra")
    first = runs.get(request)
    assert same(runs.get(Request("I love you.", "fra")), first) and translator.calls == 1
    assert same(runs.find(request), first)
    assert runs.get(Request("I love you.", "cmn")).translation.target == "cmn" and translator.calls == 2
    assert runs.get(Request("I love you.", "fra", 1)).request.beam_size == 1 and translator.calls == 3


def test_badges_say_where_numbers_come_from() -> None:
    translator = FakeTranslator()
    runs = RunCache(translator, recorded_run(translator))
    assert runs.get(Request("I am a student.", "fra")).badge == "live"
    assert runs.get(Request("I am a student.", "fra", given="Je suis là.")).badge == "given"
    assert runs.get(Request("I am a student.", "fra", recorded=True)).badge == "recorded"


def test_the_cache_is_bounded_in_bytes() -> None:
    probe = KeptRun(RunCache(FakeTranslator()).get(Request("one two three", "fra"))).num_bytes
    runs = RunCache(FakeTranslator(), max_bytes=3 * probe + 10)
    requests = [Request(f"one two three{i}", "fra") for i in range(6)]
    for request in requests:
        runs.get(request)
    assert [runs.find(request) is not None for request in requests] == [False, False, False, True, True, True]
    assert runs._runs.currsize <= runs._runs.maxsize


def test_a_run_carries_what_one_examination_shows() -> None:
    translator = FakeTranslator()
    translator.profile = HeadProfile(7, ())
    run = RunCache(translator).get(Request("The cat sat on the mat because it was tired.", "fra"))
    found = translator.examine(run.translation)
    assert run.runner_ups == found.runner_ups and run.profile is translator.profile
    for kind, norms in found.norms.items():
        np.testing.assert_array_equal(run.norms[kind], norms)
    expected = rollout(run.trace)
    for kind in KINDS:
        np.testing.assert_array_equal(run.rollout[kind], getattr(expected, kind))
        np.testing.assert_allclose(run.rollout[kind].sum(axis=-1), 1, atol=1e-5)
    assert run.rollout is run.rollout and run.roles is run.roles
    for ours, theirs in zip(run.roles, head_roles(run.trace), strict=True):
        assert (ours.kind, ours.layer, ours.head, ours.measures) == (theirs.kind, theirs.layer, theirs.head, theirs.measures)


def test_a_run_larger_than_the_cache_is_still_answered() -> None:
    runs = RunCache(FakeTranslator(), max_bytes=100)
    request = Request("I love you.", "fra")
    assert runs.get(request).translation.text and runs.find(request) is None


def test_visitors_at_once_get_their_own_and_the_model_runs_one_at_a_time() -> None:
    translator = SlowTranslator()
    runs = RunCache(translator)
    barrier = threading.Barrier(8)

    def visit(number: int) -> tuple[str, str]:
        barrier.wait()
        text = f"visitor {number % 4} speaks"
        return text, runs.get(Request(text, "fra")).translation.source_text

    with ThreadPoolExecutor(8) as pool:
        for asked, got in pool.map(visit, range(8)):
            assert asked == got
    assert translator.overlaps == 0
    assert translator.calls == 4  # whoever waited took what was computed meanwhile


def test_errors_are_not_kept_and_free_the_lock() -> None:
    runs = RunCache(FakeTranslator())
    with pytest.raises(EmptyTextError):
        runs.get(Request("  ", "fra"))
    assert runs.get(Request("ok", "fra")).translation.text


def test_without_a_model_the_reason_is_raised_and_the_recording_is_found() -> None:
    recorded = recorded_run(FakeTranslator())
    runs = RunCache(None, recorded, CheckpointMissingError("model.safetensors"))
    with pytest.raises(CheckpointMissingError):
        runs.get(Request("I love you.", "fra"))
    assert runs.get(recorded.request) is recorded
    with pytest.raises(NoModelError):
        RunCache(None).get(Request("I love you.", "fra"))


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {},
        {"text": 3, "target": "fra"},
        {"text": "a", "target": None},
        {"text": "a", "target": "fra", "beam_size": 0},
        {"text": "a", "target": "fra", "beam_size": 9},
        {"text": "a", "target": "fra", "beam_size": True},
        {"text": "a", "target": "fra", "beam_size": "4"},
        {"text": "a", "target": "fra", "given": ["b"]},
        {"text": "a", "target": "fra", "model": None},
        {"text": "a", "target": "fra", "model": ["embedded"]},
        {"text": "a", "target": "fra", "model": "x" * 301},
    ],
)
def test_requests_from_a_page_are_checked(value: object) -> None:
    with pytest.raises(InvalidSettingError):
        Request.from_page(value)


def test_a_request_goes_to_the_page_and_back() -> None:
    request = Request("I love you.", "fra", 2, "Je t'aime.")
    assert Request.from_page(request.as_dict()) == request
    other = Request("I love you.", "ara", 4, model=ARABIC)
    assert Request.from_page(other.as_dict()) == other != Request("I love you.", "ara", 4)


def test_two_models_at_once_never_mix() -> None:
    runs = RunCache(FakeTranslator(), pool=ModelPool(shelf, 10_000))
    for name in (ARABIC, ROMANCE):
        with pytest.raises(ModelNotLoadedError):
            runs.get(Request("I love you.", "fra", model=name))
        runs.pool.get(name)
    ours = runs.get(Request("I love you.", "fra"))
    theirs = runs.get(Request("I love you.", "fr", model=ROMANCE))
    third = runs.get(Request("I love you.", "ara", model=ARABIC))
    assert [run.translation.text for run in (ours, theirs, third)] == ["Je t'aime.", "i LOVE YOU.", "أنا أحبك."]
    assert [run.revision for run in (ours, theirs, third)] == [None, "5e1f" * 10, "5e1f" * 10]
    assert same(runs.get(Request("I love you.", "fra")), ours)
    with pytest.raises(UnknownTargetError, match="ara"):  # it says which it has
        runs.get(Request("I love you.", "fra", model=ARABIC))


def test_a_run_outlives_its_model_in_the_cache() -> None:
    runs = RunCache(FakeTranslator(), pool=ModelPool(shelf, 1000))
    runs.pool.get(ARABIC)
    request = Request("I love you.", "ara", model=ARABIC)
    run = runs.get(request)
    runs.pool.get(ROMANCE)
    assert runs.pool.names() == (ROMANCE,) and same(runs.get(request), run)
    with pytest.raises(ModelNotLoadedError):
        runs.get(Request("Something else.", "ara", model=ARABIC))


def test_another_model_works_where_the_embedded_one_does_not() -> None:
    runs = RunCache(None, problem=CheckpointMissingError("model.safetensors"), pool=ModelPool(shelf, 1000))
    runs.pool.get(ARABIC)
    assert runs.get(Request("I love you.", "ara", model=ARABIC)).translation.text == "أنا أحبك."
    for name in (3, None, ["x"], "x"):
        with pytest.raises(ModelNotLoadedError):
            runs.translator_of(name)
    with pytest.raises(ModelNotLoadedError):
        RunCache(FakeTranslator()).translator_of(ARABIC)


# --- how the model is asked ---


def add_up(translator: FakeTranslator, first: int, second: int) -> int:
    return first + second + translator.calls


def fail(translator: FakeTranslator) -> None:
    raise InvalidSettingError("row", 1, "2")


def test_a_question_reaches_the_model_that_is_named() -> None:
    runs = RunCache(FakeTranslator())
    runs.get(Request("I love you.", "fra"))
    assert runs.ask(Request("a", "fra").model, add_up, 30, 4) == 35
    with pytest.raises(InvalidSettingError):
        runs.ask(Request("a", "fra").model, fail)
    assert runs.ask(Request("a", "fra").model, add_up, 0, 0) == 1  # the lock was given back
    with pytest.raises(ModelNotLoadedError):
        runs.ask("some/other", add_up, 1, 2)
    with pytest.raises(NoModelError):
        RunCache(None).ask(Request("a", "fra").model, add_up, 1, 2)


def test_questions_and_runs_take_turns() -> None:
    runs, inside, overlaps, guard = RunCache(FakeTranslator()), [], [], threading.Lock()

    def question(translator: FakeTranslator, number: int) -> int:
        with guard:
            inside.append(number)
            overlaps.append(len(inside) > 1)
        time.sleep(0.002)
        with guard:
            inside.remove(number)
        return number

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda number: runs.ask(Request("a", "fra").model, question, number), range(24)))
    assert found == list(range(24)) and not any(overlaps) and len(overlaps) == 24


# --- whoever asked may have left ---


class Stepwise(FakeTranslator):
    """Takes a hundred steps for a translation, one whenever the test lets it, and counts those it took."""

    def __init__(self) -> None:
        super().__init__()
        self.may, self.took, self.steps = threading.Semaphore(0), threading.Semaphore(0), 0

    def translate_and_examine(self, text, target="fra", beam_size=4, still_wanted=None):
        for _ in range(100):
            if not still_wanted():
                raise NotWantedError
            assert self.may.acquire(timeout=60)
            self.steps += 1
            self.took.release()
        return super().translate_and_examine(text, target, beam_size)

    def step(self, count: int) -> None:
        for _ in range(count):
            self.may.release()
            assert self.took.acquire(timeout=60)


def test_a_run_goes_on_while_anybody_waits_for_it_and_ends_with_the_last() -> None:
    translator, here = Stepwise(), threading.local()
    runs = RunCache(translator, waiting=lambda request: here.stays)
    request = Request("a long sentence", "fra")
    gone: set[str] = set()

    def visit(name: str) -> Run:
        here.stays = lambda: name not in gone
        return runs.get(request)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(visit, "first")
        translator.step(3)
        second = pool.submit(visit, "second")
        while len(runs._askers[request]) < 2:
            time.sleep(0.005)
        gone.add("first")
        translator.step(97)
        assert same(first.result(60), second.result(60))  # the one who left isn't there to be told
    assert translator.steps == 100 and not runs._askers

    other = Request("another long sentence", "fra")
    with ThreadPoolExecutor(2) as pool:
        request = other
        left = [pool.submit(visit, name) for name in ("third", "fourth")]
        translator.step(2)
        while len(runs._askers[request]) < 2:
            time.sleep(0.005)
        gone |= {"third", "fourth"}
        translator.may.release()  # the step that is under way
        for each in left:
            with pytest.raises(NotWantedError):
                each.result(60)
    assert translator.steps == 103 and not runs._askers and runs.find(other) is None


def test_a_text_that_is_written_for_a_comparison_is_given_up_too() -> None:
    class Writer(FakeTranslator):
        def translate(self, text, target="fra", beam_size=4, still_wanted=None):
            if not still_wanted():
                raise NotWantedError
            return super().translate(text, target, beam_size)

    here = [True]
    runs = RunCache(Writer(), waiting=lambda request: lambda: here[0])
    assert runs.text_without(Request("I love you.", "fra"), "") == "Je t'aime."
    here[0] = False
    with pytest.raises(NotWantedError):
        runs.text_without(Request("I love you.", "cmn"), "")
