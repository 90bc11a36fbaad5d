"""The experiments of the Machine tab on the embedded model: what stands on the page is what the model computes, in both languages."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import NARROW

WAIT = 60_000
LONGEST = "The cat sat on the mat because it was tired."


def there(page: Page, name: str) -> None:
    """Scrolls an experiment into view and waits for its numbers."""
    area = page.locator(f"#lab-{name}-area")
    area.scroll_into_view_if_needed(timeout=WAIT)
    expect(area).not_to_have_class(re.compile("lab-empty|lab-old"), timeout=WAIT)


def cells(page: Page, table: str) -> list[list[str]]:
    return page.locator(f"{table} tr").evaluate_all("rows => rows.map((row) => [...row.cells].map((cell) => cell.innerText.trim()))")


def shown_run(page: Page, embedded):
    request = page.evaluate("atlas.result().request")
    return embedded.translate(request["text"], request["target"], request["beam_size"])


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_masks_of_the_batch_on_the_page(open_real, embedded, lang):
    page = open_real("machine", lang=lang)
    there(page, "masks")
    first, second = shown_run(page, embedded), embedded.translate(LONGEST, "fra")
    assert page.locator("#lab-second").input_value() == LONGEST
    src_len, tgt_len = len(second.src_ids), max(len(first.tgt_ids), len(second.tgt_ids))
    columns = page.locator(".lab-mask-kind")
    expect(columns).to_have_count(3)
    for at, (rows, across) in enumerate(((src_len, src_len), (tgt_len, tgt_len), (tgt_len, src_len))):
        for b, each in enumerate((first, second)):
            table = cells(page, f".lab-mask-kind:nth-child({at + 1}) .lab-scroll:nth-of-type({b + 2}) table")
            assert (len(table) - 1, len(table[1]) - 1) == (rows, across)
            for i, row in enumerate(table[1:]):
                seen = i + 1 if at == 1 else len(each.src_ids)
                assert row[1:] == ["0"] * seen + ["−∞"] * (across - seen)
    causal = cells(page, ".lab-mask-kind:nth-child(2) .lab-scroll:nth-of-type(2) table")
    assert [row[0] for row in causal[2 : len(first.tgt_ids) + 1]] == [token.removeprefix("▁") for token in first.tgt_in_tokens[1:]]
    assert re.search(r"(?<!\d)0[ 。.]", page.locator('#lab-masks [data-lab="checked"]').inner_text())  # the leak
    # another second sentence, shorter than the first
    page.locator("#lab-second").fill("Go!")
    page.locator("#lab-second").press("Enter")
    second_table = ".lab-mask-kind:nth-child(1) .lab-scroll:nth-of-type(3) table"
    page.wait_for_function("(table) => document.querySelector(`${table} bdi`).textContent === 'Go!'", arg=second_table, timeout=WAIT)
    table = cells(page, second_table)
    assert len(table) - 1 == len(first.src_ids) and table[1].count("0") == len(embedded.translate("Go!", "fra").src_ids)
    page.wait_for_function("location.search.includes('second=Go')", timeout=WAIT)


def test_masks_of_eighteen_columns_fit_and_one_sentence_is_no_batch(open_real, embedded):
    page = open_real("machine", size=(1440, 900), search=f"&second={LONGEST[:-1].replace(' ', '+')}+and+cold.")
    there(page, "masks")
    over = "[...document.querySelectorAll('#lab-masks .lab-scroll')].map((frame) => frame.scrollWidth - frame.clientWidth)"
    columns = page.evaluate("Math.max(...[...document.querySelectorAll('.lab-mask thead tr')].map((row) => row.children.length - 1))")
    assert columns >= 18 and page.evaluate(over) == [0] * 6
    page.locator("#lab-second").fill("")
    page.locator("#lab-second").press("Enter")
    said = page.locator('#lab-masks [data-lab="checked"]')
    expect(said).to_contain_text("There is one sentence")
    assert "Padding changes" not in said.inner_text() and page.locator("#lab-masks .lab-scroll").count() == 3
    page.wait_for_function("/[?&]second=(&|$)/.test(location.search)", timeout=WAIT)
    page.goto(page.url)
    there(page, "masks")
    expect(said).to_contain_text("There is one sentence")


def test_for_a_sentence_too_long_a_shorter_one_is_offered(open_real, embedded):
    text = "The cat and the dog saw the man. " * 6
    page = open_real("machine", search=f"&text={text.strip().replace(' ', '+')}&beam=1")
    page.wait_for_function("(text) => atlas.result()?.request.text === text", arg=text.strip(), timeout=WAIT)
    page.locator("#lab-masks-area").scroll_into_view_if_needed(timeout=WAIT)
    expect(page.locator("#lab-masks .lab-problem")).to_contain_text("up to 40", timeout=WAIT)
    offer = page.locator('#lab-masks [data-lab="shorter-text"]')
    short = offer.inner_text()
    offer.click()
    page.wait_for_function("(text) => atlas.result()?.request.text === text", arg=short, timeout=WAIT)
    expect(page.locator("#lab-masks .lab-mask-kind")).to_have_count(3, timeout=WAIT)
    expect(offer).to_be_hidden()
    table = cells(page, ".lab-mask-kind:nth-child(1) .lab-scroll:nth-of-type(2) table")
    assert table[1].count("0") == len(embedded.translate(short, "fra").src_ids)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_one_pass_or_many(open_real, embedded, lang):
    page = open_real("machine", lang=lang)
    there(page, "serial")
    run = shown_run(page, embedded)
    steps = len(run.tgt_ids)
    ways = cells(page, ".lab-ways")
    assert ways[1][1:] == ["1", str(steps), str(steps)] and ways[2][1:] == [str(steps), str(steps), str(steps * (steps + 1) // 2)]
    assert all(" ms" in cell for cell in ways[4][1:])
    rows = cells(page, ".lab-steps")[1:]
    written = [token.removeprefix("▁") for token in run.tgt_out_tokens[:-1]]
    assert len(rows) == steps and [row[2] for row in rows[:-1]] == written and [row[1] for row in rows[1:]] == written
    assert all(float(part.split("·10")[0]) < 10 and ("⁻" in part or part == "0") for row in rows for part in row[4].split(" · "))
    before = page.locator(".lab-ways").inner_text()
    page.get_by_role("button", name="Measure again" if lang == "en" else "再测一次").click()
    page.wait_for_function("(before) => document.querySelector('.lab-ways').innerText !== before", arg=before, timeout=WAIT)


def test_norms_heads_scale_and_length(open_real, embedded):
    page = open_real("machine", lang="en")
    there(page, "norms")
    page.wait_for_selector("#lab-norms-plot .main-svg", state="attached", timeout=WAIT)
    expect(page.locator("#lab-norms-foot")).to_contain_text("pre-norm")
    page.locator("#lab-norms label", has_text="2 + 2").click()
    page.wait_for_function("document.querySelector('#lab-norms-plot .plot')._fullData?.[1].x.length === 2", timeout=WAIT)
    page.wait_for_function("location.search.includes('norm_layers=2')", timeout=WAIT)
    there(page, "heads")
    rows = cells(page, ".lab-heads")[1:]
    assert len({tuple(row[2:5]) for row in rows}) == 1 and [row[1] for row in rows] == ["256", "128", "64", "32", "16", "8"]
    own = sum(parameter.numel() for parameter in embedded.model.decoder[0].cross_attn.parameters())
    assert rows[0][2] == f"{own:,}" and rows[3][0].split() == ["8", "this", "model"]
    run = shown_run(page, embedded)
    assert rows[0][5] == str(len(run.tgt_ids) * len(run.src_ids))
    there(page, "scale")
    kind, layer, head = page.evaluate("[atlas.state.kind, atlas.state.layer, atlas.state.head]")
    assert kind == "cross" and isinstance(head, int)
    table = cells(page, ".lab-scale")
    divided = embedded.trace(run).cross_attention[layer, head].max(axis=-1).mean()
    assert table[0][1].startswith(f"L{layer} H{head}") and float(table[3][2]) == pytest.approx(divided, abs=6e-4)
    there(page, "memory")
    table = cells(page, ".lab-memory")
    config = embedded.config
    assert [row[1] for row in table[1:4]] == [str(config.num_encoder_layers)] + [str(config.num_decoder_layers)] * 2
    bytes_here = config.num_heads * len(run.src_ids) ** 2 * 4
    assert table[1][2] == f"{float(f'{bytes_here / 1000:.3g}'):g} kB"


def test_a_narrow_dark_page_scrolls_down_only(open_real):
    page = open_real("machine", size=NARROW, theme="dark", lang="zh", search="&second=Go%21&norm_layers=6")
    for name in ("masks", "serial", "norms", "heads", "scale", "memory"):
        there(page, name)
    assert page.locator("#lab-second").input_value() == "Go!"
    expect(page.locator("#lab-norms label", has_text="6 + 6").locator("input")).to_be_checked()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    small = page.evaluate("""[...document.querySelectorAll('.lab-section *, #lab-head *')]
      .filter((node) => node.checkVisibility() && [...node.childNodes].some((child) => child.nodeType === 3 && child.nodeValue.trim()))
      .filter((node) => parseFloat(getComputedStyle(node).fontSize) < 12)
      .map((node) => node.outerHTML.slice(0, 80))""")
    assert small == []


def test_another_sentence_and_another_language_are_followed(open_real, embedded):
    page = open_real("machine", lang="en")
    there(page, "heads")
    page.locator("#tab-translate-button").click()
    page.locator("#sentence textarea").fill("I love you.")
    page.wait_for_function("atlas.result().request.text === 'I love you.'", timeout=WAIT)
    page.evaluate("atlas.set({kind: 'encoder_self', layer: 0, head: 2})")
    page.locator("#tab-machine-button").click()
    assert page.locator("#lab-heads-area").evaluate("(area) => area.matches('.lab-old')")  # until the new numbers are there
    there(page, "heads")
    length = len(embedded.translate("I love you.", "fra").src_ids)
    assert f"{length} rows × {length} columns" in page.locator("#lab-heads").inner_text()
    page.locator("[data-lang=zh]").click()
    there(page, "heads")  # whose place the other language may have moved, and only what is near is asked for
    expect(page.locator("#lab-heads")).to_contain_text("编码器自注意力")
    there(page, "masks")
    assert page.locator(".lab-mask-kind:nth-child(1) bdi").first.inner_text() == "I love you."
    expect(page.locator(".lab-mask-kind h4").first).to_have_text("编码器自注意力")


def test_by_keyboard_from_the_contents(open_real):
    page = open_real("machine", lang="en")
    link = page.locator(".lab-contents button", has_text="Length")
    link.focus()
    link.press("Enter")
    page.wait_for_function("document.activeElement.textContent === 'What does length cost?'", timeout=WAIT)
    there(page, "memory")


def test_without_weights_the_sections_say_so(open_page):
    page = open_page()
    page.locator("#tab-machine-button").click()
    for name in ("masks", "norms", "memory"):
        page.locator(f"#lab-{name}-area").scroll_into_view_if_needed(timeout=WAIT)
        expect(page.locator(f'#lab-{name} [data-lab="problem"]')).to_contain_text("weights", timeout=WAIT)
