"""Limits without a server: buckets that fill again, whose request it is, and what the environment says."""

from __future__ import annotations

import pytest

from tests.viz.clock import Clock
from viz import limits
from viz.limits import Buckets, Limits, address_of


def scope(peer: str | None = "203.0.113.7", *forwarded: str) -> dict:
    return {"client": (peer, 5) if peer is not None else None, "headers": [(b"x-forwarded-for", line.encode()) for line in forwarded]}


# --- buckets ---


def test_what_was_taken_comes_back() -> None:
    clock = Clock()
    buckets = Buckets(2.0, 10.0, clock)
    buckets.take("a", 10)
    assert buckets.wait("a", 1) == 0.5 and buckets.wait("b", 10) == 0
    clock.now += 0.5
    assert buckets.wait("a", 1) == 0 and buckets.wait("a", 3) == 1.0
    clock.now += 1000
    assert buckets.taken("a") == 0  # no more than full, however long one waits
    buckets.take("a", 50)  # dearer than the bucket is deep: from a full one it can be taken
    assert buckets.wait("b", 50) == 0


def test_the_table_is_bounded() -> None:
    buckets = Buckets(1.0, 5.0, Clock(), known=100)
    for i in range(1000):
        buckets.take(f"page {i}", 1)
    assert len(buckets) == 100


def test_a_page_is_stopped_and_told_when_to_go_on() -> None:
    clock = Clock()
    rules = Limits(60, clock)
    answers = [rules.charge("page", "school", 1) for _ in range(35)]
    assert answers[:30] == [0] * 30 and answers[30:] == [1.0] * 5  # refusals cost nothing
    clock.now += 1
    assert rules.charge("page", "school", 1) == 0 and rules.charge("page", "school", 1) == pytest.approx(1)


def test_a_class_behind_one_address_is_not_stopped_and_a_flood_of_pages_is() -> None:
    clock = Clock()
    rules = Limits(limits.RATE, clock)
    for _ in range(5):  # five requests at once from each of sixty pages
        assert not any(rules.charge(f"pupil {i}", "school", 1) for i in range(60))
    refused = sum(rules.charge(f"invented {i}", "flood", 1) > 0 for i in range(2000))
    assert refused == 2000 - limits.CLASSROOM * limits.RATE / 2
    assert not rules.charge("somebody", "elsewhere", 1)


def test_a_program_without_a_page_has_the_limit_of_its_address() -> None:
    rules = Limits(2, Clock())
    assert [bool(rules.charge("", "one", 1)) for _ in range(21)] == [False] * 20 + [True]


def test_no_limit() -> None:
    rules = Limits(0, Clock())
    assert not any(rules.charge("page", "address", 100) for _ in range(1000))


# --- whose request it is ---


@pytest.mark.parametrize(
    ("given", "proxies", "expected"),
    [
        (scope("203.0.113.7"), 0, "203.0.113.7"),
        (scope("203.0.113.7", "198.51.100.1"), 0, "203.0.113.7"),  # anybody may write that
        (scope("10.0.0.1", "198.51.100.1"), 1, "198.51.100.1"),
        (scope("10.0.0.1", "6.6.6.6, 198.51.100.1"), 1, "198.51.100.1"),
        (scope("10.0.0.1", "6.6.6.6, 198.51.100.1", "10.0.0.2"), 2, "198.51.100.1"),
        (scope("10.0.0.1", "198.51.100.1"), 3, "198.51.100.1"),
        (scope("10.0.0.1"), 1, "10.0.0.1"),
        (scope("10.0.0.1", " , "), 1, "10.0.0.1"),
        (scope("2001:db8:1:2:3:4:5:6"), 0, "2001:db8:1:2::/64"),
        (scope("2001:db8:1:2:ffff::1"), 0, "2001:db8:1:2::/64"),
        (scope("::ffff:203.0.113.7"), 0, "203.0.113.7"),
        (scope(None), 0, ""),
        (scope("testclient"), 0, "testclient"),
        (scope("10.0.0.1", "x" * 5000), 1, "x" * 64),
    ],
)
def test_whose_request_it_is(given: dict, proxies: int, expected: str) -> None:
    assert address_of(given, proxies) == expected


# --- settings ---


def test_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPACE_ID", limits.RATE_VARIABLE, limits.PROXIES_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert limits.settings() == {"rate": limits.RATE, "proxies": 0}
    monkeypatch.setenv("SPACE_ID", "somebody/atlas")
    assert limits.settings()["proxies"] == 1
    monkeypatch.setenv(limits.PROXIES_VARIABLE, " 2 ")
    monkeypatch.setenv(limits.RATE_VARIABLE, "0")
    assert limits.settings() == {"rate": 0, "proxies": 2}


@pytest.mark.parametrize("value", ["-1", "1.5", "many", "²", "9" * 50])
def test_a_setting_that_is_none(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(limits.RATE_VARIABLE, value)
    with pytest.raises(SystemExit, match="ATLAS_RATE"):
        limits.settings()
