import pytest
import torch
from torch import Tensor

from model.cache import DecoderCache, LayerCache
from model.hooks import AttentionRecorder, attention_hook
from model.transformer import Transformer
from tests.model.factories import SRC_IDS, SRC_MASK, TGT_IN_IDS, random, tiny_model

CHUNKS = [[1, 1, 1, 1, 1, 1], [6], [2, 2, 2], [3, 1, 2], [1, 5], [5, 1], [4, 2]]


def in_chunks(model: Transformer, chunks: list[int], cache: DecoderCache) -> Tensor:
    memory, states, start = model.encode(SRC_IDS, SRC_MASK), [], 0
    for size in chunks:
        states.append(model.decode(TGT_IN_IDS[:, start : start + size], memory, SRC_MASK, cache))
        start += size
        assert cache.length == start
    return torch.cat(states, dim=1)


@pytest.mark.parametrize("chunks", CHUNKS, ids=str)
@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"position_layout": "halves", "activation": "silu"}], ids=str)
def test_cached_decoding_equals_one_pass(changes, chunks):
    model = tiny_model(**changes)
    whole = model.decode(TGT_IN_IDS, model.encode(SRC_IDS, SRC_MASK), SRC_MASK)
    torch.testing.assert_close(in_chunks(model, chunks, DecoderCache(3)), whole, atol=1e-5, rtol=0)


@pytest.mark.parametrize("length", range(1, 21))
def test_at_every_length_up_to_the_models_last_position(length):
    model, memory_ids = tiny_model(), SRC_IDS[:1]
    ids = torch.arange(length)[None, :] * 5 % 13
    memory, cache = model.encode(memory_ids), DecoderCache(3)
    steps = [model.decode(ids[:, t : t + 1], memory, cache=cache) for t in range(length)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model.decode(ids, memory), atol=1e-5, rtol=0)


def test_row_t_of_the_maps_is_that_of_step_t():
    model = tiny_model()
    memory, cache = model.encode(SRC_IDS, SRC_MASK), DecoderCache(3)
    with attention_hook(AttentionRecorder()) as whole:
        model.decode(TGT_IN_IDS, memory, SRC_MASK)
    for t in range(6):
        with attention_hook(AttentionRecorder()) as step:
            model.decode(TGT_IN_IDS[:, t : t + 1], memory, SRC_MASK, cache)
        serial, parallel = step.stack("decoder_self"), whole.stack("decoder_self")
        assert serial.shape == (3, 3, 4, 1, t + 1)
        torch.testing.assert_close(serial[..., 0, :], parallel[..., t, : t + 1], atol=1e-5, rtol=0)
        torch.testing.assert_close(step.stack("cross")[..., 0, :], whole.stack("cross")[..., t, :], atol=1e-5, rtol=0)


def test_keys_and_values_of_memory_are_computed_once():
    model, calls = tiny_model(), []
    for layer in model.decoder:
        for projection in (layer.cross_attn.k_proj, layer.cross_attn.v_proj):
            projection.register_forward_hook(lambda module, args, out: calls.append(module))
    in_chunks(model, [1] * 6, DecoderCache(3))
    assert len(calls) == len(set(calls)) == 2 * 3


def test_self_attention_projects_new_positions_only():
    model, lengths = tiny_model(), []
    model.decoder[0].self_attn.k_proj.register_forward_hook(lambda module, args, out: lengths.append(out.shape[1]))
    in_chunks(model, [2, 1, 3], DecoderCache(3))
    assert lengths == [2, 1, 3]


def test_cached_memory_is_the_one_used():
    model = tiny_model()
    memory, cache = model.encode(SRC_IDS, SRC_MASK), DecoderCache(3)
    model.decode(TGT_IN_IDS[:, :3], memory, SRC_MASK, cache)
    rest = model.decode(TGT_IN_IDS[:, 3:], torch.full_like(memory, 99.0), SRC_MASK, cache)
    torch.testing.assert_close(rest, model.decode(TGT_IN_IDS, memory, SRC_MASK)[:, 3:], atol=1e-5, rtol=0)


