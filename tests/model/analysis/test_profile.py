"""The roles of a translator's heads over several sentences, as data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from model.analysis.profile import FORMAT, HeadProfile, heads_of, profile_heads, read_profile
from model.analysis.roles import RoleTally, head_roles
from model.errors import UnknownTargetError
from model.loading import load_translator
from model.translator import Translator

GIVEN = (
    ("I am a student.", "fra", "Je suis étudiant."),
    ("I love you.", "cmn", "我爱你。"),
    ("The cat sat on the mat, and the dog saw the cat.", "fra", "Le chat est assis sur le tapis."),
)


def rounded(values: dict[str, float | None]) -> dict[str, object]:
    return {name: value if value is None else pytest.approx(value, abs=6e-5) for name, value in values.items()}


def test_forced_translations_are_measured_as_given(tiny_translator: Translator) -> None:
    profile = profile_heads(tiny_translator, GIVEN)
    tally = RoleTally()
    for text, target, translation in GIVEN:
        tally.add(tiny_translator.trace(tiny_translator.force(text, translation, target)))
    expected = tally.heads()
    assert (profile["sentences"], profile["skipped"], profile["given"]) == (3, 0, 3)
    assert profile["targets"] == {"fra": 2, "cmn": 1} and profile["reference"] == "mean_of_heads" and profile["threshold"] == 0.5
    assert len(profile["heads"]) == len(expected) == 12
    for entry, head in zip(profile["heads"], expected, strict=True):
        assert (entry["kind"], entry["layer"], entry["head"], entry["role"]) == (head.kind, head.layer, head.head, head.role)
        assert entry["measures"] == rounded(head.measures)
        assert profile["rows"][head.kind] == head.rows


def test_without_a_translation_it_is_the_greedy_one(tiny_translator: Translator) -> None:
    text, target, _ = GIVEN[0]
    made = tiny_translator.translate(text, target, 1)
    profile = profile_heads(tiny_translator, [(text, target, None)])
    assert profile["given"] == 0
    for entry, head in zip(profile["heads"], head_roles(tiny_translator.trace(made)), strict=True):
        assert entry["measures"] == rounded(head.measures) and entry["role"] == head.role
    other = profile_heads(tiny_translator, [(text, target, "Où est la gare ?")])
    assert other["heads"] != profile["heads"]


def test_the_data_survive_json(tiny_translator: Translator) -> None:
    profile = profile_heads(tiny_translator, iter(GIVEN))
    back = json.loads(json.dumps(profile, ensure_ascii=False, allow_nan=False))
    assert back == profile
    heads = heads_of(back)
    assert [(head.kind, head.layer, head.head, head.role, head.score) for head in heads] == [
        (entry["kind"], entry["layer"], entry["head"], entry["role"], entry["score"]) for entry in profile["heads"]
    ]
    assert heads[0].rows == profile["rows"]["encoder_self"] and heads[0].reference is None
    assert heads[-1].measures == profile["heads"][-1]["measures"] and heads[-1].reference == "mean_of_heads"


def test_what_the_model_cannot_read_is_left_out_and_counted(tiny_translator: Translator) -> None:
    unreadable = [("", "fra", None), ("a " * 500, "fra", None), ("I love you.", "fra", "a " * 500)]
    profile = profile_heads(tiny_translator, [GIVEN[0], *unreadable, GIVEN[1]])
    assert (profile["sentences"], profile["skipped"]) == (2, 3)
    assert profile["heads"] == profile_heads(tiny_translator, GIVEN[:2])["heads"]


def test_no_sentence_and_an_unknown_language_are_errors(tiny_translator: Translator) -> None:
    with pytest.raises(ValueError, match="no sentence"):
        profile_heads(tiny_translator, [("", "fra", None)])
    with pytest.raises(UnknownTargetError):
        profile_heads(tiny_translator, [GIVEN[0], ("I love you.", "deu", None)])


@pytest.mark.parametrize("damage", ["format", "heads", "rows", "role", "kind", "measures"])
def test_a_damaged_profile_is_refused(tiny_translator: Translator, damage: str) -> None:
    profile = profile_heads(tiny_translator, GIVEN[:1])
    assert profile["format"] == FORMAT and heads_of(profile)
    if damage == "format":
        profile["format"] = "attention-atlas-heads-2"
    elif damage in ("role", "kind"):
        profile["heads"][3][damage] = "something else"
    elif damage == "measures":
        del profile["heads"][3]["measures"]["start"]
    else:
        del profile[damage]
    with pytest.raises(ValueError):
        heads_of(profile)


@pytest.mark.parametrize("value", ["0.5", True, float("nan"), float("inf"), [0.5], 10**400])
def test_measures_are_numbers(tiny_translator: Translator, value: object) -> None:
    for change in ({"score": value}, {"measures": {"start": value}}):
        profile = profile_heads(tiny_translator, GIVEN[:1])
        entry = profile["heads"][3]
        profile["heads"][3] = {**entry, **change, "measures": entry["measures"] | change.get("measures", {})}
        with pytest.raises(ValueError):
            heads_of(profile)
    for place in ({"layer": -1}, {"head": 1.0}, {"head": True}, {"layer": None}):
        profile["heads"] = [{**entry, **place}]
        with pytest.raises(ValueError):
            heads_of(profile)


def test_a_folder_has_a_profile_or_none(tmp_path: Path, tiny_translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    assert read_profile(tmp_path) is None and read_profile(tmp_path / "nowhere") is None and not caplog.records
    profile = profile_heads(tiny_translator, GIVEN)
    file = tmp_path / "heads.json"
    file.write_text(json.dumps(profile), encoding="utf-8")
    assert read_profile(tmp_path) == HeadProfile(3, heads_of(profile))
    whole = file.read_text(encoding="utf-8")
    for damaged in (whole[:-200], "", "[]", "null", json.dumps({**profile, "sentences": "3"}), json.dumps({**profile, "heads": 5})):
        caplog.clear()
        file.write_text(damaged, encoding="utf-8")
        assert read_profile(tmp_path) is None
        assert [record.levelname for record in caplog.records] == ["WARNING"] and "heads.json" in caplog.text


def test_a_translator_comes_with_the_profile_of_its_folder(tiny_folder: Path, tiny_translator: Translator, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "tiny"))
    assert load_translator(folder, "cpu").profile is None and tiny_translator.profile is None
    profile = profile_heads(tiny_translator, GIVEN[:2])
    (folder / "heads.json").write_text(json.dumps(profile), encoding="utf-8")
    assert load_translator(folder, "cpu").profile == HeadProfile(2, heads_of(profile))


@pytest.mark.parametrize("nothing", [{}, {"format": FORMAT, "heads": [1], "rows": {}, "reference": None}, [], None])
def test_something_else_is_no_profile(nothing: object) -> None:
    with pytest.raises(ValueError):
        heads_of(nothing)
