"""The table of learned positions that is shipped, its file, and what it does to a score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from model.analysis.learned_positions import LearnedTable, learned_scores, load_learned_table, save_learned_table
from model.analysis.position_facts import similarity
from model.analysis.position_schemes import sinusoidal_scores
from model.errors import CheckpointCorruptError, CheckpointMissingError
from model.positional import sinusoidal_table

SIZES = {"d_model": 6, "num_heads": 2, "num_encoder_layers": 3, "num_decoder_layers": 1, "step": 9, "tokens": 800, "valid_loss": 2.5}


def some_table() -> LearnedTable:
    rows = np.random.default_rng(2).normal(size=(5, 6)).astype(np.float16).astype(np.float32)
    return LearnedTable(rows, np.array([4000, 2500, 1000, 999, 3]), **SIZES)


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table, path = some_table(), tmp_path / "table.safetensors"
    save_learned_table(table, path)
    found = load_learned_table(path)
    assert np.array_equal(found.rows, table.rows) and found.rows.dtype == np.float32 and np.array_equal(found.texts, table.texts)
    assert {name: getattr(found, name) for name in SIZES} == SIZES
    assert np.array_equal(found.trained, table.rows[:3])  # 1000 texts are enough, 999 are not


def test_a_missing_or_damaged_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "table.safetensors"
    with pytest.raises(CheckpointMissingError, match="table.safetensors"):
        load_learned_table(path)
    save_learned_table(some_table(), path)
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(CheckpointCorruptError, match="table.safetensors"):
        load_learned_table(path)
    with pytest.raises(ValueError, match="d_model 4"):
        replace(some_table(), d_model=4)


def test_scores_are_those_of_every_pair_of_places() -> None:
    rows = some_table().rows.astype(np.float64)
    found = learned_scores(rows, 4)
    for k in range(4):
        scores = [(2 * rows[p] @ rows[p + k] - rows[p] @ rows[p] - rows[p + k] @ rows[p + k]) / (2 * 6**0.5) for p in range(5 - k)]
        assert found.mean[k] == pytest.approx(sum(scores) / len(scores))
        assert (found.lowest[k], found.highest[k]) == (pytest.approx(min(scores)), pytest.approx(max(scores)))
    assert found.mean[0] == 0
    # What a query sees at a key k places ahead and k places behind, each less its own product, on average.
    both = [(rows[p] @ rows[q] - rows[p] @ rows[p]) / 6**0.5 for p in range(5) for q in (p - 2, p + 2) if 0 <= q < 5]
    assert found.mean[2] == pytest.approx(sum(both) / len(both))
    for wrong in (0, 6):
        with pytest.raises(ValueError, match="distances 0 .. 4"):
            learned_scores(rows, wrong)


def test_on_the_sines_it_is_the_measure_of_the_sines() -> None:
    table = sinusoidal_table(30, 16).numpy()
    found = learned_scores(table, 20)
    expected = sinusoidal_scores(similarity(table).dot[:20], 16)
    for scores in (found.mean, found.lowest, found.highest):  # at every place the same
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_the_shipped_table_was_trained_and_tells_places_apart() -> None:
    table = load_learned_table()
    rows = table.trained
    assert table.rows.nbytes // 2 < 200_000 and np.all(np.diff(table.texts) <= 0) and len(rows) >= 24
    assert 0 < table.valid_loss < 3.5 and table.tokens > 1_000_000
    # At random, neighbours would be no more alike than places far apart.
    found = learned_scores(rows, len(rows) // 2)
    assert found.mean[1] > found.mean[8] and found.highest[1:].max() < 0
