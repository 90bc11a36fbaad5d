"""Counts against real modules: their parameters counted, their operations counted by PyTorch while they run."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from model.analysis.position_join import join_costs
from model.config import TransformerConfig
from model.hooks import AttentionRecorder, attention_hook
from model.transformer import Transformer

SRC, TGT = 7, 4
SIZES = {"vocab_size": 40, "d_model": 12, "num_heads": 3, "num_encoder_layers": 2, "num_decoder_layers": 3, "d_ff": 20, "max_len": 16}
CONFIGS = [
    TransformerConfig(**SIZES, norm="pre"),
    TransformerConfig(**SIZES, output_bias=True, position_layout="halves", num_decoder_heads=2, decoder_d_ff=28),
    TransformerConfig(**SIZES, tie_embeddings=False, tgt_vocab_size=52, tie_output=True),
    TransformerConfig(**SIZES, tie_embeddings=False, tgt_vocab_size=52),
]


def parameters(*modules: nn.Module) -> int:
    return sum(p.numel() for p in {id(p): p for module in modules for p in module.parameters()}.values())


def measured(run) -> int:
    """Under a hook attention is computed step by step: what the fused kernel of a processor does is not counted."""
    with attention_hook(AttentionRecorder()), FlopCounterMode(display=False) as counter, torch.no_grad():
        run()
    return counter.get_total_flops()


@pytest.mark.parametrize("config", CONFIGS, ids=["pre", "marian-shaped", "tied output", "untied"])
def test_counts_are_those_of_real_modules(config: TransformerConfig) -> None:
    found = join_costs(config, SRC, TGT)
    d_model = config.d_model
    src_ids, tgt_ids = torch.full((1, SRC), 5), torch.full((1, TGT), 6)

    model = Transformer(config).eval()
    run = measured(lambda: model.project(model.decode(tgt_ids, model.encode(src_ids))))
    assert found["added"].parameters == parameters(model)
    assert found["added"].operations == run + (SRC + TGT) * d_model and found["added"].width == d_model

    maps = [nn.Linear(2 * d_model, d_model) for _ in range(2)]
    mapping = measured(lambda: [m(torch.zeros(1, n, 2 * d_model)) for m, n in zip(maps, (SRC, TGT), strict=True)])
    assert found["mapped"].parameters == parameters(model, *maps)
    assert found["mapped"].operations == run + mapping and found["mapped"].width == d_model

    wide = Transformer(replace(config, d_model=2 * d_model, tie_embeddings=False, tie_output=False)).eval()
    kept = {id(model.src_embedding): model.src_embedding, id(model.tgt_embedding): model.tgt_embedding}.values()
    of_wide = parameters(wide) - parameters(wide.src_embedding, wide.tgt_embedding)
    assert found["wide"].parameters == of_wide + parameters(*kept)
    assert found["wide"].operations == measured(lambda: wide.project(wide.decode(tgt_ids, wide.encode(src_ids))))
    assert found["wide"].width == 2 * d_model
