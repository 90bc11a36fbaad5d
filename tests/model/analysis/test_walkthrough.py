"""One position's walk against torch's own modules: every number of it, in every kind of model, for every row."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.analysis import arithmetic
from model.analysis.walkthrough import NUM_TOP, Place, Speech, walk
from model.errors import InvalidSettingError
from tests.model.analysis.walk_reference import SHAPES, SRC_IDS, TGT_IDS, decoder_reference, encoder_reference
from tests.model.factories import tiny_model

KINDS = ("encoder_self", "decoder_self", "cross")
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
SPEECH = Speech((0, 3, 5), True, "token {}".format)  # 5 stands in the translation
PLACES = [Place("encoder_self", 0, 3, 0), Place("encoder_self", 1, 1, 4), Place("encoder_self", 1, 2, 2)]
PLACES += [Place(kind, *where) for kind in KINDS[1:] for where in ((0, 1, 0), (1, 0, 3), (2, 1, 5), (2, 0, 2))]


@pytest.fixture(scope="module", params=SHAPES)
def found(request):
    """A model, and what torch makes of both its stacks."""
    model = tiny_model(**SHAPES[request.param])
    return model, {True: encoder_reference(model), False: decoder_reference(model)}


def close(ours, theirs, **tolerance):
    assert ours.dtype == np.float32 and ours.shape == tuple(theirs.shape)
    np.testing.assert_allclose(ours, theirs.detach().numpy(), **{**CLOSE, **tolerance})


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_a_walk_is_what_torch_computes(found, place):
    model, references = found
    config, row = model.config, place.row
    theirs = references[place.kind == "encoder_self"]
    ours = walk(model, SRC_IDS, TGT_IDS, place, SPEECH)
    ids = SRC_IDS if place.kind == "encoder_self" else (1, *TGT_IDS[:-1])
    assert (ours.place, ours.token_id) == (place, ids[row])
    # into the stack
    factor = math.sqrt(config.d_model) if config.scale_embedding else 1.0
    assert ours.embedding_scale == pytest.approx(factor)
    close(ours.embedding, theirs.embedding[row])
    close(ours.scaled, theirs.embedding[row] * factor)
    close(ours.encoding, theirs.encoding[row])
    close(ours.total, theirs.total[row])
    # through it
    lengths = [theirs.total[row].norm(), *(layer[-1].after[row].norm() for layer in theirs.layers)]
    assert ours.stream_norms == pytest.approx([float(each.detach()) for each in lengths], rel=1e-4)
    steps = theirs.layers[place.layer]
    assert [each.name for each in ours.sublayers] == [each.name for each in steps]
    for mine, step in zip(ours.sublayers, steps, strict=True):
        assert (mine.normed is None) == (config.norm == "post")
        for name in ("before", "normed", "output", "added", "after"):
            if getattr(step, name) is not None:
                close(getattr(mine, name), getattr(step, name)[row])
        read = step.normalised[row].detach().numpy()
        assert (mine.mean, mine.variance) == pytest.approx((read.mean(), read.var()), abs=1e-5, rel=1e-4)
    close(ours.final, theirs.final[row])
    assert (ours.closing is None) == (config.norm == "post")
    if ours.closing is not None:
        last = theirs.layers[-1][-1].after[row].detach().numpy()
        close(ours.closing.before, theirs.layers[-1][-1].after[row])
        assert (ours.closing.mean, ours.closing.variance) == (pytest.approx(last.mean(), abs=1e-5), pytest.approx(last.var(), rel=1e-4))


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_head_is_what_its_own_matrices_make_of_the_words(found, place):
    """q, k, v from the slices of torch's one matrix, then plain numpy, key by key."""
    model, references = found
    step = next(each for each in references[place.kind == "encoder_self"].layers[place.layer] if each.name == place.sublayer)
    layer = (model.encoder if place.kind == "encoder_self" else model.decoder)[place.layer]
    module = getattr(layer, place.sublayer)
    head_dim = model.config.d_model // (model.config.encoder if place.kind == "encoder_self" else model.config.decoder).num_heads
    rows = slice(place.head * head_dim, (place.head + 1) * head_dim)
    reads = (step.before if step.normed is None else step.normed).detach()
    keys = references[True].final.detach() if place.kind == "cross" else reads
    ours = walk(model, SRC_IDS, TGT_IDS, place, SPEECH).attention
    assert ours.sublayer == place.sublayer
    with torch.no_grad():
        close(ours.q, F.linear(reads[place.row], module.q_proj.weight[rows], module.q_proj.bias[rows]))
        close(ours.k, F.linear(keys, module.k_proj.weight[rows], module.k_proj.bias[rows]))
        close(ours.v, F.linear(keys, module.v_proj.weight[rows], module.v_proj.bias[rows]))
    products = [sum(a * b for a, b in zip(ours.q, key, strict=True)) for key in ours.k]
    np.testing.assert_allclose(ours.products, products, **CLOSE)
    np.testing.assert_allclose(ours.scores, ours.products / np.sqrt(head_dim), rtol=1e-6)
    assert ours.masked.dtype == bool and ours.masked.tolist() == [place.kind == "decoder_self" and j > place.row for j in range(len(keys))]
    powers = np.where(ours.masked, 0.0, np.exp(ours.scores.astype(np.float64)))
    np.testing.assert_allclose(ours.weights, powers / powers.sum(), **CLOSE)
    close(ours.weights, step.weights[place.head, place.row])
    assert not ours.weights[ours.masked].any() and ours.weights.sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(ours.head_output, ours.weights @ ours.v, atol=1e-5)
    np.testing.assert_array_equal(ours.joined[rows], ours.head_output)
    close(ours.projected, step.output[place.row])
    kept = powers[powers > 0] / powers.sum()
    assert ours.entropy == pytest.approx(-(kept * np.log(kept)).sum(), abs=1e-5)


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_feed_forward_is_linear_active_linear(found, place):
    model, references = found
    step = references[place.kind == "encoder_self"].layers[place.layer][-1]
    module = (model.encoder if place.kind == "encoder_self" else model.decoder)[place.layer].feed_forward
    ours = walk(model, SRC_IDS, TGT_IDS, place, SPEECH)
    with torch.no_grad():
        hidden = F.linear((step.before if step.normed is None else step.normed)[place.row], module.linear1.weight, module.linear1.bias)
        close(ours.hidden, hidden)
        close(ours.active, {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}[model.config.activation](hidden))
    assert ours.hidden.shape == ((model.config.encoder if place.kind == "encoder_self" else model.config.decoder).d_ff,)


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("row", [0, 3, 5])
def test_what_comes_next_is_the_softmax_of_the_logits(found, row, renormalize):
    model, references = found
    with torch.no_grad():
        theirs = model.project(references[False].final[row]).double()
    banned = list(SPEECH.banned_ids)
    shared = theirs.clone()
    shared[banned] = -torch.inf
    probabilities = (shared if renormalize else theirs).softmax(dim=-1)
    probabilities[banned] = 0
    ours = walk(model, SRC_IDS, TGT_IDS, Place("cross", 1, 1, row), Speech(SPEECH.banned_ids, renormalize, SPEECH.name))
    order = probabilities.argsort(descending=True).tolist()[: min(NUM_TOP, len(theirs) - 3)]
    assert [each.token_id for each in ours.top] == order and [each.rank for each in ours.top] == list(range(1, len(order) + 1))
    for each in (*ours.top, ours.written):
        assert each.token == f"token {each.token_id}"
        assert each.logit == pytest.approx(float(theirs[each.token_id]), abs=1e-5)
        assert each.probability == pytest.approx(float(probabilities[each.token_id]), rel=1e-4)
        if each.token_id not in banned:
            assert math.exp(each.logit - ours.log_sum_exp) == pytest.approx(each.probability, rel=1e-6)
    assert ours.log_sum_exp == pytest.approx(float((shared if renormalize else theirs).logsumexp(dim=-1)), abs=1e-5)
    assert ours.written.token_id == TGT_IDS[row] and ours.never_written == 3 and ours.shared_anew is renormalize
    assert ours.written.rank == 1 + int((shared > theirs[TGT_IDS[row]]).sum())


