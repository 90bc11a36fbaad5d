"""What the server lets in: an ASGI wrapper around the whole of Gradio's application that knows which requests this page needs.

Gradio serves much that the page never asks for: uploads, a proxy, icons of any size, recordings, calls that go around the queue. And it
meets a body that is no call with an exception. So whatever is not on the list below is answered here, a call that could not be one is
refused with a sentence (viz/calls.py), and no body is larger than MAX_BODY or takes longer than BODY_SECONDS to arrive.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from viz import limits
from viz.calls import MAX_BODY, Refusal, check_origin, check_reader, checked_body, note_cancelled
from viz.sessions import forget_visitors

BODY_SECONDS = 30.0
MAX_PATH = 2048  # characters
MAX_QUERY = 48 * 1024  # bytes: 5,000 Chinese characters, the longest text of a link (static/link.js), are 45,000; Gradio can take 65,536
MAX_NAME = 255  # bytes of a file's name; of a longer one a file system makes an error

_READ = re.compile(
    r"/|/(config|theme\.css|favicon\.ico|robots\.txt|manifest\.json)/?"
    r"|/(assets|static|svelte)/.+"
    r"|/gradio_api/(info|startup-events|theme\.css|app_id|user|queue/status|queue/data|login_check)/?"
    r"|/gradio_api/(heartbeat/[^/]+|file=.+|call/(v2/)?[^/]+/[^/]+)"
)
_WRITTEN = re.compile(r"/gradio_api/(queue/join|cancel|reset/?|call/(v2/)?[^/]+/?)")
_TOOLS = re.compile(r"/gradio_api/mcp(/.*)?")  # only there if Gradio's MCP server was asked for
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # the sentence stands in the page's address
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=(), payment=(), usb=()"),
)
# Gradio's page needs scripts in the page and made from strings; but no script, however it got there, reaches another host. Nothing is said
# of frames: the page may be embedded anywhere.
POLICY = (
    b"default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; style-src 'self' 'unsafe-inline'; "
    b"object-src 'none'; base-uri 'self'; form-action 'self'"
)

Scope, Receive, Send = dict[str, Any], Callable[[], Any], Callable[[dict[str, Any]], Any]


@asynccontextmanager
async def guarded(app: Any) -> AsyncIterator[None]:
    """The lifespan of Gradio's application (`launch(app_kwargs={"lifespan": guarded})`): puts the door before everything, also before
    Gradio's own middleware, which no `middleware` of ours can stand before; and sees to it that nothing is kept of visitors."""
    forget_visitors(app)
    app.middleware_stack = Door(app.middleware_stack, app.get_blocks, limits.settings()["proxies"])
    yield


class Door:
    """app: what is behind it. blocks: gives Gradio's Blocks. proxies: how many of ours stand before the server (viz/limits.py)."""

    def __init__(self, app: Callable, blocks: Callable[[], Any], proxies: int = 0) -> None:
        self.app, self.blocks, self.proxies = app, blocks, proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            scope = {**scope, "headers": _checked_headers(scope["headers"], self.proxies > 0)}
            path, method = _path(scope), scope["method"]
            if _TOOLS.fullmatch(path):
                pass
            elif _WRITTEN.fullmatch(path) and method == "POST":
                scope, receive = await self._with_checked_body(scope, receive, path)
            elif not (_READ.fullmatch(path) and method in ("GET", "HEAD")) and method != "OPTIONS":
                known = _READ.fullmatch(path) or _WRITTEN.fullmatch(path)
                raise Refusal(405, "This address is not asked in this way.") if known else Refusal(404, "Not Found")
            elif method == "GET":
                check_reader(path, scope["query_string"], self.blocks()._queue)
        except Refusal as refusal:
            await _answer(send, refusal, last=scope["method"] not in ("GET", "HEAD"))
            return
        await self.app(scope, receive, _with_headers(send))

    async def _with_checked_body(self, scope: Scope, receive: Receive, path: str) -> tuple[Scope, Receive]:
        """The same request with a body that Gradio can take. Raises Refusal."""
        kind = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
        if kind.split(b";")[0].strip().lower() != b"application/json":  # which other sites cannot send without asking first
            raise Refusal(415, "Send JSON, with the content type application/json.")
        check_origin(scope["headers"])
        try:
            body = await asyncio.wait_for(_whole_body(scope, receive), BODY_SECONDS)
        except asyncio.TimeoutError:
            raise Refusal(408, f"The request took longer than {BODY_SECONDS:.0f} seconds to arrive.") from None
        value = checked_body(path, body, self.blocks())
        if path.endswith("/cancel"):
            note_cancelled(value, self.blocks()._queue)
        checked = json.dumps(value, ensure_ascii=False).encode("utf-8")
        others = [pair for pair in scope["headers"] if pair[0] not in (b"content-length", b"content-type", b"transfer-encoding")]
        headers = [*others, (b"content-type", b"application/json"), (b"content-length", str(len(checked)).encode())]
        return {**scope, "headers": headers}, _once(checked, receive)


