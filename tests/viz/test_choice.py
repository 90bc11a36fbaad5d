"""What a page sends is checked: every map that exists can be chosen, nothing else can."""

from __future__ import annotations

import numpy as np
import pytest

from model.errors import InvalidSettingError
from tests.viz.fakes import DECODER, ENCODER, FakeTranslator
from viz.panels.choice import AGGREGATES, KINDS, MapChoice, maps_of, read_cell, whole_number

TRANSLATOR = FakeTranslator()
TRACE = TRANSLATOR.trace(TRANSLATOR.translate("I am a student."))


@pytest.mark.parametrize("kind", KINDS)
def test_every_map_of_every_kind(kind: str) -> None:
    layers, heads = ENCODER if kind == "encoder_self" else DECODER
    for layer in range(layers):
        for head in range(heads):
            choice = MapChoice.checked(TRACE, kind, layer, head)
            np.testing.assert_array_equal(choice.weights(TRACE), maps_of(TRACE, kind)[layer, head])
        np.testing.assert_allclose(MapChoice(kind, layer, "mean").weights(TRACE).sum(axis=1), 1, atol=1e-5)
        assert (MapChoice(kind, layer, "max").weights(TRACE) >= maps_of(TRACE, kind)[layer]).all()
    for layer, head in ((layers, 0), (0, heads), (-1, 0), (0, -1)):
        with pytest.raises(InvalidSettingError):
            MapChoice.checked(TRACE, kind, layer, head)


def test_rows_and_columns_have_the_right_names() -> None:
    choice = MapChoice("cross", 0, 0, "predicted")
    assert choice.row_tokens(TRACE) == ("▁Je", "▁suis", "▁étudiant", ".", "</s>")
    assert choice.column_tokens(TRACE) == (">>fra<<", "▁I", "▁am", "▁a", "▁student", ".", "</s>")
    assert MapChoice("cross", 0, 0, "read").row_tokens(TRACE) == ("<s>", "▁Je", "▁suis", "▁étudiant", ".")
    assert MapChoice("decoder_self", 0, 0, "predicted").column_tokens(TRACE) == ("<s>", "▁Je", "▁suis", "▁étudiant", ".")
    assert MapChoice("encoder_self", 0, 0, "read").row_tokens(TRACE) == TRACE.src_tokens


@pytest.mark.parametrize(
    "store",
    [
        None,
        "cross",
        {},
        {"kind": "crosses", "layer": 0, "head": 0},
        {"kind": ["cross"], "layer": 0, "head": 0},
        {"kind": "cross", "layer": "0", "head": 0},
        {"kind": "cross", "layer": 0.5, "head": 0},
        {"kind": "cross", "layer": True, "head": 0},
        {"kind": "cross", "layer": 0, "head": "median"},
        {"kind": "cross", "layer": 0, "head": {"a": 1}},
        {"kind": "cross", "layer": 0, "head": float("nan")},
        {"kind": "cross", "layer": 0, "head": float("inf")},
        {"kind": "cross", "layer": 0, "head": 0, "rows": "both"},
        {"kind": "cross", "layer": 0, "head": 0, "units": "letters"},
        {"kind": "cross", "layer": 0, "head": 0, "units": None},
        {"kind": "cross", "layer": 0, "head": 0, "specials": False},
        {"kind": "cross", "layer": 0, "head": 0, "colour": "rainbow"},
        {"kind": "cross", "layer": DECODER[0], "head": "NORM"},
    ],
)
def test_anything_else_is_refused(store: object) -> None:
    for read in (MapChoice.from_page, MapChoice.fitted):
        with pytest.raises(InvalidSettingError):
            read(store, TRACE)


def test_what_lies_beyond_the_last_becomes_the_last_only_when_fitted() -> None:
    store = {"kind": "cross", "layer": DECODER[0], "head": float(DECODER[1] + 4)}
    assert MapChoice.fitted(store, TRACE) == MapChoice("cross", DECODER[0] - 1, DECODER[1] - 1)
    assert MapChoice.fitted({**store, "layer": 0, "head": "mean"}, TRACE) == MapChoice("cross", 0, "mean")
    for name, value in (("layer", -1), ("head", -1), ("head", 9.5), ("rows", "both"), ("kind", "x"), ("layer", "9")):
        with pytest.raises(InvalidSettingError):
            MapChoice.fitted({**store, name: value}, TRACE)
    with pytest.raises(InvalidSettingError):
        MapChoice.from_page(store, TRACE)
    best = {"predicted": (0, 2)}
    assert MapChoice.fitted({"kind": "cross", "layer": None, "head": "mean"}, TRACE, best) == MapChoice("cross", 0, 2)


