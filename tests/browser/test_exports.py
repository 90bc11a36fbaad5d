"""Saving from the page: every entry of the menu gives a file that holds what is on the screen."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import app
from tests.browser.conftest import Open, serve, wait_for_words
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.panels.choice import KINDS, maps_of

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>window.broken=1</script> & <b>bold</b> =1+1 $x$"


def saved(page: Page, name: str, folder: Path) -> Path:
    page.locator(".menu-button").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=name).click()
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    expect(page.locator("[data-share-said]")).to_have_text(f"Saved: {path.name}")
    return path


def texts(root: ET.Element) -> str:
    return " ".join("".join(node.itertext()) for node in root.iter(f"{SVG}text"))


def pixels(path: Path) -> set[bytes]:
    """A PNG's rows, unpacked: a blank picture has next to none that differ."""
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    data, at = b"", 8
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        if content[at + 4 : at + 8] == b"IDAT":
            data += content[at + 8 : at + 8 + length]
        at += 12 + length
    raw = zlib.decompress(data)
    width, height = (int.from_bytes(content[i : i + 4], "big") for i in (16, 20))
    assert width > 600 and height > 300
    stride = len(raw) // height
    return {raw[i * stride + 1 : (i + 1) * stride] for i in range(height)}


def test_numbers_are_exact(open_page: Open, translator: FakeTranslator, tmp_path: Path) -> None:
    page = open_page()
    page.locator("#sentence textarea").fill("I love you.")
    wait_for_words(page, "aime")
    trace = translator.trace(translator.translate("I love you."))

    path = saved(page, "All maps, .npz", tmp_path)
    assert path.name == "attention-atlas-maps.npz"
    with np.load(path, allow_pickle=False) as file:
        np.testing.assert_array_equal(file["decoder_self_attention"], trace.decoder_self_attention)
        assert json.loads(bytes(file["about"]))["text"] == "I love you."
    found = json.loads(saved(page, "All maps, JSON", tmp_path).read_text(encoding="utf-8"))
    for kind in KINDS:
        np.testing.assert_array_equal(np.array(found["maps"][kind]["weights"]).astype(np.float32), maps_of(trace, kind))

    page.locator("[data-kinds] label", has_text="Encoder").click()
    page.locator("[data-heads] label").filter(has_text=re.compile("^3$")).click()
    path = saved(page, "This map, CSV", tmp_path)
    assert path.name == "attention-atlas-encoder_self-L1H3.csv"
    lines = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"))))
    size = len(trace.src_tokens)
    values = np.array([line["weight"] for line in lines], dtype=np.float32).reshape(size, size)
    np.testing.assert_array_equal(values, trace.encoder_self_attention[1, 3])
    assert [line["key_token"] for line in lines[:size]] == list(trace.src_tokens)
    assert saved(page, "All maps, CSV", tmp_path).name == "attention-atlas-maps.csv"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_hold_what_is_on_the_screen(open_page: Open, tmp_path: Path, theme: str) -> None:
    page = open_page(theme=theme)
    page.locator("#sentence textarea").fill(HOSTILE)
    wait_for_words(page, "WINDOW.BROKEN")
    for name, part in (("Map", ""), ("Words and ribbons", "words-")):
        path = saved(page, f"{name}, SVG", tmp_path)
        assert path.name == f"attention-atlas-{part}cross-L1-mean.svg"
        root = ET.fromstring(path.read_text(encoding="utf-8"))
        content = texts(root)
        assert root.tag == f"{SVG}svg" and "<script>window.broken=1</script>" in content
        assert HOSTILE in content and "Cross-attention · layer 1 · mean of 3 heads · embedded" in content  # the caption
        tags = {node.tag.removeprefix(SVG) for node in root.iter()}
        assert not tags & {"script", "foreignObject", "a", "b", "iframe"}
        assert not [key for node in root.iter() for key in node.attrib if key.lower().startswith("on")]
        ground = {"light": ("#ffffff", "rgb(255, 255, 255)"), "dark": ("#0f1216", "rgb(15, 18, 22)")}[theme]
        assert any(each in path.read_text(encoding="utf-8") for each in ground)
        assert len(pixels(saved(page, f"{name}, PNG", tmp_path))) > 30
    assert page.evaluate("window.broken") is None


def test_the_svg_of_the_words_has_a_ribbon_for_each_weight_drawn(open_page: Open, translator: FakeTranslator, tmp_path: Path) -> None:
    page = open_page()
    weights = translator.trace(translator.translate("I am a student.")).cross_attention[1].mean(axis=0)
    root = ET.fromstring(saved(page, "Words and ribbons, SVG", tmp_path).read_text(encoding="utf-8"))
    assert sum(1 for _ in root.iter(f"{SVG}path")) == int((weights >= 0.02).sum())
    content = texts(root)
    for word in ("student", "étudiant", "suis"):
        assert word in content


def test_the_menu_by_keyboard(open_page: Open) -> None:
    page = open_page()
    button = page.locator(".menu-button")
    button.focus()
    page.keyboard.press("ArrowDown")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitem").last).to_be_focused()
    page.keyboard.press("Home")
    expect(page.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    expect(page.get_by_role("menu")).to_be_hidden()


def test_a_run_that_left_the_cache_is_computed_again_and_saved(open_page: Open, translator: FakeTranslator, tmp_path: Path) -> None:
    demo = app.build_app(translator, recorded_run(translator))
    runs = next(fn.fn for fn in demo.fns.values() if fn.name == "on_export").__closure__
    cache = next(cell.cell_contents for cell in runs if hasattr(cell.cell_contents, "translator_of"))
    try:
        page = open_page(url=serve(demo))
        page.locator("#sentence textarea").fill("I love you.")
        wait_for_words(page, "aime")
        cache._runs.clear()
        path = saved(page, "All maps, .npz", tmp_path)
        with np.load(path, allow_pickle=False) as file:
            assert list(file["src_tokens"])[2] == "▁love"
        page.close()  # before its server: what the page says of a lost server is another test's
    finally:
        demo.close()


def test_a_run_that_never_stays_is_said(open_page: Open, translator: FakeTranslator) -> None:
    demo = app.build_app(translator, recorded_run(translator), max_cache_bytes=1)
    try:
        page = open_page(url=serve(demo))
        page.locator("#sentence textarea").fill("I love you.")
        wait_for_words(page, "aime")
        page.locator(".menu-button").click()
        page.get_by_role("menuitem", name="All maps, .npz").click()
        expect(page.locator("#notice [role=alert]")).to_contain_text("nothing to save")
        expect(page.locator("#sentence textarea")).to_have_value("I love you.")
        page.close()  # before its server, as above
    finally:
        demo.close()
