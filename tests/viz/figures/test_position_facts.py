"""The pictures of what the table does: what is read off them against the formula, axes and signs where a swap would show."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.viz.figures.read import array, as_sent
from tests.viz.figures.test_positional import TEXTS, published
from viz.figures import colors, frame
from viz.figures.position_facts import (
    MatrixTexts,
    SimilarityTexts,
    StepTexts,
    WavelengthTexts,
    pair_steps,
    similarity_curve,
    similarity_matrix,
    wavelength_figure,
)
from viz.figures.position_schemes import LOWEST, SchemeTexts, scheme_figure
from viz.figures.positional import dimension_edges, positional_heatmap

LAYOUTS = ["interleaved", "halves"]


# --- the table on a log axis ---


def test_columns_begin_at_the_logarithm_of_their_dimension() -> None:
    assert dimension_edges(4, "halves", "linear").tolist() == [-0.5, 0.5, 1.5, 2.5, 3.5]
    assert dimension_edges(6, "interleaved", "log") == pytest.approx([math.log2(1 + d) for d in range(7)])
    half = [math.log2(1 + d) for d in range(4)]
    assert dimension_edges(6, "halves", "log") == pytest.approx([*half, *(half[-1] + value for value in half[1:])])
    with pytest.raises(ValueError, match="linear, log"):
        dimension_edges(6, "halves", "square")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_log_axis_moves_columns_and_nothing_else(layout: str) -> None:
    table = published(7, 12, layout)
    plain = as_sent(positional_heatmap(table, layout=layout, texts=TEXTS))
    sent = as_sent(positional_heatmap(table, layout=layout, texts=TEXTS, axis="log"))
    assert sent["data"][0]["z"] == plain["data"][0]["z"] and "x" not in plain["data"][0]
    edges, axes = array(sent["data"][0]["x"]), sent["layout"]
    assert edges == pytest.approx(dimension_edges(12, layout, "log")) and axes["xaxis"]["range"] == [edges[0], edges[-1]]
    assert axes["xaxis"]["ticktext"] == plain["layout"]["xaxis"]["ticktext"]
    centres = array(axes["xaxis"]["tickvals"])  # what hover reads lies in the middle of the column it names
    assert all(edges[d] < centres[d] < edges[d + 1] for d in range(12))
    named = [int(text) for text in axes["xaxis2"]["ticktext"]]
    assert named == ([0, 1, 3, 7] if layout == "interleaved" else [0, 3, 6, 9])
    assert array(axes["xaxis2"]["tickvals"]) == pytest.approx(centres[named])


# --- wavelengths ---

WAVES = WavelengthTexts("dimension", "wavelength", "sine", "cosine")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_dimension_stands_at_its_wavelength(layout: str) -> None:
    long = np.array([6.5, 30.0, 400.0])
    sent = as_sent(wavelength_figure(long, layout=layout, marks=[(512, "longest"), (7, "sentence")], texts=WAVES))
    sines, cosines = (dict(zip(array(t["x"]), array(t["y"]), strict=True)) for t in sent["data"])
    if layout == "interleaved":
        assert sines == {0: 6.5, 2: 30, 4: 400} and cosines == {1: 6.5, 3: 30, 5: 400}
    else:
        assert sines == {0: 6.5, 1: 30, 2: 400} and cosines == {3: 6.5, 4: 30, 5: 400}
    axis = sent["layout"]["yaxis"]
    assert axis["type"] == "log" and 10 ** axis["range"][0] < 6.5 and 10 ** axis["range"][1] > 512
    assert [(shape["y0"], shape["y1"]) for shape in sent["layout"]["shapes"]] == [(512, 512), (7, 7)]
    assert [(note["text"], 10 ** note["y"]) for note in sent["layout"]["annotations"][1:]] == [
        ("longest", pytest.approx(512)), ("sentence", pytest.approx(7)),
    ]


@pytest.mark.parametrize(("layout", "lines"), [("interleaved", [2, 1]), ("halves", [2, 2])])
def test_a_mark_that_would_meet_the_waves_on_a_narrow_page_is_folded(layout: str, lines: list[int]) -> None:
    long = 2 * np.pi * 10_000.0 ** (np.arange(128) / 128)
    marks = [(512, "longest text of this model: 512 positions"), (7, "this sentence here: 7 tokens")]
    sent = as_sent(wavelength_figure(long, layout=layout, marks=marks, texts=WAVES))
    notes = sent["layout"]["annotations"][1:]
    assert [note["text"].count("<br>") + 1 for note in notes] == lines
    assert all(note["xanchor"] == note["align"] == "right" for note in notes)


def test_two_close_marks_do_not_cover_each_other() -> None:
    sent = as_sent(wavelength_figure(np.array([9.0]), layout="halves", marks=[(500, "a"), (400, "b")], texts=WAVES))
    assert [note["yanchor"] for note in sent["layout"]["annotations"][1:]] == ["bottom", "top"]
    with pytest.raises(ValueError, match="positive"):
        wavelength_figure(np.array([3.0, 0.0]), layout="halves", marks=[], texts=WAVES)


# --- similarity ---

SIMILAR = SimilarityTexts("distance", "cosine", "dot", "first: {k}")


def test_the_curve_goes_both_ways_and_marks_what_rises() -> None:
    dot = np.array([8.0, 6, 4, 5, 5.5, 2])
    sent = as_sent(similarity_curve(dot, scale=8, rises=[(2, 4)], marked=3, texts=SIMILAR))
    curve, climbing = sent["data"]
    assert array(curve["x"]).tolist() == list(range(-5, 6))
    assert array(curve["y"]).tolist() == [0.25, 0.6875, 0.625, 0.5, 0.75, 1, 0.75, 0.5, 0.625, 0.6875, 0.25]
    assert array(curve["customdata"]).tolist() == [2, 5.5, 5, 4, 6, 8, 6, 4, 5, 5.5, 2]
    shown = {int(x): y for x, y in zip(array(climbing["x"]), array(climbing["y"]), strict=True) if not math.isnan(y)}
    assert shown == {-4: 0.6875, -3: 0.625, -2: 0.5, 2: 0.5, 3: 0.625, 4: 0.6875}
    assert [shape["x0"] for shape in sent["layout"]["shapes"]] == [-3, 3]
    assert sent["layout"]["annotations"][0]["text"] == "first: 3"
    for rises, marked in (([(4, 6)], None), ([(3, 3)], None), ([], 6)):
        with pytest.raises(ValueError, match="0 to 5"):
            similarity_curve(dot, scale=8, rises=rises, marked=marked, texts=SIMILAR)


def test_bars_are_the_pairs_in_order_and_coloured_by_sign() -> None:
    figure = pair_steps(np.array([0.5, -0.25, 0.0, -0.75]), np.array([6.0, 7, 8, 9]), texts=StepTexts("pair", "wave", "change", "step"))
    bars = as_sent(figure)["data"][0]
    assert array(bars["y"]).tolist() == [0.5, -0.25, 0, -0.75] and array(bars["customdata"]).tolist() == [6, 7, 8, 9]
    up, down = colors.POSITIVE_COLOR, colors.NEGATIVE_COLOR
    assert bars["marker"]["color"] == [up, down, up, down]
    with pytest.raises(ValueError, match="4 pairs, but 3"):
        pair_steps(np.zeros(4), np.ones(3), texts=StepTexts("", "", "", ""))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_matrix_holds_the_cosines_of_all_pairs_of_rows(layout: str) -> None:
    table = published(9, 12, layout)
    sent = as_sent(similarity_matrix(table, texts=MatrixTexts("row", "column", "cosine", "position", "cosine")))
    z = array(sent["data"][0]["z"])
    for p in range(9):
        for q in range(9):
            assert z[p, q] == pytest.approx(table[p] @ table[q] / 6, abs=1e-6)
    assert sent["layout"]["yaxis"]["range"] == [8.5, -0.5]  # position 0 on top


# --- schemes ---

SCHEMES = SchemeTexts("distance", "score", "added", "rotary", "ALiBi {head}: {slope}", "learned")


def test_every_scheme_is_drawn_as_given_and_named() -> None:
    alibi = -np.array([[0.5], [0.3]]) * np.arange(31)
    added, rotary = -np.linspace(0, 4, 31), -np.linspace(0, 2, 31)
    sent = as_sent(scheme_figure(added, rotary, alibi, texts=SCHEMES))
    assert [trace["name"] for trace in sent["data"]] == ["ALiBi 0: 1/2", "ALiBi 1: 0.3", "added", "rotary"]
    for trace, expected in zip(sent["data"], [*alibi, added, rotary], strict=True):
        assert array(trace["y"]) == pytest.approx(expected) and array(trace["x"]).tolist() == list(range(31))
    notes = {note["text"]: (note["x"], note["y"]) for note in sent["layout"]["annotations"]}
    assert notes["rotary"] == (30, -2) and notes["added"] == (30, -4) and notes["ALiBi 1: 0.3"] == (30, -9)
    assert notes["ALiBi 0: 1/2"] == (21, LOWEST)  # where it leaves the picture
    assert len(as_sent(scheme_figure(added, None, alibi, texts=SCHEMES))["data"]) == 3
    with pytest.raises(ValueError, match="31 distances"):
        scheme_figure(added, rotary[:5], alibi, texts=SCHEMES)


def test_the_learned_line_ends_where_its_rows_do_within_its_band() -> None:
    added, alibi = -np.linspace(0, 4, 31), -np.array([[0.5]]) * np.arange(31)
    mean, lowest, highest = -np.linspace(0, 3, 12), -np.linspace(0, 5, 12), -np.linspace(0, 1, 12)
    sent = as_sent(scheme_figure(added, None, alibi, texts=SCHEMES, learned=(mean, lowest, highest)))
    line, low, high = sent["data"][2:]
    for trace, expected in ((line, mean), (low, lowest), (high, highest)):
        assert array(trace["x"]).tolist() == list(range(12)) and array(trace["y"]) == pytest.approx(expected)
    assert line["name"] == "learned" and high["fill"] == "tonexty" and "fill" not in low
    assert low["line"]["width"] == high["line"]["width"] == 0 and low["hoverinfo"] == high["hoverinfo"] == "skip"
    notes = {note["text"]: (note["x"], note["y"]) for note in sent["layout"]["annotations"]}
    assert notes["learned"] == (11, -3)
    for wrong in ((mean, lowest[:5], highest), (np.zeros(32),) * 3):
        with pytest.raises(ValueError, match="31 distances"):
            scheme_figure(added, None, alibi, texts=SCHEMES, learned=wrong)


@pytest.mark.parametrize("dark", [False, True])
def test_pictures_follow_the_theme(dark: bool) -> None:
    theme = colors.DARK if dark else colors.LIGHT
    for figure in (
        wavelength_figure(np.array([9.0, 70]), layout="halves", marks=[(30, "m")], texts=WAVES),
        similarity_curve(np.array([3.0, 2, 1]), scale=3, rises=[], marked=1, texts=SIMILAR),
        pair_steps(np.array([0.5]), np.array([6.0]), texts=StepTexts("", "", "", "step")),
        scheme_figure(np.zeros(4), None, np.zeros((1, 4)) - np.arange(4), texts=SCHEMES),
    ):
        figure.plotly_relayout(figure.layout.meta["theme"]["dark" if dark else "light"])
        assert figure.layout.font.color == theme.ink and figure.layout.yaxis.gridcolor == theme.line
        assert {note.font.color for note in figure.layout.annotations} == {theme.muted}


def test_a_note_too_long_for_the_narrowest_figure_stands_on_two_lines() -> None:
    assert frame.folded("short; and so") == "short; and so"
    for lines in (
        ("From distance 24 to 25,", "pair by pair; all together +0.0317"),
        ("这句话里每一行的平均权重都画在这里：", "条是这个头，圈是只看位置"),
        ("one note without any mark", "that is far too long for one line"),
    ):
        whole = ("" if "：" in lines[0] else " ").join(lines)
        assert frame.folded(whole) == "<br>".join(lines)
    assert frame.folded("x" * 80) == "x" * 80  # nowhere to cut


def test_the_note_at_a_distance_ends_inside_the_picture() -> None:
    def note(marked: int) -> dict:
        return as_sent(similarity_curve(np.ones(101), scale=1, rises=[], marked=marked, texts=SIMILAR))["layout"]["annotations"][0]

    assert [note(marked)["xanchor"] for marked in (3, 49, 50, 100)] == ["center", "center", "right", "right"]
