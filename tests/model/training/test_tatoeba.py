"""From Tatoeba's exports to the folder that `prepare` reads: formats, joining, the split, and faults of the files."""

from __future__ import annotations

import bz2
import hashlib
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.training import corpus, tatoeba
from model.training.corpus import source_key
from model.training.fetch import DownloadError
from model.training.tatoeba import Row, Sentence, join, split_rows
from tests.model.training import samples
from tests.model.training.file_server import FileServer, serving

DATES = "2009-03-27 21:03:00\t\\N"
SPLITS = ("--test-sentences", 20, "--valid-sentences", 10)


def pack(*rows: str) -> bytes:
    return bz2.compress("".join(f"{row}\n" for row in rows).encode())


def exports() -> dict[str, bytes]:
    """The sample sentences as the weekly exports have them: numbers that say nothing, an author or none, and sentences of nobody."""
    english, links, others = [], {"fra": [], "cmn": []}, {"fra": [], "cmn": []}
    for i, row in enumerate(samples.sentences()):
        english.append(f"{1000 + 7 * i}\teng\t{row[0]}\t{'CK' if i % 3 else NOBODY}\t{DATES}")
        for column, target in enumerate(("fra", "cmn"), 1):
            number = 50_000 * column + (37 * i) % 1000
            others[target].append(f"{number}\t{target}\t{row[column]}\tsacredceltic\t{DATES}")
            links[target].append(f"{1000 + 7 * i}\t{number}")
    links["fra"] += ["1000\t999999", "999\t50000"]
    files = {"/eng/eng_sentences_detailed.tsv.bz2": pack(*english, f"9\teng\tNobody translated this.\tCK\t{DATES}")}
    for target in links:
        files[f"/{target}/{target}_sentences_detailed.tsv.bz2"] = pack(*others[target])
        files[f"/eng/eng-{target}_links.tsv.bz2"] = pack(*links[target])
    return files


NOBODY = "\\N"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serving() as running:
        running.files = exports()
        yield running


def download(server: FileServer, out: Path, *options: object) -> str:
    return samples.command("download", "--out", out, "--base-url", server.url, "--chinese", "as-written", *SPLITS, *options)


def read(out: Path, target: str) -> dict[str, list[list[str]]]:
    lines = {split: (out / f"eng-{target}" / f"{split}.tsv").read_text(encoding="utf-8").splitlines() for split in corpus.SPLITS}
    return {split: [line.split("\t") for line in found] for split, found in lines.items()}


def test_every_pair_arrives_in_one_split_with_its_credit(server: FileServer, tmp_path: Path) -> None:
    printed = download(server, tmp_path)
    expected = {target: {(row[0], row[column]) for row in samples.sentences()} for column, target in enumerate(("fra", "cmn"), 1)}
    numbers = {row[0]: 1000 + 7 * i for i, row in enumerate(samples.sentences())}
    for target in expected:
        splits = read(tmp_path, target)
        held_out = {source_key(english) for split in ("test", "valid") for english, *_ in splits[split]}
        assert (len({source_key(line[0]) for line in splits["test"]}), len(held_out)) == (20, 30)
        pairs = [tuple(line[:2]) for lines in splits.values() for line in lines]
        assert len(pairs) == len(set(pairs))
        # what is missing was held out of the other language
        missing = {english for english, _ in expected[target] - set(pairs)}
        other = read(tmp_path, "cmn" if target == "fra" else "fra")
        assert {source_key(english) for english in missing} <= {source_key(line[0]) for s in ("test", "valid") for line in other[s]}
        assert f"eng-{target}: train {len(splits['train'])}, valid {len(splits['valid'])}, test {len(splits['test'])}" in printed
        for english, _, credit in splits["train"]:
            owner = f"#{numbers[english]} (CK)" if (numbers[english] - 1000) // 7 % 3 else f"#{numbers[english]} &"
            assert credit.startswith(f"CC BY 2.0 FR, tatoeba.org {owner}")
            assert credit.endswith("(sacredceltic)")


