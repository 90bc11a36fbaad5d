"""Figures of the experiments: every number is where it belongs, on axes that hold it, on the light and the dark page."""

from __future__ import annotations

import numpy as np
import plotly.graph_objects as go
import pytest

from viz.figures.colors import KIND_COLORS, THEMES
from viz.figures.lanes import Axis, Lane, decades, lanes
from viz.figures.machine_lab import (
    GradientTexts,
    MemoryTexts,
    ScaleTexts,
    gradient_lanes,
    memory_lanes,
    score_scale_lanes,
)

ENCODER = {"post": np.float32([[0.3, 0.5], [0.4, 0.7], [0.35, 0.6]]), "pre": np.float32([[0.9, 0.2], [0.8, 0.15], [0.7, 0.25]])}
DECODER = {"post": np.float32([[1, 2, 3], [4, 5, 6], [7, 8, 12]]), "pre": np.float32([[3, 2, 1], [3.5, 2.5, 1.5], [4, 3, 2]])}
GRADIENT_TEXTS = GradientTexts("POST", "PRE", "ENCODER", "DECODER", "LAYER")


def lane_axes(figure) -> list:
    return [figure.layout[name] for name in ("yaxis", "yaxis2", "yaxis3", "yaxis4") if name in figure.layout]


def test_gradients_stand_at_their_layers():
    figure = gradient_lanes(ENCODER, DECODER, texts=GRADIENT_TEXTS)
    means = [trace for trace in figure.data if "lines" in trace.mode]
    assert [(trace.name, trace.yaxis) for trace in means] == [("POST", "y"), ("PRE", "y"), ("POST", "y2"), ("PRE", "y2")]
    for trace, values in zip(means, (ENCODER["post"], ENCODER["pre"], DECODER["post"], DECODER["pre"]), strict=True):
        np.testing.assert_allclose(trace.y, values.mean(axis=0))
        assert list(trace.x) == list(range(values.shape[1]))
    dots = [trace for trace in figure.data if trace.mode == "markers"]
    assert list(dots[2].x) == [0, 1, 2] * 3 and list(map(float, dots[2].y)) == [1, 2, 3, 4, 5, 6, 7, 8, 12]
    for axis in lane_axes(figure):  # both lanes on one scale, which holds the least and the most
        assert axis.type == "log" and 10 ** axis.range[0] < 0.15 and 10 ** axis.range[1] > 12
    assert [note.text for note in figure.layout.annotations] == ["ENCODER", "DECODER"]
    assert list(figure.layout.xaxis.tickvals) == [0, 1, 2]


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_gradient_that_no_log_scale_holds(bad):
    with pytest.raises(ValueError, match="above zero"):
        gradient_lanes(ENCODER, {**DECODER, "pre": np.float32([[bad, 1, 1]])}, texts=GRADIENT_TEXTS)


WIDTHS = (1, 4, 64)
NAMES = {"variance": "VARIANCE", "entropy": "ENTROPY", "largest": "LARGEST", "slope": "SLOPE"}
SCALE_TEXTS = ScaleTexts("PLAIN", "DIVIDED", NAMES, "WIDTH")


def side(start: float) -> dict[str, np.ndarray]:
    return {name: np.float32([start + n / 10, start + n / 10 + 0.01, start + n / 10 + 0.02]) for n, name in enumerate(NAMES)}


