"""Parallel against serial: operations against torch's own counter, maps against a pass of torch.nn, times as they are measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from model.analysis.generation_cost import WAYS, generation_cost, step_operations
from model.analysis.sizes import operations
from model.cache import DecoderCache
from model.hooks import AttentionRecorder, attention_hook
from model.loading import load_translator
from model.translator import Translator
from tests import tiny
from tests.model.factories import tiny_config, tiny_model
from tests.model.marian.factories import make_marian_folder

UNEQUAL = {"num_decoder_heads": 2, "decoder_d_ff": 40, "tie_embeddings": False, "tgt_vocab_size": 17}


def counted(model, way: str, src_len: int, tgt_len: int) -> list[int]:
    """What torch counts in the matrix products of each step. Under a hook attention takes its open path, which the counter knows."""
    found = []
    memory = model.encode(torch.arange(src_len)[None] % model.config.vocab_size)
    ids = torch.arange(tgt_len)[None] % model.config.decoder.vocab_size
    cache = DecoderCache(len(model.decoder)) if way == "cached" else None
    spans = [(0, tgt_len)] if way == "parallel" else [(t if way == "cached" else 0, t + 1) for t in range(tgt_len)]
    for start, stop in spans:
        counter = FlopCounterMode(display=False)
        with torch.inference_mode(), attention_hook(AttentionRecorder()), counter:
            states = model.decode(ids[:, start:stop], memory, cache=cache)
            model.project(states if way == "parallel" else states[:, -1:])
        found.append(counter.get_total_flops())
    return found


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, UNEQUAL])
@pytest.mark.parametrize("way", WAYS)
def test_operations_are_those_that_torch_counts(way, changes):
    model = tiny_model(**changes)
    assert list(step_operations(model.config, way, 7, 5)) == counted(model, way, 7, 5)


def test_the_parallel_pass_is_the_sum_of_the_decoders_places():
    config = tiny_config(**UNEQUAL)
    places = operations(config, 7, 5)
    layer = sum(count for name, count in places.items() if name.startswith("decoder."))
    assert step_operations(config, "parallel", 7, 5) == (config.decoder.num_layers * layer + places["output"],)


def test_another_way_is_none():
    with pytest.raises(ValueError, match="parallel, cached, uncached"):
        step_operations(tiny_config(), "serial", 3, 3)


@pytest.fixture(scope="module", params=["post", "pre", "halves", "marian"])
def translator(request, tmp_path_factory, tiny_tokenizer) -> Translator:
    if request.param == "marian":
        return load_translator(make_marian_folder(tmp_path_factory.mktemp("marian") / "opus-mt-en-fr", seed=3), "cpu")
    changes = {"position_layout": "halves"} if request.param == "halves" else {"norm": request.param}
    return Translator(tiny.random_model(tiny.tiny_config(tiny_tokenizer.vocab_size, **changes)), tiny_tokenizer, "tiny")


@pytest.fixture(scope="module")
def run(translator):
    translation = translator.force("The cat sat on the mat.", "Le chat a vu le chat et le chien.", translator.targets[0])
    return translation, translator.trace(translation)


def test_all_three_see_the_same_maps(translator, run):
    found = generation_cost(translator.model, *run, repeats=1)
    assert found.tgt_len == len(run[0].tgt_ids) and found.src_len == len(run[0].src_ids)
    for way in ("cached", "uncached"):
        assert found.difference[way].shape == (found.tgt_len,)
        assert found.difference[way].max() < 2e-6
        assert len(found.operations[way]) == found.tgt_len


def test_a_row_that_differs_is_named(translator, run):
    translation, trace = run
    causal, cross = trace.decoder_self_attention.copy(), trace.cross_attention.copy()
    causal[-1, 1, 3, :2] = causal[-1, 1, 3, :2] + np.float32([0.25, -0.25])
    causal[-1, 1, 3] = np.abs(causal[-1, 1, 3]) / np.abs(causal[-1, 1, 3]).sum()
    cross[0, 0, 5] = np.roll(cross[0, 0, 5], 1)
    found = generation_cost(translator.model, translation, replace(trace, decoder_self_attention=causal, cross_attention=cross), repeats=1)
    for way in ("cached", "uncached"):
        assert [t for t, worst in enumerate(found.difference[way]) if worst > 1e-4] == [3, 5]


def test_times_are_measured_in_turns_and_bounded(translator, run):
    found = generation_cost(translator.model, *run, max_steps=4, repeats=3, seconds=60)
    assert found.tgt_len == 4 and [len(found.seconds[way]) for way in WAYS] == [3, 3, 3]
    assert all(second > 0 for way in WAYS for second in found.seconds[way])
    assert [len(each) for each in generation_cost(translator.model, *run, max_steps=2, repeats=9, seconds=0).seconds.values()] == [1, 1, 1]
