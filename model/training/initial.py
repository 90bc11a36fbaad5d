"""The weights a new run begins with, when it doesn't begin at random: those of an exported folder or of another run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import sentencepiece as spm
import torch
from torch import Tensor

from model.checkpoint import CONFIG_FILE, load_checkpoint
from model.config import TransformerConfig
from model.tokenizer import TOKENIZER_FILE

RUN_FILE = "run.json"
LOG_FILE = "log.jsonl"
TRAINING_FILE = "training.json"
# These change neither a weight's shape nor its meaning.
_FREE = ("dropout", "attention_dropout", "max_len")


def vocabulary_fingerprint(vocabulary: spm.SentencePieceProcessor) -> str:
    """SHA-256 of the vocabulary's file."""
    return hashlib.sha256(vocabulary.serialized_model_proto()).hexdigest()


def initial_weights(
    folder: Path, config: TransformerConfig, vocabulary: spm.SentencePieceProcessor
) -> tuple[Mapping[str, Tensor], dict[str, object]]:
    """A state dict for a model of `config`, and where it is from: {"from": the folder's name, "reached": step, tokens ..., "init": what
    that one began with}.

    folder: what `export` wrote, or a run folder, of which the last snapshot is taken.
    Raises ValueError if it is neither, or if its sizes or its vocabulary are others; AtlasError for a damaged export.
    """
    name = folder.resolve().name
    if (folder / CONFIG_FILE).is_file():
        model = load_checkpoint(folder)
        state, found, reached = model.state_dict(), model.config, _json(folder / TRAINING_FILE)
        facts = {"from": name, "reached": reached.get("reached"), "init": reached.get("init")}
        fingerprint = _file_fingerprint(folder / TOKENIZER_FILE)
    elif (folder / RUN_FILE).is_file():
        run = _json(folder / RUN_FILE)
        snapshots = sorted((folder / "snapshots").glob("*.pt"))
        if not snapshots:
            raise ValueError(f"the run {name} has no snapshots to begin with: train it first")
        state = torch.load(snapshots[-1], map_location="cpu", weights_only=True)
        found = TransformerConfig(**run["config"])
        facts = {"from": name, "reached": _reached(folder / LOG_FILE, int(snapshots[-1].stem)), "init": run.get("init")}
        # Runs of earlier versions did not record it: then the number of pieces has to do.
        fingerprint = run.get("data", {}).get("vocabulary")
    else:
        raise ValueError(f"{name} cannot be begun with: it holds neither an exported model ({CONFIG_FILE}) nor a run ({RUN_FILE})")
    _check(name, found, config, fingerprint, vocabulary)
    return state, {key: value for key, value in facts.items() if value is not None}


def _check(
    name: str, found: TransformerConfig, config: TransformerConfig, fingerprint: str | None, vocabulary: spm.SentencePieceProcessor
) -> None:
    there, here = asdict(found), asdict(config)
    if different := [f"{key} {there[key]!r} there, {here[key]!r} here" for key in here if key not in _FREE and there[key] != here[key]]:
        raise ValueError(f"the weights of {name} are those of another model: {'; '.join(different)}")
    _check_fingerprint(name, fingerprint, vocabulary)


def check_vocabulary(folder: Path, vocabulary: spm.SentencePieceProcessor) -> None:
    """Raises ValueError if the exported model in `folder` has another vocabulary."""
    _check_fingerprint(folder.resolve().name, _file_fingerprint(folder / TOKENIZER_FILE), vocabulary)


def _check_fingerprint(name: str, fingerprint: str | None, vocabulary: spm.SentencePieceProcessor) -> None:
    if fingerprint is not None and fingerprint != vocabulary_fingerprint(vocabulary):
        raise ValueError(f"the weights of {name} belong to another vocabulary than that of --data: take the data it was trained on")


def _file_fingerprint(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _reached(log: Path, step: int) -> dict[str, object]:
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.is_file() else []
    return next((entry for entry in reversed(entries) if entry["step"] == step), {"step": step})


def _json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
