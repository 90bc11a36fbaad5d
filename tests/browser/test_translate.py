"""The Translate tab in a browser: type, translate, choose maps, hover, hostile input."""

from __future__ import annotations

import time

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW, WIDE, Ignored, Open, figure, resting_box, wait_for_words, wait_until_drawn
from tests.viz.fakes import DECODER, ENCODER, FakeTranslator, pieces
from viz.panels.choice import maps_of

SENTENCE = "We will not go home."
WITHIN = 1e-5  # weights travel as 16-bit fixed point


def type_sentence(page: Page, text: str) -> None:
    page.locator("#sentence textarea").fill(text)


def pick(page: Page, group: str, label: str) -> None:
    page.locator(f"[data-{group}] label", has_text=label).first.click()


def test_the_page_opens_with_the_recorded_run(open_page: Open, translator: FakeTranslator) -> None:
    page = open_page()
    trace = translator.trace(translator.translate("I am a student."))
    shown = figure(page)
    assert shown["kind"] == "cross"
    assert shown["rows"] == list(trace.tgt_out_tokens) and shown["columns"] == list(trace.src_tokens)
    np.testing.assert_allclose(shown["z"], trace.cross_attention[-1].mean(axis=0), atol=WITHIN)
    expect(page.locator("#result .badge")).to_have_text("recorded")
    expect(page.locator("#sentence textarea")).to_have_value("I am a student.")


def test_typing_translates_and_draws_without_a_click(open_page: Open, translator: FakeTranslator) -> None:
    page = open_page()
    before = figure(page)["drawn"]
    page.locator("#sentence textarea").fill("")
    page.locator("#sentence textarea").press_sequentially(SENTENCE, delay=15)
    wait_for_words(page, "wEWILLNOTGOHOME.")
    wait_until_drawn(page, before)
    expect(page.locator("#result .badge")).to_have_text("live")
    translation = translator.translate(SENTENCE)
    assert figure(page)["rows"] == list(translation.tgt_out_tokens)
    probability = page.locator("#result .word-probability").first
    expect(probability).to_have_text("98%")


def test_enter_translates_at_once(open_page: Open) -> None:
    page = open_page()
    type_sentence(page, "I love you.")
    page.locator("#sentence textarea").press("Enter")
    wait_for_words(page, "aime")
    expect(page.locator("#sentence textarea")).to_have_value("I love you.")


@pytest.mark.parametrize(("kind", "label"), [("encoder_self", "Encoder"), ("decoder_self", "Decoder"), ("cross", "Cross")])
def test_every_head_of_every_kind(open_page: Open, translator: FakeTranslator, kind: str, label: str) -> None:
    page = open_page()
    trace = translator.trace(translator.translate("I am a student."))
    maps = maps_of(trace, kind)
    layers, heads = ENCODER if kind == "encoder_self" else DECODER
    before = figure(page)["drawn"]
    if kind != "cross":
        pick(page, "kinds", label)
        wait_until_drawn(page, before)
    assert figure(page)["kind"] == kind
    expect(page.locator("[data-layers] label")).to_have_count(layers)
    expect(page.locator("[data-heads] label")).to_have_count(heads + 4)  # mean, max, rollout, norm

    before = figure(page)["drawn"]
    pick(page, "layers", "0")
    wait_until_drawn(page, before)
    before = figure(page)["drawn"]
    pick(page, "heads", str(heads - 1))
    wait_until_drawn(page, before)
    z = np.array(figure(page)["z"], dtype=float)
    expected = maps[0, heads - 1]
    visible = np.tril(np.ones_like(expected, dtype=bool)) if kind == "decoder_self" else np.ones_like(expected, dtype=bool)
    np.testing.assert_allclose(z[visible], expected[visible], atol=WITHIN)

    before = figure(page)["drawn"]
    pick(page, "heads", "max")
    wait_until_drawn(page, before)
    z = np.array(figure(page)["z"], dtype=float)
    np.testing.assert_allclose(z[visible], maps[0].max(axis=0)[visible], atol=WITHIN)


