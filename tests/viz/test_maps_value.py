"""What the page gets of a run: read back by itself, and compared with the trace."""

from __future__ import annotations

import base64
import json
import struct
import time

import numpy as np
import pytest

from model.analysis.profile import HeadProfile
from model.analysis.roles import head_roles
from model.errors import InvalidSettingError
from model.results import AttentionTrace
from tests.viz.fakes import DECODER, ENCODER, FakeTranslator, recorded_run, weights
from tests.viz.test_map_view import RUN, SPECIAL, WORDS
from viz.panels.choice import KINDS, maps_of
from viz.panels.maps_value import fixed_point, layer_value, maps_value, thumbnails
from viz.runs import Request, Run

STEP = 0.5 / 65535 + 1e-7


def refuse(constant: str) -> None:
    raise AssertionError(constant)


def read(value: str) -> dict:
    return json.loads(value, parse_constant=refuse)


def numbers(text: str, *shape: int) -> np.ndarray:
    """Unsigned 16 bits, low byte first, by the standard library."""
    data = base64.b64decode(text)
    return np.array(struct.unpack(f"<{len(data) // 2}H", data)).reshape(shape) / 65535


def numbers_of(kind: str, text: str, *shape: int) -> np.ndarray:
    """Of causal maps only keys 0 .. i of row i are sent; the rest is 0."""
    if kind != "decoder_self":
        return numbers(text, *shape)
    side = shape[-1]
    cells = numbers(text, *shape[:-2], side * (side + 1) // 2)
    found, at = np.zeros(shape), 0
    for row in range(side):
        found[..., row, : row + 1] = cells[..., at : at + row + 1]
        at += row + 1
    return found


def cells(text: str, kind: str, *shape: int) -> np.ndarray:
    """The same as [..., query, key]; of a causal map only keys up to the query are sent."""
    if kind != "decoder_self":
        return numbers(text, *shape)
    *heads, size, _ = shape
    found = np.zeros(shape)
    sent = iter(numbers(text, int(np.prod(heads)) * size * (size + 1) // 2))
    for place in np.ndindex(*heads):
        for query in range(size):
            for key in range(query + 1):
                found[(*place, query, key)] = next(sent)
    assert next(sent, None) is None
    return found


def long_run(source: int, target: int, layers: int = 2, heads: int = 3) -> Run:
    """A run of everyday words of which many are repeated."""
    stock = ["▁the", "▁student", "▁language", "s", ",", "▁because", "▁tomorrow", "▁I", "▁under", "stand", "▁was"]
    src = (">>fra<<", *(stock[i % len(stock)] for i in range(source - 2)), "</s>")
    out = (*(stock[(3 * i) % len(stock)] for i in range(target - 1)), "</s>")
    trace = AttentionTrace(
        weights(layers, heads, source, source, 1),
        weights(layers, heads, target, target, 2, causal=True),
        weights(layers, heads, target, source, 3),
        src,
        ("<s>", *out[:-1]),
        out,
    )
    norms = {kind: weights(layers, 1, *maps_of(trace, kind).shape[2:], 4 + i)[:, 0] for i, kind in enumerate(KINDS)}
    return Run(Request("x" * 200, "fra"), RUN.translation, trace, 0.0, norms=norms)


def test_every_weight_comes_back() -> None:
    value = read(maps_value(RUN))
    assert value["request"] == RUN.request.as_dict() and set(value["kinds"]) == set(KINDS) and value["profile"] is None
    for kind in KINDS:
        maps, of = maps_of(RUN.trace, kind), value["kinds"][kind]
        assert (of["layers"], of["heads"]) == maps.shape[:2] and of["thumbs"] is None
        for name, source in (("weights", maps), ("rollout", RUN.rollout[kind]), ("norm", RUN.norms[kind])):
            assert len(of[name]) == of["layers"]
            for layer, text in enumerate(of[name]):
                np.testing.assert_allclose(numbers_of(kind, text, *source.shape[1:]), source[layer], atol=STEP)


def test_labels_say_which_positions_they_cover() -> None:
    sides = read(maps_value(RUN))["sides"]
    for side, tokens in (("source", RUN.trace.src_tokens), ("read", RUN.trace.tgt_in_tokens), ("predicted", RUN.trace.tgt_out_tokens)):
        pieces, words = sides[side]["pieces"]["en"], sides[side]["words"]["en"]
        assert [label["raw"] for label in pieces] == list(tokens)
        assert [(label["start"], label["stop"]) for label in pieces] == [(i, i + 1) for i in range(len(tokens))]
        assert {label["start"] for label in pieces if label["special"]} == SPECIAL[side]
        assert [(label["start"], label["stop"]) for label in words] == WORDS[side]
        assert {label["start"] for label in words if label["special"]} == SPECIAL[side]
        for units in ("pieces", "words"):
            english, chinese = sides[side][units]["en"], sides[side][units]["zh"]
            assert len(english) == len(chinese)
            for ours, theirs in zip(english, chinese, strict=True):
                named = ours["text"] in ("⟨start⟩", "⟨end⟩", "⟨unknown⟩")
                assert (theirs is not None) == named, "only what has a name in each language is said twice"
                if theirs:
                    assert theirs["text"] in ("⟨开始⟩", "⟨结束⟩", "⟨未知⟩")
                    assert {name for name in ours if ours[name] != theirs[name]} <= {"short", "full", "hover", "text", "width"}
    first = sides["source"]["words"]["en"][2]
    assert first == {
        "raw": "student", "short": "student", "full": "student", "hover": "student", "text": "student",
        "width": first["width"], "special": False, "start": 2, "stop": 4,
    }  # fmt: skip
    assert sides["source"]["pieces"]["en"][1]["hover"] == "▁the" and sides["source"]["pieces"]["en"][1]["text"] == "the"


def test_hostile_tokens_are_escaped_for_plotly_and_plain_for_text_nodes() -> None:
    translator = FakeTranslator()
    hostile = "<b>x</b>&amp; $y$ <img src=x onerror=alert(1)>"
    run = Run.of(Request(hostile, "fra"), translation := translator.translate(hostile), translator.examine(translation))
    for label in read(maps_value(run))["sides"]["source"]["pieces"]["en"][1:-1]:
        assert not set("<>$") & set(label["full"] + label["short"] + label["hover"])
        assert label["text"] == label["raw"].removeprefix("▁")


def test_what_heads_do_in_this_sentence_and_over_many() -> None:
    translator = FakeTranslator()
    run = recorded_run(translator)
    other = head_roles(translator.trace(translator.translate("The cat sat on the mat because it was tired.")))
    value = read(maps_value(Run(run.request, run.translation, run.trace, 0.0, profile=HeadProfile(500, other))))
    assert value["profile"]["sentences"] == 500
    for heads, basis in ((value["heads"], head_roles(run.trace)), (value["profile"]["heads"], other)):
        assert {kind: [len(layer) for layer in heads[kind]] for kind in KINDS} == {
            kind: [size[1]] * size[0] for kind, size in zip(KINDS, (ENCODER, DECODER, DECODER), strict=True)
        }
        for role in basis:
            entry = heads[role.kind][role.layer][role.head]
            assert (entry["role"], entry["leaning"]) == (role.role, role.leaning)
            assert entry["score"] == (None if role.score is None else pytest.approx(role.score, abs=1e-4))
            assert entry["measures"] == {
                name: None if measure is None else pytest.approx(measure, abs=1e-4) for name, measure in role.measures.items()
            }


def test_a_profile_of_another_model_is_not_sent() -> None:
    run = recorded_run(FakeTranslator())
    for heads in (run.roles[:-1], run.roles[1:] + run.roles[:1], ()):
        assert read(maps_value(Run(run.request, run.translation, run.trace, 0.0, profile=HeadProfile(3, heads))))["profile"] is None


def test_without_norms_there_are_none() -> None:
    run = recorded_run(FakeTranslator())
    bare = Run(run.request, run.translation, run.trace, 0.0)
    assert all(of["norm"] is None and all(of["rollout"]) for of in read(maps_value(bare))["kinds"].values())
    assert read(layer_value(bare, "cross", 1))["norm"] is None


def test_a_long_run_leaves_its_layers_for_later() -> None:
    run = long_run(65, 40)
    assert all(all(of["weights"]) and of["thumbs"] is None for of in read(maps_value(run, max_tokens=65))["kinds"].values())
    value = read(maps_value(run, wanted=("cross", 1)))
    for kind in KINDS:
        maps, of = maps_of(run.trace, kind), value["kinds"][kind]
        for name in ("weights", "rollout", "norm"):
            assert [text is not None for text in of[name]] == [False, kind == "cross"]
        rows, columns = min(32, maps.shape[2]), min(32, maps.shape[3])
        assert (of["thumbs"]["rows"], of["thumbs"]["columns"]) == (rows, columns)
        thumbs = np.frombuffer(base64.b64decode(of["thumbs"]["data"]), dtype=np.uint8).reshape(*maps.shape[:2], rows, columns)
        for (layer, head), (row, column) in zip(np.ndindex(2, 3), [(0, 0), (31, 31), (5, 17), (17, 5), (31, 0), (9, 30)], strict=True):
            top, bottom = (i * maps.shape[2] // rows for i in (row, row + 1))
            left, right = (i * maps.shape[3] // columns for i in (column, column + 1))
            block = maps[layer, head, top:bottom, left:right]
            assert thumbs[layer, head, row, column] == round(float(block.max()) * 255)
    np.testing.assert_allclose(numbers(value["kinds"]["cross"]["weights"][1], 3, 40, 65), run.trace.cross_attention[1], atol=STEP)


def test_one_layer_on_demand() -> None:
    for kind in KINDS:
        value = read(layer_value(RUN, kind, 1.0))
        assert (value["kind"], value["layer"], value["request"]) == (kind, 1, RUN.request.as_dict())
        maps = maps_of(RUN.trace, kind)
        np.testing.assert_allclose(numbers_of(kind, value["weights"], *maps.shape[1:]), maps[1], atol=STEP)
        np.testing.assert_allclose(numbers_of(kind, value["rollout"], *maps.shape[2:]), RUN.rollout[kind][1], atol=STEP)
        np.testing.assert_allclose(numbers_of(kind, value["norm"], *maps.shape[2:]), RUN.norms[kind][1], atol=STEP)
    for kind, layer in [("cross", layer) for layer in (2, -1, "1", None, True, 0.5)] + [("crosses", 0), (None, 0), (["cross"], 0)]:
        with pytest.raises(InvalidSettingError):
            layer_value(RUN, kind, layer)


def test_fixed_point() -> None:
    for full, size in ((65535, 2), (255, 1)):
        data = base64.b64decode(fixed_point(np.array([[0.0, 1.0], [0.25, 1.0000001]], dtype=np.float32), full))
        values = [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]
        assert values == [0, full, round(0.25 * full), full]


def test_thumbnails_keep_the_largest_weight_of_each_block_and_no_other() -> None:
    maps = np.zeros((1, 2, 5, 7), dtype=np.float32)
    maps[0, 1, 3, 6], maps[0, 1, 4, 0] = 0.5, 0.25
    small = thumbnails(maps, 3)  # rows 0, 1-2, 3-4; columns 0-1, 2-3, 4-6
    assert small.shape == (1, 2, 3, 3) and small.sum() == 0.75
    assert small[0, 1, 2, 2] == 0.5 and small[0, 1, 2, 0] == 0.25
    assert thumbnails(maps, 32).shape == maps.shape


def test_a_translation_of_30_tokens_and_144_heads_stays_under_half_a_megabyte() -> None:
    run = long_run(30, 30, layers=6, heads=8)
    assert sum(maps_of(run.trace, kind)[..., 0, 0].size for kind in KINDS) == 144
    value = maps_value(run)
    assert len(value.encode()) < 500_000
    assert len(json.dumps(value, ensure_ascii=False).encode()) < 500_000  # as it travels: a string inside JSON


def test_a_long_sentence_takes_no_long_time() -> None:
    run = long_run(512, 512, layers=1, heads=4)
    start = time.process_time()
    size = len(maps_value(run, wanted=("cross", 0)))
    assert time.process_time() - start < 5  # well under one on a quiet machine
    assert size < 5_000_000
