"""The gate before a real Gradio server: what it lets through, what it refuses, and what waiting costs others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

import app
from model.errors import TooManyLoadsError
from model.pool import ModelPool
from tests.programs import PATIENCE, http_client, program
from tests.viz.clock import Clock
from tests.viz.fakes import ARABIC, GERMAN, FakeTranslator, recorded_run, shelf
from viz import calls, limits, page, sessions
from viz.limits import Limits
from viz.panels import models
from viz.runs import RunCache

CALL = ["hello", "", 4, "", "embedded"]


class Waiting(FakeTranslator):
    """Translates once it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.asked: list[str] = []

    def translate(self, *args: object, **kwargs: object) -> object:
        self.asked.append(str(args[0]))
        assert self.gate.wait(120)
        return super().translate(*args, **kwargs)


@pytest.fixture(scope="module")
def translator() -> Waiting:
    return Waiting()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def served(translator: Waiting) -> Iterator[tuple]:
    """The app and its gate."""
    gates: list[limits.Gate] = []

    def gate(asgi: Callable) -> limits.Gate:
        gates.append(limits.Gate(asgi))
        return gates[-1]

    blocks = app.build_app(translator, recorded_run(translator), pool=ModelPool(shelf, 10_000))
    options = page.launch_options() | {"server_name": "127.0.0.1", "server_port": None}
    middleware = options["app_kwargs"]["middleware"]
    options["app_kwargs"] |= {"middleware": [(gate, (), {}) if each[0] is limits.Gate else each for each in middleware]}
    blocks.launch(prevent_thread_lock=True, quiet=True, **options)
    yield blocks, gates[-1]
    blocks.close()


@pytest.fixture
def demo(served: tuple, translator: Waiting, clock: Clock) -> Iterator:
    """The app, nothing asked of it yet; 10 requests at once, 20 in a minute."""
    blocks, gate = served
    gate.limits = Limits(20, clock)
    gate._loading.clear()
    yield blocks
    translator.gate.set()
    end = time.monotonic() + 60
    while (len(blocks._queue) or any(blocks._queue.active_jobs)) and time.monotonic() < end:
        time.sleep(0.01)


@pytest.fixture
def http(demo) -> Iterator[httpx.Client]:
    with http_client(demo.local_url) as client:
        yield client


def join(http: httpx.Client, demo, name: str = "on_translate", session: str = "a", data: list | None = None, **more) -> httpx.Response:
    index = next(i for i, fn in demo.fns.items() if fn.name == name)
    data = ["I love you.", "", {"target": "fra", "beam_size": 4}] if data is None else data
    return http.post("/gradio_api/queue/join", json={"fn_index": index, "session_hash": session, "data": data, **more})


def elsewhere(demo) -> httpx.Client:
    """Asks from another address of this machine."""
    return httpx.Client(base_url=demo.local_url, timeout=PATIENCE, transport=httpx.HTTPTransport(local_address="127.0.0.2"))


def until_it_runs(demo, translator: Waiting) -> None:
    end = time.monotonic() + 60
    while not translator.asked and time.monotonic() < end:
        time.sleep(0.01)


def test_one_page_is_refused_and_another_is_not(demo, http: httpx.Client, clock: Clock) -> None:
    assert [join(http, demo).status_code for _ in range(11)] == [200] * 10 + [429]
    refused = join(http, demo)
    assert refused.headers["retry-after"] == "3" and "again in 3 s" in refused.json()["detail"]
    assert join(http, demo, session="b").status_code == 200
    clock.now += 3
    assert join(http, demo).status_code == 200 and join(http, demo).status_code == 429


def test_costs_differ(demo, http: httpx.Client) -> None:
    assert [join(http, demo, "on_export", "a", [None, {}]).status_code for _ in range(6)] == [200] * 5 + [429]
    assert [join(http, demo, "on_machine", "b", [None, {}]).status_code for _ in range(41)] == [200] * 40 + [429]
    assert [http.post("/gradio_api/call/translate", json={"data": CALL}).status_code for _ in range(100)].count(429) == 0