def test_the_choice_of_map_survives_a_new_sentence(open_page: Open) -> None:
    page = open_page()
    before = figure(page)["drawn"]
    pick(page, "kinds", "Decoder")
    pick(page, "heads", "1")
    wait_until_drawn(page, before)
    type_sentence(page, SENTENCE)
    wait_for_words(page, "HOME")
    expect(page.locator("#map-head h2")).to_have_text("Decoder causal attention · layer 1 · head 1")
    assert figure(page)["kind"] == "decoder_self"


def test_rows_can_be_named_by_the_token_read(open_page: Open) -> None:
    page = open_page()
    first = figure(page)
    pick(page, "rows", "reads")
    wait_until_drawn(page, first["drawn"])
    second = figure(page)
    assert second["rows"] == ["<s>", *first["rows"][:-1]]
    assert second["z"] == first["z"]
    before = second["drawn"]
    pick(page, "kinds", "Encoder")
    wait_until_drawn(page, before)
    expect(page.locator("[data-rows] input").first).to_be_disabled()


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_hover_reads_the_right_pair_and_value(open_page: Open, translator: FakeTranslator, size: tuple[int, int]) -> None:
    page = open_page(size)
    trace = translator.trace(translator.translate("I am a student."))
    row, column = 1, 4  # "suis" looks at "student": off the diagonal, so swapped axes read something else
    page.locator("#map").scroll_into_view_if_needed()
    spot = page.evaluate(
        """([row, column]) => {
          const plot = document.querySelector('#map .plot'), layout = plot._fullLayout, box = plot.getBoundingClientRect();
          return [box.left + layout.xaxis._offset + layout.xaxis.l2p(column), box.top + layout.yaxis._offset + layout.yaxis.l2p(row)];
        }""",
        [row, column],
    )
    page.mouse.move(spot[0] - 3, spot[1] - 3)
    page.mouse.move(*spot)
    label = page.locator("#map .hoverlayer .hovertext")
    expect(label).to_be_visible()
    words = label.text_content()
    value = trace.cross_attention[-1].mean(axis=0)[row, column]
    assert "suis" in words and "student" in words and f"{value:.4f}" in words


def test_zoom_survives_another_head_and_the_other_language(open_page: Open) -> None:
    page = open_page()
    page.locator("#map .nsewdrag").first.scroll_into_view_if_needed()
    box = resting_box(page.locator("#map .nsewdrag").first)
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.3)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + box["height"] * 0.7, steps=4)
    page.mouse.up()
    page.wait_for_function("document.querySelector('#map .plot')._fullLayout.xaxis.range[0] > 0")
    zoomed = figure(page)
    pick(page, "heads", "2")
    wait_until_drawn(page, zoomed["drawn"])
    assert figure(page)["range"] == zoomed["range"]
    before = figure(page)["drawn"]
    page.locator("[data-lang=zh]").click()
    wait_until_drawn(page, before)
    assert figure(page)["range"] == zoomed["range"]

    # a map of another width, zoomed and double-clicked: back to the whole of this one, not of the first
    # (by its kind: another drawing, of the language, may come in between)
    pick(page, "kinds", "解码器")
    page.wait_for_function("document.querySelector('#map .plot')._fullLayout.meta.kind === 'decoder_self'")
    assert figure(page)["range"] == [-0.5, 4.5]
    page.locator("#map .nsewdrag").first.scroll_into_view_if_needed()
    box = resting_box(page.locator("#map .nsewdrag").first)
    page.mouse.dblclick(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.8)
    page.wait_for_timeout(500)
    assert figure(page)["range"] == [-0.5, 4.5]
    pick(page, "kinds", "交叉")
    page.wait_for_function("document.querySelector('#map .plot')._fullLayout.meta.kind === 'cross'")
    page.locator("#map .nsewdrag").first.scroll_into_view_if_needed()
    box = resting_box(page.locator("#map .nsewdrag").first)
    page.mouse.dblclick(box["x"] + box["width"] * 0.2, box["y"] + box["height"] * 0.8)
    page.wait_for_function("document.querySelector('#map .plot')._fullLayout.xaxis.range[0] < 0")
    assert figure(page)["range"] == [-0.5, 6.5]


