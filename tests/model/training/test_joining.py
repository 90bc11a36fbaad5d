"""Joined texts hold whole sentences of one language, in the same order on both sides, and every pair is used once."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from model.training import joining
from model.training.corpus import Pair
from model.training.joining import join_some


def numbered(target: str, count: int) -> list[Pair]:
    mark = "。" if target == "cmn" else "."
    return [Pair(target, f"E{i}.", f"{target}{i}{mark}") for i in range(count)]


def test_every_pair_is_used_once_and_both_sides_agree() -> None:
    pairs = numbered("fra", 300) + numbered("cmn", 200)
    joined = join_some(pairs, random.Random(0), share=0.6)
    seen: Counter[tuple[str, int]] = Counter()
    for pair in joined:
        source = [int(part[1:-1]) for part in pair.source.split(" ")]
        parts = pair.translation.split("。")[:-1] if pair.target == "cmn" else pair.translation[:-1].split(". ")
        assert [int(part[3:]) for part in parts] == source
        assert len(source) <= 3
        seen.update((pair.target, number) for number in source)
    assert seen == Counter({(pair.target, int(pair.source[1:-1])): 1 for pair in pairs})


def test_about_the_share_is_joined_in_twos_and_threes() -> None:
    joined = join_some(numbered("fra", 20_000), random.Random(0), share=0.3)
    sizes = Counter(len(pair.source.split(" ")) for pair in joined)
    assert sizes[2] * 2 + sizes[3] * 3 == pytest.approx(6000, abs=200)
    assert sizes[3] / (sizes[2] + sizes[3]) == pytest.approx(joining.THREE, abs=0.04)


@pytest.mark.parametrize("source, translation", [("No mark", "Sans point."), ("A mark.", "Sans point"), ("x" * 130 + ".", "y.")])
def test_what_does_not_end_or_would_grow_too_long_stays_alone(source: str, translation: str) -> None:
    pairs = [Pair("fra", source, translation)] * 40
    assert join_some(pairs, random.Random(0), share=1.0) == pairs


def test_nothing_is_joined_without_a_share() -> None:
    pairs = numbered("cmn", 50)
    assert join_some(pairs, random.Random(0), share=0.0) == pairs
