"""Sentence pairs from Tatoeba's weekly exports: read, joined, split by the English sentence, and laid out as `prepare` reads them.

Three files a language (tatoeba.org/downloads describes them), all tab-separated without a header and packed with bzip2:
`<lang>/<lang>_sentences_detailed.tsv.bz2` (id, language, text, author, two dates) for English and for the other language, and
`eng/eng-<lang>_links.tsv.bz2` (English id, other id). The sentences are under CC BY 2.0 FR: every pair keeps ids and authors.
"""

from __future__ import annotations

import bz2
import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from model.training.corpus import SPLITS, source_key
from model.training.fetch import DownloadError, fetch

BASE_URL = "https://downloads.tatoeba.org/exports/per_language"
LICENCE = "CC BY 2.0 FR"
SOURCES_FILE = "sources.json"
CREDIT = "Sentence pairs of [Tatoeba](https://tatoeba.org) by its contributors, from its weekly exports, licence CC BY 2.0 FR."
NO_AUTHOR = "\\N"


@dataclass(frozen=True)
class Sentence:
    """One sentence of an export. `author` is "" for one that nobody owns."""

    number: int
    text: str
    author: str

    @property
    def credit(self) -> str:
        return f"#{self.number} ({self.author})" if self.author else f"#{self.number}"


@dataclass(frozen=True)
class Row:
    """One line of the files written: English, translation, and whose they are."""

    english: str
    translation: str
    credit: str


def download(
    out: Path,
    targets: list[str],
    *,
    base_url: str = BASE_URL,
    test: int = 1000,
    valid: int = 500,
    convert: Callable[[str], str] | None = None,
    timeout: float = 30.0,
    pause: float = 2.0,
) -> dict[str, dict[str, int]]:
    """Fetches the exports into out/exports and writes out/eng-<target>/{train,valid,test}.tsv and out/sources.json.

    test, valid: English sentences per language (with all their translations) in these splits. convert: applied to every Chinese
    sentence. Files fetched before are used again: remove out/exports to get this week's.
    Returns pairs per target and split. Raises DownloadError.
    """
    base_url, exports = base_url.rstrip("/"), out / "exports"
    names = ["eng/eng_sentences_detailed.tsv.bz2"]
    names += [name for t in targets for name in (f"{t}/{t}_sentences_detailed.tsv.bz2", f"eng/eng-{t}_links.tsv.bz2")]
    paths = [fetch(f"{base_url}/{name}", exports / name.partition("/")[2], timeout=timeout, pause=pause) for name in names]

    links = {t: read_links(exports / f"eng-{t}_links.tsv.bz2") for t in targets}
    english = read_sentences(paths[0], "eng", {number for pairs in links.values() for number, _ in pairs})
    rows = {}
    for target, pairs in links.items():
        path = exports / f"{target}_sentences_detailed.tsv.bz2"
        others = read_sentences(path, target, {number for _, number in pairs})
        rows[target] = join(pairs, english, others, convert if target == "cmn" else None)
        if not rows[target]:
            raise DownloadError(f"{path.name} and its links give not one pair: do they come from the same export?")
    splits = split_rows(rows, test, valid)
    for target, by_split in splits.items():
        for split, kept in by_split.items():
            text = "".join(f"{row.english}\t{row.translation}\t{row.credit}\n" for row in kept)
            _write(out / f"eng-{target}" / f"{split}.tsv", text)
    counts = {target: {split: len(kept) for split, kept in by_split.items()} for target, by_split in splits.items()}
    files = {f"{base_url}/{name}": _fingerprint(path) for name, path in zip(names, paths, strict=True)}
    facts = {"credit": CREDIT, "licence": LICENCE, "files": files, "pairs": counts, "chinese": "simplified" if convert else "as written"}
    _write(out / SOURCES_FILE, json.dumps(facts, indent=2) + "\n")
    return counts


