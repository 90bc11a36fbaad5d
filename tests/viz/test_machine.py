"""The Machine tab before there is a browser: what it draws is what the loaded model is, and whatever a page sends is checked."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch

from model.config import PRESETS, TransformerConfig
from model.transformer import Transformer
from tests.model.factories import tiny_config, tiny_model
from tests.viz.fakes import FakeTranslator
from viz.panels.machine import answer
from viz.panels.machine_value import LIMITS, MachineChoice, OwnSizes, SplitError, machine_value
from viz.runs import RunCache
from viz.text import LANGUAGES

COUNTS = {"d_model": 24, "num_heads": 6, "num_encoder_layers": 5, "num_decoder_layers": 2, "d_ff": 40, "vocab_size": 90}
OWN = {**COUNTS, "norm": "pre", "tied": "none"}
RESULT = {"request": {"text": "x", "target": "fra", "model": "embedded"}, "num_tokens": {"source": 7, "target": 5}}


def translator(config: TransformerConfig) -> SimpleNamespace:
    """What `facts` reads of a translator, over a real module."""
    parameters = sum(parameter.numel() for parameter in Transformer(config).parameters())
    said = {"name": "tiny", "revision": None, "source_language": "eng", "targets": ("fra",), "dtype": "float32", "device": "cpu"}
    return SimpleNamespace(config=config, num_bytes=4 * parameters, **said)


def real_total(config: TransformerConfig) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in Transformer(config).parameters())


def runs_of(model: object) -> RunCache:
    return RunCache(model, None, None, 1000, None)


def ask(model: object, result: object = RESULT, **machine: object) -> tuple[object, dict | None]:
    message, value = answer(runs_of(model), result, {"model": "embedded", "machine": machine})
    return message, json.loads(value) if isinstance(value, str) else None


DECODER = {"num_decoder_heads": 2, "decoder_d_ff": 40, "tgt_vocab_size": 29}
UNEQUAL = tiny_config(norm="pre", tie_embeddings=False, output_bias=True, position_layout="halves", **DECODER)


@pytest.mark.parametrize("config", [tiny_config(), UNEQUAL])
def test_the_picture_is_of_the_loaded_model(config: TransformerConfig) -> None:
    message, value = ask(translator(config))
    assert message is None
    drawn, model = value["picture"], tiny_model(**{key: getattr(config, key) for key in config.__dataclass_fields__})
    assert drawn["config"] == "loaded" and drawn["total"] == sum(parameter.numel() for parameter in model.parameters())
    assert sum(place["count"] * place["times"] for place in drawn["places"].values()) == drawn["total"]
    for place in drawn["places"].values():
        assert place["count"] == sum(torch.Size(shape).numel() for _, shape in place["tensors"])
        assert place["operations"] >= 0
    for stack, side in (("encoder", model.encoder), ("decoder", model.decoder)):
        sizes = drawn["sizes"][stack]
        assert sizes["layers"] == len(side) and sizes["heads"] == side[0].self_attn.num_heads
        assert sizes["heads"] * sizes["head_dim"] == drawn["sizes"]["d_model"]
        assert sizes["d_ff"] == side[0].feed_forward.linear1.out_features
    assert drawn["sizes"]["scale"] == model.src_embedding.scale == 4.0
    assert drawn["shapes"]["decoder.cross_attn.scores"] == [drawn["sizes"]["decoder"]["heads"], 5, 7]
    assert value["facts"]["layout"] == config.position_layout and value["facts"]["dtype"] == "float32"
    assert value["asked"] == {"model": "embedded", "config": "loaded", "own": None, "lengths": [7, 5]}


def test_tied_says_which_matrices_are_one() -> None:
    alone = tiny_config(tie_embeddings=False, tie_output=True)
    said = [ask(translator(config))[1]["picture"]["sizes"]["tied"] for config in (tiny_config(), alone, UNEQUAL)]
    assert said == ["all", "output", "none"]


@pytest.mark.parametrize("name", ["base", "big"])
def test_the_paper_s_models_are_drawn_whatever_is_loaded(name: str) -> None:
    for model in (translator(tiny_config()), FakeTranslator(), None):
        _, value = ask(model, config=name)
        assert value["picture"]["config"] == name and value["picture"]["total"] == real_total(PRESETS[name])
        assert (value["facts"] is None) == (model is None or isinstance(model, FakeTranslator))


@pytest.mark.parametrize("model", [None, FakeTranslator()])
def test_without_a_model_that_tells_its_sizes_the_base_model_is_drawn(model: object) -> None:
    message, value = ask(model)
    assert message is None and value["facts"] is None
    assert value["picture"]["config"] == "base" and [each["config"] for each in value["compare"]] == ["base", "big"]
    assert value["own"] == OwnSizes.of(PRESETS["base"]).as_dict()


def test_own_sizes_count_what_a_real_module_of_them_has() -> None:
    _, value = ask(translator(tiny_config()), typed=OWN, config="own")
    config = TransformerConfig(**{name: OWN[name] for name in LIMITS}, norm="pre", tie_embeddings=False)
    assert value["picture"]["total"] == real_total(config)
    assert [each["config"] for each in value["compare"]] == ["loaded", "base", "big", "own"]
    own = value["compare"][-1]
    assert own["total"] == sum(own["parts"].values()) == real_total(config)
    assert value["picture"]["operations"] == own["operations"]


def test_own_sizes_begin_as_the_loaded_model_s() -> None:
    _, value = ask(translator(tiny_config(norm="pre")), config="own")
    assert value["own"] == {**{name: getattr(tiny_config(), name) for name in LIMITS}, "norm": "pre", "tied": "all"}
    assert value["picture"]["total"] == real_total(tiny_config(norm="pre"))


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "8", None, 10**9, [2], float("nan")])
def test_a_size_outside_its_limits_is_named(name: str, wrong: object) -> None:
    message, value = ask(translator(tiny_config()), typed={**OWN, name: wrong}, config="own")
    refused = value["refused"]
    assert message is None and refused["code"] == "machine_size"
    assert refused["params"]["size"] == name and (refused["params"]["low"], refused["params"]["high"]) == LIMITS[name]
    assert value["picture"]["total"] == real_total(tiny_config()) and value["asked"]["config"] == "loaded"  # something to look at


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"d_model": 15}, "machine_odd"),
        ({"num_heads": 5}, "machine_split"),
        ({"norm": "both"}, "invalid_setting"),
        ({"tied": True}, "invalid_setting"),
    ],
)
def test_what_cannot_be_built_is_said(change: dict, code: str) -> None:
    message, value = ask(translator(tiny_config()), typed={**OWN, **change}, config="own")
    assert message is None and value["refused"]["code"] == code and value["asked"]["own"] is None
    for config in ("loaded", "base", "big"):  # what is in the form spoils no other configuration
        _, value = ask(translator(tiny_config()), typed={**OWN, **change}, own=OWN, config=config)
        assert value["refused"] is None and value["picture"]["config"] == config and value["asked"]["own"] == OWN
    assert code == "invalid_setting" or all(f"error.{code}" in table for table in LANGUAGES.values())


def test_a_split_that_fails_names_those_that_do_not() -> None:
    assert SplitError(24, 5).params["possible"] == [1, 2, 3, 4, 6, 8, 12, 24]


def test_every_limit_is_a_configuration() -> None:
    for end in (0, 1):
        sizes = {name: limits[end] for name, limits in LIMITS.items()}
        assert OwnSizes.checked({**sizes, "norm": "post", "tied": "all"}).config.d_model == sizes["d_model"]


@pytest.mark.parametrize("result", [None, 3, {"request": 3}, {"request": {"model": "another"}, "num_tokens": {"source": 7, "target": 5}}])
def test_without_a_sentence_of_this_model_lengths_stay_letters(result: object) -> None:
    _, value = ask(translator(tiny_config()), result)
    assert value["asked"]["lengths"] is None and value["picture"]["operations"] is None
    assert value["picture"]["shapes"]["encoder.self_attn.scores"] == [4, "S", "S"]
    assert {place["operations"] for place in value["picture"]["places"].values()} == {None}


@pytest.mark.parametrize("lengths", [{}, {"source": 0, "target": 5}, {"source": 7, "target": "5"}, {"source": 7, "target": 10**9}])
def test_lengths_that_are_none_are_refused(lengths: dict) -> None:
    message, value = ask(translator(tiny_config()), {**RESULT, "num_tokens": lengths})
    assert value is None and message["code"] == "machine_size"


@pytest.mark.parametrize(
    "store", [None, 3, {"model": 3}, {"machine": {"config": "huge"}}, {"machine": {"config": ["base"]}}, {"model": "not loaded"}]
)
def test_whatever_else_a_page_sends_is_no_crash(store: object) -> None:
    message, value = answer(runs_of(translator(tiny_config())), RESULT, store)
    if message is None:
        assert json.loads(value)["picture"]["config"] == "loaded"
    else:
        assert message["code"] in ("invalid_setting", "model_not_loaded")


def test_a_marian_model_with_unequal_stacks_gives_the_form_its_encoder_s_sizes() -> None:
    value = json.loads(machine_value(MachineChoice("m", "loaded", None, None), translator(UNEQUAL)))
    assert value["own"]["num_heads"] == 4 and value["own"]["d_ff"] == 24 and value["own"]["tied"] == "none"
    assert value["uneven"] and value["same"] == []


def test_sizes_that_another_configuration_has_are_told_as_the_same() -> None:
    def same(model: object, own: dict | None) -> list[str]:
        return ask(model, config="own", typed=own)[1]["same"]

    loaded = translator(tiny_config(norm="pre"))
    assert same(loaded, None) == ["loaded"] and same(loaded, OWN) == []
    assert same(loaded, OwnSizes.of(PRESETS["base"]).as_dict()) == ["base"]
    assert same(translator(PRESETS["big"]), None) == ["loaded", "big"]
    assert same(translator(tiny_config(output_bias=True)), None) == []  # a bias that one's own have not: another count
    assert not ask(loaded, config="own")[1]["uneven"]
