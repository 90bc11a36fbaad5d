"""Learned positions: the table that Vaswani et al. (2017) tried in place of their sines (table 3, row E), trained to be looked at.

The app's models compute their positions. For Positions to show beside them what training makes of a table, one small model is trained
with it, and that table alone is kept: `python -m model.training positions`.
"""

# P positions, D d_model

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import sentencepiece as spm
import torch
from torch import Tensor, nn

from model.analysis.learned_positions import LearnedTable, save_learned_table
from model.config import TransformerConfig
from model.training.batches import encode_pairs
from model.training.corpus import Pair
from model.transformer import Transformer


class LearnedPositions(Transformer):
    """A Transformer whose positions [P, D] are parameters, one table for encoder and decoder, in the place of the sines."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        del self.positions
        # From zero: what stands in it afterwards was learned, and a row that was never read is seen to be empty.
        self.positions = nn.Parameter(torch.zeros(config.max_len, config.d_model))


def count_texts(vocabulary: spm.SentencePieceProcessor, pairs: Sequence[Pair], num_positions: int) -> np.ndarray:
    """How many texts of the pairs, sources and targets as they are read, have a token at each place. int64 [num_positions]."""
    lengths = [length for src, tgt in encode_pairs(vocabulary, pairs) for length in (len(src), len(tgt) - 1)]
    ending = np.bincount(np.minimum(lengths, num_positions), minlength=num_positions + 1)
    return ending[::-1].cumsum()[::-1][1:].astype(np.int64)


def write_table(state: dict[str, Tensor], facts: dict[str, dict], log: Sequence[dict], texts: np.ndarray, path: Path) -> LearnedTable:
    """Keeps the table of a run, as far as any text reached. state: averaged weights; facts: run.json; log: its log, one entry a snapshot.

    Raises ValueError for a run whose positions are not learned."""
    if facts["settings"].get("positions") != "learned":
        raise ValueError("the positions of this run are computed, not learned: train one with --positions learned")
    config, reached = facts["config"], log[-1]
    rows = int((texts > 0).sum())
    sizes = {name: config[name] for name in ("d_model", "num_heads", "num_encoder_layers", "num_decoder_layers")}
    training = {name: reached[name] for name in ("step", "tokens", "valid_loss")}
    table = LearnedTable(state["positions"][:rows].float().numpy(), texts[:rows], **sizes, **training)
    save_learned_table(table, path)
    return table


def read_log(path: Path) -> list[dict]:
    """The entries of a run's log. Raises OSError if there is none."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
