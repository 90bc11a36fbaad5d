import pytest
import torch
from torch import nn

from model.layers import DecoderLayer, EncoderLayer, FeedForward
from model.masks import causal_mask
from tests.model.factories import SRC_MASK, fill, random, tiny_config, torch_decoder_layer, torch_encoder_layer

VARIANTS = [(norm, activation) for norm in ("post", "pre") for activation in ("relu", "gelu", "silu")]
KEY_MASK = SRC_MASK[:, None, None, :]  # [B, 1, 1, S]


def encoder_layer(**changes: object) -> tuple[EncoderLayer, nn.TransformerEncoderLayer]:
    config = tiny_config(**changes)
    ours = fill(EncoderLayer(config, 0), seed=5).eval()
    # torch's layer stays in training mode (without dropout), where it computes step by step
    return ours, torch_encoder_layer(ours, config).train()


def decoder_layer(**changes: object) -> tuple[DecoderLayer, nn.TransformerDecoderLayer]:
    config = tiny_config(**changes)
    ours = fill(DecoderLayer(config, 0), seed=6).eval()
    return ours, torch_decoder_layer(ours, config).train()


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_feed_forward_is_two_linear_maps_around_the_activation(activation):
    module = fill(FeedForward(tiny_config(activation=activation)), seed=2)
    x = random(2, 5, 16)
    hidden = x @ module.linear1.weight.T + module.linear1.bias
    assert hidden.shape == (2, 5, 24)
    if activation == "relu":
        hidden = hidden.clamp(min=0)
    elif activation == "gelu":
        hidden = hidden * 0.5 * (1 + torch.erf(hidden / 2**0.5))
    else:
        hidden = hidden / (1 + torch.exp(-hidden))
    torch.testing.assert_close(module(x), hidden @ module.linear2.weight.T + module.linear2.bias, atol=1e-5, rtol=0)


def test_feed_forward_is_the_same_at_every_position():
    module, x = fill(FeedForward(tiny_config())), random(2, 5, 16)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(module(x)[:, order], module(x[:, order]), atol=1e-6, rtol=0)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(("norm", "activation"), VARIANTS)
def test_encoder_layer_parity(norm, activation, padded):
    ours, theirs = encoder_layer(norm=norm, activation=activation)
    x = random(3, 5, 16)
    expected = theirs(x, src_key_padding_mask=~SRC_MASK if padded else None)
    torch.testing.assert_close(ours(x, KEY_MASK if padded else None), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("norm", "activation"), VARIANTS)
def test_decoder_layer_parity(norm, activation, causal, padded):
    ours, theirs = decoder_layer(norm=norm, activation=activation)
    x, memory = random(3, 6, 16, seed=1), random(3, 5, 16, seed=2)
    tgt_mask = causal_mask(6) if causal else None
    expected = theirs(
        x,
        memory,
        tgt_mask=None if tgt_mask is None else ~tgt_mask,
        memory_key_padding_mask=~SRC_MASK if padded else None,
    )
    torch.testing.assert_close(ours(x, memory, tgt_mask, KEY_MASK if padded else None), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_layer_norm_eps_is_the_configured_one(norm):
    x, memory = 0.05 * random(3, 6, 16, seed=1), random(3, 5, 16, seed=2)
    ours, theirs = encoder_layer(norm=norm, layer_norm_eps=0.1)
    torch.testing.assert_close(ours(x, None), theirs(x), atol=1e-5, rtol=0)
    assert not torch.allclose(ours(x, None), encoder_layer(norm=norm)[0](x, None), atol=1e-3)
    ours, theirs = decoder_layer(norm=norm, layer_norm_eps=0.1)
    torch.testing.assert_close(ours(x, memory, None, None), theirs(x, memory), atol=1e-5, rtol=0)
    assert not torch.allclose(ours(x, memory, None, None), decoder_layer(norm=norm)[0](x, memory, None, None), atol=1e-3)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_reach_the_input_as_in_torch(norm):
    (ours, theirs), (our_decoder, their_decoder) = encoder_layer(norm=norm), decoder_layer(norm=norm)
    target, gradients = random(2, 4, 16, seed=3), []
    for run in (lambda x: our_decoder(x, ours(x, None), None, None), lambda x: their_decoder(x, theirs(x))):
        x = random(2, 4, 16, seed=1).requires_grad_()
        (run(x) * target).sum().backward()
        gradients.append(x.grad)
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


class TestResidual:
    """Layer output = input + sublayer, with the norm after the sum (2017) or inside the branch (pre-norm)."""

    @staticmethod
    def norm() -> nn.LayerNorm:
        return fill(nn.LayerNorm(16), seed=8)

    def test_post_norm(self):
        layer, norm, x = encoder_layer(norm="post")[0], self.norm(), random(2, 3, 16)
        torch.testing.assert_close(layer.residual(x, norm, torch.tanh), norm(x + torch.tanh(x)), atol=0, rtol=0)

    def test_pre_norm(self):
        layer, norm, x = encoder_layer(norm="pre")[0], self.norm(), random(2, 3, 16)
        torch.testing.assert_close(layer.residual(x, norm, torch.tanh), x + torch.tanh(norm(x)), atol=0, rtol=0)

    @pytest.mark.parametrize("build", [EncoderLayer, DecoderLayer])
    def test_pre_norm_with_silent_sublayers_is_the_identity(self, build):
        layer, x = fill(build(tiny_config(norm="pre"), 0)), random(2, 3, 16)
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                if "out_proj" in name or "linear2" in name:
                    parameter.zero_()
        args = (None,) if build is EncoderLayer else (random(2, 5, 16, seed=2), None, None)
        assert torch.equal(layer(x, *args), x)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    @pytest.mark.parametrize("build", [EncoderLayer, DecoderLayer])
    def test_dropout_falls_on_the_sublayer_only(self, build, norm):
        layer = build(tiny_config(norm=norm, dropout=0.75), 0).train()
        x = torch.full((4, 50, 16), 7.0)
        torch.manual_seed(0)
        added = layer.residual(x, nn.Identity(), torch.ones_like) - x
        assert set(added.unique().tolist()) == {0.0, 4.0}  # dropped, or kept and scaled by 1 / (1 - 0.75)
        assert (added == 0).float().mean().item() == pytest.approx(0.75, abs=0.03)
        assert torch.equal(layer.eval().residual(x, nn.Identity(), torch.ones_like), x + 1)

    @pytest.mark.parametrize("build", [EncoderLayer, DecoderLayer])
    def test_every_sublayer_is_dropped_in_training(self, build):
        """With nearly everything dropped, a pre-norm layer is nearly the identity."""
        layer, x = fill(build(tiny_config(norm="pre", dropout=0.999), 0)).train(), random(2, 3, 16)
        args = (None,) if build is EncoderLayer else (random(2, 5, 16, seed=2), None, None)
        torch.manual_seed(0)
        assert (layer(x, *args) == x).float().mean() > 0.9


def test_the_sublayers_of_a_layer_know_their_place():
    encoder, decoder = EncoderLayer(tiny_config(), 1), DecoderLayer(tiny_config(), 2)
    assert (encoder.self_attn.site.kind, encoder.self_attn.site.layer) == ("encoder_self", 1)
    assert (decoder.self_attn.site.kind, decoder.self_attn.site.layer) == ("decoder_self", 2)
    assert (decoder.cross_attn.site.kind, decoder.cross_attn.site.layer) == ("cross", 2)