def test_no_held_out_sentence_is_trained_on_in_any_language(server: FileServer, tmp_path: Path) -> None:
    # the two languages hold out different sentences: one of them has more
    more = [f"{90_000 + i}\teng\tMore of {i} it.\tCK\t{DATES}" for i in range(100)]
    name = "/eng/eng_sentences_detailed.tsv.bz2"
    server.files[name] = bz2.compress(bz2.decompress(server.files[name]) + "".join(f"{line}\n" for line in more).encode())
    name = "/eng/eng-fra_links.tsv.bz2"
    server.files[name] = bz2.compress(bz2.decompress(server.files[name]) + b"".join(b"%d\t50000\n" % (90_000 + i) for i in range(100)))
    download(server, tmp_path)
    splits = {target: read(tmp_path, target) for target in ("fra", "cmn")}
    keys = {(t, s): {source_key(line[0]) for line in splits[t][s]} for t in splits for s in corpus.SPLITS}
    held_out = {t: keys[t, "valid"] | keys[t, "test"] for t in splits}
    assert held_out["fra"] != held_out["cmn"]
    for target in splits:
        assert keys[target, "train"].isdisjoint(held_out["fra"] | held_out["cmn"])


def test_prepare_reads_it_and_the_card_will_credit_it(server: FileServer, tmp_path: Path) -> None:
    download(server, tmp_path / "data")
    printed = samples.command("prepare", "--data", tmp_path / "data", "--out", tmp_path / "prepared", "--vocab-size", 400)
    assert "train: {'fra': " in printed
    facts = json.loads((tmp_path / "prepared" / "prepared.json").read_text(encoding="utf-8"))
    assert "weekly exports" in facts["credit"] and "CC BY 2.0 FR" in facts["credit"]
    train = corpus.read_prepared(tmp_path / "prepared" / "train.tsv")
    assert not any("tatoeba" in pair.translation for pair in train)


def test_the_same_exports_give_the_same_files(server: FileServer, tmp_path: Path) -> None:
    for name in ("one", "two"):
        if name == "two":  # the order of an export's lines means nothing
            lines = {path: sorted(bz2.decompress(data).splitlines(True)) for path, data in server.files.items()}
            server.files = {path: bz2.compress(b"".join(of_file)) for path, of_file in lines.items()}
        download(server, tmp_path / name)
    for target in ("fra", "cmn"):
        assert read(tmp_path / "one", target) == read(tmp_path / "two", target)


def test_sources_are_recorded(server: FileServer, tmp_path: Path) -> None:
    download(server, tmp_path, "--targets", "fra")
    facts = json.loads((tmp_path / "sources.json").read_text(encoding="utf-8"))
    assert len(facts["files"]) == 3
    name = "/eng/eng-fra_links.tsv.bz2"
    assert facts["files"][server.url + name] == {
        "bytes": len(server.files[name]),
        "sha256": hashlib.sha256(server.files[name]).hexdigest(),
    }
    assert facts["licence"] == "CC BY 2.0 FR"
    assert facts["pairs"] == {"fra": {split: len(lines) for split, lines in read(tmp_path, "fra").items()}}
    assert not (tmp_path / "eng-cmn").exists()


def test_it_goes_on_with_the_files_that_it_has(server: FileServer, tmp_path: Path) -> None:
    server.faults["/cmn/cmn_sentences_detailed.tsv.bz2"] = [404]
    with pytest.raises(SystemExit, match=r"cmn_sentences_detailed.*404.*such a language"):
        download(server, tmp_path)
    assert not (tmp_path / "eng-fra").exists()
    before = len(server.seen)
    download(server, tmp_path)
    assert [path for path, _ in server.seen[before:]] == ["/cmn/cmn_sentences_detailed.tsv.bz2", "/eng/eng-cmn_links.tsv.bz2"]


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("/eng/eng-fra_links.tsv.bz2", pack("1000\t50000", "1007"), "eng-fra_links.tsv.bz2, line 2"),
        ("/eng/eng-fra_links.tsv.bz2", pack("1000\tfra"), "eng-fra_links.tsv.bz2, line 1"),
        ("/fra/fra_sentences_detailed.tsv.bz2", pack("50000\tfra\tOui."), "fra_sentences_detailed.tsv.bz2, line 1"),
        ("/fra/fra_sentences_detailed.tsv.bz2", pack(f"50000\tdeu\tJa.\tCK\t{DATES}"), "expected number, fra, sentence, author"),
        ("/fra/fra_sentences_detailed.tsv.bz2", bz2.compress(b"50000\tfra\t\xff\tCK\n"), "cannot be read"),
        ("/fra/fra_sentences_detailed.tsv.bz2", pack(f"7\tfra\tOui.\tCK\t{DATES}"), "not one pair"),
        ("/eng/eng-fra_links.tsv.bz2", pack("1000\t50000"), "held out would leave none"),
    ],
)
def test_files_that_are_no_exports_are_named(name: str, content: bytes, said: str, server: FileServer, tmp_path: Path) -> None:
    server.files[name] = content
    with pytest.raises(SystemExit, match=said):
        download(server, tmp_path)
    assert not (tmp_path / "eng-fra").exists()


