"""The commands of `python -m model.training`: from public sentence pairs to a trained translator, each a function of its options."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

import sentencepiece as spm
import torch

from model.checkpoint import load_checkpoint
from model.config import TransformerConfig
from model.errors import AtlasError
from model.loading import load_translator
from model.tokenizer import TOKENIZER_FILE
from model.training import alignment, corpus, evaluation, export, own_labels, tatoeba
from model.training.batches import DataError, EpochBuilder, Sampling
from model.training.fetch import DownloadError
from model.training.initial import LOG_FILE, RUN_FILE, check_vocabulary, initial_weights
from model.training.learned import count_texts, read_log, write_table
from model.training.loop import (
    STATE_FILE,
    Trainer,
    TrainingDivergedError,
    TrainingSettings,
    average_snapshots,
    start_processes,
)
from model.training.options import MODEL_OPTIONS, parser, recipe
from model.training.vocabulary import train_vocabulary
from model.translator import Translator


@contextmanager
def plain_errors() -> Iterator[None]:
    """What was given wrongly ends the program with one sentence. Not around the work itself: an error of ours keeps its traceback."""
    try:
        yield
    except FileNotFoundError as error:
        raise SystemExit(f"{error.filename} is missing" if error.filename else str(error)) from error
    except OSError as error:
        raise SystemExit(f"{error.filename}: {error.strerror}" if error.filename else str(error)) from error
    except (ValueError, AtlasError, DownloadError) as error:
        raise SystemExit(str(error)) from error


def download(options: argparse.Namespace) -> None:
    """Fetches Tatoeba's sentence pairs into --out, laid out as `prepare` reads them."""
    with plain_errors():
        convert = tatoeba.simplifier() if options.chinese == "simplified" and "cmn" in options.targets else None
        counts = tatoeba.download(
            options.out,
            options.targets,
            base_url=options.base_url,
            test=options.test_sentences,
            valid=options.valid_sentences,
            convert=convert,
        )
    for target, by_split in counts.items():
        print(f"eng-{target}: " + ", ".join(f"{split} {count:,}" for split, count in by_split.items()))
    if "cmn" in options.targets and convert is None:
        print("Chinese is as written: sentences in traditional characters were kept as they are.")
    print(f"Sentences of Tatoeba, {tatoeba.LICENCE}; whose they are stands in the third column. Next: prepare --data {options.out}")


def prepare(options: argparse.Namespace) -> None:
    """Cleans and splits the pairs, trains the vocabulary and writes all of it to --out."""
    for target in options.targets:
        if not (options.data / f"eng-{target}").is_dir():
            raise SystemExit(f"{options.data} has no folder eng-{target}: name the right --data, or fetch the pairs with `download`")
    with plain_errors():
        splits = corpus.read_folder(options.data, options.targets, options.extra)
    for target in options.targets:
        if not any(pair.target == target for pair in splits["train"]):
            raise SystemExit(f"eng-{target}/train.tsv holds no pair that is left after cleaning: there is nothing to train on")
    options.out.mkdir(parents=True, exist_ok=True)
    for split, pairs in splits.items():
        corpus.write_pairs(options.out / f"{split}.tsv", pairs)
        print(f"{split}: {corpus.summary(pairs)}")
    # English once per sentence; Chinese twice, since it is a fifth of the data and has the most characters.
    english = dict.fromkeys(pair.source for pair in splits["train"])
    translations = [pair.translation for pair in splits["train"] for _ in range(options.copies.get(pair.target, 1))]
    path = options.out / TOKENIZER_FILE
    with plain_errors():
        train_vocabulary([*english, *translations], path, options.vocab_size, options.targets)
    # What was there, for the model card has to credit it.
    extra = [name for name in options.extra if any((options.data / "extra" / f"{name}.eng-{t}.tsv").exists() for t in options.targets)]
    facts = {split: corpus.summary(pairs) for split, pairs in splits.items()} | {"extra": extra}
    facts["vocabulary"] = {"targets": options.targets, "copies": options.copies}
    if (options.data / tatoeba.SOURCES_FILE).exists():
        facts["credit"] = json.loads((options.data / tatoeba.SOURCES_FILE).read_text(encoding="utf-8"))["credit"]
    (options.out / export.PREPARED_FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"vocabulary: {spm.SentencePieceProcessor(model_file=str(path)).get_piece_size()} pieces")


