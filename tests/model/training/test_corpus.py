"""Reading, cleaning and splitting sentence pairs, each rule with examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.training import corpus
from model.training.corpus import Pair, clean_chinese, clean_english_or_french, clean_pair, source_key


@pytest.mark.parametrize(
    "text, cleaned",
    [
        ("J’aime l’été.", "J'aime l'été."),
        ("‘Yes,’ he said.", "'Yes,' he said."),
        ("Où est la gare\u202f?", "Où est la gare ?"),
        ("«\u00a0Oui\u00a0!\u00a0»", "« Oui ! »"),
        ("a\u2009b\u3000c\td", "a b c d"),
        ("  two  spaces \n", "two spaces"),
        ("e\u0301te\u0301", "été"),
        ("It costs $3.50, or 1,000 yen.", "It costs $3.50, or 1,000 yen."),
        ("See http://example.com/a?b=c!", "See http://example.com/a?b=c!"),
        ('"Quoted" and “curly” and «guillemets» stay', '"Quoted" and “curly” and «guillemets» stay'),
        ("Un cœur… — déçu", "Un cœur… — déçu"),
        ("", ""),
        (" \u202f ", ""),
    ],
)
def test_english_and_french(text: str, cleaned: str) -> None:
    assert clean_english_or_french(text) == cleaned
    assert clean_english_or_french(cleaned) == cleaned


@pytest.mark.parametrize(
    "text, cleaned",
    [
        ("你好吗?", "你好吗？"),
        ("你好 ,我是学生!", "你好，我是学生！"),
        ("他说:好;走", "他说：好；走"),
        ("什么?!", "什么？！"),
        ("真的??好", "真的？？好"),
        ("我爱你.", "我爱你。"),
        ("我爱你.他也是.", "我爱你。他也是。"),
        ("我爱你. 他也是。", "我爱你。他也是。"),
        ("「你好」", "“你好”"),
        ("他说「好」.", "他说“好”。"),
        ("我 爱 你", "我爱你"),
        ("你好， 世界 。", "你好，世界。"),
        ("我等了3.5小时", "我等了3.5小时"),
        ("我有3.5元.", "我有3.5元。"),
        ("在10:30见", "在10:30见"),
        ("1,000人", "1,000人"),
        ("请看http://example.com/a.b?c=d", "请看http://example.com/a.b?c=d"),
        ("我用 Python 3.11", "我用Python 3.11"),
        ("2020 年 1 月，SARS 爆发", "2020年1月，SARS爆发"),
        ("Tom, come here! OK?", "Tom, come here! OK?"),
        ("汤姆说OK.", "汤姆说OK."),
        ("我...", "我..."),
        ("㐂好.", "㐂好。"),
        ("“好”!", "“好”！"),
        ("他说\"好\"", "他说\"好\""),
        ("你\u3000好", "你好"),
    ],
)
def test_chinese(text: str, cleaned: str) -> None:
    assert clean_chinese(text) == cleaned
    assert clean_chinese(cleaned) == cleaned


def test_a_pair_is_cleaned_by_its_language() -> None:
    assert clean_pair(Pair("cmn", "It’s me.", "是我.")) == Pair("cmn", "It's me.", "是我。")
    assert clean_pair(Pair("fra", "It’s me.", "C’est moi\u202f!")) == Pair("fra", "It's me.", "C'est moi !")


@pytest.mark.parametrize(
    "pair",
    [
        Pair("fra", " ", "Oui."),
        Pair("fra", "Yes.", "\u202f"),
        Pair("fra", "a" * 401, "b" * 401),
        Pair("fra", "Go away now, all of you, please.", "Va"),
        Pair("fra", "Go.", "Va-t'en d'ici tout de suite."),
        Pair("cmn", "I am here.", "我在这里" * 6),
        Pair("cmn", "a" * 150, "我" * 3),
    ],
)
def test_empty_long_and_unequal_pairs_are_left_out(pair: Pair) -> None:
    assert clean_pair(pair) is None


@pytest.mark.parametrize(
    "pair",
    [
        Pair("fra", "a" * 400, "b" * 400),
        Pair("fra", "Go.", "Vas-y maintenant."),
        Pair("cmn", "The weather is really very nice today.", "今天天气真好。"),
        Pair("cmn", "Go.", "走"),
    ],
)
def test_short_and_plausible_pairs_stay(pair: Pair) -> None:
    assert clean_pair(pair) == pair


def test_the_same_sentence_in_other_clothes_has_the_same_key() -> None:
    assert source_key("It's 5 o'clock!") == source_key("  it’s 5 O’Clock") == "its5oclock"
    assert source_key("Cafe\u0301") == source_key("CAFÉ.")
    assert source_key("I came.") != source_key("I come.")


def write(folder: Path, target: str, extra: dict[str, str] | None = None, **splits: str) -> Path:
    (folder / f"eng-{target}").mkdir(parents=True)
    for split in corpus.SPLITS:
        (folder / f"eng-{target}" / f"{split}.tsv").write_text(splits.get(split, ""), encoding="utf-8")
    (folder / "extra").mkdir(exist_ok=True)
    for name, text in (extra or {}).items():
        (folder / "extra" / f"{name}.eng-{target}.tsv").write_text(text, encoding="utf-8")
    return folder


def test_held_out_sentences_never_reach_training(tmp_path: Path) -> None:
    """Whatever their case, punctuation or kind of apostrophe, and be they in the extra data; those of another language may stay."""
    write(
        tmp_path,
        "fra",
        train="Hello!\tSalut !\nIt’s me.\tC’est moi.\nGood night.\tBonne nuit.\nGood morning.\tBonjour.\n",
        valid="it's me\tc'est moi\n",
        test="HELLO\tSALUT\n",
        extra={"more": "hello\tbonjour\nSee you.\tÀ bientôt.\n"},
    )
    write(tmp_path, "cmn", train="Hello!\t你好!\nGood night.\t晚安.\n", test="Good night\t晚安\n")
    splits = corpus.read_folder(tmp_path, ["fra", "cmn"], ["more", "absent"])
    assert splits["train"] == [
        Pair("fra", "Good night.", "Bonne nuit."),
        Pair("fra", "Good morning.", "Bonjour."),
        Pair("fra", "See you.", "À bientôt."),
        Pair("cmn", "Hello!", "你好！"),
    ]
    for target in ("fra", "cmn"):
        held_out = {source_key(p.source) for split in ("valid", "test") for p in splits[split] if p.target == target}
        assert held_out.isdisjoint(source_key(p.source) for p in splits["train"] if p.target == target)


def test_extra_data_joins_only_when_named(tmp_path: Path) -> None:
    write(tmp_path, "fra", train="Yes.\tOui.\n", extra={"more": "No.\tNon.\n"})
    assert len(corpus.read_folder(tmp_path, ["fra"])["train"]) == 1
    assert len(corpus.read_folder(tmp_path, ["fra"], ["more"])["train"]) == 2


def test_repeats_are_dropped_after_cleaning_and_other_translations_kept(tmp_path: Path) -> None:
    write(tmp_path, "fra", train="It's me.\tC'est moi.\nIt’s me.\tC’est moi.\nIt's me.\tMoi, c'est moi.\n")
    train = corpus.read_folder(tmp_path, ["fra"])["train"]
    assert [pair.translation for pair in train] == ["C'est moi.", "Moi, c'est moi."]


def test_test_references_are_untouched(tmp_path: Path) -> None:
    write(tmp_path, "fra", test=" It’s «\u00a0me\u00a0»\u202f! \t C’est  moi\u202f! \n", valid="It’s you.\tC’est toi.\n")
    write(tmp_path, "cmn", test="Hello?\t「你 好」?\n")
    splits = corpus.read_folder(tmp_path, ["fra", "cmn"])
    assert splits["test"] == [Pair("fra", "It’s «\u00a0me\u00a0»\u202f!", "C’est  moi\u202f!"), Pair("cmn", "Hello?", "「你 好」?")]
    assert splits["valid"] == [Pair("fra", "It's you.", "C'est toi.")]


def test_a_line_without_a_tab_is_named(tmp_path: Path) -> None:
    write(tmp_path, "fra", train="Yes.\tOui.\nNo.\n")
    with pytest.raises(ValueError, match=r"train\.tsv, line 2"):
        corpus.read_folder(tmp_path, ["fra"])


def test_columns_beyond_the_second_are_ignored(tmp_path: Path) -> None:
    """As in the files of manythings.org, whose third column names the authors."""
    write(tmp_path, "fra", train="Yes.\tOui.\tby someone\n")
    assert corpus.read_folder(tmp_path, ["fra"])["train"] == [Pair("fra", "Yes.", "Oui.")]


def test_a_language_without_a_folder_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        corpus.read_folder(tmp_path, ["deu"])


def test_prepared_pairs_come_back_as_they_were(tmp_path: Path) -> None:
    pairs = [Pair("fra", "Yes.", "Oui\u202f!"), Pair("cmn", "Two\u2028lines", "两\x85行\x1c"), Pair("cmn", "", "")]
    corpus.write_pairs(tmp_path / "pairs.tsv", pairs)
    assert corpus.read_prepared(tmp_path / "pairs.tsv") == pairs
    corpus.write_pairs(tmp_path / "none.tsv", [])
    assert corpus.read_prepared(tmp_path / "none.tsv") == []


def test_references_are_grouped_by_language_and_source() -> None:
    pairs = [Pair("fra", "Hi.", "Salut."), Pair("cmn", "Hi.", "嗨。"), Pair("fra", "No.", "Non."), Pair("fra", "Hi.", "Bonjour.")]
    assert corpus.with_references(pairs) == {"fra": {"Hi.": ["Salut.", "Bonjour."], "No.": ["Non."]}, "cmn": {"Hi.": ["嗨。"]}}
    assert corpus.summary(pairs) == {"fra": 3, "cmn": 1}
