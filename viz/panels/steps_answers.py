"""What the Step by step tab asks the server: one row's walk through the model, and one of its numbers as a sum.

Plain functions that take what the page sent and return what it shows, callable without a browser. The store holds

    kind, layer, head   the choice of the Translate tab; where all heads of a layer together are chosen, one of them is walked through
    steps               {"row": which row of its map, "without": "" or one of `model.variants.PARTS`}
    cell                {"stage", "index", "key": see `model.analysis.cells`, "after": whether of the model without the part, "without"}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import gradio as gr

from model.analysis.walkthrough import Place
from model.variants import PARTS
from viz.panels.choice import MapChoice, as_mapping, language_of, maps_of, one_of, whole_number
from viz.panels.notice import notice
from viz.panels.steps_value import Steps, cell_value, steps_value
from viz.runs import Request, Run, RunCache

if TYPE_CHECKING:
    from model.analysis.cells import Cell
    from model.results import Translation
    from model.translator import Translator


@dataclass(frozen=True)
class StepsChoice:
    """Which row of which head, and what is taken away: "" or one of `model.variants.PARTS`."""

    place: Place
    without: str

    @classmethod
    def from_page(cls, store: object, run: Run) -> StepsChoice:
        """The choice in a page's store, fitted to the run as the map is; a row beyond the last is the last. Raises InvalidSettingError."""
        choice = MapChoice.fitted(store, run.trace, run.best_heads)
        asked = as_mapping(as_mapping(store).get("steps"))
        rows = maps_of(run.trace, choice.kind).shape[2]
        row = min(whole_number("row", asked.get("row", 0), 0, 2**31), rows - 1)
        return cls(Place(choice.kind, choice.layer, one_head(run, choice), row), one_of("without", asked.get("without", ""), ("", *PARTS)))


def one_head(run: Run, choice: MapChoice) -> int:
    """The chosen head. For all heads together: the layer's best aligning one if it is known (cross-attention), else the first."""
    if not isinstance(choice.head, str):
        return choice.head
    best = run.best_heads.get(choice.rows) if choice.kind == "cross" else None
    known = best is not None and best[0] == choice.layer and best[1] < run.trace.cross_attention.shape[1]
    return best[1] if known else 0


def steps(runs: RunCache, result: object, store: object) -> tuple[Any, Any]:
    """Message and all numbers of the row that the page chose; on an error the message alone, and what was shown stays."""
    try:
        run = _run(runs, result)
        choice = StepsChoice.from_page(store, run)
        found = runs.ask(run.request.model, walk_steps, run.translation, choice)
        if choice.without:
            # a translation that the visitor gave is not what the model would write
            written = run.translation.text if run.request.given is None else runs.text_without(run.request, "")
            found = replace(found, texts=(written, runs.text_without(run.request, choice.without)))
        return None, steps_value(run, runs.translator_of(run.request.model).config, found, language_of(store))
    except Exception as error:
        return notice(error), gr.skip()


def cell(runs: RunCache, result: object, store: object) -> tuple[Any, Any]:
    """Message and one number of the walk as a sum; on an error the message alone."""
    try:
        run = _run(runs, result)
        choice = StepsChoice.from_page(store, run)
        asked = as_mapping(as_mapping(store).get("cell"))
        after = asked.get("after") is True
        found = runs.ask(run.request.model, walk_cell, run.translation, choice, after, _plain(asked))
        place = {name: getattr(choice.place, name) for name in ("kind", "layer", "head", "row")}
        return None, cell_value(run, {**place, "without": choice.without}, found, after)
    except Exception as error:
        return notice(error), gr.skip()


# --- what the model is asked ---


def walk_steps(translator: Translator, translation: Translation, choice: StepsChoice) -> Steps:
    """The walk; and if a part is taken away, the walk of the same ids without it."""
    place = choice.place
    where = (place.kind, place.layer, place.head, place.row)
    before = translator.walk(translation, *where)
    after = translator.without(choice.without).walk(translation, *where) if choice.without else None
    return Steps(before, choice.without, after)


def walk_cell(translator: Translator, translation: Translation, choice: StepsChoice, after: bool, asked: Mapping[str, Any]) -> Cell:
    """One number of the walk: of the whole model, or `after` a part was taken away."""
    place = choice.place
    model = translator.without(choice.without) if after and choice.without else translator
    where = (place.kind, place.layer, place.head, place.row)
    return model.cell(translation, *where, asked["stage"], asked["index"], asked["key"])


def _run(runs: RunCache, result: object) -> Run:
    return runs.get(Request.from_page(as_mapping(result).get("request")))


def _plain(asked: Mapping[str, object]) -> dict[str, object]:
    """Stage, index and key; whole numbers as such, since JavaScript knows none. The model checks them."""
    values = {name: asked.get(name) for name in ("stage", "index", "key")}
    return {name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in values.items()}
