import pytest
import torch
import torch.nn.functional as F

from model import linear as module
from model.linear import Linear, linear, pack, packed_linear
from tests.model.factories import random

NEEDS_ONEDNN = pytest.mark.skipif(not module.AVAILABLE, reason="this build or processor has no oneDNN")


@pytest.fixture
def calls(monkeypatch):
    """How often oneDNN was called."""
    seen, real = [], packed_linear
    monkeypatch.setattr(module, "packed_linear", lambda *args: seen.append(1) or real(*args))
    return seen


@NEEDS_ONEDNN
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 512), (9, 512), (2, 7, 512), (1, 1, 1, 512)], ids=str)
def test_both_libraries_and_both_layouts_agree(shape, bias, monkeypatch, calls):
    monkeypatch.setattr(module, "LEAST_PRODUCT", 1)
    x, weight, bias = random(*shape, seed=1), random(300, 512, seed=2), random(300, seed=3) if bias else None
    with torch.inference_mode():
        wanted = F.linear(x.double(), weight.double(), None if bias is None else bias.double()).float()
        for found in (linear(x, weight, bias), packed_linear(x, pack(weight), bias)):
            assert found.shape == (*shape[:-1], 300) and found.dtype == torch.float32
            torch.testing.assert_close(found, wanted, atol=1e-4, rtol=0)
    assert len(calls) == 1


@NEEDS_ONEDNN
def test_an_input_with_gaps_is_read_as_it_is(monkeypatch):
    monkeypatch.setattr(module, "LEAST_PRODUCT", 1)
    weight = random(300, 512, seed=2)
    with torch.inference_mode():
        for x in (random(8, 1024, seed=1)[:, ::2], random(512, 8, seed=1).T, random(1, 512, seed=1).expand(8, -1)):
            torch.testing.assert_close(linear(x, weight), F.linear(x.contiguous(), weight), atol=1e-4, rtol=0)


def test_gradients_other_numbers_and_small_products_go_the_usual_way(calls):
    large, small = random(64, 1024, seed=1), random(2, 1024, seed=1)
    layer = Linear(1024, 256)
    assert linear(large, layer.weight, layer.bias).requires_grad
    layer(large).sum().backward()
    assert layer.weight.grad is not None
    with torch.inference_mode():
        layer(small)
        layer.half()(large.half())
        torch.testing.assert_close(Linear(1024, 256, device="meta")(large.to("meta")).shape, torch.Size([64, 256]))
    assert calls == []
    assert pack(random(8, 8, seed=1)) is None and pack(random(512, 512, seed=1).half()) is None


@NEEDS_ONEDNN
def test_a_module_takes_it_where_it_gains(calls):
    layer = Linear(1024, 256)
    with torch.inference_mode():
        torch.testing.assert_close(layer(random(64, 1024, seed=1)), F.linear(random(64, 1024, seed=1), layer.weight, layer.bias))
    assert calls == [1]


def test_without_onednn_all_is_as_before(monkeypatch, calls):
    monkeypatch.setattr(module, "AVAILABLE", False)
    x, weight = random(64, 1024, seed=1), random(512, 1024, seed=2)
    with torch.inference_mode():
        assert torch.equal(linear(x, weight), F.linear(x, weight))
    assert calls == [] and pack(weight) is None
