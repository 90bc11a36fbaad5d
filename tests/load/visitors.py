"""Visitors without a browser: what the page's own script asks of the server, by the same protocol, many of them at once.

A visitor joins Gradio's queue with what stands in the boxes of the page, and reads the stream of events of their page until the answer is
there. A refused request is sent again after a while, as static/requests.js does.
"""

from __future__ import annotations

import asyncio
import json
import random
import secrets
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

MOST_TRIES = 8


class GivenUpError(Exception):
    """The server refused a request as often as a page asks."""


@dataclass(frozen=True)
class Answer:
    """What came for one sentence: what the page would say is wrong (or None), the value of #result and that of #maps, and how it came."""

    sentence: str
    problem: dict | None
    result: dict
    maps: dict
    seconds: float
    refusals: tuple[int, ...]

    def is_right(self, translation: str | None = None) -> bool:
        """Whether result and maps are of the visitor's own sentence; and if `translation` is given, whether this is it."""
        if self.problem is not None:
            return False
        own = self.result["request"]["text"] == self.sentence == self.maps["request"]["text"]
        return own and (translation is None or self.result["text"] == translation)


@dataclass
class Visitor:
    """One tab. session: what Gradio knows it by."""

    http: httpx.AsyncClient
    event: int
    session: str = field(default_factory=lambda: secrets.token_hex(5))

    async def join(self, sentence: str, target: str, beam_size: int) -> httpx.Response:
        store = {"lang": "en", "target": target, "beam_size": beam_size, "model": "embedded", "kind": "cross", "layer": 0, "head": 0}
        body = {"data": [sentence, "", store], "event_data": None, "fn_index": self.event, "trigger_id": None, "session_hash": self.session}
        return await self.http.post("/gradio_api/queue/join", json=body)

    async def translate(self, sentence: str, target: str = "fra", beam_size: int = 4) -> Answer:
        """Types the sentence and waits for its answer. Raises GivenUpError."""
        start = time.perf_counter()
        refusals: list[int] = []
        while (joined := await self.join(sentence, target, beam_size)).status_code != 200:
            if joined.status_code not in (429, 503):
                joined.raise_for_status()
            refusals.append(joined.status_code)
            if len(refusals) > MOST_TRIES:
                raise GivenUpError(f"{sentence!r}: {refusals}")
            pause = int(joined.headers["retry-after"]) if joined.status_code == 429 else min(2 ** (len(refusals) - 1), 8)
            await asyncio.sleep(pause * (1 + random.random() / 2))
        problem, result, maps = await self.answer_to(joined.json()["event_id"])
        return Answer(sentence, problem, result, json.loads(maps), time.perf_counter() - start, tuple(refusals))

    async def answer_to(self, event_id: str) -> list:
        """The output of an event, from the stream of this page."""
        async with self.stream() as messages:
            async for message in messages:
                if message["msg"] == "process_completed" and message["event_id"] == event_id:
                    if not message["success"]:
                        raise RuntimeError(f"the server failed: {message['output']}")
                    return message["output"]["data"]
        raise RuntimeError("the stream ended before the answer")

    @asynccontextmanager
    async def stream(self) -> AsyncIterator[AsyncIterator[dict]]:
        async def messages(lines: AsyncIterator[str]) -> AsyncIterator[dict]:
            async for line in lines:
                if line.startswith("data:"):
                    yield json.loads(line[5:])

        async with self.http.stream("GET", "/gradio_api/queue/data", params={"session_hash": self.session}) as answer:
            answer.raise_for_status()
            yield messages(answer.aiter_lines())


@asynccontextmanager
async def visiting(url: str) -> AsyncIterator[tuple[httpx.AsyncClient, int]]:
    """A client for all visitors together, and the number of the page's event "translate"."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=600, limits=limits) as http:
        dependencies = (await http.get("/config")).json()["dependencies"]
        yield http, next(each["id"] for each in dependencies if any(event == "translate" for _, event in each["targets"]))


async def class_of(url: str, sentences: Iterable[Iterable[str]], pause: float = 0.0, beam_size: int = 4) -> list[Answer]:
    """A visitor for each list of sentences, all at once; each types them one after the other, up to `pause` seconds apart."""

    async def visit(visitor: Visitor, own: Iterable[str]) -> list[Answer]:
        answers = []
        for sentence in own:
            await asyncio.sleep(random.random() * pause)
            answers.append(await visitor.translate(sentence, beam_size=beam_size))
        return answers

    async with visiting(url) as (http, event):
        found = await asyncio.gather(*(visit(Visitor(http, event), own) for own in sentences))
    return [answer for each in found for answer in each]