@pytest.mark.parametrize("rows", [[2, 0, 1], [1, 1, 0], [2], [0, 0, 1, 1, 2, 2]], ids=str)
def test_reordered_rows_go_on_as_if_they_had_always_stood_there(rows):
    model, rows = tiny_model(), torch.tensor(rows)
    memory, cache = model.encode(SRC_IDS, SRC_MASK), DecoderCache(3)
    model.decode(TGT_IN_IDS[:, :3], memory, SRC_MASK, cache)
    cache.reorder(rows)
    assert cache.length == 3
    new = torch.randint(3, 13, (len(rows), 2), generator=torch.Generator().manual_seed(0))
    out = [model.decode(new[:, t : t + 1], memory[rows], SRC_MASK[rows], cache) for t in range(2)]
    ids = torch.cat((TGT_IN_IDS[rows, :3], new), dim=1)
    whole = model.decode(ids, memory[rows], SRC_MASK[rows])
    torch.testing.assert_close(torch.cat(out, dim=1), whole[:, 3:], atol=1e-5, rtol=0)


def test_beams_of_one_sentence_may_keep_the_keys_of_memory():
    model, rows = tiny_model(), torch.tensor([1, 1, 0])
    memory, cache = model.encode(SRC_IDS[:1].expand(3, -1)), DecoderCache(3)
    model.decode(TGT_IN_IDS[:, :3], memory, cache=cache)
    cross = [layer.cross_k for layer in cache.layers]
    cache.reorder(rows, cross=False)
    assert all(layer.cross_k is kept for layer, kept in zip(cache.layers, cross, strict=True))
    out = model.decode(TGT_IN_IDS[:, 3:4], memory, cache=cache)
    ids = torch.cat((TGT_IN_IDS[rows, :3], TGT_IN_IDS[:, 3:4]), dim=1)
    torch.testing.assert_close(out, model.decode(ids, memory)[:, 3:], atol=1e-5, rtol=0)


def test_reorder_touches_every_tensor_of_every_layer():
    cache = DecoderCache(2)
    for i, layer in enumerate(cache.layers):
        layer.self_k, layer.self_v, layer.cross_k, layer.cross_v = (random(3, 2, 4, 5, seed=4 * i + j) for j in range(4))
    before = [[getattr(layer, name).clone() for name in ("self_k", "self_v", "cross_k", "cross_v")] for layer in cache.layers]
    cache.reorder(torch.tensor([2, 0]))
    for layer, tensors in zip(cache.layers, before, strict=True):
        for name, tensor in zip(("self_k", "self_v", "cross_k", "cross_v"), tensors, strict=True):
            assert torch.equal(getattr(layer, name), tensor[[2, 0]])


def test_an_empty_cache_has_length_zero_and_may_be_reordered():
    cache = DecoderCache(3)
    cache.reorder(torch.tensor([0, 0]))
    assert cache.length == 0 and cache.layers == [LayerCache()] * 3


def test_caches_share_nothing():
    model, one, other = tiny_model(), DecoderCache(3), DecoderCache(3)
    memory = model.encode(SRC_IDS, SRC_MASK)
    model.decode(TGT_IN_IDS[:, :2], memory, SRC_MASK, one)
    model.decode(TGT_IN_IDS.flip(1)[:, :4], memory.flip(0), SRC_MASK.flip(0), other)
    rest = model.decode(TGT_IN_IDS[:, 2:], memory, SRC_MASK, one)
    torch.testing.assert_close(rest, model.decode(TGT_IN_IDS, memory, SRC_MASK)[:, 2:], atol=1e-5, rtol=0)
    assert (one.length, other.length) == (6, 4)


def test_extend_appends_in_order():
    cache, k, v = LayerCache(), random(2, 3, 5, 4, seed=1), random(2, 3, 5, 4, seed=2)
    for part in (slice(0, 2), slice(2, 3), slice(3, 5)):
        got = cache.extend(k[:, :, part], v[:, :, part])
    assert torch.equal(got[0], k) and torch.equal(got[1], v)
    assert cache.self_k is got[0] and cache.self_v is got[1]
