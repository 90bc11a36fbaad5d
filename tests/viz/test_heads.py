"""The Heads tab before there is a browser: what it offers and says is what `model.analysis` measures."""

from __future__ import annotations

import re
from pathlib import Path

import gradio as gr
import pytest

from model.analysis.roles import ROLES, THRESHOLD, head_roles
from model.hooks import ATTENTION_KINDS
from tests.viz.fakes import FakeTranslator
from viz.panels import heads
from viz.text import LANGUAGES

STATIC = Path(heads.__file__).parents[1] / "static"


def test_what_can_be_sorted_by_is_all_that_is_measured_but_the_entropy_in_nats() -> None:
    translator = FakeTranslator()
    measured = {name for head in head_roles(translator.trace(translator.translate("I am a student."))) for name in head.measures}
    assert set(heads.MEASURES) == measured - {"entropy"}
    assert len(set(heads.MEASURES)) == len(heads.MEASURES)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_role_and_measure_has_a_name_and_a_definition(language: str) -> None:
    table = LANGUAGES[language]
    wanted = {f"role.{role}{part}" for role in ROLES for part in ("", ".short", ".help")}
    wanted |= {f"measure.{measure}{part}" for measure in heads.MEASURES for part in ("", ".help")}
    assert {key for key in table if key.startswith(("role.", "measure."))} == wanted
    for template, names in (("role.{}", ROLES), ("role.{}.short", ROLES), ("measure.{}", heads.MEASURES)):
        assert len({table[template.format(name)] for name in names}) == len(names)
    for name in heads.MEASURES:
        assert re.search("20[12][0-9]|[Oo]urs|我们", table[f"measure.{name}.help"]), name


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_threshold_in_words_is_the_one_in_use(language: str) -> None:
    assert f" {THRESHOLD}" in LANGUAGES[language]["heads.more.threshold"]


def test_the_sheet_lists_roles_and_measures_and_holds_nothing_of_a_visitor() -> None:
    with gr.Blocks() as demo:
        heads.build()
    (block,) = (each for each in demo.blocks.values() if getattr(each, "elem_id", None) == "heads-sheet")
    assert block.value == {"roles": list(ROLES), "measures": list(heads.MEASURES)}
    listed = re.findall(r'<dt data-t="([\w.]+)"></dt><dd data-t="([\w.]+)"></dd>', block.html_template)
    names = [*(f"role.{role}" for role in ROLES), *(f"measure.{name}" for name in heads.MEASURES)]
    assert listed == [(name, f"{name}.help") for name in names]


def test_the_scripts_know_the_kinds_in_their_order() -> None:
    kinds = ", ".join(f'"{kind}"' for kind in ATTENTION_KINDS)
    assert f"const KINDS = [{kinds}];" in (STATIC / "strip.js").read_text(encoding="utf-8")
