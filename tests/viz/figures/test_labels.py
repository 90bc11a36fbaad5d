"""Labels: what the reader sees is the token, whatever the token holds."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest

from viz.figures.labels import Label, LabelTexts, escape, plain_label, text_width, token_label, token_labels

TEXTS = LabelTexts(start="⟨start⟩", end="⟨end⟩", unknown="⟨unknown⟩", padding="⟨padding⟩", target="⟨→ {target}⟩", empty="⟨empty⟩")
# the entities that Plotly turns back into characters, besides numeric ones
PLOTLY_ENTITIES = {"mu", "amp", "lt", "gt", "nbsp", "times", "plusmn", "deg"}
HOSTILE = [
    "<b>bold</b>",
    "<script>alert(1)</script>",
    '<a href="javascript:alert(1)">x</a>',
    "<br>",
    "<s",
    "$x^2$",
    "$$",
    "&amp;",
    "&#36;",
    "&lt;b&gt;",
    "%{z:.4f}",
    "{target}",
    '"\'`',
    "Donaudampfschifffahrtsgesellschaft",
    "水" * 40,
    "שלום",
    "مرحبا",
    "👨‍👩‍👧",
    "😀 1/4",
    "<0xE4>",
]


def read(text: str) -> str:
    """What Plotly prints for a text: no tag may be left in it, and entities become characters."""
    assert not re.search(r"<[^>]*>|<", text), text
    assert "$" not in text, text
    names = set(re.findall(r"&(\w+);", text))
    assert names <= PLOTLY_ENTITIES, names
    return re.sub(r"[\u2068\u2069]", "", html.unescape(text))


@pytest.mark.parametrize("token", HOSTILE)
def test_a_hostile_token_is_printed_as_it_stands(token: str) -> None:
    for raw in (token, "▁" + token):
        label = token_label(raw, TEXTS)
        assert label.raw == raw
        assert read(label.full) == token
        assert read(label.hover) == raw
        short = read(label.short)
        assert short == token or (short.endswith("…") and token.startswith(short[:-1]))
        assert not label.special


def test_escape_leaves_nothing_for_plotly_to_read() -> None:
    assert escape('<b> & "$x$"') == '&lt;b&gt; &amp; "&#36;x&#36;"'


def test_word_start_is_left_out_on_axes_and_kept_in_hover() -> None:
    label = token_label("▁Je", TEXTS)
    assert (label.short, label.full, label.piece, label.hover) == ("Je", "Je", "▁Je", "▁Je")
    inside = token_label("aime", TEXTS)
    assert (inside.short, inside.piece, inside.hover) == ("aime", "", "aime")


def test_a_lone_word_start_is_seen() -> None:
    assert token_label("▁", TEXTS).short == "␣"
    assert token_label("▁▁", TEXTS).short == "␣␣"
    assert token_label("▁", TEXTS).hover == "▁"
    assert token_label("a▁b", TEXTS).short == "a␣b"


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("<s>", "⟨start⟩"),
        ("</s>", "⟨end⟩"),
        ("<unk>", "⟨unknown⟩"),
        ("<pad>", "⟨padding⟩"),
        (">>fra<<", "⟨→ fra⟩"),
        (">>cmn_Hans<<", "⟨→ cmn_Hans⟩"),
    ],
)
def test_special_tokens_are_named_and_keep_their_raw_form_in_hover(token: str, shown: str) -> None:
    label = token_label(token, TEXTS)
    assert (label.short, label.full, label.special) == (shown, shown, True)
    assert read(label.hover) == f"{shown} {token}"


@pytest.mark.parametrize("token", ["▁<s>", "<s>x", ">>fra<", "<S>", "▁>>fra<<"])
def test_text_that_resembles_a_special_token_is_text(token: str) -> None:
    assert not token_label(token, TEXTS).special


def test_the_code_in_a_prefix_is_escaped_too() -> None:
    assert read(token_label(">><b>$<<", TEXTS).short) == "⟨→ <b>$⟩"


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("", "⟨empty⟩"),
        (" ", "␣"),
        ("a ", "a␣"),
        ("\u00a0", "U+00A0"),
        ("a\u00a0b", "a␣b"),
        ("\n", "U+000A"),
        ("a\nb", "a␊b"),
        ("a\tb", "a␉b"),
        ("\u200b", "U+200B"),
        ("\u200d", "U+200D"),
        ("\ufe0f", "U+FE0F"),
        ("\u0301", "◌\u0301"),
        ("\u202e", "U+202E"),
        ("a\u0085b", "a␤b"),
        ("a\u0086b", "aU+0086b"),
        ("a\u2028b", "a␤b"),
        ("\ud83d", "U+D83D"),
        ("x\ud83d", "xU+D83D"),
    ],
)
def test_what_leaves_no_ink_is_given_some(token: str, shown: str) -> None:
    label = token_label(token, TEXTS)
    assert re.sub(r"[\u2068\u2069]", "", label.full) == shown
    label.short.encode("utf-8")  # half a surrogate pair would break the page's JSON


@pytest.mark.parametrize("token", ["▁שלום", "مرحبا", "abc\u202edef", "a\u2067b\u2069c"])
def test_right_to_left_text_keeps_to_itself(token: str) -> None:
    label = token_label(token, TEXTS)
    for text in (label.short, label.full, label.hover):
        assert text[0] == "\u2068" and text[-1] == "\u2069"
        assert "\u2069" not in text[1:-1]
    assert "\u2068" not in token_label("▁Je", TEXTS).short


def test_a_long_token_is_cut_on_the_axis_only() -> None:
    token = "▁Donaudampfschifffahrtsgesellschaft"
    label = token_label(token, TEXTS, max_width=6)
    assert label.short.endswith("…") and label.full == token[1:] and label.hover == token
    assert label.width == text_width(label.short) <= 6
    assert token_label("▁student", TEXTS).short == "student"


def test_cutting_leaves_no_accent_or_joiner_behind() -> None:
    accents = token_label("e\u0301" * 40, TEXTS).short
    assert accents.endswith("e\u0301…")
    family = token_label("👨‍👩‍👧" * 10, TEXTS).short
    assert family[-2] != "\u200d" and not unicodedata.category(family[-2]).startswith("M")
    assert token_label("水" * 40, TEXTS).width <= 8


def test_widths_know_wide_and_narrow_letters() -> None:
    assert text_width("水水") == 2
    assert text_width("ill") < text_width("wow")
    assert text_width("e\u0301") == text_width("e")


def test_labels_of_a_sequence() -> None:
    made = token_label("▁x", TEXTS)
    labels = token_labels(["▁the", "▁the", made], TEXTS)
    assert [label.short for label in labels] == ["the", "the", "x"]
    assert labels[2] is made and isinstance(labels[0], Label)
    with pytest.raises(TypeError, match="one string"):
        token_labels("the")


def test_the_default_texts_need_no_language() -> None:
    assert not re.search(r"[a-z]{4}", LabelTexts().start + LabelTexts().end + LabelTexts().unknown + LabelTexts().empty)


@pytest.mark.parametrize("token", [*HOSTILE, "▁Je", "</s>", ">>fra<<", "", "▁", "a&lt;b", "&amp;", "مرحبا", "é"])
def test_the_plain_text_says_the_same_as_the_escaped_one(token: str) -> None:
    label = token_label(token, TEXTS)
    assert escape(label.text) == label.full


def test_a_word_is_no_token() -> None:
    assert [plain_label(text).text for text in ("</s>", "<s>", ">>fra<<", "étudiant", "▁")] == ["</s>", "<s>", ">>fra<<", "étudiant", "␣"]
    label = plain_label("<b>antidisestablishmentarianism")
    assert not label.special and label.hover == label.full == "&lt;b&gt;antidisestablishmentarianism"
    assert label.short.endswith("…") and label.width == pytest.approx(text_width(html.unescape(label.short))) and label.width <= 8
