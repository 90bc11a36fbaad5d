import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from model.cache import DecoderCache
from model.hooks import AttentionRecorder, attention_hook
from model.masks import causal_mask, padding_mask
from model.positional import is_sine, sinusoidal_table, wavelengths
from model.transformer import Transformer
from tests.model.factories import PAD, SRC_IDS, SRC_MASK, TGT_IN_IDS, fill, random, tiny_config, tiny_model, torch_decoder, torch_encoder


def reference(model: Transformer, src_ids: Tensor, tgt_in_ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """memory, states and logits by `torch.nn`'s stacks, with the embedding, the positions and the projection spelled out."""
    config, weights = model.config, model.state_dict()

    def embed(ids: Tensor, table: str) -> Tensor:
        positions = torch.empty(ids.shape[1], config.d_model, dtype=torch.float64)
        for pos in range(ids.shape[1]):
            for i in range(config.d_model // 2):
                angle = pos / 10000 ** (2 * i / config.d_model)
                sine, cosine = (2 * i, 2 * i + 1) if config.position_layout == "interleaved" else (i, i + config.d_model // 2)
                positions[pos, sine], positions[pos, cosine] = math.sin(angle), math.cos(angle)
        scale = math.sqrt(config.d_model) if config.scale_embedding else 1
        vectors = weights[f"{table}.tokens.weight"]
        return F.one_hot(ids, len(vectors)).float() @ vectors * scale + positions.float()

    src_pads = src_ids == config.pad_id
    memory = torch_encoder(model).train()(embed(src_ids, "src_embedding"), src_key_padding_mask=src_pads)
    future = torch.ones(tgt_in_ids.shape[1], tgt_in_ids.shape[1], dtype=torch.bool).triu(1)
    states = torch_decoder(model).train()(
        embed(tgt_in_ids, "tgt_embedding"), memory, tgt_mask=future, memory_key_padding_mask=src_pads
    )
    tied_to = "src_embedding" if config.tie_embeddings else "tgt_embedding" if config.tie_output else None
    projection = weights[f"{tied_to}.tokens.weight" if tied_to else "output_weight"]
    logits = states @ projection.T
    return memory, states, logits + weights["output_bias"] if config.output_bias else logits


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre"},
        {"activation": "gelu"},
        {"norm": "pre", "activation": "silu"},
        {"position_layout": "halves", "output_bias": True},
        {"tie_embeddings": False, "norm": "pre"},
        {"tie_embeddings": False, "output_bias": True, "scale_embedding": False},
        {"num_heads": 1, "num_encoder_layers": 3, "num_decoder_layers": 1, "layer_norm_eps": 1e-2},
        {"num_decoder_heads": 2, "decoder_d_ff": 40},
        {"num_decoder_heads": 8, "tgt_vocab_size": 17, "tie_embeddings": False, "output_bias": True},
        {"decoder_d_ff": 8, "tgt_vocab_size": 14, "tie_embeddings": False, "tie_output": True, "output_bias": True},
    ],
    ids=lambda changes: ",".join(f"{name}={value}" for name, value in changes.items()) or "default",
)
def test_whole_model_parity_with_torch(changes):
    model = tiny_model(**changes)
    memory, states, logits = reference(model, SRC_IDS, TGT_IN_IDS)
    ours = model.encode(SRC_IDS, SRC_MASK)
    torch.testing.assert_close(ours, memory, atol=1e-5, rtol=0)
    ours = model.decode(TGT_IN_IDS, ours, SRC_MASK)
    torch.testing.assert_close(ours, states, atol=1e-5, rtol=0)
    # logits are sums over d_model of numbers of some size, so relative to the largest
    torch.testing.assert_close(model.project(ours), logits, atol=1e-5 * max(1.0, logits.abs().max().item()), rtol=0)
    assert torch.equal(model(SRC_IDS, TGT_IN_IDS), model.project(ours))
    assert torch.equal(logits.argmax(-1), model(SRC_IDS, TGT_IN_IDS).argmax(-1))


class TestEmbedding:
    def test_scaled_token_plus_position(self):
        model = tiny_model()
        ids = torch.tensor([[5, 9, 5]])
        out = model.src_embedding(ids, model.positions[:3])
        table = model.src_embedding.tokens.weight
        for t, token in enumerate([5, 9, 5]):
            torch.testing.assert_close(out[0, t], 4.0 * table[token] + sinusoidal_table(3, 16)[t], atol=1e-6, rtol=0)

    def test_scale_can_be_left_out(self):
        model = tiny_model(scale_embedding=False)
        out = model.src_embedding(torch.tensor([[5]]), model.positions[:1])
        torch.testing.assert_close(out[0, 0], model.src_embedding.tokens.weight[5] + model.positions[0])

    def test_the_sum_is_dropped_in_training_only(self):
        model = fill(Transformer(tiny_config(dropout=0.75))).train()
        ids = torch.full((50, 5), 7)
        whole = model.src_embedding.tokens.weight[7] * 4 + model.positions[:5]
        torch.manual_seed(0)
        out = model.src_embedding(ids, model.positions[:5])
        kept = out != 0
        assert kept.float().mean().item() == pytest.approx(0.25, abs=0.05)
        torch.testing.assert_close(out[kept], (4 * whole).expand(50, -1, -1)[kept])
        torch.testing.assert_close(model.eval().src_embedding(ids, model.positions[:5]), whole.expand(50, -1, -1))

    def test_fresh_scaled_embeddings_have_unit_variance(self):
        """N(0, 1/d_model) times sqrt(d_model): a token weighs about as much as its position."""
        torch.manual_seed(0)
        model = Transformer(tiny_config(vocab_size=2000, d_model=64))
        scaled = model.src_embedding.tokens.weight[4:] * 8
        assert scaled.std().item() == pytest.approx(1.0, abs=0.02)
        assert (model.src_embedding.tokens.weight[PAD] == 0).all()


class TestTying:
    def test_one_matrix_serves_three_places(self):
        model = tiny_model()
        assert model.src_embedding.tokens.weight is model.tgt_embedding.tokens.weight
        assert model.output_weight is None
        states = random(2, 3, 16)
        torch.testing.assert_close(model.project(states), states @ model.src_embedding.tokens.weight.T)

    def test_untied_matrices_are_three(self):
        model = tiny_model(tie_embeddings=False)
        matrices = [model.src_embedding.tokens.weight, model.tgt_embedding.tokens.weight, model.output_weight]
        assert len({matrix.data_ptr() for matrix in matrices}) == 3
        states = random(2, 3, 16)
        torch.testing.assert_close(model.project(states), states @ model.output_weight.T)

    def test_the_output_alone_may_be_tied_to_the_target(self):
        model = tiny_model(tie_embeddings=False, tie_output=True, tgt_vocab_size=17)
        assert model.output_weight is None and model.tgt_embedding is not model.src_embedding
        assert (model.src_embedding.tokens.weight.shape, model.tgt_embedding.tokens.weight.shape) == ((13, 16), (17, 16))
        states = random(2, 3, 16)
        torch.testing.assert_close(model.project(states), states @ model.tgt_embedding.tokens.weight.T)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_the_gradient_is_the_sum_of_the_three_places(self, norm):
        tied, untied = tiny_model(norm=norm), tiny_model(norm=norm, tie_embeddings=False)
        matrix = tied.src_embedding.tokens.weight.detach()
        state = {**tied.state_dict(), "output_weight": matrix}
        untied.load_state_dict(state)
        for model in (tied, untied):
            F.cross_entropy(model(SRC_IDS, TGT_IN_IDS).flatten(0, 1), TGT_IN_IDS.roll(-1, 1).flatten()).backward()
        parts = [untied.src_embedding.tokens.weight.grad, untied.tgt_embedding.tokens.weight.grad, untied.output_weight.grad]
        assert all(part.abs().sum() > 0 for part in parts)
        torch.testing.assert_close(tied.src_embedding.tokens.weight.grad, sum(parts), atol=1e-6, rtol=1e-5)

    def test_a_copy_of_the_model_is_tied_again(self):
        model = copy.deepcopy(tiny_model())
        assert model.src_embedding.tokens.weight is model.tgt_embedding.tokens.weight

    def test_tied_and_untied_compute_the_same_from_equal_matrices(self):
        tied, untied = tiny_model(output_bias=True), tiny_model(output_bias=True, tie_embeddings=False)
        untied.load_state_dict({**tied.state_dict(), "output_weight": tied.src_embedding.tokens.weight})
        assert torch.equal(tied(SRC_IDS, TGT_IN_IDS), untied(SRC_IDS, TGT_IN_IDS))


class TestLength:
    def test_as_many_positions_as_the_model_has(self):
        model = tiny_model(max_len=5)
        assert model.encode(SRC_IDS).shape == (3, 5, 16)
        assert model.decode(TGT_IN_IDS[:, :5], model.encode(SRC_IDS)).shape == (3, 5, 16)

    def test_one_more_is_refused_with_both_numbers(self):
        model = tiny_model(max_len=5)
        memory = model.encode(SRC_IDS)
        for run in (lambda: model.decode(TGT_IN_IDS, memory), lambda: model.encode(TGT_IN_IDS)):
            with pytest.raises(ValueError, match="6 positions.*5"):
                run()

    def test_a_cache_counts(self):
        model = tiny_model(max_len=5)
        memory, cache = model.encode(SRC_IDS), DecoderCache(3)
        model.decode(TGT_IN_IDS[:, :4], memory, cache=cache)
        with pytest.raises(ValueError, match="6 positions.*5"):
            model.decode(TGT_IN_IDS[:, 4:6], memory, cache=cache)
        assert cache.length == 4
        assert model.decode(TGT_IN_IDS[:, 4:5], memory, cache=cache).shape == (3, 1, 16)

    def test_one_token_is_enough(self):
        model = tiny_model()
        assert model(torch.tensor([[2]]), torch.tensor([[1]])).isfinite().all()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_parameter_learns(norm):
    model = tiny_model(norm=norm, tie_embeddings=False, output_bias=True, dropout=0.1, attention_dropout=0.1).train()
    torch.manual_seed(0)
    F.cross_entropy(model(SRC_IDS, TGT_IN_IDS).flatten(0, 1), TGT_IN_IDS.roll(-1, 1).flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.isfinite().all(), name
        # a bias added to every key shifts all scores of a query alike, which softmax does not see
        assert parameter.grad.abs().max() > 1e-6 or name.endswith("k_proj.bias"), name


def test_the_final_norm_belongs_to_pre_norm_only():
    names = {name for name, _ in tiny_model(norm="pre").named_parameters()} - {name for name, _ in tiny_model().named_parameters()}
    assert names == {"encoder_norm.weight", "encoder_norm.bias", "decoder_norm.weight", "decoder_norm.bias"}


def test_a_fresh_model_starts_near_unit_variance_and_without_biases():
    torch.manual_seed(0)
    model = Transformer(tiny_config(vocab_size=500, d_model=64, d_ff=128))
    logits = model(SRC_IDS, TGT_IN_IDS)
    assert 0.5 < logits.std().item() < 2
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            assert (parameter == 0).all(), name


def test_evaluation_is_deterministic_and_training_is_not():
    model = tiny_model(dropout=0.3)
    assert torch.equal(model(SRC_IDS, TGT_IN_IDS), model(SRC_IDS, TGT_IN_IDS))
    torch.testing.assert_close(model(SRC_IDS, TGT_IN_IDS), tiny_model()(SRC_IDS, TGT_IN_IDS), atol=0, rtol=0)
    model.train()
    assert not torch.equal(model(SRC_IDS, TGT_IN_IDS), model(SRC_IDS, TGT_IN_IDS))


@pytest.mark.parametrize("hooked", [False, True])
def test_a_call_leaves_nothing_on_the_model(hooked):
    model = tiny_model()

    def things() -> list[tuple[str, set[str], int]]:
        return [(name, set(vars(module)), len(module._forward_hooks)) for name, module in model.named_modules()]

    before, state = things(), {key: value.clone() for key, value in model.state_dict().items()}
    if hooked:
        with attention_hook(AttentionRecorder()):
            model(SRC_IDS, TGT_IN_IDS)
    else:
        model(SRC_IDS, TGT_IN_IDS)
        model.decode(TGT_IN_IDS, model.encode(SRC_IDS), cache=DecoderCache(3))
    assert things() == before
    assert all(torch.equal(value, state[key]) for key, value in model.state_dict().items())
    assert torch.equal(model.positions, sinusoidal_table(20, 16))


def test_a_decoder_with_a_table_of_its_own_reads_it_and_the_encoder_does_not():
    model, changed = tiny_model(), tiny_model()
    changed.tgt_positions = random(20, 16)
    memory = model.encode(SRC_IDS, SRC_MASK)
    assert torch.equal(changed.encode(SRC_IDS, SRC_MASK), memory)
    embedded = []
    changed.tgt_embedding.register_forward_hook(lambda module, args, out: embedded.append(out))
    cache = DecoderCache(3)
    for ids in TGT_IN_IDS.split(4, dim=1):
        changed.decode(ids, memory, SRC_MASK, cache)
    expected = changed.tgt_embedding.tokens.weight[TGT_IN_IDS] * 4 + changed.tgt_positions[:6]
    torch.testing.assert_close(torch.cat(embedded, dim=1), expected)
    assert "tgt_positions" not in changed.state_dict()


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-5), (torch.bfloat16, 0.5)])
def test_other_precisions_run_through(dtype, tolerance, hooked):
    expected = tiny_model()(SRC_IDS, TGT_IN_IDS)
    model = tiny_model().to(dtype)
    if hooked:
        with attention_hook(AttentionRecorder()) as recorder:
            logits = model(SRC_IDS, TGT_IN_IDS)
        assert recorder.stack("cross").dtype == dtype
    else:
        logits = model(SRC_IDS, TGT_IN_IDS)
    assert logits.dtype == dtype
    scale = expected.abs().max().item()
    assert ((logits.to(torch.float32) - expected).abs() < tolerance * scale).all()


