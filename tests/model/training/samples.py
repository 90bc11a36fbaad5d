"""A few hundred sentence pairs made from words, and what a run of seconds on them needs."""

from __future__ import annotations

import io
import itertools
import socket
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import sentencepiece as spm

from model.config import TransformerConfig
from model.training.__main__ import main
from model.training.batches import EpochBuilder, Sampling
from model.training.corpus import Pair
from model.training.loop import Trainer, TrainingSettings
from model.training.vocabulary import train_vocabulary

SUBJECTS = (("I", "Je", "我"), ("Tom", "Tom", "汤姆"), ("My sister", "Ma sœur", "我妹妹"), ("The doctor", "Le médecin", "医生"))
VERBS = (("saw", "vu", "看见了"), ("sold", "vendu", "卖了"), ("found", "trouvé", "找到了"))
OBJECTS = (("a dog", "un chien", "一只狗"), ("12 books", "12 livres", "12本书"), ("the old car", "la vieille voiture", "旧汽车"))
TAILS = (("", "", ""), (" today", " aujourd'hui", "今天"), (" in 2014", " en 2014", "2014年"))
MARKS = ((".", ".", "。"), ("!", " !", "！"))
TARGETS = ("fra", "cmn")
VOCAB_SIZE = 420
# Options of the commands that make a run last seconds.
TINY_TRAINING = "--d-model 16 --num-heads 2 --encoder-layers 1 --decoder-layers 1 --d-ff 32 --batch-tokens 1500".split()
TINY_TRAINING += "--warmup-steps 10 --peak-rate 3e-3 --snapshot-every 4 --device cpu --threads 1 --precision fp32".split()
TINY_TRAINING += "--norm post --dropout 0.2 --source-alpha 0.3 --cooldown-steps 0".split()
TINY_SCORING = "--beam-size 2 --limit 4".split()


@dataclass(frozen=True)
class TinyRun:
    """Folders of one run through `prepare`, `train` and `export`, and what each printed."""

    data: Path
    prepared: Path
    run: Path
    out: Path
    printed: dict[str, str]


def sentences() -> list[tuple[str, str, str]]:
    """(English, French, Chinese), 216 of them, all different."""
    made = []
    for subject, verb, thing, tail, mark in itertools.product(SUBJECTS, VERBS, OBJECTS, TAILS, MARKS):
        have = "ai" if subject[1] == "Je" else "a"
        english = f"{subject[0]} {verb[0]} {thing[0]}{tail[0]}{mark[0]}"
        french = f"{subject[1]} {have} {verb[1]} {thing[1]}{tail[1]}{mark[1]}"
        made.append((english, french, f"{subject[2]}{tail[2]}{verb[2]}{thing[2]}{mark[2]}"))
    return made


def pairs(target: str | None = None) -> list[Pair]:
    """The sentences as pairs into both languages, or into one."""
    made = [Pair(code, row[0], row[column]) for column, code in enumerate(TARGETS, 1) for row in sentences()]
    return [pair for pair in made if target in (None, pair.target)]


def write_vocabulary(path: Path) -> spm.SentencePieceProcessor:
    """Trains a vocabulary of a few hundred pieces at `path` and loads it."""
    train_vocabulary([text for row in sentences() for text in row], path, VOCAB_SIZE, TARGETS)
    return spm.SentencePieceProcessor(model_file=str(path))


def write_data(folder: Path) -> Path:
    """The folder that `prepare` reads: every ninth English sentence is held out for validation, every ninth for the test.
    Test sentences have two references or one."""
    for column, target in enumerate(TARGETS, 1):
        lines: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
        for i, row in enumerate(sentences()):
            split = {0: "valid", 1: "test"}.get(i % 9, "train")
            lines[split].append(f"{row[0]}\t{row[column]}\n")
            if split == "test" and i % 2:
                lines[split].append(f"{row[0]}\t{row[column].replace('12', '十二')}…\n")
        (folder / f"eng-{target}").mkdir(parents=True)
        for split, text in lines.items():
            (folder / f"eng-{target}" / f"{split}.tsv").write_text("".join(text), encoding="utf-8")
    return folder


def command(*arguments: object) -> str:
    """Runs `python -m model.training` with these arguments, in this process. Returns what it printed."""
    printed = io.StringIO()
    with mock.patch.object(sys, "argv", ["model.training", *map(str, arguments)]), redirect_stdout(printed):
        main()
    return printed.getvalue()


def free_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]


def tiny_config(vocab_size: int, **changes: object) -> TransformerConfig:
    """One layer a side, width 16."""
    sizes = {"d_model": 16, "num_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 32, "dropout": 0.1, "max_len": 128}
    return TransformerConfig(vocab_size, **{**sizes, **changes})


def make_trainer(
    vocabulary: spm.SentencePieceProcessor,
    folder: Path,
    *,
    train: list[Pair] | None = None,
    valid: list[Pair] | None = None,
    sampling: Sampling | None = None,
    config: TransformerConfig | None = None,
    **settings: object,
) -> Trainer:
    """A trainer on the CPU in float32. By default everything random is on: dropout, augmentation, sampled segmentation."""
    chosen = TrainingSettings(**{"batch_tokens": 1500, "peak_rate": 3e-3, "warmup_steps": 10, "precision": "fp32", **settings})
    sampling = Sampling({"cmn": 2}, augment=True, source_alpha=0.3) if sampling is None else sampling
    epochs = EpochBuilder(vocabulary, pairs() if train is None else train, chosen.batch_tokens, sampling)
    config = tiny_config(vocabulary.get_piece_size()) if config is None else config
    return Trainer(config, chosen, epochs, pairs()[::20] if valid is None else valid, folder, "cpu")
