"""The app as a process: `python app.py` killed while it translates, started again, told to end; a port that is taken."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import gradio as gr
import pytest

from tests.programs import program
from viz import startup
from viz.serve import serve

ROOT = Path(__file__).resolve().parents[2]
LONG = "and the cat sat on the mat " * 60  # at beam 8 many seconds' work


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen, str]]]:
    """start() -> the process of the app, once it serves, and its address: always the same. Its output goes to tmp_path / "log"."""
    port = free_port()
    started: list[subprocess.Popen] = []
    environment = {**os.environ, "PORT": str(port), "OMP_NUM_THREADS": "1", "GRADIO_TEMP_DIR": str(tmp_path / "gradio")}

    def start_it() -> tuple[subprocess.Popen, str]:
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=log, stderr=log)
        started.append(process)
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            assert process.poll() is None, (tmp_path / "log").read_text()
            try:
                urllib.request.urlopen(url, timeout=5).close()
                return process, url
            except OSError:
                time.sleep(0.2)
        raise TimeoutError("the app did not start")

    yield start_it
    for process in started:
        process.kill()
        process.wait()


def busy(url: str) -> None:
    """Asks for a translation that takes long and waits until it is under way."""
    job = program(url).submit(LONG, "fra", 8, api_name="/translate")
    for _ in range(300):
        if str(job.status().code) == "Status.PROCESSING":
            return
        time.sleep(0.1)
    raise TimeoutError(str(job.status()))


@pytest.mark.slow
def test_killed_in_a_translation_it_starts_again_and_ends_when_it_is_told_to(
    start: Callable[[], tuple[subprocess.Popen, str]], tmp_path: Path
) -> None:
    process, url = start()
    busy(url)
    process.kill()
    process.wait()

    process, url = start()  # on the same port, at once
    assert program(url).predict("I am a student.", "fra", api_name="/translate")["text"] == "Je suis étudiant."
    busy(url)
    stream = urllib.request.urlopen(f"{url}/gradio_api/heartbeat/test", timeout=60)  # an open page
    before = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 0
    stream.close()
    assert time.monotonic() - before < 30  # five seconds, on a machine with nothing else to do
    log = (tmp_path / "log").read_text()
    assert "Traceback" not in log and log.rstrip().endswith("Stopping.")


def test_ctrl_c_while_it_starts_leaves_no_trace(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "app.py"], cwd=ROOT, env={**os.environ, "PORT": str(free_port())}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    time.sleep(1.0)  # in the middle of its imports
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert b"Traceback" not in out and process.returncode in (128 + signal.SIGINT, -signal.SIGINT)


@pytest.fixture
def own_signals() -> Iterator[None]:
    kept = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    yield
    for each, handler in kept.items():
        signal.signal(each, handler)


def test_a_port_that_is_taken_is_one_sentence(own_signals: None) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with gr.Blocks() as demo:
            pass
        with pytest.raises(SystemExit, match=f"Port {port} is taken"):
            serve(demo, {"server_name": "127.0.0.1", "server_port": port, "quiet": True, "ssr_mode": False})


def test_a_second_signal_ends_it_at_once(own_signals: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the first one waits for."""
    ended: list[int] = []
    closing, killed = threading.Event(), threading.Event()

    class Demo:
        server = SimpleNamespace(config=SimpleNamespace(http_protocol_class=object), server_state=SimpleNamespace(connections=set()))

        def launch(self, **options: object) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

        def close(self, verbose: bool) -> None:
            closing.set()
            os.kill(os.getpid(), signal.SIGINT)
            killed.wait(5)

    def leave(code: int) -> None:
        ended.append(code)
        killed.set()

    monkeypatch.setattr("viz.serve.os._exit", leave)
    monkeypatch.setattr("viz.serve.logging.shutdown", lambda: None)
    serve(Demo(), {"server_port": 1})
    assert closing.is_set() and ended == [128 + signal.SIGINT, 0]
    assert Demo.server.config.http_protocol_class is not object  # its connections are watched (viz/connections.py)


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    startup.limit_threads()
    assert os.environ["OMP_NUM_THREADS"] == "7"
    for cores, threads in ((1, "1"), (3, "3"), (64, "4")):
        monkeypatch.delenv("OMP_NUM_THREADS")
        monkeypatch.setattr("viz.startup.os.sched_getaffinity", lambda pid, cores=cores: set(range(cores)), raising=False)
        startup.limit_threads()
        assert os.environ["OMP_NUM_THREADS"] == threads


def test_without_a_folder_for_temporary_files(own_signals: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    def none() -> str:
        raise FileNotFoundError

    monkeypatch.setattr("viz.startup.tempfile.gettempdir", none)
    monkeypatch.delenv("GRADIO_TEMP_DIR", raising=False)
    startup.prepare()
    assert "set TMPDIR" in capsys.readouterr().out and os.environ["GRADIO_TEMP_DIR"]
    monkeypatch.delenv("GRADIO_TEMP_DIR")
