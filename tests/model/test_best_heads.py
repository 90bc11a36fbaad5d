"""The head that aligns best: read from what an export wrote, and never a reason not to load a model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from model.best_heads import read_best_heads
from model.catalogue import EMBEDDED
from model.loading import load_translator

MEASURED = {"alignment": {"predicted": {"best": {"layer": 1, "head": 0, "aer": 0.5}}, "read": {"best": {"layer": 0, "head": 1}}}}


def write(folder: Path, values: object) -> Path:
    (folder / "evaluation.json").write_text(values if isinstance(values, str) else json.dumps(values), encoding="utf-8")
    return folder


def test_both_ways_to_name_rows(tmp_path: Path) -> None:
    assert read_best_heads(write(tmp_path, MEASURED)) == {"predicted": (1, 0), "read": (0, 1)}


@pytest.mark.parametrize(("rates", "order"), [((0.5, 0.4), ["read", "predicted"]), ((0.3, 0.4), ["predicted", "read"])])
def test_the_naming_that_errs_least_comes_first(rates: tuple[float, float], order: list[str], tmp_path: Path) -> None:
    heads = [{"best": {"layer": 0, "head": 1, "aer": rate}} for rate in rates]
    found = read_best_heads(write(tmp_path, {"alignment": dict(zip(("predicted", "read"), heads, strict=True))}))
    assert list(found) == order


@pytest.mark.parametrize(
    "values",
    [
        {},
        [],
        "no json",
        {"alignment": None},
        {"alignment": [1]},
        {"alignment": {"predicted": {"best": None}, "read": 3}},
        {"alignment": {"predicted": {"best": {"layer": 1}}}},
        {"alignment": {"predicted": {"best": {"layer": "1", "head": 0}}, "read": {"best": {"layer": True, "head": -1}}}},
        {"alignment": {"others": {"best": {"layer": 1, "head": 0}}}},
    ],
)
def test_anything_else_is_nothing(values: object, tmp_path: Path) -> None:
    assert read_best_heads(write(tmp_path, values)) == {}
    assert read_best_heads(tmp_path / "nowhere") == {}


def test_a_loaded_model_knows_them(tiny_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_folder, tmp_path / "model"))
    assert load_translator(folder, "cpu").best_heads == {}
    assert load_translator(write(folder, MEASURED), "cpu").best_heads == {"predicted": (1, 0), "read": (0, 1)}


def test_the_embedded_model_has_them_where_its_measurement_is_lowest() -> None:
    alignment = json.loads((EMBEDDED.folder / "evaluation.json").read_text(encoding="utf-8"))["alignment"]
    best = read_best_heads(EMBEDDED.folder)
    assert set(best) == {"predicted", "read"}
    for labelling, (layer, head) in best.items():
        assert alignment[labelling]["heads"][layer][head] == min(map(min, alignment[labelling]["heads"]))