def extend(options: argparse.Namespace) -> None:
    """Writes the prepared data anew to --out, with translations by --model of English sentences that have none."""
    if options.out.exists() and any(options.out.iterdir()):
        raise SystemExit(f"{options.out} holds something already: name another --out")
    with plain_errors():
        splits = {split: corpus.read_prepared(options.data / f"{split}.tsv") for split in corpus.SPLITS}
        facts = export.read_facts(options.data, export.PREPARED_FILE)
        english = own_labels.english_sentences(options.english)
        model = load_checkpoint(options.model).eval()
        vocabulary = spm.SentencePieceProcessor(model_file=str(options.data / TOKENIZER_FILE))
        check_vocabulary(options.model, vocabulary)
    torch.set_num_threads(options.threads or torch.get_num_threads())
    pairs, own = own_labels.extend(model, vocabulary, english, splits, options.copies, options.share, options.beam_size, options.limit)
    options.out.mkdir(parents=True, exist_ok=True)
    for split, kept in (splits | {"train": pairs}).items():
        corpus.write_pairs(options.out / f"{split}.tsv", kept)
    shutil.copyfile(options.data / TOKENIZER_FILE, options.out / TOKENIZER_FILE)
    facts |= {"train": corpus.summary(pairs)}
    facts["own"] = {"by": options.model.resolve().name, "pairs": own}
    facts["own"] |= {name: getattr(options, name) for name in ("share", "copies", "beam_size", "limit")}
    (options.out / export.PREPARED_FILE).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    print(f"train: {facts['train']}, of which by the model itself: {own}")


def train(options: argparse.Namespace) -> None:
    """Trains in --run-folder until --steps updates, or goes on with --resume."""
    start_processes()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    with plain_errors():
        trainer, initial = _trainer(options)
        if not options.resume and not trainer.rank and options.run_folder.exists() and any(options.run_folder.iterdir()):
            raise SystemExit(f"{options.run_folder} holds a run already: give --resume to go on with it, or another --run-folder")
        resumed = options.resume and trainer.resume()
    path, facts = options.run_folder / RUN_FILE, trainer.describe()
    before = json.loads(path.read_text(encoding="utf-8")) if resumed and path.exists() else {}
    # A resumed run began as it once did, whatever is said now.
    if begun := before.get("init") if resumed else initial:
        facts["init"] = begun
    if not trainer.rank:
        print(f"{'resumed at' if resumed else 'starting at'} step {trainer.step}, {trainer.device}, {trainer.dtype}", flush=True)
        if begun:
            print(f"begun with the weights of {begun['from']}", flush=True)
        options.run_folder.mkdir(parents=True, exist_ok=True)
        for change in _changes(before, facts):
            print(f"changed since the last start: {change}", flush=True)
        path.write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    try:
        trainer.train(options.steps)
    except (TrainingDivergedError, DataError) as error:
        raise SystemExit(f"stopped: {error}") from error
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _trainer(options: argparse.Namespace) -> tuple[Trainer, dict[str, object]]:
    """The trainer that the options describe, and where its first weights are from: {} for random ones."""
    for name in (TOKENIZER_FILE, "train.tsv", "valid.tsv"):
        if not (options.data / name).is_file():
            raise SystemExit(f"{options.data / name} is missing: run `prepare` first, or name its folder with --data")
    vocabulary = spm.SentencePieceProcessor(model_file=str(options.data / TOKENIZER_FILE))
    sizes = {name: getattr(options, option) for name, option in MODEL_OPTIONS.items()}
    config = TransformerConfig(vocab_size=vocabulary.get_piece_size(), max_len=512, **sizes)
    chosen = {field.name: getattr(options, field.name) for field in fields(TrainingSettings) if field.name != "last_step"}
    settings = TrainingSettings(**chosen, last_step=options.steps)
    sampling = Sampling(options.copies, not options.no_augment, options.source_alpha)
    epochs = EpochBuilder(vocabulary, corpus.read_prepared(options.data / "train.tsv"), settings.batch_tokens, sampling)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    trainer = Trainer(config, settings, epochs, corpus.read_prepared(options.data / "valid.tsv"), options.run_folder, device)
    if options.init is None or (options.resume and (options.run_folder / STATE_FILE).exists()):
        return trainer, {}
    state, facts = initial_weights(options.init, config, vocabulary)
    trainer.model.load_state_dict(state)
    return trainer, facts


