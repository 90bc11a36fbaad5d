"""BertViz's pages (model_view and head_view) of the same maps, opened without any outside network, to measure ours against.

BertViz and the scripts that its pages fetch from a CDN are installed for the benchmark only, into the git-ignored folder .bench/, by
`python -m tests.benchmarks.bertviz_pages` (pip and npm are needed; `make bench-views` does it). Its package asks for far more than
these two views need (boto3, transformers), so only itself and IPython are installed; torch is there.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from playwright.sync_api import BrowserContext, Route

from model.results import AttentionTrace

FOLDER = Path(__file__).parents[2] / ".bench"
PACKAGES, SCRIPTS = FOLDER / "python", FOLDER / "npm" / "node_modules"
BERTVIZ = "bertviz==1.4.1"
# What its pages ask a CDN for, by file name. npm has no jQuery 2.0.0 (its 2.x begins with 2.1.0) and no minified RequireJS.
LOCAL = {"require.min.js": "requirejs/require.js", "jquery.min.js": "jquery/dist/jquery.min.js", "d3.min.js": "d3/dist/d3.min.js"}
NPM = ("requirejs@2.3.6", "jquery@2.2.4", "d3@5.7.0")


class NotInstalledError(RuntimeError):
    def __init__(self, missing: str) -> None:
        super().__init__(f"BertViz is not measured: {missing} is missing. Install it with: python -m tests.benchmarks.bertviz_pages")


def install() -> None:
    """BertViz from PyPI and the scripts from npm, into .bench/. Raises RuntimeError if a client is missing or fails."""
    if shutil.which("npm") is None:
        raise RuntimeError("npm is needed to fetch the scripts of BertViz's pages (Debian's package npm).")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(PACKAGES)]
    npm = ["npm", "install", "--prefix", str(FOLDER / "npm"), "--ignore-scripts", "--no-audit", "--no-fund", *NPM]
    for command in ([*pip, "--no-deps", BERTVIZ], [*pip, "ipython>=8,<9"], npm):
        subprocess.run(command, check=True)
    check()


def check() -> None:
    """Raises NotInstalledError if anything is missing."""
    for path in (PACKAGES / "bertviz", PACKAGES / "IPython", *(SCRIPTS / name for name in LOCAL.values())):
        if not path.exists():
            raise NotInstalledError(str(path.relative_to(FOLDER)))


def documents(trace: AttentionTrace) -> dict[str, str]:
    """HTML of both views of all three kinds, as `html_action="return"` gives it. Raises NotInstalledError."""
    check()
    if str(PACKAGES) not in sys.path:
        sys.path.append(str(PACKAGES))  # last: what the app has installed goes first
    from bertviz import head_view, model_view

    def layers(maps: object) -> list[torch.Tensor]:
        return [torch.tensor(layer)[None] for layer in maps]

    given = {
        "encoder_attention": layers(trace.encoder_self_attention),
        "decoder_attention": layers(trace.decoder_self_attention),
        "cross_attention": layers(trace.cross_attention),
        "encoder_tokens": list(trace.src_tokens),
        "decoder_tokens": list(trace.tgt_in_tokens),
        "html_action": "return",
    }
    return {view.__name__: view(**given).data for view in (model_view, head_view)}


@contextmanager
def served(pages: dict[str, str]) -> Iterator[str]:
    """A server on the loopback interface that answers with these pages; yields its address."""
    with TemporaryDirectory() as folder:
        for name, html in pages.items():
            (Path(folder) / f"{name}.html").write_text(html, encoding="utf-8")
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        del args


def without_network(context: BrowserContext, base: str) -> list[str]:
    """Answers what these pages ask a CDN for from .bench/, and refuses all else. Returns the list that refused addresses are put into."""
    refused: list[str] = []

    def answer(route: Route) -> None:
        url = route.request.url
        local = LOCAL.get(url.rsplit("/", 1)[-1])
        if local:
            route.fulfill(path=SCRIPTS / local, content_type="text/javascript")
        elif url.endswith("/favicon.ico"):
            route.fulfill(status=404)
        else:
            refused.append(url)
            route.abort()

    context.route(lambda url: not url.startswith((base, "data:")) or url.endswith("/favicon.ico"), answer)
    return refused


if __name__ == "__main__":
    try:
        check()
    except NotInstalledError:
        install()