def test_links_are_read_in_order_each_once(tmp_path: Path) -> None:
    links = [((i * 7919) % 100_003, (i * 104_729) % 1_000_003) for i in range(2000)]
    path = tmp_path / "eng-fra_links.tsv.bz2"
    path.write_bytes(pack(*(f"{one}\t{other}" for one, other in [*links, *links[:50]])))
    assert tatoeba.read_links(path) == sorted(links)


def test_links_and_sentences_are_joined_in_order_without_repeats() -> None:
    english = {1: Sentence(1, "Yes.", "A"), 2: Sentence(2, "Yes.", "B"), 3: Sentence(3, "Hi.", ""), 4: Sentence(4, "", "A")}
    others = {10: Sentence(10, "是。", "C"), 11: Sentence(11, "對。", "")}
    links = [(1, 10), (1, 11), (2, 10), (3, 10), (3, 12), (4, 10), (5, 10)]
    assert join(links, english, others) == [
        Row("Hi.", "是。", "CC BY 2.0 FR, tatoeba.org #3 & #10 (C)"),
        Row("Yes.", "對。", "CC BY 2.0 FR, tatoeba.org #1 (A) & #11"),
        Row("Yes.", "是。", "CC BY 2.0 FR, tatoeba.org #1 (A) & #10 (C)"),
    ]
    assert join(links, english, others, lambda text: text.replace("對", "对"))[1].translation == "对。"


def test_held_out_sentences_are_those_with_the_smallest_digests() -> None:
    """So that next week's export, which has more sentences, holds out nearly the same."""
    rows = [Row(f"Number {i}.", f"Nombre {i}.", "") for i in range(100)]
    rows += [Row(f"number {i}!", f"le {i} !", "") for i in range(100)]
    digests = sorted((hashlib.sha256(f"number{i}".encode()).hexdigest(), i) for i in range(100))
    splits = split_rows({"fra": rows}, 5, 3)["fra"]
    for split, expected in (("test", digests[:5]), ("valid", digests[5:8]), ("train", digests[8:])):
        assert sorted(row.translation for row in splits[split]) == sorted(t for _, i in expected for t in (f"Nombre {i}.", f"le {i} !"))
    grown = split_rows({"fra": rows + [Row(f"More {i}.", "Plus.", "") for i in range(10)]}, 5, 3)["fra"]
    assert len({row.english for row in splits["test"]} & {row.english for row in grown["test"]}) >= 6


def test_simplified_chinese_needs_a_package_and_says_so(server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opencc", None)
    arguments = ("download", "--out", tmp_path, "--base-url", server.url, *SPLITS)
    with pytest.raises(SystemExit, match="opencc.*as-written"):
        samples.command(*arguments)
    assert server.seen == []
    samples.command(*arguments, "--targets", "fra")

    asked = []
    converter = types.SimpleNamespace(convert=lambda text: text.replace("看", "望"))
    fake = types.SimpleNamespace(OpenCC=lambda name: asked.append(name) or converter)
    monkeypatch.setitem(sys.modules, "opencc", fake)
    samples.command(*arguments)
    assert asked == ["t2s"]
    assert any("望见了" in line[1] for line in read(tmp_path, "cmn")["train"])
    assert json.loads((tmp_path / "sources.json").read_text())["chinese"] == "simplified"


def test_the_real_package_simplifies() -> None:
    assert tatoeba.simplifier()("他們學習漢語。") == "他们学习汉语。"


@pytest.mark.parametrize("options", [["--targets", "french"], ["--test-sentences", "0"], ["--chinese", "traditional"]])
def test_unusable_options(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        samples.command("download", "--out", tmp_path, *options)
    assert ended.value.code == 2


def test_errors_are_sentences() -> None:
    with pytest.raises(DownloadError, match="held out would leave none"):
        split_rows({"fra": [Row("a", "b", "")]}, 1, 1)
