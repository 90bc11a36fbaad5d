"""The values that a pass weighs, seen through `value_hook`."""

import threading

import pytest
import torch
from torch import Tensor

from model.attention import MultiHeadAttention
from model.cache import DecoderCache
from model.hooks import AttentionRecorder, AttentionSite, ValueRecorder, attention_hook, hooks_active, value_hook
from tests.model.factories import SITES, SRC_IDS, TGT_IN_IDS, tiny_model, zero_head


def projected(module: MultiHeadAttention, x: Tensor, num_heads: int) -> Tensor:
    """[B, S, D] through the value projection, head by head: [B, H, S, K]."""
    width = x.shape[-1] // num_heads
    rows = [slice(width * head, width * (head + 1)) for head in range(num_heads)]
    return torch.stack([x @ module.v_proj.weight[part].T + module.v_proj.bias[part] for part in rows], dim=1)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("watched", [False, True])
def test_every_sites_values_are_those_of_what_its_module_read(norm: str, watched: bool) -> None:
    """With the fused kernel (nobody watches the weights) and without it."""
    model, inputs = tiny_model(norm=norm, num_decoder_heads=2), {}
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.register_forward_hook(lambda module, args, out: inputs.update({module: args}))
    with torch.no_grad(), value_hook(ValueRecorder()) as recorder:
        if watched:
            with attention_hook(lambda site, weights: None):
                model(SRC_IDS, TGT_IN_IDS)
        else:
            assert not hooks_active()
            model(SRC_IDS, TGT_IN_IDS)
    assert list(recorder.values) == SITES
    for module, (query, memory, *_) in inputs.items():
        num_heads = 4 if module.site.kind == "encoder_self" else 2
        expected = projected(module, query if memory is None else memory, num_heads)
        torch.testing.assert_close(recorder.values[module.site], expected, atol=1e-5, rtol=0)
    assert recorder.stack("cross").shape == (3, 3, 2, 5, 8) and recorder.stack("encoder_self").shape == (2, 3, 4, 5, 4)


def test_with_a_cache_the_values_of_the_past_are_shown_too() -> None:
    model = tiny_model()
    with torch.no_grad():
        memory = model.encode(SRC_IDS[:1])
        with value_hook(ValueRecorder()) as whole:
            model.decode(TGT_IN_IDS[:1], memory)
        cache = DecoderCache(3)
        model.decode(TGT_IN_IDS[:1, :4], memory, cache=cache)
        with value_hook(ValueRecorder()) as rest:
            model.decode(TGT_IN_IDS[:1, 4:], memory, cache=cache)
    for kind in ("decoder_self", "cross"):
        torch.testing.assert_close(rest.stack(kind), whole.stack(kind), atol=1e-5, rtol=0)


def test_looking_changes_nothing_and_leaves_nothing() -> None:
    model, seen = tiny_model(), []
    plain = model(SRC_IDS, TGT_IN_IDS)
    with value_hook(lambda site, v: seen.append(site)):
        assert torch.equal(model(SRC_IDS, TGT_IN_IDS), plain)
    model(SRC_IDS, TGT_IN_IDS)
    assert seen == SITES


def test_the_hook_is_gone_after_an_error() -> None:
    seen = []
    with pytest.raises(ZeroDivisionError), value_hook(lambda site, v: seen.append(site)):
        raise ZeroDivisionError
    tiny_model().encode(SRC_IDS)
    assert seen == []


def test_values_and_weights_have_hooks_of_their_own() -> None:
    with torch.no_grad(), attention_hook(AttentionRecorder()) as weights, value_hook(ValueRecorder()) as values:
        tiny_model().encode(SRC_IDS)
    assert weights.stack("encoder_self").shape == (2, 3, 4, 5, 5)
    assert values.stack("encoder_self").shape == (2, 3, 4, 5, 4)


def test_nested_hooks_all_see_the_values_the_outer_one_first() -> None:
    calls = []
    with value_hook(lambda site, v: calls.append("outer")), value_hook(lambda site, v: calls.append("inner")):
        tiny_model().encode(SRC_IDS)
    assert calls == ["outer", "inner"] * 2


def test_what_was_recorded_is_a_copy_without_a_graph() -> None:
    recorder, v = ValueRecorder(), torch.ones(1, 2, 3, 4, requires_grad=True)
    recorder(SITES[0], v)
    with torch.no_grad():
        v.zero_()
    assert (recorder.values[SITES[0]] == 1).all() and not recorder.values[SITES[0]].requires_grad


def test_a_second_pass_under_one_recorder_is_an_error() -> None:
    with value_hook(ValueRecorder()):
        tiny_model().encode(SRC_IDS)
        with pytest.raises(RuntimeError, match="one recorder for one pass"):
            tiny_model().encode(SRC_IDS)


def test_two_visitors_at_once_see_their_own_pass_only() -> None:
    """One watches another sentence than the other, a third changes the weights and watches nothing; all inside their blocks together."""
    model, sentences = tiny_model(), {"first": SRC_IDS[:1], "second": SRC_IDS[:1].flip(1)}
    alone, together, failures = {}, {name: ValueRecorder() for name in sentences}, []
    for name, ids in sentences.items():
        with torch.no_grad(), value_hook(ValueRecorder()) as recorder:
            model.encode(ids)
        alone[name] = recorder.stack("encoder_self")
    barrier = threading.Barrier(3, timeout=60)

    def watch(name: str) -> None:
        def hook(site: AttentionSite, v: Tensor) -> None:
            barrier.wait()
            together[name](site, v)

        with torch.no_grad(), value_hook(hook):
            model.encode(sentences[name])

    def change() -> None:
        def hook(site: AttentionSite, weights: Tensor) -> Tensor:
            barrier.wait()
            return zero_head(0)(site, weights)

        with torch.no_grad(), attention_hook(hook):
            model.encode(SRC_IDS[:1])

    def guarded(visit, *args: str) -> None:
        try:
            visit(*args)
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    threads = [threading.Thread(target=guarded, args=args) for args in ((watch, "first"), (watch, "second"), (change,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == [] and not any(thread.is_alive() for thread in threads)
    for name in sentences:
        torch.testing.assert_close(together[name].stack("encoder_self"), alone[name])
    assert not torch.allclose(alone["first"], alone["second"])
