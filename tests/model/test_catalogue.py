"""Which models may be loaded, under which names, and what a folder says that it is."""

from __future__ import annotations

import json

import pytest

from model.catalogue import (
    EMBEDDED,
    OWNERS,
    POPULAR,
    allowed,
    find_model,
    find_offered,
    language_pair,
    offered_folders,
    preferred_target,
)
from model.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ModelIdError,
    ModelNotAllowedError,
    WrongArchitectureError,
)
from model.layout import read_layout

ID = "Helsinki-NLP/opus-mt-en-de"


@pytest.fixture(autouse=True)
def nothing_else_allowed(monkeypatch):
    monkeypatch.delenv("ATLAS_ALLOW_MODELS", raising=False)


def test_a_hub_id_with_and_without_a_revision():
    for find in (find_model, find_offered):
        plain, pinned = find(ID), find(f"{ID}@{'a1' * 20}")
        assert (plain.folder, plain.repo_id, plain.revision, plain.name) == (None, ID, None, ID)
        assert (pinned.repo_id, pinned.revision) == (ID, "a1" * 20)
        assert find(f"{ID}@refs/pr/3").revision == "refs/pr/3"


def test_other_owners_are_refused_until_allowed(monkeypatch):
    for find in (find_model, find_offered):
        with pytest.raises(ModelNotAllowedError, match="Helsinki-NLP"):
            find("somebody/opus-mt-en-de")
    for value in ("somebody", "x, Somebody/OPUS-mt-en-de ,y/z", "*"):
        monkeypatch.setenv("ATLAS_ALLOW_MODELS", value)
        assert find_offered("somebody/opus-mt-en-de").repo_id == "somebody/opus-mt-en-de"
        assert allowed(ID)
    monkeypatch.setenv("ATLAS_ALLOW_MODELS", "somebody/other,some")
    with pytest.raises(ModelNotAllowedError) as caught:
        find_offered("somebody/opus-mt-en-de")
    assert caught.value.params["allowed"] == [*OWNERS, "somebody/other", "some"]


HOSTILE = [
    "",
    "opus-mt-en-de",
    "Helsinki-NLP/",
    "/Helsinki-NLP/x",
    "Helsinki-NLP/a/b",
    "Helsinki-NLP/..",
    "Helsinki-NLP/../../etc",
    "Helsinki-NLP/a--b",
    "Helsinki-NLP/a@../b",
    "Helsinki-NLP/a@",
    "Helsinki-NLP/a b",
    "Helsinki-NLP/a\n",
    "Helsinki-NLP/ä",
    "Helsinki-NLP\\a",
    "Helsinki-NLP/-a",
    "https://host.example/Helsinki-NLP/a",
    "Helsinki-NLP/" + "a" * 97,
    "a/b" * 5000,
    "<b>/x",
    None,
    3,
    ["Helsinki-NLP/a"],
]


@pytest.mark.parametrize("name", HOSTILE, ids=[repr(name)[:30] for name in HOSTILE])
def test_names_that_are_no_id(name, monkeypatch):
    monkeypatch.setenv("ATLAS_ALLOW_MODELS", "*")
    with pytest.raises(ModelIdError):
        find_offered(name)


