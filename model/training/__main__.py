"""`python -m model.training prepare | train | evaluate | export`: from folders of sentence pairs to a trained translator."""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path

import sentencepiece as spm
import torch

from model.catalogue import EMBEDDED
from model.config import TransformerConfig
from model.tokenizer import TOKENIZER_FILE
from model.training import alignment, corpus, evaluation, export
from model.training.batches import EpochBuilder, Sampling
from model.training.loop import Trainer, TrainingSettings, start_processes
from model.training.vocabulary import train_vocabulary
from model.translator import Translator, load_translator


def prepare(options: argparse.Namespace) -> None:
    """Cleans and splits the pairs, trains the vocabulary and writes all of it to --out."""
    splits = corpus.read_folder(options.data, options.targets, options.extra)
    options.out.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        corpus.write_pairs(options.out / f"{split}.tsv", pairs)
        print(f"{split}: {corpus.summary(pairs)}")
    # English once per sentence; Chinese twice, since it is a fifth of the data and has the most characters.
    english = dict.fromkeys(pair.source for pair in splits["train"])
    translations = [pair.translation for pair in splits["train"] for _ in range(options.copies.get(pair.target, 1))]
    path = options.out / TOKENIZER_FILE
    train_vocabulary([*english, *translations], path, options.vocab_size, options.targets)
    # What was there, for the model card has to credit it.
    extra = [name for name in options.extra if any((options.data / "extra" / f"{name}.eng-{t}.tsv").exists() for t in options.targets)]
    facts = {split: corpus.summary(pairs) for split, pairs in splits.items()} | {"extra": extra}
    (options.out / "prepared.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"vocabulary: {spm.SentencePieceProcessor(model_file=str(path)).get_piece_size()} pieces")


def train(options: argparse.Namespace) -> None:
    """Trains in --run-folder until --steps updates, or goes on with --resume."""
    start_processes()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    vocabulary = spm.SentencePieceProcessor(model_file=str(options.data / TOKENIZER_FILE))
    config = TransformerConfig(
        vocab_size=vocabulary.get_piece_size(),
        d_model=options.d_model,
        num_heads=options.num_heads,
        num_encoder_layers=options.encoder_layers,
        num_decoder_layers=options.decoder_layers,
        d_ff=options.d_ff,
        dropout=options.dropout,
        norm=options.norm,
        activation=options.activation,
        max_len=512,
    )
    chosen = {field.name: getattr(options, field.name) for field in fields(TrainingSettings) if field.name != "last_step"}
    settings = TrainingSettings(**chosen, last_step=options.steps)
    sampling = Sampling(options.copies, not options.no_augment, options.source_alpha)
    epochs = EpochBuilder(vocabulary, corpus.read_prepared(options.data / "train.tsv"), settings.batch_tokens, sampling)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    trainer = Trainer(config, settings, epochs, corpus.read_prepared(options.data / "valid.tsv"), options.run_folder, device)
    if not options.resume and not trainer.rank and options.run_folder.exists() and any(options.run_folder.iterdir()):
        raise SystemExit(f"{options.run_folder} holds a run already: give --resume to go on with it, or another --run-folder")
    resumed = options.resume and trainer.resume()
    if not trainer.rank:
        print(f"{'resumed at' if resumed else 'starting at'} step {trainer.step}, {device}, {trainer.dtype}", flush=True)
        options.run_folder.mkdir(parents=True, exist_ok=True)
        path, facts = options.run_folder / "run.json", trainer.describe()
        if resumed and path.exists():
            for change in _changes(json.loads(path.read_text(encoding="utf-8")), facts):
                print(f"changed since the last start: {change}", flush=True)
        path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    trainer.train(options.steps)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def evaluate(options: argparse.Namespace) -> None:
    """Scores a checkpoint folder (the embedded one by default) on the test split and prints JSON."""
    translator = load_translator(options.model)
    print(json.dumps(_measure(translator, options), indent=2, ensure_ascii=False))


def export_run(options: argparse.Namespace) -> None:
    """Averages a run's last snapshots, scores the result and writes weights, vocabulary, example and model card to --out."""
    translator = export.build(options.run_folder, options.data, options.out, options.average)
    measured = _measure(translator, options)
    export.write_evaluation(options.out, measured)
    export.record_example(options.out)
    export.write_card(options.out)
    print(json.dumps(measured["scores"], indent=2))


def _measure(translator: Translator, options: argparse.Namespace) -> dict[str, object]:
    pairs = corpus.read_prepared(options.data / "test.tsv")
    measured = {
        "beam_size": options.beam_size,
        "scores": evaluation.evaluate(translator, pairs, options.beam_size, options.limit),
        "examples": evaluation.examples(translator, options.beam_size),
    }
    if options.align:
        gold = alignment.read_gold(options.align, "alibi", "en", "fr")[: options.limit]
        measured["alignment"] = alignment.head_error_rates(translator, gold)
    return measured


def _changes(old: dict[str, dict], new: dict[str, dict]) -> list[str]:
    """Options given differently on resume: allowed, but a forgotten one is easily taken for the run's own."""
    return [
        f"{name} {old.get(part, {}).get(name)!r} -> {value!r}"
        for part, values in new.items()
        for name, value in values.items()
        if old.get(part, {}).get(name) != value
    ]


def _copies(text: str) -> dict[str, int]:
    return {target: int(count) for target, count in (item.split("=") for item in text.split(",") if item)}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="python -m model.training", description=__doc__)
    commands = root.add_subparsers(required=True)

    step = commands.add_parser("prepare", help=prepare.__doc__)
    step.set_defaults(run_command=prepare)
    step.add_argument("--data", type=Path, required=True, help="folder with eng-<target>/{train,valid,test}.tsv")
    step.add_argument("--out", type=Path, default=Path("runs/data"))
    step.add_argument("--targets", nargs="+", default=["fra", "cmn"])
    step.add_argument("--extra", nargs="*", default=["tico19", "convlab"], help="names under extra/ that join the training pairs")
    step.add_argument("--vocab-size", type=int, default=12_000)
    step.add_argument("--copies", type=_copies, default={"cmn": 2})

    step = commands.add_parser("train", help=train.__doc__)
    step.set_defaults(run_command=train)
    step.add_argument("--data", type=Path, default=Path("runs/data"))
    step.add_argument("--run-folder", type=Path, default=Path("runs/embedded"))
    step.add_argument("--resume", action="store_true")
    step.add_argument("--steps", type=int, default=4200, help="updates in all")
    step.add_argument("--device")
    step.add_argument("--threads", type=int)
    step.add_argument("--d-model", type=int, default=256)
    step.add_argument("--num-heads", type=int, default=8)
    step.add_argument("--encoder-layers", type=int, default=4)
    step.add_argument("--decoder-layers", type=int, default=4)
    step.add_argument("--d-ff", type=int, default=1024)
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

    step = commands.add_parser("evaluate", help=evaluate.__doc__)
    step.set_defaults(run_command=evaluate)
    step.add_argument("--model", help="a checkpoint folder; default: the embedded model")

    scoring = [step]

    step = commands.add_parser("export", help=export_run.__doc__)
    step.set_defaults(run_command=export_run)
    step.add_argument("--run-folder", type=Path, default=Path("runs/embedded"))
    step.add_argument("--out", type=Path, default=EMBEDDED.folder)
    step.add_argument("--average", type=int, default=5, help="snapshots to average")
    scoring.append(step)

    for step in scoring:
        step.add_argument("--data", type=Path, default=Path("runs/data"))
        step.add_argument("--beam-size", type=int, default=4)
        step.add_argument("--align", type=Path, help="folder with alibi.en, alibi.fr, alibi.align: alignment error rates are measured too")
        step.add_argument("--limit", type=int, help="score only so many sentences of each set")
    return root


def main() -> None:
    """Runs the chosen command."""
    options = parser().parse_args()
    options.run_command(options)


if __name__ == "__main__":
    main()
