"""The maps as files: every weight comes back exactly, beside its own tokens, and no token can harm whoever opens the file."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from model.recording import load_run
from model.results import MAPS, AttentionTrace, Translation
from tests.viz.fakes import DECODER, ENCODER, FakeTranslator, recorded_run, weights
from viz import exports
from viz.exports import COLUMNS, ExportTooLargeError, file_name, num_weights, write_csv, write_json, write_npz
from viz.panels.choice import KINDS, MapChoice, maps_of
from viz.runs import Request, Run

# Repeated, empty, quoted, two lines, right to left, outside the first plane, a number, and what a spreadsheet or a page would run.
ODD_SOURCE = ("▁the", "▁the", "", '"', 'a"b', ",", "\n", "=1+1", "@SUM(A1)", "</s>")
ODD_TARGET = ("-2", "+3", "'quoted", "مرحبا", "👩‍👩‍👧", "007", "<script>", "＝A1", "</s>")


def run_of(source: tuple[str, ...], target: tuple[str, ...], layers_heads: tuple = (ENCODER, DECODER), revision: str | None = None) -> Run:
    s, t = len(source), len(target)
    log_probs = tuple(-0.01 - 0.3 * i for i in range(t))
    translation = Translation(
        source_text=" ".join(source),
        target="fra",
        text="".join(target),
        src_ids=tuple(range(4, 4 + s)),
        tgt_ids=tuple(range(90, 90 + t)),
        src_tokens=source,
        tgt_in_tokens=("<s>", *target[:-1]),
        tgt_out_tokens=target,
        token_log_probs=log_probs,
        score=sum(log_probs) / t,
        forced=False,
        finished=True,
    )
    trace = AttentionTrace(
        weights(*layers_heads[0], s, s, 1),
        weights(*layers_heads[1], t, t, 2, causal=True),
        weights(*layers_heads[1], t, s, 3),
        source,
        translation.tgt_in_tokens,
        target,
    )
    return Run(Request(" ".join(source), "fra", 2, model="some/model"), translation, trace, 0.1, revision)


ODD = run_of(ODD_SOURCE, ODD_TARGET, revision="5e1f" * 10)


def written(write, *args, **kwargs) -> bytes:
    file = io.BytesIO()
    write(args[0], file, *args[1:], **kwargs)
    return file.getvalue()  # raises if the writer closed the file


def test_npz_gives_everything_back_without_pickles(tmp_path: Path) -> None:
    path = tmp_path / "maps.npz"
    path.write_bytes(written(write_npz, ODD))
    with np.load(path, allow_pickle=False) as file:
        for name in MAPS:
            assert file[name].dtype == np.float32
            np.testing.assert_array_equal(file[name], getattr(ODD.trace, name))
        assert tuple(file["src_tokens"]) == ODD_SOURCE and tuple(file["tgt_out_tokens"]) == ODD_TARGET
        assert tuple(file["tgt_in_tokens"]) == ("<s>", *ODD_TARGET[:-1])
        assert file["src_ids"].tolist() == list(ODD.translation.src_ids) and file["tgt_ids"].tolist() == list(ODD.translation.tgt_ids)
        np.testing.assert_array_equal(file["token_log_probs"], ODD.translation.token_log_probs)
        np.testing.assert_allclose(file["token_probabilities"], [np.exp(x) for x in ODD.translation.token_log_probs])
        about = json.loads(bytes(file["about"]))
        assert (about["model"], about["revision"], about["beam_size"], about["target"]) == ("some/model", "5e1f" * 10, 2, "fra")
    translation, trace = load_run(path)
    assert translation == ODD.translation
    np.testing.assert_array_equal(trace.cross_attention, ODD.trace.cross_attention)


def test_json_gives_every_weight_and_token_back() -> None:
    found = json.loads(written(write_json, ODD))
    for kind in KINDS:
        stored = found["maps"][kind]
        back = np.array(stored["weights"], dtype=np.float64).astype(np.float32)
        np.testing.assert_array_equal(back, maps_of(ODD.trace, kind))
    assert found["maps"]["cross"]["queries"] == list(ODD_TARGET) and found["maps"]["cross"]["keys"] == list(ODD_SOURCE)
    assert found["maps"]["encoder_self"]["queries"] == list(ODD_SOURCE) == found["maps"]["encoder_self"]["keys"]
    assert found["maps"]["decoder_self"]["queries"] == list(ODD_TARGET)
    assert found["maps"]["decoder_self"]["keys"] == ["<s>", *ODD_TARGET[:-1]]
    assert found["about"]["model"] == "some/model" and found["about"]["given"] is None
    assert found["translation"]["token_log_probs"] == list(ODD.translation.token_log_probs)
    np.testing.assert_allclose(found["token_probabilities"], np.exp(ODD.translation.token_log_probs))


def test_json_keeps_the_smallest_weights() -> None:
    tiny = np.array([1 - 2**-24, 1e-7, 1.17549435e-38, 1e-45, 0, 1 / 3], dtype=np.float32)
    assert np.array(json.loads(exports._nested(tiny)), dtype=np.float64).astype(np.float32).tolist() == tiny.tolist()


def table(content: bytes) -> list[dict[str, str]]:
    lines = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    assert lines[0] == list(COLUMNS)
    return [dict(zip(COLUMNS, line, strict=True)) for line in lines[1:]]


def original(cell: str) -> str:
    return cell.removeprefix("'")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", ["predicted", "read"])
@pytest.mark.parametrize("head", [1, "mean", "max"])
def test_csv_of_one_map(kind: str, rows: str, head: int | str) -> None:
    choice = MapChoice(kind, 1, head, rows)
    content = written(write_csv, ODD, choice)
    assert content.startswith(b"\xef\xbb\xbfkind,layer,head,rows,query_position")
    lines = table(content)
    expected = choice.weights(ODD.trace)
    queries, keys = choice.row_tokens(ODD.trace), choice.column_tokens(ODD.trace)
    cells = [(q, k) for q in range(len(queries)) for k in range(len(keys)) if kind != "decoder_self" or k <= q]
    assert [(int(line["query_position"]), int(line["key_position"])) for line in lines] == cells
    for line, (q, k) in zip(lines, cells, strict=True):
        assert np.float32(line["weight"]) == expected[q, k]
        assert original(line["query_token"]) == queries[q]
        assert original(line["key_token"]) == keys[k]
        assert (line["kind"], line["layer"], line["head"]) == (kind, "1", str(head))
        assert line["rows"] == ("source" if kind == "encoder_self" else rows)


def test_csv_of_all_maps_has_every_weight_that_is_not_masked() -> None:
    lines = table(written(write_csv, ODD))
    s, t = len(ODD_SOURCE), len(ODD_TARGET)
    (e_layers, e_heads), (d_layers, d_heads) = ENCODER, DECODER
    assert len(lines) == e_layers * e_heads * s * s + d_layers * d_heads * (t * (t + 1) // 2 + t * s)
    back = {kind: np.zeros_like(maps_of(ODD.trace, kind)) for kind in KINDS}
    for line in lines:
        at = tuple(int(line[name]) for name in ("layer", "head", "query_position", "key_position"))
        back[line["kind"]][at] = np.float32(line["weight"])
    for kind in KINDS:
        np.testing.assert_array_equal(back[kind], maps_of(ODD.trace, kind))
    read = table(written(write_csv, ODD, rows="read"))
    assert [line["query_token"] for line in read if line["kind"] == "cross"][0] == "<s>"


def test_no_token_runs_in_a_spreadsheet() -> None:
    content = written(write_csv, ODD).decode("utf-8-sig")
    cells = {cell for line in csv.reader(io.StringIO(content, newline="")) for cell in line[5:8:2]}
    assert {"'=1+1", "'@SUM(A1)", "'-2", "'+3", "'＝A1", "''quoted", "007", ""} <= cells
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@＝＋－＠\t\r\n"))]


def test_what_would_be_too_large_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    count = num_weights(ODD)
    assert count == sum(getattr(ODD.trace, name).size for name in MAPS)
    monkeypatch.setattr(exports, "MAX_JSON_WEIGHTS", count)
    monkeypatch.setattr(exports, "MAX_CSV_WEIGHTS", count)
    written(write_json, ODD)
    written(write_csv, ODD)
    monkeypatch.setattr(exports, "MAX_JSON_WEIGHTS", count - 1)
    monkeypatch.setattr(exports, "MAX_CSV_WEIGHTS", count - 1)
    for write in (write_json, write_csv):
        with pytest.raises(ExportTooLargeError, match=r"\.npz") as caught:
            written(write, ODD)
        assert caught.value.params["count"] == count
    written(write_csv, ODD, MapChoice("cross", 0, 0))  # one map still fits
    written(write_npz, ODD)


def test_the_limits_leave_room_for_a_long_sentence() -> None:
    # 60 x 60 tokens and 144 heads: what the page sends at once
    assert 3 * 48 * 60 * 60 < exports.MAX_CSV_WEIGHTS < exports.MAX_JSON_WEIGHTS
    assert exports.MAX_CSV_WEIGHTS < 1_048_576


def test_a_recorded_run_and_lone_surrogates_can_be_written() -> None:
    run = recorded_run(FakeTranslator())
    hurt = replace(run, request=replace(run.request, text="a \ud800 b"))
    for write in (write_npz, write_json, write_csv):
        assert written(write, hurt)


@pytest.mark.parametrize(
    ("form", "choice", "name"),
    [
        ("npz", None, "attention-atlas-maps.npz"),
        ("csv", MapChoice("cross", 0, 3), "attention-atlas-cross-L0H3.csv"),
        ("html", MapChoice("encoder_self", 11, "mean"), "attention-atlas-encoder_self-L11-mean.html"),
    ],
)
def test_file_names(form: str, choice: MapChoice | None, name: str) -> None:
    assert file_name(form, choice) == name
