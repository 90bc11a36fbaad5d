"""The experiments' handlers: real passes of a tiny model, values against what its own trace and configuration say, and errors in words."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from model.analysis.norm_gradients import norm_gradients
from model.loading import load_translator
from model.results import MAPS
from model.tokenizer import Tokenizer
from model.translator import Translator
from tests import tiny
from tests.model.marian.factories import make_marian_folder
from tests.viz.fakes import FakeTranslator
from tests.viz.fakes import recorded_run as fake_run
from viz.panels import lab_values
from viz.panels.machine_lab import EXPERIMENTS, answer
from viz.runs import Request, RunCache
from viz.text import LANGUAGES

TEXT, SECOND = "The cat sat on the mat.", "I love you."


@pytest.fixture(scope="module", params=["pre", "post", "marian"])
def runs(request, tmp_path_factory) -> RunCache:
    folder = tmp_path_factory.mktemp("lab")
    if request.param == "marian":
        return RunCache(load_translator(make_marian_folder(folder / "opus-mt-en-fr", seed=3), "cpu"))
    tokenizer = Tokenizer(tiny.train_tokenizer(folder / "tokenizer.model"))
    config = tiny.tiny_config(tokenizer.vocab_size, norm=request.param, num_encoder_layers=3, num_decoder_heads=4, max_len=40)
    return RunCache(Translator(tiny.random_model(config, eos_bias=2.0), tokenizer, "tiny"))


@pytest.fixture(scope="module")
def shown(runs) -> dict:
    return {"request": Request(TEXT, runs.translator.targets[0], 2, given="Le chat et le chien.").as_dict()}


def run_of(runs, shown):
    return runs.get(Request.from_page(shown["request"]))


def maps_by_kind(run) -> dict[str, np.ndarray]:
    return dict(zip(("encoder_self", "decoder_self", "cross"), (getattr(run.trace, name) for name in MAPS), strict=True))


def store(name: str, lab: dict | None = None, **choices) -> dict:
    return {"lang": "en", "lab": {"keys": {name: "k1"}, **(lab or {})}, "kind": "cross", "layer": 1, "head": 1, **choices}


def test_masks_of_both_sentences(runs, shown):
    value = lab_values.masks(runs, shown, store("masks", {"second": SECOND}))
    json.dumps(value, allow_nan=False)
    first, second = value["sentences"]
    run, other = run_of(runs, shown), runs.get(Request(SECOND, runs.translator.targets[0], 2))
    assert (first["text"], second["text"], value["key"]) == (TEXT, SECOND, "k1")
    assert (first["src_len"], first["tgt_len"]) == (len(run.trace.src_tokens), len(run.trace.tgt_in_tokens))
    assert (second["src_len"], second["tgt_len"]) == (len(other.trace.src_tokens), len(other.trace.tgt_in_tokens))
    src_len, tgt_len = (max(s[side] for s in (first, second)) for side in ("src_len", "tgt_len"))
    for sentence in (first, second):
        for side, length, whole in (("source", "src_len", src_len), ("target", "tgt_len", tgt_len)):
            names = [label["text"] for label in sentence[side]]
            assert len(names) == whole and names[sentence[length] :] == ["⟨padding⟩"] * (whole - sentence[length])
        assert sentence["target"][0]["text"] == "⟨start⟩"
    for b, sentence in enumerate((first, second)):
        seen = "0" * sentence["src_len"] + "x" * (src_len - sentence["src_len"])
        assert value["masks"]["encoder_self"][b] == [seen] * src_len and value["masks"]["cross"][b] == [seen] * tgt_len
        assert value["masks"]["decoder_self"][b] == ["0" * (t + 1) + "x" * (tgt_len - t - 1) for t in range(tgt_len)]
    assert value["leak"] == 0 and value["difference"] < 1e-5
    assert value["shapes"] == {"encoder_self": [2, 1, 1, src_len], "decoder_self": [tgt_len, tgt_len], "cross": [2, 1, 1, src_len]}


def test_a_batch_of_one(runs, shown):
    for second in ("", "   "):
        assert len(lab_values.masks(runs, shown, store("masks", {"second": second}))["sentences"]) == 1


def test_it_is_said_which_sentence_is_too_long(runs, shown, monkeypatch):
    translation, get = run_of(runs, shown).translation, runs.get
    src_len, tgt_len = len(translation.src_ids), len(translation.tgt_ids)
    monkeypatch.setattr(lab_values, "MAX_MASK_TOKENS", src_len - 1)
    with pytest.raises(lab_values.MasksTooLongError) as first:
        lab_values.masks(runs, shown, store("masks", {"second": "cat"}))
    assert first.value.code == "masks_too_long" and first.value.params["num_tokens"] >= src_len
    monkeypatch.setattr(lab_values, "MAX_MASK_TOKENS", max(src_len, tgt_len))
    monkeypatch.setattr(runs, "get", lambda request: run_of_length(request))
    more = {name: getattr(translation, name) * 4 for name in ("src_ids", "src_tokens")}
    long = replace(translation, **more)

    def run_of_length(request):
        run = get(request)
        return run if request.text != "cat" else replace(run, translation=long)

    with pytest.raises(lab_values.SecondTooLongError) as second:
        lab_values.masks(runs, shown, store("masks", {"second": "cat"}))
    assert second.value.code == "second_too_long" and second.value.params["num_tokens"] > max(src_len, tgt_len)


def test_hostile_text_is_data(runs, shown):
    text = '<img src=x onerror=alert(1)> "$x$"'
    value = lab_values.masks(runs, shown, store("masks", {"second": text}))
    assert "".join(label["text"] for label in value["sentences"][1]["source"]).count("<") <= 1  # as it was typed, for textContent
    assert "&lt;" not in json.dumps(value)


def test_serial_steps_are_named_by_what_they_read_and_write(runs, shown):
    value = lab_values.serial(runs, shown, store("serial"))
    json.dumps(value, allow_nan=False)
    run = run_of(runs, shown)
    assert value["tgt_len"] == value["whole"] == len(run.translation.tgt_ids)
    assert value["reads"][0] == "⟨start⟩" and value["reads"][1:] == value["writes"][:-1] and value["writes"][-1] == "⟨end⟩"
    for way, steps in (("parallel", 1), ("cached", value["tgt_len"]), ("uncached", value["tgt_len"])):
        found = value["ways"][way]
        least, middle, most = found["seconds"]
        assert len(found["operations"]) == steps and 0 < least <= middle <= most and found["repeats"] >= 1
    assert sum(value["ways"]["uncached"]["operations"]) > 2 * sum(value["ways"]["cached"]["operations"])
    assert max(*value["difference"]["cached"], *value["difference"]["uncached"]) < 1e-5


def test_norms_of_the_models_depth_or_another(runs):
    config = runs.translator.config
    own = [config.encoder.num_layers, config.decoder.num_layers]
    value, view = lab_values.norms(runs, store("norms"))
    assert value["layers"] == value["own"] == own and value["norm"] == config.norm
    deep, view = lab_values.norms(runs, store("norms", {"depth": 5}))
    assert deep["layers"] == [5, 5] and deep["growth"]["decoder"]["post"] > 1 > deep["growth"]["decoder"]["pre"]
    found = norm_gradients(5, 5, activation=config.activation).encoder["post"].mean(axis=0)
    assert deep["growth"]["encoder"]["post"] == pytest.approx(found[-1] / found[0]) and 0.6 < deep["growth"]["encoder"]["post"] < 1.7
    figure = json.loads(view)["views"]["en"]
    assert f"{deep['growth']['decoder']['post']:.2g} times the first" in figure["alt"] and len(figure["figure"]["data"]) == 8


def test_a_large_growth_is_no_power_of_ten_in_the_alternative_text(runs):
    value, view = lab_values.norms(runs, store("norms", {"depth": 18}))
    alt = json.loads(view)["views"]["en"]["alt"]
    assert value["growth"]["decoder"]["post"] > 100 and "e+" not in alt
    assert f"{round(value['growth']['decoder']['post'], -1):.0f} times" in alt


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
def test_scale_of_the_chosen_head(runs, shown, kind):
    value, view = lab_values.scale(runs, shown, store("scale", kind=kind))
    maps = maps_by_kind(run_of(runs, shown))
    weights = maps[kind][1, 1][int(kind == "decoder_self") :]
    assert value["divided"]["largest"][1] == pytest.approx(float(weights.max(axis=-1).mean()), abs=1e-5)
    assert value["heads"] == maps[kind].shape[1] and value["head"] == 1
    assert value["head_dim"] * value["heads"] == runs.translator.config.d_model
    assert value["keys"] == maps[kind].shape[3] and len(json.loads(view)["views"]["en"]["figure"]["data"]) == 16
    json.dumps(value, allow_nan=False)


def test_scale_of_no_single_head_and_of_a_layer_beyond(runs, shown):
    value, _ = lab_values.scale(runs, shown, store("scale", layer=99, head="mean"))
    assert value["layer"] == runs.translator.config.decoder.num_layers - 1 and value["head"] is None
    assert lab_values.scale(runs, shown, store("scale", layer=None, head=99))[0]["head"] == runs.translator.config.decoder.num_heads - 1


def test_counts_are_of_the_chosen_kind(runs, shown):
    maps, config = maps_by_kind(run_of(runs, shown)), runs.translator.config
    for kind, weights in maps.items():
        value, view = lab_values.counts(runs, shown, store("counts", kind=kind))
        assert (value["queries"], value["keys"], value["own"]) == (*weights.shape[2:], weights.shape[1])
        own = next(each for each in value["heads"] if each["num_heads"] == value["own"])
        assert own["weights"] == weights[0].size
        stack = runs.translator.model.encoder if kind == "encoder_self" else runs.translator.model.decoder
        module = stack[0].cross_attn if kind == "cross" else stack[0].self_attn
        assert {each["parameters"] for each in value["heads"]} == {sum(parameter.numel() for parameter in module.parameters())}
        assert value["bytes"][kind] == {
            "layers": weights.shape[0], "here": weights[0].nbytes, "far": weights.shape[1] * config.max_len**2 * 4,
        }
    areas = json.loads(view)["views"]["en"]["figure"]["data"]
    assert [area["name"] for area in areas[:3]] == ["Encoder", "Decoder", "Cross"]


BAD = [
    ("masks", {"second": 3}),
    ("masks", {"second": "x" * 401}),
    ("masks", {"second": "the cat " * 45}),
    ("norms", {"depth": 0}),
    ("norms", {"depth": 19}),
    ("norms", {"depth": "6"}),
    ("norms", {"depth": True}),
]


@pytest.mark.parametrize(("name", "lab"), BAD)
def test_a_bad_choice_is_answered_in_words(runs, shown, name, lab):
    question = store(name, lab)
    ask = {"norms": lambda: lab_values.norms(runs, question), "masks": lambda: lab_values.masks(runs, shown, question)}[name]
    found = answer(name, ask, question)
    problem = found if name == "masks" else found[0]
    assert problem["key"] == "k1" and problem["problem"]["code"] in ("invalid_setting", "second_too_long", "text_too_long")
    assert f"error.{problem['problem']['code']}" in LANGUAGES["zh"]


@pytest.mark.parametrize("page", [None, [], "x", {"lab": 3}, {"lab": {"keys": "x"}}, {"lab": {"keys": {"masks": "k" * 101}}}, {"model": 7}])
@pytest.mark.parametrize("result", [None, {}, {"request": 3}, {"request": {"text": 1, "target": 2}}])
def test_whatever_a_page_sends_is_answered(runs, page, result):
    for name, values in (
        ("masks", lambda: lab_values.masks(runs, result, page)),
        ("serial", lambda: lab_values.serial(runs, result, page)),
        ("scale", lambda: lab_values.scale(runs, result, page)),
        ("counts", lambda: lab_values.counts(runs, result, page)),
    ):
        found = answer(name, values, page)
        problem = found if isinstance(found, dict) else found[0]
        assert problem["key"] == "" and problem["problem"]["code"] in ("invalid_setting", "model_not_loaded")


def test_a_run_of_another_model_is_not_shown(runs, shown):
    other = {"request": {**shown["request"], "model": "Helsinki-NLP/opus-mt-en-de"}}
    found = answer("serial", lambda: lab_values.serial(runs, other, store("serial")), store("serial"))
    assert found["problem"]["code"] == "invalid_setting"


def test_without_weights_there_is_a_sentence_instead():
    fake = FakeTranslator()
    runs = RunCache(fake, fake_run(fake))
    shown = {"request": runs.recorded.request.as_dict()}
    for name, values in (
        ("masks", lambda: lab_values.masks(runs, shown, store("masks"))),
        ("serial", lambda: lab_values.serial(runs, shown, store("serial"))),
        ("scale", lambda: lab_values.scale(runs, shown, store("scale"))),
        ("norms", lambda: lab_values.norms(runs, store("norms"))),
        ("counts", lambda: lab_values.counts(runs, shown, store("counts"))),
    ):
        found = answer(name, values, store(name))
        assert (found if isinstance(found, dict) else found[0])["problem"]["code"] == "no_weights"


def test_every_experiment_has_its_words():
    for table in LANGUAGES.values():
        for name in EXPERIMENTS:
            assert {f"lab.{name}.{part}" for part in ("short", "question", "lead")} <= set(table)


def test_the_figures_speak_chinese(runs, shown):
    _, view = lab_values.counts(runs, shown, store("counts", lang="zh"))
    views = json.loads(view)["views"]
    assert list(views) == ["zh"] and "平方" in views["zh"]["alt"]
    assert views["zh"]["figure"]["layout"]["annotations"][0]["text"] == LANGUAGES["zh"]["lab.memory.bytes"]
    assert np.isfinite(views["zh"]["figure"]["layout"]["height"])
