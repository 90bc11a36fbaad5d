"""One number of a walk as a sum: the values read, the model's own weights, and nothing else."""

import numpy as np
import pytest
import torch

from model.analysis.cells import cell
from model.analysis.walkthrough import Place, Speech, walk
from model.errors import InvalidSettingError
from tests.model.analysis.walk_reference import SHAPES, SRC_IDS, TGT_IDS
from tests.model.factories import tiny_model

SPEECH = Speech((), True, str)
PLACES = [Place("encoder_self", 1, 2, 4), Place("decoder_self", 2, 1, 3), Place("cross", 1, 0, 5), Place("cross", 0, 1, 0)]


@pytest.fixture(scope="module", params=SHAPES)
def model(request):
    return tiny_model(**SHAPES[request.param])


def array(parameter):
    return parameter.detach().numpy()


def matrices(model, place):
    """stage -> (weight, bias, the first of its rows that belongs to the head)."""
    layer = (model.encoder if place.kind == "encoder_self" else model.decoder)[place.layer]
    attention, feed = getattr(layer, place.sublayer), layer.feed_forward
    first = place.head * model.config.d_model // attention.num_heads
    modules = {"projected": attention.out_proj, "hidden": feed.linear1, "ff_output": feed.linear2}
    found = {stage: (array(module.weight), array(module.bias), 0) for stage, module in modules.items()}
    for stage in ("q", "k", "v"):
        module = getattr(attention, f"{stage}_proj")
        found[stage] = (array(module.weight), array(module.bias), first)
    table = model.tgt_embedding.tokens.weight if model.output_weight is None else model.output_weight
    bias = np.zeros(len(table), np.float32) if model.output_bias is None else array(model.output_bias)
    return {**found, "logit": (array(table), bias, 0)}


def values(ours, key):
    """stage -> what the walk has there."""
    attention = ours.attention
    found = {"q": attention.q, "k": attention.k[key], "v": attention.v[key], "projected": attention.projected}
    return {**found, "hidden": ours.hidden, "ff_output": ours.sublayers[-1].output}


