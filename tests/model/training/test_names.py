"""Names are replaced on both sides at once, by names that begin alike, and only where both sides hold the same."""

from __future__ import annotations

import random

import pytest

from model.training.corpus import Pair
from model.training.names import NameSwapper

PAIRS = [
    Pair("fra", "I met Tom in Boston.", "J'ai rencontré Tom à Boston."),
    Pair("fra", "Do you know Anne?", "Connais-tu Anne ?"),
    Pair("fra", "We went to Oslo.", "Nous sommes allés à Oslo."),
    # "Street" is a word too, "Monday" is not the same on both sides, "Paris" begins a sentence in both
    Pair("fra", "It is on Main Street. The street is long.", "C'est sur Main Street. La rue est longue."),
    Pair("fra", "He came on Monday.", "Il est venu lundi."),
    Pair("fra", "Paris is big.", "Paris est grande."),
]


@pytest.fixture(scope="module")
def swapper() -> NameSwapper:
    return NameSwapper(PAIRS)


def outcomes(swapper: NameSwapper, pair: Pair, draws: int = 60) -> set[tuple[str, str]]:
    rng = random.Random(0)
    return {(p.source, p.translation) for p in (swapper.swap(pair, rng) for _ in range(draws))}


def test_names_are_the_capitals_within_both_sentences(swapper: NameSwapper) -> None:
    assert swapper.names == {True: ["Anne", "Oslo"], False: ["Boston", "Main", "Tom"]}


def test_a_name_is_replaced_everywhere_by_one_that_begins_alike(swapper: NameSwapper) -> None:
    pair = Pair("fra", "Anne says that Anne's cat is here.", "Anne dit que le chat d'Anne est ici.")
    assert outcomes(swapper, pair) == {
        (pair.source, pair.translation),
        ("Oslo says that Oslo's cat is here.", "Oslo dit que le chat d'Oslo est ici."),
    }


def test_one_name_of_several_is_replaced(swapper: NameSwapper) -> None:
    found = outcomes(swapper, PAIRS[0])
    assert ("I met Main in Boston.", "J'ai rencontré Main à Boston.") in found
    assert ("I met Tom in Main.", "J'ai rencontré Tom à Main.") in found
    assert all(source.split()[2] == translation.split()[2] for source, translation in found)


@pytest.mark.parametrize(
    "source, translation",
    [
        ("Tom saw Tom.", "Tom l'a vu."),  # not as often on both sides
        ("Tom left.", "Il est parti."),
        ("Tommy left.", "Tommy est parti."),  # part of a word
        ("He left.", "Il est parti."),
    ],
)
def test_otherwise_nothing_changes(source: str, translation: str, swapper: NameSwapper) -> None:
    assert outcomes(swapper, Pair("fra", source, translation)) == {(source, translation)}


def test_chinese_names_of_the_data_are_known(swapper: NameSwapper) -> None:
    found = outcomes(swapper, Pair("cmn", "Tom is here.", "汤姆在这里。"))
    assert found == {("Tom is here.", "Tom在这里。"), ("Boston is here.", "Boston在这里。"), ("Main is here.", "Main在这里。")}
    # only where the translation has it, and never in French
    assert outcomes(swapper, Pair("cmn", "Tom is here.", "他在这里。")) == {("Tom is here.", "他在这里。")}


def test_without_names_there_is_nothing_to_swap() -> None:
    pair = Pair("cmn", "Tom is here.", "汤姆在这里。")
    assert NameSwapper([]).swap(pair, random.Random(0)) == pair
