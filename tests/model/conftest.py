"""Fixtures of a whole tiny translator. All read only, so they are built once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model.config import TransformerConfig
from model.tokenizer import Tokenizer
from model.transformer import Transformer
from model.translator import Translator
from tests import tiny


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    # Matrices of width 16 gain nothing from more, and the machine may be busy.
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.train_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.model")


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_tokenizer_file: Path) -> Tokenizer:
    return Tokenizer(tiny_tokenizer_file)


@pytest.fixture(scope="session")
def tiny_config(tiny_tokenizer: Tokenizer) -> TransformerConfig:
    return tiny.tiny_config(tiny_tokenizer.vocab_size)


@pytest.fixture(scope="session")
def tiny_model(tiny_config: TransformerConfig, tiny_tokenizer: Tokenizer) -> Transformer:
    return tiny.taught_model(tiny_config, tiny_tokenizer)


@pytest.fixture(scope="session")
def tiny_translator(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> Translator:
    return Translator(tiny_model, tiny_tokenizer, "tiny")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory, tiny_model: Transformer, tiny_tokenizer_file: Path) -> Path:
    return tiny.tiny_folder(tmp_path_factory.mktemp("checkpoint") / "tiny", tiny_model, tiny_tokenizer_file)
