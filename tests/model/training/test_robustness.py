"""What goes wrong in a long run: numbers that are no numbers, a stop in a bad moment, a state that does not fit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sentencepiece as spm
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.training import loop, loss
from model.training.batches import Batch
from model.training.corpus import Pair
from model.training.loop import MAX_SKIPPED, STATE_FILE, Trainer, TrainingDivergedError
from model.training.loss import projected_loss
from model.training.settings import TrainingSettings
from tests.model.training import samples


def spoil(trainer: Trainer, steps: set[int], value: float, monkeypatch: pytest.MonkeyPatch, gradient_only: bool = False) -> None:
    """The loss of these steps becomes `value`, or only its gradient."""
    batch_loss = loop.batch_loss

    def spoiled(model: torch.nn.Module, batch: Batch, *rest: object) -> torch.Tensor:
        found = batch_loss(model, batch, *rest)
        if trainer.step not in steps or not found.requires_grad:
            return found
        if not gradient_only:
            return found * value
        found.register_hook(lambda gradient: gradient * value)
        return found

    monkeypatch.setattr(loop, "batch_loss", spoiled)


def copy_of(trainer: Trainer) -> list[torch.Tensor]:
    kept = list(trainer.model.state_dict().values())
    for optimizer in trainer.optimizers:
        kept += [value for state in optimizer.state.values() for name, value in state.items() if name != "step"]
    return [value.clone() for value in kept]


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("gradient_only", [False, True])
def test_an_update_without_finite_numbers_is_left_out(
    value: float, gradient_only: bool, vocabulary: spm.SentencePieceProcessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = samples.make_trainer(vocabulary, tmp_path)
    first, second, third = (loop.collate(items) for items in trainer.epochs.build(0, 0)[:3])
    trainer.update(first)
    before = copy_of(trainer)
    spoil(trainer, {2}, value, monkeypatch, gradient_only)
    assert trainer.update(second) == (0.0, 0)
    assert trainer.step == 2
    assert all(torch.equal(one, other) for one, other in zip(before, copy_of(trainer), strict=True))
    summed, tokens = trainer.update(third)
    assert math.isfinite(summed) and tokens > 0
    assert not all(torch.equal(one, other) for one, other in zip(before, copy_of(trainer), strict=True))


def test_many_in_a_row_stop_the_run_and_leave_the_last_good_state(
    vocabulary: spm.SentencePieceProcessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = samples.make_trainer(vocabulary, tmp_path, snapshot_every=4)
    spoil(trainer, set(range(6, 100)), math.nan, monkeypatch)
    with pytest.raises(TrainingDivergedError, match=rf"{MAX_SKIPPED} updates in a row, up to step 10.*holds the last good state"):
        trainer.train(20)
    monkeypatch.undo()
    fresh = samples.make_trainer(vocabulary, tmp_path)
    assert fresh.resume()
    assert fresh.step == 8
    assert all(bool(torch.isfinite(value).all()) for value in fresh.model.state_dict().values())
    fresh.train(9)


def test_a_bad_batch_now_and_then_does_not(
    vocabulary: spm.SentencePieceProcessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = samples.make_trainer(vocabulary, tmp_path)
    spoil(trainer, {2, 3, 4, 5, 7, 8, 9, 10}, math.nan, monkeypatch)
    trainer.train(12)
    assert trainer.step == 12


def test_weights_that_are_no_numbers_never_replace_the_state(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    trainer = samples.make_trainer(vocabulary, tmp_path)
    with torch.no_grad():
        parameter = next(trainer.model.parameters())
        parameter[0, 0] = math.nan
    with pytest.raises(TrainingDivergedError, match="Nothing was saved yet"):
        trainer.save()
    assert list(tmp_path.iterdir()) == []
    samples.make_trainer(vocabulary, tmp_path).save()
    before = (tmp_path / STATE_FILE).read_bytes()
    with pytest.raises(TrainingDivergedError, match="last good state"):
        trainer.save()
    assert (tmp_path / STATE_FILE).read_bytes() == before


def test_a_stop_does_not_wait_for_an_epoch_to_be_built(
    vocabulary: spm.SentencePieceProcessor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the run goes on afterwards as if nobody had stopped it."""
    trainer = samples.make_trainer(vocabulary, tmp_path / "stopped")
    trainer.train(2)
    monkeypatch.setattr("model.training.batches._CHUNK", 50)
    encode, chunks = type(trainer.epochs)._encode, []

    def counted(self: object, pairs: list[Pair], *rest: object) -> list:
        chunks.append(len(pairs))
        if len(chunks) == 3:
            trainer._request_stop()
        return encode(self, pairs, *rest)

    monkeypatch.setattr(type(trainer.epochs), "_encode", counted)
    trainer.train(100)
    assert (trainer.step, trainer.epoch, len(chunks)) == (2, 0, 3)
    monkeypatch.undo()

    resumed = samples.make_trainer(vocabulary, tmp_path / "stopped")
    assert resumed.resume()
    resumed.train(5)
    whole = samples.make_trainer(vocabulary, tmp_path / "whole")
    whole.train(5)
    state, other = whole.model.state_dict(), resumed.model.state_dict()
    assert all(torch.equal(state[key], other[key]) for key in state)


class Products(TorchDispatchMode):
    """Counts matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return func(*args, **(kwargs or {}))


def test_a_loss_without_gradients_costs_one_product_a_block() -> None:
    generator = torch.Generator().manual_seed(0)
    states, weight = torch.randn(2 * loss._ROWS, 8, generator=generator), torch.randn(20, 8, generator=generator)
    labels = torch.randint(20, (len(states),), generator=generator)
    with Products() as plain:
        value = projected_loss(states, weight, labels, 0.1)
    with torch.no_grad(), Products() as no_grad:
        also = projected_loss(states.requires_grad_(), weight.requires_grad_(), labels, 0.1)
    with Products() as full:
        expected = projected_loss(states, weight, labels, 0.1)
    assert (plain.count, no_grad.count, full.count) == (2, 2, 6)
    assert torch.equal(value, expected.detach()) and torch.equal(also, expected.detach())


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_tokens": 0},
        {"warmup_steps": 0},
        {"snapshot_every": 0},
        {"keep_snapshots": 0},
        {"cooldown_steps": -1},
        {"peak_rate": -1e-3},
        {"peak_rate": math.nan},
        {"muon_rate": math.inf},
        {"consistency": -1.0},
        {"smoothing": 1.0},
        {"clip_norm": 0.0},
        {"precision": "fp16"},
        {"optimizer": "sgd"},
        {"decay": "cosine"},
    ],
)
def test_impossible_settings_are_named(changes: dict[str, object]) -> None:
    (name,) = changes
    with pytest.raises(ValueError, match=rf"{name} must"):
        TrainingSettings(**changes)


def test_a_state_of_another_model_is_refused(vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    samples.make_trainer(vocabulary, tmp_path).save()
    larger = samples.make_trainer(vocabulary, tmp_path, config=samples.tiny_config(vocabulary.get_piece_size(), d_ff=48))
    for trainer in (larger, samples.make_trainer(vocabulary, tmp_path, optimizer="muon")):
        with pytest.raises(ValueError, match=r"another model or optimizer.*run\.json"):
            trainer.resume()
    (tmp_path / STATE_FILE).write_bytes((tmp_path / STATE_FILE).read_bytes()[:1000])
    with pytest.raises(ValueError, match="damaged"):
        samples.make_trainer(vocabulary, tmp_path).resume()
