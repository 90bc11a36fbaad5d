"""Clauses of error messages: English here, and a key by which an interface has them in another language."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path

import pytest

from model.errors import CheckpointCorruptError, HubUnreachableError, UnsupportedModelError
from model.marian.config import read_marian_config
from model.reasons import REASONS, Reason, because
from tests.model.marian.factories import make_marian_folder

ROOT = Path(__file__).resolve().parents[2]
HOLES = re.compile(r"\{(\w+)\}")


def filled(key: str) -> Reason:
    return because(key, **{name: f"<{name}>" for name in HOLES.findall(REASONS[key])})


@pytest.mark.parametrize("key", REASONS)
def test_a_reason_is_its_clause_and_knows_its_key(key):
    made = filled(key)
    assert (made.key, set(made.params)) == (key, set(HOLES.findall(REASONS[key])))
    assert made == HOLES.sub(r"<\1>", REASONS[key]) and all(f"<{name}>" in made for name in made.params)
    for again in (copy.copy(made), pickle.loads(pickle.dumps(made))):
        assert (again, again.key, again.params) == (made, made.key, made.params)


def test_braces_in_a_value_are_text():
    assert because("lacks", what="{key} {0}") == "it lacks {key} {0}"


@pytest.mark.parametrize("error", [CheckpointCorruptError("f", filled("shape")), HubUnreachableError("o/m", because("no_answer")),
                                   UnsupportedModelError(because("one_position"))], ids=["corrupt", "hub", "unsupported"])
def test_errors_keep_the_reason(error):
    """Also on their way from another process."""
    for each in (error, pickle.loads(pickle.dumps(error))):
        assert isinstance(each.params["detail"], Reason) and each.params["detail"] in str(each)


def test_every_reason_is_given_somewhere_with_what_it_needs():
    given = "".join(path.read_text(encoding="utf-8") for folder in ("model", "viz") for path in (ROOT / folder).rglob("*.py")
                    if path.name != "reasons.py")
    assert [key for key in REASONS if f'"{key}"' not in given] == []
    for key, params in re.findall(r'because\("(\w+)"((?:[^()]|\([^()]*(?:\([^()]*\))?[^()]*\))*)\)', given):
        assert sorted(re.findall(r"(?:^|, )(\w+)=", params)) == sorted(set(HOLES.findall(REASONS[key]))), key


def test_a_nested_reason_keeps_its_key(tmp_path):
    make_marian_folder(tmp_path)
    config = tmp_path / "config.json"
    config.write_text(re.sub(r'"d_model": \d+', '"d_model": -3', config.read_text()))
    with pytest.raises(CheckpointCorruptError, match="d_model is -3, expected a positive whole number") as caught:
        read_marian_config(tmp_path)
    assert caught.value.params["detail"].params["wanted"].key == "positive"
