"""The SentencePiece vocabulary: what is a piece, what text becomes, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
import sentencepiece as spm

from model.tokenizer import Tokenizer
from model.training.vocabulary import NORMALIZATION, train_vocabulary
from tests.model.training import samples


def pieces(vocabulary: spm.SentencePieceProcessor, text: str) -> list[str]:
    return vocabulary.encode(text, out_type=str)


def test_special_ids_and_prefixes(vocabulary: spm.SentencePieceProcessor) -> None:
    assert [vocabulary.id_to_piece(i) for i in range(6)] == ["<pad>", "<s>", "</s>", "<unk>", ">>fra<<", ">>cmn<<"]
    assert (vocabulary.pad_id(), vocabulary.bos_id(), vocabulary.eos_id(), vocabulary.unk_id()) == (0, 1, 2, 3)
    assert [vocabulary.is_control(i) for i in range(7)] == [True, True, True, False, True, True, False]
    assert vocabulary.get_piece_size() == samples.VOCAB_SIZE


def test_the_tokenizer_takes_it(vocabulary_file: Path) -> None:
    tokenizer = Tokenizer(vocabulary_file)
    assert tokenizer.targets == samples.TARGETS
    assert tokenizer.encode_source("Tom", "cmn")[0] == 5


def test_text_never_becomes_a_control_symbol(vocabulary: spm.SentencePieceProcessor) -> None:
    for text in (">>fra<<", "</s>", "<pad> <s>", "<unk>"):
        assert not any(vocabulary.is_control(i) or vocabulary.is_unknown(i) for i in vocabulary.encode(text))
        assert vocabulary.decode(vocabulary.encode(text)) == text


def test_every_chinese_character_of_the_data_is_a_piece(tmp_path: Path) -> None:
    """Once in ten thousand characters, and outside the first block: an extension, a compatibility form, the second plane, the zero."""
    rare = "㗎龘\U00021861豈〇"
    text = [row[0] for row in samples.sentences()] * 20 + ["我们" + ch for ch in rare] + [row[2] for row in samples.sentences()]
    train_vocabulary(text, tmp_path / "rare.model", 400, ["cmn"])
    vocabulary = spm.SentencePieceProcessor(model_file=str(tmp_path / "rare.model"))
    for character in {ch for row in samples.sentences() for ch in row[2] if "\u4e00" <= ch <= "\u9fff"} | set(rare):
        assert not vocabulary.is_unknown(vocabulary.piece_to_id(character)), character


@pytest.mark.parametrize("text", ["😀", "नमस्ते", "שלום", "Ünïcødé", "𝔘", "§¶", "\u0301", "한국어"])
def test_other_characters_fall_back_to_bytes(vocabulary: spm.SentencePieceProcessor, text: str) -> None:
    ids = vocabulary.encode(text)
    assert not any(vocabulary.is_unknown(i) for i in ids)
    assert any(vocabulary.is_byte(i) for i in ids)
    assert vocabulary.decode(ids) == text


def test_all_256_bytes_are_pieces(vocabulary: spm.SentencePieceProcessor) -> None:
    assert sum(map(vocabulary.is_byte, range(vocabulary.get_piece_size()))) == 256


@pytest.mark.parametrize("text", ["in 2014", "12 books", "2014年", "x12y"])
def test_digits_stand_alone(vocabulary: spm.SentencePieceProcessor, text: str) -> None:
    found = [piece for piece in pieces(vocabulary, text) if not vocabulary.is_byte(vocabulary.piece_to_id(piece))]
    assert [piece for piece in found if any(map(str.isdigit, piece))] == [ch for ch in text if ch.isdigit()]


@pytest.mark.parametrize("space", ["\u00a0", "\u202f", "\u2009", "\u3000", "\t", "\n", "\r", "  "])
def test_all_spaces_are_one(vocabulary: spm.SentencePieceProcessor, space: str) -> None:
    assert vocabulary.encode(f"a{space}dog") == vocabulary.encode("a dog")
    assert vocabulary.encode(f"{space}a dog{space}") == vocabulary.encode("a dog")


def test_the_typographic_apostrophe_is_the_plain_one(vocabulary: spm.SentencePieceProcessor) -> None:
    assert vocabulary.encode("aujourd’hui") == vocabulary.encode("aujourd'hui")


@pytest.mark.parametrize("text", ["！", "？", "，", "。", "：", "“", "”", "Ａ", "１", "ﬁ", "²", "½", "…", "é", "E"])
def test_nothing_else_is_normalised(vocabulary: spm.SentencePieceProcessor, text: str) -> None:
    """NFKC, SentencePiece's default, would make most of these something else."""
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_full_width_marks_differ_from_plain_ones(vocabulary: spm.SentencePieceProcessor) -> None:
    assert vocabulary.encode("！") != vocabulary.encode("!")
    assert not any(map(vocabulary.is_byte, vocabulary.encode("！")))


def test_all_sentences_come_back(vocabulary: spm.SentencePieceProcessor) -> None:
    for text in (text for row in samples.sentences() for text in row):
        ids = vocabulary.encode(text)
        assert vocabulary.decode(ids) == text
        assert not any(vocabulary.is_unknown(i) for i in ids)


def test_sampled_segmentations_spell_the_same_text(vocabulary: spm.SentencePieceProcessor) -> None:
    text = "The doctor sold the old car in 2014."
    drawn = [vocabulary.encode(text, enable_sampling=True, alpha=0.3, nbest_size=-1) for _ in range(20)]
    assert len({tuple(ids) for ids in drawn}) > 5
    assert {vocabulary.decode(ids) for ids in drawn} == {text}


def test_normalisation_table_is_single_characters() -> None:
    """The rules file holds one code point a side."""
    assert all(len(old) == len(new) == 1 for old, new in NORMALIZATION.items())