def test_the_question_how_far_a_load_is_costs_little_and_another_model_much(demo, http: httpx.Client) -> None:
    def load(name: str, session: str, again: bool) -> int:
        return join(http, demo, "on_load", session, [{"wanted": {"name": name, "again": again}}]).status_code

    assert load(ARABIC, "a", True) == 200
    assert [load(ARABIC, "a", False) for _ in range(40)] == [200] * 40
    assert load(GERMAN, "a", False) == 429  # a program that never says "again"
    assert [load(ARABIC, "b", True) for _ in range(3)] == [200, 200, 429]


def test_programs_are_limited_by_address_and_cannot_pass_by_the_queue(demo, http: httpx.Client) -> None:
    codes = [http.post("/gradio_api/call/translate", json={"data": CALL}).status_code for _ in range(201)]
    assert codes == [200] * 200 + [429]
    assert http.post("/gradio_api/call/v2/translate", json={"text": "hello"}).status_code == 429
    forged = {"x-forwarded-for": "198.51.100.1"}
    assert http.post("/gradio_api/call/translate", json={"data": CALL}, headers=forged).status_code == 429
    with elsewhere(demo) as other:
        assert other.post("/gradio_api/run/translate", json={"data": CALL}).status_code == 404
        assert other.post("/gradio_api/call/translate", json={"data": CALL}).status_code == 200


@pytest.mark.parametrize(("text", "beams", "cost"), [
    ("x" * 200, 4, 1), ("x" * 201, 4, 2), ("x" * 600, 8, 6), ("", 8, 2), ("x" * 10**6, 1, limits.MOST), ("x" * 400, "8", 2), (None, 8, 1),
])
def test_long_texts_and_many_beams_count_more(demo, text: str | None, beams: object, cost: float) -> None:
    by_name = {fn.name: fn for fn in demo.fns.values()}
    for data in ([text, "", {"beam_size": beams}], [text, "fra", beams, "", "embedded"]):
        assert limits._length(by_name["on_translate"], {"data": data}) == cost
    assert limits._length(by_name["on_translate"], {"text": text, "beam_size": beams}) == cost
    assert limits._length(by_name["on_machine"], {"data": [text, "", {"beam_size": beams}]}) == 1
    assert limits._length(by_name["on_translate"], {"data": [text]}) == 1


def test_one_address_cannot_hold_up_the_others(demo, http: httpx.Client, translator: Waiting) -> None:
    """Long texts with many beams, whose answers nobody fetches: few are let in, and a visitor from elsewhere has the next turn."""
    translator.gate.clear()
    asked = translator.asked
    asked.clear()
    codes = []
    for i in range(12):
        body = {"data": [f"{i} " + "and the cat sat on the mat " * 60, "fra", 8, "", "embedded"]}
        codes.append(http.post("/gradio_api/call/translate", json=body).status_code)
        until_it_runs(demo, translator)
    assert codes == [200] * (1 + limits.COSTLY_PLACES) + [503] * (11 - limits.COSTLY_PLACES)
    assert http.post("/gradio_api/call/v2/translate", json={"text": "word " * 400}).status_code == 503
    with elsewhere(demo) as other:
        assert join(other, demo, session="visitor", data=["One visitor", "", {"target": "fra", "beam_size": 4}]).status_code == 200
    # a class behind the same address, each with a short sentence
    class_codes = [join(http, demo, session=f"pupil-{i}", data=[f"Pupil {i}", "", {"target": "fra", "beam_size": 4}]) for i in range(60)]
    assert {answer.status_code for answer in class_codes} == {200}
    translator.gate.set()
    end = time.monotonic() + 60
    while len(asked) < 68 and time.monotonic() < end:
        time.sleep(0.01)
    assert asked[0].startswith("0 and") and asked[1] == "One visitor"
    programs = [i for i, text in enumerate(asked) if "and the cat" in text]
    assert programs == [0, *range(62, 68)]  # a program without a page is one caller and is being served; each pupil is another


