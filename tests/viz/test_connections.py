"""Connections of a real server: idle ones are closed, a busy one is not, and there are never more than can be served."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import uvicorn

from viz import connections

IDLE = 0.3


async def slow(scope: dict, receive: Callable, send: Callable) -> None:
    if scope["type"] != "http":
        raise RuntimeError
    if scope["path"] == "/slow":
        await asyncio.sleep(5 * IDLE)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    server = uvicorn.Server(uvicorn.Config(slow, port=0, log_level="critical", timeout_keep_alive=60, lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    with socket.create_connection(server.servers[0].sockets[0].getsockname()[:2]) as early:
        early.sendall(b"GET / HT")
        while not server.server_state.connections:
            time.sleep(0.01)
        connections.watch(server, idle=IDLE, most=4)
        assert closed(early) == b""
    yield server.servers[0].sockets[0].getsockname()[:2]
    server.should_exit = True
    thread.join(10)


def closed(client: socket.socket) -> bytes:
    """What comes until the server closes."""
    client.settimeout(10)
    found = b""
    try:
        while chunk := client.recv(1000):
            found += chunk
    except ConnectionResetError:
        pass
    return found


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX: y\r\n"])
def test_a_connection_without_a_request_is_closed(address: tuple[str, int], sent: bytes) -> None:
    with socket.create_connection(address) as client:
        client.sendall(sent)
        assert closed(client) == b""


def test_a_connection_that_goes_on_with_half_a_request_is_closed(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(1000)
        client.sendall(b"GET / HT")
        assert closed(client) in (b"", b"ok")


def test_an_answer_that_takes_its_time_arrives(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as client:
        client.sendall(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert closed(client).endswith(b"ok")


def test_further_connections_are_closed_and_said_of_once(address: tuple[str, int], caplog: pytest.LogCaptureFixture) -> None:
    held = [socket.create_connection(address) for _ in range(4)]
    time.sleep(0.05)
    with caplog.at_level(logging.WARNING):
        for _ in range(20):
            with socket.create_connection(address) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert closed(client) == b""
    assert len([each for each in caplog.records if "open connections" in each.message]) == 1
    for each in held:
        closed(each)
        each.close()
    with socket.create_connection(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert closed(client).endswith(b"ok")


def test_running_out_of_files_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("a test of connections")
    log.addFilter(connections.OneLine())
    for _ in range(1000):
        try:
            raise OSError(24, "Too many open files")
        except OSError as error:
            log.error("socket.accept() out of system resource\nsocket: %s", "x", exc_info=error)
    log.error("something else")
    assert [each.getMessage() for each in caplog.records] == [
        "Too many open files: no further connection can be accepted for now.",
        "something else",
    ]
    assert caplog.records[0].exc_info is None


def test_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    asked = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: asked.append(limits))
    all_of_it = ((10**6, 10**6), [], 3072)
    for given, wanted, most in (((1024, 10**6), [(4096, 10**6)], 3072), ((256, 256), [], 192), all_of_it, ((-1, -1), [], 3072)):
        monkeypatch.setattr(resource, "getrlimit", lambda kind, given=given: given)
        asked.clear()
        assert connections.most_connections() == most and asked == wanted

    def refuse(*args: object) -> None:
        raise OSError

    monkeypatch.setattr(resource, "setrlimit", refuse)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1024, 4096))
    assert connections.most_connections() == 768
