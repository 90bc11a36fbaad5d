"""What else a model held likely at each target position of a translation."""

# T tgt_len, D d_model, V vocabulary

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from model.decoding import top_tokens
from model.results import RunnerUps

NUM_RUNNER_UPS = 5
ROWS_AT_ONCE = 64  # rows as wide as the vocabulary: of a long translation, all at once would be hundreds of MB


def find_runner_ups(
    states: Tensor, tgt_ids: Sequence[int], log_probs: Callable[[Tensor], Tensor], name: Callable[[int], str]
) -> tuple[RunnerUps, ...]:
    """For each position the likeliest other tokens, and the rank of the token that stands there.

    states [T, D] of the decoder, of which row t predicts tgt_ids[t]; log_probs takes some rows of them to log-probabilities [rows, V], -inf
    for tokens that may never be written; name gives the string of a token id.
    """
    found: list[RunnerUps] = []
    for start in range(0, len(tgt_ids), ROWS_AT_ONCE):
        chosen = tgt_ids[start : start + ROWS_AT_ONCE]
        rows = log_probs(states[start : start + ROWS_AT_ONCE])
        column = torch.tensor(list(chosen), device=rows.device)[:, None]
        likelier = (rows > rows.gather(1, column)).count_nonzero(dim=1).tolist()
        values, ids = top_tokens(rows, NUM_RUNNER_UPS + 1)
        for token_id, count, row_values, row_ids in zip(chosen, likelier, values, ids, strict=True):
            others = [(name(i), math.exp(value)) for i, value in zip(row_ids, row_values, strict=True) if i != token_id]
            found.append(RunnerUps(count + 1, tuple(others[:NUM_RUNNER_UPS])))
    return tuple(found)
