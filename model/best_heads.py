"""Which cross-attention head of a checkpoint aligns best, as `python -m model.training export` measured it and wrote it beside it."""

from __future__ import annotations

import logging
import math
from pathlib import Path

from model.checkpoint import read_json
from model.errors import AtlasError, CheckpointMissingError

log = logging.getLogger(__name__)

EVALUATION_FILE = "evaluation.json"
LABELLINGS = ("predicted", "read")

BestHeads = dict[str, tuple[int, int]]


def read_best_heads(folder: Path) -> BestHeads:
    """How rows are named ("predicted": by the token they predict, "read": by the one they read) -> (layer, head), for what was measured;
    the naming with the lowest alignment error rate first.

    Nothing for a folder without these measurements, or with others than ours: pictures open on them, no result depends on them. Of a
    damaged file the log tells.
    """
    try:
        measured = read_json(folder, EVALUATION_FILE).get("alignment")
    except CheckpointMissingError:
        return {}
    except AtlasError as error:
        log.warning("no head is known as the best one: %s", error)
        return {}
    found: list[tuple[float, str, tuple[int, int]]] = []
    for labelling in LABELLINGS:
        best = _of(_of(measured, labelling), "best")
        place = _of(best, "layer"), _of(best, "head")
        if all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in place):
            rate = _of(best, "aer")
            found.append((rate if isinstance(rate, (int, float)) else math.inf, labelling, place))
    return {labelling: place for _, labelling, place in sorted(found, key=lambda item: item[0])}


def _of(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, dict) else None
