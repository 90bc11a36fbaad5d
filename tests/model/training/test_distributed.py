"""Data-parallel training: two processes give what one would, and stop, save and go on together."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sentencepiece as spm
import torch
import torch.multiprocessing

from model.training.batches import collate
from tests.model.training import samples, workers

Found = list[dict]
PATIENCE = 240  # seconds, of which a busy machine may need some


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("distributed")


@pytest.fixture(scope="module")
def found(vocabulary_file: Path, folder: Path) -> Found:
    """What each of the two processes found."""
    arguments = (samples.free_port(), str(vocabulary_file), str(folder))
    context = torch.multiprocessing.spawn(workers.work, arguments, nprocs=workers.WORLD, join=False)
    deadline = time.monotonic() + PATIENCE
    # Processes that disagree wait for each other for ever.
    while not context.join(timeout=1):
        if time.monotonic() > deadline:
            for process in context.processes:
                process.kill()
            pytest.fail(f"the processes hang: not done after {PATIENCE} seconds")
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(workers.WORLD)]


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_gradients_are_those_of_one_process(found: Found, vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """On the sentences of both."""
    alone = workers.gradient_trainer(vocabulary, tmp_path)
    ours, theirs = workers.first_batches(alone)
    assert len(ours) < len(theirs)
    loss, tokens = alone.update(collate(ours + theirs))
    for result in found:
        assert result["total"] == (pytest.approx(loss, rel=1e-5), tokens)
        for name, parameter in alone.model.named_parameters():
            torch.testing.assert_close(result["gradients"][name], parameter.grad, rtol=1e-4, atol=1e-6)
    # the clipped norm is that of the sum
    norms = torch.stack([gradient.norm() for gradient in found[0]["gradients"].values()])
    assert norms.norm().item() == pytest.approx(0.5, rel=1e-4)


def test_processes_hold_the_same_weights(found: Found) -> None:
    assert equal(found[0]["whole"], found[1]["whole"])


def test_a_signal_to_one_stops_all_after_the_same_update(found: Found) -> None:
    assert [result["stopped at"] for result in found] == [3, 3]


def test_a_signal_to_one_while_the_epoch_is_built_stops_all(found: Found, folder: Path) -> None:
    (steps, _), (other_steps, chunks) = (result["stopped while building"] for result in found)
    assert (steps, other_steps, chunks) == (0, 0, 3)
    assert found[0]["stopped while building"][1] > 3
    assert torch.load(folder / "building" / "state.pt", weights_only=True)["next_batch"] == 0


def test_a_resumed_run_equals_one_in_one_go(found: Found) -> None:
    for result in found:
        assert equal(result["whole"], result["resumed"])


def test_dropout_differs_between_processes_from_the_start(found: Found, vocabulary: spm.SentencePieceProcessor, tmp_path: Path) -> None:
    """And the first draws what one process would."""
    assert not torch.equal(found[0]["drawn"], found[1]["drawn"])
    workers.gradient_trainer(vocabulary, tmp_path)
    assert torch.equal(found[0]["drawn"], torch.rand(4))


def test_each_process_keeps_its_own_random_state(found: Found, folder: Path) -> None:
    state = torch.load(folder / "whole" / "state.pt", weights_only=True)
    assert state["step"] == workers.LAST_STEP
    assert state["next_batch"] == workers.WORLD * workers.LAST_STEP
    assert len(state["random"]) == workers.WORLD
    assert not torch.equal(*state["random"])


def test_one_process_goes_on_where_two_stopped(found: Found, folder: Path, vocabulary: spm.SentencePieceProcessor) -> None:
    """Not the same numbers, since dropout differs, but no failure either."""
    alone = samples.make_trainer(vocabulary, folder / "whole")
    assert alone.resume()
    assert alone.step == workers.LAST_STEP
    assert equal(alone.model.state_dict(), found[0]["whole"])
    alone.update(collate(alone.epochs.build(0, 0)[alone.next_batch]))
