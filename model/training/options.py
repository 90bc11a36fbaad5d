"""The command line of `python -m model.training`, and a run's settings written back as one."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from model.analysis.learned_positions import LEARNED_FILE
from model.catalogue import EMBEDDED
from model.training import tatoeba
from model.training.loop import TrainingSettings

# What `train` is told of the model, by the name in TransformerConfig.
MODEL_OPTIONS = {
    "d_model": "d_model",
    "num_heads": "num_heads",
    "num_encoder_layers": "encoder_layers",
    "num_decoder_layers": "decoder_layers",
    "d_ff": "d_ff",
    "dropout": "dropout",
    "norm": "norm",
    "activation": "activation",
}


def parser() -> argparse.ArgumentParser:
    """The command line. The parsed options hold the command's name as `command`."""
    root = argparse.ArgumentParser(
        prog="python -m model.training",
        description="From the public sentence pairs to a trained translator: download, prepare, train, evaluate, export.",
    )
    commands = root.add_subparsers(dest="command", required=True)
    _download(commands.add_parser("download", help="fetch Tatoeba's sentence pairs into a folder that `prepare` reads"))
    _prepare(commands.add_parser("prepare", help="clean and split the pairs, train the vocabulary"))
    _extend(commands.add_parser("extend", help="add a model's own translations of English sentences that have none to the prepared data"))
    _train(commands.add_parser("train", help="train until --steps updates are done, or go on with --resume"))

    step = commands.add_parser("evaluate", help="score a checkpoint folder on the test split and print JSON")
    step.add_argument("--model", help="a checkpoint folder; default: the embedded model")
    _scoring(step)

    step = commands.add_parser("export", help="average a run's last snapshots, score them, write weights, vocabulary, example and card")
    step.add_argument("--run-folder", type=Path, default=Path("runs/embedded"))
    step.add_argument("--out", type=Path, default=EMBEDDED.folder, help="replaced as a whole once everything is there")
    step.add_argument("--average", type=_positive, default=5, help="snapshots to average")
    step.add_argument("--mix", type=Path, help="an exported folder, or a run: its weights are averaged with these, half and half")
    _scoring(step)

    step = commands.add_parser("positions", help="keep the table of a run with --positions learned, for the tab Positions")
    step.add_argument("--run-folder", type=Path, required=True)
    step.add_argument("--data", type=Path, default=Path("runs/data"))
    step.add_argument("--out", type=Path, default=LEARNED_FILE)
    step.add_argument("--average", type=_positive, default=5, help="snapshots to average")
    return root


def recipe(facts: Mapping[str, Mapping], prepared: Mapping[str, object], average: int = 5, mix: Path | None = None) -> list[str]:
    """The commands that repeat a run, with every option that differs from its default. facts: run.json; prepared: prepared.json.

    average, mix: as `export` was given them."""
    config, settings, sampling = facts["config"], facts["settings"], facts["sampling"]
    vocabulary = {"vocab_size": config["vocab_size"], **prepared.get("vocabulary", {})}
    values = {option: config[name] for name, option in MODEL_OPTIONS.items()}
    values |= {name: value for name, value in settings.items() if name not in ("processes", "last_step")}
    values |= {"copies": sampling["copies"], "no_augment": not sampling["augment"], "source_alpha": sampling["source_alpha"]}
    values["steps"] = settings["last_step"]
    if facts.get("init"):
        values["init"] = facts["init"]["from"]
    exported = {"average": average, "mix": mix and mix.name}
    processes = settings.get("processes", 1)
    program = "python -m" if processes == 1 else f"torchrun --nproc-per-node {processes} -m"
    own = prepared.get("own")
    extended = ["python -m model.training extend --english FOLDER", f"--model {own['by']}", *_given("extend", own)] if own else []
    return [
        " ".join(["python -m model.training prepare --data FOLDER", *_given("prepare", vocabulary)]),
        *([" ".join(extended)] if own else []),
        " ".join([program, "model.training train", *_given("train", values)]),
        " ".join(["python -m model.training export --align ALIGN_FOLDER", *_given("export", exported)]),
    ]


def _given(command: str, values: Mapping[str, object]) -> list[str]:
    needed = {"prepare": ["--data", "FOLDER"], "extend": ["--english", "FOLDER"]}.get(command, [])
    defaults = vars(parser().parse_args([command, *needed]))
    words = []
    for name, value in values.items():
        if name not in defaults or value is None or value == defaults[name]:
            continue
        option = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(option)
        elif isinstance(value, Mapping):
            words.append(f"{option} {shlex.quote(','.join(f'{key}={count}' for key, count in value.items()))}")
        elif isinstance(value, (list, tuple)):
            words.append(" ".join([option, *map(shlex.quote, map(str, value))]))
        else:
            words.append(f"{option} {shlex.quote(str(value))}")
    return words


