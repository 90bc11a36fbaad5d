"""What a request may hold that calls one of the page's events or endpoints, checked before Gradio reads it."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

MAX_BODY = 2**20  # bytes; a page's own are 5 KB, of the longest sentences 300 KB
MAX_NODES = 100_000  # values in one body: as Python objects these take 30 times their bytes
MAX_DEPTH = 32
MAX_NESTING = 200  # of brackets in a body that is read at all

_SESSION = re.compile("[A-Za-z0-9_-]{1,64}")
_BRACKET = re.compile(rb'"(?:[^"\\]|\\.?)*(?:"|\Z)|[][{}]', re.DOTALL)  # or a string, whose brackets are none; without its end, the rest
_HALVES = re.compile("[\ud800-\udfff]")  # of surrogate pairs: no UTF-8 can hold them, so no answer could


class Refusal(Exception):
    """A request that is not passed on: the HTTP status and a sentence for whoever wrote the client. `stream` instead is an answer in the
    form of an event stream."""

    def __init__(self, status: int, detail: str, stream: str | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.stream = status, detail, stream


def checked_body(path: str, body: bytes, blocks: Any) -> dict[str, Any]:
    """The body of a POST to `path`, with nothing in it that Gradio does not need. blocks: Gradio's Blocks, which know the events.

    Raises Refusal.
    """
    value = read_json(body)
    if not isinstance(value, dict):
        raise Refusal(400, "The body is not a JSON object.")
    name = path.rstrip("/").rsplit("/", 1)[1]
    if "/queue/" in path:
        return _joined(value, blocks)
    if "/call/v2/" in path:
        return _by_name(value, _endpoint(name, blocks))
    if "/call/" in path:
        data = _data(value.get("data"), _endpoint(name, blocks))
        session = value.get("session_hash")
        return {"data": data} | ({} if session is None else {"session_hash": _session(session)})
    return value


def note_cancelled(value: Mapping[str, Any], queue: Any) -> None:
    """Of a POST to cancel. queue: Gradio's, out of which it takes an event that waits; of one that runs it does not note that nobody waits
    for it (viz/waiting.py)."""
    number = value.get("event_id")
    event = queue.event_ids_to_events.get(number) if isinstance(number, str) else None
    if event is not None and event.session_hash == value.get("session_hash"):
        event.alive = False


def read_json(body: bytes) -> Any:
    """What the body says, halves of surrogate pairs replaced by U+FFFD. Raises Refusal for what is no JSON, too large or too deep, and for
    files: no event takes any, and Gradio would fetch what they name."""
    try:
        if _is_deep(body):
            raise RecursionError
        found = json.loads(body, parse_int=_number, parse_constant=_no_constant)
        value = json.loads(_HALVES.sub("\ufffd", json.dumps(found, ensure_ascii=False, allow_nan=False)))
    except (ValueError, RecursionError):  # also of a number too large to be one
        raise Refusal(400, "The body is not valid JSON.") from None
    waiting, nodes = [(value, 1)], 0
    while waiting:
        each, depth = waiting.pop()
        nodes += 1
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            raise Refusal(413, "The body holds too many values, or values too deep inside each other.")
        if isinstance(each, dict):
            if "path" in each and "meta" in each:
                raise Refusal(400, "No event takes a file.")
            waiting += [(inner, depth + 1) for inner in each.values()]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in each]
    return value


def check_origin(headers: list[tuple[bytes, bytes]]) -> None:
    """Of a POST: that a page of ours sends it, or a program. Raises Refusal for another site's page, which would have its visitors ask.

    Where browsers say themselves whose page it is, that is believed, since a proxy may have changed the host's name. A page in a sandbox
    has the origin "null"; so may ours, in somebody's frame, and then the browser does not say.
    """
    named = dict(reversed(headers))  # the first of each name
    origin = named.get(b"origin", b"null").decode("latin-1")
    if origin == "null" or named.get(b"sec-fetch-site") == b"same-origin":
        return
    hosts = [named.get(name, b"").split(b",")[0].strip().decode("latin-1") for name in (b"host", b"x-forwarded-host")]
    if _hostname(origin) not in [_hostname(f"//{host}") for host in hosts if host]:
        raise Refusal(403, "Pages of other sites may not ask here; programs may.")


def _is_deep(body: bytes) -> bool:
    """Whether lists and objects stand deeper inside each other than a parser should go: Python's own stops at some depth, but what else the
    process does at that moment, such as clearing up, has no room left."""
    if body.count(b"[") + body.count(b"{") <= MAX_NESTING:
        return False
    depth = 0
    for found in _BRACKET.finditer(body):
        mark = found[0][:1]
        depth += (mark in b"[{") - (mark in b"]}")
        if depth > MAX_NESTING:
            return True
    return False


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def _number(digits: str) -> int | float:
    """A whole number; one of more than 18 digits as JavaScript has it, since no answer can hold those."""
    return int(digits) if len(digits) <= 18 else float(digits)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _joined(value: Mapping[str, Any], blocks: Any) -> dict[str, Any]:
    number = value.get("fn_index")
    fn = blocks.fns.get(number) if isinstance(number, int) and not isinstance(number, bool) else None
    if fn is None or fn.fn is None:  # the page's own script runs the latter
        raise Refusal(404, "There is no such event.")
    event = value.get("event_data")  # where in a picture was clicked: a handler that takes it checks what it holds
    told = {"event_data": event} if isinstance(event, dict) else {}
    return {"data": _data(value.get("data"), fn), "fn_index": number, "session_hash": _session(value.get("session_hash"))} | told


def _endpoint(name: str, blocks: Any) -> Any:
    found = next((fn for fn in blocks.fns.values() if fn.api_name == name and fn.api_visibility == "public"), None)
    if found is None:
        raise Refusal(404, "There is no such endpoint.")
    return found


def _by_name(value: dict[str, Any], fn: Any) -> dict[str, Any]:
    """Arguments by name, as `call/v2` takes them."""
    parameters = inspect.signature(fn.fn).parameters
    unknown = [name for name in value if name not in parameters]
    missing = [name for name, each in parameters.items() if each.default is each.empty and name not in value]
    if unknown or missing:
        raise Refusal(400, f"This endpoint takes {', '.join(parameters)}, of which the first must be given.")
    return value


def _data(data: Any, fn: Any) -> list[Any]:
    if not isinstance(data, list) or len(data) != len(fn.inputs):
        raise Refusal(400, f"This event takes {len(fn.inputs)} values, as a list under \"data\".")
    return data


def _session(value: Any) -> str:
    if not isinstance(value, str) or not _SESSION.fullmatch(value):
        raise Refusal(400, "session_hash is not one: letters, digits, - and _, at most 64.")
    return value


# --- who fetches answers ---

_CALL = re.compile(r"/gradio_api/call/(?:v2/)?[^/]+/([^/]+)")


def check_reader(path: str, query: bytes, queue: Any) -> None:
    """Of a GET that fetches answers. queue: Gradio's.

    Raises Refusal, with what Gradio would answer, for a session or a call that is not known (any more): Gradio itself raises there.
    """
    called = _CALL.fullmatch(path)
    if called:
        event = queue.event_ids_to_events.get(called[1])
        ids = queue.pending_event_ids_session.items()
        session = event.session_hash if event else next((each for each, events in ids if called[1] in events), called[1])
        gone = 'event: error\ndata: "There is no such call, or its answer was fetched before."\n\n'
    elif path.rstrip("/") == "/gradio_api/queue/data":
        session = (parse_qs(query.decode("latin-1")).get("session_hash") or [""])[-1]
        message = {"msg": "unexpected_error", "message": "The session is not known.", "session_not_found": True, "success": False}
        gone = f"data: {json.dumps(message | {'event_id': None})}\n\n"
    else:
        return
    if session not in queue.pending_messages_per_session:
        raise Refusal(200, "", stream=gone)
