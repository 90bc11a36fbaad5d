"""The sections of Positions about the table, without a browser: what is said and drawn against the formula; whatever a page may send."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from model.analysis.learned_positions import load_learned_table
from model.config import TransformerConfig, count_parameters
from model.errors import InvalidSettingError
from model.pool import ModelPool
from tests.viz.fakes import ARABIC, FakeTranslator, recorded_run, shelf
from viz.panels import position_clocks, position_facts, position_schemes, translate
from viz.panels.position_section import tiny
from viz.panels.position_table import PositionChoice, slider_steps
from viz.runs import RunCache

STORE = {
    **{"model": "embedded", "lang": "en", "target": "fra", "beam_size": 4},
    **{"kind": "cross", "layer": None, "head": "mean", "rows": "predicted"},
    "positions": {"length": 20, "pairs": [0], "tokens": False, "axis": "linear", "distance": None},
}
D_MODEL, MAX_LEN = FakeTranslator.config.d_model, FakeTranslator.config.max_len


@pytest.fixture
def runs() -> RunCache:
    translator = FakeTranslator()
    cache = RunCache(translator, recorded_run(translator), pool=ModelPool(shelf, 10_000))
    cache.pool.get(ARABIC)
    return cache


@pytest.fixture
def shown(runs: RunCache) -> dict:
    return translate.translate(runs, "I love you.", STORE)[1]


def angle(i: int, d_model: int = D_MODEL) -> float:
    return 10000 ** (-2 * i / d_model)


def figure(view: str, language: str = "en") -> dict:
    return json.loads(view)["views"][language]["figure"]


def values(sent: dict) -> np.ndarray:
    found = np.frombuffer(base64.b64decode(sent["bdata"]), np.dtype(sent["dtype"]))
    return found.reshape([int(n) for n in sent["shape"].split(",")]) if "shape" in sent else found


# --- wavelengths ---


def test_wavelengths_of_the_model_and_of_the_sentence(runs: RunCache, shown: dict) -> None:
    message, view, said = position_facts.draw_wavelengths(runs, shown, STORE)
    assert message is None
    long = [2 * math.pi / angle(i) for i in range(32)]
    sines, cosines = figure(view)["data"]
    assert values(sines["y"]) == pytest.approx(long, rel=1e-5) and values(sines["x"]).tolist() == list(range(0, 64, 2))
    assert values(cosines["x"]).tolist() == list(range(1, 64, 2))
    tokens = len(runs.translator.translate("I love you.").src_tokens)
    assert said[0]["params"] | {"shortest": "", "longest": ""} == {
        "pairs": 32, "shortest": "", "longest": "", "limit": MAX_LEN, "inside": sum(w <= MAX_LEN - 1 for w in long),
        "slow": sum(w > 10_000 for w in long), "bound": "10,000",
    }
    assert (said[0]["params"]["shortest"], said[0]["params"]["longest"]) == ("6.28", f"{long[-1]:,.0f}")
    assert said[1]["params"] == {"tokens": tokens, "inside": sum(w <= tokens - 1 for w in long)}
    assert [shape["y0"] for shape in figure(view)["layout"]["shapes"]] == [MAX_LEN, tokens]


def test_without_a_sentence_of_this_model_only_the_model_is_spoken_of(runs: RunCache, shown: dict) -> None:
    for result, store in ((None, STORE), (shown, STORE | {"model": ARABIC})):  # none; one that another model cut
        message, view, said = position_facts.draw_wavelengths(runs, result, store)
        assert message is None and len(said) == 1 and len(figure(view)["layout"]["shapes"]) == 1
    assert values(figure(view)["data"][1]["x"]).tolist() == list(range(24, 48))  # halves: cosines are the second half


# --- distance ---


def test_the_curve_is_the_formula_and_the_step_is_the_first_rise(runs: RunCache) -> None:
    message, curve, steps, matrix, facts = position_facts.draw_distance(runs, None, STORE)
    assert message is None
    exact = [math.fsum(math.cos(k * angle(i)) for i in range(32)) for k in range(MAX_LEN)]
    first = next(k for k in range(1, MAX_LEN) if exact[k] > exact[k - 1])
    assert (facts["first"], facts["distance"], facts["last"]) == (first, first, 50) == (6, 6, 50)
    line = figure(curve)["data"][0]
    assert values(line["customdata"]) == pytest.approx([exact[abs(k)] for k in range(-50, 51)], abs=1e-4)
    assert values(line["y"]) == pytest.approx([exact[abs(k)] / 32 for k in range(-50, 51)], abs=1e-5)
    climbing = dict(zip(values(figure(curve)["data"][1]["x"]).tolist(), values(figure(curve)["data"][1]["y"]), strict=True))
    for k in range(1, 51):
        rises = exact[k] > exact[k - 1] or (k < 50 and exact[k + 1] > exact[k])
        assert math.isnan(climbing[k]) is not rises and math.isnan(climbing[-k]) is not rises, k
    changes = [math.cos(6 * angle(i)) - math.cos(5 * angle(i)) for i in range(32)]
    assert values(figure(steps)["data"][0]["y"]) == pytest.approx(changes, abs=1e-6)
    assert f"+{exact[6] - exact[5]:.4f}" in figure(steps)["layout"]["annotations"][0]["text"]
    assert values(figure(matrix)["data"][0]["z"])[3, 17] == pytest.approx(exact[14] / 32, abs=1e-6)
    assert values(figure(matrix)["data"][0]["z"]).shape == (20, 20)
    digits, power = facts["said"][0]["params"]["spread"].split("·10⁻")
    assert float(digits) < 10 and power in "⁵⁶⁷⁸⁹"
    paper = [math.fsum(math.cos(k / 10_000 ** (2 * i / 512)) for i in range(256)) for k in range(60)]
    rise = next(k for k in range(1, 60) if paper[k] > paper[k - 1])
    assert (facts["said"][1]["params"]["paper"], facts["said"][1]["params"]["paper_width"]) == (rise, 512) == (44, 512)


def test_another_step_can_be_taken_apart(runs: RunCache) -> None:
    store = STORE | {"lang": "zh", "positions": STORE["positions"] | {"distance": 31.0}}
    _, curve, steps, _, facts = position_facts.draw_distance(runs, None, store)
    assert facts["distance"] == 31 and [shape["x0"] for shape in figure(curve, "zh")["layout"]["shapes"]] == [-31, 31]
    assert values(figure(steps, "zh")["data"][0]["y"])[0] == pytest.approx(math.cos(31) - math.cos(30), abs=1e-6)
    assert "距离从 30 到 31" in figure(steps, "zh")["layout"]["annotations"][0]["text"]


@pytest.mark.parametrize("distance", [0, MAX_LEN, -1, "3", 2.5, True, [3], math.nan])
def test_impossible_distances_are_refused(runs: RunCache, distance: object) -> None:
    store = STORE | {"positions": STORE["positions"] | {"distance": distance}}
    assert position_facts.draw_distance(runs, None, store)[0]["code"] == "invalid_setting"
    assert position_facts.draw_distance(runs, None, {"positions": 3})[0]["code"] == "invalid_setting"


def test_how_far_the_curve_goes() -> None:
    cases = {(512, 44): 176, (512, 6): 50, (64, 44): 63, (512, None): 50, (30, 3): 29}
    assert {case: position_facts.shown_distances(*case) for case in cases} == cases


# --- clocks ---


@pytest.mark.parametrize("name", ["embedded", ARABIC])
def test_clocks_get_rows_of_the_table_in_the_models_layout(runs: RunCache, name: str) -> None:
    message, value = position_clocks.draw_clocks(runs, None, {"model": name})
    translator = runs.translator_of(name)
    d_model, max_len = translator.config.d_model, translator.config.max_len
    table = translator.positional_encoding(max_len)
    assert message is None and json.loads(json.dumps(value)) == value
    rows = np.frombuffer(base64.b64decode(value["rows"]["data"]), "<f4").reshape(value["rows"]["shape"])
    assert rows.shape == (2 * value["steps"] - 1, 2 * len(value["pairs"])) and 2 * value["steps"] - 1 <= max_len
    for n, pair in enumerate(value["pairs"]):
        i, (sine, cosine) = pair["pair"], pair["dims"]
        assert (sine, cosine) == ((2 * i, 2 * i + 1) if name == "embedded" else (i, i + d_model // 2))
        np.testing.assert_array_equal(rows[:, 2 * n], table[: len(rows), sine])
        np.testing.assert_array_equal(rows[:, 2 * n + 1], table[: len(rows), cosine])
        assert rows[9, 2 * n] == pytest.approx(math.sin(9 * angle(i, d_model)), abs=1e-6)
        assert rows[9, 2 * n + 1] == pytest.approx(math.cos(9 * angle(i, d_model)), abs=1e-6)
        assert pair["angle"] == pytest.approx(angle(i, d_model))
        assert pair["wavelength"] == pytest.approx(2 * math.pi / angle(i, d_model), rel=1e-5)
    assert len(value["residuals"]) == value["steps"] and 0 < max(value["residuals"]) < 1e-6


def test_sliders_stay_in_the_table() -> None:
    for max_len in (1, 2, 3, 64, 127, 128, 512):
        steps = slider_steps(max_len)
        assert 1 <= steps <= 64 and 2 * (steps - 1) <= max_len - 1


# --- schemes ---


def test_schemes_stand_on_one_scale(runs: RunCache) -> None:
    message, view, facts = position_schemes.draw_schemes(runs, None, STORE)
    assert message is None
    lines = [values(trace["y"]) for trace in figure(view)["data"]]
    assert len(lines) == 9  # four heads of ALiBi, added, rotary; of the learned table the mean, the lowest and the highest
    assert lines[0] == pytest.approx(-(2.0**-2) * np.arange(51)) and lines[3] == pytest.approx(-(2.0**-8) * np.arange(51))
    added = [math.fsum(math.cos(k * angle(i)) - 1 for i in range(32)) / 8 for k in range(51)]
    assert lines[4] == pytest.approx(added, abs=1e-4)
    rotary = [math.fsum(2 * math.cos(k * angle(i, 16)) - 2 for i in range(8)) / 4 for k in range(51)]
    assert lines[5] == pytest.approx(rotary, abs=1e-9)
    assert facts["parameters"] == {"added": 0, "learned": MAX_LEN * D_MODEL, "rotary": 0, "alibi": 0}
    assert (facts["head_dim"], facts["num_heads"]) == (16, 4) and 0 <= facts["spread"] < 1e-9


def test_learned_positions_stand_beside_them_with_what_they_were_trained_in(runs: RunCache, monkeypatch: pytest.MonkeyPatch) -> None:
    _, view, facts = position_schemes.draw_schemes(runs, None, STORE)
    table = load_learned_table()
    rows = table.trained.astype(np.float64)
    mean, lowest, highest = (values(trace["y"]) for trace in figure(view)["data"][6:])
    assert len(mean) == min(51, len(rows) - 19)
    for k in (0, 1, 7):
        apart = [-((rows[p] - rows[p + k]) @ (rows[p] - rows[p + k])) / (2 * math.sqrt(rows.shape[1])) for p in range(len(rows) - k)]
        assert (mean[k], lowest[k], highest[k]) == pytest.approx((sum(apart) / len(apart), min(apart), max(apart)))
    told = facts["table"]
    assert (told["places"], told["tokens"], told["texts"]) == (len(rows), table.tokens, 1000)
    assert told["norm"] == pytest.approx(sum(math.sqrt(row @ row) for row in rows) / len(rows))
    monkeypatch.setattr(position_schemes, "_learned_table", lambda: None)  # its file is damaged
    message, view, facts = position_schemes.draw_schemes(runs, None, STORE)
    assert message is None and facts["table"] is None and len(figure(view)["data"]) == 6


# --- added against joined ---


def test_counts_are_of_the_whole_model_and_this_sentence(runs: RunCache, shown: dict) -> None:
    message, value = position_schemes.draw_join(runs, shown, STORE)
    run = runs.translator.translate("I love you.")
    assert message is None and value["sentence"]
    assert (value["src_len"], value["tgt_len"]) == (len(run.src_tokens), len(run.tgt_in_tokens)) == (6, 6)
    without = position_schemes.draw_join(runs, None, STORE)[1]
    assert (without["src_len"], without["tgt_len"], without["sentence"]) == (10, 10, False)
    config = TransformerConfig(vocab_size=50, d_model=16, num_heads=2, num_encoder_layers=1, num_decoder_layers=2, d_ff=20)
    ways = position_schemes.join_value(config, (7, 3))["ways"]
    assert position_schemes.join_value(config, None)["d_ff"] == "20"
    assert position_schemes.join_value(replace(config, decoder_d_ff=2048), None)["d_ff"] == "20 + 2,048"
    assert ways["added"]["parameters"] == sum(count_parameters(config).values())
    assert ways["mapped"]["parameters"] - ways["added"]["parameters"] == 2 * (32 * 16 + 16)
    assert ways["mapped"]["operations"] - ways["added"]["operations"] == 2 * 10 * 32 * 16 - 10 * 16
    assert (ways["wide"]["width"], ways["added"]["width"]) == (32, 16)


# --- all of them ---

HANDLERS = [
    position_facts.draw_wavelengths, position_facts.draw_distance, position_clocks.draw_clocks, position_schemes.draw_schemes,
    position_schemes.draw_join,
]


@pytest.mark.parametrize("draw", HANDLERS)
@pytest.mark.parametrize("store", [{"model": 7}, {"model": "no/such"}, {"model": ["x"]}])
def test_an_unknown_model_is_a_message(runs: RunCache, draw, store: dict) -> None:
    answer = draw(runs, None, STORE | store)
    assert answer[0]["code"] != "unexpected" and "update" in str(answer[1])  # gr.skip


@pytest.mark.parametrize("draw", [position_facts.draw_wavelengths, position_schemes.draw_join])
def test_a_result_that_is_none_is_a_message(runs: RunCache, draw) -> None:
    assert draw(runs, {"request": "x"}, STORE)[0]["code"] == "invalid_setting"
    assert draw(runs, {"request": {"text": 3}}, STORE)[0]["code"] != "unexpected"


@pytest.mark.parametrize("axis", ["square", 3, None, ["log"]])
def test_an_unknown_axis_is_refused(axis: object) -> None:
    with pytest.raises(InvalidSettingError, match="axis"):
        PositionChoice.from_page({"length": 20, "pairs": [0], "axis": axis}, 64, 128)


def test_small_numbers_are_written_with_true_minus_signs() -> None:
    assert [tiny(value) for value in (0, 2.04e-6, -3e-12)] == ["0", "2.0·10⁻⁶", "−3.0·10⁻¹²"]
