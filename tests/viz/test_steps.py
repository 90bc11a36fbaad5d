"""Step by step before there is a browser: what the page is sent of a walk, and how handlers answer whatever a page asks."""

from __future__ import annotations

import base64
import dataclasses
import json

import gradio as gr
import numpy as np
import pytest

from model.analysis.walkthrough import Place
from model.tokenizer import Tokenizer
from model.translator import Translator
from model.variants import PARTS
from tests import tiny
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.panels import steps_answers
from viz.panels.maps_value import maps_value
from viz.panels.steps_answers import StepsChoice
from viz.panels.steps_value import Steps, cell_value, steps_value, vector
from viz.runs import Request, Run, RunCache

TEXT = "The cat sat on the mat."
KINDS = ("encoder_self", "decoder_self", "cross")
STORE = {"lang": "en", "kind": "cross", "layer": 1, "head": 2, "rows": "predicted", "steps": {"row": 3, "without": ""}}
SKIP = gr.skip()


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """Two encoder layers of two heads, three decoder layers of four; it has learned this sentence."""
    tokenizer = Tokenizer(tiny.train_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"))
    config = tiny.tiny_config(tokenizer.vocab_size, num_decoder_layers=3, num_decoder_heads=4, decoder_d_ff=24, position_layout="halves")
    return Translator(tiny.taught_model(config, tokenizer, steps=120), tokenizer, "tiny")


@pytest.fixture
def runs(translator: Translator) -> RunCache:
    return RunCache(translator)


@pytest.fixture
def run(runs: RunCache) -> Run:
    return runs.get(Request(TEXT, "fra"))


def plain(value: object) -> object:
    """The payload with vectors as lists."""
    if isinstance(value, dict) and set(value) == {"shape", "data"}:
        return np.frombuffer(base64.b64decode(value["data"]), "<f4").reshape(value["shape"]).tolist()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def ask(runs: RunCache, run: Run, **changes: object) -> tuple[object, object]:
    message, value = steps_answers.steps(runs, {"request": run.request.as_dict()}, {**STORE, **changes})
    return message, plain(json.loads(value)) if isinstance(value, str) else value


def ask_cell(runs: RunCache, run: Run, cell: object, **changes: object) -> tuple[object, object]:
    message, value = steps_answers.cell(runs, {"request": run.request.as_dict()}, {**STORE, **changes, "cell": cell})
    return message, plain(json.loads(value)) if isinstance(value, str) else value


# --- the payload ---


def test_a_vector_keeps_its_shape_and_its_numbers() -> None:
    values = np.array([[1.5, -2.25, 3e-8], [4.0, 5.0, -6.0]], dtype=np.float32)
    assert vector(values)["shape"] == [2, 3] and plain(vector(values)) == values.tolist()
    assert vector(values.T)["shape"] == [3, 2] and plain(vector(values.T)) == values.T.tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_all_numbers_of_a_walk_are_sent(translator: Translator, run: Run, kind: str) -> None:
    head = 1 if kind == "encoder_self" else 3
    walk = translator.walk(run.translation, kind, 1, head, 2)
    sent = plain(json.loads(steps_value(run, translator.config, Steps(walk))))
    assert {name: sent[name] for name in ("kind", "layer", "head", "row", "position", "without", "after", "translations")} == {
        "kind": kind, "layer": 1, "head": head, "row": 2, "position": 2, "without": "", "after": None, "translations": None,
    }  # fmt: skip
    assert sent["request"] == run.request.as_dict()
    before = sent["before"]
    for name, array in (("embedding", walk.embedding), ("scaled", walk.scaled), ("encoding", walk.encoding), ("input", walk.total)):
        assert before[name] == array.tolist()
    assert before["closing"] is None and before["final"] == walk.final.tolist() and before["stream_norms"] == list(walk.stream_norms)
    attention = walk.attention
    for name in ("q", "k", "v", "products", "scores", "weights", "head_output", "joined", "projected", "masked"):
        assert before["attention"][name] == getattr(attention, name).tolist()
    assert (before["attention"]["entropy"], before["attention"]["largest"]) == (attention.entropy, max(attention.weights.tolist()))
    assert before["feed_forward"] == {"hidden": walk.hidden.tolist(), "active": walk.active.tolist()}
    assert len(before["sublayers"]) == (2 if kind == "encoder_self" else 3)
    for mine, step in zip(before["sublayers"], walk.sublayers, strict=True):
        assert (mine["name"], mine["input"], mine["normed"]) == (step.name, step.before.tolist(), None)  # a post-norm model
        assert (mine["output"], mine["added"], mine["after"]) == (step.output.tolist(), step.added.tolist(), step.after.tolist())
        assert (mine["mean"], mine["variance"]) == (step.mean, step.variance)
    assert before["attention"]["sublayer"] == ("cross_attn" if kind == "cross" else "self_attn")
    assert before["check"] == dataclasses.asdict(walk.check)


def test_of_a_pre_norm_model_what_sublayers_read_is_sent_too(translator: Translator) -> None:
    config = tiny.tiny_config(translator.tokenizer.vocab_size, norm="pre", activation="gelu")
    other = Translator(tiny.random_model(config), translator.tokenizer, "tiny")
    runs = RunCache(other)
    run = runs.get(Request(TEXT, "fra", given="Le chat est assis."))
    walk = other.walk(run.translation, "decoder_self", 1, 1, 2)
    _, sent = ask(runs, run, kind="decoder_self", head=1, steps={"row": 2, "without": ""})
    assert (sent["facts"]["norm"], sent["facts"]["activation"], sent["facts"]["layout"]) == ("pre", "gelu", "interleaved")
    for mine, step in zip(sent["before"]["sublayers"], walk.sublayers, strict=True):
        assert mine["normed"] == step.normed.tolist() and mine["after"] == mine["added"]
    closing = walk.closing
    assert sent["before"]["closing"] == {"input": closing.before.tolist(), "mean": closing.mean, "variance": closing.variance}
    assert sent["before"]["shared_anew"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_the_facts_are_those_of_the_stack(translator: Translator, runs: RunCache, run: Run, kind: str) -> None:
    _, sent = ask(runs, run, kind=kind, head=1)
    size, config = translator.tokenizer.vocab_size, translator.config
    own = {"num_heads": 2, "head_dim": 8, "d_ff": 32, "layers": 2} if kind == "encoder_self" else {
        "num_heads": 4, "head_dim": 4, "d_ff": 24, "layers": 3}  # fmt: skip
    shared = {"d_model": 16, "norm": "post", "activation": "relu", "layout": "halves", "eps": config.layer_norm_eps}
    shared |= {"output_tied": True, "output_bias": True}
    assert sent["facts"] == {**own, **shared, "embedding_scale": 4.0, "vocab_size": size}
    sides = {"encoder_self": ("source", "source"), "decoder_self": ("read", "read"), "cross": ("read", "source")}[kind]
    assert (sent["side"], sent["key_side"]) == sides
    tokens = run.translation.src_tokens if sides[0] == "source" else run.translation.tgt_in_tokens
    ids = run.translation.src_ids if sides[0] == "source" else (1, *run.translation.tgt_ids[:-1])
    assert (sent["token"]["label"]["raw"], sent["token"]["id"]) == (tokens[3], ids[3])
    keys = run.translation.src_tokens if sides[1] == "source" else run.translation.tgt_in_tokens
    assert len(sent["before"]["attention"]["weights"]) == len(keys)


def test_labels_are_those_of_the_maps(runs: RunCache, run: Run) -> None:
    sides = json.loads(maps_value(run))["sides"]
    for row in range(len(run.translation.tgt_ids)):
        _, sent = ask(runs, run, steps={"row": row, "without": ""})
        assert sent["token"]["label"] == sides["read"]["pieces"]["en"][row]
        found = {**sides["predicted"]["pieces"]["en"][row], "start": 0, "stop": 1}
        assert sent["before"]["written"]["label"] == found
        assert sent["before"]["top"][0]["probability"] >= sent["before"]["written"]["probability"] > 0
    _, first = ask(runs, run, steps={"row": 0, "without": ""}, lang="zh")
    assert first["token"]["label"] == sides["read"]["pieces"]["zh"][0] and first["language"] == "zh"


def test_what_is_written_follows_from_logits_and_their_sum(runs: RunCache, run: Run) -> None:
    for row, log_prob in enumerate(run.translation.token_log_probs):
        before = ask(runs, run, steps={"row": row, "without": ""})[1]["before"]
        for guess in (*before["top"], before["written"]):
            assert np.exp(guess["logit"] - before["log_sum_exp"]) == pytest.approx(guess["probability"], rel=1e-6)
        assert before["written"]["id"] == run.translation.tgt_ids[row]
        assert before["written"]["probability"] == pytest.approx(np.exp(log_prob), rel=1e-3)
        assert [guess["rank"] for guess in before["top"]] == list(range(1, 11)) and before["never_written"] == 4
    encoder = ask(runs, run, kind="encoder_self", head=0)[1]["before"]
    assert (encoder["top"], encoder["written"], encoder["log_sum_exp"], encoder["check"]["logits"]) == (None, None, None, None)


def test_the_check_looks_at_the_map_on_the_page_too(translator: Translator, runs: RunCache, run: Run) -> None:
    _, sent = ask(runs, run)
    assert sent["check"] == {**sent["before"]["check"], "shown": sent["check"]["shown"]}
    assert max(value for value in sent["check"].values()) < 1e-5
    maps = run.trace.cross_attention.copy()
    maps[1, 2, 3] = np.roll(maps[1, 2, 3], 1)
    other = dataclasses.replace(run, trace=dataclasses.replace(run.trace, cross_attention=maps))
    walk = translator.walk(run.translation, "cross", 1, 2, 3)
    wrong = json.loads(steps_value(other, translator.config, Steps(walk)))["check"]
    assert wrong["shown"] == pytest.approx(float(np.abs(maps[1, 2, 3] - walk.attention.weights).max())) and wrong["shown"] > 1e-3
    assert wrong["weights"] < 1e-5


@pytest.mark.parametrize("part", PARTS)
def test_without_a_part_both_walks_and_both_translations_are_sent(translator: Translator, runs: RunCache, run: Run, part: str) -> None:
    message, sent = ask(runs, run, kind="decoder_self", head=1, steps={"row": 2, "without": part})
    assert message is None and sent["without"] == part
    variant = translator.without(part)
    after = variant.walk(run.translation, "decoder_self", 1, 1, 2)
    assert sent["after"]["attention"]["weights"] == after.attention.weights.tolist()
    assert sent["after"]["attention"]["masked"] == after.attention.masked.tolist()
    assert sent["after"]["embedding_scale"] == (1.0 if part == "embedding_scale" else 4.0)
    assert sent["after"]["scale_scores"] is (part != "score_scale") and sent["before"]["scale_scores"] is True
    assert sent["before"]["attention"]["weights"] == translator.walk(run.translation, "decoder_self", 1, 1, 2).attention.weights.tolist()
    written = variant.translate(TEXT, "fra", 4).text
    assert sent["translations"] == {"before": run.translation.text, "after": written, "changed": written != run.translation.text}
    if part == "causal_mask":
        assert sent["translations"]["changed"] is False and sum(sent["after"]["attention"]["masked"]) == 0
    assert (translator.taken_away, runs.translator) == ((), translator)


def test_of_a_given_translation_the_models_own_stands_before(translator: Translator, runs: RunCache) -> None:
    given = runs.get(Request(TEXT, "fra", 2, given="Le chien."))
    _, sent = ask(runs, given, steps={"row": 1, "without": "positions"})
    own = translator.translate(TEXT, "fra", 2).text  # by the beam that was asked for
    assert own != "Le chien." and sent["translations"]["before"] == own
    assert sent["before"]["written"]["id"] == given.translation.tgt_ids[1]


def test_a_variant_writes_a_sentence_once(translator: Translator, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = Translator.translate

    def counted(self: Translator, *args: object, **kwargs: object) -> object:
        asked.append((self.taken_away, args))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Translator, "translate", counted)
    runs = RunCache(translator)
    runs.get(run.request)
    for row in (0, 2, 2):
        ask(runs, run, steps={"row": row, "without": "positions"})
    ask(runs, run, steps={"row": 2, "without": "causal_mask"}, kind="encoder_self", head=0)
    ask(runs, run, steps={"row": 2, "without": ""})
    assert asked == [(("positions",), (TEXT, "fra", 4)), (("causal_mask",), (TEXT, "fra", 4))]


# --- what the page chose ---


def test_a_choice_is_fitted_as_the_map_is(run: Run) -> None:
    """The decoder has more layers and heads than the encoder, and a shorter sentence fewer rows."""
    rows = len(run.translation.src_ids)
    choice = StepsChoice.from_page({**STORE, "kind": "encoder_self", "layer": 2, "head": 3, "steps": {"row": 90.0, "without": ""}}, run)
    assert choice == StepsChoice(Place("encoder_self", 1, 1, rows - 1), "")
    assert StepsChoice.from_page({**STORE, "steps": None}, run).place == Place("cross", 1, 2, 0)
    assert StepsChoice.from_page({**STORE, "steps": {"row": 2, "without": "positions"}}, run).without == "positions"


def test_of_all_heads_together_one_is_walked_through(run: Run) -> None:
    best = dataclasses.replace(run, best_heads={"predicted": (1, 3), "read": (1, 2)})

    def head(run: Run, **changes: object) -> int:
        return StepsChoice.from_page({**STORE, **changes}, run).place.head

    for together in ("mean", "max", "rollout", "norm"):
        assert head(run, head=together) == 0
        assert head(best, head=together) == 3 and head(best, head=together, rows="read") == 2
        assert head(best, head=together, layer=0) == 0 and head(best, head=together, kind="decoder_self") == 0
    assert head(dataclasses.replace(run, best_heads={"predicted": (1, 4)}), head="mean") == 0  # of another model
    assert StepsChoice.from_page({**STORE, "layer": None, "head": "mean"}, best).place == Place("cross", 1, 3, 3)


WRONG = [
    ({"kind": "encoder"}, "kind"),
    ({"kind": ["cross"]}, "kind"),
    ({"layer": -1}, "layer"),
    ({"head": "all"}, "head"),
    ({"head": {}}, "head"),
    ({"steps": {"row": -1}}, "row"),
    ({"steps": {"row": "3"}}, "row"),
    ({"steps": {"row": True}}, "row"),
    ({"steps": {"row": float("nan")}}, "row"),
    ({"steps": {"row": 10**30}}, "row"),
    ({"steps": {"row": 0, "without": "softmax"}}, "without"),
    ({"steps": {"row": 0, "without": None}}, "without"),
    ({"steps": {"row": 0, "without": ["positions"]}}, "without"),
]


@pytest.mark.parametrize(("changes", "name"), WRONG, ids=str)
def test_a_wrong_choice_is_answered_with_a_notice(runs: RunCache, run: Run, changes: dict, name: str) -> None:
    for asked in (ask, lambda *args, **kwargs: ask_cell(*args, {"stage": "q", "index": 0}, **kwargs)):
        message, value = asked(runs, run, **changes)
        assert message["code"] == "invalid_setting" and message["params"]["name"] == name and value == SKIP


@pytest.mark.parametrize("result", [None, {}, [], "x", {"request": None}, {"request": {"text": 3}}])
def test_a_wrong_request_is_answered_with_a_notice(runs: RunCache, result: object) -> None:
    for handler in (steps_answers.steps, steps_answers.cell):
        message, value = handler(runs, result, STORE)
        assert message["code"] == "invalid_setting" and value == SKIP


@pytest.mark.parametrize("store", [None, [], "x", {}])
def test_a_store_that_is_none_is_answered_with_a_notice(runs: RunCache, run: Run, store: object) -> None:
    message, value = steps_answers.steps(runs, {"request": run.request.as_dict()}, store)
    assert message["code"] == "invalid_setting" and value == SKIP


def test_without_weights_the_page_is_told_so() -> None:
    fake = FakeTranslator()
    for runs in (RunCache(fake, recorded_run(fake)), RunCache(None, recorded_run(fake))):
        run = runs.recorded
        assert ask(runs, run, head=1) == ({"code": "no_model", "params": {}}, SKIP)
        assert ask_cell(runs, run, {"stage": "q", "index": 0}, head=1) == ({"code": "no_model", "params": {}}, SKIP)


def test_a_model_that_made_room_for_others_is_named(runs: RunCache, run: Run) -> None:
    gone = dataclasses.replace(run, request=dataclasses.replace(run.request, model="Helsinki-NLP/opus-mt-en-de"))
    assert ask(runs, gone)[0] == {"code": "model_not_loaded", "params": {"model": "Helsinki-NLP/opus-mt-en-de"}}


def test_a_run_that_the_cache_let_go_is_made_anew(translator: Translator, run: Run) -> None:
    message, sent = ask(RunCache(translator), run)
    assert message is None and sent["check"]["shown"] < 1e-5


# --- cells ---


@pytest.mark.parametrize(("stage", "key"), [("q", None), ("k", 4), ("v", 1), ("projected", None), ("hidden", None), ("ff_output", None)])
def test_a_cell_adds_up_to_the_number_on_the_page(runs: RunCache, run: Run, stage: str, key: int | None) -> None:
    steps = {"row": 2, "without": "positions"}
    walk = {after: ask(runs, run, steps=steps)[1]["after" if after else "before"] for after in (False, True)}
    for after in (False, True):
        message, sent = ask_cell(runs, run, {"stage": stage, "index": 3.0, "key": key, "after": after}, steps=steps)
        assert message is None and sent["request"] == run.request.as_dict()
        own = {name: sent[name] for name in ("kind", "layer", "head", "row", "without", "after", "stage", "index", "key")}
        assert own == {"kind": "cross", "layer": 1, "head": 2, "row": 2, "without": "positions", "after": after, "stage": stage,
                       "index": 3, "key": key}  # fmt: skip
        attention = walk[after]["attention"]
        there = {"q": attention["q"], "projected": attention["projected"], "hidden": walk[after]["feed_forward"]["hidden"]}
        there |= {"ff_output": walk[after]["sublayers"][-1]["output"], "k": attention["k"][key or 0], "v": attention["v"][key or 0]}
        assert sent["sum"] == pytest.approx(there[stage][3], abs=1e-5)
        products = np.array(sent["inputs"]) * np.array(sent["weights"])
        assert sent["sum"] == pytest.approx(products.sum() + sent["bias"], abs=1e-5)
    assert not np.allclose(walk[True]["attention"]["q"], walk[False]["attention"]["q"], atol=1e-3)


def test_a_logit_and_a_norm_are_cells_too(runs: RunCache, run: Run) -> None:
    before = ask(runs, run)[1]["before"]
    best = before["top"][1]
    assert ask_cell(runs, run, {"stage": "logit", "index": best["id"]})[1]["sum"] == pytest.approx(best["logit"], abs=1e-5)
    _, norm = ask_cell(runs, run, {"stage": "normed", "index": 5, "key": "cross_attn", "after": True})  # nothing is taken away
    assert norm["sum"] == pytest.approx(before["sublayers"][1]["after"][5], abs=1e-5) and norm["key"] == "cross_attn"


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        (None, "stage"),
        ({"stage": "scores", "index": 0}, "stage"),
        ({"stage": {"a": 1}, "index": 0}, "stage"),
        ({"stage": "q", "index": 4}, "index"),
        ({"stage": "q", "index": 0.5}, "index"),
        ({"stage": "q", "index": float("inf")}, "index"),
        ({"stage": "q", "index": "0"}, "index"),
        ({"stage": "k", "index": 0, "key": None}, "key"),
        ({"stage": "k", "index": 0, "key": 99}, "key"),
        ({"stage": "normed", "index": 0, "key": "<img src=x>"}, "key"),
    ],
    ids=str,
)
def test_a_cell_that_is_not_there_is_answered_with_a_notice(runs: RunCache, run: Run, cell: object, name: str) -> None:
    message, value = ask_cell(runs, run, cell)
    assert message["code"] == "invalid_setting" and message["params"]["name"] == name and value == SKIP


def test_numbers_that_json_does_not_know_are_never_sent(translator: Translator, run: Run) -> None:
    found = translator.cell(run.translation, "cross", 0, 0, 0, "q", 0)
    with pytest.raises(ValueError):
        cell_value(run, {}, dataclasses.replace(found, bias=float("nan")), False)
