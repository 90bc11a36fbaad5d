import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError, replace
from itertools import product
from pathlib import Path

import pytest
import torch

from model.config import PRESETS, StackSizes, TransformerConfig, count_parameters, preset
from model.transformer import Transformer
from tests.model.factories import tiny_config

SIZES = ("vocab_size", "d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "d_ff", "max_len")


def test_defaults_are_the_base_model_of_2017():
    config = TransformerConfig(vocab_size=37_000)
    assert config == PRESETS["base"]
    assert (config.d_model, config.num_heads, config.d_ff, config.dropout) == (512, 8, 2048, 0.1)
    assert (config.num_encoder_layers, config.num_decoder_layers) == (6, 6)
    assert (config.norm, config.activation, config.position_layout) == ("post", "relu", "interleaved")
    assert config.scale_embedding and config.tie_embeddings and not config.output_bias
    assert config.head_dim == 64


def test_big_preset_is_that_of_2017():
    config = PRESETS["big"]
    assert (config.d_model, config.num_heads, config.d_ff, config.dropout) == (1024, 16, 4096, 0.3)
    assert (config.num_encoder_layers, config.num_decoder_layers, config.head_dim) == (6, 6, 64)


def test_preset_takes_changes_and_leaves_the_table_alone():
    assert preset("base", vocab_size=100, norm="pre") == TransformerConfig(vocab_size=100, norm="pre")
    assert PRESETS["base"].vocab_size == 37_000


def test_unknown_preset_says_which_exist():
    with pytest.raises(ValueError, match=r"'huge'.*base, big"):
        preset("huge")


def test_impossible_change_of_a_preset_is_refused():
    with pytest.raises(ValueError, match="7 heads"):
        preset("base", num_heads=7)


def test_config_is_frozen_and_hashable():
    config = tiny_config()
    with pytest.raises(FrozenInstanceError):
        config.d_model = 32
    assert hash(config) == hash(tiny_config()) and config == tiny_config()


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("value", [0, -4, 4.0, True, "4", None])
def test_sizes_must_be_positive_whole_numbers(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a positive whole number") as error:
        tiny_config(**{name: value})
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"d_model": 15, "num_heads": 3}, "d_model must be even.*15"),
        ({"num_heads": 3}, "d_model 16 cannot be split into 3 heads"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\), not 1.0"),
        ({"dropout": -0.1}, r"dropout must lie in \[0, 1\), not -0.1"),
        ({"dropout": float("nan")}, r"dropout must lie in \[0, 1\), not nan"),
        ({"attention_dropout": 1.5}, r"attention_dropout must lie in \[0, 1\), not 1.5"),
        ({"activation": "tanh"}, "activation must be one of relu, gelu, silu, not 'tanh'"),
        ({"norm": "both"}, "norm must be one of post, pre, not 'both'"),
        ({"position_layout": "learned"}, "position_layout must be one of interleaved, halves, not 'learned'"),
        ({"layer_norm_eps": 0.0}, "layer_norm_eps must be positive.*0.0"),
        ({"layer_norm_eps": -1e-5}, "layer_norm_eps must be positive"),
        ({"layer_norm_eps": float("nan")}, "layer_norm_eps must be positive.*nan"),
        ({"pad_id": 13}, "pad_id 13 lies outside the vocabulary of 13"),
        ({"bos_id": -1}, "bos_id -1 lies outside the vocabulary"),
        ({"eos_id": 2.0}, "eos_id 2.0"),
        ({"unk_id": None}, "unk_id None"),
    ],
)
def test_values_that_describe_no_model_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        tiny_config(**changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("dropout", "0.1"),
        ("dropout", None),
        ("attention_dropout", False),
        ("layer_norm_eps", float("inf")),
        ("layer_norm_eps", "1e-5"),
        ("layer_norm_eps", True),
        ("layer_norm_eps", None),
        ("pad_id", True),
        ("scale_embedding", "no"),
        ("tie_embeddings", None),
        ("output_bias", 2),
    ],
)
def test_a_value_of_the_wrong_type_is_refused(name, value):
    with pytest.raises(ValueError, match=name):
        tiny_config(**{name: value})


