"""What each of two processes does in the test of data-parallel training. A module of its own, for a started process has to import it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import sentencepiece as spm
import torch
import torch.distributed as dist

from model.training import batches, loop
from model.training.batches import Batch, collate
from model.training.loop import Trainer, start_processes
from tests.model.training import samples

WORLD = 2
LAST_STEP = 5


def gradient_trainer(vocabulary: spm.SentencePieceProcessor, folder: Path) -> Trainer:
    """No dropout, so that gradients can be compared; clipping on, which has to see the whole gradient."""
    config = samples.tiny_config(vocabulary.get_piece_size(), dropout=0.0)
    return samples.make_trainer(vocabulary, folder, config=config, clip_norm=0.5, batch_tokens=600)


def first_batches(trainer: Trainer) -> list[list[tuple[list[int], list[int]]]]:
    """The first batch of each process: of unlike length, so that a mean of means would be wrong."""
    batches = sorted(trainer.epochs.build(0, 0), key=len)
    return [batches[0], batches[-1]]


def slowly(write: Callable[..., None]) -> Callable[..., None]:
    """As on a slow disk: no process may look for the file before it is there."""

    def wrapped(*arguments: object) -> None:
        time.sleep(0.5)
        write(*arguments)

    return wrapped


def work(rank: int, port: int, vocabulary_file: str, folder: str) -> None:
    """Writes what it finds to rank<n>.pt in `folder`."""
    torch.set_num_threads(1)
    # what torchrun would set
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    start_processes()
    vocabulary, out = spm.SentencePieceProcessor(model_file=vocabulary_file), Path(folder)
    found: dict[str, object] = {}

    trainer = gradient_trainer(vocabulary, out / "gradients")
    found["drawn"] = torch.rand(4)
    found["total"] = trainer.update(collate(first_batches(trainer)[rank]))
    found["gradients"] = {name: p.grad.clone() for name, p in trainer.model.named_parameters()}

    whole = samples.make_trainer(vocabulary, out / "whole")
    whole.train(LAST_STEP)
    found["whole"] = whole.model.state_dict()

    stopped = samples.make_trainer(vocabulary, out / "stopped")
    update = stopped.update

    def wrapped(batch: Batch) -> tuple[float, int]:
        # Only one process hears of it, and after its share in the sum of this step was fixed.
        result = update(batch)
        if rank == 1 and stopped.step == 2:
            signal.raise_signal(signal.SIGTERM)
        return result

    stopped.update = wrapped
    with mock.patch.object(loop, "_replace", slowly(loop._replace)):
        stopped.train(100)
    found["stopped at"] = stopped.step

    building = samples.make_trainer(vocabulary, out / "building")
    encode, chunks = type(building.epochs)._encode, []

    def interrupted(self: object, *arguments: object) -> list:
        chunks.append(1)
        if rank == 1 and len(chunks) == 3:
            signal.raise_signal(signal.SIGTERM)
        return encode(self, *arguments)

    # Only one process hears of it and stops building; the other has built its epoch, and both save and return.
    with mock.patch.object(batches, "_CHUNK", 50), mock.patch.object(type(building.epochs), "_encode", interrupted):
        building.train(100)
    found["stopped while building"] = (building.step, len(chunks))

    resumed = samples.make_trainer(vocabulary, out / "stopped")
    resumed.resume()
    resumed.train(LAST_STEP)
    found["resumed"] = resumed.model.state_dict()
    torch.save(found, out / f"rank{rank}.pt")
    dist.destroy_process_group()
