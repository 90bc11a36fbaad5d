"""The running server, asked for what nobody's page asks: every event with any JSON, any body, any address, any header. Its answers and its
log hold no stack trace, and afterwards it serves the next visitor."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.asked import anything_sent, results, stores
from tests.fuzz.budget import share
from tests.fuzz.site import ROOT, Answer, Site, served
from tests.fuzz.strategies import NASTY, json_values, texts
from viz.calls import MAX_BODY
from viz.door import MAX_QUERY

CALM = (200, 304, 307, 400, 403, 404, 405, 408, 411, 413, 414, 415, 422, 431)  # not 5xx
PUBLIC = ("translate", "attention", "load_model")
EVENTS = (
    *("on_load", "on_translate", "on_maps", "on_steps", "on_cell", "on_draw", *(f"on_draw_{i}" for i in range(1, 10))),
    *("on_masks", "on_serial", "on_norms", "on_scale", "on_counts", "on_machine", "on_export", *PUBLIC),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served(tmp_path_factory.mktemp("attacked")) as found:
        yield found


@pytest.fixture(autouse=True)
def unharmed(site: Site) -> Iterator[None]:
    before = len(site.log.read_bytes())
    yield
    assert site.is_alive()
    assert "Traceback" not in site.log.read_bytes()[before:].decode("utf-8", "replace"), site.traces()


def check(answer: Answer) -> None:
    assert answer.status in CALM, (answer.status, answer.text[:300])
    assert "Traceback" not in answer.text and "site-packages" not in answer.text and str(ROOT) not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_these_are_all_events(site: Site) -> None:
    assert sorted(site.events) == sorted(EVENTS)


@share(0.12)
@given(st.sampled_from(EVENTS), st.data())
def test_every_event_with_any_json(site: Site, name: str, data: st.DataObject) -> None:
    kinds = {1: (stores,), 2: (results, stores), 3: (results, stores, json_values())}
    usual = kinds.get(site.events[name][1], ()) if name != "on_translate" else (texts, texts, stores)
    values = [data.draw(each | anything_sent) for each in usual] or data.draw(
        st.lists(json_values(texts), min_size=site.events[name][1], max_size=site.events[name][1])
    )
    try:
        body = json.dumps({"fn_index": site.events[name][0], "data": values, "session_hash": "fuzz"}).encode()
    except ValueError:  # a number of thousands of digits
        return
    answer = site.post("/gradio_api/queue/join", body)
    check(answer)
    if answer.status != 200:
        return
    stream = site.ask("/gradio_api/queue/data?session_hash=fuzz").text
    assert "Traceback" not in stream and "process_completed" in stream
    completed = next(json.loads(line[6:]) for line in stream.splitlines() if "process_completed" in line)
    if name in PUBLIC:
        assert completed["success"] or completed["output"]["error"]
        assert "Something went wrong" not in str(completed["output"].get("error"))
    else:
        assert completed["success"] and '"unexpected"' not in json.dumps(completed["output"]), completed


KEYS = st.sampled_from(("fn_index", "data", "session_hash", "trigger_id", "event_data", "batched", "simple_format", "text"))
bodies = (json_values(texts) | st.dictionaries(KEYS, json_values() | st.lists(json_values(), max_size=5))).map(
    lambda value: json.dumps(value, default=str).encode()
)
WHERE = st.sampled_from(("queue/join", "call/translate", "call/v2/translate", "call/on_maps", "cancel", "reset", "call/%00", "call/v2/x"))
TYPES = st.sampled_from(("application/json", "application/json", "application/json; charset=utf-16", "text/plain", "", "\x80"))


@share(0.05)
@given(st.binary(max_size=200) | bodies, WHERE, TYPES)
@example(b'{"fn_index": 3, "data": ["x", "", {}], "session_hash": "b", "batched": true, "trigger_id": 1}', "queue/join", "application/json")
def test_any_body(site: Site, body: bytes, where: str, kind: str) -> None:
    check(site.ask(f"/gradio_api/{where}", "POST", body, {"content-type": kind}))


PIECES = st.sampled_from((
    *NASTY, "..", "%2e%2e", "..%2f", "%5c..", "//", "gradio_api", "file=", "assets", "static", "etc", "passwd", "a" * 300, "app.py",
    "config", "call", "translate", "proxy=http://127.0.0.1", "queue", "data?session_hash=", "?deep_link=../x", "plotly.min.js",
))
METHODS = st.sampled_from(("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS"))


@share(0.06)
@given(st.lists(PIECES, max_size=6).map("/".join) | st.text(max_size=40), METHODS, st.booleans())
@example("assets/" + "a" * 300, "GET", False)
@example("file=/tmp/" + "a" * 300, "GET", True)
def test_any_address(site: Site, path: str, method: str, prefixed: bool) -> None:
    path = quote(path.encode("utf-8", "replace"), safe="/%?=:&.")
    check(site.ask(f"/{'gradio_api/' if prefixed else ''}{path}", method, b"" if method in ("POST", "PUT") else None))


NAMES = st.sampled_from((
    "host", "origin", "x-forwarded-host", "x-forwarded-proto", "x-gradio-server", "x-forwarded-for", "referer", "cookie", "accept-encoding",
    "range", "accept-language", "authorization", "x-forwarded-prefix", "content-length", "user-agent",
))
VALUES = st.text(st.characters(max_codepoint=255, exclude_categories=("Cc",)), max_size=60).map(str.strip) | st.sampled_from(
    ("http://evil.example", "evil.example", "localhost:1", "a b", "[::1", "http://[", "null", "bytes=0-", "-1", "https,http")
)


@share(0.03)
@given(
    st.dictionaries(NAMES, VALUES, min_size=1, max_size=4),
    st.sampled_from(("/", "/config", "/gradio_api/queue/join", "/theme.css", "/gradio_api/info")),
    st.booleans(),
)
@example({"origin": "http://evil.example"}, "/", False)
@example({"x-forwarded-host": "http://["}, "/config", True)
def test_any_header(site: Site, headers: dict[str, str], path: str, host: bool) -> None:
    try:
        answer = site.ask(path, "GET", None, headers, host=host)
    except OSError:  # hung up on, as for a length that is none
        return
    if answer.headers.get("content-type", "").startswith("text/plain") and answer.status == 400:  # the server's own, before any application
        return
    check(answer)


# --- what is closed, and said of what is not ---


@pytest.mark.parametrize("path", [
    "/pwa_icon/512", "/monitoring", "/monitoring/summary", "/monitoring/x", "/gradio_api/runs", "/gradio_api/dev/reload",
    "/gradio_api/upload_progress?upload_id=x", "/gradio_api/proxy=http://127.0.0.1:1/x", "/gradio_api/deep_link?session_hash=x",
    "/gradio_api/custom_component/a/b/c/d", "/gradio_api/stream/a/b/1/playlist.m3u8", "/gradio_api/file/etc/passwd", "/login",
    "/gradio_api/vibe-code", "/gradio_api/profiling/traces", "/docs", "/openapi.json", "/redoc", "/gradio_api/run-history/buckets",
    "/gradio_api/openapi.json",
])
def test_what_the_page_does_not_need_is_not_there(site: Site, path: str) -> None:
    for method in ("GET", "POST"):
        answer = site.ask(path, method, b"{}" if method == "POST" else None, {"content-type": "application/json"})
        assert (answer.status, json.loads(answer.body)) == (404, {"detail": "Not Found"})


@pytest.mark.parametrize("path", ["upload", "component_server", "run/translate", "api/translate", "process_recording", "vibe-edit"])
def test_nothing_is_taken_but_calls_by_the_queue(site: Site, path: str) -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\nhello\r\n--x--\r\n'
    assert site.ask(f"/gradio_api/{path}", "POST", form, {"content-type": "multipart/form-data; boundary=x"}).status == 404
    assert site.post(f"/gradio_api/{path}", {"data": ["I love you."]}).status == 404


@pytest.mark.parametrize("path", [
    "/etc/passwd", "../../../../etc/passwd", "/proc/self/environ", f"{ROOT}/app.py", f"{ROOT}/README.md", "http://127.0.0.1/x",
    "https://example.org/x", "//example.org/x", "file:///etc/passwd", "%2e%2e%2f%2e%2e%2fetc/passwd", "/tmp/gradio", "C:\\x", "~/x",
])
def test_no_file_of_this_machine(site: Site, path: str) -> None:
    for prefix in ("/gradio_api/file=", "/static/", "/assets/", "/gradio_api/file%3D"):
        answer = site.ask(prefix + quote(path, safe="/%:"))
        assert answer.status in (403, 404) and b"root:" not in answer.body


@pytest.mark.parametrize("value", [
    {"path": "/etc/passwd", "meta": {"_type": "gradio.FileData"}},
    {"path": "http://127.0.0.1:1/x", "meta": {"_type": "gradio.FileData"}},
    {"path": "x", "meta": None},
    {"path": ["x"], "meta": {"_type": "gradio.FileData"}, "url": "http://127.0.0.1:1/"},
])
def test_no_event_takes_a_file(site: Site, value: dict[str, Any]) -> None:
    """Gradio would fetch the address, and copy what lies at the path."""
    for deep in (value, {"request": {"text": [value]}}):
        answer = site.call("on_maps", [deep, {}, None])
        assert isinstance(answer, Answer) and answer.status == 400 and "file" in answer.text


def test_an_event_or_an_endpoint_that_there_is_not(site: Site) -> None:
    silent = next(each["id"] for each in json.loads(site.ask("/config").body)["dependencies"] if not each["backend_fn"])
    for number in (-1, 10**6, True, 1.5, "3", None, [3], silent):
        assert site.post("/gradio_api/queue/join", {"fn_index": number, "data": [], "session_hash": "x"}).status == 404
    for name in ("on_translate", "on_export", "nothing", "lambda"):
        for way in ("call/", "call/v2/"):
            assert site.post(f"/gradio_api/{way}{name}", {"data": ["x", "", {}]}).status == 404


def test_too_few_values_too_many_and_no_session(site: Site) -> None:
    number, count = site.events["on_maps"]
    for data in ([], [None] * (count - 1), [None] * (count + 1), {}, "abc", None):
        assert site.post("/gradio_api/queue/join", {"fn_index": number, "data": data, "session_hash": "x"}).status == 400
    for session in (None, "", "a/b", "x" * 65, 5, {"a": 1}, "\n"):
        assert site.post("/gradio_api/queue/join", {"fn_index": number, "data": [None] * count, "session_hash": session}).status == 400


def test_bodies_that_are_too_large_or_too_deep(site: Site) -> None:
    number = site.events["on_maps"][0]
    head = b'{"fn_index": %d, "session_hash": "x", "data": [null, null, ' % number
    for inner, status in (
        (b'"' + b"a" * MAX_BODY + b'"', 413),
        (b"[" * 100 + b"]" * 100, 413),
        (b"[" * 100_000 + b"]" * 100_000, 400),
        (b"[" + b"{}," * 150_000 + b"{}]", 413),
        (b"1" * 5000, 400),
        (b"NaN", 400),
        (b"1e999", 400),
    ):
        assert site.post("/gradio_api/queue/join", head + inner + b"]}").status == status, inner[:10]
    # a length that is only claimed, and a body that goes on without one
    claimed = {"content-type": "application/json", "content-length": "99999999"}
    assert site.ask("/gradio_api/queue/join", "POST", b"{", claimed).status == 413
    assert isinstance(site.call("on_translate", ["a" * (MAX_BODY - 5000), "", {"target": "fra"}]), dict)


def test_values_that_no_answer_can_hold_come_back_as_others(site: Site) -> None:
    """Halves of surrogate pairs, and whole numbers beyond 64 bits: what is sent is part of what is answered."""
    for serial in (10**30, -(10**30), 2**63, 2**64):
        found = site.call("on_export", [None, {"exporting": {"serial": serial}}])
        assert found["success"] and found["output"]["data"][0]["serial"] == float(serial)
    store = {"target": "fra", "beam_size": 1, "kind": "cross", "layer": 0, "head": 0}
    for text, back in (("I \ud800 am", "I \ufffd am"), ("\udfff\ud83d", "\ufffd\ufffd"), ("\ud83d\ude00 \ud83d", "😀 \ufffd")):
        found = site.call("on_translate", [text, "", store])
        assert found["success"] and found["output"]["data"][1]["request"]["text"] == back


def test_the_longest_text_is_answered_with_a_message(site: Site) -> None:
    found = site.call("on_translate", ["word " * 150_000, "", {"target": "fra", "beam_size": 1}])
    assert found["success"] and found["output"]["data"][0]["code"] == "text_too_long"


def test_other_sites_cannot_call_without_asking_first(site: Site) -> None:
    """A browser sends JSON to another site only after asking, and what it may send unasked is not taken."""
    body = json.dumps({"fn_index": site.events["on_load"][0], "data": [{}], "session_hash": "x"}).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", "text/plain; application/json"):
        assert site.ask("/gradio_api/queue/join", "POST", body, {"content-type": kind, "origin": "http://evil.example"}).status == 415
    asks = {"origin": "http://evil.example", "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    assert "access-control-allow-origin" not in site.ask("/gradio_api/queue/join", "OPTIONS", None, asks).headers
    assert "access-control-allow-origin" not in site.ask("/config", headers={"origin": "http://evil.example"}).headers


def test_what_the_headers_say(site: Site) -> None:
    page, config = site.ask("/"), site.ask("/config")
    for answer in (page, config, site.ask("/nothing")):
        assert answer.headers["x-content-type-options"] == "nosniff" and answer.headers["referrer-policy"] == "same-origin"
    policy = page.headers["content-security-policy"]
    assert "default-src 'self'" in policy and "object-src 'none'" in policy
    assert "frame-ancestors" not in policy and "x-frame-options" not in page.headers  # it may be embedded anywhere, as on a Space
    assert "content-security-policy" not in config.headers
    assert site.ask("/", headers={"x-gradio-server": "http://evil.example/"}).text.count("evil.example") == 0


def test_answers_that_nobody_waits_for_and_sessions_that_nobody_knows(site: Site) -> None:
    stream = site.ask("/gradio_api/queue/data?session_hash=nobody").text
    assert json.loads(stream[6:])["session_not_found"] is True
    for path in ("call/translate/nothing", "call/v2/translate/nothing", "call/on_translate/%20"):
        assert "no such call" in site.ask(f"/gradio_api/{path}").text
    event = json.loads(site.post("/gradio_api/call/v2/translate", {"text": "I love you."}).body)["event_id"]
    assert "event: complete" in site.ask(f"/gradio_api/call/v2/translate/{event}").text


# --- other sites, other names, long addresses ---


def test_pages_of_other_sites_may_not_ask(site: Site) -> None:
    number = site.events["on_load"][0]
    body = {"fn_index": number, "data": [None] * site.events["on_load"][1], "session_hash": "origins"}
    host = site.url.split("//")[1]
    name = host.split(":")[0]

    def status(**headers: str) -> int:
        found = {each.replace("_", "-"): value for each, value in headers.items()}
        return site.post("/gradio_api/queue/join", body, **found).status

    for origin in ("http://evil.example", "https://evil.example:443", f"http://{name}.evil.example", "http://[", "file://", "x"):
        assert status(origin=origin) == 403, origin
        assert status(origin=origin, sec_fetch_site="cross-site") == 403
    assert status(origin="http://evil.example", x_forwarded_host="evil.example") == 403  # no proxy stands before this one
    for origin in ("null", f"http://{host}", f"https://{name}"):
        assert status(origin=origin) == 200, origin
    assert status(origin="https://atlas.example", sec_fetch_site="same-origin") == 200  # behind a proxy that changes the host's name
    assert status(origin="https://atlas.example", host="atlas.example") == 200
    for path in ("/gradio_api/call/translate", "/gradio_api/call/v2/translate", "/gradio_api/cancel", "/gradio_api/reset"):
        answer = site.post(path, {"data": ["I love you.", "fra", 1, "", "embedded"]}, origin="http://evil.example")
        assert answer.status == 403 and "other sites" in answer.text


def test_another_name_of_this_host_is_believed_of_a_proxy_alone(site: Site) -> None:
    for path in ("/", "/config"):
        assert "evil.example" not in site.ask(path, headers={"x-forwarded-host": "evil.example"}).text


def test_an_address_that_is_too_long(site: Site) -> None:
    for length in (70_000, 60_000, MAX_QUERY):
        answer = site.ask("/?" + "a" * length)
        assert answer.status in ((200,) if length <= MAX_QUERY else (414, 431, 400)), length
        assert b"Traceback" not in answer.body
    longest = "/?lang=zh&tab=machine&text=" + quote("我" * 5000)
    assert site.ask(longest).status == 200
    for path in ("/config", "/gradio_api/queue/data", "/gradio_api/info"):
        assert site.ask(f"{path}?session_hash={'a' * 60_000}").status == 414


def test_a_connection_ends_with_a_refusal_whose_body_may_still_come(site: Site) -> None:
    claimed = {"content-type": "application/json", "content-length": "99999999"}
    answer = site.ask("/gradio_api/queue/join", "POST", b"{", claimed)
    assert answer.status == 413 and answer.headers["connection"] == "close"
    assert "connection" not in site.ask("/nothing").headers


# --- how the page travels ---


def test_the_page_is_compressed_and_streams_are_not(site: Site) -> None:
    for path in ("/", "/?lang=zh", "/config"):
        plain = site.ask(path, headers={"accept-encoding": "identity"})
        packed = site.ask(path, headers={"accept-encoding": "gzip, deflate, br"})
        assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
        assert len(gzip.decompress(packed.body)) == len(plain.body) and len(packed.body) == int(packed.headers["content-length"])
        assert len(packed.body) < len(plain.body) / 3 and packed.headers["vary"] == "accept-encoding"
        assert packed.headers["content-type"] == plain.headers["content-type"]
        assert ("link" in packed.headers) == (path != "/config")
    site.post("/gradio_api/queue/join", {"fn_index": site.events["translate"][0], "data": ["I love you.", "fra", 1, "", "embedded"],
                                         "session_hash": "streamed"})
    stream = site.ask("/gradio_api/queue/data?session_hash=streamed", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in stream.headers and "process_completed" in stream.text


def test_a_sentence_with_a_script_is_no_line_in_the_log(site: Site) -> None:
    before = len(site.log.read_bytes())
    store = {"target": "fra", "beam_size": 1, "kind": "cross", "layer": 0, "head": 0}
    assert site.call("on_translate", ["<script>alert(1)</script>", "", store])["success"]
    assert site.log.read_bytes()[before:] == b""
