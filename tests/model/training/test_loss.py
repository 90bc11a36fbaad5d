"""The blockwise loss against PyTorch's cross-entropy and against the formula; the rate against the paper's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.training.batches import Batch
from model.training.loop import batch_loss
from model.training.loss import learning_rate, projected_loss
from model.transformer import Transformer
from tests.model.training import samples

D_MODEL, VOCAB_SIZE = 24, 101


def inputs(num_tokens: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """states [N, D] and weight [V, D], both leaves that want gradients, and labels [N]."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(num_tokens, D_MODEL, generator=generator).requires_grad_()
    weight = (torch.randn(VOCAB_SIZE, D_MODEL, generator=generator) / 2).requires_grad_()
    return states, weight, torch.randint(VOCAB_SIZE, (num_tokens,), generator=generator)


def reference(states: Tensor, weight: Tensor, labels: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's loss and its gradients, in float64."""
    states, weight = (tensor.detach().double().requires_grad_() for tensor in (states, weight))
    loss = F.cross_entropy(states @ weight.T, labels, label_smoothing=smoothing, reduction="sum")
    return loss.detach(), *torch.autograd.grad(loss, (states, weight))


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("num_tokens", [1, 255, 256, 257, 512, 700])
def test_equals_cross_entropy_through_a_projection(num_tokens: int, smoothing: float) -> None:
    states, weight, labels = inputs(num_tokens)
    loss = projected_loss(states, weight, labels, smoothing)
    gradients = torch.autograd.grad(loss, (states, weight))
    for ours, theirs in zip((loss.detach(), *gradients), reference(states, weight, labels, smoothing), strict=True):
        assert ours.dtype == torch.float32
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("num_tokens", [1, 128, 129, 300])
def test_distance_of_two_passes_is_added(num_tokens: int) -> None:
    states, weight, labels = inputs(2 * num_tokens)
    labels = labels[:num_tokens].repeat(2)
    loss = projected_loss(states, weight, labels, 0.1, consistency=3.0)
    gradients = torch.autograd.grad(loss, (states, weight))

    states64, weight64 = (tensor.detach().double().requires_grad_() for tensor in (states, weight))
    first, second = (F.log_softmax(half @ weight64.T, dim=1) for half in states64.split(num_tokens))
    apart = sum(F.kl_div(a, b, reduction="sum", log_target=True) for a, b in ((first, second), (second, first))) / 2
    expected = F.cross_entropy(states64 @ weight64.T, labels, label_smoothing=0.1, reduction="sum") + 3 * apart
    assert apart > 1  # else the test says nothing
    for ours, theirs in zip((loss, *gradients), (expected, *torch.autograd.grad(expected, (states64, weight64))), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


def test_two_equal_passes_are_not_apart() -> None:
    states, weight, labels = inputs(40)
    twice = states.repeat(2, 1), weight, labels.repeat(2)
    loss, plain = projected_loss(*twice, 0.1, consistency=5.0), projected_loss(*twice, 0.1)
    torch.testing.assert_close(loss, plain)
    for ours, theirs in zip(torch.autograd.grad(loss, (states, weight)), torch.autograd.grad(plain, (states, weight)), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_no_tokens_cost_nothing() -> None:
    states, weight, labels = inputs(0)
    loss = projected_loss(states, weight, labels)
    loss.backward()
    assert loss.item() == 0
    assert states.grad.shape == (0, D_MODEL)
    assert not weight.grad.any()


@pytest.mark.parametrize("num_tokens", [3, 300])
def test_bf16_is_close(num_tokens: int) -> None:
    states, weight, labels = inputs(num_tokens)
    loss = projected_loss(states, weight, labels, 0.1, torch.bfloat16)
    gradients = torch.autograd.grad(loss, (states, weight))
    expected, *expected_gradients = reference(states, weight, labels, 0.1)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=5e-3)
    for ours, theirs in zip(gradients, expected_gradients, strict=True):
        assert ours.dtype == torch.float32
        # bf16 keeps 8 bits: one rounding of a product's factors is up to 0.4 %.
        assert (ours - theirs).norm() < 0.015 * theirs.norm()


def test_states_in_bf16_get_their_gradient_in_bf16() -> None:
    states, weight, labels = inputs(5)
    half = states.detach().to(torch.bfloat16).requires_grad_()
    projected_loss(half, weight, labels, 0.1, torch.bfloat16).backward()
    assert half.grad.dtype == torch.bfloat16
    assert weight.grad.dtype == torch.float32


def test_gradients_scale_with_what_comes_after() -> None:
    states, weight, labels = inputs(300)
    plain = torch.autograd.grad(projected_loss(states, weight, labels), (states, weight))
    scaled = torch.autograd.grad(projected_loss(states, weight, labels) / 7 + 3, (states, weight))
    for one, other in zip(plain, scaled, strict=True):
        torch.testing.assert_close(one / 7, other)


def test_large_logits_do_not_overflow() -> None:
    states, weight, labels = inputs(10)
    loss = projected_loss(states * 1e4, weight, labels)
    expected, *_ = reference(states * 1e4, weight, labels, 0.1)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)


def test_smoothing_is_the_published_formula() -> None:
    """Szegedy et al. 2016, section 7: the label's distribution is (1 - e) one-hot + e / V; the loss is its cross-entropy with softmax."""
    smoothing = 0.1
    states, weight, labels = inputs(20)
    logits = states.detach().double().numpy() @ weight.detach().double().numpy().T
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    expected = 0.0
    for i, label in enumerate(labels.tolist()):
        for v in range(VOCAB_SIZE):
            q = (1 - smoothing) * (v == label) + smoothing / VOCAB_SIZE
            expected -= q * np.log(probs[i, v])
    assert projected_loss(states, weight, labels, smoothing).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("tied", [True, False])
def test_batch_loss_is_that_of_the_whole_model(tied: bool) -> None:
    """Value and every parameter's gradient, padding left out, the tied matrix getting its share from both of its uses."""
    torch.manual_seed(1)
    model = Transformer(samples.tiny_config(50, dropout=0.0, tie_embeddings=tied))
    src_ids = torch.tensor([[4, 9, 20, 2], [5, 11, 2, 0], [4, 2, 0, 0]])
    tgt_ids = torch.tensor([[1, 30, 31, 2, 0, 0], [1, 32, 33, 34, 35, 2], [1, 6, 2, 0, 0, 0]])
    loss = batch_loss(model, Batch(src_ids, tgt_ids), 0.1, torch.float32)
    parameters = list(model.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    logits, labels = model(src_ids, tgt_ids[:, :-1]), tgt_ids[:, 1:]
    expected = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected, parameters), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_bias_on_the_logits_is_refused() -> None:
    model = Transformer(samples.tiny_config(50, output_bias=True))
    batch = Batch(torch.tensor([[4, 2]]), torch.tensor([[1, 5, 2]]))
    with pytest.raises(ValueError, match="output_bias=False"):
        batch_loss(model, batch, 0.1, torch.float32)


@pytest.mark.parametrize("d_model, warmup, factor", [(512, 4000, 1.0), (256, 1500, 2.0), (16, 1, 0.3)])
def test_rate_is_equation_3(d_model: int, warmup: int, factor: float) -> None:
    peak = factor * d_model**-0.5 * warmup**-0.5
    for step in (1, 2, 17, warmup - 1, warmup, warmup + 1, 3 * warmup, 100_000):
        if step < 1:
            continue
        expected = factor * d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
        assert learning_rate(step, peak, warmup) == pytest.approx(expected, rel=1e-12)


def test_rate_peaks_at_the_end_of_the_warm_up() -> None:
    rates = [learning_rate(step, 1.2e-3, 100) for step in range(1, 1000)]
    assert max(rates) == rates[99] == 1.2e-3
    assert rates[:100] == sorted(rates[:100])
    assert rates[99:] == sorted(rates[99:], reverse=True)


def test_cooldown_falls_in_a_line_to_zero() -> None:
    def share(step: int) -> float:
        return learning_rate(step, 1.0, 10, last_step=200, cooldown_steps=50) / learning_rate(step, 1.0, 10)

    assert share(150) == share(151) == 1
    assert share(176) == pytest.approx(0.5)
    assert share(200) == pytest.approx(1 / 50)
    assert share(201) == share(500) == 0
    assert np.allclose(np.diff([share(step) for step in range(151, 202)]), -1 / 50)


def test_no_cooldown_without_a_length_or_an_end() -> None:
    plain = learning_rate(190, 1.0, 10)
    assert learning_rate(190, 1.0, 10, last_step=200) == plain
    assert learning_rate(190, 1.0, 10, cooldown_steps=50) == plain
