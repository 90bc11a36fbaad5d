"""What is counted from a configuration is what real modules have: names and shapes of parameters, shapes and operations of a pass."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.analysis.sizes import ATTENTION, layer_places, operations, places, shapes, sublayers, times, total_parameters, tying
from model.config import PRESETS, TransformerConfig, count_parameters
from model.hooks import ATTENTION_KINDS, AttentionRecorder, ValueRecorder, attention_hook, value_hook
from model.transformer import Transformer
from tests.model.factories import SRC_IDS, TGT_IN_IDS, tiny_config, tiny_model

LAYERS = [*(("encoder", i) for i in range(2)), *(("decoder", i) for i in range(3))]  # of the tiny models
ATTENTIONS = ("encoder.self_attn", "decoder.self_attn", "decoder.cross_attn")
UNEQUAL = {"num_decoder_heads": 2, "decoder_d_ff": 40}
CONFIGS = {
    "tiny": tiny_config(),
    "pre": tiny_config(norm="pre"),
    "marian": tiny_config(position_layout="halves", activation="silu", output_bias=True, **UNEQUAL),
    "two vocabularies": tiny_config(norm="pre", tie_embeddings=False, tgt_vocab_size=29, output_bias=True, **UNEQUAL),
    "output tied alone": tiny_config(tie_embeddings=False, tie_output=True, tgt_vocab_size=29),
    **PRESETS,
}


@pytest.fixture(params=CONFIGS, scope="module")
def config(request) -> TransformerConfig:
    return CONFIGS[request.param]


def listed(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor by its full name."""
    found = {}
    for name, place in places(config).items():
        for tensor, shape in place.tensors.items():
            for layer in range(times(config, name)):
                assert ("{layer}" in tensor) == ("." in name)
                found[tensor.format(layer=layer)] = shape
    return found


def test_names_and_shapes_are_those_of_the_real_module(config) -> None:
    with torch.device("meta"):  # shapes without numbers: the big one costs nothing
        model = Transformer(config)
    assert listed(config) == {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert total_parameters(config) == sum(parameter.numel() for parameter in model.parameters())


def test_tying_counts_real_modules_with_one_matrix_and_with_three(config) -> None:
    def real(**ties: bool) -> int:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in Transformer(replace(config, **ties)).parameters())

    one, three = tying(config)
    assert three == real(tie_embeddings=False, tie_output=False)
    if config.encoder.vocab_size == config.decoder.vocab_size:
        assert one == real(tie_embeddings=True, tie_output=False) == three - 2 * config.vocab_size * config.d_model
    else:
        assert one is None


def test_the_sums_are_those_of_the_other_counter(config) -> None:
    found: Counter[str] = Counter()
    other = {"self_attn": "{}_self_attention", "cross_attn": "cross_attention", "feed_forward": "{}_feed_forward"}
    for name, place in places(config).items():
        stack, _, part = name.partition(".")
        if "norm" in name:
            key = f"{stack.removesuffix('_norm')}_norm"
        else:
            key = other[part].format(stack) if part else {"output": "output_projection"}.get(name, "embedding")
        found[key] += place.count * times(config, name)
    assert dict(found) == count_parameters(config)


def test_base_and_big_are_about_as_large_as_the_paper_says() -> None:
    assert total_parameters(PRESETS["base"]) / 1e6 == pytest.approx(65, rel=0.06)
    assert total_parameters(PRESETS["big"]) / 1e6 == pytest.approx(213, rel=0.02)


def test_a_shared_matrix_is_counted_once_and_says_whose_it_is() -> None:
    tied, alone, none = (places(CONFIGS[name]) for name in ("tiny", "output tied alone", "two vocabularies"))
    assert (tied["tgt_embedding"].shared, tied["tgt_embedding"].count, tied["output"].shared) == ("src_embedding", 0, "src_embedding")
    assert (alone["tgt_embedding"].shared, alone["tgt_embedding"].count, alone["output"].shared) == ("", 29 * 16, "tgt_embedding")
    assert (none["output"].shared, none["output"].count) == ("", 29 * 16 + 29)


def test_only_pre_norm_ends_in_a_norm() -> None:
    assert {"encoder_norm", "decoder_norm"} <= places(tiny_config(norm="pre")).keys()
    assert not {"encoder_norm", "decoder_norm"} & places(tiny_config(norm="post")).keys()


# --- what flows ---


