"""Counts of heads and bytes of weights, against real modules, torch's own counter and arrays of a real pass."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.analysis.attention_cost import head_count, layers_of, offered_heads, weight_bytes
from model.attention import MultiHeadAttention
from model.config import TransformerConfig
from model.hooks import AttentionRecorder, AttentionSite, attention_hook
from tests.model.factories import tiny_model

QUERIES, KEYS = 5, 7


@pytest.mark.parametrize("num_heads", [1, 2, 4, 8])
def test_counts_are_those_of_the_real_module(num_heads):
    config = TransformerConfig(vocab_size=9, d_model=64, num_heads=num_heads)
    attention = MultiHeadAttention(config, AttentionSite("cross", 0)).eval()
    found = head_count(64, num_heads, QUERIES, KEYS)
    assert (found.num_heads, found.head_dim) == (num_heads, 64 // num_heads)
    assert found.parameters == sum(parameter.numel() for parameter in attention.parameters())
    counter = FlopCounterMode(display=False)
    with torch.inference_mode(), attention_hook(AttentionRecorder()) as recorder, counter:
        attention(torch.zeros(1, QUERIES, 64), torch.zeros(1, KEYS, 64), None)
    assert found.projections + 2 * found.scores == counter.get_total_flops()
    assert found.weights == recorder.stack("cross").numel()


def test_heads_change_nothing_but_the_number_of_weights():
    counts = [head_count(48, heads, QUERIES, KEYS) for heads in (1, 3, 6)]
    assert len({(count.parameters, count.projections, count.scores) for count in counts}) == 1
    assert [count.weights for count in counts] == [35, 105, 210]


@pytest.mark.parametrize("num_heads", [0, -1, 5])
def test_heads_that_do_not_divide(num_heads):
    with pytest.raises(ValueError, match="equal width"):
        head_count(64, num_heads, 1, 1)


def test_what_is_offered():
    assert offered_heads(256, 8) == (1, 2, 4, 8, 16, 32)
    assert offered_heads(16, 4) == (1, 2, 4)
    assert offered_heads(24, 6) == (1, 2, 6)
    assert offered_heads(4, 1) == (1,)


def test_bytes_are_those_of_the_arrays_of_a_pass():
    model = tiny_model(num_decoder_heads=2)
    src, tgt = torch.tensor([[4, 9, 9, 7, 2]]), torch.tensor([[1, 5, 10]])
    with torch.inference_mode(), attention_hook(AttentionRecorder()) as recorder:
        model.decode(tgt, model.encode(src))
    for kind in ("encoder_self", "decoder_self", "cross"):
        maps = recorder.stack(kind).numpy()
        assert weight_bytes(model.config, kind, 5, 3) == maps[0].nbytes
        assert layers_of(model.config, kind) == len(maps)
    with pytest.raises(ValueError, match="other"):
        weight_bytes(model.config, "other", 5, 3)
