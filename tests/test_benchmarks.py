"""The benchmarks' own checks: what they compare is the same work, and what they write is what they found. Nothing is timed here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.benchmarks import __main__ as every_benchmark
from tests.benchmarks import rivals, translation
from tests.benchmarks.contest import Job, Ours, Transformers, Worker
from tests.benchmarks.table import Ratios, paired


class Said:
    """A program whose answers are known."""

    def __init__(self, *ids: int) -> None:
        self.ids = ids

    def timed(self, method: str, *args: object) -> tuple[float, tuple[int, ...]]:
        assert method == "run"
        return 0.5, self.ids


WORK = Job("", (4, 5, 2), 1, 3)


def test_programs_that_write_the_same_are_known_as_such() -> None:
    assert translation.check({"ours": Said(7, 8, 9), "theirs": Said(7, 8, 9)}, WORK) == ("same ids", {"ours": 0.5, "theirs": 0.5})


def test_where_programs_part_is_said() -> None:
    assert translation.check({"ours": Said(7, 8, 9), "theirs": Said(7, 8, 6)}, WORK)[0] == "theirs: the first 2 ids"


@pytest.mark.parametrize("ids", [(7, 8), (7, 8, 9, 9)])
def test_a_program_that_writes_fewer_or_more_is_not_timed(ids: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError, match="theirs wrote"):
        translation.check({"ours": Said(7, 8, 9), "theirs": Said(*ids)}, WORK)


def test_maps_that_differ_are_not_timed() -> None:
    class Maps:
        def __init__(self, changed: float) -> None:
            self.maps = [torch.full((1, 1, 2, 3), 1 / 3) for _ in range(3)]
            self.maps[2][0, 0, 1, 2] += changed

        def call(self, method: str, work: Job) -> list[torch.Tensor]:
            return self.maps

    translation.check_maps({"ours": Maps(0.0), "transformers": Maps(1e-6)}, WORK)
    for changed in (1e-3, float("nan")):
        with pytest.raises(RuntimeError, match="cross_attention"):
            translation.check_maps({"ours": Maps(0.0), "transformers": Maps(changed)}, WORK)


def test_scores_that_differ_are_not_timed() -> None:
    class Score:
        def __init__(self, score: float) -> None:
            self.score = score

        def call(self, method: str, work: Job) -> float:
            return self.score

    translation.check_scores({"ours": Score(-0.5), "ctranslate2": Score(-0.50001)}, WORK)
    for score in (-0.502, float("nan")):
        with pytest.raises(RuntimeError, match="on average"):
            translation.check_scores({"ours": Score(-0.5), "ctranslate2": Score(score)}, WORK)


def test_the_embedded_model_is_the_same_in_transformers(tmp_path: Path) -> None:
    ours, theirs = Ours(rivals.EMBEDDED, tmp_path), Transformers(rivals.EMBEDDED, tmp_path)
    text = translation.TEXTS[10]
    for beam_size in (1, 4):
        work = Job(text, ours.src_ids(text), beam_size, 12)  # longer than the translation: the end is kept away
        assert len(ours.run(work)) == 12
        assert ours.run(work)[:10] == theirs.run(work)[:10]
    greedy = Job(text, ours.src_ids(text), 1, 10)
    for a, b in zip(ours.maps(greedy), theirs.maps(greedy), strict=True):
        assert a.shape == b.shape
        assert float((a - b).abs().max()) < 1e-5


def test_what_a_step_reads_is_the_decoder_and_the_output(tmp_path: Path) -> None:
    ours = Ours(rivals.EMBEDDED, tmp_path)
    sizes, d = ours.translator.config, ours.translator.config.d_model
    attention = 4 * d * d + 4 * d
    cross = 2 * d * d + 2 * d  # of query and output; keys and values of the source are computed once
    feed_forward = 2 * d * sizes.d_ff + d + sizes.d_ff
    layer = attention + cross + feed_forward + 3 * 2 * d
    assert ours.bytes_a_step() == 4 * (sizes.num_decoder_layers * layer + 2 * d + sizes.vocab_size * d)


def test_an_error_in_a_program_comes_back(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)Traceback.*config\.json"):
        Worker(Ours, rivals.BASE, tmp_path, threads=1)


def test_ratios_are_merged_and_nothing_else_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks.json"
    for name, values in (("a", paired([2.0, 3.0, 8.0], [1.0, 2.0, 2.0])), ("b", [5.0]), ("a", paired([1.0], [2.0]))):
        ratios = Ratios(path)
        ratios.add(name, values, "another program")
        ratios.save()
    entries = {entry["name"]: entry for entry in json.loads(path.read_text())}
    assert entries["b"] == {"name": "b", "ratio_median": 5.0, "ratio_min": 5.0, "ratio_max": 5.0, "against": "another program"}
    assert (len(entries), entries["a"]["ratio_median"]) == (2, 0.5)
    assert [file.name for file in tmp_path.iterdir()] == ["benchmarks.json"]
    path.write_text('{"something": "else"}')
    with pytest.raises(ValueError, match="does not hold a list"):
        ratios.save()


def test_every_benchmark_that_is_named_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(every_benchmark.__file__).parent
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for quick in (True, False):
        for module, *arguments in every_benchmark.parts(quick, ["transformers"]):
            text = (folder / f"{module}.py").read_text(encoding="utf-8")
            assert all(f'"{argument}"' in text for argument in arguments if argument.startswith("--")), (module, arguments)


def test_the_table_tells_goals_and_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ratios = Ratios(tmp_path / "benchmarks.json")
    ratios.add("capture_on.embedded.vs_off", [1.1, 1.2, 1.3], "off")
    ratios.add("capture_on.base.vs_off", [1.0, 1.1], "off")
    ratios.save()
    monkeypatch.setattr(every_benchmark, "RESULTS", ratios.path)
    every_benchmark.table()
    said = capsys.readouterr().out.splitlines()
    assert [line.rsplit(maxsplit=1)[-1] for line in said if line.startswith("capture_on")] == ["missed", "met"]
    assert "translate_and_capture.base.vs_ctranslate2" in next(line for line in said if line.startswith("not measured"))
