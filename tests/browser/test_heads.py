"""The strip of heads and the Heads tab: pixels against the trace, roles and orders against `model.analysis`, filters, keys, widths."""

from __future__ import annotations

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import app
from model.analysis.profile import HeadProfile
from model.analysis.roles import ROLES, HeadRole, head_roles
from model.hooks import ATTENTION_KINDS
from model.results import AttentionTrace
from tests.browser.conftest import Open, figure, heads_tab, order_by, serve
from tests.viz.fakes import FakeTranslator, recorded_run
from viz.figures.colors import DARK, KIND_COLORS, LIGHT
from viz.panels.heads import MEASURES
from viz.runs import Run
from viz.text import LANGUAGES

EN = LANGUAGES["en"]
MASK = np.array([128, 132, 140])


@pytest.fixture
def trace(translator: FakeTranslator) -> AttentionTrace:
    return translator.trace(translator.translate("I am a student."))


def maps_of(trace: AttentionTrace, kind: str) -> np.ndarray:
    return getattr(trace, f"{kind}_attention")


def rgb(colour: str) -> np.ndarray:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)])


def colours(weights: np.ndarray, kind: str, page: str, strength: float = 1) -> np.ndarray:
    """[Q, K, 3]: from the page's ground at 0 to the kind's colour at 1; what a causal map hides is a grey veil."""
    ground = rgb(page)
    found = ground + (rgb(KIND_COLORS[kind]) - ground) * weights[..., None] * strength
    if kind == "decoder_self":
        q, k = np.mgrid[: weights.shape[0], : weights.shape[1]]
        found[k > q] = ground + (MASK - ground) * 0.16 * strength
    return found


def painted(page: Page, scope: str, cell: tuple[str, int, int], shape: tuple[int, int]) -> np.ndarray:
    """[Q, K, 3]: the middle pixel of every cell of a small picture."""
    data = page.evaluate(
        """([scope, cell]) => {
          const button = document.querySelector(`${scope} [data-cell="${cell}"]`);
          const canvas = button.parentNode.querySelector("canvas");
          const ratio = canvas.width / canvas.clientWidth;
          const [x, y, side] = [button.offsetLeft, button.offsetTop, button.offsetWidth].map((size) => Math.round(size * ratio));
          return {side, data: Array.from(canvas.getContext("2d").getImageData(x, y, side, side).data)};
        }""",
        [scope, "-".join(map(str, cell))],
    )
    side = data["side"]
    pixels = np.array(data["data"]).reshape(side, side, 4)
    assert (pixels[..., 3] == 255).all()
    rows, columns = (((np.arange(count) + 0.5) * side / count).astype(int) for count in shape)
    return pixels[rows][:, columns, :3]


def captions(page: Page) -> list[tuple[str, list[str]]]:
    return page.evaluate(
        """[...document.querySelectorAll("#heads-sheet [data-cell]")]
          .map((b) => [b.dataset.cell, [...b.querySelectorAll(".mosaic-caption > span")].map((s) => s.textContent)])"""
    )


def place(head: HeadRole) -> str:
    return f"{head.kind}-{head.layer}-{head.head}"


def said(value: float | None) -> str:
    return "–" if value is None else f"{round(value, 4):.2f}"


# --- pixels ---


@pytest.mark.parametrize(("theme", "ground"), [("light", LIGHT.page), ("dark", DARK.page)])
def test_the_strip_paints_every_head_of_the_chosen_kind(open_heads: Open, trace: AttentionTrace, theme: str, ground: str) -> None:
    page = open_heads(theme=theme)
    for kind in ATTENTION_KINDS:
        page.evaluate("(kind) => atlas.set({kind})", kind)
        maps = maps_of(trace, kind)
        assert page.locator("#heads-strip [data-cell]").count() == maps.shape[0] * maps.shape[1]
        for layer, head in np.ndindex(*maps.shape[:2]):
            seen = painted(page, "#heads-strip", (kind, layer, head), maps.shape[2:])
            np.testing.assert_allclose(seen, colours(maps[layer, head], kind, ground), atol=2)
            other = maps[layer, (head + 1) % maps.shape[1]]
            assert np.abs(seen - colours(other, kind, ground)).max() > 20  # so that heads that are swapped would be seen


