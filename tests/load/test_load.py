"""A class on one server: everybody gets their own answer, equal sentences are computed once, closed tabs hold nobody up, memory is bounded.

The same with sixty visitors, two thousand translations and the embedded model is `python -m tests.benchmarks.load`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import httpx
import pytest
from gradio_client.utils import QueueError

import app
from model.errors import NotWantedError
from tests.load.visitors import Visitor, class_of, visiting
from tests.programs import program
from tests.viz.fakes import FakeTranslator, recorded_run
from viz import limits, page, sessions
from viz.runs import RunCache
from viz.turns import AT_HAND

VISITORS, EACH = 12, 10
Found = TypeVar("Found")


class Slow(FakeTranslator):
    """Takes some milliseconds for a pass, or as long as a test wants, and counts passes and how many overlap."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.inside = self.overlaps = self.translated = 0
        self.steps: list[str] = []  # of texts that take many

    def translate_and_examine(self, text: str, target: str = "fra", beam_size: int = 4, still_wanted: Callable[[], bool] | None = None):
        """A text that says so takes fifty steps before it is translated."""
        for _ in range(50 if "long" in text else 0):
            if not still_wanted():
                raise NotWantedError
            self.steps.append(text)
            self.inside += 1
            assert self.gate.wait(120)
            self.inside -= 1
            time.sleep(0.002)
        return super().translate_and_examine(text, target, beam_size)

    def translate(self, *args: object, **kwargs: object) -> object:
        self.inside += 1
        self.translated += 1
        self.overlaps += self.inside > 1
        try:
            time.sleep(0.002)
            assert self.gate.wait(120)
            return super().translate(*args, **kwargs)
        finally:
            self.inside -= 1


@pytest.fixture(scope="module")
def translator() -> Slow:
    return Slow()


@pytest.fixture(autouse=True)
def opened(translator: Slow) -> Iterator[None]:
    """What a failed test holds up holds up no other."""
    yield
    translator.gate.set()


@pytest.fixture(scope="module")
def served(translator: Slow) -> Iterator:
    """(Blocks, address), the cache of runs as large as thirty of these sentences need."""
    demo = app.build_app(translator, recorded_run(translator), max_cache_bytes=2**20)
    options = page.launch_options() | {"server_name": "127.0.0.1", "server_port": None}
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, **options)
    yield demo, url.rstrip("/")
    demo.close()


def run(work: Coroutine[object, object, Found]) -> Found:
    """asyncio.run in a thread of its own: the browser tests of the same process leave an event loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)


async def read(tab: Visitor, reached: set[str]) -> None:
    """Listens until it is cancelled. reached: takes the tab's session once a message has come."""
    async with tab.stream() as messages:
        async for _ in messages:
            reached.add(tab.session)


def working(demo) -> int:
    """Events that run or that Gradio still clears up after: a job leaves the list of those that run before its event is forgotten."""
    queue = demo._queue
    return max(sum(job is not None for job in queue.active_jobs), len(queue.event_ids_to_events) - len(queue))


def test_everybody_gets_the_answer_to_their_own_sentence(served: tuple, translator: Slow) -> None:
    demo, url = served
    sentences = [[f"Visitor {visitor} has sentence {each} to read" for each in range(EACH)] for visitor in range(VISITORS)]
    answers = run(class_of(url, sentences))
    assert len(answers) == VISITORS * EACH
    assert all(answer.is_right(answer.sentence.swapcase()) for answer in answers)
    numbers = [[word for word in answer.sentence.split() if word.isdigit()] for answer in answers]
    for answer, own in zip(answers, numbers, strict=True):  # and its maps are of these very words
        labels = [label["text"] for label in answer.maps["sides"]["source"]["words"]["en"]]
        assert [label for label in labels if label.isdigit()] == own
    assert translator.overlaps == 0
    assert not len(demo._queue)
    until(lambda: not working(demo))
    assert not any(answer.refusals for answer in answers)


def test_a_class_that_presses_the_same_button_shares_one_pass_and_nobody_is_turned_away(served: tuple, translator: Slow) -> None:
    demo, url = served
    before = translator.translated
    answers = run(class_of(url, [["All of us press the same button now"]] * 60))
    assert all(answer.is_right("aLL OF US PRESS THE SAME BUTTON NOW") for answer in answers)
    assert not any(answer.refusals for answer in answers) and translator.translated == before + 1


