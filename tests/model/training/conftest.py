"""Fixtures of the training tests: a tiny vocabulary, and one tiny run through all commands."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece as spm

from tests.model.training import samples


@pytest.fixture(scope="session")
def vocabulary_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.model"
    samples.write_vocabulary(path)
    return path


@pytest.fixture(scope="session")
def vocabulary(vocabulary_file: Path) -> spm.SentencePieceProcessor:
    return spm.SentencePieceProcessor(model_file=str(vocabulary_file))


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> samples.TinyRun:
    root = tmp_path_factory.mktemp("run")
    data, prepared, run, out = samples.write_data(root / "data"), root / "prepared", root / "run", root / "weights"
    printed = {
        "prepare": samples.command("prepare", "--data", data, "--out", prepared, "--vocab-size", samples.VOCAB_SIZE - 20),
        "train": samples.command("train", "--data", prepared, "--run-folder", run, *samples.TINY_TRAINING, "--steps", 10),
        "export": samples.command("export", "--data", prepared, "--run-folder", run, "--out", out, *samples.TINY_SCORING, "--average", 2),
    }
    return samples.TinyRun(data, prepared, run, out, printed)