def test_the_sheet_paints_all_kinds_and_follows_theme_and_scale(open_heads: Open, trace: AttentionTrace) -> None:
    page = heads_tab(open_heads())
    page.locator("[data-theme]").click()
    for kind in ATTENTION_KINDS:
        maps = maps_of(trace, kind)
        seen = painted(page, "#heads-sheet", (kind, 1, 2), maps.shape[2:])
        np.testing.assert_allclose(seen, colours(maps[1, 2], kind, DARK.page), atol=2)
    page.evaluate("atlas.set({colour: 'max'})")
    maps = trace.cross_attention[1, 2]
    np.testing.assert_allclose(
        painted(page, "#heads-sheet", ("cross", 1, 2), maps.shape), colours(maps / maps.max(), "cross", DARK.page), atol=3
    )
    page.evaluate("atlas.set({colour: 'log'})")
    coarse = np.rint(maps * 255) / 255
    level = np.where(coarse > 0.001, np.log10(np.maximum(coarse, 0.001)) / 3 + 1, 0)
    np.testing.assert_allclose(painted(page, "#heads-sheet", ("cross", 1, 2), maps.shape), colours(level, "cross", DARK.page), atol=3)


def test_what_is_in_focus_is_marked_on_every_picture_it_belongs_to(open_heads: Open, trace: AttentionTrace) -> None:
    page = heads_tab(open_heads())
    page.evaluate("atlas.focus.hover(3, 1)")  # a cell of the cross map: row 3, source token 1

    def marked(kind: str, shape: tuple[int, int]) -> tuple[set[int], set[int]]:
        alpha = page.evaluate(
            """([kind, q, k]) => {
              const button = document.querySelector(`#heads-sheet [data-cell="${kind}-1-1"]`);
              const context = button.parentNode.querySelector(".mosaic-lines").getContext("2d");
              const side = button.offsetWidth;
              const at = (x, y) => context.getImageData(button.offsetLeft + Math.floor(x), button.offsetTop + Math.floor(y), 1, 1).data[3];
              return Array.from({length: q}, (_, i) => Array.from({length: k}, (_, j) => at((j + 0.5) * side / k, (i + 0.5) * side / q)));
            }""",
            [kind, *shape],
        )
        on = np.array(alpha) > 0
        return set(np.flatnonzero(on.all(axis=1))), set(np.flatnonzero(on.all(axis=0)))

    queries, keys = trace.cross_attention.shape[2:]
    assert marked("cross", (queries, keys)) == ({3}, {1})
    assert marked("decoder_self", (queries, queries)) == ({3}, set())
    assert marked("encoder_self", (keys, keys)) == (set(), {1})
    page.evaluate("atlas.focus.leave()")
    assert marked("cross", (queries, keys)) == (set(), set())


# --- roles and numbers ---


def test_every_head_is_named_with_its_role_and_number(open_heads: Open, trace: AttentionTrace) -> None:
    page = heads_tab(open_heads())
    cells = "[...document.querySelectorAll('#heads-sheet [data-cell]')]"
    names = page.evaluate(f"Object.fromEntries({cells}.map((b) => [b.dataset.cell, b.getAttribute('aria-label')]))")
    for head in head_roles(trace):
        role = EN[f"role.{head.role}"]
        if head.score is not None:
            role += f", {said(head.score)}"
        elif head.leaning is not None:
            role += f", leans to {EN[f'role.{head.leaning}']}, {said(head.measures[head.leaning])}"
        assert names.pop(place(head)) == f"{EN[f'kind.{head.kind}']}, L{head.layer} H{head.head}: {role}"
    assert names == {}
    buttons = "[...document.querySelectorAll('[data-sheet=facet-roles] button')]"
    counts = page.evaluate(f"Object.fromEntries({buttons}.map((b) => [b.value, +b.lastChild.textContent]))")
    assert counts == {role: sum(head.role == role for head in head_roles(trace)) for role in ROLES}


def test_sorted_by_each_measure_in_both_directions(open_heads: Open, trace: AttentionTrace) -> None:
    page = heads_tab(open_heads())
    heads = head_roles(trace)
    for measure in MEASURES:
        order_by(page, measure)
        values = {place(head): head.measures.get(measure) for head in heads}
        known = [head for head in heads if values[place(head)] is not None]
        missing = [head for head in heads if values[place(head)] is None]
        for sign, direction in ((-1, "largest"), (1, "smallest")):
            wanted = sorted(known, key=lambda head: sign * round(values[place(head)], 4)) + missing  # equal ones stay as they are
            found = [[place(head), [f"L{head.layer} H{head.head}", said(values[place(head)])]] for head in wanted]
            assert captions(page) == found, (measure, direction)
            status = f"All {len(heads)} heads, by {EN[f'measure.{measure}']}, {direction} first"
            expect(page.locator("[data-sheet=status]")).to_have_text(status)
            page.locator("[data-sheet=direction]").click()
        if measure == "alignment":
            assert len({values[place(head)] for head in known}) < len(known) < len(heads)  # ties and heads without a value are among them
            expect(page.locator("[data-sheet=help]")).to_contain_text(f"{len(missing)} of them have no value")