def test_a_visitor_names_no_path(tmp_path, monkeypatch):
    (tmp_path / "Helsinki-NLP" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_model("Helsinki-NLP/here").folder is not None  # a program's own folder comes first
    assert find_offered("Helsinki-NLP/here").folder is None  # to a visitor it is an id
    for path in (str(tmp_path), ".", "./Helsinki-NLP", "~"):
        with pytest.raises(ModelIdError):
            find_offered(path)


def test_folders_that_are_offered(tmp_path, monkeypatch):
    for name in ("a/mine", "b/mine", "c/embedded"):
        (tmp_path / name).mkdir(parents=True)
    gone = tmp_path / "gone"
    monkeypatch.setenv("ATLAS_ALLOW_MODELS", ",".join(f" {tmp_path / name}" for name in ("a/mine", "b/mine", "c/embedded", "gone")))
    assert offered_folders() == {
        "mine": tmp_path / "a/mine",
        "mine-2": tmp_path / "b/mine",
        "embedded-2": tmp_path / "c/embedded",
        "gone": gone,
    }
    assert find_offered("mine-2").folder == tmp_path / "b/mine" and find_offered("mine-2").name == "mine-2"
    assert find_offered("embedded") == EMBEDDED
    with pytest.raises(CheckpointMissingError) as caught:
        find_offered("gone")
    assert str(tmp_path) not in str(caught.value)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATLAS_ALLOW_MODELS", "./a/mine")
    assert offered_folders() == {"mine": tmp_path / "a/mine"} and not allowed("./a/mine")


@pytest.mark.parametrize(
    ("config", "layout"),
    [
        ({"format": "attention-atlas", "d_model": 4}, "atlas"),
        ({"model_type": "marian", "architectures": ["MarianMTModel"]}, "marian"),
        ({"model_type": "marian"}, "marian"),
        ({"model_type": "bart", "architectures": ["MarianMTModel"]}, "marian"),
        ({"model_type": "marian", "architectures": ["TFMarianMTModel"]}, "marian"),
    ],
)
def test_layouts(config, layout, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_layout(tmp_path) == layout


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "GPT2LMHeadModel"),
        ({"model_type": "marian", "architectures": ["MarianForCausalLM"]}, "MarianForCausalLM"),
        ({"model_type": "t5"}, "t5"),
        ({"model_type": "m2m_100", "architectures": "M2M100"}, "m2m_100"),
        ({"format": "something-else"}, "something-else"),
        ({"architectures": ["x" * 999]}, "x" * 40 + "…"),
    ],
)
def test_another_architecture_is_named(config, found, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(WrongArchitectureError) as caught:
        read_layout(tmp_path)
    assert caught.value.params == {"found": found}


def test_a_config_that_says_nothing(tmp_path):
    for text in ("{}", "[]", '{"architectures": [3], "model_type": null}', "{", ""):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(CheckpointCorruptError):
            read_layout(tmp_path)
    with pytest.raises(CheckpointMissingError):
        read_layout(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        (ID, ("en", "de")),
        (f"{ID}@{'a' * 40}", ("en", "de")),
        ("Helsinki-NLP/opus-mt-tc-big-he-en", ("he", "en")),
        ("Helsinki-NLP/opus-mt-tc-bible-big-urj-deu_eng_nld", ("urj", "deu_eng_nld")),
        ("Helsinki-NLP/opus-tatoeba-en-tr", ("en", "tr")),
        ("Helsinki-NLP/opus-mt-en-ROMANCE", ("en", "ROMANCE")),
        ("opus-mt-en-jap", ("en", "jap")),
        ("somebody/my-model", None),
        ("weights", None),
    ],
)
def test_the_languages_in_a_name(name, pair):
    assert language_pair(name) == pair


def test_the_popular_pairs_are_ids_that_may_be_loaded():
    ids = [pair.repo_id for pair in POPULAR]
    assert len(set(ids)) == len(ids) == 38
    for pair in POPULAR:
        assert find_offered(pair.repo_id).repo_id == pair.repo_id
        source, target = language_pair(pair.repo_id)
        assert (pair.source, pair.target) == (source, {"jap": "ja"}.get(target, target))
    assert {"Helsinki-NLP/opus-mt-en-jap", "Helsinki-NLP/opus-mt-ja-en", "Helsinki-NLP/opus-mt-tc-big-he-en"} <= set(ids)
    assert not {f"Helsinki-NLP/opus-mt-{pair}" for pair in ("en-ja", "he-en", "en-ko", "en-tr")} & set(ids)



@pytest.mark.parametrize(
    ("name", "targets", "expected"),
    [
        (ID, ("fr", "de"), "de"),
        ("Helsinki-NLP/opus-mt-en-zh", ("yue_Hant", "cmn", "cmn_Hans"), "cmn_Hans"),
        ("Helsinki-NLP/opus-mt-en-ar", ("apc", "ara"), "ara"),
        ("Helsinki-NLP/opus-mt-en-ROMANCE", ("fr", "es"), "fr"),
        ("somebody/mine", ("sv", "da"), "sv"),
    ],
)
def test_the_language_that_a_page_begins_with(name, targets, expected):
    assert preferred_target(name, targets) == expected
