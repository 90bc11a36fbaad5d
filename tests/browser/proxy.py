"""A small reverse proxy for tests: in front of one server that may sleep, or of several that take turns; and pages that frame another."""

from __future__ import annotations

import http.client
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
COOKIE = "atlas-server"


class Proxy:
    """servers: addresses behind it. asleep: everything is answered as a Space that wakes up does. sticky: a cookie names the server.

    pages: path -> HTML that the proxy answers itself.
    """

    def __init__(self, servers: list[str], sticky: bool = False, pages: dict[str, str] | None = None) -> None:
        self.servers, self.sticky, self.pages = servers, sticky, pages or {}
        self.asleep = False
        self.turns = itertools.count()
        self.url = ""

    def server_for(self, cookie: str | None) -> int:
        named = [part.partition("=")[2] for part in (cookie or "").split("; ") if part.startswith(COOKIE + "=")]
        return int(named[0]) if self.sticky and named else next(self.turns) % len(self.servers)


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # a connection for each request: its end is the end of the body

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._pass()

        do_POST = do_HEAD = do_GET

        def _pass(self) -> None:
            if self.path in proxy.pages:
                return self._say(200, proxy.pages[self.path])
            if not proxy.servers:
                return self._say(404, "")
            if proxy.asleep:
                return self._say(503, "<p>This Space is waking up.</p>")
            number = proxy.server_for(self.headers.get("Cookie"))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(urlsplit(proxy.servers[number]).netloc, timeout=120)
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            headers |= {"Host": self.headers["Host"], "X-Forwarded-Host": self.headers["Host"], "Accept-Encoding": "identity"}
            try:
                connection.request(self.command, self.path, body or None, headers)
                answer = connection.getresponse()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in HOP:
                        self.send_header(name, value)
                if proxy.sticky and self.path.split("?")[0] == "/":
                    self.send_header("Set-Cookie", f"{COOKIE}={number}; Path=/")
                self.end_headers()
                while chunk := answer.read1(65536):
                    self.wfile.write(chunk)
                    self.wfile.flush()
            except OSError:  # either side has gone
                self.close_connection = True
            finally:
                connection.close()

        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

    return Handler


@contextmanager
def serve_proxy(proxy: Proxy) -> Iterator[Proxy]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
