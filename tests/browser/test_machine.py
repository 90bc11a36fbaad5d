"""The Machine tab in a browser: what stands in the picture is read back and held against the real module and its real attention."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Page, expect

import app
from model import load_translator
from model.config import PRESETS, count_parameters
from model.translator import Translator
from tests.browser.conftest import NARROW, Open, serve
from tests.browser.machine_view import block, count_of, drawn, machine, numbers, shapes, state
from tests.model.marian.factories import make_marian_folder


@pytest.fixture(scope="session")
def example(embedded: Translator):
    """The translation that the page opens with, and its trace."""
    translation = embedded.translate("I am a student.", "fra")
    return translation, embedded.trace(translation)


@pytest.mark.parametrize(("lang", "title"), [("en", "Cross-attention"), ("zh", "交叉注意力")])
def test_the_picture_has_the_loaded_model_s_numbers(open_real: Open, embedded: Translator, example, lang: str, title: str) -> None:
    translation, _ = example
    page, model, config = machine(open_real("machine", lang=lang)), embedded._model, embedded.config
    s, t = len(translation.src_ids), len(translation.tgt_ids)
    assert s != t
    assert numbers(page.locator('[data-machine="total"]').inner_text()) == [count_of(model)]
    assert numbers(page.locator('[data-machine="status"]').inner_text())[:2] == [s, t]
    expect(page.locator(".machine-inside h3")).to_have_text(title)  # the block of the head that the page opens with

    open_layers = page.evaluate("[...document.querySelectorAll('.m-layer[aria-expanded=true]')].map((node) => node.dataset.id)")
    assert sorted(name.split(".")[0] for name in open_layers) == ["decoder", "encoder"]
    for name in open_layers:
        stack, layer = name.split(".")
        module = getattr(model, stack)[int(layer)]
        parts = [part for part, _ in module.named_children() if part != "dropout"]
        assert len(parts) == (4 if stack == "encoder" else 6)
        assert numbers(block(page, name).get_attribute("aria-label"))[-1] == count_of(module)
        for part in parts:
            label = block(page, f"{name}.{part}").get_attribute("aria-label")
            assert count_of(getattr(module, part)) in numbers(label), label
            assert count_of(getattr(module, part)) in numbers(drawn(page, f"{name}.{part}"))
    folded = page.locator('.m-layer[aria-expanded="false"]')
    assert folded.count() == config.num_encoder_layers + config.num_decoder_layers - 2
    assert count_of(model.src_embedding) in numbers(drawn(page, "src_embedding"))

    d_model, vocab = config.d_model, config.vocab_size
    # ids, embedded, placed; in the open layer what goes into attention and what each addition gives; what the stack ends in
    encoder = [[s], [s, d_model], [s, d_model], *[[s, d_model]] * 3, [s, d_model]]
    decoder = [[t], [t, d_model], [t, d_model], *[[t, d_model]] * 5, [t, d_model], [t, vocab]]
    assert shapes(page) == [*encoder, *decoder, [s, d_model]]  # and what cross-attention reads
    words = page.locator(".m-token").all_text_contents()
    assert [word for word in words if word.isalpha()] == ["I", "am", "a", "student", "Je", "suis", "étudiant", "Je", "suis", "étudiant"]
    assert page.locator(".m-tokens").count() == 3 and page.locator(".m-token").count() == s + 2 * t


def pixels(page: Page, kind: str, layer: int, head: int) -> np.ndarray:
    """Opacity of every pixel of a head's small picture, [row, column], 0 to 255."""
    url = page.locator(f'.m-head[data-head-kind="{kind}"][data-layer="{layer}"][data-head="{head}"] image').get_attribute("href")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))[..., 3]


