"""The heat map that the page builds is the one that Python builds, for every kind of choice: data and layout, value by value.

Left out are, with the reason: `uirevision` (an opaque name; Python writes the request in another form) and `template` (Plotly's empty one).
Weights are compared within 1e-5, since they travel as 16-bit fixed point (sums of them within so many times as much); for
the same reason a printed maximum may differ in its last digit.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Open
from tests.viz import fakes
from tests.viz.fakes import FakeTranslator, pieces
from viz.figures.attention_heatmap import HeatmapTexts, attention_heatmap
from viz.figures.heatmap_template import heatmap_template
from viz.panels.choice import MapChoice
from viz.panels.map_figure import map_figure, map_in_words
from viz.panels.map_view import map_view
from viz.panels.maps_value import maps_value
from viz.runs import Request, Run

WITHIN = 1e-5
SENTENCES = (
    "The cat saw the other cat .",
    "I <b>am</b> $x$ & <s> so",
    "שלום 👩‍👩‍👧 مرحبا 😀 שלום world",
    "Unverhältnismäßigkeitsbeschwerde " + "to be or not " * 9,
)
CHOICES = (
    MapChoice("cross", 1, 2),
    MapChoice("cross", 0, "mean", "read", colour="max"),
    MapChoice("cross", 1, "rollout", "read", "words", "shown", "log"),
    MapChoice("cross", 1, "norm", "predicted", "words", "hidden", "max"),
    MapChoice("cross", 0, "max", "predicted", "pieces", "hidden", "log"),
    MapChoice("decoder_self", 1, 0, "read"),
    MapChoice("decoder_self", 0, "max", "predicted", "words", "hidden"),
    MapChoice("decoder_self", 1, "rollout", "read", "pieces", "shown", "log"),
    MapChoice("encoder_self", 2, 3, colour="log"),
    MapChoice("encoder_self", 0, "norm", units="words", colour="max"),
    MapChoice("encoder_self", 2, "mean", specials="hidden"),
)

BUILD = """([choice, template]) => {
  const view = atlas.maps.view(choice);
  const plain = (name, value) => (ArrayBuffer.isView(value) ? Array.from(value, (one) => (Number.isNaN(one) ? null : one)) : value);
  return JSON.stringify({...atlas.heatmap.figure(view, template, choice), words: atlas.heatmap.inWords(view)}, plain);
}"""


def split(text: str) -> tuple[str, ...]:
    """Words in pieces of at most two characters, so that rows and columns of words stand for different numbers of them."""
    return tuple(piece for whole in pieces(text) for piece in (whole[:3], *(whole[i : i + 2] for i in range(3, len(whole), 2))))


def run_of(translator: FakeTranslator, text: str) -> Run:
    translation = translator.translate(text)
    return Run.of(Request(text, "fra", 4), translation, translator.examine(translation))


@pytest.fixture
def page(open_page: Open) -> Iterator[Page]:
    yield open_page()


def plain(value: object) -> object:
    """A figure's JSON with typed arrays as lists."""
    if isinstance(value, dict) and "bdata" in value:
        flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"])
        table = flat.reshape([int(side) for side in value["shape"].split(",")]) if "shape" in value else flat
        return [[None if np.isnan(cell) else float(cell) for cell in row] for row in table]
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def differences(ours: object, theirs: object, path: str, within: float) -> list[str]:
    """Where two JSON values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        missing = [f"{path}.{key}: only on one side" for key in ours.keys() ^ theirs.keys()]
        shared = ours.keys() & theirs.keys()
        return missing + [line for key in sorted(shared) for line in differences(ours[key], theirs[key], f"{path}.{key}", within)]
    if isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            return [f"{path}: {len(ours)} and {len(theirs)} entries"]
        return [line for i, pair in enumerate(zip(ours, theirs, strict=True)) for line in differences(*pair, f"{path}[{i}]", within)]
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (ours, theirs))
    if numbers and abs(ours - theirs) <= within:
        return []
    if isinstance(ours, str) and isinstance(theirs, str) and same_but_for_last_digits(ours, theirs):
        return []
    return [] if ours == theirs else [f"{path}: {ours!r} and {theirs!r}"]


def same_but_for_last_digits(ours: str, theirs: str) -> bool:
    number = r"\d\.\d+"
    if re.sub(number, "#", ours) != re.sub(number, "#", theirs):
        return False
    pairs = zip(re.findall(number, ours), re.findall(number, theirs), strict=True)
    return all(a == b or (len(a) == len(b) and abs(float(a) - float(b)) < 1.5 * 10.0 ** (2 - len(a))) for a, b in pairs)


@pytest.mark.parametrize("text", SENTENCES, ids=["repeated", "hostile", "rtl", "long"])
def test_the_pages_figure_is_pythons(page: Page, translator: FakeTranslator, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fakes, "pieces", split)
    run = run_of(translator, text)
    view = map_view(run, MapChoice("cross", 0, 0, units="words"))
    if text != SENTENCES[1]:  # of marks, which no word is made of
        assert len(view.columns) < len(run.trace.src_tokens) and len(view.rows) < len(run.trace.tgt_in_tokens)
    told = 0
    page.evaluate("(value) => atlas.maps.take(value)", maps_value(run))
    template = heatmap_template()
    assert page.evaluate("JSON.stringify(document.querySelector('#map .plot').layout.meta.theme.dark)") == json.dumps(
        template["figures"]["cross"]["layout"]["meta"]["theme"]["dark"], separators=(",", ":")
    )
    for language in ("en", "zh"):
        page.evaluate("(lang) => atlas.set({lang})", language)
        for choice in CHOICES:
            built = json.loads(page.evaluate(BUILD, [vars(choice), template]))
            expected = plain(json.loads(map_figure(run, choice, language).to_json(validate=False)))
            words, theirs = built.pop("words"), map_view(run, choice).weights
            best = np.sort(theirs, axis=1)[:, -2:]
            if (best[:, 1] - best[:, 0]).min() > 1e-4:  # which of two equal ones is largest is a matter of the last bit
                told += 1
                assert same_but_for_last_digits(words, map_in_words(run, choice, language)), choice
            for figure in (built, expected):
                figure["layout"].pop("uirevision")
                figure["layout"].pop("template")
            # a logarithm is steeper than what it is taken of: at the lowest of the scale, 0.001, by 434
            within = 434 * WITHIN if choice.colour == "log" else WITHIN
            if choice.units == "words":  # sums of as many weights as a word has pieces
                within *= max(unit.stop - unit.start for unit in map_view(run, choice).columns)
            assert differences(built, expected, "", within) == [], (choice, language)
    assert told >= 4


GAPS = """([rows, columns, template]) => {
  const labels = (count) => Array.from({length: count}, () => ({raw: "a", short: "a", hover: "a", width: 1}));
  const view = {kind: "cross", max: 1, masked: null, z: new Float32Array(rows * columns), rows: labels(rows), columns: labels(columns)};
  const {xgap, ygap} = atlas.heatmap.figure(view, template).data[0];
  return [xgap, ygap];
}"""


@pytest.mark.parametrize(("rows", "columns", "gap"), [(3, 96, 1), (3, 97, 0), (97, 3, 0), (200, 190, 0)])
def test_lines_around_cells_end_at_the_same_size(page: Page, rows: int, columns: int, gap: int) -> None:
    labels = [["a"] * count for count in (rows, columns)]
    texts = HeatmapTexts(row="", column="", query_axis="", key_axis="", query="", key="", weight="", masked="", scale="")
    theirs = attention_heatmap(np.zeros((rows, columns)), *labels, kind="cross", texts=texts).data[0]
    assert (theirs.xgap, theirs.ygap) == (gap, gap)
    assert page.evaluate(GAPS, [rows, columns, heatmap_template()]) == [gap, gap]


def test_the_comparison_sees_a_shifted_row_and_a_name_that_moved() -> None:
    assert differences({"a": [1, 2, 3]}, {"a": [2, 1, 3]}, "", WITHIN) == [".a[0]: 1 and 2", ".a[1]: 2 and 1"]
    assert differences({"a": ["x", "y"]}, {"a": ["y", "x"]}, "", WITHIN)
    assert differences({"a": 1}, {"a": 1, "b": 2}, "", WITHIN) == [".b: only on one side"]
    assert differences({"a": "largest 0.8312"}, {"a": "largest 0.8320"}, "", WITHIN)
    assert not differences({"a": "largest 0.8312"}, {"a": "largest 0.8313"}, "", WITHIN)
