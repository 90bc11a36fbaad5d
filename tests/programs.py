"""How a test asks a server as a program does: without haste, since a busy machine is no failure (httpx alone gives up after 5 s)."""

from __future__ import annotations

import httpx
from gradio_client import Client

PATIENCE = 120.0  # seconds


def program(url: str) -> Client:
    """A client with a session of its own."""
    return Client(url, verbose=False, httpx_kwargs={"timeout": PATIENCE})


def http_client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE)
