"""The code at the depth "Formula" run by Python, piece after piece as it stands on the page, with the model's own modules: it must leave
the numbers of the walk, in models of every make."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from playwright.sync_api import Page, expect

import app
from model.analysis.walkthrough import Place, Speech, Walk, walk
from model.masks import causal_mask
from model.transformer import Transformer
from model.translator import Translator
from tests.browser.conftest import Open
from tests.browser.steps_view import built, payload, wait_for_walk
from tests.model.analysis.walk_reference import SHAPES, SRC_IDS, TGT_IDS
from tests.model.factories import tiny_model
from viz.runs import Run

BANNED = (0, 3, 5)
PLACES = [Place("encoder_self", layer, 3, 4 - layer) for layer in (0, 1)]
PLACES += [Place("decoder_self", 0, 0, 3), Place("decoder_self", 2, 1, 2), Place("cross", 1, 1, 5), Place("cross", 2, 0, 0)]
ON_PAGE = """() => [...document.querySelectorAll(".walk-group")].map((group) =>
  [...group.querySelectorAll(".step")].map((step) => [step.dataset.step, step.querySelector("code")?.textContent ?? ""]))"""
TEXTS = """(groups) => groups.map((steps) => steps.map((step) => [step.dataset.step, step.querySelector("WHERE")?.textContent ?? ""]))"""
Groups = list[list[tuple[str, str]]]


@pytest.fixture(scope="module")
def run() -> Run:
    return app.recorded_run()


class Desk:
    """A model laid out under the names that the code uses, for one row of one head."""

    def __init__(self, model: Transformer, src_ids: tuple[int, ...], tgt_ids: tuple[int, ...], banned: tuple[int, ...], walk: Walk) -> None:
        self.walk, self.place = walk, walk.place
        of_encoder = self.place.kind == "encoder_self"
        config, blocks = model.config, model.encoder if of_encoder else model.decoder
        embedding = model.src_embedding if of_encoder else model.tgt_embedding
        ids = src_ids if of_encoder else (config.bos_id, *tgt_ids[:-1])
        memory = model.encode(torch.tensor([src_ids]))
        mask = causal_mask(len(ids), 0, memory.device)
        if of_encoder:
            layers = [lambda rows, block=block: block(rows[None], None)[0] for block in blocks]
        else:
            layers = [lambda rows, memory, block=block: block(rows[None], memory[None], mask, None)[0] for block in blocks]
        self.block, self.layers = blocks[self.place.layer], layers
        self.num_heads = self.block.self_attn.num_heads
        self.rows = embedding(torch.tensor([ids]), model.positions[: len(ids)])[0]
        self.final_norm = model.encoder_norm if of_encoder else model.decoder_norm
        self.names = {
            "torch": torch, "F": F, "sentence": "sentence", "translation": "translation", "start_id": config.bos_id,
            "tokenizer": SimpleNamespace(encode=lambda text: list({"sentence": src_ids, "translation": tgt_ids}[text])),
            "position": self.place.row, "layer": self.place.layer, "head": self.place.head,
            "d_model": config.d_model, "head_dim": config.d_model // self.num_heads, "eps": config.layer_norm_eps,
            "embedding": embedding.tokens, "positions": model.positions,
            "layers": layers, "x_of_every_token": list(self.rows), "never_written": list(banned),
        }  # fmt: skip
        if not of_encoder:
            self.names |= {"memory": memory[0], "output_weight": model.output_weight, "output_bias": model.output_bias}
        if config.norm == "pre":
            self.names["final_norm"] = self.final_norm

    def after_layers(self, count: int) -> torch.Tensor:
        rows = self.rows
        for layer in self.layers[:count]:
            rows = layer(rows) if self.place.kind == "encoder_self" else layer(rows, self.names["memory"])
        return rows

    def enter(self, sublayer: str) -> None:
        """The modules of one sublayer, under the names that they have in it."""
        norm, module = getattr(self.block, f"{sublayer}_norm"), getattr(self.block, sublayer)
        self.names |= {"layer_norm": norm, "gamma": norm.weight, "beta": norm.bias}
        maps = ("q_proj", "k_proj", "v_proj", "out_proj", "linear1", "linear2")
        self.names |= {name: getattr(module, name) for name in maps if hasattr(module, name)}
        for name in ("self", "cross"):
            if hasattr(self.block, f"{name}_attn"):
                attention = getattr(self.block, f"{name}_attn")
                self.names[f"{name}_attention"] = lambda x, rows, attention=attention: attention(x[None, None], rows[None], None)[0, 0]

    def heads(self, codes: list[str], before: dict[str, object]) -> list[torch.Tensor]:
        """What the code of one head leaves, head by head; before: the names as it finds them."""
        found = []
        for head in range(self.num_heads):
            names = {**before, "head": head}
            for code in codes:
                exec(code, names)
            found.append(names["out"])
        return found


def follow(groups: Groups, desk: Desk) -> int:
    """Runs the code of all steps in order and holds what it leaves against the walk. Returns how many numbers were held."""
    names, ours, held = desk.names, desk.walk, 0
    attention = ours.attention
    sublayers = [None, *ours.sublayers, None]
    assert len(groups) == len(sublayers)
    for group, sublayer in zip(groups, sublayers, strict=True):
        if sublayer is not None:
            desk.enter(sublayer.name)
        of_head: list[str] = []
        before: dict[str, object] = {}
        for step, code in group:
            if step == "qkv":
                before = dict(names)
            if step == "join":
                names["out_of_every_head"] = desk.heads(of_head, before)
            if step in ("later", "memory"):
                rows = desk.after_layers(ours.place.layer + 1 if step == "later" else len(desk.layers))
                names["x_of_every_token"] = list(rows if step == "later" else desk.final_norm(rows))
            exec(code, names)
            if step in ("qkv", "scores", "mask", "softmax", "mix"):
                of_head.append(code)
            expected = {
                "token": {"token_id": ours.token_id}, "embedding": {"e": ours.scaled},
                "position": {"pe": ours.encoding, "x": ours.total}, "stream": {"x": ours.sublayers[0].before},
                "norm": sublayer and {"n": sublayer.normed}, "qkv": {"q": attention.q, "k": attention.k, "v": attention.v},
                "scores": {"scores": attention.scores}, "mask": {"scores": np.where(attention.masked, -np.inf, attention.scores)},
                "softmax": {"weights": attention.weights}, "mix": {"out": attention.head_output},
                "join": {"joined": attention.joined, "y": attention.projected}, "other": sublayer and {"y": sublayer.output},
                "add": sublayer and {"x": sublayer.after}, "hidden": {"hidden": ours.hidden, "active": ours.active},
                "output": sublayer and {"y": sublayer.output}, "later": {"x": ours.final},
            }.get(step, {})  # fmt: skip
            for name, value in expected.items():
                np.testing.assert_allclose(names[name], value, atol=2e-4, rtol=1e-3, err_msg=f"{ours.place} {step} {name}")
                held += np.size(value)
    if ours.top is None:
        np.testing.assert_allclose(names["memory"][ours.place.row], ours.final, atol=2e-4)
    else:
        for guess in (*ours.top, ours.written):
            assert float(names["probs"][guess.token_id]) == pytest.approx(guess.probability, abs=2e-4), (ours.place, guess)
    return held


@pytest.mark.parametrize("kind", ["encoder_self", "decoder_self", "cross"])
def test_the_code_on_the_page_gives_the_numbers_on_the_page(open_real: Open, embedded: Translator, run: Run, kind: str) -> None:
    layer, head, row = {"encoder_self": (2, 5, 3), "decoder_self": (1, 3, 2), "cross": (0, 2, 3)}[kind]
    page = open_real("steps", search=f"&kind={kind}&layer={layer}&head={head}&step={row}&depth=formula")
    wait_for_walk(page, kind=kind, layer=layer, row=row)
    expect(page.locator("[data-step=later] code")).to_contain_text("final_norm")
    translation = run.translation
    ours = embedded.walk(translation, kind, layer, head, row)
    with torch.inference_mode():
        desk = Desk(embedded.model, translation.src_ids, translation.tgt_ids, tuple(embedded._banned_ids), ours)
        assert follow(page.evaluate(ON_PAGE), desk) > 3000


@pytest.fixture
def page(open_real: Open) -> Page:
    return open_real("steps")


def test_so_it_does_in_models_of_every_make(page: Page) -> None:
    """Post-norm and pre-norm, both layouts, every activation, outputs that are tied or not, with a bias or without, untied stacks."""
    for shape, changes in SHAPES.items():
        model = tiny_model(**changes)
        for place in PLACES:
            if place.head >= (model.config.encoder if place.kind == "encoder_self" else model.config.decoder).num_heads:
                continue
            for renormalize in (True, False):
                ours = walk(model, SRC_IDS, TGT_IDS, place, Speech(BANNED, renormalize, str))
                groups = built(page, payload(model.config, ours), TEXTS.replace("WHERE", "code"))
                with torch.inference_mode():
                    held = follow(groups, Desk(model, SRC_IDS, TGT_IDS, BANNED, ours))
                assert held > 250, (shape, place)


def test_a_table_of_other_positions_is_not_told_as_sines(page: Page) -> None:
    model = tiny_model()
    place = Place("decoder_self", 1, 1, 3)
    told = """(groups) => {
      const position = groups[0].find(({dataset}) => dataset.step === "position");
      return [position.querySelector(".step-story").textContent, position.querySelector(".formula").textContent];
    }"""
    sum_of = """(sent) => {
      const {before, facts, position} = atlas.steps.decode(JSON.parse(sent));
      const {node, start} = atlas.steps.sumArea(() => {}, () => {});
      start({title: "", context: {w: before, f: facts, position}, stage: "encoding", index: 5});
      return node.textContent;
    }"""
    for own in (False, True):
        if own:
            model.positions = torch.randn(model.positions.shape, generator=torch.Generator().manual_seed(0))
        ours = walk(model, SRC_IDS, TGT_IDS, place, Speech(BANNED, True, str))
        sent = payload(model.config, ours)
        with torch.inference_mode():
            assert follow(built(page, sent, TEXTS.replace("WHERE", "code")), Desk(model, SRC_IDS, TGT_IDS, BANNED, ours)) > 250
        story, formula = built(page, sent, told)
        assert ("a table of positions of its own" in story, "sin" in formula) == (own, not own)
        value = f"{ours.encoding[5]:.4f}".replace("-", "−")
        if own:
            assert page.evaluate(sum_of, sent) == f"{value} stands in the model's own table of positions, row 3, column 5."
        else:
            assert page.evaluate(sum_of, sent).endswith(f"= {value}")


def test_the_formula_says_what_the_logits_are_made_of(page: Page) -> None:
    """One matrix or another, a bias or none: in the formula as in the code."""
    found = {}
    for shape, changes in SHAPES.items():
        model = tiny_model(**changes)
        sent = payload(model.config, walk(model, SRC_IDS, TGT_IDS, Place("cross", 1, 1, 2), Speech(BANNED, True, str)))
        found[shape] = built(page, sent, TEXTS.replace("WHERE", ".formula"))[-1][-1][1].split(",")[0]
    assert found["paper"] == "z = x E⊤" and found["unequal stacks, untied"] == "z = x U⊤ + b"
    assert found["pre-norm, silu, unscaled, output tied"] == "z = x E⊤"
    assert sum("+ b" in formula for formula in found.values()) == 1
