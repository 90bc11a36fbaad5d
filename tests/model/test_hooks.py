from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from model import attention
from model.attention import MultiHeadAttention
from model.hooks import ATTENTION_KINDS, AttentionRecorder, AttentionSite, attention_hook, hooks_active, run_hooks
from tests.model.factories import SITES, SRC_IDS, SRC_MASK, TGT_IN_IDS, fill, random, tiny_config, tiny_model, torch_attention, zero_head


class Spy:
    """Stands in for a function, counts its calls and passes them on."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


class Shapes(TorchFunctionMode):
    """Notes the name and the result's shape of every torch function called."""

    def __init__(self):
        super().__init__()
        self.names, self.shapes = Counter(), set()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.names[getattr(function, "__name__", "")] += 1
        if isinstance(result, Tensor):
            self.shapes.add(tuple(result.shape))
        return result


class TestCapture:
    def test_every_layer_of_every_kind_is_seen_once_in_order(self):
        seen = []
        with attention_hook(lambda site, weights: seen.append((site, tuple(weights.shape)))):
            tiny_model()(SRC_IDS, TGT_IN_IDS)
        shapes = {"encoder_self": (3, 4, 5, 5), "decoder_self": (3, 4, 6, 6), "cross": (3, 4, 6, 5)}
        assert seen == [(site, shapes[site.kind]) for site in SITES]
        assert {site.kind for site in SITES} == set(ATTENTION_KINDS)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_rows_sum_to_one_and_hidden_keys_are_zero(self, norm):
        with attention_hook(AttentionRecorder()) as recorder:
            tiny_model(norm=norm)(SRC_IDS, TGT_IN_IDS)
        for kind in ATTENTION_KINDS:
            weights = recorder.stack(kind)
            assert (weights >= 0).all()
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-6, rtol=0)
        future = torch.ones(6, 6, dtype=torch.bool).triu(1)
        decoder_self = recorder.stack("decoder_self")
        assert (decoder_self[..., future] == 0).all() and (decoder_self[..., ~future] > 0).all()

    def test_stack_puts_layers_in_order_whatever_order_they_came_in(self):
        recorder = AttentionRecorder()
        for layer in (2, 0, 1):
            recorder(AttentionSite("cross", layer), torch.full((1, 1, 1, 1), float(layer)))
        recorder(AttentionSite("decoder_self", 0), torch.full((1, 1, 1, 1), 9.0))
        assert recorder.stack("cross").flatten().tolist() == [0, 1, 2]

    def test_more_than_ten_layers_are_sorted_as_numbers(self):
        with attention_hook(AttentionRecorder()) as recorder:
            tiny_model(num_encoder_layers=11, d_ff=8).encode(SRC_IDS)
        assert [site.layer for site in recorder.weights] == list(range(11))
        assert torch.equal(recorder.stack("encoder_self")[10], recorder.weights[AttentionSite("encoder_self", 10)])

    def test_a_kind_that_did_not_run_is_an_error(self):
        with attention_hook(AttentionRecorder()) as recorder:
            tiny_model().encode(SRC_IDS)
        with pytest.raises(KeyError, match="'cross'"):
            recorder.stack("cross")

    def test_a_second_pass_does_not_overwrite_the_first(self):
        model = tiny_model()
        with attention_hook(AttentionRecorder()):
            model.encode(SRC_IDS)
            with pytest.raises(RuntimeError, match="one recorder for one pass"):
                model.encode(SRC_IDS)

    def test_recorded_weights_hold_no_graph(self):
        with attention_hook(AttentionRecorder()) as recorder:
            tiny_model()(SRC_IDS, TGT_IN_IDS)
        assert not recorder.stack("cross").requires_grad

    def test_what_was_recorded_stays_when_a_later_hook_writes_into_the_tensor(self):
        def write(site: AttentionSite, weights: Tensor) -> None:
            weights[:, 0] = 0

        with torch.no_grad(), attention_hook(AttentionRecorder()) as recorder, attention_hook(write):
            tiny_model().encode(SRC_IDS)
        torch.testing.assert_close(recorder.stack("encoder_self").sum(-1), torch.ones(2, 3, 4, 5))

    def test_recorded_weights_reproduce_each_heads_output(self):
        module = fill(MultiHeadAttention(tiny_config(), AttentionSite("cross", 0)), seed=3)
        query, memory = random(3, 6, 16, seed=1), random(3, 5, 16, seed=2)
        with attention_hook(AttentionRecorder()) as recorder:
            out = module(query, memory, SRC_MASK[:, None, None, :])
        weights = recorder.weights[module.site]
        heads = []
        for head in range(4):
            rows = slice(4 * head, 4 * head + 4)
            value = memory @ module.v_proj.weight[rows].T + module.v_proj.bias[rows]
            heads.append(weights[:, head] @ value)
        expected = torch.cat(heads, dim=-1) @ module.out_proj.weight.T + module.out_proj.bias
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(module(query, memory, SRC_MASK[:, None, None, :]), expected, atol=1e-5, rtol=0)

    def test_looking_does_not_change_the_result(self):
        model = tiny_model()
        fused = model(SRC_IDS, TGT_IN_IDS)
        with attention_hook(lambda site, weights: None):
            stepwise = model(SRC_IDS, TGT_IN_IDS)
        torch.testing.assert_close(stepwise, fused, atol=1e-5, rtol=0)

    @pytest.mark.parametrize("norm", ["post", "pre"])
    def test_maps_are_those_of_nn_multiheadattention_on_the_same_inputs(self, norm):
        """Every site of a whole model, recomputed from the input that its module really got."""
        model, inputs = tiny_model(norm=norm), {}
        for module in model.modules():
            if isinstance(module, MultiHeadAttention):
                module.register_forward_hook(lambda module, args, out: inputs.update({module: args}))
        with attention_hook(AttentionRecorder()) as recorder:
            model(SRC_IDS, TGT_IN_IDS)
        assert len(inputs) == len(SITES)
        for module, (query, memory, mask, *_) in inputs.items():
            key = query if memory is None else memory
            hidden = ~mask.expand(3, 4, query.shape[1], key.shape[1]).flatten(0, 1)
            _, expected = torch_attention(module)(query, key, key, attn_mask=hidden, average_attn_weights=False)
            torch.testing.assert_close(recorder.weights[module.site], expected, atol=1e-5, rtol=0)


