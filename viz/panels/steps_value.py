"""A walk through the model as one JSON string: what the Step by step tab draws from. No Gradio here.

    {"request": identity of the run, "language": of the labels,
     "kind", "layer", "head", "row", "without": "" or the part taken away,
     "facts": {"d_model", "num_heads", "head_dim", "d_ff", "norm", "activation", "layout", "eps", "embedding_scale", "layers", "vocab_size"}
              of the stack that the row is in, and of the logits {"output_tied": to the embedding, "output_bias": bool},
     "side", "key_side": "source" or "read": whose tokens rows and keys are (see `viz.panels.maps_value`),
     "token": {"id", "label": LABEL}, "position",
     "before": WALK, "after": WALK of the same ids without the part, or null,
     "translations": null or {"before": text, "after": text, "changed": bool}: what both models write,
     "check": the check of `before`, and "shown": largest difference between its weights and those of the map on the page}

    WALK  the fields of `model.analysis.walkthrough.Walk`; vectors and matrices are {"shape", "data": base64 of float32, little-endian}
    LABEL  see `viz.panels.maps_value`

A cell is {"request", "kind", "layer", "head", "row", "without", "after": of the model without the part,
"stage", "index", "key", "inputs": [n], "weights": [n], "bias", "sum"}.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from model.analysis.measures import is_special
from viz.figures.labels import token_label
from viz.panels.choice import maps_of
from viz.panels.map_view import Unit, label_texts
from viz.panels.maps_value import label_value

if TYPE_CHECKING:
    from model.analysis.cells import Cell
    from model.analysis.walkthrough import ClosingNorm, Guess, Walk
    from model.config import TransformerConfig
    from viz.runs import Run


@dataclass(frozen=True, eq=False)
class Steps:
    """A walk, and, if a part was taken away (`without`), the walk without it and what the two models write."""

    before: Walk
    without: str = ""
    after: Walk | None = None
    texts: tuple[str, str] | None = None


def steps_value(run: Run, config: TransformerConfig, steps: Steps, language: str = "en") -> str:
    """Everything the tab shows of one row, in the form above. Labels name special tokens in `language`."""
    walk, place = steps.before, steps.before.place
    of_source = place.kind == "encoder_self"
    tokens = run.translation.src_tokens if of_source else run.translation.tgt_in_tokens
    shown = maps_of(run.trace, place.kind)[place.layer, place.head, place.row]
    value = {
        "request": run.request.as_dict(),
        "language": language,
        **{name: getattr(place, name) for name in ("kind", "layer", "head", "row")},
        "without": steps.without,
        "facts": _facts(config, walk),
        "side": "source" if of_source else "read",
        "key_side": "read" if place.kind == "decoder_self" else "source",
        "token": {"id": walk.token_id, "label": _label(tokens[place.row], place.row, language)},
        "position": place.row,
        "before": walk_value(walk, language),
        "after": None if steps.after is None else walk_value(steps.after, language),
        "translations": None,
        "check": {**_check(walk), "shown": float(np.abs(walk.attention.weights - shown).max())},
    }
    if steps.texts is not None:
        before, after = steps.texts
        value["translations"] = {"before": before, "after": after, "changed": before != after}
    return _json(value)


def cell_value(run: Run, place: Mapping[str, object], cell: Cell, after: bool) -> str:
    """One number as a sum. place: "kind", "layer", "head", "row" and "without" of the steps that it belongs to."""
    value = {
        "request": run.request.as_dict(),
        **place,
        "after": after,
        "stage": cell.stage,
        "index": cell.index,
        "key": cell.key,
        "inputs": vector(cell.inputs),
        "weights": vector(cell.weights),
        "bias": cell.bias,
        "sum": cell.total,
    }
    return _json(value)


def walk_value(walk: Walk, language: str) -> dict[str, object]:
    """One WALK."""
    attention = walk.attention
    arrays = ("q", "k", "v", "products", "scores", "weights", "head_output", "joined", "projected")
    return {
        "embedding": vector(walk.embedding),
        "scaled": vector(walk.scaled),
        "encoding": vector(walk.encoding),
        "input": vector(walk.total),
        "embedding_scale": walk.embedding_scale,
        "scale_scores": walk.scale_scores,
        "stream_norms": list(walk.stream_norms),
        "sublayers": [
            {
                "name": each.name,
                "input": vector(each.before),
                "normed": None if each.normed is None else vector(each.normed),
                "output": vector(each.output),
                "added": vector(each.added),
                "after": vector(each.after),
                "mean": each.mean,
                "variance": each.variance,
            }
            for each in walk.sublayers
        ],
        "attention": {
            "sublayer": attention.sublayer,
            **{name: vector(getattr(attention, name)) for name in arrays},
            "masked": attention.masked.tolist(),
            "entropy": attention.entropy,
            "largest": float(attention.weights.max()),
        },
        "feed_forward": {"hidden": vector(walk.hidden), "active": vector(walk.active)},
        "closing": None if walk.closing is None else _closing(walk.closing),
        "final": vector(walk.final),
        "top": None if walk.top is None else [_guess(each, language) for each in walk.top],
        "written": None if walk.written is None else _guess(walk.written, language),
        "log_sum_exp": walk.log_sum_exp,
        "never_written": walk.never_written,
        "shared_anew": walk.shared_anew,
        "check": _check(walk),
    }


def vector(values: np.ndarray) -> dict[str, object]:
    """An array of any shape: {"shape": [...], "data": base64 of float32, little-endian, the last axis fastest}."""
    return {"shape": list(values.shape), "data": base64.b64encode(values.astype("<f4").tobytes()).decode("ascii")}


def _facts(config: TransformerConfig, walk: Walk) -> dict[str, object]:
    stack = config.encoder if walk.place.kind == "encoder_self" else config.decoder
    return {
        "d_model": config.d_model,
        "num_heads": stack.num_heads,
        "head_dim": config.d_model // stack.num_heads,
        "d_ff": stack.d_ff,
        "norm": config.norm,
        "activation": config.activation,
        "layout": config.position_layout,
        "eps": config.layer_norm_eps,
        "embedding_scale": walk.embedding_scale,
        "layers": stack.num_layers,
        "vocab_size": stack.vocab_size,
        "output_tied": config.tie_embeddings or config.tie_output,
        "output_bias": config.output_bias,
    }


def _closing(norm: ClosingNorm) -> dict[str, object]:
    return {"input": vector(norm.before), "mean": norm.mean, "variance": norm.variance}


def _check(walk: Walk) -> dict[str, float | None]:
    return {name: getattr(walk.check, name) for name in ("weights", "layer", "final", "logits")}


def _guess(guess: Guess, language: str) -> dict[str, object]:
    return {
        "id": guess.token_id,
        "label": _label(guess.token, 0, language),
        "logit": guess.logit,
        "probability": guess.probability,
        "rank": guess.rank,
    }


def _label(token: str, position: int, language: str) -> dict[str, object]:
    return label_value(Unit(token_label(token, label_texts(language)), position, position + 1, is_special(token)))


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