def test_sorted_by_role(open_heads: Open, trace: AttentionTrace) -> None:
    page = heads_tab(open_heads())
    order_by(page, "role")
    wanted = sorted(head_roles(trace), key=lambda head: (ROLES.index(head.role), -round(head.score or 0, 4)))
    assert captions(page) == [
        [place(head), [f"L{head.layer} H{head.head}", said(head.score), EN[f"role.{head.role}.short"]]] for head in wanted
    ]


def test_filters_step_back_when_laid_out_and_leave_when_sorted(open_heads: Open, trace: AttentionTrace) -> None:
    page = heads_tab(open_heads())
    heads = head_roles(trace)
    role = next(head.role for head in heads if head.kind == "cross")
    page.locator(f"[data-sheet=facet-roles] .{role}").click()
    page.locator("[data-sheet=facet-kinds] .cross").click()
    kept = [head for head in heads if head.role == role and head.kind == "cross"]
    assert 0 < len(kept) < len(heads)
    expect(page.locator("[data-sheet=status]")).to_have_text(f"{len(kept)} of {len(heads)} heads, by layer and head")
    bold = page.evaluate("[...document.querySelectorAll('#heads-sheet [data-cell]:not(.faint-head)')].map((b) => b.dataset.cell)")
    assert bold == [place(head) for head in kept]
    weights = trace.encoder_self_attention[2, 1]
    np.testing.assert_allclose(
        painted(page, "#heads-sheet", ("encoder_self", 2, 1), weights.shape), colours(weights, "encoder_self", LIGHT.page, 0.22), atol=2
    )
    order_by(page, "start")
    assert sorted(cell for cell, _ in captions(page)) == sorted(place(head) for head in kept)
    page.locator("[data-sheet=clear]").click()
    assert len(captions(page)) == len(heads)


def test_measured_on_many_sentences(open_heads: Open, translator: FakeTranslator, trace: AttentionTrace) -> None:
    other = head_roles(translator.trace(translator.translate("The cat sat on the mat because it was tired.")))
    run = recorded_run(translator)
    profile = HeadProfile(500, other)
    demo = app.build_app(translator, Run(run.request, run.translation, run.trace, 0.0, profile=profile))
    try:
        page = heads_tab(open_heads(url=serve(demo)))
        order_by(page, "end")
        before = captions(page)
        page.locator("[data-sheet=basis] label", has_text="500 test sentences").click()
        here, there = ({place(head): said(head.measures.get("end")) for head in heads} for heads in (head_roles(trace), other))
        assert {cell: number for cell, (_, number) in before} == here
        assert {cell: number for cell, (_, number) in captions(page)} == there != here
        expect(page.locator("[data-sheet=help]")).to_contain_text("means over 500 test sentences")
    finally:
        demo.close()


def test_without_test_sentences_the_switch_says_why(open_heads: Open) -> None:
    page = heads_tab(open_heads())
    expect(page.locator("[data-sheet=basis] input").nth(1)).to_be_disabled()
    expect(page.locator("[data-sheet=why]")).to_have_text(EN["heads.basis.why"])


# --- choosing ---


def test_a_click_chooses_the_head_everywhere(open_heads: Open, trace: AttentionTrace) -> None:
    page = heads_tab(open_heads())
    page.locator('#heads-sheet [data-cell="encoder_self-2-1"]').click()
    head = next(each for each in head_roles(trace) if place(each) == "encoder_self-2-1")
    expect(page.locator("#heads-sheet .sheet-side .head-said-name")).to_have_text("Chosen: L2 H1")
    expect(page.locator("#heads-sheet .head-measures")).to_be_visible()
    numbers = page.locator("#heads-sheet .head-measures dd").all_inner_texts()
    names = page.locator("#heads-sheet .head-measures dt").all_inner_texts()
    assert dict(zip(names, numbers, strict=True)) == {
        EN[f"measure.{name}"]: said(head.measures.get(name))
        for name in MEASURES
    }
    page.get_by_role("button", name="See it in Translate").click()
    page.wait_for_function("document.querySelector('#map .plot').layout.meta.kind === 'encoder_self'")
    np.testing.assert_allclose(figure(page)["z"], trace.encoder_self_attention[2, 1], atol=1e-5)
    expect(page.locator('#heads-strip [data-cell="encoder_self-2-1"]')).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#heads-strip .head-said-name")).to_have_text("Chosen: L2 H1")