def test_how_a_map_is_looked_at_is_part_of_the_choice() -> None:
    look = {"rows": "read", "units": "words", "specials": "hidden", "colour": "log"}
    for head in (1, *AGGREGATES):
        store = {"kind": "decoder_self", "layer": 1, "head": head, **look}
        assert MapChoice.from_page(store, TRACE) == MapChoice("decoder_self", 1, head, "read", "words", "hidden", "log")
        last = MapChoice("decoder_self", DECODER[0] - 1, head, "read", "words", "hidden", "log")
        assert MapChoice.fitted({**store, "layer": 9}, TRACE) == last
    untouched = {"kind": "cross", "layer": None, "head": "mean", "units": "words", "specials": "hidden", "colour": "max"}
    assert MapChoice.from_page(untouched, TRACE, {"read": (0, 1)}) == MapChoice("cross", 0, 1, "read", "words", "hidden", "max")
    for head in ("rollout", "norm"):
        with pytest.raises(InvalidSettingError):
            MapChoice("cross", 0, head).weights(TRACE)


def test_no_layer_is_the_last() -> None:
    assert MapChoice.from_page({"kind": "encoder_self", "head": "mean"}, TRACE).layer == ENCODER[0] - 1


def test_the_first_choice_exists() -> None:
    choice = MapChoice.first(TRACE)
    assert MapChoice.checked(TRACE, choice.kind, choice.layer, choice.head, choice.rows) == choice


def test_the_first_choice_is_the_head_that_aligns_best() -> None:
    best = {"predicted": (1, 2), "read": (0, 1)}
    assert MapChoice.first(TRACE, best) == MapChoice("cross", 1, 2, "predicted")
    assert MapChoice.first(TRACE, best, "read") == MapChoice("cross", 0, 1, "read")
    assert MapChoice.first(TRACE, {"read": (0, 1), "predicted": (1, 2)}) == MapChoice("cross", 0, 1, "read")
    mean_of_last = MapChoice("cross", DECODER[0] - 1, "mean")
    # not measured, or measured on a model with more layers or heads
    assert MapChoice.first(TRACE, {"read": (0, 1)}, "predicted") == mean_of_last
    for other in (None, {}, {"predicted": (DECODER[0], 0)}, {"predicted": (0, DECODER[1])}):
        assert MapChoice.first(TRACE, other) == mean_of_last


def test_a_page_that_has_not_chosen_gets_the_first_choice() -> None:
    best = {"predicted": (0, 2), "read": (1, 0)}
    assert MapChoice.from_page({"kind": "cross", "layer": None, "head": "mean"}, TRACE, best) == MapChoice("cross", 0, 2)
    assert MapChoice.from_page({"kind": "cross", "head": "mean", "rows": "read"}, TRACE, best) == MapChoice("cross", 1, 0, "read")
    assert MapChoice.from_page({"kind": "cross", "layer": 1, "head": "mean"}, TRACE, best) == MapChoice("cross", 1, "mean")
    assert MapChoice.from_page({"kind": "decoder_self", "head": "mean"}, TRACE, best) == MapChoice("decoder_self", DECODER[0] - 1, "mean")
    assert MapChoice.from_page({"kind": "cross", "head": "max"}, TRACE, best) == MapChoice("cross", DECODER[0] - 1, "max")
    with pytest.raises(InvalidSettingError):
        MapChoice.from_page({"kind": "cross", "head": "mean", "rows": "both"}, TRACE, best)


def test_cells_are_inside_the_picture() -> None:
    assert read_cell({"row": 1, "column": 2.0}, 2, 3) == (1, 2)
    for data in ({"row": 2, "column": 0}, {"row": 0, "column": 3}, {"row": -1, "column": 0}, {"row": "0", "column": 0}, {}, None, [0, 0]):
        with pytest.raises(InvalidSettingError):
            read_cell(data, 2, 3)


def test_whole_numbers() -> None:
    assert whole_number("n", 3.0, 0, 3) == 3
    for value in (10**400, "3", None, True, 3.2):
        with pytest.raises(InvalidSettingError):
            whole_number("n", value, 0, 3)
