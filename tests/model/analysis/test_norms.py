"""Norm-weighted attention against torch arithmetic straight from the weights and the inputs that each module really got."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from model.analysis.norms import NormWeights, norm_weighted, shares, weighted_norms
from model.attention import MultiHeadAttention
from model.hooks import ATTENTION_KINDS, attention_hook, hooks_active
from model.transformer import Transformer
from tests.model.analysis.samples import maps
from tests.model.factories import tiny_model, zero_head

SRC = (4, 9, 9, 7, 2)
TGT_IN = (1, 5, 10, 10, 4, 6, 3)
HEADS = {"encoder_self": 4, "decoder_self": 2, "cross": 2}


def model(norm: str = "pre") -> Transformer:
    return tiny_model(norm=norm, num_decoder_heads=2)


def contributions(model: Transformer, src: tuple[int, ...] = SRC, tgt_in: tuple[int, ...] = TGT_IN) -> dict:
    """For every site alpha_ij f_h(x_j) as a tensor [H, Q, K, D], the bias and the output of its module, from the weights as they are."""
    seen, found = {}, {}
    handles = [
        module.register_forward_hook(lambda module, args, out: seen.update({module: (args, out)}))
        for module in model.modules()
        if isinstance(module, MultiHeadAttention)
    ]
    with torch.no_grad():
        model.decode(torch.tensor([tgt_in]), model.encode(torch.tensor([src])))
    for handle in handles:
        handle.remove()
    for module, ((query, memory, *_), out) in seen.items():
        x, key = query[0], (query if memory is None else memory)[0]
        width = x.shape[-1] // module.num_heads
        terms = []
        for head in range(module.num_heads):
            part = slice(head * width, (head + 1) * width)
            q, k, v = (
                torch.nn.functional.linear(source, projection.weight[part], projection.bias[part])
                for source, projection in ((x, module.q_proj), (key, module.k_proj), (key, module.v_proj))
            )
            scores = q @ k.T / width**0.5
            if module.site.kind == "decoder_self":
                scores = scores + torch.full_like(scores, -torch.inf).triu(1)
            terms.append(scores.softmax(-1)[:, :, None] * (v @ module.out_proj.weight[:, part].T)[None])
        found[module.site] = (torch.stack(terms).detach(), module.out_proj.bias.detach(), out[0])
    return found


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_norms_are_those_of_the_vectors_that_each_key_adds(norm: str) -> None:
    found = norm_weighted(model(norm), SRC, TGT_IN)
    shapes = {"encoder_self": (2, 4, 5, 5), "decoder_self": (3, 2, 7, 7), "cross": (3, 2, 7, 5)}
    assert {kind: part.shape for kind, part in found.heads.items()} == shapes
    assert {kind: part.shape for kind, part in found.layers.items()} == {kind: (*s[:1], *s[2:]) for kind, s in shapes.items()}
    for site, (terms, _, _) in contributions(model(norm)).items():
        heads, layer = found.heads[site.kind][site.layer], found.layers[site.kind][site.layer]
        assert heads.dtype == layer.dtype == np.float32
        np.testing.assert_allclose(heads, terms.norm(dim=-1).numpy(), atol=1e-5)
        np.testing.assert_allclose(layer, terms.sum(dim=0).norm(dim=-1).numpy(), atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_what_all_keys_and_heads_add_and_the_bias_are_the_modules_output(norm: str) -> None:
    """The identity that makes the vectors worth measuring: the reference above leaves nothing out."""
    for terms, bias, out in contributions(model(norm)).values():
        torch.testing.assert_close(terms.sum(dim=(0, 2)) + bias, out, atol=1e-5, rtol=0)


@pytest.mark.parametrize("fault", ["heads swapped", "no value bias", "input before its norm", "projection transposed"])
def test_faults_give_other_numbers(fault: str) -> None:
    """What could be got wrong shows in the numbers compared above."""
    right, wrong = norm_weighted(model(), SRC, TGT_IN), model()
    with torch.no_grad():
        for module in wrong.modules():
            if isinstance(module, MultiHeadAttention):
                if fault == "heads swapped":
                    module.out_proj.weight.copy_(module.out_proj.weight.roll(16 // module.num_heads, dims=1))
                elif fault == "no value bias":
                    module.v_proj.bias.zero_()
                elif fault == "projection transposed":
                    module.out_proj.weight.copy_(module.out_proj.weight.T.clone())
        if fault == "input before its norm":
            wrong.encoder[0].self_attn_norm = torch.nn.Identity()
    # the first layer's weights do not depend on what was changed, but for the norm
    assert not np.allclose(norm_weighted(wrong, SRC, TGT_IN).heads["encoder_self"][0], right.heads["encoder_self"][0], atol=1e-3)


def test_a_large_weight_on_a_short_vector_counts_little() -> None:
    """Two keys: weight 0.9 on a vector of length 0.1, weight 0.1 on one of length 5 (3-4-5 in the two output dimensions)."""
    attn_weights = np.array([[[0.9, 0.1]]])
    values = np.array([[[0.1, 0.0], [3.0, 4.0]]])
    heads, layer = weighted_norms(attn_weights, values, np.eye(2)[None])
    assert heads == pytest.approx(np.array([[[0.09, 0.5]]])) and layer == pytest.approx(np.array([[0.09, 0.5]]))


def test_heads_that_contradict_each_other_cancel_in_the_layer_and_not_in_the_heads() -> None:
    values = np.array([[[1.0]], [[1.0]]])
    heads, layer = weighted_norms(np.ones((2, 1, 1)), values, np.array([[[2.0]], [[-2.0]]]))
    assert heads.ravel().tolist() == [2, 2] and layer.tolist() == [[0]]


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(0, 10_000))
def test_a_layer_adds_at_most_what_its_heads_add_and_all_scales_with_the_values(heads: int, queries: int, keys: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    attn_weights, values = maps(heads, queries, keys, seed=seed), rng.standard_normal((heads, keys, 3))
    out_weight = rng.standard_normal((heads, 3, 7))
    each, together = weighted_norms(attn_weights, values, out_weight)
    assert (each >= 0).all() and (together <= each.sum(axis=0) + 1e-9).all()
    for part, scaled in zip((each, together), weighted_norms(attn_weights, -3 * values, out_weight), strict=True):
        np.testing.assert_allclose(scaled, 3 * part, atol=1e-7)


def test_decoder_rows_have_nothing_of_later_tokens() -> None:
    found = norm_weighted(model(), SRC, TGT_IN)
    ahead = np.triu(np.ones((7, 7), dtype=bool), k=1)
    for part in (found.heads["decoder_self"], found.layers["decoder_self"]):
        assert not part[..., ahead].any() and (part[..., ~ahead] > 0).all()


def test_shares_sum_to_one_and_a_head_switched_off_has_none() -> None:
    with attention_hook(zero_head(1)):
        found = norm_weighted(model(), SRC, TGT_IN)
    part = shares(found.heads["cross"])
    assert not part[:, 1].any()
    np.testing.assert_allclose(part[:, 0].sum(axis=-1), 1, atol=1e-6)
    assert shares(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist() == [[0.25, 0.75], [0, 0]]


def test_nothing_is_left_behind_and_two_visitors_do_not_meet() -> None:
    shared, sentences = model(), [SRC, SRC[::-1], (2, 2, 7)]
    alone = [norm_weighted(shared, src, TGT_IN) for src in sentences]
    found: dict[int, NormWeights] = {}
    barrier = threading.Barrier(len(sentences), timeout=60)

    def wait(site: object, weights: Tensor) -> None:
        barrier.wait()  # at every site, so that all passes run through each other

    def visit(number: int) -> None:
        with attention_hook(wait):
            found[number] = norm_weighted(shared, sentences[number], TGT_IN)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(len(sentences))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not hooks_active() and not any(thread.is_alive() for thread in threads)
    for number, expected in enumerate(alone):
        for kind in ATTENTION_KINDS:
            np.testing.assert_array_equal(found[number].heads[kind], expected.heads[kind])


def test_too_many_ids_are_an_error() -> None:
    with pytest.raises(ValueError, match="21 positions"):
        norm_weighted(model(), (4,) * 21, TGT_IN)