def test_a_body_is_not_read_into_its_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"[" * 500 + b"]" * 500, b'{"a": ' * 500 + b"1" + b"}" * 500, b'["\\\\", ' + b"[" * 500, b'["a' + b'", [' * 500):
        with monkeypatch.context() as patch, pytest.raises(calls.Refusal, match="not valid JSON"):
            patch.setattr(calls.json, "loads", lambda *args, **kwargs: pytest.fail("it was parsed"))
            calls.read_json(body)
    for value in ("[" * 5000, '\\"' + "{[" * 5000, [[]] * 5000, {"a": [{}] * 5000}):
        assert calls.read_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b"null", b'{"data": 5}', b"[" * 100_000, b'{"session_hash": [1], "fn_index": true}', b"\xff"]
)
def test_what_is_no_request_is_refused_by_gradio_itself(demo, http: httpx.Client, body: bytes) -> None:
    answer = http.post("/gradio_api/queue/join", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500 and "Traceback" not in answer.text
    assert join(http, demo).status_code == 200


def test_one_page_cannot_fill_the_queue_nor_can_one_address(demo, http: httpx.Client, translator: Waiting, monkeypatch) -> None:
    monkeypatch.setattr(limits, "PAGE_PLACES", 3)
    monkeypatch.setattr(limits, "ADDRESS_PLACES", 5)
    translator.gate.clear()
    data = ["A sentence that nobody has asked yet.", "", {"target": "fra", "beam_size": 2}]
    assert join(http, demo, session="first", data=data).status_code == 200
    end = time.monotonic() + 60
    while len(demo._queue) and time.monotonic() < end:  # until it runs
        time.sleep(0.01)
    data = ["Nor this one.", *data[1:]]
    assert [join(http, demo, session="a", data=data).status_code for _ in range(4)] == [200, 200, 200, 503]
    assert join(http, demo, session="a", data=data).headers["retry-after"] == "2"
    assert [join(http, demo, session=name, data=data).status_code for name in "bcd"] == [200, 200, 503]
    with elsewhere(demo) as other:
        assert other.post("/gradio_api/call/translate", json={"data": CALL}).status_code == 200
    translator.gate.set()


def test_answers_that_nobody_fetches_are_let_go(demo, http: httpx.Client, monkeypatch) -> None:
    queue = demo._queue
    assert queue.pending_messages_per_session.max_size == sessions.UNREAD
    for kept, most in ((queue.pending_messages_per_session, 5), (queue.pending_event_ids_session, 7)):
        kept.clear()
        monkeypatch.setattr(kept, "max_size", most)
    for i in range(12):
        assert join(http, demo, session=f"gone-{i}").status_code == 200
    assert len(queue.pending_messages_per_session) == 5 and len(queue.pending_event_ids_session) == 7


def test_a_program_that_asks_too_often_is_told_when_to_go_on(demo) -> None:
    client = program(demo.local_url)
    for _ in range(10):
        assert client.predict("I love you.", api_name="/translate")["text"] == "Je t'aime."
    with pytest.raises(httpx.HTTPStatusError) as caught:
        client.predict("I love you.", api_name="/translate")
    assert caught.value.response.status_code == 429 and "again in 3 s" in caught.value.response.json()["detail"]


def test_programs_that_wait_for_a_model_hold_no_places(monkeypatch) -> None:
    gate = threading.Event()

    def slow(*args: object) -> object:
        assert gate.wait(120)
        return shelf(*args)

    monkeypatch.setattr(models, "_WAITING", threading.BoundedSemaphore(2))
    runs = RunCache(FakeTranslator(), pool=ModelPool(slow, 10_000))
    found: list[object] = []
    waiting = [threading.Thread(target=lambda: found.append(models.load_and_wait(runs, ARABIC)["targets"])) for _ in range(2)]
    for thread in waiting:
        thread.start()
    end = time.monotonic() + 60
    while models._WAITING._value and time.monotonic() < end:
        time.sleep(0.01)
    with pytest.raises(TooManyLoadsError):
        models.load_and_wait(runs, ARABIC)
    gate.set()
    for thread in waiting:
        thread.join(30)
    assert found == [["ara"], ["ara"]]
    assert models.load_and_wait(runs, ARABIC)["targets"] == ["ara"] and models._WAITING._value == 2
    with pytest.raises(Exception, match="not a model's id|no model id"):
        models.load_and_wait(runs, "../x")
    assert models._WAITING._value == 2