def _download(step: argparse.ArgumentParser) -> None:
    step.add_argument("--out", type=Path, default=Path("runs/tatoeba"))
    step.add_argument("--targets", nargs="+", type=_language, default=["fra", "cmn"], help="ISO 639-3 codes as Tatoeba has them")
    step.add_argument("--base-url", default=tatoeba.BASE_URL, help="where the exports lie, by language")
    step.add_argument("--test-sentences", type=_positive, default=1000, help="English sentences per language in the test split")
    step.add_argument("--valid-sentences", type=_positive, default=500, help="the same for the validation split")
    step.add_argument(
        "--chinese", choices=("simplified", "as-written"), default="simplified", help="simplified needs the package opencc; see the README"
    )


def _prepare(step: argparse.ArgumentParser) -> None:
    step.add_argument("--data", type=Path, required=True, help="folder with eng-<target>/{train,valid,test}.tsv")
    step.add_argument("--out", type=Path, default=Path("runs/data"))
    step.add_argument("--targets", nargs="+", type=_language, default=["fra", "cmn"])
    step.add_argument("--extra", nargs="*", default=["tico19", "convlab"], help="names under extra/ that join the training pairs")
    step.add_argument("--vocab-size", type=_positive, default=12_000)
    step.add_argument("--copies", type=_copies, default={"cmn": 2}, help="how often the vocabulary's training sees a language")


def _extend(step: argparse.ArgumentParser) -> None:
    step.add_argument("--data", type=Path, default=Path("runs/data"), help="what `prepare` wrote")
    step.add_argument("--english", type=Path, required=True, help="folder with eng-<language>/train.tsv of any languages")
    step.add_argument("--out", type=Path, default=Path("runs/extended"))
    step.add_argument("--model", type=Path, default=EMBEDDED.folder, help="an exported folder of the same vocabulary")
    step.add_argument("--share", type=_share, default=0.8, help="of its translations, those it is surest of")
    step.add_argument("--copies", type=_copies, default={}, help="how often a real pair of a language is written: cmn=2")
    step.add_argument("--beam-size", type=_positive, default=4)
    step.add_argument("--limit", type=_positive, help="translate only so many sentences into each language, drawn at random")
    step.add_argument("--threads", type=_positive)


def _train(step: argparse.ArgumentParser) -> None:
    step.add_argument("--data", type=Path, default=Path("runs/data"))
    step.add_argument("--run-folder", type=Path, default=Path("runs/embedded"))
    step.add_argument("--resume", action="store_true")
    step.add_argument("--init", type=Path, help="begin with the weights of this exported folder, or of this run's last snapshot")
    step.add_argument("--steps", type=_positive, default=4200, help="updates in all")
    step.add_argument("--device")
    step.add_argument("--threads", type=_positive)
    step.add_argument("--d-model", type=_positive, default=256)
    step.add_argument("--num-heads", type=_positive, default=8)
    step.add_argument("--encoder-layers", type=_positive, default=4)
    step.add_argument("--decoder-layers", type=_positive, default=4)
    step.add_argument("--d-ff", type=_positive, default=1024)
    step.add_argument("--dropout", type=float, default=0.1)
    # Post-norm with six encoder layers collapsed here: after 10 M tokens every position of `memory` was the same vector.
    step.add_argument("--norm", default="pre")
    step.add_argument("--activation", default="relu")
    step.add_argument("--copies", type=_copies, default={"cmn": 2}, help="how often a pair of a language is seen in an epoch: cmn=2")
    step.add_argument("--no-augment", action="store_true")
    step.add_argument("--source-alpha", type=float, default=0.0, help="subword regularisation of the source; 0 is off")
    for field in fields(TrainingSettings):
        if field.name != "last_step":
            step.add_argument("--" + field.name.replace("_", "-"), type=type(field.default), default=field.default)


def _scoring(step: argparse.ArgumentParser) -> None:
    step.add_argument("--data", type=Path, default=Path("runs/data"))
    step.add_argument("--beam-size", type=_positive, default=4)
    step.add_argument("--align", type=Path, help="folder with alibi.en, alibi.fr, alibi.align: alignment error rates are measured too")
    step.add_argument("--limit", type=_positive, help="score only so many sentences of each set")


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0 and up to 1")
    return value


def _language(text: str) -> str:
    if not (text.isascii() and text.islower() and text.isalpha() and len(text) == 3):
        raise argparse.ArgumentTypeError(f"{text!r} is not a language code of three letters, such as fra or cmn")
    return text


def _copies(text: str) -> dict[str, int]:
    counts = {}
    for item in filter(None, text.split(",")):
        target, _, count = item.partition("=")
        if not target or not count.isdecimal() or int(count) < 1:
            raise argparse.ArgumentTypeError(f"{item!r} is not of the form cmn=2")
        counts[target] = int(count)
    return counts