@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize("key", [0, 4])
def test_every_number_is_the_sum_of_its_products(model, place, key):
    ours = walk(model, SRC_IDS, TGT_IDS, place, SPEECH)
    for stage, expected in values(ours, key).items():
        weight, bias, first = matrices(model, place)[stage]
        for index in (0, 1, len(expected) - 1):
            found = cell(model, SRC_IDS, TGT_IDS, place, stage, index, key)
            assert (found.stage, found.index, found.key) == (stage, index, key if stage in "kv" else None)
            assert found.inputs.dtype == found.weights.dtype == np.float32 and found.inputs.shape == found.weights.shape
            np.testing.assert_array_equal(found.weights, weight[first + index])
            assert found.bias == bias[first + index]
            assert found.total == pytest.approx(expected[index], abs=1e-5)
            assert found.total == pytest.approx(sum(map(float, found.inputs * found.weights)) + found.bias, abs=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_what_a_sum_reads_is_what_the_walk_has_there(model, place):
    ours = walk(model, SRC_IDS, TGT_IDS, place, SPEECH)
    steps = {step.name: step for step in ours.sublayers}

    def reads(step):
        return step.before if step.normed is None else step.normed

    for stage, expected in (
        ("q", reads(steps[place.sublayer])),
        ("projected", ours.attention.joined),
        ("hidden", reads(steps["feed_forward"])),
        ("ff_output", ours.active),
    ):
        np.testing.assert_array_equal(cell(model, SRC_IDS, TGT_IDS, place, stage, 0).inputs, expected)
    # a key reads what its own row reads as a query; in cross-attention, what the encoder ends with
    other = Place("encoder_self", 0, 0, 3) if place.kind == "cross" else Place(place.kind, place.layer, place.head, 3)
    there = walk(model, SRC_IDS, TGT_IDS, other, SPEECH)
    expected = there.final if place.kind == "cross" else reads({step.name: step for step in there.sublayers}["self_attn"])
    for stage in ("k", "v"):
        np.testing.assert_array_equal(cell(model, SRC_IDS, TGT_IDS, place, stage, 0, 3).inputs, expected)


@pytest.mark.parametrize("place", PLACES[1:], ids=str)
def test_logits_are_sums_over_the_final_state(model, place):
    ours = walk(model, SRC_IDS, TGT_IDS, place, SPEECH)
    weight, bias, _ = matrices(model, place)["logit"]
    for guess in ours.top:
        found = cell(model, SRC_IDS, TGT_IDS, place, "logit", guess.token_id)
        np.testing.assert_array_equal(found.inputs, ours.final)
        np.testing.assert_array_equal(found.weights, weight[guess.token_id])
        assert found.bias == bias[guess.token_id] and found.total == pytest.approx(guess.logit, abs=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_norm_is_one_product_per_number(model, place):
    ours = walk(model, SRC_IDS, TGT_IDS, place, SPEECH)
    layer = (model.encoder if place.kind == "encoder_self" else model.decoder)[place.layer]
    for step in ours.sublayers:
        norm = getattr(layer, f"{step.name}_norm")
        read, made = (step.added, step.after) if step.normed is None else (step.before, step.normed)
        for index in (0, 7, 15):
            found = cell(model, SRC_IDS, TGT_IDS, place, "normed", index, step.name)
            level = (read[index] - read.mean()) / np.sqrt(read.var() + model.config.layer_norm_eps)
            assert found.inputs.tolist() == pytest.approx([level], abs=1e-5) and found.key == step.name
            assert (found.weights.tolist(), found.bias) == ([norm.weight[index].item()], norm.bias[index].item())
            assert found.total == pytest.approx(made[index], abs=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_closing_norm_is_one_product_per_number(model, place):
    ours = walk(model, SRC_IDS, TGT_IDS, place, SPEECH)
    if model.config.norm == "post":
        with pytest.raises(InvalidSettingError):
            cell(model, SRC_IDS, TGT_IDS, place, "final", 0)
        return
    norm = model.encoder_norm if place.kind == "encoder_self" else model.decoder_norm
    for index in (0, 7, 15):
        found = cell(model, SRC_IDS, TGT_IDS, place, "final", index)
        level = (ours.closing.before[index] - ours.closing.mean) / np.sqrt(ours.closing.variance + model.config.layer_norm_eps)
        assert found.inputs.tolist() == pytest.approx([level], abs=1e-5) and found.key is None
        assert (found.weights.tolist(), found.bias) == ([norm.weight[index].item()], norm.bias[index].item())
        assert found.total == pytest.approx(ours.final[index], abs=1e-5)


NARROW = [np.int64, np.uint8, np.int8, torch.tensor]


@pytest.mark.parametrize("whole", NARROW, ids=lambda each: each.__name__)
def test_whole_numbers_of_others_are_whole_numbers(whole):
    """Narrow ones, too, that the model's own sizes would run over."""
    model = tiny_model(num_decoder_heads=8, d_model=128, d_ff=300)
    asked = ("cross", "v", 15, 4), ("decoder_self", "hidden", 127, None), ("encoder_self", "normed", 99, "self_attn")
    for kind, stage, index, key in asked:
        head = 3 if kind == "encoder_self" else 7
        place, other = Place(kind, 1, head, 4), Place(kind, whole(1), whole(head), whole(4))
        ours, theirs = (walk(model, SRC_IDS, TGT_IDS, each, SPEECH) for each in (place, other))
        assert theirs.place == place and all(type(value) is int for value in (theirs.place.layer, theirs.place.head, theirs.place.row))
        np.testing.assert_array_equal(ours.attention.weights, theirs.attention.weights)
        key_too = whole(key) if isinstance(key, int) else key
        one = cell(model, SRC_IDS, TGT_IDS, place, stage, index, key)
        two = cell(model, SRC_IDS, TGT_IDS, other, stage, whole(index), key_too)
        assert (one.total, one.index, one.key) == (two.total, two.index, two.key)
        np.testing.assert_array_equal(one.weights, two.weights)


@pytest.mark.parametrize("value", [np.bool_(True), torch.tensor(True), np.float64(1), np.int64(-1), np.int64(5), np.array([1]), "1", None])
def test_what_is_no_whole_number_is_refused(value):
    for place in (Place("cross", value, 0, 0), Place("cross", 0, 0, 0)):
        with pytest.raises(InvalidSettingError):
            cell(tiny_model(), SRC_IDS, TGT_IDS, place, "k", 0, value)


@pytest.mark.parametrize(
    ("place", "asked", "name"),
    [
        (PLACES[0], ("logit", 0), "stage"),  # the encoder says nothing
        (PLACES[1], ("softmax", 0), "stage"),
        (PLACES[1], (None, 0), "stage"),
        (PLACES[1], (["q"], 0), "stage"),
        (PLACES[1], ("q", 4), "index"),  # d_k is 4
        (PLACES[1], ("q", -1), "index"),
        (PLACES[1], ("hidden", 24), "index"),
        (PLACES[1], ("projected", 16), "index"),
        (PLACES[1], ("normed", 16, "self_attn"), "index"),
        (PLACES[1], ("logit", 13), "index"),
        (PLACES[1], ("logit", True), "index"),
        (PLACES[1], ("logit", 1.5), "index"),
        (PLACES[1], ("k", 0), "key"),
        (PLACES[1], ("k", 0, 6), "key"),
        (PLACES[2], ("v", 0, 5), "key"),  # the source has five
        (PLACES[0], ("v", 0, 5), "key"),
        (PLACES[0], ("normed", 0, "cross_attn"), "key"),  # the encoder has none
        (PLACES[1], ("normed", 0, 1), "key"),
        (PLACES[1], ("normed", 0, ["self_attn"]), "key"),
        (Place("cross", 0, 4, 0), ("q", 0), "head"),
    ],
)
def test_what_is_not_there_is_refused(place, asked, name):
    with pytest.raises(InvalidSettingError) as error:
        cell(tiny_model(), SRC_IDS, TGT_IDS, place, *asked)
    assert error.value.params["name"] == name
