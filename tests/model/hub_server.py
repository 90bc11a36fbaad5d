"""A small HTTP server that speaks as much of the hub's protocol as loading a model needs, from folders on disk."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40
NAMES = ("main", COMMIT)


@dataclass
class Hub:
    """folders: repository id -> folder. status: repository id -> answer for all its addresses ("gated" or a number).

    cut: a file whose body ends early, though its length is announced in full. stall: one of which only the first half is sent, and then
    nothing, until `go_on` is set. asked: every request, as "METHOD path".
    """

    folders: dict[str, Path]
    status: dict[str, int | str] = field(default_factory=dict)
    cut: str = ""
    stall: str = ""
    go_on: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def files_asked(self) -> list[str]:
        return [line.rsplit("/", 1)[1] for line in self.asked if line.startswith("GET") and "/resolve/" in line]


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def do_GET(self) -> None:
            self._answer(body=True)

        def _answer(self, body: bool) -> None:
            path = unquote(urlsplit(self.path).path).strip("/")
            hub.asked.append(f"{self.command} {path}")
            words = path.removeprefix("api/models/").split("/")
            repo = "/".join(words[:2])
            status = hub.status.get(repo)
            if status == "gated":
                return self._send(403, b"", body, {"X-Error-Code": "GatedRepo"})
            if isinstance(status, int):
                return self._send(status, b"", body)
            if repo not in hub.folders:  # the hub says the same of a private repository
                return self._send(401, b"", body, {"X-Error-Code": "RepoNotFound"})
            revision = words[3] if len(words) > 3 else "main"
            if revision not in NAMES:
                return self._send(404, b"", body, {"X-Error-Code": "RevisionNotFound"})
            if path.startswith("api/models/"):
                siblings = [{"rfilename": file.name, "size": file.stat().st_size} for file in sorted(hub.folders[repo].iterdir())]
                answer = json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode()
                return self._send(200, answer, body, {"Content-Type": "application/json"})
            file = hub.folders[repo] / words[-1]
            if not file.is_file():
                return self._send(404, b"", body, {"X-Error-Code": "EntryNotFound"})
            content = file.read_bytes()
            about = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": COMMIT}
            self._send(200, content, body, about, cut=words[-1] == hub.cut, stall=words[-1] == hub.stall)

        def _send(
            self,
            status: int,
            content: bytes,
            body: bool,
            headers: dict[str, str] | None = None,
            cut: bool = False,
            stall: bool = False,
        ) -> None:
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if cut:
                self.wfile.write(content[: len(content) // 2])
                self.close_connection = True
            elif stall and body:
                self.wfile.write(content[: len(content) // 2])
                self.wfile.flush()
                hub.go_on.wait(60)
                self.close_connection = True
            elif body:
                self.wfile.write(content)

    return Handler


@contextmanager
def serve_hub(folders: dict[str, Path]) -> Iterator[Hub]:
    """A hub with these repositories at `hub.url` until the end of the block."""
    hub = Hub(folders)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
