"""The sizes that Machine counts beside each other, and those of the visitor's own."""

from __future__ import annotations

from dataclasses import replace

from playwright.sync_api import Page, expect

from model.config import PRESETS, TransformerConfig, count_parameters
from model.translator import Translator
from tests.browser.conftest import Open
from tests.browser.machine_view import block, count_of, machine, numbers


def compared(page: Page) -> dict[str, dict[str, int]]:
    """Counts of the table below the picture: configuration -> part -> parameters."""
    names = page.locator(".m-compare .m-config").all_inner_texts()
    parts = list(count_parameters(PRESETS["base"]))
    cells = [[numbers(cell)[0] for cell in row.locator("td").all_inner_texts()] for row in page.locator(".m-compare tbody tr").all()]
    return {name: dict(zip(parts, (row[at] for row in cells), strict=False)) for at, name in enumerate(names)}


def test_configurations_beside_each_other_and_one_s_own(open_real: Open, embedded: Translator) -> None:
    page = machine(open_real("machine", search="&config=own&own=48.6.5.2.96.700.pre.none&fold=one"))
    wanted = TransformerConfig(
        vocab_size=700, d_model=48, num_heads=6, num_encoder_layers=5, num_decoder_layers=2, d_ff=96, norm="pre", tie_embeddings=False
    )
    assert numbers(page.locator('[data-machine="total"]').inner_text()) == [sum(count_parameters(wanted).values())]
    assert list(compared(page).values()) == [count_parameters(each) for each in (embedded.config, PRESETS["base"], PRESETS["big"], wanted)]
    tied = sum(count_parameters(replace(wanted, tie_embeddings=True)).values())
    assert numbers(page.locator(".m-tying").inner_text())[:1] == [tied]
    assert f"{sum(count_parameters(wanted).values()):,} with three, {2 * 700 * 48:,} more" in page.locator(".m-tying").inner_text()
    expect(page.locator(".machine-compare")).to_contain_text("63.1 and 214.2 million")
    assert page.locator(".m-head image").count() == 0  # no maps are shown for what was never run
    assert page.locator(".m-head").count() == 3 * 6 and page.locator(".m-layer:not(.m-step)").count() == 2
    block(page, "encoder.on").click()
    expect(block(page, "encoder.1.self_attn")).to_be_visible()

    heads = page.locator('.machine-own input[name="num_heads"]')
    heads.fill("7")
    top = block(page, "src_embedding").bounding_box()["y"]
    expect(page.locator(".machine-refused")).to_contain_text("48 dimensions cannot be split into 7 heads")
    expect(page.locator(".machine-body")).to_have_css("opacity", "0.4")  # what is there answers older sizes
    assert block(page, "src_embedding").bounding_box()["y"] == top
    heads.fill("65")
    expect(page.locator(".machine-refused")).to_have_text("heads must be a whole number from 1 to 64; “65” is none.")
    assert page.evaluate("new URLSearchParams(location.search).get('own')") == "48.6.5.2.96.700.pre.none"  # the last that could be
    heads.fill("12")
    expect(page.locator(".machine-refused")).to_be_empty()
    expect(page.locator(".machine-body")).to_have_css("opacity", "1")
    expect(block(page, "encoder.1.self_attn").locator(".m-about")).to_have_text("12 heads of 4 dimensions")
    page.wait_for_function("new URLSearchParams(location.search).get('own') === '48.12.5.2.96.700.pre.none'")
    page.locator('[data-machine="configs"] label').nth(1).click()
    expect(page.locator('[data-machine="total"]')).to_contain_text(f"{sum(count_parameters(PRESETS['base']).values()):,}")
    page.wait_for_function("new URLSearchParams(location.search).get('config') === 'base'")
    expect(block(page, "encoder_norm")).to_have_count(0)  # post-norm has none to close a stack


def test_own_sizes_that_another_configuration_has_are_said_to_be_the_same(open_real: Open) -> None:
    page = machine(open_real("machine", search="&config=own"))
    status = page.locator('[data-machine="status"]')
    expect(status).to_contain_text("The same sizes as: loaded model.")
    page.locator('.machine-own input[name="num_decoder_layers"]').fill("2")
    expect(status).not_to_contain_text("same sizes")
    page.locator('[data-machine="configs"] label').nth(0).click()
    expect(page.locator(".machine-body")).to_have_css("opacity", "1")
    expect(status).not_to_contain_text("same sizes")


