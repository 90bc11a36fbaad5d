"""Gradients by depth: against torch.nn's own layers with the same weights, and against what Xiong et al. (2020) derive."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from model.analysis import norm_gradients as module
from model.analysis.norm_gradients import norm_gradients
from model.config import TransformerConfig
from model.transformer import Transformer
from tests.model.factories import torch_decoder, torch_encoder


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_same_gradients_in_torchs_own_modules(norm):
    ours = norm_gradients(2, 3, "gelu", seeds=(5,))
    config = TransformerConfig(
        module.VOCABULARY, module.WIDTH, module.HEADS, 2, 3, module.D_FF, dropout=0.0, activation="gelu", norm=norm, max_len=module.LENGTH
    )
    model, generator = Transformer(config), torch.Generator().manual_seed(5)
    model.reset_parameters(generator)
    src_ids, tgt_ids = (torch.randint(4, 200, (module.BATCH, module.LENGTH), generator=generator) for _ in range(2))
    tgt_in_ids = torch.cat([torch.ones(module.BATCH, 1, dtype=torch.long), tgt_ids[:, :-1]], dim=1)
    encoder, decoder = torch_encoder(model), torch_decoder(model)
    table, weight = model.positions, model.src_embedding.tokens.weight
    memory = encoder(weight[src_ids] * 8 + table[: module.LENGTH])  # sqrt(64)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(module.LENGTH)
    states = decoder(weight[tgt_in_ids] * 8 + table[: module.LENGTH], memory, tgt_mask=causal)
    F.cross_entropy((states @ weight.T).transpose(1, 2), tgt_ids).backward()
    np.testing.assert_allclose(ours.encoder[norm][0], [float(layer.linear2.weight.grad.norm()) for layer in encoder.layers], rtol=2e-3)
    np.testing.assert_allclose(ours.decoder[norm][0], [float(layer.linear2.weight.grad.norm()) for layer in decoder.layers], rtol=2e-3)


def test_post_norm_grows_towards_the_output_and_pre_norm_does_not():
    found = norm_gradients(4, 8, seeds=(0, 1))
    assert found.encoder["post"].shape == (2, 4) and found.decoder["pre"].shape == (2, 8)
    post, pre = found.decoder["post"].mean(axis=0), found.decoder["pre"].mean(axis=0)
    assert (np.diff(post) > 0).all() and post[-1] > 4 * post[0]
    assert pre[-1] < pre[0] and pre.max() < 4 * pre.min()


def test_the_encoder_is_level_and_it_is_cross_attention_that_makes_the_decoder_grow(monkeypatch):
    """What the page says of the two curves of post-norm, by taking away what cross-attention adds: everywhere, or but in the last layer."""

    class Without(Transformer):
        kept = 0

        def reset_parameters(self, generator=None):
            super().reset_parameters(generator)
            for layer in list(self.decoder)[: len(self.decoder) - self.kept]:
                torch.nn.init.zeros_(layer.cross_attn.out_proj.weight)

    def growth(stack):
        mean = stack["post"].mean(axis=0)
        return mean[-1] / mean[0]

    whole = norm_gradients(8, 8)
    assert growth(whole.decoder) > 6 and 0.6 < growth(whole.encoder) < 1.7
    Without.kept = 1
    monkeypatch.setattr(module, "Transformer", Without)
    one = norm_gradients(8, 8)
    assert 0.6 < growth(one.encoder) < 1.7, "level with a single way to the loss, too"
    Without.kept = 0
    assert growth(norm_gradients(8, 8).decoder) < 2


def test_a_seed_is_a_seed_and_torchs_own_stream_is_not_its_source():
    torch.manual_seed(1)
    first = norm_gradients(1, 2, seeds=(0, 3))
    torch.manual_seed(2)
    again = norm_gradients(1, 2, seeds=(3, 0))
    np.testing.assert_allclose(first.decoder["post"], again.decoder["post"][::-1], rtol=1e-5)
    assert not np.allclose(first.decoder["post"][0], first.decoder["post"][1], rtol=1e-3)


@pytest.mark.parametrize("depths", [(0, 1), (1, 0), (19, 1), (1, 19)])
def test_a_depth_that_is_too_much(depths):
    with pytest.raises(ValueError, match="1 to 18"):
        norm_gradients(*depths)


def test_no_seed():
    with pytest.raises(ValueError, match="seed"):
        norm_gradients(1, 1, seeds=())
