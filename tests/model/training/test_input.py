"""Wrong input ends a command with one sentence that names it, before any work and without a traceback."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.model.training import samples
from tests.model.training.samples import TinyRun


def refused(said: str, *arguments: object) -> None:
    with pytest.raises(SystemExit, match=said) as ended:
        samples.command(*arguments)
    assert isinstance(ended.value.code, str) and "\n" not in ended.value.code.strip()


@pytest.fixture
def data(tiny_run: TinyRun, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run.data, tmp_path / "data"))


@pytest.fixture
def prepared(tiny_run: TinyRun, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_run.prepared, tmp_path / "prepared"))


def prepare(data: Path, *options: object) -> tuple[object, ...]:
    return ("prepare", "--data", data, "--out", data.parent / "out", "--vocab-size", 400, *options)


def train(prepared: Path, *options: object) -> tuple[object, ...]:
    return ("train", "--data", prepared, "--run-folder", prepared.parent / "run", *samples.TINY_TRAINING, *options)


def test_prepare_without_data(data: Path, tmp_path: Path) -> None:
    refused("no folder eng-fra.*download", *prepare(tmp_path / "gone"))
    refused("no folder eng-deu", *prepare(data, "--targets", "deu"))
    (data / "eng-cmn" / "valid.tsv").unlink()
    refused(r"eng-cmn/valid\.tsv is missing", *prepare(data))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "content, said", [(b"Yes. Oui.\n", "line 1: expected English<TAB>"), (b"Yes.\tOui\nNo.\t\xff\n", "line 2: not UTF-8")]
)
def test_prepare_with_something_else(content: bytes, said: str, data: Path) -> None:
    (data / "eng-fra" / "train.tsv").write_bytes(content)
    refused(rf"eng-fra/train\.tsv, {said}", *prepare(data))


def test_prepare_with_nothing_to_train_on(data: Path) -> None:
    (data / "eng-fra" / "train.tsv").write_text("\n".join(["Yes.\t"] * 3) + "\n")
    refused(r"eng-fra/train\.tsv holds no pair", *prepare(data))


def test_prepare_with_a_vocabulary_that_is_too_large(data: Path) -> None:
    refused(r"give no vocabulary of 50,000 pieces", *prepare(data)[:-1], 50_000)


def test_train_without_prepared_data(prepared: Path) -> None:
    (prepared / "valid.tsv").unlink()
    refused(r"valid\.tsv is missing: run `prepare` first", *train(prepared))
    refused(r"tokenizer\.model is missing: run `prepare` first", *train(prepared / "gone"))


def test_train_with_data_that_prepare_did_not_write(prepared: Path) -> None:
    with (prepared / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("Yes.\tOui.\n")
    refused(r"train\.tsv, line 289: expected target<TAB>English", *train(prepared))


def test_train_with_a_language_that_the_vocabulary_lacks(prepared: Path) -> None:
    with (prepared / "train.tsv").open("a", encoding="utf-8") as file:
        file.write("deu\tYes.\tJa.\n")
    refused("stopped: the vocabulary has no prefix for deu", *train(prepared))


def test_train_with_too_few_pairs(prepared: Path) -> None:
    (prepared / "train.tsv").write_text("", encoding="utf-8")
    refused("stopped: the pairs give 0 batches", *train(prepared))


@pytest.mark.parametrize(
    "options, said",
    [
        (["--d-model", 10, "--num-heads", 3], "d_model 10 cannot be split"),
        (["--dropout", 1.5], "dropout must lie in"),
        (["--norm", "rms"], "norm must be one of post, pre"),
        (["--optimizer", "sgd"], "optimizer must be adam or muon"),
        (["--precision", "fp8"], "precision must be auto, fp32 or bf16"),
        (["--warmup-steps", 0], "warmup_steps must be 1 or more"),
    ],
)
def test_train_with_impossible_options(options: list[object], said: str, prepared: Path) -> None:
    refused(said, *train(prepared), *options)
    assert not (prepared.parent / "run").exists()


@pytest.mark.parametrize("options", [["--copies", "cmn"], ["--copies", "cmn=0"], ["--steps", "0"], ["--d-ff", "-3"], ["--threads", "two"]])
def test_train_with_options_of_another_form(options: list[str], prepared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        samples.command(*train(prepared), *options)
    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err


def test_export_and_evaluate_look_before_they_work(tiny_run: TinyRun, tmp_path: Path) -> None:
    options = ("--run-folder", tiny_run.run, "--out", tmp_path / "out", *samples.TINY_SCORING)
    refused(r"test\.tsv is missing", "export", "--data", tmp_path, *options)
    refused(r"alibi\.en is missing", "export", "--data", tiny_run.prepared, *options, "--align", tmp_path)
    refused(r"test\.tsv is missing", "evaluate", "--data", tmp_path, "--model", tiny_run.out)
    refused(r"model file config\.json is missing", "evaluate", "--data", tiny_run.prepared, "--model", tmp_path)
    refused(r"run\.json is missing.*--run-folder", "export", "--data", tiny_run.prepared, "--run-folder", tmp_path, *options[2:])
    assert not (tmp_path / "out").exists()


def test_export_of_a_run_with_another_vocabulary(tiny_run: TinyRun, prepared: Path, tmp_path: Path) -> None:
    samples.write_vocabulary(prepared / "tokenizer.model")
    options = ("--run-folder", tiny_run.run, "--out", tmp_path / "out", *samples.TINY_SCORING)
    refused("was trained with another vocabulary", "export", "--data", prepared, *options)
    assert not (tmp_path / "out").exists()


def test_export_of_a_snapshot_without_its_line(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run.run, tmp_path / "run"))
    (run / "log.jsonl").write_text(json.dumps({"step": 4}) + "\n")
    options = ("--run-folder", run, "--out", tmp_path / "out", *samples.TINY_SCORING)
    refused("no line for step 10", "export", "--data", tiny_run.prepared, *options)
