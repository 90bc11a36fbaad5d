"""`python -m model.training`: the commands, alone and under torchrun, and that a killed run goes on exactly in a new process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from model.tokenizer import Tokenizer
from model.training import corpus
from model.training.corpus import source_key
from tests.model.training import samples
from tests.model.training.samples import TinyRun

ROOT = Path(__file__).parents[3]
PATIENCE = 240  # seconds, of which a busy machine may need some
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def train(prepared: Path, run: Path, *options: object) -> str:
    return samples.command("train", "--data", prepared, "--run-folder", run, *samples.TINY_TRAINING, *options)


def start(module: str, *arguments: object) -> subprocess.Popen:
    """`python -m module arguments` in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=ENVIRONMENT,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: subprocess.Popen) -> str:
    """Waits for its end and returns what it printed; leaves none of the group behind."""
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    assert process.returncode == 0, output
    return output


def weights(run: Path) -> dict[str, torch.Tensor]:
    return torch.load(run / "state.pt", weights_only=True)["model"]


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_prepare_writes_splits_vocabulary_and_facts(tiny_run: TinyRun) -> None:
    facts = json.loads((tiny_run.prepared / "prepared.json").read_text())
    # 48 of the 216 sentences are held out, and 24 differ from one of those in the final mark only
    counts = {"train": {"fra": 144, "cmn": 144}, "valid": {"fra": 24, "cmn": 24}, "test": {"fra": 36, "cmn": 36}}
    assert facts == counts | {"extra": [], "vocabulary": {"targets": ["fra", "cmn"], "copies": {"cmn": 2}}}
    tokenizer = Tokenizer(tiny_run.prepared / "tokenizer.model")
    assert (tokenizer.vocab_size, tokenizer.targets) == (400, ("fra", "cmn"))
    splits = {split: corpus.read_prepared(tiny_run.prepared / f"{split}.tsv") for split in corpus.SPLITS}
    assert {split: corpus.summary(pairs) for split, pairs in splits.items()} == counts
    keys = {split: {source_key(pair.source) for pair in pairs} for split, pairs in splits.items()}
    assert keys["train"].isdisjoint(keys["valid"] | keys["test"])
    assert "vocabulary: 400 pieces" in tiny_run.printed["prepare"]


def test_prepare_records_the_extra_data_that_it_found(tiny_run: TinyRun, tmp_path: Path) -> None:
    (tiny_run.data / "extra").mkdir(exist_ok=True)
    (tiny_run.data / "extra" / "more.eng-cmn.tsv").write_text("Good evening.\t晚上好。\n", encoding="utf-8")
    options = ("--vocab-size", 400, "--extra", "more", "absent")
    samples.command("prepare", "--data", tiny_run.data, "--out", tmp_path, *options)
    facts = json.loads((tmp_path / "prepared.json").read_text())
    assert (facts["extra"], facts["train"]) == (["more"], {"fra": 144, "cmn": 145})


def test_train_leaves_its_facts_and_can_be_told_apart(tiny_run: TinyRun) -> None:
    facts = json.loads((tiny_run.run / "run.json").read_text())
    assert (facts["config"]["d_model"], facts["config"]["vocab_size"]) == (16, 400)
    assert (facts["settings"]["last_step"], facts["settings"]["snapshot_every"]) == (10, 4)
    assert facts["sampling"] == {"copies": {"cmn": 2}, "augment": True, "source_alpha": 0.3}
    assert tiny_run.printed["train"].startswith("starting at step 0, cpu, torch.float32\n")


def test_a_run_is_not_overwritten_by_mistake(tiny_run: TinyRun) -> None:
    before = (tiny_run.run / "state.pt").read_bytes()
    with pytest.raises(SystemExit, match="--resume"):
        train(tiny_run.prepared, tiny_run.run, "--steps", 12)
    assert (tiny_run.run / "state.pt").read_bytes() == before


def test_resume_says_where_and_what_changed(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert train(tiny_run.prepared, tmp_path / "run", "--steps", 2, "--resume").startswith("starting at step 0")
    printed = train(tiny_run.prepared, tmp_path / "run", "--steps", 3, "--resume", "--smoothing", 0.2).splitlines()
    assert printed[:3] == [
        "resumed at step 2, cpu, torch.float32",
        "changed since the last start: last_step 2 -> 3",
        "changed since the last start: smoothing 0.1 -> 0.2",
    ]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"]["smoothing"] == 0.2


def test_evaluate_prints_what_export_stored(tiny_run: TinyRun) -> None:
    printed = samples.command("evaluate", "--data", tiny_run.prepared, "--model", tiny_run.out, *samples.TINY_SCORING)
    assert json.loads(printed) == json.loads((tiny_run.out / "evaluation.json").read_text(encoding="utf-8"))


def test_a_killed_run_goes_on_exactly_in_a_new_process(tiny_run: TinyRun, tmp_path: Path) -> None:
    """SIGTERM to the program itself; the end equals a run that nobody stopped."""
    command = ["train", "--data", tiny_run.prepared, "--run-folder", tmp_path / "run", *samples.TINY_TRAINING]
    # Without a cooldown the rate does not depend on --steps.
    process = start("model.training", *command, "--steps", 1_000_000)
    deadline = time.monotonic() + PATIENCE
    while not (tmp_path / "run" / "log.jsonl").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    finish(process)
    stopped = torch.load(tmp_path / "run" / "state.pt", weights_only=True)["step"]
    assert stopped >= 4
    train(tiny_run.prepared, tmp_path / "run", "--resume", "--steps", stopped + 3)
    train(tiny_run.prepared, tmp_path / "whole", "--steps", stopped + 3)
    assert equal(weights(tmp_path / "run"), weights(tmp_path / "whole"))


def test_torchrun_trains_with_two_processes(tiny_run: TinyRun, tmp_path: Path) -> None:
    command = ["train", "--data", tiny_run.prepared, "--run-folder", tmp_path / "run", *samples.TINY_TRAINING, "--resume"]
    address = ["--master-addr", "127.0.0.1", "--master-port", samples.free_port()]
    process = start("torch.distributed.run", "--nproc-per-node", 2, *address, "-m", "model.training", *command, "--steps", 6)
    # said once, by the first process
    assert finish(process).count("starting at step 0") == 1
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in log] == [4, 6]
    state = torch.load(tmp_path / "run" / "state.pt", weights_only=True)
    assert (state["step"], len(state["random"])) == (6, 2)
    # six updates of two batches each: more than one process reaches in six
    assert log[-1]["tokens"] > 1.5 * json.loads((tiny_run.run / "log.jsonl").read_text().splitlines()[0])["tokens"] * 6 / 4


@pytest.mark.parametrize("arguments", [[], ["prepare"], ["frobnicate"], ["train", "--steps", "many"]])
def test_unusable_arguments_end_with_a_usage_message(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        samples.command(*arguments)
    assert ended.value.code == 2
    assert "usage: python -m model.training" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["download", "prepare", "train", "evaluate", "export"])
def test_every_command_explains_itself(command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        samples.command(command, "--help")
    assert ended.value.code == 0
