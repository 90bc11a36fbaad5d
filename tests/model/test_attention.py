import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.attention import MultiHeadAttention, scaled_dot_product_attention
from model.hooks import AttentionRecorder, AttentionSite, attention_hook
from model.masks import causal_mask
from tests.model.factories import fill, random, tiny_config, torch_attention

SITE = AttentionSite("cross", 1)
# key 4 of row 1 and keys 2.. of row 2 are padding
KEY_MASK = torch.tensor([[True] * 5, [True] * 4 + [False], [True, True, False, False, False]])


def numpy_attention(q, k, v, allowed):
    """Equation 1 in float64, one query at a time, leaving out the keys that are masked rather than adding -inf."""
    q, k, v = (array.double().numpy() for array in (q, k, v))
    allowed = np.broadcast_to(np.asarray(allowed), (*q.shape[:3], k.shape[2]))
    weights, out = np.zeros(allowed.shape), np.zeros(q.shape)
    for b, h, t in np.ndindex(q.shape[:3]):
        keys = np.flatnonzero(allowed[b, h, t])
        powers = [math.exp(sum(q[b, h, t] * k[b, h, s]) / math.sqrt(q.shape[3])) for s in keys]
        for s, power in zip(keys, powers, strict=True):
            weights[b, h, t, s] = power / sum(powers)
            out[b, h, t] += power / sum(powers) * v[b, h, s]
    return weights, out


def attention(site: AttentionSite = SITE, seed: int = 3, **changes: object) -> MultiHeadAttention:
    return fill(MultiHeadAttention(tiny_config(**changes), site), seed).eval()


def weights_of(module: MultiHeadAttention, *args: object) -> tuple[torch.Tensor, torch.Tensor]:
    """The output and the recorded weights [B, H, T, S]."""
    with attention_hook(AttentionRecorder()) as recorder:
        out = module(*args)
    return out, recorder.weights[module.site]


@pytest.mark.parametrize("masked", ["nothing", "padding", "causal", "both"])
def test_the_function_is_equation_1(masked):
    q, k, v = random(3, 2, 5, 4, seed=1), random(3, 2, 5, 4, seed=2), random(3, 2, 5, 4, seed=3)
    padding, causal = KEY_MASK[:, None, None, :], causal_mask(5)
    mask = {"nothing": None, "padding": padding, "causal": causal, "both": padding & causal}[masked]
    with attention_hook(AttentionRecorder()) as recorder:
        out = scaled_dot_product_attention(q, k, v, mask, site=SITE)
    expected_weights, expected = numpy_attention(q, k, v, True if mask is None else mask)
    weights = recorder.weights[SITE]
    np.testing.assert_allclose(weights.numpy(), expected_weights, atol=1e-6)
    np.testing.assert_allclose(out.numpy(), expected, atol=1e-6)
    if mask is not None:
        assert (weights[~mask.expand_as(weights)] == 0).all()  # exactly
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2, 5), atol=1e-6, rtol=0)


def test_queries_and_keys_may_differ_in_number():
    q, k, v = random(2, 3, 4, 6, seed=1), random(2, 3, 7, 6, seed=2), random(2, 3, 7, 6, seed=3)
    out = scaled_dot_product_attention(q, k, v)
    assert out.shape == (2, 3, 4, 6)
    np.testing.assert_allclose(out.numpy(), numpy_attention(q, k, v, True)[1], atol=1e-6)


def test_huge_scores_stay_finite():
    q = torch.full((1, 1, 2, 4), 1e4)
    out = scaled_dot_product_attention(q, q, random(1, 1, 2, 4))
    assert out.isfinite().all()


def test_a_query_without_a_key_is_nan_and_not_a_silent_guess():
    q = random(1, 1, 2, 4)
    out = scaled_dot_product_attention(q, q, q, torch.tensor([[True, True], [False, False]]))
    assert out[0, 0, 0].isfinite().all() and out[0, 0, 1].isnan().all()


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("masked", ["nothing", "padding", "causal", "both"])
def test_parity_with_nn_multiheadattention(masked, cross, hooked):
    ours = attention()
    theirs = torch_attention(ours).eval()
    query, memory = random(3, 5, 16, seed=1), random(3, 5, 16, seed=2)
    key_mask = KEY_MASK if masked in ("padding", "both") else None
    square_mask = causal_mask(5) if masked in ("causal", "both") else None
    key = memory if cross else query
    mask = None if key_mask is None else key_mask[:, None, None, :]
    if square_mask is not None:
        mask = square_mask if mask is None else mask & square_mask
    expected, expected_weights = theirs(
        query,
        key,
        key,
        key_padding_mask=None if key_mask is None else ~key_mask,  # torch: True = hidden
        attn_mask=None if square_mask is None else ~square_mask,
        need_weights=True,
        average_attn_weights=False,
    )
    args = (query, memory if cross else None, mask)
    if hooked:
        out, weights = weights_of(ours, *args)
        torch.testing.assert_close(weights, expected_weights, atol=1e-5, rtol=0)  # each head on its own
    else:
        out = ours(*args)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)