def caught(model: Transformer) -> dict[str, tuple[int, ...]]:
    """Shapes that a real pass over a sentence of 5 and one of 6 tokens has, caught at the modules; of layers the last one's."""
    found: dict[str, tuple[int, ...]] = {}
    handles = []

    def catch(module, name, output=True):
        def hook(_, inputs, result):
            found[name] = tuple((result if output else inputs[0]).shape[1:])

        handles.append(module.register_forward_hook(hook))

    for stack, embedding in (("encoder", model.src_embedding), ("decoder", model.tgt_embedding)):
        layer = getattr(model, stack)[-1]
        catch(layer, f"{stack}.state")
        catch(layer.feed_forward.linear1, f"{stack}.hidden")
        for name in sublayers(stack)[:-1]:
            attention = getattr(layer, name)
            for part in "qkv":
                catch(getattr(attention, f"{part}_proj"), f"{stack}.{name}.{part}")
            catch(attention.out_proj, f"{stack}.{name}.joined", output=False)
            catch(attention, f"{stack}.{name}.output")
        ids = SRC_IDS if stack == "encoder" else TGT_IN_IDS
        found[f"{stack}.ids"] = tuple(ids.shape[1:])
        found[f"{stack}.embedded"] = tuple(embedding.tokens(ids).shape[1:])
        found[f"{stack}.input"] = tuple(embedding(ids, model.positions[: ids.shape[1]]).shape[1:])
    with torch.no_grad(), attention_hook(AttentionRecorder()) as weights, value_hook(ValueRecorder()) as values:
        memory = model.encode(SRC_IDS[:1])
        states = model.decode(TGT_IN_IDS[:1], memory)
        found |= {"encoder.final": tuple(memory.shape[1:]), "decoder.final": tuple(states.shape[1:])}
        found["logits"] = tuple(model.project(states).shape[1:])
    for kind, name in zip(ATTENTION_KINDS, ATTENTIONS, strict=True):
        found[f"{name}.scores"] = tuple(weights.stack(kind).shape[2:])
        found[f"{name}.v_heads"] = tuple(values.stack(kind).shape[2:])
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("name", ["tiny", "pre", "marian", "two vocabularies"])
def test_shapes_are_those_of_a_real_pass(name: str) -> None:
    config = CONFIGS[name]
    model = tiny_model(**{key: getattr(config, key) for key in config.__dataclass_fields__})
    told, real = shapes(config, 5, 6), caught(model)
    missing = {f"{place}.{part}_heads" for place in ATTENTIONS for part in "qk"}
    assert {key: shape for key, shape in told.items() if key not in missing} == real
    for key in missing:  # split and turned, never a module's output: the same numbers, as many, and [H, length, K]
        heads, length, head_dim = told[key]
        whole = told[key.removesuffix("_heads")]
        assert (heads * length * head_dim, length) == (math.prod(whole), whole[0])
        assert (heads, head_dim) == (told[key[:-7] + "v_heads"][0], told[key[:-7] + "v_heads"][2])


def test_a_length_that_is_not_known_stays_a_letter() -> None:
    found = shapes(tiny_config())
    assert found["encoder.self_attn.scores"] == (4, "S", "S")
    assert found["decoder.cross_attn.scores"] == (4, "T", "S")
    assert found["logits"] == ("T", 13)


# --- operations ---


@pytest.mark.parametrize("name", ["tiny", "pre", "marian", "two vocabularies"])
def test_operations_are_those_that_torch_counts(name: str) -> None:
    config = CONFIGS[name]
    model = tiny_model(**{key: getattr(config, key) for key in config.__dataclass_fields__})
    # With a hook, attention is computed step by step; the fused kernel hides its products from some versions' counters.
    with torch.no_grad(), attention_hook(AttentionRecorder()), FlopCounterMode(display=False) as counter:
        model(SRC_IDS[:1], TGT_IN_IDS[:1])
    told = operations(config, 5, 6)
    assert sum(count * times(config, place) for place, count in told.items()) == counter.get_total_flops()
    counts = {name: sum(each.values()) for name, each in counter.get_flop_counts().items()}
    for stack in ("encoder", "decoder"):
        for part in sublayers(stack):
            assert told[f"{stack}.{part}"] == counts[f"Transformer.{stack}.1.{part}"]
    assert told["output"] == counts["Transformer"] - sum(counts[f"Transformer.{stack}.{i}"] for stack, i in LAYERS)
    assert told.keys() == places(config).keys()
    assert told["src_embedding"] == told["encoder.self_attn_norm"] == 0


def test_operations_of_cross_attention_go_by_both_lengths() -> None:
    """4 rows of queries (q and out: 2 products), 7 of keys (k and v), and 4 x 7 pairs twice, d_model 16."""
    assert operations(tiny_config(), 7, 4)["decoder.cross_attn"] == 2 * (2 * 4 + 2 * 7) * 16 * 16 + 2 * 2 * 4 * 7 * 16


def test_places_of_a_layer_are_in_the_order_of_a_pass() -> None:
    assert layer_places("encoder") == ("encoder.self_attn_norm", "encoder.self_attn", "encoder.feed_forward_norm", "encoder.feed_forward")
    assert [name.partition(".")[2] for name in layer_places("decoder")][1::2] == [*ATTENTION, "feed_forward"]
    assert set(layer_places("decoder")) <= places(tiny_config()).keys()
