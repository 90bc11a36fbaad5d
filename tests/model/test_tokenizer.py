import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from model.cleaning import clean_text, plain_case, plain_punctuation, plain_source
from model.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    EmptyTextError,
    InvalidSettingError,
    TextTooLongError,
    UnknownTargetError,
    UnusableTextError,
)
from model.tokenizer import Tokenizer
from tests.tiny import APOSTROPHE_RULE, SENTENCES, train_tokenizer

PREFIXES = {"fra": 4, "cmn": 5}
HOSTILE = (
    "</s>",
    "<s> <pad> <unk> </s>",
    ">>cmn<< hello",
    "<0x41><0xE4>",
    "<script>alert(1)</script>",
    "<b>bold</b> & <i>",
    "$x^2$ costs 3$",
    "مرحبا بالعالم",
    "שלום עולם",
    "می‌خواهم",
    "क्षि",
    "👩‍👩‍👧 😀 🏴󠁧󠁢󠁥󠁮󠁧󠁿 ❤️",
    "a\u0300e\u0301",
    "\u0301 alone",
    "١٢٣ ½ ² Å",
    "🙂" * 20,
)


@pytest.fixture(scope="module")
def curly_tokenizer(tmp_path_factory):
    """With a normalisation rule inside the SentencePiece model, as the embedded one has."""
    return Tokenizer(train_tokenizer(tmp_path_factory.mktemp("curly") / "tokenizer.model", APOSTROPHE_RULE))


# --- cleaning ---


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("  I\tam \r\n a student . ", "I am a student ."),
        ("Où\u00a0est\u202f?\u3000là", "Où est ? là"),
        ("a\x00b\x07c\x1bd\x7fe\x85f", "a b c d e f"),
        ("a\ud83db", "a b"),
        ("user\u202egpj.exe\u2066\u2069", "usergpj.exe"),
        ("\ufeffI\u00ad\u200b am", "I am"),
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("👩\u200d👧", "👩\u200d👧"),
        ("e\u0301", "é"),
        ("e\u202a\u0301", "é"),
        ("a\u2581b", "a b"),
        ("Ｆｕｌｌ，ｗｉｄｔｈ", "Ｆｕｌｌ，ｗｉｄｔｈ"),
        ("\u200d\ufe0f \u202e", ""),
    ],
)
def test_cleaning(text, cleaned):
    assert clean_text(text) == cleaned


@given(st.text())
@settings(deadline=None)
def test_cleaned_text_is_composed_and_clean_for_good(text):
    cleaned = clean_text(text)
    assert clean_text(cleaned) == cleaned
    assert unicodedata.is_normalized("NFC", cleaned)
    assert cleaned == " ".join(cleaned.split())
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in cleaned)
    steering = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    assert not {unicodedata.bidirectional(character) for character in cleaned} & steering


# --- ids ---


def test_special_ids_and_targets(tiny_tokenizer):
    assert (tiny_tokenizer.pad_id, tiny_tokenizer.bos_id, tiny_tokenizer.eos_id, tiny_tokenizer.unk_id) == (0, 1, 2, 3)
    assert tiny_tokenizer.targets == ("fra", "cmn")
    assert tiny_tokenizer.tokens(range(6)) == ("<pad>", "<s>", "</s>", "<unk>", ">>fra<<", ">>cmn<<")
    assert set(tiny_tokenizer.never_generated) == {0, 1, 4, 5}


@pytest.mark.parametrize("target", ["fra", "cmn"])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_source_is_prefix_pieces_end(tiny_tokenizer, sentence, target):
    ids = tiny_tokenizer.encode_source(sentence, target)
    assert ids[0] == PREFIXES[target] and ids[-1] == 2
    assert ids[1:] == tiny_tokenizer.encode_target(plain_source(sentence))
    assert tiny_tokenizer.decode(ids) == plain_source(sentence)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_never_becomes_a_control_token(tiny_tokenizer, text):
    ids = tiny_tokenizer.encode_source(text, "fra")
    assert not set(ids[1:-1]) & {0, 1, 2, 3, 4, 5}
    assert tiny_tokenizer.decode(ids) == clean_text(plain_source(clean_text(text)))