def evaluate(options: argparse.Namespace) -> None:
    """Scores a checkpoint folder (the embedded one by default) on the test split and prints JSON."""
    with plain_errors():
        _check_scoring(options)
        translator = load_translator(options.model)
    print(json.dumps(_measure(translator, options), indent=2, ensure_ascii=False))


def export_run(options: argparse.Namespace) -> None:
    """Averages a run's last snapshots, scores the result and writes weights, vocabulary, example and model card to --out."""
    with plain_errors():
        _check_scoring(options)
        facts = export.read_facts(options.run_folder, RUN_FILE)
        prepared = export.read_facts(options.data, export.PREPARED_FILE)
        if facts["settings"].get("positions") == "learned":
            raise ValueError("the app's models compute their positions: the table of a run that learned them is kept by `positions`")
    made = recipe(facts, prepared, options.average, options.mix)
    with export.replacing(options.out) as new:
        with plain_errors():
            translator = export.build(options.run_folder, options.data, new, options.average, made, options.mix)
        measured = _measure(translator, options)
        export.write_evaluation(new, measured)
        export.write_profile(new, translator, corpus.read_prepared(options.data / "test.tsv"), options.limit)
        export.record_example(new)
        export.write_card(new)
    print(json.dumps(measured["scores"], indent=2))


def positions(options: argparse.Namespace) -> None:
    """Keeps the table of a run whose positions were learned."""
    with plain_errors():
        facts = export.read_facts(options.run_folder, RUN_FILE)
        state, _ = average_snapshots(options.run_folder, options.average)
        vocabulary = spm.SentencePieceProcessor(model_file=str(options.data / TOKENIZER_FILE))
        texts = count_texts(vocabulary, corpus.read_prepared(options.data / "train.tsv"), facts["config"]["max_len"])
        table = write_table(state, facts, read_log(options.run_folder / LOG_FILE), texts, options.out)
    print(f"{len(table.rows)} rows of {table.d_model}, {len(table.trained)} of them trained; validation loss {table.valid_loss}")


def _check_scoring(options: argparse.Namespace) -> None:
    """Before hours of work, not after."""
    needed = [options.data / "test.tsv"]
    needed += [options.align / f"{alignment.GOLD_NAME}.{ending}" for ending in ("en", "fr", "align")] if options.align else []
    for path in needed:
        if not path.is_file():
            raise SystemExit(f"{path} is missing")


def _measure(translator: Translator, options: argparse.Namespace) -> dict[str, object]:
    pairs = corpus.read_prepared(options.data / "test.tsv")
    measured = {
        "beam_size": options.beam_size,
        "scores": evaluation.evaluate(translator, pairs, options.beam_size, options.limit),
        "examples": evaluation.examples(translator, options.beam_size),
    }
    if options.align:
        gold = alignment.read_gold(options.align, alignment.GOLD_NAME, "en", "fr")[: options.limit]
        measured["alignment"] = alignment.head_error_rates(translator, gold)
    return measured


def _changes(old: dict[str, dict], new: dict[str, dict]) -> list[str]:
    """Options given differently on resume: allowed, but a forgotten one is easily taken for the run's own."""
    return [
        f"{name} {old[part].get(name)!r} -> {value!r}"
        for part, values in new.items()
        if part in old and part != "init"
        for name, value in values.items()
        if old[part].get(name) != value
    ]


COMMANDS = {"download": download, "prepare": prepare, "extend": extend, "train": train}
COMMANDS |= {"evaluate": evaluate, "export": export_run, "positions": positions}


def main() -> None:
    """Runs the chosen command."""
    options = parser().parse_args()
    COMMANDS[options.command](options)


if __name__ == "__main__":
    main()