def test_the_large_map_shows_the_chosen_head_and_exact_weights(open_heads: Open, trace: AttentionTrace) -> None:
    page = heads_tab(open_heads())
    page.locator('#heads-sheet [data-cell="cross-1-2"]').click()
    weights = trace.cross_attention[1, 2]
    got = page.evaluate(
        """() => { const canvas = document.querySelector("#heads-sheet .head-map canvas");
          const box = JSON.parse(canvas.dataset.box);
          return {box, data: Array.from(canvas.getContext("2d").getImageData(...box).data)}; }"""
    )
    x, y, width, height = got["box"]
    pixels = np.array(got["data"]).reshape(height, width, 4)[..., :3]
    rows, columns = (((np.arange(n) + 0.5) * size / n).astype(int) for n, size in zip(weights.shape, (height, width), strict=True))
    np.testing.assert_allclose(pixels[rows][:, columns], colours(weights, "cross", LIGHT.page), atol=2)
    row, column = 3, 1
    frame = page.locator("#heads-sheet .head-map")
    frame.hover(position={"x": x + (column + 0.5) * width / weights.shape[1], "y": y + (row + 0.5) * height / weights.shape[0]})
    line = page.locator("#heads-sheet .head-map-said")
    expect(line).to_have_text(f". (3) → I (1) · weight {weights[row, column]:.4f}")
    assert page.evaluate("(({row, column}) => [row, column])(atlas.focus.get())") == [row, column]
    frame.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(line).to_have_text(f"étudiant (2) → am (2) · weight {weights[2, 2]:.4f}")


def test_arrow_keys_move_in_two_dimensions_and_enter_chooses(open_heads: Open) -> None:
    page = open_heads()
    page.evaluate("atlas.set({kind: 'encoder_self', layer: 0, head: 1})")
    strip = page.locator("#heads-strip")
    assert strip.locator("[tabindex='0']").count() == 1
    strip.locator("[tabindex='0']").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "ArrowLeft"):
        page.keyboard.press(key)
    focused = strip.locator('[data-cell="encoder_self-2-1"]')
    expect(focused).to_be_focused()
    expect(strip.locator(".head-said-name")).to_have_text("L2 H1")
    assert focused.evaluate("(node) => getComputedStyle(node).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.evaluate("[atlas.state.kind, atlas.state.layer, atlas.state.head]") == ["encoder_self", 2, 1]
    expect(focused).to_be_focused()
    page.keyboard.press("End")
    expect(strip.locator('[data-cell="encoder_self-2-3"]')).to_be_focused()
    heads_tab(page)
    order_by(page, "end")
    cells = [cell for cell, _ in captions(page)]
    page.locator(f'#heads-sheet [data-cell="{cells[0]}"]').focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(f'#heads-sheet [data-cell="{cells[1]}"]')).to_be_focused()


def test_all_heads_of_a_layer_together_are_framed_as_a_layer(open_heads: Open) -> None:
    page = open_heads()
    page.evaluate("atlas.set({kind: 'encoder_self', layer: 1, head: 'mean'})")
    frame, first, last = (page.locator(f"#heads-strip {find}") for find in
                          (".mosaic-layer", '[data-cell="encoder_self-1-0"]', '[data-cell="encoder_self-1-3"]'))
    box, start, end = frame.bounding_box(), first.bounding_box(), last.bounding_box()
    assert (box["x"], box["y"], box["height"]) == (start["x"], start["y"], start["height"])
    assert box["x"] + box["width"] == end["x"] + end["width"]
    assert page.locator("#heads-strip [aria-pressed=true]").count() == 0
    expect(page.locator("#heads-strip .head-said-name")).to_have_text("Chosen: layer 1, mean of 4 heads")


def test_the_sheet_drawn_while_hidden_is_right_when_it_is_opened(open_heads: Open, translator: FakeTranslator) -> None:
    page = open_heads()
    page.locator("#sentence textarea").fill("I love you.")
    page.wait_for_function("atlas.maps.current().request.text === 'I love you.'")
    heads_tab(page)
    trace = translator.trace(translator.translate("I love you."))
    for kind in ATTENTION_KINDS:
        weights = maps_of(trace, kind)[1, 0]
        np.testing.assert_allclose(
            painted(page, "#heads-sheet", (kind, 1, 0), weights.shape), colours(weights, kind, LIGHT.page), atol=2
        )
