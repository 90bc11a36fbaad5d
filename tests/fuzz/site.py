"""A server that is attacked, and what its attackers need: requests as no well-behaved client sends them, calls of events, and its log."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[2]
STARTS_IN = 120  # seconds, on a busy machine
ANSWERS_IN = 60


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


@dataclass
class Site:
    url: str
    log: Path
    events: dict[str, tuple[int, int]] = field(default_factory=dict)  # api_name -> (number, how many inputs)

    def ask(
        self, path: str, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None, host: bool = True
    ) -> Answer:
        """One request, the path exactly as it is. headers replace those that would be sent."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=ANSWERS_IN)
        try:
            given = {name.lower(): value for name, value in (headers or {}).items()}
            connection.putrequest(method, path, skip_host=not host or "host" in given, skip_accept_encoding=True)
            if body is not None and "content-length" not in given:
                given["content-length"] = str(len(body))
            for name, value in given.items():
                connection.putheader(name, value)
            try:
                connection.endheaders(body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # a body that is refused by its length is answered before all of it is sent
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def post(self, path: str, value: Any, **headers: str) -> Answer:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.ask(path, "POST", body, {"content-type": "application/json"} | headers)

    def call(self, name: str, data: list[Any], session: str = "fuzz") -> dict[str, Any] | Answer:
        """What an event answered, as Gradio's protocol has it: {"success", "output"}. The refusal, if it was not let in."""
        answer = self.post("/gradio_api/queue/join", {"fn_index": self.events[name][0], "data": data, "session_hash": session})
        if answer.status != 200:
            return answer
        stream = self.ask(f"/gradio_api/queue/data?session_hash={session}")
        messages = [json.loads(line[6:]) for line in stream.text.splitlines() if line.startswith("data: ")]
        return next(message for message in messages if message["msg"] == "process_completed")

    def traces(self) -> str:
        """Stack traces in the log so far."""
        text = self.log.read_text(encoding="utf-8", errors="replace")
        return text[text.find("Traceback") :][:4000] if "Traceback" in text else ""

    def is_alive(self) -> bool:
        found = self.call("translate", ["I love you.", "fra", 1, "", "embedded"], "alive")
        return isinstance(found, dict) and found["success"] and found["output"]["data"][0]["src_tokens"][-1] == "</s>"


@contextmanager
def served(folder: Path) -> Iterator[Site]:
    """The app in a process of its own, ended afterwards."""
    log = folder / "log.txt"
    environment = os.environ | {"ATLAS_RATE": "0"}  # how much one visitor may ask is another test's
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "tests.fuzz.serve", str(os.getpid())], cwd=ROOT, stdout=file, stderr=file, env=environment
        )
        try:
            start = time.monotonic()
            while "ADDRESS" not in log.read_text():
                assert process.poll() is None and time.monotonic() - start < STARTS_IN, log.read_text()
                time.sleep(0.1)
            url = log.read_text().split("ADDRESS ")[1].split()[0].rstrip("/")
            site = Site(url, log)
            config = json.loads(site.ask("/config").body)
            for each in config["dependencies"]:
                if each["backend_fn"]:
                    site.events[each["api_name"]] = (each["id"], len(each["inputs"]))
            yield site
            assert process.poll() is None, "the server ended"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
