"""Dropout from bytes: what it keeps on average, what it drops, and that the gradient sees the same mask."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from model.training.dropout import ByteDropout, use_byte_dropout
from model.transformer import Transformer
from tests.model.training import samples

NUMBER = 1_000_000


def dropped_ones(p: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(0)
    return ByteDropout(p).train()(torch.ones(NUMBER, dtype=dtype))


@pytest.mark.parametrize("p", [0.1, 0.2, 0.3, 0.5])
def test_rate_is_the_rounded_probability_and_the_mean_is_kept(p: float) -> None:
    rate = round(p * 256) / 256
    assert abs(rate - p) <= 1 / 512
    out = dropped_ones(p)
    error = 4 * math.sqrt(rate * (1 - rate) / NUMBER)  # four standard deviations of a share
    assert (out == 0).double().mean().item() == pytest.approx(rate, abs=error)
    assert out.double().mean().item() == pytest.approx(1, abs=error / (1 - rate))
    # every kept element has the one scale whose mean is exactly one
    assert torch.equal(out[out > 0].unique(), torch.tensor([256 / (256 - round(p * 256))]))


def test_the_mean_is_kept_in_bf16() -> None:
    """A scale that is itself rounded to bf16 would be off by 0.3 % at p = 0.1: the inputs differ, so that roundings cancel."""
    torch.manual_seed(0)
    x = (torch.rand(NUMBER) + 1).to(torch.bfloat16)
    out = ByteDropout(0.1).train()(x)
    assert out.dtype == torch.bfloat16
    kept = out != 0
    assert (out[kept].double() / x[kept].double()).mean().item() == pytest.approx(256 / 230, rel=3e-4)


def test_neighbours_are_independent() -> None:
    """Eight masks come from one random word: none follows from another."""
    kept = (dropped_ones(0.5) > 0).double()
    for distance in range(1, 10):
        together = (kept[:-distance] * kept[distance:]).mean().item()
        assert together == pytest.approx(0.25, abs=0.002)


def test_evaluation_is_the_identity() -> None:
    x = torch.randn(3, 5)
    assert ByteDropout(0.5).eval()(x) is x


@pytest.mark.parametrize("p", [0.0, 0.001])
def test_a_probability_that_rounds_to_zero_is_the_identity(p: float) -> None:
    x = torch.randn(3, 5)
    assert ByteDropout(p).train()(x) is x


def test_the_highest_probability_keeps_a_little() -> None:
    out = dropped_ones(0.999)
    assert out.isfinite().all()
    assert (out != 0).double().mean().item() == pytest.approx(1 / 256, abs=3e-4)


@pytest.mark.parametrize("shape", [(1,), (7,), (3, 5, 11), (0, 4)])
def test_the_gradient_has_the_mask_of_the_forward_pass(shape: tuple[int, ...]) -> None:
    torch.manual_seed(3)
    x = (torch.rand(shape) + 1).requires_grad_()
    out = ByteDropout(0.4).train()(x)
    assert out.shape == shape
    upstream = torch.rand(shape)
    out.backward(upstream)
    torch.testing.assert_close(x.grad, upstream * out.detach() / x.detach())


def test_a_seed_repeats_the_mask_and_the_next_call_differs() -> None:
    assert torch.equal(dropped_ones(0.3), dropped_ones(0.3))
    dropout = ByteDropout(0.3).train()
    assert not torch.equal(dropout(torch.ones(1000)), dropout(torch.ones(1000)))


def test_every_dropout_of_a_model_is_replaced() -> None:
    model = Transformer(samples.tiny_config(50, dropout=0.25))
    plain = sum(isinstance(module, nn.Dropout) for module in model.modules())
    keys = list(model.state_dict())
    use_byte_dropout(model)
    bytewise = [module for module in model.modules() if isinstance(module, ByteDropout)]
    assert len(bytewise) == plain > 0
    assert {module.dropped for module in bytewise} == {64}
    assert not any(isinstance(module, nn.Dropout) for module in model.modules())
    assert list(model.state_dict()) == keys
    model.eval()
    assert not any(module.training for module in bytewise)
