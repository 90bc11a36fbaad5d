"""Changed training pairs: both sides stay true to each other, and a seed repeats them."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

import pytest

from model.training import augment as rules
from model.training.augment import augment, new_numbers, typing_error
from model.training.corpus import Pair

DRAWS = 20_000


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


@pytest.mark.parametrize(
    "source, translation",
    [
        ("I was born in 1992.", "Je suis né en 1992."),
        ("From 10 to 25, then 10.", "De 10 à 25, puis 10."),
        ("In 2014 I had 12 books.", "我2014年有12本书。"),
        ("12 of 340", "340 里的 12"),
        ("It costs 1,000 yen.", "Ça coûte 1 000 yens."),
        ("COVID-19", "COVID-19"),
    ],
)
def test_numbers_are_replaced_alike_on_both_sides(source: str, translation: str) -> None:
    rng = random.Random(0)
    seen = set()
    for _ in range(50):
        new_source, new_translation = new_numbers(source, translation, rng)
        seen.add(new_source)
        assert sorted(numbers(new_source)) == sorted(numbers(new_translation))
        # as many digits as before at every place, and not a letter changed
        for old, new in ((source, new_source), (translation, new_translation)):
            assert re.sub(r"\d", "0", old) == re.sub(r"\d", "0", new)
        # a number that stood twice stands twice
        renamed = dict(zip(numbers(source), numbers(new_source), strict=True))
        assert [renamed[number] for number in numbers(translation)] == numbers(new_translation)
    assert len(seen) > 25


def test_no_number_begins_with_zero_and_all_first_digits_occur() -> None:
    rng = random.Random(0)
    drawn = [new_numbers("in 2014", "en 2014", rng)[0][3:] for _ in range(500)]
    assert {number[0] for number in drawn} == set("123456789")
    assert {number[1] for number in drawn} == set("0123456789")


@pytest.mark.parametrize(
    "source, translation",
    [
        ("I have 2 dogs.", "J'ai 2 chiens."),
        ("I have 12 dogs.", "J'ai douze chiens."),
        ("I have 12 dogs.", "J'ai 21 chiens."),
        ("12 and 12", "12"),
        ("at 3.5", "à 3.5"),
        ("I have dogs.", "J'ai 12 chiens."),
        ("No numbers.", "Pas de nombres."),
    ],
)
def test_one_digit_and_unequal_numbers_are_left_alone(source: str, translation: str) -> None:
    rng = random.Random(0)
    assert all(new_numbers(source, translation, rng) == (source, translation) for _ in range(20))


@pytest.mark.parametrize(
    "source, translation",
    [
        ("He comes on the 21st.", "Il vient le 21."),
        ("the 21st", "le 21st"),
        ("the 20th century", "20世纪"),
        ("in the 1990s", "dans les années 1990"),
        ("in the 1990s", "in the 1990s"),
        ("at 10:30", "à 10h30"),
        ("at 10:30", "在10:30"),
        ("It is 10 o'clock.", "Il est 10 heures."),
        ("at 12 p.m.", "à 12"),
        ("at 11", "在11点"),
        ("about 3.14", "environ 3,14"),
        ("10-20 people", "10-20 personnes"),
        ("from 1939–1945", "1939–1945"),
        ("COVID-19", "新冠19"),
        ("a 10km run", "10 km"),
    ],
)
def test_what_another_number_would_spoil_is_left_alone(source: str, translation: str) -> None:
    """No "84st", no quarter past 47, no range that runs backwards."""
    rng = random.Random(0)
    assert all(new_numbers(source, translation, rng) == (source, translation) for _ in range(20))


def test_a_number_that_is_held_fast_once_stays_everywhere_and_others_go() -> None:
    rng = random.Random(0)
    for _ in range(20):
        source, translation = new_numbers("At 10:30, 30 of 250.", "À 10:30, 30 de 250.", rng)
        assert source.startswith("At 10:30, 30 of ") and translation.startswith("À 10:30, 30 de ")
        assert "250" not in source


def test_one_digit_numbers_beside_longer_ones_stay() -> None:
    rng = random.Random(0)
    for _ in range(50):
        source, translation = new_numbers("2 dogs in 2014", "2 chiens en 2014", rng)
        assert source.startswith("2 dogs in ") and translation.startswith("2 chiens en ")


def test_a_typing_error_is_one_inner_letter_of_one_long_word() -> None:
    rng = random.Random(0)
    sentence = "The doctor, they saw something nice today."
    kinds = Counter()
    for _ in range(500):
        words, changed = sentence.split(" "), typing_error(sentence, rng).split(" ")
        assert len(words) == len(changed)
        places = [i for i, (old, new) in enumerate(zip(words, changed, strict=True)) if old != new]
        # "doctor," and "today." hold more than letters, "they", "saw" and "nice" are too short
        assert places == [4]
        old, new = words[4], changed[4]
        assert (old[0], old[-1]) == (new[0], new[-1])
        kinds[len(new) - len(old)] += 1
        if len(new) == len(old):
            assert sorted(old) == sorted(new)
    assert set(kinds) == {-1, 0, 1}
    assert min(kinds.values()) > 100


def test_no_long_word_no_typing_error() -> None:
    assert typing_error("I saw 20144 dogs, today.", random.Random(0)) == "I saw 20144 dogs, today."


def outcomes(pair: Pair) -> list[Pair]:
    rng = random.Random(0)
    return [augment(pair, rng) for _ in range(DRAWS)]


def share(of: list[Pair], what: Callable[[Pair], bool]) -> float:
    return sum(map(what, of)) / len(of)


def test_changes_come_as_often_as_stated() -> None:
    pair = Pair("fra", "My brother came in 1992.", "Mon frère est venu en 1992.")
    changed = outcomes(pair)
    tolerance = 4 * (0.5 * 0.5 / DRAWS) ** 0.5  # four standard deviations of the widest
    assert share(changed, lambda p: "1992" not in p.source) == pytest.approx(rules.NEW_NUMBERS, abs=tolerance)
    assert share(changed, lambda p: p.source[-1] != ".") == pytest.approx(rules.NO_FINAL_MARK, abs=0.007)
    assert share(changed, lambda p: p.source.isupper()) == pytest.approx(rules.CAPITALS, abs=0.004)
    assert share(changed, lambda p: p.source.islower()) == pytest.approx(rules.LOWER_CASE, abs=0.006)
    misspelt = share(changed, lambda p: p.source.casefold().split(" in ")[0] != "my brother came")
    assert misspelt == pytest.approx(rules.TYPING_ERROR, abs=0.005)


def test_both_sides_stay_true_to_each_other() -> None:
    pair = Pair("fra", "My brother came in 1992.", "Mon frère est venu en 1992.")
    for changed in outcomes(pair):
        assert changed.target == "fra"
        assert numbers(changed.source) == numbers(changed.translation)
        assert changed.source.endswith(".") == changed.translation.endswith(".")
        assert changed.source.isupper() == changed.translation.isupper()
        # only capitals and numbers ever change the translation's words
        expected = "mon frère est venu en" if changed.translation.isupper() else "Mon frère est venu en"
        assert changed.translation.rsplit(" ", 1)[0] in (expected, expected.upper())


@pytest.mark.parametrize("source, translation", [("Really?", "真的？"), ("Stop!", "Arrête !"), ("Yes.", "是。")])
def test_a_final_mark_goes_on_both_sides_with_its_space(source: str, translation: str) -> None:
    gone = {(p.source, p.translation) for p in outcomes(Pair("fra", source, translation)) if p.source[-1] not in "?!."}
    bare = translation.rstrip("？！。! ")
    assert (source[:-1], bare) in gone
    assert {text for _, text in gone} <= {bare, bare.upper()}


@pytest.mark.parametrize("text", ["?", "。", "Wait...", "Wait..", "What?!", "Etc.…", " !"])
def test_no_text_is_emptied_and_no_row_of_marks_is_shortened(text: str) -> None:
    changed = outcomes(Pair("fra", text, text))
    assert {pair.source.casefold() for pair in changed} == {text.casefold()}


def test_a_mark_that_only_one_side_has_stays() -> None:
    assert all(p.source.endswith(".") for p in outcomes(Pair("fra", "Yes.", "Oui")))


def test_the_same_seed_gives_the_same_changes() -> None:
    pair = Pair("cmn", "My brother came in 1992.", "我哥哥1992年来的。")
    one, other, third = ([augment(pair, rng) for _ in range(200)] for rng in map(random.Random, (1, 1, 2)))
    assert one == other != third


def test_a_few_words_lose_mark_and_capital_more_often() -> None:
    changed = outcomes(Pair("fra", "Good evening!", "Bonsoir !"))
    assert share(changed, lambda p: p.source[-1] != "!") == pytest.approx(rules.NO_FINAL_MARK_FEW, abs=0.015)
    assert share(changed, lambda p: p.source.islower()) == pytest.approx(rules.LOWER_CASE_FEW, abs=0.013)
    assert all((p.source[-1] == "!") == (p.translation[-1] == "!") for p in changed)