def test_target_and_beam(open_page: Open) -> None:
    page = open_page()
    type_sentence(page, "I love you.")
    wait_for_words(page, "aime")
    pick(page, "targets", "Chinese")
    wait_for_words(page, "我爱你。")
    pick(page, "beams", "1")
    expect(page.locator("[data-beams] input:checked")).to_have_count(1)


def test_a_map_picked_while_a_translation_is_under_way_is_the_new_one(open_page: Open, translator: FakeTranslator, monkeypatch) -> None:
    page = open_page()
    quick = translator.translate

    def slow(*args, **kwargs):
        time.sleep(1.0)
        return quick(*args, **kwargs)

    monkeypatch.setattr(translator, "translate", slow)
    type_sentence(page, "Crossing answers get lost.")
    page.locator("#sentence textarea").press("Enter")
    page.wait_for_timeout(200)
    pick(page, "kinds", "Encoder")
    pick(page, "heads", "3")
    wait_for_words(page, "ANSWERS")
    num_keys = len(pieces("Crossing answers get lost.")) + 2
    page.wait_for_function("(n) => document.querySelector('#map .plot').layout.meta.keys.length === n", arg=num_keys)
    trace = translator.trace(quick("Crossing answers get lost."))
    page.wait_for_function("document.querySelector('#map .plot').layout.meta.kind === 'encoder_self'")
    page.wait_for_timeout(300)
    np.testing.assert_allclose(figure(page)["z"], trace.encoder_self_attention[1, 3], atol=WITHIN)


def test_the_last_of_many_quick_choices_is_drawn(open_page: Open, translator: FakeTranslator) -> None:
    page = open_page()
    page.evaluate(
        """async () => {
          for (let i = 0; i < 12; i++) {
            document.querySelectorAll('[data-heads] input')[i % 5].click();
            await new Promise((resolve) => setTimeout(resolve, 10));
          }
        }"""
    )
    expect(page.locator("#map-head h2")).to_have_text("Cross-attention · layer 1 · maximum of 3 heads")
    trace = translator.trace(translator.translate("I am a student."))
    peak = float(trace.cross_attention[1].max(axis=0)[0, 0])
    page.wait_for_function("(z) => Math.abs(document.querySelector('#map .plot')._fullData[0].z[0][0] - z) < 1e-5", arg=peak)
    page.wait_for_timeout(500)
    expect(page.locator("body.atlas-working")).to_have_count(0)


def test_the_example_of_a_given_translation_is_in_the_target_language(open_page: Open) -> None:
    page = open_page()
    page.locator("#given-toggle button").click()
    expect(page.locator("#given textarea")).to_have_attribute("placeholder", "Je suis étudiante.")
    pick(page, "targets", "Chinese")
    expect(page.locator("#given textarea")).to_have_attribute("placeholder", "我是一名学生。")


def test_a_given_translation(open_page: Open) -> None:
    page = open_page()
    page.locator("#given-toggle button").click()
    page.locator("#given textarea").fill("Je suis une étudiante.")
    page.locator("#given textarea").press("Enter")
    wait_for_words(page, "Jesuisuneétudiante.")
    expect(page.locator("#result .badge")).to_have_text("given")
    assert "▁une" in figure(page)["rows"]
    page.locator("[data-back]").click()
    wait_for_words(page, "Jesuisétudiant.")
    expect(page.locator("#result .badge")).to_have_text("live")


HOSTILE = (
    "<script>window.broken = 1</script> said he.",
    '<img src=x onerror="window.broken=1"> and so on.',
    "The <b>cat</b> & the <s>dog</s>.",
    "It costs $x$ and $100 today.",
    "Say ${window.broken=1} and {{value}} and `now`.",
    "I 😀 love 👩‍👩‍👧 you.",
    "שלום and مرحبا again.",
    "constructor __proto__ toString",
)