@pytest.mark.parametrize(
    ("typed", "plain"),
    [
        ("It’s Tom‘s dog.", "It's Tom's dog."),
        ("Itʼs five o′clock, isn`t it?", "It's five o'clock, isn't it?"),
        ("She said “yes” and „no‟.", 'She said "yes" and "no".'),
        ("«Yes», she said", '"Yes", she said'),
        ("Wait…", "Wait..."),
        ("Really？！（yes，50％）", "Really?!(yes,50%)"),
        ("I LOST MY KEYS.", "I lost my keys."),
        ("HELLO", "Hello"),
        ("WAIT! I'M COMING. ARE YOU?", "Wait! I'm coming. Are you?"),
        ("He said: NO. STOP!", "He said: NO. Stop!"),
        ("“WHO?”", '"Who?"'),
        ("NO! HI!", "No! Hi!"),
        ("THE U.S. IS BIG. I AM IN LOVE WITH J. SMITH.", "The U.S. is big. I am in love with J. smith."),
        ("MEET DR. JONES AT 5 P.M. TODAY!!", "Meet Dr. jones at 5 p.m. today!!"),
        ("IT COSTS 3.50 DOLLARS AT WWW.SHOP.COM NOW.", "It costs 3.50 dollars at www.shop.com now."),
        ("ÉTÉ EN FRANCE", "Été en france"),
        ("AT 10:30 I SAW 2 DOGS", "At 10:30 I saw 2 dogs"),
    ],
)
def test_a_source_is_read_with_the_punctuation_and_case_of_the_training(tiny_tokenizer, typed, plain):
    ids = tiny_tokenizer.encode_source(typed, "fra")
    assert ids == tiny_tokenizer.encode_source(plain, "fra")
    assert tiny_tokenizer.decode(ids, "source") == plain
    # a translation has quotation marks of its own, and its capitals stay
    assert tiny_tokenizer.decode(tiny_tokenizer.encode_target(typed)) == typed


@pytest.mark.parametrize(
    "text", ["OK", "U.S.A.", "BBC", "10 KM", "I", "A B C", "I live in the USA.", "This is VERY good", "你好", "مرحبا", "...", ""]
)
def test_other_capitals_stay(text):
    assert plain_case(text) == text


def test_the_usual_case_is_made_once():
    assert plain_case("İSTANBUL IS BIG").endswith("stanbul is big")  # its small form is longer
    assert plain_case(plain_case("I AM HERE. AND YOU?")) == "I am here. And you?"


def test_plain_punctuation_leaves_everything_else_alone():
    text = "L'été — 3,5 – 4 €, 你好！"[:-1] + "naïve 'x' \"y\" ... ​"
    assert plain_punctuation(text) == text


def test_digits_are_split(tiny_tokenizer):
    tokens = tiny_tokenizer.tokens(tiny_tokenizer.encode_target("12 apples 2112"))
    assert all(sum(character.isdigit() for character in token.split(" ")[0]) <= 1 for token in tokens)


def test_decode_drops_special_tokens_wherever_they_stand(tiny_tokenizer):
    ids = tiny_tokenizer.encode_target("I love you.")
    assert tiny_tokenizer.decode([1, 4, *ids[:2], 0, 3, *ids[2:], 2]) == "I love you."
    assert tiny_tokenizer.decode([]) == tiny_tokenizer.decode([1, 2]) == ""


@given(st.text(min_size=1))
@settings(max_examples=300, deadline=None)
@example("</s>").via("control token as text")
@example("’quoted’").via("a rule of the vocabulary")
@example("\ufffd\uffff").via("replacement and noncharacter")
def test_any_text_comes_back(tiny_tokenizer, curly_tokenizer, text):
    cleaned = clean_text(text)
    for tokenizer in (tiny_tokenizer, curly_tokenizer):
        if not cleaned:
            with pytest.raises((EmptyTextError, UnusableTextError)):
                tokenizer.encode_target(text)
            continue
        ids = tokenizer.encode_source(text, "cmn")
        assert tokenizer.decode(ids) == clean_text(plain_source(cleaned))
        assert not set(ids[1:-1]) & {0, 1, 2, 3, 4, 5}
        check_tokens(tokenizer, ids)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_ids_can_be_shown(tiny_tokenizer, data):
    # What a model writes need not be text: bytes in any order, special tokens anywhere.
    some_bytes = st.integers(6, 6 + 255)
    ids = data.draw(st.lists(st.one_of(some_bytes, st.integers(0, tiny_tokenizer.vocab_size - 1))))
    check_tokens(tiny_tokenizer, ids)
    text = tiny_tokenizer.decode(ids)
    assert text == clean_text(text)


def check_tokens(tokenizer, ids):
    tokens, groups = tokenizer.tokens(ids), tokenizer.groups(ids)
    assert len(tokens) == len(ids)
    assert all(token and token.isprintable() for token in tokens)
    assert all(group.text and group.text.isprintable() for group in groups)
    assert [position for group in groups for position in range(group.start, group.stop)] == list(range(len(ids)))


# --- what is shown ---


def test_byte_pieces_name_their_character(tiny_tokenizer):
    ids = tiny_tokenizer.encode_target("I 😀ß~")
    assert tiny_tokenizer.tokens(ids)[-8:] == ("😀 1/4", "😀 2/4", "😀 3/4", "😀 4/4", "ß 1/2", "ß 2/2", "~", "</s>")
    groups = tiny_tokenizer.groups(ids)
    assert [group.text for group in groups[-4:]] == ["😀", "ß", "~", "</s>"]
    assert [group.stop - group.start for group in groups[-4:]] == [4, 2, 1, 1]


