"""Pieces and words, special tokens shown and hidden: every combination against sums written out cell by cell."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from model.errors import InvalidSettingError
from model.results import MAPS, AttentionTrace, Translation
from tests.viz.fakes import weights
from viz.panels.choice import AGGREGATES, KINDS, SPECIALS, UNITS, MapChoice
from viz.panels.map_figure import map_figure, map_in_words
from viz.panels.map_view import label_texts, map_view, piece_weights, side_units
from viz.runs import Request, Run

# A repeated word, words of several pieces, a lone space, a character of four bytes, an unknown token, specials on both sides.
SOURCE = (">>fra<<", "▁the", "▁stud", "ent", "▁", ",", "▁the", "😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4", "<unk>", "</s>")
OUT = ("▁l", "'", "étud", "iant", "▁le", ".", "</s>")
READ = ("<s>", *OUT[:-1])
# (start, stop) of the words of each side, and which of them are special
WORDS = {
    "source": [(0, 1), (1, 2), (2, 4), (4, 6), (6, 7), (7, 11), (11, 12), (12, 13)],
    "predicted": [(0, 4), (4, 5), (5, 6), (6, 7)],
    "read": [(0, 1), (1, 5), (5, 6), (6, 7)],
}
SPECIAL = {"source": {0, 12}, "predicted": {6}, "read": {0}}  # positions


def make_run(**changes: object) -> Run:
    s, t = len(SOURCE), len(OUT)
    trace = AttentionTrace(weights(2, 3, s, s, 1), weights(2, 2, t, t, 2, causal=True), weights(2, 2, t, s, 3), SOURCE, READ, OUT)
    norms = {
        "encoder_self": weights(1, 2, s, s, 4)[0],
        "decoder_self": weights(1, 2, t, t, 5, causal=True)[0],
        "cross": weights(1, 2, t, s, 6)[0],
    }
    ids = tuple(range(t))
    translation = Translation("", "fra", "", tuple(range(s)), ids, SOURCE, READ, OUT, (-0.5,) * t, -0.5, False, True)
    return Run(Request("x", "fra"), translation, trace, 0.0, **{"norms": norms, **changes})


RUN = make_run()


def sides(kind: str, rows: str) -> tuple[str, str]:
    return "source" if kind == "encoder_self" else rows, "read" if kind == "decoder_self" else "source"


def expected(heads: list[np.ndarray], kind: str, rows: str, units: str, specials: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Weights, masked cells and hidden share, by plain loops. Of several heads the one that gives most to a cell."""
    spans = {}
    for axis, side in zip(("row", "column"), sides(kind, rows), strict=True):
        size = heads[0].shape[axis == "column"]
        of_side = WORDS[side] if units == "words" else [(i, i + 1) for i in range(size)]
        spans[axis] = [(span, span[0] in SPECIAL[side]) for span in of_side]
    out, masked, hidden = [], [], []
    for (top, bottom), row_special in spans["row"]:
        if specials == "hidden" and row_special:
            continue
        line, line_masked, lost = [], [], 0.0
        for (left, right), column_special in spans["column"]:
            cells = [(i, j) for i in range(top, bottom) for j in range(left, right)]
            total = max(sum(float(weight[cell]) for cell in cells) for weight in heads) / (bottom - top)
            if specials == "hidden" and column_special:
                lost += total
                continue
            line.append(total)
            line_masked.append(kind == "decoder_self" and all(j > i for i, j in cells))
        out.append(line)
        masked.append(line_masked)
        hidden.append(lost)
    return np.array(out), np.array(masked), sum(hidden) / len(hidden)


def of_choice(kind: str, layer: int, head: int | str) -> list[np.ndarray]:
    """The maps that the choice is made of: one, or for the maximum all heads of the layer."""
    maps = dict(zip(KINDS, (getattr(RUN.trace, name) for name in MAPS), strict=True))
    if head == "rollout":
        return [RUN.rollout[kind][layer]]
    if head == "norm":
        return [RUN.norms[kind][layer]]
    found = [maps[kind][layer, h] for h in range(maps[kind].shape[1])]
    if head == "mean":
        return [sum(found) / len(found)]
    return found if head == "max" else [found[head]]


@pytest.mark.parametrize(("kind", "rows", "units", "specials"), list(product(KINDS, ("predicted", "read"), UNITS, SPECIALS)))
def test_every_combination_is_the_sum_written_out(kind: str, rows: str, units: str, specials: str) -> None:
    for layer, head in product((0, 1), (0, 1, *AGGREGATES)):
        choice = MapChoice(kind, layer, head, rows, units, specials)
        view = map_view(RUN, choice)
        heads = of_choice(kind, layer, head)
        np.testing.assert_array_equal(piece_weights(RUN, choice), np.maximum.reduce(heads))
        z, masked, hidden = expected(heads, kind, rows, units, specials)
        np.testing.assert_allclose(view.weights, z, atol=1e-6)
        assert view.weights.dtype == np.float32 and view.weights.shape == (len(view.rows), len(view.columns))
        assert (view.masked is None) == (kind != "decoder_self")
        np.testing.assert_array_equal(np.zeros_like(masked) if view.masked is None else view.masked, masked)
        assert view.largest <= 1 + 1e-6
        assert view.hidden == pytest.approx(hidden, abs=1e-6) and view.largest == pytest.approx(z.max(), abs=1e-6)
        if specials == "shown":
            assert view.hidden == 0
            if head != "max":
                np.testing.assert_allclose(view.weights.sum(axis=1), 1, atol=1e-5)
        elif head != "max":
            np.testing.assert_allclose(view.weights.sum(axis=1).mean() + view.hidden, 1, atol=1e-5)