def test_hostile_text_is_only_text(open_page: Open) -> None:
    page = open_page()
    for text in HOSTILE:
        before = figure(page)["drawn"]
        type_sentence(page, text)
        wait_until_drawn(page, before)
        assert figure(page)["columns"][1:-1] == list(pieces(text)), text
        printed = page.evaluate("[...document.querySelectorAll('#map .x2tick text')].map((node) => node.textContent.trim())")
        first = pieces(text)[0].replace("▁", "")
        assert printed[1].strip("\u2068\u2069")[:4] == first[:4], text  # as it stands, not as markup
        expect(page.locator("#sentence textarea")).to_have_value(text)
        assert page.locator("#map script, #map b, #map s, #map img, #result script, #result img, #result b").count() == 0
    assert page.evaluate("window.broken") is None


TROUBLE = (
    ("", "nothing to translate"),
    ("   ", "nothing to translate"),
    ("word " * 1000, "1002 tokens"),
    ("\u200b\u0007", "control or invisible"),
)


def test_a_clear_message_and_the_page_goes_on(open_page: Open) -> None:
    page = open_page()
    alert = page.locator("#notice [role=alert]")
    for text, message in TROUBLE:
        shown = figure(page)
        type_sentence(page, text)
        expect(alert).to_contain_text(message)
        assert figure(page)["rows"] == shown["rows"]  # the old picture stays
        assert page.locator("#sentence textarea").input_value() == text
        type_sentence(page, f"I love you {len(text)} times.")
        wait_for_words(page, f"LOVEYOU{len(text)}TIMES")
        expect(alert).to_be_hidden()


def test_no_answer_from_the_server_is_said_and_the_text_stays(open_page: Open) -> None:
    page = open_page(fresh=True)  # its clock is its context's
    open_page.guards[-1].complaints = Ignored()  # the browser itself logs the refused request
    page.route("**/gradio_api/queue/join*", lambda route: route.fulfill(status=503, json={"detail": "Queue is full."}))
    page.clock.install()
    type_sentence(page, "Is anybody there?")
    said = page.locator("#notice [role=alert]")
    for _ in range(60):  # it asks several times before it gives up, ever more seconds apart
        page.clock.fast_forward(20_000)
        page.wait_for_timeout(200)
        if "did not answer" in (said.text_content() or ""):
            break
    expect(said).to_contain_text("did not answer")
    page.clock.resume()
    expect(page.locator("#sentence textarea")).to_have_value("Is anybody there?")
    page.unroute("**/gradio_api/queue/join*")
    type_sentence(page, "Is anybody here?")
    wait_for_words(page, "ANYBODYHERE")
    expect(page.locator("#notice [role=alert]")).to_be_hidden()


def test_ones_own_translation_opens_by_a_click(open_page: Open) -> None:
    """What else stands on its line lets the pointer through."""
    page = open_page()
    page.locator("#given-toggle button").click()
    expect(page.locator("#given-toggle button")).to_have_attribute("aria-expanded", "true")


@pytest.mark.parametrize("units", ["pieces", "whole words"])
def test_a_row_of_which_all_is_hidden(open_page: Open, units: str) -> None:
    """The first row of the decoder sees the start token alone; without it, it has nothing to look at, and the rest still shows."""
    page = open_page()
    pick(page, "units", units)
    pick(page, "specials", "hidden")
    pick(page, "rows", "predicts")
    before = figure(page)["drawn"]
    pick(page, "kinds", "Decoder")
    wait_until_drawn(page, before)
    shown = figure(page)
    assert shown["kind"] == "decoder_self" and shown["rows"][0].endswith("Je")
    first = page.locator(".words-line.rows .token").first
    expect(first).to_have_attribute("aria-label", "Je, row 0: all that it looks at is hidden")
    expect(page.locator("#map figcaption")).to_contain_text("Je: all that it looks at is hidden.")


def test_another_language_is_translated_into_by_the_model(open_page: Open) -> None:
    page = open_page()
    page.locator("#given-toggle button").click()
    page.locator("#given textarea").fill("Je suis une fille.")
    page.locator("#given textarea").press("Enter")
    expect(page.locator("#result .badge")).to_have_text("given")
    pick(page, "targets", "Chinese")
    expect(page.locator("#result .badge")).to_have_text("live")
    expect(page.locator("#given textarea")).to_have_value("Je suis une fille.")