class TestIntervention:
    @pytest.mark.parametrize("head", range(4))
    def test_a_zeroed_head_loses_exactly_its_share(self, head):
        """The output is a sum over heads, each by its own columns of out_proj: a zeroed head takes its own term away."""
        module = fill(MultiHeadAttention(tiny_config(), AttentionSite("encoder_self", 0)), seed=3)
        x, columns = random(3, 5, 16), slice(4 * head, 4 * head + 4)
        with attention_hook(AttentionRecorder()) as recorder:
            whole = module(x, None, None)
        value = x @ module.v_proj.weight[columns].T + module.v_proj.bias[columns]
        share = recorder.weights[module.site][:, head] @ value @ module.out_proj.weight[:, columns].T
        with attention_hook(zero_head(head)):
            without = module(x, None, None)
        torch.testing.assert_close(without, whole - share, atol=1e-5, rtol=0)
        assert share.abs().max() > 0.1

    def test_all_heads_zeroed_leave_the_bias(self):
        module = fill(MultiHeadAttention(tiny_config(), AttentionSite("encoder_self", 0)))
        with attention_hook(lambda site, weights: torch.zeros_like(weights)):
            out = module(random(2, 5, 16), None, None)
        assert torch.equal(out, module.out_proj.bias.expand(2, 5, -1))

    def test_uniform_weights_give_the_mean_of_the_values(self):
        module, x = fill(MultiHeadAttention(tiny_config(), AttentionSite("encoder_self", 0))), random(2, 5, 16)
        with attention_hook(lambda site, weights: torch.full_like(weights, 1 / 5)):
            out = module(x, None, None)
        expected = module.out_proj(module.v_proj(x).mean(1, keepdim=True)).expand(-1, 5, -1)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=0)

    def test_only_the_chosen_layer_is_changed(self):
        model, chosen = tiny_model(), AttentionSite("decoder_self", 1)
        change = zero_head(2)
        with attention_hook(AttentionRecorder()) as before:
            model(SRC_IDS, TGT_IN_IDS)
        with (
            attention_hook(lambda site, weights: change(site, weights) if site == chosen else None),
            attention_hook(AttentionRecorder()) as after,
        ):
            model(SRC_IDS, TGT_IN_IDS)
        for site in SITES[: SITES.index(chosen)]:
            assert torch.equal(after.weights[site], before.weights[site])
        assert (after.weights[chosen][:, 2] == 0).all()
        for site in SITES[SITES.index(chosen) + 1 :]:
            assert not torch.allclose(after.weights[site], before.weights[site])

    @pytest.mark.parametrize(
        "change",
        [lambda w: w[:, :, :, :-1], lambda w: w.mean(1, keepdim=True), lambda w: w[0], lambda w: w.transpose(2, 3)],
        ids=["a key less", "heads averaged", "one sentence", "transposed"],
    )
    def test_another_shape_is_refused_with_both(self, change):
        model = tiny_model()
        memory = model.encode(SRC_IDS)
        wrong = tuple(change(torch.zeros(3, 4, 6, 5)).shape)

        def hook(site: AttentionSite, weights: Tensor) -> Tensor | None:
            return change(weights) if site.kind == "cross" else None

        with attention_hook(hook), pytest.raises(ValueError) as error:
            model.decode(TGT_IN_IDS, memory)
        assert str(wrong) in str(error.value) and "(3, 4, 6, 5)" in str(error.value) and "cross" in str(error.value)
        assert not hooks_active()

    def test_gradients_flow_through_changed_weights(self):
        model, gate = tiny_model(), torch.ones(4, requires_grad=True)
        with attention_hook(lambda site, weights: weights * gate[:, None, None]):
            model(SRC_IDS, TGT_IN_IDS).square().mean().backward()
        assert (gate.grad != 0).all()


