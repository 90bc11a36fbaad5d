"""What counts as endless repetition, against a definition spelled out, and that no token gets past the ban."""

from __future__ import annotations

import random

import pytest

from model.repetition import allowed_repeats, banned_next, longest_run


def by_definition(ids: list[int]) -> int:
    """The largest k such that some 1 to 4 tokens stand k times in a row."""
    found = [0]
    for size in range(1, 5):
        for start in range(len(ids) - size + 1):
            gram, times = ids[start : start + size], 1
            while ids[start + times * size : start + (times + 1) * size] == gram:
                times += 1
            found.append(times)
    return max(found)


@pytest.mark.parametrize(
    "ids, expected",
    [
        ([], 0),
        ([7], 1),
        ([7, 8, 9], 1),
        ([7, 7], 2),
        ([1, 7, 7, 7, 7, 2], 4),
        ([1, 2, 1, 2, 1], 2),
        ([9, 1, 2, 1, 2, 1, 2, 3], 3),
        ([1, 2, 3, 4, 1, 2, 3, 4], 2),
        ([1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5], 1),
    ],
)
def test_runs(ids: list[int], expected: int) -> None:
    assert longest_run(ids) == by_definition(ids) == expected


def test_runs_of_anything() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        ids = [rng.randrange(rng.choice((2, 3, 9))) for _ in range(rng.randrange(24))]
        assert longest_run(ids) == by_definition(ids)


def test_a_source_that_repeats_itself_may_be_repeated() -> None:
    assert allowed_repeats([4, 10, 11, 12, 2]) == 3
    assert allowed_repeats([4, *[10] * 6, 2]) == 6
    assert allowed_repeats([4, *[10, 11] * 5, 2]) == 5


@pytest.mark.parametrize("repeats", [1, 2, 3, 5])
def test_exactly_the_tokens_that_would_go_too_far_are_banned(repeats: int) -> None:
    """Whatever came before, as long as it kept to the rule itself."""
    rng = random.Random(repeats)
    met = 0
    for _ in range(300):
        ids: list[int] = []
        for _ in range(30):
            banned = banned_next(ids, repeats)
            too_far = {i for i in range(3) if by_definition([*ids, i]) > repeats}
            assert banned == too_far
            met += len(banned)
            choices = sorted(set(range(3)) - banned)
            if not choices:
                break
            # mostly what loops
            ids.append(ids[-2] if len(ids) > 1 and ids[-2] in choices and rng.random() < 0.7 else rng.choice(choices))
    assert met > 100


def test_tuples_do_as_well() -> None:
    assert banned_next((5, 5, 5), 3) == {5}
    assert banned_next((1, 2, 1, 2, 1, 2, 1), 3) == {2}
    assert banned_next((), 3) == set()
