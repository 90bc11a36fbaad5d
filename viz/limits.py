"""How much of the server one visitor may take: requests in a minute, and places in the queue.

A visitor is a page (Gradio's session hash), and also an address. A whole class may sit behind one address, so that of an address is many
times as much. Nothing is stored about a visitor but two numbers, in memory, for the last few thousand of each kind.

`Gate` stands before Gradio's queue, since a request that is refused there costs nothing. What a request counts is told by what it runs
(`COSTS`). A refused one is answered with 429, or with 503 where places are short, and `Retry-After` in seconds; the page's script
(static/requests.js) then asks again by itself.
"""

from __future__ import annotations

import ipaddress
import json
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from cachetools import LRUCache

from viz.text import say
from viz.turns import KEY, Caller, caller

RATE_VARIABLE = "ATLAS_RATE"
PROXIES_VARIABLE = "ATLAS_PROXIES"
RATE = 120  # what one page may ask in a minute, and half of it at once
CLASSROOM = 20  # an address may ask as much as so many pages
COSTS = {"model": 1.0, "export": 2.0, "load_and_wait": 5.0}  # by Gradio's concurrency_id
CHEAP = 0.25  # whatever runs no model
POLL = 0.1  # the question how far a load is; the first one begins the load
LOAD = 5.0
CHARACTERS = 200  # of a text that is translated: so many count once, twice as many twice; and with more than four beams all of it twice
MOST = 16.0  # of one translation: no model reads more
COSTLY = 4.0
QUEUE = 256  # places: a class of sixty, each with a few pictures to be made
PAGE_PLACES = 32  # a page has one request of a kind under way, so less than this
ADDRESS_PLACES = QUEUE * 3 // 4  # the rest stays for others
COSTLY_PLACES = 6  # of those, for long texts: each takes the model for seconds
KNOWN = 4096  # pages and addresses that are remembered

_ASKING = re.compile(r"/gradio_api/(?:queue/join|call/(?:v2/)?(?P<name>[^/]+))/?$")  # there is no other way in: viz/door.py
Clock = Callable[[], float]


class Buckets:
    """A token bucket for every name: up to `burst` can be taken at once, and what was taken comes back at `per_second`."""

    def __init__(self, per_second: float, burst: float, clock: Clock = time.monotonic, known: int = KNOWN) -> None:
        self.per_second, self.burst, self._clock = per_second, burst, clock
        self._taken: LRUCache[str, tuple[float, float]] = LRUCache(known)  # how much, and when that was so

    def taken(self, name: str) -> float:
        """What this one has taken and not yet got back."""
        much, when = self._taken.get(name, (0.0, 0.0))
        return max(0.0, much - (self._clock() - when) * self.per_second)

    def wait(self, name: str, cost: float) -> float:
        """Seconds until `cost` can be taken; 0 if it can be now."""
        return max(0.0, (self.taken(name) + min(cost, self.burst) - self.burst) / self.per_second)

    def take(self, name: str, cost: float) -> None:
        self._taken[name] = (self.taken(name) + cost, self._clock())

    def __len__(self) -> int:
        return len(self._taken)


class Limits:
    """What a page and an address may ask, in costs per minute; 0 for any amount."""

    def __init__(self, rate: float = RATE, clock: Clock = time.monotonic) -> None:
        self._pages = Buckets(rate / 60, rate / 2, clock) if rate else None
        self._addresses = Buckets(CLASSROOM * rate / 60, CLASSROOM * rate / 2, clock) if rate else None

    def charge(self, page: str, address: str, cost: float) -> float:
        """Takes the cost and returns 0, or takes nothing and returns the seconds until it could. page: "" for a program without one."""
        if self._pages is None or self._addresses is None:
            return 0.0
        owners = [(self._addresses, address)] + ([(self._pages, page)] if page else [])
        seconds = max(buckets.wait(name, cost) for buckets, name in owners)
        if not seconds:
            for buckets, name in owners:
                buckets.take(name, cost)
        return seconds


def address_of(scope: Mapping[str, Any], proxies: int = 0) -> str:
    """Whose request it is: the peer's address, or the one that the outermost of `proxies` trusted proxies saw. Of IPv6 the network (/64),
    which is what one household or school has.

    What else stands in X-Forwarded-For anybody may have written there, so it is counted from the end.
    """
    value = (scope.get("client") or ("",))[0]
    if proxies:
        lines = [line.decode("latin-1") for name, line in scope["headers"] if name == b"x-forwarded-for"]
        seen = [part.strip() for part in ",".join(lines).split(",") if part.strip()]
        value = seen[-min(proxies, len(seen))] if seen else value
    try:
        address = ipaddress.ip_address(value)
    except ValueError:  # a Unix socket, or not an address: one visitor like any other
        return value[:64]
    if address.version == 4:
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))


