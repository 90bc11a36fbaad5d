"""The model box: handlers without a browser, and what happens on the other screens when a visitor's model isn't there."""

from __future__ import annotations

import json
import threading
import time

import pytest

from model.errors import CheckpointMissingError, ModelIdError, ModelNotAllowedError, ModelNotLoadedError, UnknownRepositoryError
from model.pool import ModelPool
from tests.viz.fakes import ARABIC, GERMAN, ROMANCE, FakeTranslator, OtherTranslator, recorded_run, shelf
from viz.panels import api, models, position_table, translate
from viz.panels.models import asked_name, load, load_and_wait, model_info
from viz.runs import RunCache

STORE = {"lang": "en", "target": "ara", "beam_size": 4, "kind": "cross", "layer": 3, "head": 5, "rows": "predicted", "model": ARABIC}


@pytest.fixture(autouse=True)
def nothing_else_allowed(monkeypatch):
    monkeypatch.delenv("ATLAS_ALLOW_MODELS", raising=False)


@pytest.fixture
def runs() -> RunCache:
    translator = FakeTranslator()
    return RunCache(translator, recorded_run(translator), pool=ModelPool(shelf, 10_000))


def ask(runs: RunCache, name: object, again: bool = True) -> dict:
    answer = load(runs, {"wanted": {"name": name, "again": again}})
    return json.loads(json.dumps(answer))


def loaded(runs: RunCache, name: str) -> dict:
    end = time.monotonic() + 60
    while (answer := ask(runs, name, False))["stage"] not in ("ready", "failed"):
        assert time.monotonic() < end
        time.sleep(0.005)
    return answer


def test_a_model_is_asked_for_until_it_is_there(runs: RunCache) -> None:
    gate = threading.Event()

    def slow(*args):
        translator = shelf(*args)
        assert gate.wait(120)
        return translator

    runs.pool = ModelPool(slow, 10_000)
    ask(runs, ARABIC)
    end = time.monotonic() + 60
    while (answer := ask(runs, ARABIC, False))["stage"] != "downloading":
        assert time.monotonic() < end
    assert (answer["done"], answer["total"], answer["asked"], answer["name"]) == (150_000_000, 300_000_000, ARABIC, ARABIC)
    assert "info" not in answer and "problem" not in answer
    gate.set()
    info = loaded(runs, ARABIC)["info"]
    assert info["name"] == ARABIC and info["revision"] == "5e1f" * 10 and info["source"] == "en"
    assert info["targets"] == ["ara"] and info["target"] == "ara"
    assert info["sizes"] == {"layers": [1, 4], "heads": [2, 6], "d_model": 48}
    assert info["warnings"] == [{"code": "not_applied", "detail": "min_length"}]
    assert info["positions"]["layout"] == "halves" and info["positions"]["max_length"] == 64
    assert info["positions"]["offered"][0]["dims"] == [0, 24]


def test_the_usual_owner_need_not_be_typed(runs: RunCache) -> None:
    answer = loaded(runs, "  opus-mt-de-en ")
    assert answer["asked"] == "  opus-mt-de-en " and answer["name"] == GERMAN
    assert answer["info"]["source"] == "de" and answer["info"]["examples"][0] == "Ich bin Student."
    assert asked_name("somebody/opus-mt-de-en") == "somebody/opus-mt-de-en" and asked_name(3) == 3


def test_a_folder_with_a_short_name_of_the_hub_is_the_folder(tmp_path, monkeypatch) -> None:
    asked: list[str] = []

    def load_any(name: str, *rest: object) -> OtherTranslator:
        asked.append(name)
        return OtherTranslator(name, ("de",))

    (tmp_path / "opus-mt-en-ar").mkdir()
    monkeypatch.setenv("ATLAS_ALLOW_MODELS", str(tmp_path / "opus-mt-en-ar"))
    runs = RunCache(FakeTranslator(), pool=ModelPool(load_any, 10_000))
    answer = loaded(runs, " opus-mt-en-ar")
    assert (answer["name"], answer["info"]["name"], asked) == ("opus-mt-en-ar", "opus-mt-en-ar", ["opus-mt-en-ar"])
    assert load_and_wait(runs, "opus-mt-en-ar")["targets"] == ["de"]
    assert api.translate(runs, "I love you.", "de", model="opus-mt-en-ar")["target"] == "de"
    assert load_and_wait(runs, "opus-mt-en-de")["name"] == "Helsinki-NLP/opus-mt-en-de"
    assert load_and_wait(runs, ARABIC)["name"] == ARABIC and asked[1:] == ["Helsinki-NLP/opus-mt-en-de", ARABIC]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("nonsense", "model_id"),
        ("", "model_id"),
        (None, "model_id"),
        (["x"], "model_id"),
        ("<img src=x>/y", "model_id"),
        ("x" * 5000, "model_id"),
        ("/etc", "model_id"),
        ("somebody/opus-mt-en-ar", "model_not_allowed"),
        ("Helsinki-NLP/opus-mt-en-none", "unknown_repository"),
    ],
)
def test_what_cannot_be_loaded_is_told_and_changes_nothing(runs: RunCache, name: object, code: str) -> None:
    loaded(runs, ARABIC)
    answer = ask(runs, name)
    if answer["stage"] != "failed":
        answer = loaded(runs, answer["name"])
    assert answer["problem"]["code"] == code and len(json.dumps(answer)) < 6000
    assert runs.pool.names() == (ARABIC,)
    assert translate.translate(runs, "I love you.", STORE)[0] is None


def test_a_store_without_a_wish(runs: RunCache) -> None:
    for store in (None, {}, {"wanted": 3}, {"wanted": {"name": ARABIC, "again": "x"}}):
        assert load(runs, store)["stage"] in ("failed", "waiting", "reading", "downloading", "ready")