def test_more_queries_than_keys_against_nn_multiheadattention():
    ours = attention()
    query, memory = random(2, 7, 16, seed=1), random(2, 3, 16, seed=2)
    expected, expected_weights = torch_attention(ours)(query, memory, memory, average_attn_weights=False)
    out, weights = weights_of(ours, query, memory, None)
    assert weights.shape == (2, 4, 7, 3)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights, expected_weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("num_heads", [1, 2, 8, 16])
def test_any_number_of_heads_against_nn_multiheadattention(num_heads):
    ours = attention(num_heads=num_heads)
    x = random(2, 5, 16)
    expected, expected_weights = torch_attention(ours)(x, x, x, average_attn_weights=False)
    out, weights = weights_of(ours, x, None, None)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(ours(x, None, None), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(weights, expected_weights, atol=1e-5, rtol=0)


def test_gradients_of_both_paths_equal_those_of_nn_multiheadattention():
    ours = attention()
    theirs = torch_attention(ours)
    x, target = random(2, 5, 16, seed=1), random(2, 5, 16, seed=2)
    (theirs(x, x, x)[0] * target).sum().backward()
    expected = theirs.in_proj_weight.grad.split(16)
    for hooked in (False, True):
        ours.zero_grad()
        out = weights_of(ours, x, None, None)[0] if hooked else ours(x, None, None)
        (out * target).sum().backward()
        for projection, gradient in zip((ours.q_proj, ours.k_proj, ours.v_proj), expected, strict=True):
            torch.testing.assert_close(projection.weight.grad, gradient, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(ours.out_proj.weight.grad, theirs.out_proj.weight.grad, atol=1e-5, rtol=1e-5)


def test_parameters_are_those_of_one_head_of_full_width():
    counts = {sum(p.numel() for p in attention(num_heads=h).parameters()) for h in (1, 4, 16)}
    assert counts == {4 * 16**2 + 4 * 16}


@pytest.mark.parametrize("hooked", [False, True])
def test_padded_keys_cannot_be_seen(hooked):
    """Whatever stands there, the output is the same bit for bit."""
    module, query = attention(), random(3, 2, 16, seed=1)
    memory = random(3, 5, 16, seed=2)
    other = torch.where(KEY_MASK[..., None], memory, 1e3 * random(3, 5, 16, seed=4))
    mask = KEY_MASK[:, None, None, :]
    run = (lambda m: weights_of(module, query, m, mask)[0]) if hooked else (lambda m: module(query, m, mask))
    assert torch.equal(run(memory), run(other))


def test_the_sharper_the_scores_the_wider_the_head_without_the_scale():
    """Why sqrt(d_k): for unit-variance q and k the scores have unit variance at any width (section 3.2.1)."""
    for head_dim in (16, 256):
        q, k = random(1, 1, 200, head_dim, seed=1), random(1, 1, 200, head_dim, seed=2)
        with attention_hook(AttentionRecorder()) as recorder:
            scaled_dot_product_attention(q, k, k, site=SITE)
        scores = recorder.weights[SITE].log()  # the scores up to a constant per row
        assert scores.std(dim=-1).mean().item() == pytest.approx(1.0, abs=0.05)


class TestDropout:
    """On the weights, after the softmax and after the hooks, in training only."""

    @pytest.mark.parametrize("hooked", [False, True])
    def test_none_in_evaluation(self, hooked):
        module, x = attention(attention_dropout=0.5), random(2, 5, 16)
        run = (lambda: weights_of(module, x, None, None)[0]) if hooked else (lambda: module(x, None, None))
        assert torch.equal(run(), run())
        torch.testing.assert_close(run(), attention()(x, None, None), atol=1e-6, rtol=0)

    @pytest.mark.parametrize("hooked", [False, True])
    def test_in_training_both_paths_drop(self, hooked):
        module, x = attention(attention_dropout=0.5).train(), random(2, 5, 16)
        run = (lambda: weights_of(module, x, None, None)[0]) if hooked else (lambda: module(x, None, None))
        assert not torch.equal(run(), run())

    @pytest.mark.parametrize("hooked", [False, True])
    def test_in_training_the_mean_is_kept(self, hooked):
        module, x = attention(attention_dropout=0.3).train(), random(1, 4, 16)
        expected = attention()(x, None, None)[0]
        torch.manual_seed(0)
        many = x.expand(8000, -1, -1)
        out = weights_of(module, many, None, None)[0] if hooked else module(many, None, None)
        standard_error = out.std(0) / 8000**0.5
        assert ((out.mean(0) - expected).abs() < 5 * standard_error + 1e-5).all()

    def test_hooks_see_whole_rows(self):
        module, x = attention(attention_dropout=0.9).train(), random(2, 5, 16)
        out, weights = weights_of(module, x, None, None)
        evaluated, expected = weights_of(module.eval(), x, None, None)
        assert torch.equal(weights, expected)
        assert not torch.equal(out, evaluated)

    def test_changed_weights_are_dropped_too(self):
        q = random(1, 2, 3, 4)
        replaced = torch.full((1, 2, 3, 3), 1 / 3)
        with attention_hook(lambda site, weights: replaced):
            torch.manual_seed(5)
            out = scaled_dot_product_attention(q, q, q, dropout=0.5, site=SITE)
        torch.manual_seed(5)
        torch.testing.assert_close(out, F.dropout(replaced, 0.5) @ q)
