"""All maps of a run as one JSON string: what the page gets once and then draws, switches and lights up by itself (static/maps.js).

    {"request": identity of the run,
     "sides": {"source" | "read" | "predicted": {"pieces" | "words": {"en": [LABEL, ...], "zh": [LABEL or null, ...]}}},
     "kinds": {KIND: {"layers", "heads",
                      "weights": [per layer: base64 of [head, query, key] (decoder_self: [head, cell], see below), or null],
                      "thumbs": null or {"rows", "columns", "data": base64 of [layer, head, row, column]},
                      "rollout": [per layer: base64 of [query, key], or null],
                      "norm": the same, or null where it was not measured}},
     "heads": {KIND: [per layer: [per head: HEAD]]},                   what each head does in this sentence
     "profile": null or {"sentences", "heads": the same}}              and over many sentences of the model

    LABEL  {"raw", "short", "full", "hover", "text", "width", "special", "start", "stop"}: see `viz.figures.labels.Label`; covers the
           positions start .. stop - 1. special: left out where special tokens are hidden; an unknown token stands for a word and is not.
           A Chinese label that is the same as the English one is null: most are
    HEAD   {"role", "score", "leaning", "measures": {name: number or null}}: see `model.analysis.roles.HeadRole`

Weights are unsigned 16-bit integers, little-endian, 65535 standing for 1: true to 0.000008. Thumbnails have 8 bits, 255 standing for 1.
Of causal maps (decoder_self: weights, rollout, norm) only the cells that may hold weight are sent, row after row: query i has keys 0 .. i.
A long run leaves its weights out: the page asks for the layer that it shows (`layer_value`), and draws heads small from thumbnails, where
a cell is the largest of the weights that it stands for.
"""

# L layers, H heads, Q queries, K keys

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from model.analysis.roles import HeadRole
from viz.figures.labels import LabelTexts, token_label
from viz.panels.choice import KINDS, UNITS, maps_of, one_of, whole_number
from viz.panels.map_view import Unit, label_texts, side_units
from viz.runs import Run
from viz.text import LANGUAGES

MAX_TOKENS = 64
THUMB_SIDE = 32
FULL, THUMB_FULL = 2**16 - 1, 2**8 - 1
DECIMALS = 4


def maps_value(run: Run, max_tokens: int = MAX_TOKENS, wanted: tuple[str, int] | None = None) -> str:
    """All maps of the run, in the form above.

    A run with more than `max_tokens` on its longer side leaves out all layers but `wanted` = (kind, layer).
    """
    trace = run.trace
    whole = max(len(trace.src_tokens), len(trace.tgt_in_tokens)) <= max_tokens
    sides = {"source": trace.src_tokens, "read": trace.tgt_in_tokens, "predicted": trace.tgt_out_tokens}
    value = {
        "request": run.request.as_dict(),
        "sides": {side: {units: _labels(tokens, units) for units in UNITS} for side, tokens in sides.items()},
        "kinds": {kind: _kind(run, kind, whole, wanted) for kind in KINDS},
        "heads": heads_value(run.roles, run),
        "profile": None,
    }
    if run.profile is not None and fits(run.profile.heads, run):
        value["profile"] = {"sentences": run.profile.sentences, "heads": heads_value(run.profile.heads, run)}
    return _json(value)


def layer_value(run: Run, kind: object, layer: object) -> str:
    """One layer, for a page that has not got it yet: {"request", "kind", "layer", "weights", "rollout", "norm"}.

    Raises InvalidSettingError for a kind or a layer that there is not.
    """
    kind = one_of("kind", kind, KINDS)
    layer = whole_number("layer", layer, 0, len(maps_of(run.trace, kind)) - 1)
    return _json({"request": run.request.as_dict(), "kind": kind, "layer": layer, **_layer(run, kind, layer)})


def fits(heads: Sequence[HeadRole], run: Run) -> bool:
    """Whether these are the heads of the model that made the run, each once and in order."""
    places = [(kind, layer, head) for kind in KINDS for layer, head in np.ndindex(*maps_of(run.trace, kind).shape[:2])]
    return [(head.kind, head.layer, head.head) for head in heads] == places