def test_back_to_the_embedded_one(runs: RunCache) -> None:
    info = ask(runs, "embedded")["info"]
    assert info == model_info(runs.translator) and info["name"] == "embedded" and info["targets"] == ["fra", "cmn"]
    assert info["examples"][0] == "I am a student." and info["positions"]["layout"] == "interleaved"
    without = RunCache(None, problem=CheckpointMissingError("model.safetensors"))
    info = ask(without, "embedded")["info"]
    assert info["positions"] is None and info["targets"] == ["fra", "cmn"]
    assert ask(without, ARABIC)["problem"]["code"] == "model_not_loaded"


def test_a_mistake_of_ours_is_not_shown(runs: RunCache) -> None:
    def broken(*args):
        raise RuntimeError("secret path /home/x")

    runs.pool = ModelPool(broken, 100)
    ask(runs, ARABIC)
    assert loaded(runs, ARABIC)["problem"] == {"code": "unexpected", "params": {}}


def test_two_visitors_with_different_models(runs: RunCache) -> None:
    loaded(runs, ARABIC)
    loaded(runs, ROMANCE)
    ours = {**STORE, "model": "embedded", "target": "fra", "layer": 1, "head": 2}
    romance = {**STORE, "model": ROMANCE, "target": "fr"}
    texts = [translate.translate(runs, "I love you.", store)[1]["text"] for store in (STORE, ours, romance, STORE)]
    assert texts == ["أنا أحبك.", "Je t'aime.", "i LOVE YOU.", "أنا أحبك."]
    result = translate.translate(runs, "I love you.", STORE)[1]
    assert result["request"]["model"] == ARABIC and result["revision"] == "5e1f" * 10
    assert result["maps"] == {
        "encoder_self": {"layers": 1, "heads": 2},
        "decoder_self": {"layers": 4, "heads": 6},
        "cross": {"layers": 4, "heads": 6},
    }
    # a layer of one model is never sent for the run of another
    layer = json.loads(translate.more_maps(runs, result, {**STORE, "wanted_layer": {"kind": "cross", "layer": 3}})[2])
    assert layer["request"]["model"] == ARABIC and layer["layer"] == 3


def test_a_wrong_target_says_which_there_are(runs: RunCache) -> None:
    loaded(runs, ROMANCE)
    problem = translate.translate(runs, "I love you.", {**STORE, "model": ROMANCE, "target": "de"})[0]
    assert problem["code"] == "unknown_target" and problem["params"]["supported"][:2] == ["fr", "es"]


def test_a_model_that_was_put_away(runs: RunCache) -> None:
    for handler in (lambda: translate.translate(runs, "Hello.", STORE)[0], lambda: position_table.draw(runs, None, STORE)[0]):
        assert handler() == {"code": "model_not_loaded", "params": {"model": ARABIC}}
    for name in (3, None, ["x"]):
        assert position_table.draw(runs, None, {**STORE, "model": name})[0]["code"] == "model_not_loaded"
        assert translate.translate(runs, "Hello.", {**STORE, "model": name})[0]["code"] == "invalid_setting"


def test_positions_are_those_of_the_visitors_model(runs: RunCache) -> None:
    loaded(runs, ARABIC)
    place = {"positions": {"length": 20, "pairs": [0], "tokens": True}, "lang": "en"}
    _, result, _ = translate.translate(runs, "I love you.", STORE)
    message, table, waves = position_table.draw(runs, result, {**place, "model": ARABIC})
    heat = json.loads(table)["views"]["en"]["figure"]
    assert message is None and heat["data"][0]["z"]["shape"] == "6, 48"
    names = [trace["name"].split(" · ")[0] for trace in json.loads(waves)["views"]["en"]["figure"]["data"]]
    assert names == ["dimension 0", "dimension 24"]  # halves: the cosine is half the width away
    # the run on the screen is still of the other model: rows are positions, not another model's tokens
    _, table, _ = position_table.draw(runs, result, {**place, "model": "embedded"})
    assert json.loads(table)["views"]["en"]["figure"]["data"][0]["z"]["shape"] == "20, 64"


def test_programs_load_and_wait(runs: RunCache) -> None:
    with pytest.raises(ModelNotLoadedError):
        api.translate(runs, "I love you.", "ara", model=ARABIC)
    assert load_and_wait(runs, "opus-mt-en-ar")["targets"] == ["ara"]
    assert api.translate(runs, "I love you.", "ara", model=ARABIC)["text"] == "أنا أحبك."
    assert len(api.attention(runs, "I love you.", "ara", kind="decoder_self", layer=3, head="5", model="opus-mt-en-ar")["weights"]) == 4
    assert load_and_wait(runs, "embedded")["name"] == "embedded"
    for name, error in (("x", ModelIdError), ("a/b", ModelNotAllowedError), ("Helsinki-NLP/none", UnknownRepositoryError)):
        with pytest.raises(error):
            load_and_wait(runs, name)
    with pytest.raises(ModelNotLoadedError):
        load_and_wait(RunCache(None), ARABIC)


def test_what_the_box_lists(tmp_path, monkeypatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("ATLAS_ALLOW_MODELS", str(tmp_path / "mine"))
    listed = models.offered()
    assert listed["folders"] == ["mine"] and listed["embedded"] == "embedded" and str(tmp_path) not in json.dumps(listed)
    assert {"source": "en", "target": "ja", "name": "Helsinki-NLP/opus-mt-en-jap"} in listed["pairs"]
    assert {pair["source"] for pair in listed["pairs"]} <= set(models.EXAMPLES)