def test_a_decoder_with_positions_of_its_own_is_walked_with_them():
    """Some foreign files hold two tables that differ."""
    model = tiny_model()
    model.tgt_positions = model.positions.flip(0) * 0.5
    for kind, table in (("encoder_self", model.positions), ("decoder_self", model.tgt_positions), ("cross", model.tgt_positions)):
        ours = walk(model, SRC_IDS, TGT_IDS, Place(kind, 1, 2, 3), SPEECH)
        close(ours.encoding, table[3])
        assert max(ours.check.weights, ours.check.layer, ours.check.final) < 1e-5


def test_the_encoder_says_nothing(found):
    ours = walk(found[0], SRC_IDS, TGT_IDS, Place("encoder_self", 0, 0, 0), SPEECH)
    assert (ours.top, ours.written, ours.log_sum_exp, ours.check.logits) == (None, None, None, None)


def test_the_model_stays_as_it_is_and_keeps_no_hook(found):
    model = found[0]
    before = {name: dict(module.__dict__) for name, module in model.named_modules()}
    walk(model, SRC_IDS, TGT_IDS, Place("decoder_self", 1, 0, 2), SPEECH)
    assert all(module.__dict__ == before[name] for name, module in model.named_modules())
    assert not any(module._forward_hooks for module in model.modules()) and not torch.is_inference_mode_enabled()


