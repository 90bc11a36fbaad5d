"""Sentence pairs: reading, cleaning rules, splits, and the prepared folder that training reads."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SPLITS = ("train", "valid", "test")
MAX_CHARACTERS = 400
# A pair whose sides differ this much in length is rarely a translation. Chinese packs about three English characters into one.
MAX_LENGTH_RATIO = {"cmn": (0.08, 1.2)}
DEFAULT_LENGTH_RATIO = (0.33, 3.0)

_SPACES = re.compile(r"\s+")
_CJK = r"\u3400-\u9fff\uf900-\ufaff"
_CJK_PUNCTUATION = "，。？！：；、“”‘’「」《》（）"
_FULL_WIDTH = {",": "，", "?": "？", "!": "！", ":": "：", ";": "；"}


@dataclass(frozen=True)
class Pair:
    """An English sentence and its translation into `target` (ISO 639-3, such as "fra")."""

    target: str
    source: str
    translation: str


def clean_english_or_french(text: str) -> str:
    """NFC, one kind of apostrophe, single spaces (narrow and no-break spaces included)."""
    text = unicodedata.normalize("NFC", text).replace("’", "'").replace("‘", "'")
    return _SPACES.sub(" ", text).strip()


def clean_chinese(text: str) -> str:
    """NFC, full-width punctuation beside Chinese characters, no spaces between them or between them and Latin letters or digits.

    The data mixes "？" with "?" and 「」 with “”; one convention is learned better than two.
    """
    text = unicodedata.normalize("NFC", text).replace("「", "“").replace("」", "”")
    text = re.sub(rf"(?<=[{_CJK}”])\s*([,?!:;]+)", lambda m: "".join(_FULL_WIDTH[mark] for mark in m[1]), text)
    text = re.sub(rf"(?<=[{_CJK}”])\.(?=\s*$|\s*[{_CJK}“”\"])", "。", text)
    text = re.sub(rf"(?<=[{_CJK}{_CJK_PUNCTUATION}])\s+(?=[{_CJK}{_CJK_PUNCTUATION}])", "", text)
    text = re.sub(rf"(?<=[{_CJK}])\s+(?=[A-Za-z0-9])|(?<=[A-Za-z0-9])\s+(?=[{_CJK}])", "", text)
    return _SPACES.sub(" ", text).strip()


def clean_pair(pair: Pair) -> Pair | None:
    """The pair in its normal form, or None if it is empty, too long or of very unequal length."""
    source = clean_english_or_french(pair.source)
    translation = clean_chinese(pair.translation) if pair.target == "cmn" else clean_english_or_french(pair.translation)
    if not source or not translation or max(len(source), len(translation)) > MAX_CHARACTERS:
        return None
    low, high = MAX_LENGTH_RATIO.get(pair.target, DEFAULT_LENGTH_RATIO)
    # Short sentences may well differ ("Go." / "Vas-y maintenant."): eight characters of grace.
    if not low * len(source) - 8 <= len(translation) <= high * len(source) + 8:
        return None
    return Pair(pair.target, source, translation)


def source_key(source: str) -> str:
    """What makes two English sentences "the same" for the split: letters and digits only, lower case."""
    return "".join(ch for ch in unicodedata.normalize("NFKC", source).casefold() if ch.isalnum())


def read_pairs(path: Path, target: str) -> Iterator[Pair]:
    """Pairs of one `English<TAB>translation` file; further columns are left out.

    Raises ValueError with the line number for a line without a tab or with other bytes than UTF-8."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                parts = line.decode("utf-8").rstrip("\r\n").split("\t")
            except UnicodeDecodeError:
                raise ValueError(f"{path.parent.name}/{path.name}, line {number}: not UTF-8") from None
            if len(parts) < 2:
                raise ValueError(f"{path.parent.name}/{path.name}, line {number}: expected English<TAB>translation")
            yield Pair(target, parts[0], parts[1])


def read_folder(folder: Path, targets: Iterable[str], extra: Iterable[str] = ()) -> dict[str, list[Pair]]:
    """The splits under `folder`: eng-<target>/{train,valid,test}.tsv, and extra/<name>.eng-<target>.tsv, which joins the training split.

    Pairs are cleaned and exact repeats dropped. A training pair whose English sentence also stands in the validation or test split
    of its language is dropped. Test references are left as they are but for outer spaces: scores are against the original text.
    Raises FileNotFoundError if a language has no folder.
    """
    splits: dict[str, list[Pair]] = {split: [] for split in SPLITS}
    for target in targets:
        raw = {split: list(read_pairs(folder / f"eng-{target}" / f"{split}.tsv", target)) for split in SPLITS}
        for name in extra:
            path = folder / "extra" / f"{name}.eng-{target}.tsv"
            if path.exists():
                raw["train"].extend(read_pairs(path, target))
        held_out = {source_key(pair.source) for split in ("valid", "test") for pair in raw[split]}
        cleaned = (clean_pair(pair) for pair in raw["train"])
        splits["train"].extend(dict.fromkeys(pair for pair in cleaned if pair and source_key(pair.source) not in held_out))
        splits["valid"].extend(pair for pair in map(clean_pair, raw["valid"]) if pair)
        splits["test"].extend(Pair(target, pair.source.strip(), pair.translation.strip()) for pair in raw["test"])
    return splits


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """One `target<TAB>English<TAB>translation` line a pair."""
    path.write_text("".join(f"{p.target}\t{p.source}\t{p.translation}\n" for p in pairs), encoding="utf-8")


def read_prepared(path: Path) -> list[Pair]:
    """What `write_pairs` wrote. Raises ValueError, naming the line, for anything else."""
    pairs = []
    # Not splitlines(), which also cuts at U+2028 and its like: a test reference, left as it is, may hold one.
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        parts = line.split("\t")
        if line and len(parts) != 3:
            raise ValueError(f"{path.name}, line {number}: expected target<TAB>English<TAB>translation, as `prepare` writes it")
        pairs += [Pair(*parts)] if line else []
    return pairs


def with_references(pairs: Iterable[Pair]) -> dict[str, dict[str, list[str]]]:
    """target -> English sentence -> all its references, each source once."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for pair in pairs:
        grouped.setdefault(pair.target, {}).setdefault(pair.source, []).append(pair.translation)
    return grouped


def summary(pairs: Iterable[Pair]) -> dict[str, int]:
    """Pairs per target language."""
    return dict(Counter(pair.target for pair in pairs))
