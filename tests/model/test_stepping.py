"""The decoder's single steps against `Transformer.decode`, whose modules the other tests compare with torch's own."""

import threading

import pytest
import torch

from model import stepping
from model.hooks import attention_hook, value_hook
from model.stepping import DecoderWeights, Stepper
from model.variants import PARTS, without
from tests.tiny import random_model, tiny_config

SRC_IDS = torch.tensor([[4, 5, 6, 9, 2]])
# A beam search of every kind: one row, more, fewer, one parent for all, an order that is turned round, none that changes.
ROWS = ([0], [0, 0, 0], [2, 0, 1], [1, 1, 1], [0, 1, 2], [2, 0], [1, 0, 0, 1], [3], [0], [0, 0])


def walk(stepper, rows_of_steps, seed=0):
    """Feeds random tokens; yields (the ids that each row has read, its states)."""
    generator, read = torch.Generator().manual_seed(seed), [()]
    for rows in rows_of_steps:
        new = torch.randint(3, 13, (len(rows),), generator=generator)
        read = [(*read[row], int(token_id)) for row, token_id in zip(rows, new, strict=True)]
        yield torch.tensor(read), stepper(new, rows)


@torch.inference_mode()
def check(model, weights, rows_of_steps=ROWS, source=SRC_IDS):
    memory = model.encode(source)
    for ids, states in walk(Stepper(model, weights, memory), rows_of_steps):
        whole = model.decode(ids, memory.expand(len(ids), -1, -1))
        torch.testing.assert_close(states, whole[:, -1], atol=2e-5, rtol=0)
    torch.testing.assert_close(weights.output(states), model.project(states), atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "pre"},
        {"activation": "silu", "position_layout": "halves", "scale_embedding": False},
        {"num_decoder_heads": 4, "decoder_d_ff": 24, "tie_embeddings": False, "tie_output": True},
        {"tie_embeddings": False, "output_bias": False, "activation": "gelu"},
    ],
    ids=str,
)
def test_rows_that_part_and_die_are_as_if_each_were_read_alone(changes):
    model = random_model(tiny_config(13, **changes))
    check(model, DecoderWeights(model))


def test_with_matrices_laid_out_anew(monkeypatch):
    """Small enough for a test, so all are packed whatever they would gain."""
    monkeypatch.setattr("model.linear.LEAST_PACKED", 1)
    model = random_model(tiny_config(13, d_model=32, norm="pre"))
    weights = DecoderWeights(model)
    used = model.tgt_embedding.tokens.weight.numel() + sum(
        parameter.numel()
        for name, parameter in model.decoder.named_parameters()
        if name.endswith("weight") and "norm" not in name and "cross_attn.k_" not in name and "cross_attn.v_" not in name
    )
    if stepping.pack(model.tgt_embedding.tokens.weight) is not None:
        assert weights.num_bytes == 4 * used
    check(model, weights)
    assert DecoderWeights(model, packed=False).num_bytes == 0
    monkeypatch.setattr(stepping, "MAX_PACKED_BYTES", 4 * used)  # the keys and values of memory count as well, so that this is too little
    assert DecoderWeights(model).num_bytes == 0


def test_packed_weights_serve_a_model_of_a_size_that_gains():
    model = random_model(tiny_config(600, d_model=256, num_heads=4, d_ff=512, norm="pre"))
    weights = DecoderWeights(model)
    assert weights.num_bytes > 0 or stepping.pack(model.tgt_embedding.tokens.weight) is None
    check(model, weights)


def test_more_entries_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(stepping, "FIRST_ROOM", 2)
    model = random_model(tiny_config(13))
    check(model, DecoderWeights(model), [[0], [0] * 4, *[[2, 1, 0, 0]] * 9])


def test_up_to_the_last_position_and_no_further():
    model = random_model(tiny_config(13, max_len=6))
    weights = DecoderWeights(model)
    check(model, weights, [[0]] * 6)
    with torch.inference_mode(), pytest.raises(ValueError, match="7 positions are needed, the model has 6"):
        list(walk(Stepper(model, weights, model.encode(SRC_IDS)), [[0]] * 7))


def test_a_table_of_positions_of_the_decoders_own():
    model = random_model(tiny_config(13))
    model.tgt_positions = model.positions.flip(0)
    check(model, DecoderWeights(model))


@pytest.mark.parametrize("part", [part for part in PARTS if part != "causal_mask"])
def test_the_weights_of_a_model_serve_its_variants(part):
    """Without the causal mask a step sees what it always saw, and a whole pass more: there is nothing to compare."""
    model = random_model(tiny_config(13))
    weights, variant = DecoderWeights(model), without(model, part)
    check(variant, weights)
    with torch.inference_mode():
        ours, theirs = (
            [states for _, states in walk(Stepper(each, weights, each.encode(SRC_IDS)), ROWS)][-1] for each in (model, variant)
        )
    assert float((ours - theirs).abs().max()) > 0.01


def test_weights_are_those_of_the_model_until_they_are_packed():
    model = random_model(tiny_config(13))
    weights = DecoderWeights(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.1)
    check(model, weights)


def test_no_hook_sees_a_step():
    model = random_model(tiny_config(13))
    with torch.inference_mode():
        stepper, seen = Stepper(model, DecoderWeights(model), model.encode(SRC_IDS)), []
        with attention_hook(lambda *args: seen.append(args)), value_hook(lambda *args: seen.append(args)):
            list(walk(stepper, ROWS))
    assert seen == []


def test_steppers_of_one_model_share_nothing():
    model = random_model(tiny_config(13))
    weights, failures = DecoderWeights(model), []

    def work(seed):
        try:
            source = torch.randint(3, 13, (1, 3 + seed), generator=torch.Generator().manual_seed(seed))
            for _ in range(5):
                check(model, weights, source=source)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
