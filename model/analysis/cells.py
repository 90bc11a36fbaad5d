"""One number of a walk, taken apart: the values that a map of the model reads, the weights it gives them, and its bias."""

# D d_model, F d_ff, K head_dim, S keys, V vocabulary

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from model.analysis import arithmetic
from model.analysis.walkthrough import Place, check_index, recomputed
from model.errors import InvalidSettingError
from model.transformer import Transformer

# What the model's weights make: query, key and value of the head [K], the attention's output [D], the feed-forward's inner values
# before the activation [F] and its output [D], what the norm of a sublayer and, pre-norm, the closing one makes [D] each, and logits [V].
STAGES = ("q", "k", "v", "projected", "hidden", "ff_output", "normed", "final", "logit")


@dataclass(frozen=True, eq=False)
class Cell:
    """total = inputs . weights + bias, summed in float64. inputs and weights float32 [n], n the width of what is read.

    "normed" and "final" read one value, (x - mean) / sqrt(variance + eps), n = 1: its weight is the norm's gain.
    key: which key the number belongs to, for the stages "k" and "v"; which sublayer, for "normed"; None for the others.
    """

    stage: str
    index: int
    key: int | str | None
    inputs: np.ndarray
    weights: np.ndarray
    bias: float

    @property
    def total(self) -> float:
        return float(self.inputs.astype(np.float64) @ self.weights.astype(np.float64) + self.bias)


def cell(
    model: Transformer,
    src_ids: tuple[int, ...],
    tgt_ids: tuple[int, ...],
    place: Place,
    stage: str,
    index: int,
    key: int | str | None = None,
) -> Cell:
    """Value `index` of a stage of the walk at `place`; of "k" and "v", those of one key; of "normed", that of a sublayer (its name).
    tgt_ids without the start token.

    Raises InvalidSettingError for a place, stage (the encoder has no "logit", a post-norm model no "final"), index or key that is not
    there.
    """
    place = place.checked(model, len(src_ids), len(tgt_ids))
    missing = {"logit": place.kind == "encoder_self", "final": model.config.norm == "post"}
    stages = [name for name in STAGES if not missing.get(name)]
    if not isinstance(stage, str) or stage not in stages:
        raise InvalidSettingError("stage", stage, ", ".join(stages))
    if stage in ("k", "v"):
        key = check_index("key", key, len(tgt_ids) if place.kind == "decoder_self" else len(src_ids))
    elif stage == "normed":
        names = [name for name in ("self_attn", "cross_attn", "feed_forward") if name != "cross_attn" or place.kind != "encoder_self"]
        if not isinstance(key, str) or key not in names:
            raise InvalidSettingError("key", key, ", ".join(names))
    else:
        key = None
    ids = src_ids if place.kind == "encoder_self" else (model.config.bos_id, *tgt_ids[:-1])
    with torch.inference_mode():
        stack = recomputed(model, src_ids, ids, place)
        if stage in ("normed", "final"):
            index = check_index("index", index, model.config.d_model)
            return Cell(stage, index, key, *_normed(model, stack, place, index, key))
        inputs, matrix, bias, first, count = _map(model, stack, place, stage, key)
        index = check_index("index", index, count)
        weights, added = matrix[first + index].float(), 0.0 if bias is None else float(bias[first + index])
        return Cell(stage, index, key, inputs.cpu().numpy().copy(), weights.cpu().numpy().copy(), added)


def _normed(
    model: Transformer, stack: arithmetic.Stack, place: Place, index: int, name: str | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """What a sublayer's norm, or the closing one (None), makes value `index` of: the value in units of the row's deviation [1], the gain
    [1] and the shift."""
    if name is None:
        step, norm, rows = stack, model.encoder_norm if place.kind == "encoder_self" else model.decoder_norm, stack.last
    else:
        step = next(each for each in stack.wanted if each.name == name)
        norm, rows = getattr(_layer(model, place), f"{name}_norm"), step.added if step.normed is None else step.before
    level = (rows[place.row, index] - step.mean[place.row]) / (step.variance[place.row] + norm.eps).sqrt()
    return level[None].cpu().numpy().copy(), norm.weight[index, None].float().cpu().numpy().copy(), float(norm.bias[index])


def _map(
    model: Transformer, stack: arithmetic.Stack, place: Place, stage: str, key: int | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, int, int]:
    """What the stage's linear map reads [n]; its matrix and bias; the first of the matrix's rows that belong here, and how many do."""
    layer = _layer(model, place)
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


def _layer(model: Transformer, place: Place) -> torch.nn.Module:
    return (model.encoder if place.kind == "encoder_self" else model.decoder)[place.layer]
