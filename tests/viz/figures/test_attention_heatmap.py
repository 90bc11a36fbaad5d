"""The attention heat map: every test map is non-square, asymmetric and has repeated tokens, so that swapped or shifted axes fail."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.viz.figures.read import array, as_sent, hover_token
from viz.figures import colors
from viz.figures.attention_heatmap import HeatmapTexts, attention_heatmap
from viz.figures.labels import LabelTexts, token_labels

TEXTS = HeatmapTexts(
    row="row: the word written",
    column="column: the word looked at",
    query_axis="query",
    key_axis="key",
    query="writes",
    key="looks at",
    weight="weight",
    masked="masked",
    scale="weight of one head",
)
NAMES = LabelTexts(start="⟨start⟩", end="⟨end⟩")
QUERIES = ["▁Je", "▁le", "▁le", "▁vois", "</s>"]
KEYS = ["▁I", "▁see", "▁it", "▁it", "</s>", "▁it", ">>fra<<"]


def weights(rows: int = 5, columns: int = 7) -> np.ndarray:
    """Rows sum to 1; no two entries are equal."""
    table = np.arange(1, rows * columns + 1, dtype=np.float64).reshape(rows, columns)
    return table / table.sum(1, keepdims=True)


def draw(table: np.ndarray | None = None, rows: list[str] = QUERIES, columns: list[str] = KEYS, **settings: object):
    table = weights(len(rows), len(columns)) if table is None else table
    settings = {"kind": "cross", "texts": TEXTS, **settings}
    return attention_heatmap(table, token_labels(rows, NAMES), token_labels(columns, NAMES), **settings)


def causal(size: int) -> np.ndarray:
    table = np.tril(weights(size, size))
    return table / table.sum(1, keepdims=True)


# --- values and axes ---


def test_rows_are_queries_and_columns_are_keys() -> None:
    sent = as_sent(draw())
    z = array(sent["data"][0]["z"])
    assert z.shape == (5, 7)
    np.testing.assert_array_equal(z, weights().astype(np.float32))
    assert "x" not in sent["data"][0] and "y" not in sent["data"][0]  # integer positions, counted from 0
    assert not sent["data"][0].get("transpose", False)
    layout = sent["layout"]
    assert layout["xaxis"]["range"] == [-0.5, 6.5]
    assert layout["yaxis"]["range"] == [4.5, -0.5]  # the first query on top
    for axis, tokens in (("x", KEYS), ("y", QUERIES)):
        assert [token in hover_token(sent, axis, i) for i, token in enumerate(tokens[:4])] == [True] * 4
        assert layout[f"{axis}axis2"]["matches"] == layout[f"{axis}axis2"]["overlaying"] == axis
    assert layout["xaxis2"]["ticktext"] == ["I", "see", "it", "it", "⟨end⟩", "it", "⟨→ fra⟩"]
    assert layout["yaxis2"]["ticktext"] == ["Je", "le", "le", "vois", "⟨end⟩"]
    assert layout["xaxis2"]["tickvals"] == list(range(7))
    assert layout["yaxis2"]["tickvals"] == list(range(5))
    assert (layout["xaxis2"]["side"], layout["yaxis2"]["side"]) == ("top", "left")
    assert (layout["xaxis2"]["title"]["text"], layout["yaxis2"]["title"]["text"]) == ("key", "query")


def test_hover_names_query_then_key_with_positions_and_four_decimals() -> None:
    sent = as_sent(draw())
    template = sent["data"][0]["hovertemplate"]
    lines = template.removesuffix("<extra></extra>").split("<br>")
    assert [re.sub("</?b>", "", line) for line in lines] == ["writes %{y}", "looks at %{x}", "weight %{z:.4f}"]
    assert [hover_token(sent, "y", q) for q in range(5)] == ["▁Je · 0", "▁le · 1", "▁le · 2", "▁vois · 3", "⟨end⟩ &lt;/s&gt; · 4"]
    assert [hover_token(sent, "x", k) for k in (2, 3, 5)] == ["▁it · 2", "▁it · 3", "▁it · 5"]
    assert len(set(sent["layout"]["xaxis"]["ticktext"])) == len(KEYS)  # repeated tokens stay apart


def test_the_page_gets_the_tokens_by_position() -> None:
    meta = as_sent(draw())["layout"]["meta"]
    assert (meta["queries"], meta["keys"]) == (QUERIES, KEYS)
    assert (meta["kind"], meta["color"]) == ("cross", colors.KIND_COLORS["cross"])


def test_the_corner_says_what_rows_columns_and_colours_are() -> None:
    said = "↓ row: the word written<br>→ column: the word looked at<br>weight of one head"
    assert as_sent(draw())["layout"]["title"]["text"] == said


def test_arrays_of_any_float_type_are_sent_as_float32() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        sent = as_sent(draw(weights().astype(dtype)))
        assert sent["data"][0]["z"]["dtype"] == "f4"


def test_what_is_handed_in_is_left_alone() -> None:
    table = causal(5).astype(np.float32)
    table.flags.writeable = False
    draw(table, QUERIES, QUERIES, kind="decoder_self")
    assert not np.isnan(table).any()


# --- colour ---


def test_zero_is_the_page_and_the_printed_maximum_the_full_colour() -> None:
    sent = as_sent(draw())
    trace, axis = sent["data"][0], sent["layout"]["coloraxis"]
    assert (trace["zmin"], trace["zmax"]) == (axis["cmin"], axis["cmax"]) == (0, 1)
    assert trace["colorscale"] == colors.ramp(colors.KIND_COLORS["cross"])
    assert not trace["showscale"]
    assert (axis["colorbar"]["tickvals"], axis["colorbar"]["ticktext"]) == ([0, 1], ["0", "1"])


def test_full_colour_at_the_largest_weight_prints_it_at_the_scale() -> None:
    table = weights()
    table[1, 2] = 0.25
    calm = as_sent(draw(table, colour="max"))
    assert table.max() == 0.25
    assert (calm["data"][0]["zmin"], calm["data"][0]["zmax"], calm["layout"]["coloraxis"]["cmax"]) == (0, 0.25, 0.25)
    assert calm["layout"]["coloraxis"]["colorbar"]["ticktext"] == ["0", "0.2500"]
    nothing = as_sent(draw(np.zeros((5, 7)), colour="max"))
    assert (nothing["data"][0]["zmax"], nothing["layout"]["coloraxis"]["cmax"]) == (1, 1)


def test_the_largest_weight_is_printed_in_the_scales_name_and_no_masked_one() -> None:
    texts = replace(TEXTS, scale="weight, largest {largest}")
    assert as_sent(draw(texts=texts))["layout"]["title"]["text"].endswith("<br>weight, largest 0.2500")
    hidden = np.zeros((5, 7), bool)
    hidden[0, 6] = True  # where the largest is
    assert as_sent(draw(texts=texts, masked=hidden))["layout"]["title"]["text"].endswith("<br>weight, largest 0.2143")


def test_a_logarithmic_scale_goes_by_powers_of_ten_and_hover_has_the_weight() -> None:
    table = weights()
    table[2, :3] = [0.1, 0.001, 0.0004]
    table[4, 6] = 0
    hidden = np.zeros((5, 7), bool)
    hidden[3, 1] = True
    sent = as_sent(draw(table, colour="log", masked=hidden))
    trace, axis = sent["data"][0], sent["layout"]["coloraxis"]
    z = array(trace["z"])
    np.testing.assert_allclose(z[2, :3], [-1, -3, -3], atol=1e-6)  # less than 0.001 looks like nothing
    assert z[4, 6] == -3 and np.isnan(z[3, 1]) and np.isnan(float(trace["customdata"][3][1] or "nan"))
    np.testing.assert_allclose(z[0], np.maximum(-3, np.log10(table[0])), atol=1e-6)
    assert [trace["customdata"][i][j] for i, j in ((2, 2), (4, 6), (1, 5))] == pytest.approx([0.0004, 0, table[1, 5]])
    assert "%{customdata:.4f}" in trace["hovertemplate"] and "%{z" not in trace["hovertemplate"]
    assert (trace["zmin"], trace["zmax"], axis["cmin"], axis["cmax"]) == (-3, 0, -3, 0)
    assert (axis["colorbar"]["tickvals"], axis["colorbar"]["ticktext"]) == ([-3, -2, -1, 0], ["0.001", "0.01", "0.1", "1"])


@pytest.mark.parametrize("kind", colors.KIND_COLORS)
def test_each_kind_has_its_own_colour(kind: str) -> None:
    sent = as_sent(draw(causal(5), QUERIES, QUERIES, kind=kind))
    assert sent["data"][0]["colorscale"][1] == [1, colors.rgba(colors.KIND_COLORS[kind], 1)]
    assert sent["layout"]["coloraxis"]["colorscale"][1] == [1, colors.KIND_COLORS[kind]]


def test_both_themes_are_in_the_figure_and_light_is_set() -> None:
    figure = draw()
    themes = figure.layout.meta["theme"]
    assert themes["light"].keys() == themes["dark"].keys()
    for path, value in themes["light"].items():
        now = figure.layout[path]
        assert (now == value) or [list(stop) for stop in now] == value, path
    before = as_sent(figure)["data"]
    figure.plotly_relayout(themes["dark"])
    sent = as_sent(figure)
    assert sent["data"] == before  # nothing in the data belongs to a theme
    assert sent["layout"]["font"]["color"] == colors.DARK.ink
    assert sent["layout"]["coloraxis"]["colorscale"][0] == [0, colors.DARK.page]
    layout = {**sent["layout"], "meta": None}
    assert not any(shade in str(layout) for shade in (colors.LIGHT.ink, colors.LIGHT.muted, colors.LIGHT.line, "#ffffff"))


def test_backgrounds_are_transparent_and_there_is_no_heavy_template() -> None:
    layout = as_sent(draw())["layout"]
    assert layout["paper_bgcolor"] == layout["plot_bgcolor"] == "rgba(0,0,0,0)"
    assert len(str(layout["template"])) < 200


# --- masks ---


def test_later_keys_of_a_causal_map_are_masked_not_zero() -> None:
    table = causal(5)
    table[3, 1] = 0  # a true zero below the diagonal stays a weight
    sent = as_sent(draw(table, QUERIES, QUERIES, kind="decoder_self"))
    future = np.triu(np.ones((5, 5), bool), 1)
    z = array(sent["data"][0]["z"])
    np.testing.assert_array_equal(np.isnan(z), future)
    assert z[3, 1] == 0
    assert sent["data"][0]["hoverongaps"] is False
    veil = sent["data"][2]
    np.testing.assert_array_equal(array(veil["z"]), future)
    assert veil["z"]["dtype"] in ("u1", "i1") and veil["zorder"] < 0
    assert veil["hovertemplate"].endswith("<br>masked<extra></extra>") and "%{z" not in veil["hovertemplate"]
    assert "writes <b>%{y}</b>" in veil["hovertemplate"] and "looks at <b>%{x}</b>" in veil["hovertemplate"]


def hatched(shape: dict, size: tuple[int, int]) -> np.ndarray:
    """Cells that strokes run through."""
    cells = np.zeros(size, bool)
    for x0, y0, x1, y1 in re.findall(r"M(\S+) (\S+?)L(\S+) ([-\d.]+)", shape["path"]):
        x, y, stop = float(x0), float(y0), float(x1)
        assert float(y1) == y - (stop - x)
        while x < stop:
            cells[int(y - 0.5), int(x + 0.5)] = True
            x, y = x + 1, y - 1
    return cells


def test_masked_cells_and_no_others_are_hatched() -> None:
    sent = as_sent(draw(causal(5), QUERIES, QUERIES, kind="decoder_self"))
    (shape,) = sent["layout"]["shapes"]
    np.testing.assert_array_equal(hatched(shape, (5, 5)), np.triu(np.ones((5, 5), bool), 1))
    assert "shapes" not in as_sent(draw())["layout"] or as_sent(draw())["layout"]["shapes"] == []
    assert len(as_sent(draw())["data"]) == 2


def test_a_mask_can_be_given_and_need_not_be_causal() -> None:
    masked = np.zeros((5, 7), bool)
    masked[:, 2] = masked[4, 5:] = True
    sent = as_sent(draw(masked=masked))
    np.testing.assert_array_equal(np.isnan(array(sent["data"][0]["z"])), masked)
    np.testing.assert_array_equal(hatched(sent["layout"]["shapes"][0], (5, 7)), masked)
    assert len(as_sent(draw(causal(5), QUERIES, QUERIES, kind="decoder_self", masked=np.zeros((5, 5), bool)))["data"]) == 2
    with pytest.raises(ValueError, match=r"\(7, 5\).*\(5, 7\)"):
        draw(masked=masked.T)


def test_strokes_of_a_long_causal_map_stay_few() -> None:
    tokens = ["▁x"] * 200
    (shape,) = as_sent(draw(causal(200), tokens, tokens, kind="decoder_self"))["layout"]["shapes"]
    assert shape["path"].count("M") < 60


# --- what does not fit ---


def test_wrong_lengths_are_refused_with_both_lengths() -> None:
    with pytest.raises(ValueError, match="7 rows and 5 columns.*5 query labels and 7 key labels"):
        draw(weights().T)
    with pytest.raises(ValueError, match="5 rows and 7 columns.*4 query labels and 7 key labels"):
        draw(weights(), QUERIES[:4])
    with pytest.raises(ValueError, match="5 rows and 7 columns.*5 query labels and 6 key labels"):
        draw(weights(), QUERIES, KEYS[:6])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -0.1])
def test_impossible_weights_are_refused(bad: float) -> None:
    table = weights()
    table[1, 2] = bad
    with pytest.raises(ValueError, match="finite and not negative"):
        draw(table)


def test_other_impossible_calls_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\[queries, keys\].*\(1, 5, 7\)"):
        draw(weights()[None])
    with pytest.raises(ValueError, match="no queries or no keys"):
        draw(np.zeros((0, 7)), [], KEYS)
    with pytest.raises(ValueError, match="Unknown scale of colours 'square'"):
        draw(colour="square")
    with pytest.raises(ValueError, match="Unknown kind"):
        draw(kind="self")


def test_hostile_tokens_reach_plotly_escaped() -> None:
    rows = ["▁<b>x</b>", "▁<script>", "$x$", "&amp;", "▁" + "long" * 20]
    sent = as_sent(draw(weights(5, 7), rows, KEYS))
    for axis in ("yaxis", "yaxis2"):
        for text in sent["layout"][axis]["ticktext"]:
            assert not re.search(r"<|\$", text), text
    assert sent["layout"]["yaxis"]["ticktext"][3] == "&amp;amp; · 3"
    assert "long" * 20 in sent["layout"]["yaxis"]["ticktext"][4]  # in full for hover
    assert sent["layout"]["yaxis2"]["ticktext"][4].endswith("…")


# --- size ---


def test_zoom_is_kept_by_the_name_that_is_passed_in() -> None:
    assert as_sent(draw(uirevision="I see it|cross"))["layout"]["uirevision"] == "I see it|cross"


@pytest.mark.parametrize(("rows", "columns"), [(3, 4), (13, 12), (40, 31), (120, 90), (200, 200)])
def test_sizes_stay_sane_from_three_to_two_hundred_tokens(rows: int, columns: int) -> None:
    sent = as_sent(draw(None, [f"▁tok{i}" for i in range(rows)], [f"▁tok{i}" for i in range(columns)]))
    layout, meta = sent["layout"], sent["layout"]["meta"]
    inner = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
    assert 6 <= inner / rows <= 60
    assert 200 <= layout["height"] <= 1400
    assert meta["min_height"] == layout["height"]
    assert 320 <= meta["min_width"] <= 1400 and meta["min_width"] <= meta["max_width"]
    if columns <= 12:
        assert meta["min_width"] <= 390
    # labels keep their distance at the narrowest width, and are never smaller than 12 px
    for axis, count, room in (("yaxis2", rows, inner), ("xaxis2", columns, meta["min_width"] - layout["margin"]["l"] - 12)):
        vals = layout[axis]["tickvals"]
        assert vals[0] == 0 and len(set(np.diff(vals))) <= 1
        assert (vals[1] - vals[0]) * room / count >= 15
        assert layout[axis]["tickfont"]["size"] >= 12
        texts = [f"tok{v}" for v in vals]
        assert layout[axis]["ticktext"] == texts
    assert layout["autosize"] and "width" not in layout
    assert min(int(n) for n in re.findall(r"'size': (\d+)", str({**layout, "template": None}))) >= 12


def test_a_map_of_thirty_by_thirty_is_small() -> None:
    """Bound of the page's budget: 30 x 30 float32 are 4.8 kB in base64; texts, axes and both themes add the rest."""
    tokens = [f"▁word{i}" for i in range(30)]
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(30), 30)
    assert len(draw(table, tokens, tokens).to_json()) < 14_000
    masked = np.tril(table)
    assert len(draw(masked, tokens, tokens, kind="decoder_self").to_json()) < 17_000


def test_the_figure_is_plain_data() -> None:
    figure = draw()
    assert [trace.type for trace in figure.data] == ["heatmap", "scatter"]
    assert as_sent(draw()) == as_sent(figure)  # nothing random, nothing kept from call to call