def test_rows_and_columns_stand_for_the_right_positions() -> None:
    def told(choice: MapChoice) -> tuple[list[str], list[str]]:
        view = map_view(RUN, choice)
        return [label.text for label in view.row_labels], [label.text for label in view.column_labels]

    source = ["⟨→ fra⟩", "the", "student", ",", "the", "😀", "⟨unknown⟩", "⟨end⟩"]
    assert told(MapChoice("cross", 0, 0, "predicted", "words")) == (["l'étudiant", "le", ".", "⟨end⟩"], source)
    assert told(MapChoice("cross", 0, 0, "read", "words", "hidden")) == (["l'étudiant", "le", "."], source[1:-1])
    assert told(MapChoice("decoder_self", 0, 0, "predicted", "words")) == (
        ["l'étudiant", "le", ".", "⟨end⟩"],
        ["⟨start⟩", "l'étudiant", "le", "."],
    )
    assert told(MapChoice("encoder_self", 0, 0, "read", "pieces", "hidden"))[0][-3:] == ["😀 3/4", "😀 4/4", "⟨unknown⟩"]
    spans = [(unit.start, unit.stop, unit.special) for unit in map_view(RUN, MapChoice("cross", 0, 0, "read", "words")).rows]
    assert spans == [(*span, span[0] in SPECIAL["read"]) for span in WORDS["read"]]


def test_special_tokens_are_named_in_the_language() -> None:
    view = map_view(RUN, MapChoice("cross", 0, 0, "read"), "zh")
    assert view.row_labels[0].text == "⟨开始⟩" and view.row_labels[1].text == "l"


def test_a_word_that_spells_a_special_token_is_none() -> None:
    for units in UNITS:
        found = side_units(("▁<s>", "▁>>fra<<", "</s>", "<unk>"), units, label_texts("en"))
        assert [unit.special for unit in found] == [False, False, True, False]
    words = side_units(("▁<s>", "</s>"), "words", label_texts("en"))
    assert [unit.label.text for unit in words] == ["<s>", "⟨end⟩"]


def test_a_side_of_special_tokens_alone_keeps_them() -> None:
    maps = weights(1, 1, 3, 3, 1), weights(1, 1, 1, 1, 1), weights(1, 1, 1, 3, 2)
    trace = AttentionTrace(*maps, (">>fra<<", "▁x", "</s>"), ("<s>",), ("</s>",))
    run = Run(Request("x", "fra"), RUN.translation, trace, 0.0)
    view = map_view(run, MapChoice("cross", 0, 0, specials="hidden"))
    assert view.weights.shape == (1, 1) and [unit.label.raw for unit in view.rows] == ["</s>"]
    assert view.hidden == pytest.approx(1 - trace.cross_attention[0, 0, 0, 1], abs=1e-6)
    assert map_view(run, MapChoice("decoder_self", 0, 0, specials="hidden")).weights.tolist() == [[1.0]]


def test_norms_that_were_not_measured_are_refused() -> None:
    run = make_run(norms=None)
    with pytest.raises(InvalidSettingError, match="norm"):
        map_view(run, MapChoice("cross", 0, "norm"))
    assert map_view(run, MapChoice("cross", 0, "rollout")).weights.shape == (len(OUT), len(SOURCE))


def test_the_figure_and_the_words_are_those_of_the_view() -> None:
    for choice in (MapChoice("cross", 1, "norm", "read", "words", "hidden"), MapChoice("decoder_self", 0, 1, "predicted", "words")):
        view = map_view(RUN, choice)
        heat = map_figure(RUN, choice).data[0]
        drawn = np.array(heat.z, dtype=float)
        np.testing.assert_allclose(np.nan_to_num(drawn), view.weights, atol=1e-7)
        np.testing.assert_array_equal(np.isnan(drawn), np.zeros(drawn.shape) if view.masked is None else view.masked)
    told = map_in_words(RUN, MapChoice("cross", 0, 0, "predicted", "words", "hidden"), "en")
    view = map_view(RUN, MapChoice("cross", 0, 0, "predicted", "words", "hidden"))
    column = view.column_labels[int(view.weights[0].argmax())].text
    assert f"l'étudiant looks most at {column} ({view.weights[0].max():.2f})" in told
