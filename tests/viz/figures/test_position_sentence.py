"""Figures of positions in a sentence: marks where the numbers are, labels on their own rows, and nothing that does not belong together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.viz.figures.read import array, as_sent
from viz.figures.colors import DARK, LIGHT, POSITIVE_COLOR, kind_color
from viz.figures.position_offsets import OffsetTexts, position_offsets
from viz.figures.position_sentence import LengthTexts, LikenessTexts, input_lengths, likeness_lines

LENGTHS = LengthTexts("length", "as trained", "times root", "position")
TOKENS = ("<s>", "▁the", "▁cat", "▁the", "<b>$x$")
EMBEDDING = np.array([2.5, 1.1, 1.9, 1.1, 0.4], np.float32)
POSITION = np.array([5.6, 5.7, 5.8, 5.9, 6.0], np.float32)


def lengths(**changes: object):
    arguments = {"embedding": EMBEDDING, "scaled": EMBEDDING * 8, "position": POSITION, "labels": TOKENS, "uses_factor": True}
    return input_lengths(**(arguments | changes), texts=LENGTHS)


def test_each_length_stands_in_the_row_of_its_token() -> None:
    figure = lengths()
    sent = as_sent(figure)
    line, embedding, scaled, position = sent["data"]
    drawn = ((embedding, EMBEDDING, "as trained"), (scaled, EMBEDDING * 8, "times root"), (position, POSITION, "position"))
    for trace, values, name in drawn:
        np.testing.assert_array_equal(array(trace["x"]), values)
        assert array(trace["y"]).tolist() == [0, 1, 2, 3, 4] and name in trace["hovertemplate"]
        assert trace["customdata"][4] == "&lt;b&gt;&#36;x&#36; · 4" and trace["customdata"][0].startswith("⟨s⟩")
    assert line["x"][3:5] == pytest.approx([1.1, 8.8]) and line["y"][3:6] == [1, 1, None]
    axis = sent["layout"]["yaxis"]
    assert axis["ticktext"] == ["⟨s⟩", "the", "cat", "the", "&lt;b&gt;&#36;x&#36;"] and axis["range"] == [4.5, -0.5]  # down
    assert sent["layout"]["xaxis"]["range"][0] == 0 and sent["layout"]["xaxis"]["range"][1] >= 20
    assert position["marker"]["color"] == POSITIVE_COLOR


@pytest.mark.parametrize("uses_factor", [True, False])
def test_what_the_model_adds_up_is_filled(uses_factor: bool) -> None:
    _, embedding, scaled, _ = as_sent(lengths(uses_factor=uses_factor))["data"]
    filled, hollow = (scaled, embedding) if uses_factor else (embedding, scaled)
    assert (filled["marker"]["symbol"], hollow["marker"]["symbol"]) == ("circle", "circle-open")


def test_ink_follows_the_theme() -> None:
    for figure in (lengths(), likeness(), offsets()):
        theme = figure.layout.meta["theme"]
        assert set(theme["light"]["colorway"]) == {LIGHT.ink} and set(theme["dark"]["colorway"]) == {DARK.ink}
        assert set(figure.layout.colorway) == {LIGHT.ink}
        assert theme["light"].keys() == theme["dark"].keys()


def test_of_a_long_sentence_names_are_thinned_and_rows_stay_on_the_page() -> None:
    count = 300
    ones = np.ones(count)
    figure = lengths(embedding=ones, scaled=ones * 3, position=ones * 2, labels=[f"▁w{i}" for i in range(count)])
    assert figure.layout.height < 2000
    assert len(figure.layout.yaxis.tickvals) < count
    assert figure.layout.yaxis.ticktext[1] == f"w{figure.layout.yaxis.tickvals[1]}"


def test_lengths_that_do_not_fit_are_refused() -> None:
    for changes in ({"labels": TOKENS[1:]}, {"scaled": EMBEDDING[1:]}, {"position": -POSITION}, {"embedding": EMBEDDING * math.nan}):
        with pytest.raises(ValueError, match="[Ll]engths"):
            lengths(**changes)


ON = np.array([1, 0.9, 0.7, -0.2], np.float32)
OFF = np.array([1, 1, 0.8, 0.75], np.float32)
STAGES = ("embedding", "+ position", "layer 0", "memory")


def likeness(on: np.ndarray = ON, off: np.ndarray = OFF, stages: tuple[str, ...] = STAGES):
    return likeness_lines(on, off, texts=LikenessTexts("cosine", "with", "without", stages))


def test_likeness_is_drawn_stage_by_stage_dashed_without_positions() -> None:
    sent = as_sent(likeness())
    on, off = sent["data"]
    np.testing.assert_array_equal(array(on["y"]), ON)
    np.testing.assert_array_equal(array(off["y"]), OFF)
    assert (on["name"], off["name"]) == ("with", "without") and "dash" not in on["line"] and off["line"]["dash"]
    assert sent["layout"]["xaxis"]["ticktext"] == list(STAGES) and sent["layout"]["xaxis"]["tickvals"] == [0, 1, 2, 3]
    low, high = sent["layout"]["yaxis"]["range"]
    assert low < -0.2 and high > 1
    assert as_sent(likeness(np.abs(ON)))["layout"]["yaxis"]["range"][0] < 0  # zero is always in sight


def test_cosines_that_do_not_fit_are_refused() -> None:
    for arguments in ((ON[1:], OFF), (ON, OFF[1:]), (ON * 2, OFF), (ON * math.nan, OFF), (ON, OFF, STAGES[1:])):
        with pytest.raises(ValueError, match="cosine"):
            likeness(*arguments)


OFFSETS = np.arange(-2, 4)
MEAN = np.array([0.1, 2.0, 1.0, -0.5, -1.0, 0.3], np.float32)
REAL = np.array([0.2, 0.6, 0.1, 0.05, np.nan, np.nan], np.float32)
ALONE = np.array([0.1, 0.8, 0.06, 0.04, np.nan, np.nan], np.float32)
WORDS = OffsetTexts("offset", "score", "weight", "mean", "low", "high", "head", "alone", "at")


def offsets(**changes: object):
    arguments = {"offsets": OFFSETS, "mean": MEAN, "lowest": MEAN - 1, "highest": MEAN + 0.5, "real": REAL, "alone": ALONE}
    return position_offsets(**({"kind": "decoder_self"} | arguments | changes), texts=WORDS)


def test_scores_above_and_weights_below_share_one_axis() -> None:
    sent = as_sent(offsets())
    span, mean, real, alone = sent["data"]
    np.testing.assert_array_equal(array(mean["x"]), OFFSETS)
    np.testing.assert_array_equal(array(mean["y"]), MEAN)
    np.testing.assert_array_equal(array(span["y"]), np.concatenate([MEAN + np.float32(0.5), (MEAN - 1)[::-1]]))
    np.testing.assert_array_equal(array(mean["customdata"])[1], [1.0, 2.5])
    for trace, values in ((real, REAL), (alone, ALONE)):  # nothing where the sentence is too short
        assert array(trace["x"]).tolist() == [-2, -1, 0, 1] and trace["yaxis"] == "y2"
        np.testing.assert_array_equal(array(trace["y"]), values[:4])
    assert real["type"] == "bar" and real["marker"]["color"] == kind_color("decoder_self")
    layout = sent["layout"]
    assert layout["yaxis"]["domain"][0] > layout["yaxis2"]["domain"][1] and layout["yaxis2"]["range"][0] == 0
    assert layout["yaxis"]["range"][0] < -2 and layout["yaxis"]["range"][1] > 2.5 and layout["yaxis2"]["range"][1] > 0.8
    assert [each["text"] for each in layout["annotations"]] == ["score", "weight"]


def test_offsets_that_do_not_fit_are_refused() -> None:
    of_another_size = ({"mean": MEAN[1:]}, {"real": REAL[:-1]})
    for changes in (*of_another_size, {"lowest": MEAN + 0.1}, {"highest": MEAN - 0.1}, {"mean": MEAN * math.inf}, {"kind": "x"}):
        with pytest.raises(ValueError, match="offsets|offset|kind"):
            offsets(**changes)
