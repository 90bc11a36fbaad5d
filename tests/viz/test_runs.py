"""The cache of runs: bounded in bytes, computed once, never mixed between visitors."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from model.errors import CheckpointMissingError, EmptyTextError, InvalidSettingError
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.runs import NoModelError, Request, RunCache


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


def test_a_run_is_computed_once() -> None:
    translator = FakeTranslator()
    runs = RunCache(translator)
    request = Request("I love you.", "fra")
    first = runs.get(request)
    assert runs.get(Request("I love you.", "fra")) is first and translator.calls == 1
    assert runs.find(request) is first
    assert runs.get(Request("I love you.", "cmn")).translation.target == "cmn"
    assert runs.get(Request("I love you.", "fra", 1)) is not first


def test_badges_say_where_numbers_come_from() -> None:
    translator = FakeTranslator()
    runs = RunCache(translator, recorded_run(translator))
    assert runs.get(Request("I am a student.", "fra")).badge == "live"
    assert runs.get(Request("I am a student.", "fra", given="Je suis là.")).badge == "given"
    assert runs.get(Request("I am a student.", "fra", recorded=True)).badge == "recorded"


def test_the_cache_is_bounded_in_bytes() -> None:
    probe = RunCache(FakeTranslator()).get(Request("one two three", "fra")).num_bytes
    runs = RunCache(FakeTranslator(), max_bytes=3 * probe + 10)
    requests = [Request(f"one two three{i}", "fra") for i in range(6)]
    for request in requests:
        runs.get(request)
    assert [runs.find(request) is not None for request in requests] == [False, False, False, True, True, True]
    assert runs._runs.currsize <= runs._runs.maxsize


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
    ],
)
def test_requests_from_a_page_are_checked(value: object) -> None:
    with pytest.raises(InvalidSettingError):
        Request.from_page(value)


def test_a_request_goes_to_the_page_and_back() -> None:
    request = Request("I love you.", "fra", 2, "Je t'aime.")
    assert Request.from_page(request.as_dict()) == request