# --- the check ---


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_the_check_finds_no_difference_to_the_models_own_pass(found, place):
    check = walk(found[0], SRC_IDS, TGT_IDS, place, SPEECH).check
    values = [check.weights, check.layer, check.final, *([] if check.logits is None else [check.logits])]
    assert max(values) < 2e-5 and len(values) == 3 + (place.kind != "encoder_self")


FAULTS = {
    # what is wrong in the arithmetic: what the check must say of (weights, layer, final, logits) in layer 0
    "activate": (lambda x, name: x, (False, True, True, True)),
    "softmax": (lambda scores: torch.full_like(scores, 1 / scores.shape[-1]), (True, True, True, True)),
    "logits": (lambda model, states: states @ arithmetic.output_weight(model).T * 1.01, (False, False, False, True)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_check_tells_where_arithmetic_and_model_part(monkeypatch, name):
    """Where nothing that came before can be wrong, a fault shows where it acts and after, and nowhere else."""
    fault, wrong = FAULTS[name]
    monkeypatch.setattr(arithmetic, name, fault)
    model = tiny_model(num_encoder_layers=1)
    kind = "decoder_self"
    check = walk(model, SRC_IDS, TGT_IDS, Place(kind, 0, 1, 3), SPEECH).check
    assert [value > 1e-3 for value in (check.weights, check.layer, check.final, check.logits)] == list(wrong)
    encoder = walk(model, SRC_IDS, TGT_IDS, Place("encoder_self", 0, 1, 3), SPEECH).check
    assert [value > 1e-3 for value in (encoder.weights, encoder.layer, encoder.final)] == list(wrong[:3])


# --- what is not there ---


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (Place("encoder", 0, 0, 0), "kind"),
        (Place(None, 0, 0, 0), "kind"),
        (Place("encoder_self", 2, 0, 0), "layer"),  # the decoder has three
        (Place("cross", 3, 0, 0), "layer"),
        (Place("cross", -1, 0, 0), "layer"),
        (Place("cross", 0, 4, 0), "head"),
        (Place("cross", 0, True, 0), "head"),
        (Place("cross", 0, "mean", 0), "head"),
        (Place("encoder_self", 0, 0, 5), "row"),  # the target has six
        (Place("cross", 0, 0, 6), "row"),
        (Place("cross", 0, 0, 1.0), "row"),
    ],
)
def test_a_place_that_is_not_there_is_refused(place, name):
    with pytest.raises(InvalidSettingError) as error:
        walk(tiny_model(), SRC_IDS, TGT_IDS, place, SPEECH)
    assert error.value.params["name"] == name