def bytes_as_ids(tokenizer, *values):
    shown = [tokenizer.tokens([i])[0] for i in range(6, 6 + 256)]
    return [6 + next(i for i, token in enumerate(shown) if token in (f"<0x{value:02X}>", chr(value))) for value in values]


@pytest.mark.parametrize(
    ("values", "tokens"),
    [
        ((0xE4,), ("<0xE4>",)),
        ((0xE4, 0xBD, 0x41), ("<0xE4>", "<0xBD>", "A")),
        ((0xE4, 0xBD, 0xA0, 0xA0), ("你 1/3", "你 2/3", "你 3/3", "<0xA0>")),
        ((0xC0, 0x80), ("<0xC0>", "<0x80>")),  # an overlong form of NUL
        ((0xED, 0xA0, 0x80), ("<0xED>", "<0xA0>", "<0x80>")),  # a surrogate
        ((0xF5, 0x80, 0x80, 0x80), ("<0xF5>", "<0x80>", "<0x80>", "<0x80>")),
        ((0x0A,), ("<0x0A>",)),
        ((0xE2, 0x80, 0x8D), ("<U+200D> 1/3", "<U+200D> 2/3", "<U+200D> 3/3")),
        ((0xCC, 0x81), ("◌\u0301 1/2", "◌\u0301 2/2")),
    ],
)
def test_bytes_are_joined_only_where_they_are_a_character(tiny_tokenizer, values, tokens):
    assert tiny_tokenizer.tokens(bytes_as_ids(tiny_tokenizer, *values)) == tokens


def test_a_special_token_parts_bytes(tiny_tokenizer):
    ids = bytes_as_ids(tiny_tokenizer, 0xC3, 0xA9)
    assert tiny_tokenizer.tokens([ids[0], 2, ids[1]]) == ("<0xC3>", "</s>", "<0xA9>")


# --- errors ---


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000"])
def test_empty_text(tiny_tokenizer, text):
    with pytest.raises(EmptyTextError):
        tiny_tokenizer.encode_source(text, "fra")


@pytest.mark.parametrize("text", ["\x00", "\u202e\u200b", "\ud800", "\u200d", " \x07 "])
def test_nothing_to_read(tiny_tokenizer, text):
    with pytest.raises(UnusableTextError):
        tiny_tokenizer.encode_source(text, "fra")


@pytest.mark.parametrize("text", [None, 3, b"I love you.", ["I"], object()])
def test_something_else_than_text(tiny_tokenizer, text):
    with pytest.raises(InvalidSettingError, match="text"):
        tiny_tokenizer.encode_source(text, "fra")


@pytest.mark.parametrize("target", ["deu", "", ">>fra<<", "FRA", None, 4, ["fra"], "</s>"])
def test_unknown_target(tiny_tokenizer, target):
    with pytest.raises(UnknownTargetError) as error:
        tiny_tokenizer.encode_source("I love you.", target)
    assert error.value.params["supported"] == ["fra", "cmn"]


def test_too_long_says_how_long(tiny_tokenizer):
    ids = tiny_tokenizer.encode_source("I love you. " * 9, "fra")
    assert tiny_tokenizer.encode_source("I love you. " * 9, "fra", limit=len(ids)) == ids
    with pytest.raises(TextTooLongError) as error:
        tiny_tokenizer.encode_source("I love you. " * 9, "fra", limit=len(ids) - 1)
    assert error.value.params == {"num_tokens": len(ids), "limit": len(ids) - 1}


@pytest.mark.parametrize("text", ["a" * 2_000_000, "é😀" * 1_000_000, "I am. " * 10_000_000, " " * 2_000_000 + "hi", "\ud800" * 2_000_000])
def test_a_flood_is_refused(tiny_tokenizer, text):
    with pytest.raises(TextTooLongError) as error:
        tiny_tokenizer.encode_source(text, "fra", limit=512)
    assert error.value.params["num_tokens"] > 512


@pytest.mark.parametrize("bad", [-1, 10**6])
def test_an_id_outside_the_vocabulary(tiny_tokenizer, bad):
    for read in (tiny_tokenizer.decode, tiny_tokenizer.tokens, tiny_tokenizer.groups):
        with pytest.raises(ValueError, match="outside the vocabulary"):
            read([7, bad])


def test_a_missing_file(tmp_path):
    with pytest.raises(CheckpointMissingError) as error:
        Tokenizer(tmp_path / "tokenizer.model")
    assert error.value.params["path"] == "tokenizer.model"
    assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.9, 0.99])
def test_a_truncated_file(tiny_tokenizer_file, tmp_path, part):
    whole = tiny_tokenizer_file.read_bytes()
    (tmp_path / "tokenizer.model").write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(CheckpointCorruptError):
        Tokenizer(tmp_path / "tokenizer.model")


def test_files_of_another_kind(tmp_path):
    (tmp_path / "text").write_bytes(b"version https://example.org/large-file\noid 12\n")
    for path in (tmp_path / "text", tmp_path):
        with pytest.raises(CheckpointCorruptError):
            Tokenizer(Path(path))