def _path(scope: Scope) -> str:
    """The path below the one that the app is mounted at. Raises Refusal for what no address of ours holds."""
    path, root = scope["path"], scope.get("root_path", "").rstrip("/")
    if root and path.startswith(root + "/"):
        path = path[len(root) :]
    if len(path) > MAX_PATH or len(scope["query_string"]) > MAX_QUERY:
        raise Refusal(414, "The address is too long.")
    if any(ord(char) < 32 or char == "\x7f" for char in path) or any(len(part.encode()) > MAX_NAME for part in path.split("/")):
        raise Refusal(404, "Not Found")
    return path


def _checked_headers(headers: list[tuple[bytes, bytes]], behind: bool) -> list[tuple[bytes, bytes]]:
    """Without what only Gradio's own front server may say, nor, unless we are behind a proxy, another name of this host: anybody may write
    that. Raises Refusal for names that can be none."""
    dropped = (b"x-gradio-server",) if behind else (b"x-gradio-server", b"x-forwarded-host")
    kept = [(name, value) for name, value in headers if name not in dropped]
    hosts = [value for name, value in kept if name == b"host"]
    forwarded = [value.split(b",")[0].strip() for name, value in kept if name == b"x-forwarded-host"]
    if len(hosts) != 1 or not all(_HOST.fullmatch(each.decode("latin-1")) for each in (*hosts, *forwarded)):
        raise Refusal(400, "The request does not say which host it is for.")
    return kept


async def _whole_body(scope: Scope, receive: Receive) -> bytes:
    told = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    chunks, size, more = [], 0, True
    while more:
        # h11 has checked that it is a number
        if max(size, int(told)) > MAX_BODY:
            raise Refusal(413, f"The request is larger than {MAX_BODY // 1024} KB: shorten the text.")
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "The request ended early.")
        chunks.append(message.get("body", b""))
        size, more = size + len(chunks[-1]), message.get("more_body", False)
    if size > MAX_BODY:
        raise Refusal(413, f"The request is larger than {MAX_BODY // 1024} KB: shorten the text.")
    return b"".join(chunks)


def _once(body: bytes, receive: Receive) -> Receive:
    """A receive that gives this body, and then what really comes (the end of the connection)."""
    given = False

    async def receive_body() -> dict[str, Any]:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            named = {name.lower() for name, _ in headers}
            html = any(name.lower() == b"content-type" and value.startswith(b"text/html") for name, value in headers)
            policy = ((b"content-security-policy", POLICY),) if html else ()
            message = {**message, "headers": [*headers, *(pair for pair in (*HEADERS, *policy) if pair[0] not in named)]}
        await send(message)

    return send_with_headers


async def _answer(send: Send, refusal: Refusal, last: bool) -> None:
    """Gradio's own form of a refusal: {"detail": sentence}. last: the connection ends with it, since the rest of a body may still come."""
    stream = refusal.stream
    body = (json.dumps({"detail": refusal.detail}) if stream is None else stream).encode()
    kind = b"application/json" if stream is None else b"text/event-stream"
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *HEADERS]
    headers += [(b"connection", b"close")] if last else []
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
