"""Roles of a model's heads over many sentences, as data for JSON: what the export stores beside the weights as heads.json."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from model.analysis.roles import ROLES, THRESHOLD, HeadRole, RoleTally
from model.checkpoint import read_json
from model.errors import AtlasError, CheckpointMissingError, EmptyTextError, TextTooLongError, UnusableTextError
from model.hooks import ATTENTION_KINDS

if TYPE_CHECKING:
    from model.translator import Translator

log = logging.getLogger(__name__)

PROFILE_FILE = "heads.json"
FORMAT = "attention-atlas-heads-1"
DECIMALS = 4
MAX_MEASURE = 1e6  # none comes near: the largest is a distance in tokens

# (text, target language, its translation if one is given, or else None)
Sentence = tuple[str, str, str | None]


@dataclass(frozen=True)
class HeadProfile:
    """What the heads of a model do over many sentences, by kind, layer and head."""

    sentences: int
    heads: tuple[HeadRole, ...]


def profile_heads(translator: Translator, sentences: Iterable[Sentence]) -> dict[str, object]:
    """The roles of all heads over `sentences`, as values that JSON knows. A translation that is given is forced, others are made by greedy
    search (beam 1). A sentence that the model cannot read is left out and counted.

    {"format", "sentences", "skipped", "given": how many translations were given, "targets": {code: sentences},
     "reference": what `alignment` is measured against, "threshold",
     "rows": {kind: {measure: over how many rows it is a mean}},
     "heads": [{"kind", "layer", "head", "role", "score", "measures": {name: value or None}}, ...]}

    Measures and roles are those of `model.analysis.measures` and `model.analysis.roles`.
    Raises ValueError if not one sentence could be read, and UnknownTargetError.
    """
    tally, targets, skipped, forced = RoleTally(), Counter(), 0, 0
    for text, target, translation in sentences:
        try:
            made = translator.translate(text, target, 1) if translation is None else translator.force(text, translation, target)
            tally.add(translator.trace(made))
        except (EmptyTextError, UnusableTextError, TextTooLongError):
            skipped += 1
            continue
        targets[target] += 1
        forced += translation is not None
    heads = tally.heads()
    return {
        "format": FORMAT,
        "sentences": tally.sentences,
        "skipped": skipped,
        "given": forced,
        "targets": dict(targets),
        "reference": heads[-1].reference,
        "threshold": THRESHOLD,
        "rows": {head.kind: dict(head.rows) for head in heads},
        "heads": [
            {
                "kind": head.kind,
                "layer": head.layer,
                "head": head.head,
                "role": head.role,
                "score": _rounded(head.score),
                "measures": {name: _rounded(value) for name, value in head.measures.items()},
            }
            for head in heads
        ],
    }


def heads_of(profile: Mapping[str, object]) -> tuple[HeadRole, ...]:
    """The heads of a profile that was read back. Raises ValueError for anything that `profile_heads` doesn't write."""
    try:
        if profile["format"] != FORMAT:
            raise ValueError(f"format {profile['format']!r}, not {FORMAT!r}")
        heads = tuple(
            HeadRole(
                **{name: entry[name] for name in ("kind", "layer", "head", "measures", "role", "score")},
                rows=profile["rows"][entry["kind"]],
                reference=profile["reference"] if entry["kind"] == "cross" else None,
            )
            for entry in profile["heads"]
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"no profile of heads: {error!r}") from error
    for head in heads:
        if head.kind not in ATTENTION_KINDS or head.role not in ROLES or set(head.measures) != set(head.rows):
            raise ValueError(f"no profile of heads: {head}")
        if not all(type(place) is int and place >= 0 for place in (head.layer, head.head)):
            raise ValueError(f"no place of a head: {head}")
        if not all(value is None or _is_number(value) for value in (head.score, *head.measures.values())):
            raise ValueError(f"no measures of a head: {head}")
    return heads


def read_profile(folder: Path) -> HeadProfile | None:
    """The profile that an export stored in `folder`; None where there is none. What is damaged counts as none, and the log says so: views
    compare a sentence with it, no result depends on it.
    """
    try:
        values = read_json(folder, PROFILE_FILE)
        sentences = values["sentences"]
        if isinstance(sentences, bool) or not isinstance(sentences, int) or sentences < 1:
            raise ValueError(f"of {sentences!r} sentences")
        return HeadProfile(sentences, heads_of(values))
    except CheckpointMissingError:
        return None
    except (AtlasError, KeyError, TypeError, ValueError, AttributeError) as error:
        log.warning("%s is damaged, so there is no profile of the heads: %s", PROFILE_FILE, error)
        return None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < MAX_MEASURE  # NaN is not


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, DECIMALS)
