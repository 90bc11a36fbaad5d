"""What the Marian tokenizer promises the page: text stays text, targets, display, and errors that name the file."""

import json
import shutil

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor

from model.cleaning import clean_text
from model.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    EmptyTextError,
    InvalidSettingError,
    TextTooLongError,
    UnknownTargetError,
    UnusableTextError,
)
from model.marian.tokenizer import MarianTokenizer
from tests.model.marian.factories import make_marian_folder

CODES = ("fr", "cmn_Hans", "es")
HOSTILE = (
    *("</s>", "a </s> b", "<pad><unk></s>", ">>fr<< hello", ">>es<<>>fr<<", ">>xx<<", "<0x41>", "<s>", "my_var", "▁", "👩\u200d👧"),
    *("user\u202egpj.exe", "a\x00b\x07c", "a\ud83db", "\ufeffI\u00ad\u200b am", "مرحبا بالعالم", "<script>alert(1)</script>", "$x^2$"),
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    base = tmp_path_factory.mktemp("marian")
    return {
        "bilingual": make_marian_folder(base / "bilingual"),
        "multilingual": make_marian_folder(base / "multilingual", targets=CODES, eos_token_id=37),
        "separate": make_marian_folder(base / "separate", separate_vocabs=True),
        "bytes": make_marian_folder(base / "bytes", byte_fallback=True),
    }


@pytest.fixture(scope="module")
def tokenizers(folders):
    return {name: MarianTokenizer(folder) for name, folder in folders.items()}


@pytest.fixture
def copy(folders, tmp_path):
    """A folder to spoil."""
    return shutil.copytree(folders["bilingual"], tmp_path / "copy")


def read_vocab(folder, name="vocab.json"):
    return json.loads((folder / name).read_text())


# --- ids and targets ---


def test_special_ids_come_from_the_vocabulary(folders, tokenizers):
    for name, folder in folders.items():
        vocab, tokenizer = read_vocab(folder), tokenizers[name]
        assert (tokenizer.eos_id, tokenizer.unk_id, tokenizer.pad_id) == tuple(vocab[token] for token in ("</s>", "<unk>", "<pad>"))
        assert tokenizer.bos_id == tokenizer.pad_id
        assert tokenizer.vocab_size == len(vocab)
    assert tokenizers["multilingual"].eos_id == 37
    assert MarianTokenizer(folders["bilingual"], start_id=5).bos_id == 5
    assert tokenizers["separate"].target_vocab_size == len(read_vocab(folders["separate"], "target_vocab.json")) != len(vocab)


def test_a_source_is_code_pieces_end(folders, tokenizers):
    vocab = read_vocab(folders["multilingual"])
    for code in CODES:
        ids = tokenizers["multilingual"].encode_source("I saw the red apple.", code)
        assert ids[0] == vocab[f">>{code}<<"] and ids[-1] == 37
        assert tokenizers["multilingual"].tokens(ids, "source")[0] == f">>{code}<<"
    assert tokenizers["multilingual"].targets == CODES


def test_a_model_of_one_language_takes_no_code(tokenizers):
    tokenizer = tokenizers["bilingual"]
    assert tokenizer.targets == ("fr",)
    ids = tokenizer.encode_source("I saw the red apple.", "fr")
    assert "".join(tokenizer.tokens(ids, "source")) == "▁I▁saw▁the▁red▁apple.</s>"


def test_ids_are_those_of_the_vocabulary_and_not_of_sentencepiece(folders, tokenizers):
    vocab = read_vocab(folders["bilingual"])
    ids = tokenizers["bilingual"].encode_target("Le chat.")
    assert ids == [vocab[piece] for piece in tokenizers["bilingual"].tokens(ids)]
    assert ids[:-1] != SentencePieceProcessor(model_file=str(folders["bilingual"] / "target.spm")).encode("Le chat.")


def test_separate_vocabularies(folders, tokenizers):
    tokenizer = tokenizers["separate"]
    source, target = read_vocab(folders["separate"]), read_vocab(folders["separate"], "target_vocab.json")
    ids = tokenizer.encode_source("I saw the cat.", "fr")
    sp = SentencePieceProcessor(model_file=str(folders["separate"] / "source.spm"))
    assert ids[:-1] == [source.get(piece, 1) for piece in sp.encode("I saw the cat.", out_type=str)]
    ids = tokenizer.encode_target("Le chat est là, 我爱你。")
    assert [target[token] for token in tokenizer.tokens(ids[:-1])] == ids[:-1]
    assert tokenizer.tokens([50, 51], "source") != tokenizer.tokens([50, 51], "target")


@pytest.mark.parametrize(
    ("settings", "name", "target"),
    [
        ({"target_lang": "de"}, "x/opus-mt-en-nl", "de"),
        ({"target_lang": ""}, "Helsinki-NLP/opus-mt-en-nl", "nl"),
        (None, "Helsinki-NLP/opus-mt-tc-big-zls-eng", "eng"),
        ({}, "someone/opus-mt-en-zho_Hant", "zho_Hant"),
        ({}, "someone/opus-mt-en-de-finetuned", "und"),
        ({}, "", "und"),
    ],
)
def test_the_target_of_a_model_of_one_language(copy, settings, name, target):
    (copy / "tokenizer_config.json").unlink()
    if settings is not None:
        (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    tokenizer = MarianTokenizer(copy, name=name)
    assert tokenizer.targets == (target,)
    assert tokenizer.encode_source("I saw.", target)[-1] == tokenizer.eos_id


def test_a_vocabulary_with_holes(copy):
    vocab = read_vocab(copy)
    holes = {40, 41, 90}
    moved = {token: i for token, i in vocab.items() if i not in holes}
    (copy / "vocab.json").write_text(json.dumps(moved))
    tokenizer = MarianTokenizer(copy)
    assert set(tokenizer.never_generated) == holes | {tokenizer.pad_id}
    for read in (tokenizer.decode, tokenizer.tokens, tokenizer.groups):
        with pytest.raises(ValueError, match="token id 40 lies outside"):
            read([7, 40])


# --- text stays text ---


@pytest.mark.parametrize("name", ["bilingual", "multilingual", "separate", "bytes"])
@pytest.mark.parametrize("text", HOSTILE)
def test_text_never_becomes_a_control_token(tokenizers, name, text):
    check_text(tokenizers[name], text)


@given(st.text(st.characters(codec=None), min_size=1))
@settings(max_examples=200, deadline=None)
@example(">>fr<< </s>").via("control tokens as text")
def test_any_text_can_be_read(tokenizers, text):
    for tokenizer in tokenizers.values():
        check_text(tokenizer, text)


def check_text(tokenizer, text):
    target = tokenizer.targets[-1]
    if not clean_text(text):
        with pytest.raises((EmptyTextError, UnusableTextError)):
            tokenizer.encode_source(text, target)
        return
    ids = tokenizer.encode_source(text, target)
    coded = len(tokenizer.targets) > 1
    reserved = {tokenizer.eos_id, tokenizer.pad_id, *(i for i in ids[:1] if coded)}
    assert not reserved & {*ids[coded:-1]}
    assert ids[-1] == tokenizer.eos_id and ids[coded:] == tokenizer.encode_source(clean_text(text), target)[coded:]
    check_display(tokenizer, ids, "source")
    check_display(tokenizer, tokenizer.encode_target(text), "target")


def check_display(tokenizer, ids, side):
    tokens, groups = tokenizer.tokens(ids, side), tokenizer.groups(ids, side)
    assert len(tokens) == len(ids)
    assert all(token and token.isprintable() for token in tokens)
    assert [position for group in groups for position in range(group.start, group.stop)] == list(range(len(ids)))
    assert tokenizer.decode(ids, side) == clean_text(tokenizer.decode(ids, side))


def test_a_piece_that_is_spelled_like_a_code_stays_text(copy):
    # No public SentencePiece model holds one; a vocabulary can be made so that a piece of ordinary text is spelled like a token.
    vocab = read_vocab(copy)
    (copy / "tokenizer_config.json").write_text(json.dumps({"eos_token": "▁the"}))
    tokenizer = MarianTokenizer(copy, name="a/opus-mt-en-fr")
    ids = tokenizer.encode_source("I saw the cat", "fr")
    assert ids[-1] == vocab["▁the"] and vocab["▁the"] not in ids[:-1] and tokenizer.unk_id in ids


def test_parity_mode_lets_tokens_in_a_text_take_effect(folders):
    tokenizer = MarianTokenizer(folders["multilingual"], parity=True)
    vocab = read_vocab(folders["multilingual"])
    ids = tokenizer.encode_source(">>es<< I saw</s>", "")
    assert ids[0] == vocab[">>es<<"] and ids[-2:] == [37, 37]
    assert tokenizer.encode_source(">>tlh<< I saw", "")[0] == tokenizer.unk_id
    assert tokenizer.encode_source("I saw", "es") == tokenizer.encode_source(">>es<<I saw", "")
    assert tokenizer.encode_source("", "") == tokenizer.encode_target("\n") == [37]
    with pytest.raises(InvalidSettingError):
        tokenizer.encode_source(None, "")
    with pytest.raises(UnknownTargetError):
        tokenizer.encode_source("I saw", "tlh")


# --- decoding ---


def test_special_tokens_and_space_marks_leave_the_text(folders, tokenizers):
    tokenizer = tokenizers["multilingual"]
    ids = tokenizer.encode_target("Le chat a vu la maison.")
    assert tokenizer.decode([tokenizer.pad_id, *ids[:2], tokenizer.unk_id, *ids[2:]]) == "Le chat a vu la maison."
    assert tokenizer.decode([]) == tokenizer.decode([tokenizer.eos_id]) == ""
    # As in the reference, a language code that the model writes is not hidden in a translation.
    code = read_vocab(folders["multilingual"])[">>es<<"]
    assert tokenizer.decode([code, *ids]) == ">>es<< Le chat a vu la maison."


def test_a_source_comes_back_without_its_code_and_tells_of_unknown_characters(tokenizers):
    tokenizer = tokenizers["multilingual"]
    ids = tokenizer.encode_source("I saw ★ today!", "es")
    assert tokenizer.decode(ids, "source") == "I saw ⁇ today!"


def test_no_spaces_between_chinese_pieces(tokenizers):
    tokenizer = tokenizers["bilingual"]
    ids = tokenizer.encode_target("小猫看见了红苹果。 你好吗")
    assert len(ids) > 5
    assert tokenizer.decode(ids) == "小猫看见了红苹果。 你好吗"


def test_bytes_are_assembled(tokenizers):
    tokenizer = tokenizers["bytes"]
    ids = tokenizer.encode_target("Le 😀ß")
    assert tokenizer.decode(ids) == "Le 😀ß"
    assert tokenizer.tokens(ids)[-7:] == ("😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4", "ß 1/2", "ß 2/2", "</s>")
    assert [group.text for group in tokenizer.groups(ids)][-3:] == ["😀", "ß", "</s>"]
    assert tokenizer.decode(ids[:-4]) == "Le \ufffd\ufffd\ufffd"


@pytest.mark.parametrize(("prescribed", "text"), [(False, "Où est la gare ?"), (True, "Où est la gare?")])
def test_spaces_before_punctuation_go_only_where_the_checkpoint_says_so(copy, prescribed, text):
    (copy / "tokenizer_config.json").write_text(json.dumps({"clean_up_tokenization_spaces": prescribed, "target_lang": "fr"}))
    tokenizer = MarianTokenizer(copy)
    assert tokenizer.decode(tokenizer.encode_target("Où est la gare ?")) == text


# --- errors ---


@pytest.mark.parametrize("target", ["de", "", ">>fr<<", "FR", "cmn", None, 4, ["fr"]])
def test_an_unknown_target_names_the_supported_ones(tokenizers, target):
    with pytest.raises(UnknownTargetError) as error:
        tokenizers["multilingual"].encode_source("I saw", target)
    assert error.value.params["supported"] == list(CODES)


def test_unreadable_texts(tokenizers):
    for text, error in (("", EmptyTextError), (" \n", EmptyTextError), ("\u200b\x07", UnusableTextError), (b"I", InvalidSettingError)):
        with pytest.raises(error):
            tokenizers["bilingual"].encode_source(text, "fr")
        with pytest.raises(error):
            tokenizers["bilingual"].encode_target(text)


def test_too_long_says_how_long(copy, tokenizers):
    text = "I saw the red apple. " * 9
    ids = tokenizers["bilingual"].encode_source(text, "fr")
    assert tokenizers["bilingual"].encode_source(text, "fr", limit=len(ids)) == ids
    with pytest.raises(TextTooLongError) as error:
        tokenizers["bilingual"].encode_source(text, "fr", limit=len(ids) - 1)
    assert error.value.params == {"num_tokens": len(ids), "limit": len(ids) - 1}
    (copy / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 30}))
    with pytest.raises(TextTooLongError) as error:
        MarianTokenizer(copy).encode_source(text, "und", limit=500)
    assert error.value.params == {"num_tokens": len(ids), "limit": 30}