class Gate:
    """ASGI middleware: refuses requests to Gradio's functions that are too many, or would take too many places of the queue.

    Behind the door (viz/door.py), which has seen to it that bodies are small.
    """

    def __init__(self, app: Callable, rate: float = RATE, proxies: int = 0, clock: Clock = time.monotonic) -> None:
        self.app, self.proxies = app, proxies
        self.limits = Limits(rate, clock)
        self._loading: LRUCache[str, object] = LRUCache(KNOWN)  # which model a page asked for last

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        found = _ASKING.search(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if found is None:
            return await self.app(scope, receive, send)
        body, messages = b"", []
        while True:
            message = await receive()
            messages.append(message)
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked = _asked(body)
        refusal = self._refusal(scope, asked, found["name"])
        if refusal is not None:
            return await _refuse(send, *refusal)

        async def again() -> dict:
            return messages.pop(0) if messages else await receive()

        await self.app(scope, again, send)

    def _refusal(self, scope: dict, asked: Mapping[str, Any], name: str | None) -> tuple[int, str, float] | None:
        """Status, sentence and seconds to wait; None, and who asks in the scope, for what is let through."""
        blocks = scope["app"].get_blocks()
        page = asked.get("session_hash")
        page = page[:64] if isinstance(page, str) else ""
        function = _function(blocks, asked.get("fn_index"), name)
        cost = self._cost(function, page, asked.get("data")) * _length(function, asked)
        who = Caller(address_of(scope, self.proxies), page, cost)
        if _is_crowded(blocks, who):
            return 503, say("en", "limits.queue"), 2
        seconds = self.limits.charge(page, who.address, cost)
        if seconds:
            return 429, say("en", "limits.rate", seconds=math.ceil(seconds)), seconds
        scope[KEY] = who
        return None

    def _cost(self, function: Any, page: str, data: object) -> float:
        kind = getattr(function, "concurrency_id", None)
        if kind != "load":
            return COSTS.get(kind, CHEAP)
        store = data[0] if isinstance(data, list) and data else None
        wanted = store.get("wanted") if isinstance(store, dict) else None
        wanted = wanted if isinstance(wanted, dict) else {}
        model = str(wanted.get("name"))[:300]
        if wanted.get("again") is not True and self._loading.get(page) == model:
            return POLL
        self._loading[page] = model
        return LOAD


def _asked(body: bytes) -> Mapping[str, Any]:
    """What was sent; nothing where it is no JSON object, which Gradio then says."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_crowded(blocks: Any, who: Caller) -> bool:
    """Whether as much waits already as may wait of this page or address."""
    events = [event for queue in blocks._queue.event_queue_per_concurrency_id.values() for event in queue.queue]
    waiting = [each for each in map(caller, events) if each.address == who.address]
    of_page = sum(each.page == who.page for each in waiting) if who.page else 0
    costly = sum(each.cost >= COSTLY for each in waiting) if who.cost >= COSTLY else 0
    return of_page >= PAGE_PLACES or len(waiting) >= ADDRESS_PLACES or costly >= COSTLY_PLACES


def _length(function: Any, asked: Mapping[str, Any]) -> float:
    """How many times as much a translation counts as one of a short text; 1 for all else."""
    data = asked.get("data")
    if getattr(function, "concurrency_id", None) != "model":
        return 1.0
    if isinstance(data, list):
        text, beams = (data[0], data[2]) if len(data) > 2 else (None, None)
        beams = beams.get("beam_size") if isinstance(beams, dict) else beams
    else:  # by name
        text, beams = asked.get("text"), asked.get("beam_size")
    if not isinstance(text, str):
        return 1.0
    many = isinstance(beams, (int, float)) and beams > 4
    return min(MOST, math.ceil(max(1, len(text)) / CHARACTERS) * (2.0 if many else 1.0))


def _function(blocks: Any, index: object, name: str | None) -> Any:
    if isinstance(index, int):
        return blocks.fns.get(index)
    return next((fn for fn in blocks.fns.values() if name is not None and fn.api_name == name), None)


async def _refuse(send: Callable, status: int, detail: str, seconds: float) -> None:
    body = json.dumps({"detail": detail}).encode()
    later = str(math.ceil(seconds)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"retry-after", later)]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# --- settings ---


def _whole(variable: str, usual: int, what: str) -> int:
    value = os.environ.get(variable, "").strip() or str(usual)
    if not re.fullmatch("[0-9]{1,6}", value):
        raise SystemExit(f"{variable}={value} is no number of {what}: give a whole number from 0 to 999999.")
    return int(value)


def settings() -> dict[str, int]:
    """What the environment says, as arguments of `Gate`. Ends the program with a plain sentence if that is no number.

    On a Hugging Face Space one proxy stands before the app.
    """
    behind = 1 if os.environ.get("SPACE_ID") else 0
    return {"rate": _whole(RATE_VARIABLE, RATE, "requests"), "proxies": _whole(PROXIES_VARIABLE, behind, "proxies")}