def test_scores_with_and_without_are_not_mixed_up():
    heads = ({name: np.float32([0.7, 0.8]) for name in NAMES}, {name: np.float32([0.2, 0.3]) for name in NAMES})
    figure = score_scale_lanes(WIDTHS, side(0.5), side(0.1), heads, head_dim=32, chosen=1, head_names=["L2 H0", "L2 H1"], texts=SCALE_TEXTS)
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    assert [(trace.name, trace.yaxis) for trace in lines] == [(name, f"y{n or ''}") for n in ("", 2, 3, 4) for name in ("PLAIN", "DIVIDED")]
    for trace, (start, n) in zip(lines, [(start, n) for n in range(4) for start in (0.5, 0.1)], strict=True):
        np.testing.assert_allclose(trace.y, [start + n / 10 + step for step in (0, 0.01, 0.02)], rtol=1e-5)
        assert tuple(trace.x) == WIDTHS
    dots = [trace for trace in figure.data if trace.mode == "markers"]
    assert len(dots) == 8
    for trace in dots:
        right = trace.name == "PLAIN"
        np.testing.assert_allclose(trace.y, [0.7, 0.8] if right else [0.2, 0.3])
        assert all((x > 32) == right for x in trace.x) and tuple(trace.text) == ("L2 H0", "L2 H1")
        assert trace.marker.size[1] > trace.marker.size[0]
    variance, *shares = lane_axes(figure)
    assert variance.type == "log" and 10 ** variance.range[0] < 0.1 and 10 ** variance.range[1] > 0.8
    assert all(axis.range[0] < 0 and axis.range[1] > 1 for axis in shares)
    assert len(score_scale_lanes(WIDTHS, side(0.5), side(0.1), head_dim=32, texts=SCALE_TEXTS).data) == 8


MEMORY_TEXTS = MemoryTexts("BYTES", "STEPS", {kind: kind.upper() for kind in KIND_COLORS}, "RECURRENT", "ATTENTION", "LENGTH", "MB")


def test_memory_is_stacked_by_kind_and_steps_are_counted():
    kinds = {"encoder_self": [10, 4_000_000], "decoder_self": [20, 1_000_000], "cross": [30, 2_500_000]}
    figure = memory_lanes([1, 200], kinds, here=7, texts=MEMORY_TEXTS)
    areas, steps = figure.data[:3], figure.data[3:]
    for area, (kind, values) in zip(areas, kinds.items(), strict=True):
        assert area.name == kind.upper() and area.stackgroup == "bytes" and area.line.color == KIND_COLORS[kind]
        np.testing.assert_allclose(area.y, np.array(values) / 1e6)
    assert [(trace.name, list(trace.y)) for trace in steps] == [("RECURRENT", [1, 200]), ("ATTENTION", [1, 1])]
    memory, serial = lane_axes(figure)
    assert memory.range[1] > 7.5 and serial.range[1] > 200 and figure.layout.xaxis.range[1] == 200
    assert memory.ticktext[1].endswith(" MB") and len(memory.tickvals) <= 8
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].x1) == (7, 7)
    assert not memory_lanes([1, 200], kinds, here=None, texts=MEMORY_TEXTS).layout.shapes


def test_lanes_do_not_overlap_and_follow_the_theme():
    parts = [Lane(Axis(0, 1, {0: "0"}, title=str(n)), [go.Scatter(x=[0], y=[n])]) for n in range(3)]
    figure = lanes(parts, Axis(1, 1000, decades(1, 1000), log=True, title="ACROSS"))
    domains = [axis.domain for axis in lane_axes(figure)]
    assert all(low < high for low, high in domains) and all(lower[1] < upper[0] for upper, lower in zip(domains, domains[1:], strict=False))
    assert [trace.yaxis for trace in figure.data] == ["y", "y2", "y3"] and list(figure.layout.xaxis.range) == [0, 3]
    for name, theme in THEMES.items():
        figure.plotly_relayout(figure.layout.meta["theme"][name])
        assert {axis.gridcolor for axis in lane_axes(figure)} == {theme.line}
        assert {note.font.color for note in figure.layout.annotations} == {theme.muted} and figure.layout.font.color == theme.ink
    with pytest.raises(ValueError, match="at least one"):
        lanes([], Axis(0, 1, {}))
    for low, high, log in ((0, 1, True), (2, 1, False)):
        with pytest.raises(ValueError, match="axis"):
            Axis(low, high, {}, log=log).settings()