def _part(name: str) -> str:
    """The part that a parameter of the module belongs to, from its name alone."""
    where, _, rest = name.partition(".")
    if where in ("src_embedding", "tgt_embedding"):
        return "embedding"
    if where in ("output_weight", "output_bias"):
        return "output_projection"
    if where in ("encoder_norm", "decoder_norm") or "_norm." in rest:
        return f"{where.removesuffix('_norm')}_norm"
    sublayer = rest.split(".")[1]
    return {"self_attn": f"{where}_self_attention", "cross_attn": "cross_attention", "feed_forward": f"{where}_feed_forward"}[sublayer]


def _count_by_part(model: Transformer) -> dict[str, int]:
    parts = Counter()
    for name, parameter in model.named_parameters():
        assert parameter.requires_grad
        parts[_part(name)] += parameter.numel()
    return dict(parts)


@pytest.mark.parametrize(("tied", "norm", "bias"), list(product([True, False], ["post", "pre"], [True, False])))
def test_counted_parameters_equal_the_modules_by_part(tied, norm, bias):
    config = tiny_config(tie_embeddings=tied, norm=norm, output_bias=bias)
    model = Transformer(config)
    counted = count_parameters(config)
    assert {part: n for part, n in counted.items() if n} == _count_by_part(model)
    assert sum(counted.values()) == sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(("name", "millions"), [("base", 65), ("big", 213)])
def test_presets_have_the_size_the_paper_prints(name, millions):
    """Table 3 rounds and its vocabulary is "about 37000", so within 4 %."""
    counted = count_parameters(PRESETS[name])
    assert sum(counted.values()) == pytest.approx(millions * 1e6, rel=0.04)
    with torch.device("meta"):  # the real module's shapes, without its memory
        model = Transformer(PRESETS[name])
    assert {part: n for part, n in counted.items() if n} == _count_by_part(model)


UNEQUAL = {"num_decoder_heads": 2, "decoder_d_ff": 40, "tie_embeddings": False, "tgt_vocab_size": 17}


def test_the_decoder_is_as_the_encoder_unless_told():
    config = tiny_config()
    assert (config.encoder, config.decoder) == (StackSizes(2, 4, 24, 13), StackSizes(3, 4, 24, 13))
    config = tiny_config(**UNEQUAL)
    assert (config.encoder, config.decoder) == (StackSizes(2, 4, 24, 13), StackSizes(3, 2, 40, 17))
    assert replace(tiny_config(), num_heads=8, d_ff=10, vocab_size=14).decoder == StackSizes(3, 8, 10, 14)


@pytest.mark.parametrize("name", ["num_decoder_heads", "decoder_d_ff", "tgt_vocab_size"])
@pytest.mark.parametrize("value", [0, -4, 4.0, True, "4"])
def test_sizes_of_the_decoder_are_checked(name, value):
    with pytest.raises(ValueError, match=f"{name} must be a positive whole number or nothing") as error:
        tiny_config(**{name: value})
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_decoder_heads": 3}, "16 cannot be split into 3 heads"),
        ({"tgt_vocab_size": 17}, "vocabularies of 13 and 17 cannot share one matrix"),
        ({"tgt_vocab_size": 10, "tie_embeddings": False, "eos_id": 10}, "eos_id 10 lies outside the vocabulary of 10"),
        ({"tgt_vocab_size": 10, "tie_embeddings": False, "pad_id": 12}, "pad_id 12 lies outside the vocabulary of 10"),
        ({"tgt_vocab_size": 17, "tie_embeddings": False, "bos_id": 13}, "bos_id 13 lies outside the vocabulary of 13"),
        ({"tie_output": None}, "tie_output must be true or false"),
    ],
)
def test_decoders_that_fit_no_model_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        tiny_config(**changes)


def test_the_unknown_token_need_not_be_in_the_target_vocabulary():
    assert tiny_config(tgt_vocab_size=10, tie_embeddings=False, unk_id=12).unk_id == 12


@pytest.mark.parametrize("tie_output", [True, False])
def test_counted_parameters_of_unequal_stacks_equal_the_modules_by_part(tie_output):
    config = tiny_config(**UNEQUAL, output_bias=True, tie_output=tie_output)
    model = Transformer(config)
    assert count_parameters(config) == _count_by_part(model) | ({"output_projection": 17} if tie_output else {})
    assert sum(count_parameters(config).values()) == sum(p.numel() for p in model.parameters())


def test_tying_saves_two_matrices():
    tied, untied = (sum(count_parameters(tiny_config(tie_embeddings=tie)).values()) for tie in (True, False))
    assert untied - tied == 2 * 13 * 16


def test_configuration_alone_costs_no_torch():
    code = "import sys, model.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], timeout=60).returncode == 0