def test_sizes_that_cannot_be_leave_the_loaded_model_to_look_at(open_real: Open, embedded: Translator) -> None:
    page = machine(open_real("machine", search="&config=own&own=511.8.6.3.1024.12000.pre.all"))
    expect(page.locator(".machine-refused")).to_contain_text("511 is odd")
    expect(page.locator(".machine.refused")).to_have_count(1)
    fields = [page.locator(f'.machine-own input[name="{name}"]').input_value() for name in ("d_model", "num_decoder_layers", "vocab_size")]
    assert fields == ["511", "3", "12000"] and page.locator(".machine-own .choice").count() == 4
    assert numbers(page.locator('[data-machine="total"]').inner_text()) == [count_of(embedded._model)]
    assert page.locator(".m-head image").count() > 0
    page.wait_for_function("!new URLSearchParams(location.search).has('own')")
    page.locator('[data-machine="configs"] label').nth(1).click()
    expect(page.locator('[data-machine="total"]')).to_contain_text(f"{sum(count_parameters(PRESETS['base']).values()):,}")
    expect(page.locator(".machine.refused")).to_have_count(0)
    page.locator('[data-machine="configs"] label').nth(3).click()
    expect(page.locator(".machine-refused")).to_contain_text("511 is odd")
    page.locator('[data-machine="configs"] label').nth(0).click()
    expect(page.locator('[data-machine="total"]')).to_contain_text(f"{count_of(embedded._model):,}")


def test_refused_sizes_put_no_tokens_on_the_shapes_of_another_sentence(open_real: Open) -> None:
    page = machine(open_real("machine", search="&config=own&own=511.8.6.3.1024.12000.pre.all&text=I+love+you."))
    expect(page.locator(".machine-refused")).to_contain_text("511 is odd")
    page.wait_for_function("atlas.result().request.text === 'I love you.' && atlas.maps.current().request.text === 'I love you.'")
    counted = numbers(page.locator('[data-machine="status"]').inner_text())[0]
    assert ("love" in page.locator(".m-picture").text_content()) == (counted == page.evaluate("atlas.result().num_tokens.source"))


def test_an_empty_field_is_said_to_be_empty(open_real: Open) -> None:
    page = machine(open_real("machine", search="&config=own"))
    page.locator('.machine-own input[name="d_ff"]').fill("")
    expect(page.locator(".machine-refused")).to_contain_text("the field is empty")
    expect(page.locator(".machine-refused")).not_to_contain_text("None")


def test_an_answer_overwrites_nothing_that_was_typed_after_its_question(open_real: Open) -> None:
    page = machine(open_real("machine", search="&config=own"))
    wanted = {"d_model": 48, "num_heads": 6, "num_encoder_layers": 5, "num_decoder_layers": 2, "d_ff": 96, "vocab_size": 700}
    for name, size in wanted.items():
        page.locator(f'.machine-own input[name="{name}"]').fill(str(size))
        page.wait_for_timeout(310)  # just after the last one was asked for
    page.wait_for_function("new URLSearchParams(location.search).get('own')?.startsWith('48.6.5.2.96.700.')")
    assert {name: int(page.locator(f'.machine-own input[name="{name}"]').input_value()) for name in wanted} == wanted


def test_the_largest_counts_do_not_run_into_their_neighbours(open_real: Open) -> None:
    page = machine(open_real("machine", search="&config=own&own=16384.64.48.48.65536.1000000.pre.none"))
    expect(block(page, "decoder.0.feed_forward").locator(".m-count")).to_have_text("2.15B")
    overlaps = """[...document.querySelectorAll('.m-block')].flatMap((node) => {
      const texts = [...node.querySelectorAll('text')].map((text) => [text.textContent, text.getBoundingClientRect()]);
      return texts.flatMap(([one, a], at) => texts.slice(at + 1)
        .filter(([, b]) => a.left < b.right && b.left < a.right && a.top < b.bottom - 3 && b.top < a.bottom - 3)
        .map(([two]) => `${one} / ${two}`));
    })"""
    assert page.evaluate(overlaps) == []
    lines = "[...document.querySelectorAll('.machine-own .choice span')].map((node) => node.getClientRects().length && node.offsetHeight)"
    assert max(page.evaluate(lines)) < 36
