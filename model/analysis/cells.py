"""One number of a walk, taken apart: the values a linear map reads, the weights it gives them, and its bias."""

# D d_model, F d_ff, K head_dim, S keys, V vocabulary

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from model.analysis import arithmetic
from model.analysis.walkthrough import Place, check_index, recomputed
from model.errors import InvalidSettingError
from model.transformer import Transformer

# What is computed by a linear map: query, key and value of the head [K], the attention's output [D], the feed-forward's inner values
# before the activation [F] and its output [D], and logits [V].
STAGES = ("q", "k", "v", "projected", "hidden", "ff_output", "logit")


@dataclass(frozen=True, eq=False)
class Cell:
    """total = inputs . weights + bias, summed in float64. inputs and weights float32 [n], n the width of what is read.

    key: which key the number belongs to, for the stages "k" and "v"; None for the others.
    """

    stage: str
    index: int
    key: int | None
    inputs: np.ndarray
    weights: np.ndarray
    bias: float

    @property
    def total(self) -> float:
        return float(self.inputs.astype(np.float64) @ self.weights.astype(np.float64) + self.bias)


def cell(
    model: Transformer, src_ids: tuple[int, ...], tgt_ids: tuple[int, ...], place: Place, stage: str, index: int, key: int | None = None
) -> Cell:
    """Value `index` of a stage of the walk at `place`; of "k" and "v", those of one key. tgt_ids without the start token.

    Raises InvalidSettingError for a place, stage (the encoder has no "logit"), index or key that is not there.
    """
    place.check(model, len(src_ids), len(tgt_ids))
    stages = STAGES[:-1] if place.kind == "encoder_self" else STAGES
    if not isinstance(stage, str) or stage not in stages:
        raise InvalidSettingError("stage", stage, ", ".join(stages))
    of_key = stage in ("k", "v")
    if of_key:
        check_index("key", key, len(tgt_ids) if place.kind == "decoder_self" else len(src_ids))
    ids = src_ids if place.kind == "encoder_self" else (model.config.bos_id, *tgt_ids[:-1])
    with torch.inference_mode():
        inputs, matrix, bias, first, count = _map(model, recomputed(model, src_ids, ids, place), place, stage, key)
        check_index("index", index, count)
        weights, added = matrix[first + index].float(), 0.0 if bias is None else float(bias[first + index])
        return Cell(stage, index, key if of_key else None, inputs.cpu().numpy().copy(), weights.cpu().numpy().copy(), added)


def _map(
    model: Transformer, stack: arithmetic.Stack, place: Place, stage: str, key: int | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, int, int]:
    """What the stage's linear map reads [n]; its matrix and bias; the first of the matrix's rows that belong here, and how many do."""
    layer = (model.encoder if place.kind == "encoder_self" else model.decoder)[place.layer]
    module = getattr(layer, place.sublayer)
    attended = next(each for each in stack.wanted if each.name == place.sublayer).work
    fed, row, head_dim = stack.wanted[-1].work, place.row, attended.q.shape[-1]
    if stage in ("q", "k", "v"):
        reads, linear = attended.queries[row] if stage == "q" else attended.keys[key], getattr(module, f"{stage}_proj")
        return reads, linear.weight, linear.bias, place.head * head_dim, head_dim
    if stage == "logit":
        matrix = arithmetic.output_weight(model)
        return stack.final[row], matrix, model.output_bias, 0, len(matrix)
    reads, linear = {
        "projected": (attended.joined[row], module.out_proj),
        "hidden": (fed.reads[row], layer.feed_forward.linear1),
        "ff_output": (fed.active[row], layer.feed_forward.linear2),
    }[stage]
    return reads, linear.weight, linear.bias, 0, linear.out_features
