"""A trained table of positions, kept to be shown beside the computed ones, and what it does to a score at a distance."""

# P positions, D d_model, N distances

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from model.errors import CheckpointCorruptError, CheckpointMissingError

LEARNED_FILE = Path(__file__).with_name("learned_positions.safetensors")
ENOUGH = 1000  # texts that have to reach a place for its row to count as trained


@dataclass(frozen=True, eq=False)
class LearnedTable:
    """rows       float32 [P, D]: what is added to the embeddings at each place
    texts      int64 [P]: how many texts of the training pairs have a token at this place; never grows with it
    d_model ... num_decoder_layers: sizes of the model that it was trained in
    step, tokens, valid_loss: updates, target tokens, and nats per token on the validation pairs

    Raises ValueError if the arrays do not fit each other or d_model.
    """

    rows: np.ndarray
    texts: np.ndarray
    d_model: int
    num_heads: int
    num_encoder_layers: int
    num_decoder_layers: int
    step: int
    tokens: int
    valid_loss: float

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[1] != self.d_model or self.texts.shape != self.rows.shape[:1]:
            raise ValueError(f"rows {self.rows.shape} and texts {self.texts.shape} do not fit d_model {self.d_model}")

    @property
    def trained(self) -> np.ndarray:
        """The rows that at least ENOUGH texts reached. float32 [<= P, D]."""
        return self.rows[: int((self.texts >= ENOUGH).sum())]


def save_learned_table(table: LearnedTable, path: Path) -> None:
    """Writes the table in half precision, its sizes and history as metadata."""
    facts = {field.name: getattr(table, field.name) for field in fields(table) if field.name not in ("rows", "texts")}
    arrays = {"rows": np.ascontiguousarray(table.rows, dtype=np.float16), "texts": table.texts.astype(np.int64)}
    save_file(arrays, path, metadata={"facts": json.dumps(facts)})


def load_learned_table(path: Path = LEARNED_FILE) -> LearnedTable:
    """Reads what `save_learned_table` wrote. Raises CheckpointMissingError or CheckpointCorruptError."""
    if not path.is_file():
        raise CheckpointMissingError(path.name)
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads(file.metadata()["facts"])
            return LearnedTable(file.get_tensor("rows").astype(np.float32), file.get_tensor("texts"), **facts)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointCorruptError(path.name, str(error)) from error


@dataclass(frozen=True, eq=False)
class LearnedScores:
    """Change of a score by distance, float64 [N] each: the mean over all pairs of places that far apart, the lowest and the highest."""

    mean: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray


def learned_scores(rows: np.ndarray, distances: int) -> LearnedScores:
    """-|PE(p) - PE(p+k)|^2 / (2 sqrt(d_model)) over all p, for k = 0 .. distances - 1.

    This is the mean of looking k ahead, PE(p).PE(p+k) - PE(p).PE(p), and k back, PE(p).PE(p+k) - PE(p+k).PE(p+k), over sqrt(d_model).
    Rows of one length, as the sines have, make them equal: what `model.analysis.position_schemes.sinusoidal_scores` measures. rows [P, D].
    Raises ValueError unless every distance lies between two rows.
    """
    count, d_model = rows.shape
    if not 1 <= distances <= count:
        raise ValueError(f"{count} rows have distances 0 .. {count - 1}, not {distances} of them")
    rows = rows.astype(np.float64)
    changes = [-((rows[k:] - rows[: count - k]) ** 2).sum(axis=1) / (2 * math.sqrt(d_model)) for k in range(distances)]
    return LearnedScores(*(np.array([of(change) for change in changes]) for of in (np.mean, np.min, np.max)))
