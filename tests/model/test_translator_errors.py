"""Whatever is typed or set wrong is refused with its own error."""

import time

import numpy as np
import pytest

from model.decoding import DecodingSettings
from model.errors import EmptyTextError, InvalidSettingError, TextTooLongError, UnknownTargetError, UnusableTextError

TEXT = "The cat saw 12 apples."


@pytest.mark.parametrize("text", ["", "   ", "\n\u3000"])
def test_no_text(tiny_translator, text):
    with pytest.raises(EmptyTextError):
        tiny_translator.translate(text)
    for texts in ((text, "x"), ("x", text)):
        with pytest.raises(EmptyTextError):
            tiny_translator.force(*texts)


@pytest.mark.parametrize("text", ["\x00\x01", "\u202e", "\udcff"])
def test_no_usable_text(tiny_translator, text):
    with pytest.raises(UnusableTextError):
        tiny_translator.translate(text)


def test_a_long_text_is_refused_with_its_number(tiny_translator):
    text = "I am a student. " * 312 + "I am old"
    assert len(text) == 5000
    with pytest.raises(TextTooLongError) as error:
        tiny_translator.translate(text)
    num_tokens = len(tiny_translator.tokenizer.encode_source(text, "fra"))
    assert error.value.params == {"num_tokens": num_tokens, "limit": 64}
    assert str(num_tokens) in str(error.value) and "64" in str(error.value)
    with pytest.raises(TextTooLongError):
        tiny_translator.force(TEXT, text)


def test_a_huge_text_is_refused_fast(tiny_translator):
    start = time.process_time()
    with pytest.raises(TextTooLongError):
        tiny_translator.translate("word \x00é" * 5_000_000)
    assert time.process_time() - start < 3


@pytest.mark.parametrize("target", ["deu", "", 7, ["fra"]])
def test_unknown_target(tiny_translator, target):
    with pytest.raises(UnknownTargetError, match="fra, cmn"):
        tiny_translator.translate(TEXT, target)
    with pytest.raises(UnknownTargetError):
        tiny_translator.force(TEXT, "x", target)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", None),
        ("text", 5),
        ("beam_size", 0),
        ("beam_size", 17),
        ("beam_size", 1000),
        ("beam_size", -1),
        ("beam_size", 2.5),
        ("beam_size", True),
        ("beam_size", "4"),
        ("method", "magic"),
        ("method", None),
        ("method", ["beam"]),
        ("temperature", 0),
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", "hot"),
        ("temperature", None),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_p", float("nan")),
        ("length_penalty", float("nan")),
        ("length_penalty", 1e9),
        ("length_penalty", "1"),
        ("max_new_tokens", 0),
        ("max_new_tokens", 65),
        ("max_new_tokens", 1.0),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", "a"),
        ("seed", 1.0),
    ],
)
def test_impossible_settings(tiny_translator, name, value):
    with pytest.raises(InvalidSettingError) as error:
        tiny_translator.translate(**{"text": TEXT, name: value})
    assert error.value.params["name"] == name and error.value.params["allowed"]


def test_numpy_numbers_are_numbers():
    settings = DecodingSettings(beam_size=np.int64(3), temperature=np.float32(0.5), seed=np.int32(3))
    assert settings == DecodingSettings(beam_size=3, temperature=0.5, seed=3)
    assert type(settings.beam_size) is int and type(settings.temperature) is float


def test_settings_that_are_nothing_of_the_kind(tiny_translator):
    for settings in ({"beam_size": 10**5000}, {"method": np.array(["beam", "greedy"])}, {"target": 10**5000}):
        with pytest.raises((InvalidSettingError, UnknownTargetError)):
            tiny_translator.translate(TEXT, **settings)
    for thing in ("x", None, 5):
        with pytest.raises(InvalidSettingError, match="translation"):
            tiny_translator.trace(thing)


def test_what_is_printed_is_short(tiny_translator):
    trace = tiny_translator.trace(tiny_translator.translate(TEXT))
    assert "cross_attention=(" in repr(trace) and len(repr(trace)) < 300
    assert "fra" in repr(tiny_translator)