def test_small_squares_are_the_real_maps_and_choose_the_head_everywhere(open_real: Open, example) -> None:
    page, (_, trace) = machine(open_real("machine")), example
    maps = {"encoder_self": trace.encoder_self_attention, "decoder_self": trace.decoder_self_attention, "cross": trace.cross_attention}
    assert page.locator(".m-head image").count() == sum(layers.shape[0] * layers.shape[1] for layers in maps.values())
    for kind, layer, head in (("encoder_self", 5, 2), ("decoder_self", 1, 7), ("cross", 0, 3), ("cross", 2, 6)):
        opacity = pixels(page, kind, layer, head)
        assert opacity.shape == maps[kind].shape[2:]
        np.testing.assert_allclose(opacity / 255, maps[kind][layer, head], atol=0.0025)
    page.locator('.m-head[data-head-kind="encoder_self"][data-layer="4"][data-head="6"]').click()
    assert state(page, "kind", "layer", "head") == ["encoder_self", 4, 6]
    expect(page.locator(".m-head.chosen")).to_have_count(1)
    expect(page.locator('.m-head.chosen[data-head-kind="encoder_self"][data-layer="4"][data-head="6"]')).to_be_visible()
    expect(block(page, "encoder.4.self_attn")).to_have_attribute("aria-pressed", "true")  # its layer has opened
    expect(page.locator('.m-head-button[aria-pressed="true"]')).to_have_text("H6")
    page.locator(".m-head-button").nth(1).click()
    assert state(page, "kind", "layer", "head") == ["encoder_self", 4, 1]
    expect(page.locator(".m-head-button").nth(1)).to_be_focused()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_inside_of_a_block_is_the_real_module_s(open_real: Open, embedded: Translator, example, lang: str) -> None:
    translation, _ = example
    page, model = machine(open_real("machine", lang=lang, search="&block=decoder.2.cross_attn")), embedded._model
    rows = page.locator(".m-tensors tbody tr")
    told = {}
    for row in rows.all():
        name, shape, count = (cell.inner_text() for cell in row.locator("th, td").all())
        told[f"decoder.2.cross_attn.{name}"] = numbers(shape)
        assert numbers(count) == [int(np.prod(numbers(shape)))]
    real = {name: list(parameter.shape) for name, parameter in model.named_parameters() if name.startswith("decoder.2.cross_attn.")}
    assert told == real and len(real) == 8
    s, t, heads, width = len(translation.src_ids), len(translation.tgt_ids), embedded.config.num_heads, embedded.config.d_model
    head_dim = width // heads
    flow = [numbers(text) for text in page.locator(".m-row-shape").all_inner_texts()][:10]
    assert flow == [
        *([t, width], [s, width], [3, width, width], [heads, t, head_dim], [heads, s, head_dim], [heads, t, s], [heads, t, s]),
        *([t, width], [width, width], [t, width]),
    ]
    page.locator(".m-actions button").first.click()
    expect(page.locator("#tab-steps-button")).to_have_attribute("aria-selected", "true")
    assert state(page, "kind", "layer") == ["cross", 2]


def test_the_address_keeps_how_large_the_picture_is(open_real: Open) -> None:
    page = machine(open_real("machine"))
    page.locator('[data-machine="in"]').click()
    page.locator('[data-machine="in"]').click()
    width = page.locator(".m-picture").bounding_box()["width"]
    page.wait_for_function("new URLSearchParams(location.search).get('zoom') === '150'")
    page.goto(page.url)
    machine(page)
    expect(page.locator('[data-machine="scale"]')).to_have_text("150%")
    assert page.locator(".m-picture").bounding_box()["width"] == pytest.approx(width, abs=1)


def test_a_feed_forward_s_inside_multiplies_out_and_tells_its_share(open_real: Open, embedded: Translator, example) -> None:
    translation, _ = example
    page, model, config = machine(open_real("machine", search="&block=decoder.1.feed_forward")), embedded._model, embedded.config
    t, width, inner = len(translation.tgt_ids), config.d_model, config.d_ff
    flow = [numbers(text) for text in page.locator(".m-row-shape").all_inner_texts()][:5]
    assert flow == [[t, width], [width, inner], [t, inner], [inner, width], [t, width]]
    layer = count_of(model.decoder[1])
    share = count_of(model.decoder[1].feed_forward) / layer
    expect(page.locator(".machine-inside")).to_contain_text(f"It has {share:.0%} of its layer's {layer:,} parameters.")


def test_what_is_inside_stays_beside_the_block_that_was_opened(open_real: Open, embedded: Translator) -> None:
    page = machine(open_real("machine"))
    block(page, "softmax").scroll_into_view_if_needed()
    block(page, "softmax").click()
    expect(page.locator(".machine-inside h3")).to_have_text("softmax")
    expect(page.locator(".machine-inside h3")).to_be_in_viewport()
    assert numbers(page.locator(".m-row-shape").last.inner_text())[1] == embedded.config.vocab_size