def read_links(path: Path) -> list[tuple[int, int]]:
    """(English id, other id) of each line, in order of the ids. Raises DownloadError, naming the line, for anything else."""
    links = set()
    for number, parts in _lines(path):
        if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
            raise DownloadError(f"{path.name}, line {number}: expected two sentence numbers. Remove the file to fetch it anew.")
        links.add((int(parts[0]), int(parts[1])))
    return sorted(links)


def read_sentences(path: Path, language: str, wanted: set[int]) -> dict[int, Sentence]:
    """The sentences whose numbers are wanted. Raises DownloadError, naming the line, for anything but id, language, text, author ..."""
    sentences = {}
    for number, parts in _lines(path):
        if len(parts) < 4 or not parts[0].isdecimal() or parts[1] != language:
            raise DownloadError(
                f"{path.name}, line {number}: expected number, {language}, sentence, author. Remove the file to fetch it anew."
            )
        if int(parts[0]) in wanted:
            text = " ".join(parts[2].split())
            sentences[int(parts[0])] = Sentence(int(parts[0]), text, "" if parts[3] == NO_AUTHOR else parts[3])
    return sentences


def join(
    links: list[tuple[int, int]], english: dict[int, Sentence], others: dict[int, Sentence], convert: Callable[[str], str] | None = None
) -> list[Row]:
    """The linked sentences side by side, sorted; of pairs with the same two texts the first. Links to lost sentences are left out."""
    rows: dict[tuple[str, str], Row] = {}
    for first, second in links:
        one, other = english.get(first), others.get(second)
        if one and other and one.text and other.text:
            translation = convert(other.text) if convert else other.text
            credit = f"{LICENCE}, tatoeba.org {one.credit} & {other.credit}"
            rows.setdefault((one.text, translation), Row(one.text, translation, credit))
    return sorted(rows.values(), key=lambda row: (row.english, row.translation))


def split_rows(rows: dict[str, list[Row]], test: int, valid: int) -> dict[str, dict[str, list[Row]]]:
    """target -> split -> rows. The split goes by the normalised English sentence (`source_key`), so all translations of one stay together,
    and no held-out sentence is in the training split of any language.

    The test split takes the `test` sentences whose SHA-256 comes first, validation the next `valid`: no seed, and a sentence that was
    held out last week nearly always is this week. Raises DownloadError if that leaves nothing to train on.
    """
    held_out: dict[str, dict[str, str]] = {}
    for target, of_target in rows.items():
        keys = sorted({source_key(row.english) for row in of_target}, key=lambda key: hashlib.sha256(key.encode()).digest())
        if len(keys) <= test + valid:
            raise DownloadError(f"eng-{target} has {len(keys)} English sentences: {test} + {valid} held out would leave none to train on.")
        held_out[target] = {key: "test" if i < test else "valid" for i, key in enumerate(keys[: test + valid])}
    anywhere = {key for of_target in held_out.values() for key in of_target}
    splits: dict[str, dict[str, list[Row]]] = {target: {split: [] for split in SPLITS} for target in rows}
    for target, of_target in rows.items():
        for row in of_target:
            key = source_key(row.english)
            if split := held_out[target].get(key):
                splits[target][split].append(row)
            elif key not in anywhere:
                splits[target]["train"].append(row)
    return splits


def simplifier() -> Callable[[str], str]:
    """From traditional to simplified Chinese characters, by OpenCC. Raises DownloadError if that package is not installed."""
    try:
        import opencc
    except ImportError:
        raise DownloadError(
            "Tatoeba's Chinese is partly in traditional characters. Install the package opencc to have them simplified, "
            "or give --chinese as-written to keep both kinds."
        ) from None
    return opencc.OpenCC("t2s").convert


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        with bz2.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                yield number, line.rstrip("\r\n").split("\t")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DownloadError(f"{path.name} cannot be read ({error}): remove it to fetch it anew.") from None


def _fingerprint(path: Path) -> dict[str, object]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"bytes": path.stat().st_size, "sha256": digest.hexdigest()}


def _write(path: Path, text: str) -> None:
    # Written beside, then moved: an interrupted run leaves no half file under the real name.
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
