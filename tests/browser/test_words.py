"""The words of a map and their ribbons: what is drawn is the map."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import wait_for_words
from tests.browser.words_view import LEAST, boxes, check_ribbons, choose, trace_of
from tests.viz.fakes import TWICE, Scripts
from viz.panels.choice import maps_of


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
def test_a_ribbon_is_as_wide_as_its_weight_and_joins_its_two_words(open_words, scripts: Scripts, kind: str) -> None:
    page = open_words(TWICE)
    trace = trace_of(scripts, TWICE)
    choose(page, kind=kind, layer=1, head=2)
    weights = maps_of(trace, kind)[1, 2]
    assert weights.shape[0] != weights.shape[1] or kind != "cross"
    assert (len(boxes(page, "rows")), len(boxes(page, "columns"))) == weights.shape
    check_ribbons(page, weights)
    # another head, at once
    choose(page, head="max")
    check_ribbons(page, maps_of(trace, kind)[1].max(axis=0))


def test_lines_are_the_tokens_and_the_names_of_rows_follow_the_choice(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=0, head=1, rows="predicted")
    plain = [token.removeprefix("▁") for token in trace_of(scripts, TWICE).tgt_out_tokens]
    assert [box["text"] for box in boxes(page, "rows")] == [*plain[:-1], "⟨end⟩"]
    assert [box["text"] for box in boxes(page, "columns")] == ["⟨→ fra⟩", *TWICE.split(), "⟨end⟩"]
    expect(page.locator(".words-name").nth(1)).to_have_text("Below: the words being written")
    choose(page, rows="read")
    assert [box["text"] for box in boxes(page, "rows")] == ["⟨start⟩", *plain[:-1]]
    expect(page.locator(".words-name").nth(1)).to_have_text("Below: the words just read")
    choose(page, kind="encoder_self", head=0)
    assert [box["text"] for box in boxes(page, "rows")] == [box["text"] for box in boxes(page, "columns")]
    page.locator("[data-lang=zh]").click()
    expect(page.locator(".words-name").nth(1)).to_have_text("下行：在看的词")
    assert boxes(page, "rows")[-1]["text"] == "⟨结束⟩"


def test_whole_words_and_hidden_special_tokens(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=1, head=1, rows="predicted", units="words", specials="hidden")
    assert [box["text"] for box in boxes(page, "rows")] == ["le", "chat", "a", "vu", "le", "chat", "et", "a", "couru", "."]
    assert [box["text"] for box in boxes(page, "columns")] == TWICE.split()
    pieces = trace_of(scripts, TWICE).cross_attention[1, 1]
    spans = [(0, 1), (1, 3), (3, 4), (4, 5), (5, 6), (6, 8), (8, 9), (9, 10), (10, 11), (11, 12)]
    check_ribbons(page, np.array([pieces[start:stop].mean(axis=0)[1:-1] for start, stop in spans]))


def test_what_is_left_out_is_said(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=0, head=0)
    weights = trace_of(scripts, TWICE).cross_attention[0, 0]
    share = weights[weights < LEAST].sum() / weights.sum()
    assert share > 0.005
    expect(page.locator(".words-said")).to_contain_text(f"Ribbons under 0.02 are not drawn: {round(100 * share)}% of the weight.")


def test_colours_follow_the_rule_of_the_map(open_words, scripts: Scripts) -> None:
    page = open_words(TWICE)
    choose(page, kind="cross", layer=1, head=0, colour="max")
    weights = trace_of(scripts, TWICE).cross_attention[1, 0]
    page.evaluate("atlas.focus.hover(4, null)")
    np.testing.assert_allclose([box["tint"] for box in boxes(page, "columns")], weights[4] / weights.max(), atol=0.001)
    choose(page, colour="log")
    expected = np.clip(1 + np.log10(weights[4]) / 3, 0, 1)
    np.testing.assert_allclose([box["tint"] for box in boxes(page, "columns")], expected, atol=0.003)


def test_the_causal_mask_is_seen(open_words) -> None:
    page = open_words(TWICE)
    choose(page, kind="decoder_self", layer=0, head=0)
    page.evaluate("atlas.focus.hover(3, null)")
    keys = boxes(page, "columns")
    assert [box["masked"] for box in keys] == [False] * 4 + [True] * (len(keys) - 4)
    page.evaluate("atlas.focus.hover(null, 3)")
    rows = boxes(page, "rows")
    assert [box["masked"] for box in rows] == [True] * 3 + [False] * (len(rows) - 3)
    page.evaluate("atlas.focus.hover(2, 6)")
    expect(page.locator(".words-said")).to_contain_text("cannot look at")


def test_the_picture_follows_a_new_translation(open_words) -> None:
    page = open_words()
    page.evaluate("atlas.focus.pin(1, null)")
    page.locator("#sentence textarea").fill("We will go home.")
    wait_for_words(page, "wEWILLGOHOME.")
    page.wait_for_function("atlas.maps.current().request.text === 'We will go home.'")
    assert [box["text"] for box in boxes(page, "columns")][1:-1] == ["We", "will", "go", "home", "."]
    assert page.locator(".token.pinned").count() == 0