def test_by_keyboard_from_block_to_block_and_inside(open_real: Open) -> None:
    page = machine(open_real("machine", search="&block=encoder.0.self_attn"))
    focused = "document.activeElement.dataset?.id ?? document.activeElement.tagName"
    assert page.locator(".m-picture [tabindex='0']").count() == 1
    block(page, "encoder.0.self_attn").focus()
    for key, place in (
        ("ArrowDown", "encoder.0.feed_forward_norm"), ("ArrowDown", "encoder.0.feed_forward"), ("ArrowUp", "encoder.0.feed_forward_norm"),
        ("Home", "src_embedding"), ("ArrowRight", "tgt_embedding"), ("End", "softmax"), ("ArrowUp", "output"), ("ArrowLeft", "memory"),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert page.evaluate(focused) == place, key
    assert page.locator(".m-picture [tabindex='0']").count() == 1
    page.keyboard.press("Enter")
    assert page.evaluate(focused) == "H3" and page.locator(".machine-inside").get_attribute("data-block") == "memory"
    page.keyboard.press("Escape")
    assert page.evaluate(focused) == "memory"
    page.keyboard.press("ArrowUp")  # the norm that closes the stack
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == "encoder.5"
    page.keyboard.press(" ")
    expect(block(page, "encoder.5")).to_have_attribute("aria-expanded", "true")
    assert page.evaluate(focused) == "encoder.5"
    page.wait_for_function("new URLSearchParams(location.search).get('block') === 'encoder.5'")


@pytest.mark.parametrize("wrong", ["decoder.77.cross_attn", "encoder.0.cross_attn", "constructor", "foo.0.bar"])
def test_a_block_that_is_not_there_is_named_and_left_out(open_real: Open, wrong: str) -> None:
    page = machine(open_real("machine", search=f"&block={wrong}&config=nonsense&own=0.0.0.0.0.0.x.y"))
    page.wait_for_function("atlas.leftOut.all().length === 3")
    assert dict(page.evaluate("atlas.leftOut.all()")) == {"block": wrong, "config": "nonsense", "own": "0.0.0.0.0.0.x.y"}
    page.wait_for_function("!/block|config|own/.test(location.search)")
    expect(page.locator(".machine-inside h3")).to_have_text("Cross-attention")


def test_by_keyboard_from_head_to_head(open_real: Open) -> None:
    page = machine(open_real("machine", search="&block=encoder.2.self_attn"))
    heads = page.locator(".m-head-button")
    heads.nth(3).focus()
    for key, head in (("ArrowRight", 4), ("ArrowDown", 5), ("ArrowLeft", 4), ("ArrowUp", 3), ("ArrowLeft", 2)):
        page.keyboard.press(key)
        expect(heads.nth(head)).to_be_focused()
    for key in ("Enter", " "):
        page.keyboard.press(key)
        expect(heads.nth(2)).to_be_focused()
        expect(heads.nth(2)).to_have_attribute("aria-pressed", "true")
    assert state(page, "kind", "layer", "head") == ["encoder_self", 2, 2]


@pytest.mark.parametrize(("number", "tab"), list(enumerate(["steps", "heads", "translate"])))
def test_a_way_out_leads_to_a_tab_that_the_address_names(open_real: Open, number: int, tab: str) -> None:
    page = machine(open_real("machine", search="&block=encoder.2.self_attn"))
    page.locator(".m-actions button").nth(number).click()
    expect(page.locator(f"#tab-{tab}-button")).to_have_attribute("aria-selected", "true")
    page.wait_for_function("(tab) => (new URLSearchParams(location.search).get('tab') ?? 'translate') === tab", arg=tab)
    assert state(page, "tab", "kind", "layer") == [tab, "encoder_self", 2]


@pytest.fixture(scope="module")
def marian(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load_translator(str(make_marian_folder(tmp_path_factory.mktemp("marian"), separate_vocabs=True)))


@pytest.fixture(scope="module")
def marian_site(marian: Translator) -> Iterator[str]:
    demo = app.build_app(marian)
    yield serve(demo)
    demo.close()


def test_a_marian_model_with_unequal_stacks(marian_site: str, marian: Translator, open_page: Open) -> None:
    page = open_page(url=marian_site, picture=False)
    page.locator("#tab-machine-button").click()
    machine(page)
    config, model = marian.config, marian._model
    assert (config.norm, config.tie_output, config.encoder.num_heads, config.decoder.num_heads) == ("post", True, 4, 2)
    assert numbers(page.locator('[data-machine="total"]').inner_text()) == [count_of(model)]
    texts = {name: drawn(page, name) for name in ("src_embedding", "tgt_embedding", "output")}
    for name, sizes in (("src_embedding", config.encoder), ("tgt_embedding", config.decoder)):
        assert numbers(texts[name])[0] == sizes.vocab_size
    for name in ("encoder.0.self_attn_norm", "decoder.0.cross_attn_norm", "decoder.0.feed_forward_norm"):  # counts beside
        assert numbers(drawn(page, name)) == [count_of(model.get_submodule(name))]
    expect(page.locator(".m-tying")).to_contain_text("cannot share one")
    assert "the target embedding again" in texts["output"] and model.output_bias.numel() in numbers(texts["output"])
    assert page.locator(".m-tie").count() == 0  # two vocabularies, two matrices
    assert page.locator(".m-head[data-kind=encoder_self]").count() == 2 * 4 and page.locator(".m-head[data-kind=cross]").count() == 3 * 2
    facts = {fact.get_attribute("data-fact"): fact.locator("dd").inner_text() for fact in page.locator(".m-fact").all()}
    assert (facts["layers"], facts["heads"], facts["d_ff"]) == ("2 + 3", "4 / 2", "24 / 40")
    assert facts["norm"] == "post-norm" and "all sines" in facts["positions"] and facts["bias"] == "yes"
    assert facts["tied"] == "target and output are one" and facts["numbers"].startswith("float32")
    assert "S" in page.locator(".m-shape").first.text_content()  # no sentence yet
    page.locator("#tab-translate-button").click()
    page.locator("#sentence textarea").fill("I am a student.")
    page.wait_for_function("atlas.result()?.request.text === 'I am a student.'")
    page.locator("#tab-machine-button").click()
    source, target = page.evaluate("[atlas.result().num_tokens.source, atlas.result().num_tokens.target]")
    expect(page.locator(".m-shape").first).to_have_text(f"[{source}]")
    assert [target, config.decoder.vocab_size] in shapes(page)
    assert page.locator(".m-head image").count() == 2 * 4 + 3 * 2 * 2


def test_a_model_that_does_not_tell_its_sizes_leaves_the_paper_s(open_page: Open) -> None:
    page = open_page()
    page.locator("#tab-machine-button").click()
    machine(page)
    assert numbers(page.locator('[data-machine="total"]').inner_text()) == [sum(count_parameters(PRESETS["base"]).values())]
    expect(page.locator('[data-machine="status"]')).to_contain_text("the paper's base model")
    expect(page.locator('[data-machine="configs"] input').first).to_be_disabled()
    expect(page.locator('[data-machine="facts"]')).to_contain_text("No checkpoint")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_on_a_narrow_screen_the_picture_scrolls_in_its_frame(open_real: Open, theme: str) -> None:
    page = machine(open_real("machine", lang="zh", size=NARROW, theme=theme, search="&block=decoder.0.feed_forward"))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    frame = "document.querySelector('.machine-frame')"
    assert page.evaluate(f"{frame}.scrollWidth") > 850 > page.evaluate(f"{frame}.clientWidth")
    small = """[...document.querySelectorAll('.machine *')].filter((node) => node.checkVisibility()
      && [...node.childNodes].some((each) => each.nodeType === 3 && each.nodeValue.trim())
      && parseFloat(getComputedStyle(node).fontSize) < 12).map((node) => node.textContent)"""
    assert page.evaluate(small) == []
    assert page.evaluate(f"{frame}.scrollLeft") > 300  # the block that the address names is in sight
    place, room = block(page, "decoder.0.feed_forward").bounding_box(), page.locator(".machine-frame").bounding_box()
    assert room["x"] <= place["x"] and place["x"] + place["width"] <= room["x"] + room["width"]
    page.locator('[data-machine="in"]').click()
    assert page.evaluate(f"{frame}.scrollWidth") > 1050
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.evaluate(f"{frame}.scrollLeft = 9999")
    block(page, "decoder.0.feed_forward_norm").click()
    expect(page.locator(".machine-inside")).to_have_attribute("data-block", "decoder.0.feed_forward_norm")
    expect(page.locator(".machine-inside h3")).to_be_in_viewport()