def heads_value(heads: Sequence[HeadRole], run: Run) -> dict[str, list[list[dict[str, object]]]]:
    """HEADs by kind, layer and head."""
    found: dict[str, list[list[dict[str, object]]]] = {kind: [[] for _ in maps_of(run.trace, kind)] for kind in KINDS}
    for head in heads:
        measures = {name: _rounded(value) for name, value in head.measures.items()}
        entry = {"role": head.role, "score": _rounded(head.score), "leaning": head.leaning, "measures": measures}
        found[head.kind][head.layer].append(entry)
    return found


def fixed_point(weights: np.ndarray, full: int = FULL) -> str:
    """Weights from 0 to 1 as base64 of little-endian integers of which `full` (65535 or 255) stands for 1."""
    # a softmax row may come out at 1.0000001
    return base64.b64encode(np.rint(np.minimum(weights, 1) * full).astype("<u2" if full == FULL else "u1").tobytes()).decode("ascii")


def causal_cells(maps: np.ndarray) -> np.ndarray:
    """[..., T, T] to [..., T * (T + 1) / 2]: row after row what is not in a token's future."""
    return maps[(..., *np.tril_indices(maps.shape[-1]))]


def thumbnails(maps: np.ndarray, side: int = THUMB_SIDE) -> np.ndarray:
    """[..., Q, K] to [..., r, c], r and c at most `side`: the largest weight of each block. Blocks differ by one row or column at most."""
    for axis in (-1, -2):
        size = maps.shape[axis]
        count = min(side, size)
        maps = np.maximum.reduceat(maps, np.arange(count) * size // count, axis=axis)
    return maps


def _kind(run: Run, kind: str, whole: bool, wanted: tuple[str, int] | None) -> dict[str, object]:
    maps = maps_of(run.trace, kind)
    layers = [_layer(run, kind, layer) if whole or wanted == (kind, layer) else _NO_LAYER for layer in range(len(maps))]
    thumbs = None if whole else thumbnails(maps)
    return {
        "layers": maps.shape[0],
        "heads": maps.shape[1],
        "weights": [layer["weights"] for layer in layers],
        "thumbs": None if whole else {"rows": thumbs.shape[2], "columns": thumbs.shape[3], "data": fixed_point(thumbs, THUMB_FULL)},
        "rollout": [layer["rollout"] for layer in layers],
        "norm": None if run.norms is None else [layer["norm"] for layer in layers],
    }


_NO_LAYER: dict[str, str | None] = {"weights": None, "rollout": None, "norm": None}


def _layer(run: Run, kind: str, layer: int) -> dict[str, str | None]:
    def sent(maps: np.ndarray) -> str:
        return fixed_point(causal_cells(maps) if kind == "decoder_self" else maps)

    return {
        "weights": sent(maps_of(run.trace, kind)[layer]),
        "rollout": sent(run.rollout[kind][layer]),
        "norm": None if run.norms is None else sent(run.norms[kind][layer]),
    }


def _labels(tokens: Sequence[str], units: str) -> dict[str, list[dict[str, object] | None]]:
    english = side_units(tokens, units, label_texts("en"))
    found: dict[str, list[dict[str, object] | None]] = {"en": [label_value(unit) for unit in english]}
    for language in LANGUAGES.keys() - {"en"}:
        texts = label_texts(language)
        found[language] = [_named(unit, tokens[unit.start], texts) for unit in english]
    return found


def _named(english: Unit, token: str, texts: LabelTexts) -> dict[str, object] | None:
    """The label in another language, if it is another one there: only what has a name in each can be."""
    if not english.label.special and token:
        return None
    label = token_label(token, texts)
    return None if label == english.label else label_value(replace(english, label=label))


def label_value(unit: Unit) -> dict[str, object]:
    label = unit.label
    return {
        "raw": label.raw,
        "short": label.short,
        "full": label.full,
        "hover": label.hover,
        "text": label.text,
        "width": round(label.width, 4),
        "special": unit.special,
        "start": unit.start,
        "stop": unit.stop,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DECIMALS)


def _json(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