@pytest.mark.parametrize("hooked", [False, True])
def test_everything_is_made_on_the_models_device(hooked):
    """On the "meta" device any tensor made elsewhere is an error, and no accelerator is needed."""
    model = tiny_model().to("meta")
    src_ids, tgt_in_ids, src_mask = SRC_IDS.to("meta"), TGT_IN_IDS.to("meta"), SRC_MASK.to("meta")
    cache = DecoderCache(3)

    def run() -> Tensor:
        memory = model.encode(src_ids, src_mask)
        model.decode(tgt_in_ids[:, :4], memory, src_mask, cache)
        return model.project(model.decode(tgt_in_ids[:, 4:], memory, src_mask, cache))

    if hooked:
        with attention_hook(lambda site, weights: None):
            logits = run()
    else:
        logits = run()
    assert logits.device.type == "meta" and logits.shape == (3, 2, 13)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_public_array_has_its_documented_shape(norm):
    """B=3, S=5, T=6, H=4, head_dim=4, D=16, V=13, 2 encoder and 3 decoder layers."""
    model = tiny_model(norm=norm, output_bias=True)
    cache, recorder = DecoderCache(3), AttentionRecorder()
    with attention_hook(recorder):
        memory = model.encode(SRC_IDS, SRC_MASK)
        states = model.decode(TGT_IN_IDS, memory, SRC_MASK, cache)
    layer = cache.layers[2]
    documented = [
        (padding_mask(SRC_IDS, PAD), (3, 5), torch.bool),
        (causal_mask(6), (6, 6), torch.bool),
        (causal_mask(2, past_len=4), (2, 6), torch.bool),
        (sinusoidal_table(20, 16), (20, 16), torch.float32),
        (wavelengths(16), (16,), torch.float64),
        (is_sine(16), (16,), torch.bool),
        (model.positions, (20, 16), torch.float32),
        (model.src_embedding(SRC_IDS, model.positions[:5]), (3, 5, 16), torch.float32),
        (model.encoder[0](memory, SRC_MASK[:, None, None, :]), (3, 5, 16), torch.float32),
        (model.encoder[0].feed_forward(memory), (3, 5, 16), torch.float32),
        (model.decoder[0](states, memory, causal_mask(6), SRC_MASK[:, None, None, :]), (3, 6, 16), torch.float32),
        (model.decoder[0].cross_attn(states, memory, SRC_MASK[:, None, None, :]), (3, 6, 16), torch.float32),
        (memory, (3, 5, 16), torch.float32),
        (states, (3, 6, 16), torch.float32),
        (model.project(states), (3, 6, 13), torch.float32),
        (model.project(states[0, -1]), (13,), torch.float32),
        (model(SRC_IDS, TGT_IN_IDS), (3, 6, 13), torch.float32),
        (recorder.stack("encoder_self"), (2, 3, 4, 5, 5), torch.float32),
        (recorder.stack("decoder_self"), (3, 3, 4, 6, 6), torch.float32),
        (recorder.stack("cross"), (3, 3, 4, 6, 5), torch.float32),
        (layer.self_k, (3, 4, 6, 4), torch.float32),
        (layer.self_v, (3, 4, 6, 4), torch.float32),
        (layer.cross_k, (3, 4, 5, 4), torch.float32),
        (layer.cross_v, (3, 4, 5, 4), torch.float32),
    ]
    for i, (array, shape, dtype) in enumerate(documented):
        assert (tuple(array.shape), array.dtype) == (shape, dtype), f"entry {i}"
