"""The positional encoding's figures, against the published formula written out once more here, in float64 and one loop."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.viz.figures.read import array, as_sent, hover_token
from viz.figures import colors
from viz.figures.labels import token_labels
from viz.figures.positional import PositionTexts, pair_index, positional_heatmap, positional_waves, wavelength

TEXTS = PositionTexts(
    row="row: position",
    column="column: dimension",
    position_axis="position",
    dimension_axis="dimension",
    position="pos",
    dimension="dim",
    value="value",
    wavelength="wavelength",
    sine="sine",
    cosine="cosine",
    positions="positions",
    wave="dimension {dimension}: {function}, {wavelength}",
    scale="value",
)


def published(num_positions: int, d_model: int, layout: str) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same); "halves": all sines, then all cosines."""
    table = np.empty((num_positions, d_model))
    for pos in range(num_positions):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            places = (2 * i, 2 * i + 1) if layout == "interleaved" else (i, d_model // 2 + i)
            table[pos, places[0]], table[pos, places[1]] = math.sin(angle), math.cos(angle)
    return table


LAYOUTS = ["interleaved", "halves"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pair_and_wavelength_of_every_dimension_fit_the_formula(layout: str) -> None:
    d_model = 16
    table = published(200, d_model, layout)
    for d in range(d_model):
        pair, is_sine = pair_index(d, d_model, layout)
        long = wavelength(d, d_model, layout)
        assert long == pytest.approx(2 * math.pi * 10000 ** (2 * pair / d_model))
        angle = 2 * math.pi * np.arange(200) / long
        np.testing.assert_allclose(table[:, d], np.sin(angle) if is_sine else np.cos(angle), atol=1e-9)


def test_the_two_layouts_differ_where_they_should() -> None:
    assert [pair_index(d, 6, "interleaved") for d in range(6)] == [(0, True), (0, False), (1, True), (1, False), (2, True), (2, False)]
    assert [pair_index(d, 6, "halves") for d in range(6)] == [(0, True), (1, True), (2, True), (0, False), (1, False), (2, False)]
    assert wavelength(0, 512, "halves") == pytest.approx(2 * math.pi)
    assert wavelength(511, 512, "interleaved") == pytest.approx(2 * math.pi * 10000 ** (510 / 512))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_table_has_positions_down_and_dimensions_across(layout: str) -> None:
    sent = as_sent(positional_heatmap(published(7, 12, layout), layout=layout, texts=TEXTS, uirevision="7x12"))
    trace, axes = sent["data"][0], sent["layout"]
    assert trace["z"]["dtype"] == "f4"
    np.testing.assert_allclose(array(trace["z"]), published(7, 12, layout), atol=1e-6)
    assert array(trace["z"]).shape == (7, 12)
    assert (axes["xaxis"]["range"], axes["yaxis"]["range"]) == ([-0.5, 11.5], [6.5, -0.5])
    assert (axes["xaxis2"]["title"]["text"], axes["yaxis2"]["title"]["text"]) == ("dimension", "position")
    assert axes["title"]["text"] == "↓ row: position<br>→ column: dimension<br>value"
    assert axes["uirevision"] == "7x12" and axes["meta"]["layout"] == layout
    assert axes["xaxis2"]["tickvals"] == list(range(0, 12, 2)) and axes["yaxis2"]["tickvals"] == list(range(7))


def test_hover_says_position_dimension_function_wavelength_and_value() -> None:
    sent = as_sent(positional_heatmap(published(7, 12, "halves"), layout="halves", texts=TEXTS))
    assert re.sub("</?b>", "", sent["data"][0]["hovertemplate"]) == "pos %{y}<br>dim %{x}<br>value %{z:.4f}<extra></extra>"
    assert hover_token(sent, "y", 6) == "6"
    assert hover_token(sent, "x", 0) == "0 · sine · wavelength 6.3 positions"
    assert hover_token(sent, "x", 5) == f"5 · sine · wavelength {2 * math.pi * 10000 ** (10 / 12):,.0f} positions"
    assert hover_token(sent, "x", 6) == "6 · cosine · wavelength 6.3 positions"
    paper = as_sent(positional_heatmap(published(7, 12, "interleaved"), layout="interleaved", texts=TEXTS))
    assert hover_token(paper, "x", 1) == "1 · cosine · wavelength 6.3 positions"
    assert hover_token(paper, "x", 2) == "2 · sine · wavelength 29.2 positions"


def test_scale_is_symmetric_about_zero_and_zero_is_the_page() -> None:
    sent = as_sent(positional_heatmap(published(7, 12, "halves"), layout="halves", texts=TEXTS))
    trace, axis = sent["data"][0], sent["layout"]["coloraxis"]
    assert (trace["zmin"], trace["zmax"], axis["cmin"], axis["cmax"]) == (-1, 1, -1, 1)
    assert trace["colorscale"] == colors.diverging()
    assert axis["colorscale"] == colors.opaque_diverging(colors.LIGHT)
    assert axis["colorbar"]["ticktext"] == ["−1", "0", "1"]
    assert sent["layout"]["meta"]["theme"]["dark"]["coloraxis.colorscale"] == colors.opaque_diverging(colors.DARK)


def test_rows_can_be_the_tokens_of_the_sentence() -> None:
    tokens = ["▁the", "▁cat", "▁the", "<b>", "</s>"]
    sent = as_sent(positional_heatmap(published(5, 8, "halves"), layout="halves", texts=TEXTS, row_labels=token_labels(tokens)))
    assert sent["layout"]["yaxis2"]["ticktext"] == ["the", "cat", "the", "&lt;b&gt;", "⟨/s⟩"]
    assert [hover_token(sent, "y", p) for p in (0, 2, 3)] == ["0 · ▁the", "2 · ▁the", "3 · &lt;b&gt;"]
    with pytest.raises(ValueError, match="5 positions.*4 row labels"):
        positional_heatmap(published(5, 8, "halves"), layout="halves", texts=TEXTS, row_labels=tokens[:4])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_waves_are_the_chosen_dimensions_in_order(layout: str) -> None:
    table, dims = published(50, 16, layout), [9, 0, 1]
    figure = positional_waves(table, dims, layout=layout, texts=TEXTS, uirevision="50")
    sent = as_sent(figure)
    assert len(sent["data"]) == 3
    for n, (trace, d) in enumerate(zip(sent["data"], dims, strict=True)):
        np.testing.assert_array_equal(array(trace["x"]), np.arange(50))
        assert trace["y"]["dtype"] == "f4"
        np.testing.assert_allclose(array(trace["y"]), table[:, d], atol=1e-6)
        is_sine = pair_index(d, 16, layout)[1]
        assert trace["line"]["dash"] == ("solid" if is_sine else "6px,3px")
        assert trace["line"]["color"] == colors.WAVE_COLORS[0 if is_sine else 1]
        assert trace["yaxis"] == ("y" if n == 0 else f"y{n + 1}") and trace.get("xaxis", "x") == "x"
        long = 2 * math.pi * 10000 ** (2 * pair_index(d, 16, layout)[0] / 16)
        name = f"dimension {d}: {'sine' if is_sine else 'cosine'}, {long:,.1f} positions"
        assert trace["name"] == sent["layout"]["annotations"][n]["text"] == name  # said beside the wave
        assert "%{x}" in trace["hovertemplate"] and "%{y:.4f}" in trace["hovertemplate"]
    assert sent["layout"]["xaxis"]["range"] == [-0.5, 49.5]
    assert sent["layout"]["xaxis"]["title"]["text"] == "position"


def test_waves_lie_one_under_the_other_without_overlap() -> None:
    layout = as_sent(positional_waves(published(20, 16, "halves"), range(12), layout="halves", texts=TEXTS))["layout"]
    axes = [layout["yaxis" + ("" if n == 0 else str(n + 1))] for n in range(12)]
    for upper, lower in zip(axes, axes[1:], strict=False):
        assert lower["domain"][0] < lower["domain"][1] < upper["domain"][0]
    assert axes[0]["domain"][1] < 1 and axes[-1]["domain"][0] > 0
    for n, axis in enumerate(axes):
        assert axis["range"][0] < -1 and axis["range"][1] > 1
        assert axis["domain"][1] <= layout["annotations"][n]["y"] + 1e-9
    inner = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
    assert inner * (axes[0]["domain"][1] - axes[0]["domain"][0]) > 40  # px


def test_waves_follow_the_theme() -> None:
    figure = positional_waves(published(20, 16, "halves"), [0, 8], layout="halves", texts=TEXTS)
    figure.plotly_relayout(figure.layout.meta["theme"]["dark"])
    assert figure.layout.yaxis2.zerolinecolor == colors.DARK.line
    assert {note.font.color for note in figure.layout.annotations} == {colors.DARK.muted}
    assert figure.layout.font.color == colors.DARK.ink


def test_what_is_not_an_encoding_is_refused() -> None:
    table = published(5, 8, "halves")
    heat, waves = positional_heatmap, positional_waves
    with pytest.raises(ValueError, match="even; it is 7"):
        heat(table[:, :7], layout="halves", texts=TEXTS)
    with pytest.raises(ValueError, match="interleaved, halves"):
        heat(table, layout="marian", texts=TEXTS)
    with pytest.raises(ValueError, match=r"\(5,\)"):
        heat(table[:, 0], layout="halves", texts=TEXTS)
    with pytest.raises(ValueError, match="finite"):
        heat(table * np.nan, layout="halves", texts=TEXTS)
    with pytest.raises(ValueError, match="no dimension 8"):
        waves(table, [8], layout="halves", texts=TEXTS)
    for dims in ([], [1, 1], list(range(13))):
        with pytest.raises(ValueError, match="1 to 12 different"):
            waves(np.zeros((5, 32)), dims, layout="halves", texts=TEXTS)


@pytest.mark.parametrize(("positions", "d_model"), [(1, 2), (64, 512), (512, 256)])
def test_sizes_stay_sane(positions: int, d_model: int) -> None:
    table = published(1, d_model, "halves").repeat(positions, 0)
    layout = as_sent(positional_heatmap(table, layout="halves", texts=replace(TEXTS, position_axis="")))["layout"]
    assert 90 <= layout["height"] <= 1700
    assert len(layout["xaxis2"]["tickvals"]) <= 9 and len(layout["yaxis2"]["tickvals"]) <= 16
    assert layout["xaxis2"]["tickvals"][0] == 0
