"""A run that begins with the weights of another: which they are, that they must fit, and that it is recorded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import sentencepiece as spm
import torch

from model.checkpoint import load_checkpoint
from model.config import TransformerConfig
from model.training.initial import initial_weights
from model.training.options import recipe
from model.training.vocabulary import train_vocabulary
from tests.model.training import samples
from tests.model.training.samples import TinyRun


def train(tiny_run: TinyRun, run: Path, *options: object) -> str:
    return samples.command("train", "--data", tiny_run.prepared, "--run-folder", run, *samples.TINY_TRAINING, *options)


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", ["export", "run"])
def test_the_run_begins_with_these_weights(kind: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    """With a peak rate of zero nothing moves, so the first snapshot holds them."""
    folder = tiny_run.out if kind == "export" else tiny_run.run
    printed = train(tiny_run, tmp_path / "run", "--init", folder, "--steps", 1, "--peak-rate", 0)
    assert f"begun with the weights of {folder.name}" in printed
    state = torch.load(tmp_path / "run" / "snapshots" / "0000001.pt", weights_only=True)
    if kind == "export":
        expected = load_checkpoint(tiny_run.out).state_dict()
    else:
        expected = torch.load(tiny_run.run / "snapshots" / "0000010.pt", weights_only=True)
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[key], expected[key]) for key in expected)
    init = read(tmp_path / "run" / "run.json")["init"]
    assert init["from"] == folder.name
    assert init["reached"] == read(tiny_run.out / "training.json")["reached"]


def test_a_resumed_run_remembers_how_it_began(tiny_run: TinyRun, tmp_path: Path) -> None:
    train(tiny_run, tmp_path / "run", "--init", tiny_run.out, "--steps", 1)
    begun = read(tmp_path / "run" / "run.json")["init"]
    # given again or not, and be the folder gone
    train(tiny_run, tmp_path / "run", "--resume", "--steps", 2)
    printed = train(tiny_run, tmp_path / "run", "--resume", "--steps", 3, "--init", tmp_path / "gone")
    assert "resumed at step 2" in printed
    assert read(tmp_path / "run" / "run.json")["init"] == begun


def test_card_and_recipe_tell_of_it(tiny_run: TinyRun, tmp_path: Path) -> None:
    train(tiny_run, tmp_path / "second", "--init", tiny_run.out, "--steps", 4)
    train(tiny_run, tmp_path / "third", "--init", tmp_path / "second", "--steps", 4)
    facts = read(tmp_path / "third" / "run.json")
    assert facts["init"]["init"]["from"] == "weights"
    out = tmp_path / "out"
    options = ("--data", tiny_run.prepared, "--run-folder", tmp_path / "third", "--out", out, *samples.TINY_SCORING)
    samples.command("export", *options, "--average", 1)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "it began with the weights of `second` (4 updates, " in card
    assert "it began with the weights of `weights` (10 updates, " in card
    assert "--init second" in card
    assert read(out / "training.json")["init"] == facts["init"]


@pytest.mark.parametrize(
    "options, said",
    [
        (["--d-ff", 48], "d_ff 32 there, 48 here"),
        (["--norm", "pre", "--num-heads", 4], "num_heads 2 there, 4 here; .*norm 'post' there, 'pre' here"),
        (["--encoder-layers", 2], "num_encoder_layers 1 there, 2 here"),
    ],
)
def test_weights_of_another_size_are_refused(options: list[object], said: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    for folder in (tiny_run.out, tiny_run.run):
        with pytest.raises(SystemExit, match=said):
            train(tiny_run, tmp_path / "run", "--init", folder, "--steps", 1, *options)
    assert not (tmp_path / "run").exists()


def test_dropout_may_differ(tiny_run: TinyRun, tmp_path: Path) -> None:
    train(tiny_run, tmp_path / "run", "--init", tiny_run.out, "--steps", 1, "--dropout", 0.3)


def test_another_vocabulary_of_the_same_size_is_refused(tiny_run: TinyRun, tmp_path: Path) -> None:
    config = TransformerConfig(**read(tiny_run.run / "run.json")["config"])
    path = tmp_path / "tokenizer.model"
    train_vocabulary([text.upper() for row in samples.sentences() for text in row], path, config.vocab_size, samples.TARGETS)
    other = spm.SentencePieceProcessor(model_file=str(path))
    for folder in (tiny_run.out, tiny_run.run):
        with pytest.raises(ValueError, match="another vocabulary"):
            initial_weights(folder, config, other)


def test_a_run_of_an_earlier_version_did_not_record_its_vocabulary(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = Path(shutil.copytree(tiny_run.run, tmp_path / "run"))
    facts = read(run / "run.json")
    del facts["data"]
    (run / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    (run / "log.jsonl").unlink()
    vocabulary = spm.SentencePieceProcessor(model_file=str(tiny_run.prepared / "tokenizer.model"))
    _, found = initial_weights(run, TransformerConfig(**facts["config"]), vocabulary)
    assert found == {"from": "run", "reached": {"step": 10}}


def test_what_is_neither_is_named(tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="empty cannot be begun with"):
        train(tiny_run, tmp_path / "run", "--init", tmp_path / "empty")
    with pytest.raises(SystemExit, match="gone cannot be begun with"):
        train(tiny_run, tmp_path / "run", "--init", tmp_path / "gone")
    run = Path(shutil.copytree(tiny_run.run, tmp_path / "bare"))
    shutil.rmtree(run / "snapshots")
    with pytest.raises(SystemExit, match="no snapshots"):
        train(tiny_run, tmp_path / "run", "--init", run)


def test_a_recipe_holds_every_option_that_is_no_default(tiny_run: TinyRun) -> None:
    facts, prepared = read(tiny_run.run / "run.json"), read(tiny_run.prepared / "prepared.json")
    prepare, train_line, _ = recipe(facts, prepared)
    assert prepare == "python -m model.training prepare --data FOLDER --vocab-size 400"
    expected = {f"{name} {value}" for name, value in zip(samples.TINY_TRAINING[::2], samples.TINY_TRAINING[1::2], strict=True)}
    # not part of a recipe: where it ran
    expected -= {"--device cpu", "--threads 1"}
    given = train_line.removeprefix("python -m model.training train --").split(" --")
    assert {f"--{option}".replace("0.003", "3e-3") for option in given} == expected | {"--steps 10"}

    facts["settings"] |= {"processes": 2, "optimizer": "muon", "muon_rate": 0.02, "decay": "none", "batch_tokens": 4800}
    facts["sampling"] = {"copies": {"cmn": 3, "fra": 2}, "augment": False, "source_alpha": 0.0}
    _, train_line, _ = recipe(facts, prepared | {"vocabulary": {"targets": ["deu"], "copies": {}}})
    assert train_line.startswith("torchrun --nproc-per-node 2 -m model.training train ")
    for option in ("--optimizer muon", "--muon-rate 0.02", "--decay none", "--copies cmn=3,fra=2", "--no-augment"):
        assert option in train_line
    assert "--batch-tokens" not in train_line and "--source-alpha" not in train_line
    assert "--targets deu --copies ''" in recipe(facts, {"vocabulary": {"targets": ["deu"], "copies": {}}})[0]
