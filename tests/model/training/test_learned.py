"""Learned positions: a run with `--positions learned` trains its table, and `positions` keeps it with how often each place was read."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from model.analysis.learned_positions import load_learned_table
from model.config import TransformerConfig
from model.training import corpus
from model.training.learned import LearnedPositions, count_texts
from model.training.loop import TrainingSettings
from model.training.settings import build_optimizers
from model.transformer import Transformer
from tests.model.training import samples

CONFIG = TransformerConfig(
    vocab_size=40, d_model=16, num_heads=2, num_encoder_layers=2, num_decoder_layers=1, d_ff=32, max_len=20, dropout=0.0
)
SRC, TGT = torch.tensor([[5, 6, 5, 2]]), torch.tensor([[1, 7, 8]])


def test_the_table_takes_the_place_of_the_sines_and_nothing_else_changes() -> None:
    learned, plain = LearnedPositions(CONFIG).eval(), Transformer(CONFIG).eval()
    state = dict(learned.state_dict())
    table = state.pop("positions")
    assert table.shape == (20, 16) and state.keys() == plain.state_dict().keys()
    plain.load_state_dict(state)
    with torch.no_grad():
        learned.positions.copy_(plain.positions)
        assert torch.equal(learned(SRC, TGT), plain(SRC, TGT))
        learned.positions[1] += 1
        assert not torch.allclose(learned(SRC, TGT), plain(SRC, TGT))


def test_only_rows_that_are_read_get_a_gradient_and_an_optimizer_moves_them() -> None:
    model = LearnedPositions(CONFIG)
    model(SRC, TGT).sum().backward()
    moved = model.positions.grad.abs().sum(dim=1) > 0
    assert moved.tolist() == [True] * 4 + [False] * 16
    for name in ("adam", "muon"):
        optimizers = build_optimizers(model, TrainingSettings(optimizer=name, positions="learned"))
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        rates = [group["peak_rate"] for group in groups for parameter in group["params"] if parameter is model.positions]
        assert rates == [4 * 1.5e-3]  # sqrt(d_model) times that of the embeddings
    with pytest.raises(ValueError, match="positions must be sinusoidal or learned"):
        TrainingSettings(positions="rotary")


def test_texts_are_counted_at_each_place(vocabulary) -> None:
    pairs = [corpus.Pair("fra", "I am a student .", "Je suis étudiant ."), corpus.Pair("fra", "Hello .", "Bonjour .")]
    found = count_texts(vocabulary, pairs, 40)
    lengths = []
    for pair in pairs:
        lengths += [len(vocabulary.encode(pair.source)) + 2, len(vocabulary.encode(pair.translation)) + 1]  # prefix and end; start
    assert found.tolist() == [sum(length > place for length in lengths) for place in range(40)]
    assert found[0] == 4 and found[-1] < 4


def test_a_run_is_trained_and_its_table_kept(tiny_run: samples.TinyRun, tmp_path) -> None:
    run, file = tmp_path / "run", tmp_path / "table.safetensors"
    options = ["--data", tiny_run.prepared, "--run-folder", run]
    samples.command("train", *options, *samples.TINY_TRAINING, "--positions", "learned", "--steps", 6)
    said = samples.command("positions", *options, "--average", 1, "--out", file)
    table = load_learned_table(file)
    snapshot = torch.load(sorted((run / "snapshots").glob("*.pt"))[-1], weights_only=True)["positions"]
    rows = len(table.rows)
    assert 5 < rows < len(snapshot) and table.texts[0] == table.texts.max() and table.texts[-1] > 0
    np.testing.assert_allclose(table.rows, snapshot[:rows].numpy(), rtol=1e-3, atol=1e-5)
    log = json.loads((run / "log.jsonl").read_text().splitlines()[-1])
    assert (table.step, table.tokens, table.valid_loss) == (6, log["tokens"], log["valid_loss"])
    assert f"{rows} rows" in said


def test_the_two_kinds_of_run_are_not_taken_for_each_other(tiny_run: samples.TinyRun, tmp_path) -> None:
    with pytest.raises(SystemExit, match="computed, not learned"):
        samples.command("positions", "--data", tiny_run.prepared, "--run-folder", tiny_run.run, "--out", tmp_path / "x")
    run = tmp_path / "run"
    samples.command(
        "train", "--data", tiny_run.prepared, "--run-folder", run, *samples.TINY_TRAINING, "--positions", "learned", "--steps", 2
    )
    with pytest.raises(SystemExit, match="kept by `positions`"):
        samples.command("export", "--data", tiny_run.prepared, "--run-folder", run, "--out", tmp_path / "weights", *samples.TINY_SCORING)
    assert not (tmp_path / "weights").exists()