def test_whoever_finds_the_queue_full_asks_again_and_is_answered(served: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, url = served
    monkeypatch.setattr(demo._queue, "max_size", 4)
    answers = run(class_of(url, [[f"Number {i} of many in a small queue"] for i in range(12)]))
    assert all(answer.is_right(answer.sentence.swapcase()) for answer in answers)
    refusals = [code for answer in answers for code in answer.refusals]
    assert refusals and set(refusals) == {503}


def test_a_program_that_finds_the_queue_full_is_told(served: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, url = served
    client = program(url)
    monkeypatch.setattr(demo._queue, "max_size", 0)
    with pytest.raises(QueueError, match="Queue is full"):
        client.predict("I love you.", api_name="/translate")
    monkeypatch.setattr(demo._queue, "max_size", limits.QUEUE)
    assert client.predict("I love you.", api_name="/translate")["text"] == "Je t'aime."


def test_closed_tabs_do_not_hold_the_model(served: tuple, translator: Slow) -> None:
    demo, url = served
    translator.gate.clear()
    before = translator.translated

    reached: set[str] = set()

    async def visit() -> int:
        async with visiting(url) as (http, event):
            tabs = [Visitor(http, event) for _ in range(20)]
            for i, tab in enumerate(tabs):
                assert (await tab.join(f"Nobody waits for sentence {i} of a tab", "fra", 4)).status_code == 200
            reading = [asyncio.create_task(read(tab, reached)) for tab in tabs]
            while len(reached) < len(tabs) or not translator.inside:
                await asyncio.sleep(0.02)
            assert len(demo._queue) == len(tabs) - 1
            for each in reading:  # the tabs are closed
                each.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
            while len(demo._queue):
                await asyncio.sleep(0.02)
            translator.gate.set()
            assert (await Visitor(http, event).translate("Somebody waits for this one")).is_right("sOMEBODY WAITS FOR THIS ONE")
            return translator.translated

    assert run(asyncio.wait_for(visit(), 120)) == before + 2  # the one that ran already, and the visitor's who stayed
    until(lambda: not working(demo))
    names = demo._queue.pending_messages_per_session
    assert len(names) <= sessions.UNREAD and sum(queue.qsize() for queue in names.values()) <= 20


@pytest.mark.parametrize("stay", [(), ("page",), ("program",)], ids=["all leave", "another page waits", "a program waits"])
def test_a_translation_under_way_ends_with_the_last_who_waits_for_it(served: tuple, translator: Slow, stay: tuple[str, ...]) -> None:
    """What computes is another's page that has left. Steps are counted, up to the one that was under way."""
    demo, url = served
    text, translator.steps = f"A very long sentence, {len(stay)} {stay}", []
    translator.gate.clear()
    reached: set[str] = set()

    async def visit() -> None:
        async with visiting(url) as (http, event):
            tab = Visitor(http, event)
            assert (await tab.join(text, "fra", 4)).status_code == 200
            reading = asyncio.create_task(read(tab, reached))
            while not reached or not translator.inside:  # a tab that is closed before it listens is not known to have left
                await asyncio.sleep(0.02)
            others = []
            if "page" in stay:
                others.append(asyncio.create_task(Visitor(http, event).translate(text)))
            if "program" in stay:
                others.append(asyncio.to_thread(program(url).predict, text, "fra", api_name="/translate"))
                others[0] = asyncio.create_task(others[0])
            while len(demo._queue) < len(others):
                await asyncio.sleep(0.02)
            (running,) = [each for job in demo._queue.active_jobs if job for each in job if each.concurrency_id == "model"]
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            while running.alive:
                await asyncio.sleep(0.02)
            translator.gate.set()
            for each in others:
                assert await each
            assert (await Visitor(http, event).translate("Somebody else asks this")).problem is None

    run(asyncio.wait_for(visit(), 120))
    assert len(translator.steps) == {(): 1, ("page",): 50, ("program",): 51}[stay]  # a program's question looks different: begun anew


def test_a_program_that_cancels_gives_up_what_is_under_way(served: tuple, translator: Slow) -> None:
    demo, url = served
    translator.steps = []
    translator.gate.clear()
    client = program(url)
    job = client.submit("A long one that a program cancels", "fra", api_name="/translate")
    until(lambda: bool(translator.inside))
    (running,) = [each for jobs in demo._queue.active_jobs if jobs for each in jobs]
    # Of another session, and of no event at all: nothing happens.
    for event_id, session in ((running._id, "another"), ("unknown", running.session_hash), ([running._id], running.session_hash)):
        httpx.post(f"{url}/gradio_api/cancel", trust_env=False, json={"session_hash": session, "fn_index": 0, "event_id": event_id})
    assert running.alive
    assert job.cancel()
    until(lambda: not running.alive)
    translator.gate.set()
    assert client.predict("Another of its own", "fra", api_name="/translate")["text"] == "aNOTHER OF ITS OWN"
    assert len(translator.steps) == 1


def test_what_is_at_hand_waits_for_no_translation(served: tuple, translator: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, url = served
    text, gone, kept = "Everybody has seen this one", "This has just left", RunCache.holds

    async def visit() -> None:
        async with visiting(url) as (http, event):
            assert (await Visitor(http, event).translate(text)).is_right(text.swapcase())
            before = translator.translated
            translator.gate.clear()
            slow = [asyncio.create_task(Visitor(http, event).translate(f"This is not seen yet, {i}")) for i in range(2)]
            while not translator.inside or not len(demo._queue):
                await asyncio.sleep(0.02)
            answers = await asyncio.gather(*(Visitor(http, event).translate(text) for _ in range(5)))  # while nothing else can end
            assert all(answer.is_right(text.swapcase()) for answer in answers)
            assert not any(each.done() for each in slow) and translator.translated == before + 1
            # One that left the cache after it was found there is computed, when the model is free.
            monkeypatch.setattr(RunCache, "holds", lambda runs, request: getattr(request, "text", "") == gone or kept(runs, request))
            late = asyncio.create_task(Visitor(http, event).translate(gone))
            while not any(job and job[0].concurrency_id == AT_HAND for job in demo._queue.active_jobs):
                await asyncio.sleep(0.02)
            translator.gate.set()
            assert (await late).is_right(gone.swapcase())
            assert all(answer.problem is None for answer in await asyncio.gather(*slow))

    overlaps = translator.overlaps
    run(asyncio.wait_for(visit(), 120))
    assert translator.overlaps == overlaps


def test_what_is_kept_does_not_grow_with_visitors(served: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, url = served
    states, queue = demo.app.state_holder, demo._queue
    assert states.capacity == page.launch_options()["state_session_capacity"]
    monkeypatch.setattr(states, "capacity", 10)
    for kept in (states.session_data, states.time_last_used, queue.pending_messages_per_session):
        kept.clear()  # those of the tests before
    monkeypatch.setattr(queue.pending_messages_per_session, "max_size", 20)
    for part in range(3):
        run(class_of(url, [[f"Tab {i} of part {part} asks this"] for i in range(10)]))
    until(lambda: not working(demo))
    assert len(states.time_last_used) == len(states.session_data) == 10
    assert len(queue.pending_messages_per_session) == 20 and len(queue.pending_event_ids_session) <= sessions.KNOWN
    assert not queue.event_ids_to_events and len(queue.event_analytics) <= 1
    assert sum(messages.qsize() for messages in queue.pending_messages_per_session.values()) <= 20


def test_more_tabs_than_are_remembered_do_not_end_the_queue(served: tuple, translator: Slow, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, url = served
    queue = demo._queue
    queue.pending_messages_per_session.clear()
    queue.pending_event_ids_session.clear()
    for table in (queue.pending_messages_per_session, queue.pending_event_ids_session):
        monkeypatch.setattr(table, "max_size", 3)
    translator.gate.clear()

    async def visit() -> None:
        async with visiting(url) as (http, event):
            for i in range(6):  # they all wait, so that one that waits has to go
                assert (await Visitor(http, event).join(f"Tab {i} too many", "fra", 4)).status_code == 200
            translator.gate.set()
            while len(queue) or working(demo):
                await asyncio.sleep(0.02)
            last = Visitor(http, event)
            for i in range(4):  # of those that wait for nothing, the oldest goes, and this one stays
                joined = await last.join(f"Asked before {i} others", "fra", 4)
                assert (await Visitor(http, event).translate(f"Tab {i} comes later")).problem is None
                assert (await last.answer_to(joined.json()["event_id"]))[1]["text"] == f"aSKED BEFORE {i} OTHERS"

    run(asyncio.wait_for(visit(), 120))
    assert not queue.stopped and len(queue.pending_messages_per_session) == len(queue.pending_event_ids_session) == 3


def test_nothing_that_was_typed_or_shown_is_kept_of_a_session(served: tuple, monkeypatch: pytest.MonkeyPatch) -> None:
    demo, url = served
    built: list[int] = []
    usual = demo.default_config.__class__.config_for_block
    monkeypatch.setattr(demo.default_config.__class__, "config_for_block", staticmethod(lambda *args: (built.append(1), usual(*args))[1]))
    run(class_of(url, [["A secret that somebody typed"]]))
    assert not built  # the page of a new visitor is not built once more for them

    found: list[str] = []
    seen: set[int] = set()

    def look(value: object) -> None:
        if id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, dict):
            for each in (*value.keys(), *value.values()):
                look(each)
        elif isinstance(value, (list, tuple)):
            for each in value:
                look(each)

    for session in demo.app.state_holder.session_data.values():
        look(vars(session))
        for block in session.blocks_config.blocks.values():
            look(vars(block))
    assert found and not [text for text in found if "secret that somebody" in text.lower()]
