"""What the sections on positions in the sentence were asked, checked: which side, which two places, which head, which order of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.analysis.position_scores import KINDS
from model.analysis.position_sentence import SIDES
from model.analysis.word_order import shuffled
from model.errors import AtlasError, InvalidSettingError
from viz.panels.choice import as_mapping, maps_of, one_of, whole_number
from viz.panels.map_view import Unit

if TYPE_CHECKING:
    from viz.runs import Run

MAX_DRAWN = 96  # tokens a side of a small map; more are thinner than what can be read
MAX_ORDERED = 64  # tokens of a sentence whose words can be moved: it is translated four times
MAX_SEED = 9999
NEIGHBOURS = ("previous", "next")  # measures of a head that looks beside itself


class NoWeightsError(AtlasError):
    """The translator cannot be looked into."""

    code = "no_weights"

    def __init__(self) -> None:
        super().__init__("This model's weights cannot be read, so there is nothing to compute here.")


class TooLongToOrderError(AtlasError):
    """More tokens than a sentence may have whose words are moved."""

    code = "too_long_to_order"

    def __init__(self, num_tokens: int) -> None:
        message = f"The sentence has {num_tokens} tokens; words can be moved in one of at most {MAX_ORDERED}."
        super().__init__(message, num_tokens=num_tokens, limit=MAX_ORDERED)


class TooFewToOrderError(AtlasError):
    """Fewer words than it takes for another order."""

    code = "too_few_to_order"

    def __init__(self) -> None:
        super().__init__("It takes at least two words to put them in another order.")


@dataclass(frozen=True)
class SelfHead:
    """A head of self-attention; layer None: of any layer, head None: of any head, whichever shows most."""

    kind: str
    layer: int | None = None
    head: int | None = None

    @classmethod
    def from_page(cls, store: object, run: Run, kinds: Sequence[str] = KINDS) -> SelfHead:
        """The head that the page has chosen, if it is one of these kinds, or its layer, where all heads of that are shown together (mean,
        max ...); any head of the encoder where cross-attention is chosen. What lies beyond the last layer or head is the last.

        Raises InvalidSettingError for what can be no head at all.
        """
        store = as_mapping(store)
        kind, layer, head = store.get("kind"), store.get("layer"), store.get("head")
        if kind not in kinds or layer is None:
            return cls("encoder_self")
        num_layers, num_heads = maps_of(run.trace, kind).shape[:2]
        layer = min(whole_number("layer", layer, 0, 10**6), num_layers - 1)
        return cls(kind, layer, None if isinstance(head, str) else min(whole_number("head", head, 0, 10**6), num_heads - 1))

    def neighbourly(self, run: Run) -> SelfHead:
        """This head, or of those it may be the one that gives most weight to the token before or after it."""
        heads = [each for each in run.roles if each.kind == self.kind and self.layer in (None, each.layer)]
        heads = [each for each in heads if self.head in (None, each.head)]
        best = max(heads, key=lambda head: max(head.measures.get(name) or 0.0 for name in NEIGHBOURS))
        return SelfHead(self.kind, best.layer, best.head)


def side_of(store: object) -> str:
    """"source", or "read" for what the decoder reads. Raises InvalidSettingError."""
    return one_of("side", _own(store).get("side", SIDES[0]), SIDES)


def places_of(store: object, run: Run) -> tuple[int, int]:
    """Two places of the source: those chosen, else the first token that stands there twice, else the first two that are words.

    Raises InvalidSettingError for places that there are not.
    """
    ids = run.translation.src_ids
    chosen = _own(store).get("places")
    if chosen is not None:
        if not isinstance(chosen, (list, tuple)) or len(chosen) != 2:
            raise InvalidSettingError("places", chosen, "two places")
        first, second = (whole_number("place", place, 0, len(ids) - 1) for place in chosen)
        if first == second:
            raise InvalidSettingError("places", chosen, "two different places")
        return first, second
    twice = repeated(ids)
    if twice:
        return twice[0]
    start = 1 if len(ids) > 3 else 0  # a prefix of the target language is no word
    return start, start + 1


def repeated(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Pairs of neighbouring occurrences of one id, in order."""
    last: dict[int, int] = {}
    found = []
    for place, i in enumerate(ids):
        if i in last:
            found.append((last[i], place))
        last[i] = place
    return sorted(found)


def order_of(store: object, units: Sequence[Unit]) -> tuple[int, tuple[int, ...]]:
    """Seed and order of the words: for each place, which of `units` stands there. Special tokens keep their places.

    Raises InvalidSettingError for anything but an order of all of them.
    """
    store = as_mapping(as_mapping(store).get("word_order"))
    seed = whole_number("seed", store.get("seed", 1), 0, MAX_SEED)
    free = [place for place, unit in enumerate(units) if not unit.special]
    chosen = store.get("order")
    if chosen is None:
        moved = iter(free[place] for place in shuffled(len(free), seed))
        return seed, tuple(place if unit.special else next(moved) for place, unit in enumerate(units))
    expected = f"the numbers from 0 to {len(units) - 1}, each once, special tokens in their places"
    if not isinstance(chosen, (list, tuple)) or len(chosen) != len(units):
        raise InvalidSettingError("order", "a list of another length" if isinstance(chosen, (list, tuple)) else chosen, expected)
    order = tuple(whole_number("order", place, 0, len(units) - 1) for place in chosen)
    if len(set(order)) != len(order) or any(order[place] != place for place, unit in enumerate(units) if unit.special):
        raise InvalidSettingError("order", list(order), expected)
    return seed, order


def _own(store: object) -> Mapping[str, object]:
    return as_mapping(as_mapping(store).get("position_sentence"))
