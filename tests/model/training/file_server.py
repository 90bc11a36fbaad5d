"""A file server on this machine that can misbehave: what `download` meets in the wild."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """files: path -> content. faults: path -> what to do with the next requests for it, one each: a status code, ("cut", n) to hang up
    after n bytes, or ("lie", range start) to answer a range with another one. seen: (path, Range header or "") of every request."""

    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list] = field(default_factory=dict)
    seen: list[tuple[str, str]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path, asked = handler.path, handler.headers.get("Range", "")
        self.seen.append((path, asked))
        content = self.files.get(path)
        fault = self.faults.get(path, []).pop(0) if self.faults.get(path) else None
        if content is None or isinstance(fault, int):
            handler.send_error(404 if fault is None else fault)
            return
        tag = self.tags.get(path, f'"{hash(content)}"')
        start, kind = 0, fault[0] if fault else ""
        if asked and self.ranges and handler.headers.get("If-Range") == tag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                handler.send_error(416)
                return
            start = fault[1] if kind == "lie" else start
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        else:
            handler.send_response(200)
        handler.send_header("ETag", tag)
        handler.send_header("Content-Length", str(len(content) - start))
        handler.end_headers()
        body = content[start:]
        handler.wfile.write(body[: fault[1]] if kind == "cut" else body)


@contextmanager
def serving(**files: bytes) -> Iterator[FileServer]:
    """A server of these files at `url`, for the length of the block. Double underscores in a name stand for a slash."""
    server = FileServer({f"/{name.replace('__', '/')}": content for name, content in files.items()})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
