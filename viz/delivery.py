"""How plotly.js gets to the browser: the installed package's own file, early, once, compressed once, kept by the browser. And how the page
itself does.

Gradio itself would serve it (`gr.set_static_paths`), but name it only after its own bundle has started, compress its 4.6 MB anew for
every visitor, have every page ask whether it has changed, and tell everybody where it lies on this machine. The middleware below
does none of that. Gradio compresses its own scripts, but not the page, which holds ours, nor its table of components.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import plotly

from viz.text import say

PLOTLY_SCRIPT = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
_PATH = "/assets/plotly.min.js"
_PAGES = ("/", "/config", "/config/")
# What the page's head links; Gradio's own names icons that are closed here (viz/door.py), and is for pages that can be installed.
_MANIFEST = {"name": say("en", "page.title"), "icons": [{"src": "favicon.ico", "type": "image/png", "sizes": "any"}],
             "start_url": "./", "display": "browser"}


def plotly_script_url() -> str:
    """Address of plotly.min.js, relative to the page, so that it also holds behind a proxy that adds a path; its version is part of it."""
    return f"{_PATH[1:]}?v={plotly.__version__}"


@lru_cache(maxsize=1)
def _compressed() -> bytes:
    return gzip.compress(PLOTLY_SCRIPT.read_bytes(), 6)


@lru_cache(maxsize=4)
def _packed(body: bytes) -> bytes:
    """Compressed; kept, since the page is the same for all who come by the same name of this host."""
    return gzip.compress(body, 6)


class PlotlyDelivery:
    """ASGI middleware. Names plotly.js in the Link header of the page, so that the browser fetches it while it still reads the page,
    and answers that request from memory, to be kept for good: another version has another address. Compresses the page.
    """

    def __init__(self, app: Callable) -> None:
        self.app = app
        self.link = f"<{plotly_script_url()}>; rel=preload; as=script".encode("latin-1")

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self.app(scope, receive, send)
        elif scope["path"].endswith(_PATH):
            await self._send_script(send, _accepts_gzip(scope))
        elif scope["path"] == "/manifest.json":
            body = json.dumps(_MANIFEST).encode()
            headers = [(b"content-type", b"application/manifest+json"), (b"content-length", str(len(body)).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        elif scope["path"] in _PAGES:
            send = self._with_link(send) if scope["path"] == "/" else send
            await self.app(scope, receive, _compressing(send) if _accepts_gzip(scope) else send)
        else:
            await self.app(scope, receive, send)

    def _with_link(self, send: Callable) -> Callable:
        async def send_with_link(message: dict) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"link", self.link)]
            await send(message)

        return send_with_link

    async def _send_script(self, send: Callable, compressed: bool) -> None:
        body = _compressed() if compressed else PLOTLY_SCRIPT.read_bytes()
        headers = [
            (b"content-type", b"text/javascript; charset=utf-8"),
            *([(b"content-encoding", b"gzip")] if compressed else []),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"public, max-age=31536000, immutable"),
            (b"vary", b"accept-encoding"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _compressing(send: Callable) -> Callable:
    """A send for an answer that is compressed as a whole, once its body is there."""
    start: dict = {}
    body = bytearray()

    async def send_compressed(message: dict) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        if any(name == b"content-encoding" for name, _ in start["headers"]):  # somebody has done it
            await send(message)
            return
        if message["type"] == "http.response.start":
            return
        body.extend(message.get("body", b""))
        if message.get("more_body"):
            return
        packed = await asyncio.to_thread(_packed, bytes(body))  # zlib lets others compute meanwhile
        kept = [pair for pair in start["headers"] if pair[0] != b"content-length"]
        own = [(b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"), (b"content-length", str(len(packed)).encode())]
        await send({**start, "headers": [*kept, *own]})
        await send({"type": "http.response.body", "body": packed})

    return send_compressed


def _accepts_gzip(scope: dict) -> bool:
    return any(name == b"accept-encoding" and b"gzip" in value for name, value in scope["headers"])
