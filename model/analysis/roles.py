"""The role of each attention head: the one pattern that most of its weight follows, if there is one.

Roles and where their thresholds come from; the measures are those of `model.analysis.measures`.

    previous, next     more than half of the weight. Clark et al. 2019 (section 3.1) single out heads that put over 50 % of their attention
                       on the token before or the next one. Voita et al. 2019 (section 5.1) call a head positional whose largest weight is
                       there in 90 % of the rows; as that is blind to how large it is, it isn't used here
    same, start, end,  more than half of the weight. Clark et al. (section 3.2) report layers with over half of their attention on the
    punctuation        separator, and heads drawn to commas and full stops; Kovaleva et al. 2019 vertical stripes of special tokens; Voita
                       et al. leave the end token out of a head's confidence. None of them draws a line; the same half, so that all these
                       roles can be compared, is ours
    alignment,         the largest weight is where the reference has it, for the token that a row predicts or for the one that it reads, in
    alignment_read     more than half of the rows. Ours: "more often than not"; of the two the more frequent
    broad              the spread of an even attention to more than half of the keys. Ours: Clark et al. (section 3.3) say of broad heads
                       that they put at most 10 % on any word, of up to 128 tokens; in a sentence of nine tokens none could
    mixed              none of these: what Kovaleva et al. call heterogeneous. They sort maps by a network trained on maps sorted by hand,
                       and Raganato and Tiedemann 2018 describe maps and score syntax in them: neither gives a threshold for a role

Of several, the one with the most weight is taken; alignment comes after the roles of weight, as a sink may have its second largest weight
on the right word; `broad` comes last, as over few keys half of the weight in one place leaves room for a spread.
"""

# L layers, H heads

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from model.analysis.alignment import Links
from model.analysis.measures import RowSum, cross_measures, self_measures
from model.hooks import ATTENTION_KINDS, AttentionKind
from model.results import AttentionTrace

THRESHOLD = 0.5  # a role's measure must exceed it
WEIGHT_ROLES = ("previous", "next", "same", "start", "end", "punctuation")
ALIGNMENT_ROLES = ("alignment", "alignment_read")
ROLES = (*WEIGHT_ROLES, *ALIGNMENT_ROLES, "broad", "mixed")
Reference = Literal["given", "mean_of_heads"]


@dataclass(frozen=True)
class HeadRole:
    """One head, measured.

    measures   by name; None where no row could be measured, such as `next` in a decoder. Those of its kind only
    rows       over how many rows each measure is a mean
    role       one of ROLES
    score      the measure of that name; None for "mixed"
    reference  what both alignments were measured against; None for self-attention
    """

    kind: AttentionKind
    layer: int
    head: int
    measures: Mapping[str, float | None]
    rows: Mapping[str, int]
    role: str
    score: float | None
    reference: Reference | None

    @property
    def leaning(self) -> str | None:
        """Of the roles by weight the one that has most of it, whether enough for the role or not: what to say of a mixed head."""
        measured = [name for name in WEIGHT_ROLES if self.measures.get(name) is not None]
        return max(measured, key=lambda name: self.measures[name], default=None)


def head_roles(trace: AttentionTrace, links: Links | None = None) -> tuple[HeadRole, ...]:
    """Every head of one sentence, encoder, decoder and cross-attention, by layer and head.

    links: (source position, target position) of aligned tokens, a target position being that of the row that predicts it; None takes the
    largest weight of the mean over all heads instead. Raises ValueError for a link outside the sentence.
    """
    tally = RoleTally()
    tally.add(trace, links)
    return tally.heads()


class RoleTally:
    """Adds up the measures of many sentences of one model, row by row: a long sentence has more rows, and weighs more by just these."""

    def __init__(self) -> None:
        self.sentences = 0
        self._reference: Reference | None = None
        self._sums: dict[AttentionKind, dict[str, RowSum]] = {}

    def add(self, trace: AttentionTrace, links: Links | None = None) -> None:
        """Takes one sentence in.

        Raises ValueError if its model has other heads, or if `links` are given for some sentences only: that mean would have no meaning.
        """
        reference: Reference = "mean_of_heads" if links is None else "given"
        if self._reference not in (None, reference):
            raise ValueError("an alignment must be given for all sentences or for none")
        found = {
            "encoder_self": self_measures(trace.encoder_self_attention, trace.src_tokens, "encoder_self"),
            "decoder_self": self_measures(trace.decoder_self_attention, trace.tgt_in_tokens, "decoder_self"),
            "cross": cross_measures(trace.cross_attention, trace.src_tokens, trace.tgt_out_tokens, links),
        }
        if self._sums:
            for kind, measures in self._sums.items():
                ours, theirs = measures["entropy"].total.shape, found[kind]["entropy"].total.shape
                if ours != theirs:
                    raise ValueError(f"{kind} has {theirs[0]} layers of {theirs[1]} heads, the sentences before had {ours[0]} of {ours[1]}")
                found[kind] = {name: measures[name] + found[kind][name] for name in measures}
        self._sums, self._reference = found, reference
        self.sentences += 1

    def heads(self) -> tuple[HeadRole, ...]:
        """The heads by the means so far. Raises ValueError if no sentence was added."""
        if not self._sums:
            raise ValueError("no sentence was added")
        return tuple(self._head(kind, layer, head) for kind in ATTENTION_KINDS for layer, head in np.ndindex(*self._shape(kind)))

    def _shape(self, kind: AttentionKind) -> tuple[int, ...]:
        return self._sums[kind]["entropy"].total.shape

    def _head(self, kind: AttentionKind, layer: int, head: int) -> HeadRole:
        sums = self._sums[kind]
        measures = {name: float(s.total[layer, head]) / s.rows if s.rows else None for name, s in sums.items()}
        role = role_of(measures)
        reference = self._reference if kind == "cross" else None
        return HeadRole(kind, layer, head, measures, {name: s.rows for name, s in sums.items()}, role, measures.get(role), reference)


def role_of(measures: Mapping[str, float | None]) -> str:
    """One of ROLES, by the rules above."""
    passed = {name for name, value in measures.items() if value is not None and value > THRESHOLD}
    for group in (WEIGHT_ROLES, ALIGNMENT_ROLES, ("broad",)):
        found = [name for name in group if name in passed]
        if found:
            return max(found, key=lambda name: measures[name])
    return "mixed"