@pytest.mark.parametrize("text", ["a" * 2_000_000, "é😀" * 1_000_000, "I am. " * 10_000_000])
def test_a_flood_is_refused(tokenizers, text):
    with pytest.raises(TextTooLongError):
        tokenizers["bilingual"].encode_source(text, "fr", limit=512)


@pytest.mark.parametrize("length", [1e30, 10**30, None])
def test_no_length_limit(copy, length):
    (copy / "tokenizer_config.json").write_text(json.dumps({"model_max_length": length}))
    assert MarianTokenizer(copy).model_max_length >= 512


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json", "target_vocab.json"])
def test_a_missing_file(folders, tmp_path, name):
    folder = shutil.copytree(folders["separate"], tmp_path / "copy")
    (folder / name).unlink()
    with pytest.raises(CheckpointMissingError) as error:
        MarianTokenizer(folder)
    assert error.value.params["path"] == name
    assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("name", ["source.spm", "target.spm", "vocab.json", "target_vocab.json", "tokenizer_config.json"])
@pytest.mark.parametrize("spoil", ["empty", "half", "pointer", "bytes", "folder"])
def test_a_damaged_file(folders, tmp_path, name, spoil):
    folder = shutil.copytree(folders["separate"], tmp_path / "copy")
    path = folder / name
    whole = path.read_bytes()
    path.unlink()
    if spoil == "folder":
        path.mkdir()
    else:
        pointer = b"version https://example.org/large-file\noid 12\n"
        path.write_bytes({"empty": b"", "half": whole[: len(whole) // 2], "pointer": pointer, "bytes": b"\xff\xfe\x00" * 40}[spoil])
    with pytest.raises(CheckpointCorruptError) as error:
        MarianTokenizer(folder)
    assert error.value.params["path"] == name
    assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize(
    "vocab",
    ["[]", "3", '{"</s>": 0, "<unk>": 1}', '{"</s>": 0, "<unk>": 1, "<pad>": -1}', '{"</s>": 0, "<unk>": true, "<pad>": 2}']
    + ['{"</s>": 0, "<unk>": 1, "<pad>": 99999999999}', '{"</s>": 0, "<unk>": "1", "<pad>": 2}', "[" * 100_000, '{"</s>": NaN}'],
)
def test_a_vocabulary_of_another_kind(copy, vocab):
    (copy / "vocab.json").write_text(vocab)
    with pytest.raises(CheckpointCorruptError) as error:
        MarianTokenizer(copy)
    assert error.value.params["path"] == "vocab.json"


@pytest.mark.parametrize(
    "settings",
    [
        {"eos_token": 3},
        {"unk_token": {"content": None}},
        {"separate_vocabs": "yes"},
        {"clean_up_tokenization_spaces": 1},
        {"model_max_length": "long"},
        {"model_max_length": -1},
        {"model_max_length": True},
        {"added_tokens_decoder": [1]},
        {"added_tokens_decoder": {"-1": "x"}},
        {"added_tokens_decoder": {"9" * 30: "x"}},
        {"added_tokens_decoder": {"5": {"content": 4}}},
        {"additional_special_tokens": [3]},
        {"additional_special_tokens": 3},
    ],
)
def test_settings_of_the_wrong_kind(copy, settings):
    (copy / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(CheckpointCorruptError) as error:
        MarianTokenizer(copy)
    assert error.value.params["path"] == "tokenizer_config.json"


def test_special_tokens_written_as_objects(copy, tokenizers):
    token = {"__type": "AddedToken", "content": "</s>", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    (copy / "tokenizer_config.json").write_text(json.dumps({"eos_token": token, "target_lang": "fr"}))
    assert MarianTokenizer(copy).encode_source("I saw", "fr") == tokenizers["bilingual"].encode_source("I saw", "fr")