class TestScope:
    def test_nothing_is_left_after_the_block(self):
        model = tiny_model()
        plain = model(SRC_IDS, TGT_IN_IDS)
        assert not hooks_active()
        with attention_hook(zero_head(0)):
            assert hooks_active()
            assert not torch.allclose(model(SRC_IDS, TGT_IN_IDS), plain)
        assert not hooks_active()
        assert torch.equal(model(SRC_IDS, TGT_IN_IDS), plain)

    def test_nothing_is_left_after_an_exception_in_a_hook(self):
        model = tiny_model()
        plain = model(SRC_IDS, TGT_IN_IDS)

        def hook(site: AttentionSite, weights: Tensor) -> None:
            if site == AttentionSite("cross", 1):
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError), attention_hook(hook):
            model(SRC_IDS, TGT_IN_IDS)
        assert not hooks_active()
        assert torch.equal(model(SRC_IDS, TGT_IN_IDS), plain)

    def test_an_exception_in_an_inner_block_leaves_the_outer_hook(self):
        seen = []
        with attention_hook(lambda site, weights: seen.append(site)):
            with pytest.raises(ZeroDivisionError), attention_hook(lambda site, weights: None):
                raise ZeroDivisionError
            assert hooks_active()
            tiny_model().encode(SRC_IDS)
        assert seen == SITES[:2] and not hooks_active()

    def test_the_hook_itself_is_what_with_gives(self):
        recorder = AttentionRecorder()
        with attention_hook(recorder) as given:
            assert given is recorder

    def test_the_outer_hook_goes_first_and_the_inner_one_sees_its_change(self):
        calls = []

        def named(name: str, factor: float):
            def hook(site: AttentionSite, weights: Tensor) -> Tensor:
                calls.append((name, weights.flatten()[0].item()))
                return weights * factor

            return hook

        start = torch.ones(1, 1, 1, 1)
        with attention_hook(named("outer", 2)), attention_hook(named("inner", 10)):
            assert run_hooks(SITES[0], start).item() == 20
        assert calls == [("outer", 1), ("inner", 2)]

    def test_a_reader_between_two_changes_sees_the_first_only(self):
        with attention_hook(zero_head(0)), attention_hook(AttentionRecorder()) as between, attention_hook(zero_head(1)):
            tiny_model().encode(SRC_IDS)
        weights = between.stack("encoder_self")[0]
        assert (weights[:, 0] == 0).all() and (weights[:, 1] > 0).any()

    def test_the_same_hook_twice_runs_twice(self):
        seen = []

        def hook(site: AttentionSite, weights: Tensor) -> None:
            seen.append(site)

        with attention_hook(hook), attention_hook(hook):
            tiny_model().encode(SRC_IDS)
        assert seen == [SITES[0], SITES[0], SITES[1], SITES[1]]


class TestFusedPath:
    def test_without_a_hook_no_weights_are_built(self, monkeypatch):
        model = tiny_model()
        fused, stepwise = Spy(F.scaled_dot_product_attention), Spy(attention.scaled_dot_product_attention)
        monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
        monkeypatch.setattr(attention, "scaled_dot_product_attention", stepwise)
        with Shapes() as called:
            model(SRC_IDS, TGT_IN_IDS)
        assert (fused.calls, stepwise.calls) == (len(SITES), 0)
        assert not any("softmax" in name for name in called.names)
        assert not called.shapes & {(3, 4, 5, 5), (3, 4, 6, 6), (3, 4, 6, 5)}

    def test_with_a_hook_they_are(self, monkeypatch):
        """The counterpart, without which the test above could pass for nothing."""
        model = tiny_model()
        fused, stepwise = Spy(F.scaled_dot_product_attention), Spy(attention.scaled_dot_product_attention)
        monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
        monkeypatch.setattr(attention, "scaled_dot_product_attention", stepwise)
        with Shapes() as called, attention_hook(lambda site, weights: None):
            model(SRC_IDS, TGT_IN_IDS)
        assert (fused.calls, stepwise.calls) == (0, len(SITES))
        assert called.names["softmax"] == len(SITES)
        assert called.shapes >= {(3, 4, 5, 5), (3, 4, 6, 6), (3, 4, 6, 5)}
