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
