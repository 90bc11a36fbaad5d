"""The facade with what no caller should give it: the right answer or a typed error, and never an index that is not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from model import load_translator
from model.analysis.cells import STAGES
from model.analysis.position_scores import clearest_head, position_scores
from model.analysis.position_sentence import input_lengths, likeness
from model.analysis.roles import head_roles
from model.analysis.rollout import rollout
from model.analysis.score_scale import head_score_scale
from model.analysis.word_order import read_orders
from model.cleaning import clean_text
from model.errors import AtlasError, InvalidSettingError
from model.results import Translation
from model.tokenizer import Tokenizer
from model.translator import Translator
from model.variants import PARTS
from tests.fuzz.budget import in_time, share
from tests.fuzz.strategies import bad_index, junk, texts
from tests.tiny import taught_model, tiny_config, train_tokenizer

KINDS = ("encoder_self", "decoder_self", "cross")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    tokenizer = Tokenizer(train_tokenizer(Path(tmp_path_factory.mktemp("tiny")) / "tokenizer.model"))
    return Translator(taught_model(tiny_config(tokenizer.vocab_size), tokenizer), tokenizer, name="tiny")


@pytest.fixture(scope="session")
def embedded() -> Translator:
    return load_translator()


@pytest.fixture(scope="session")
def translation(tiny: Translator) -> Translation:
    return tiny.translate("The cat sat on the mat.", "fra")


def check(translator: Translator, found: Translation, text: str) -> None:
    """What every translation is, whatever was typed."""
    assert found.source_text == translator.tokenizer.decode(found.src_ids, side="source")
    assert clean_text(found.text) == found.text and "\x00" not in found.source_text
    found.source_text.encode("utf-8"), found.text.encode("utf-8")  # no half of a surrogate pair is left
    assert all(token.isprintable() and token for token in (*found.src_tokens, *found.tgt_out_tokens))
    assert len(found.src_ids) <= translator.config.max_len >= len(found.tgt_ids)
    assert all(value <= 0 for value in found.token_log_probs)
    trace = translator.trace(found)
    for maps in (trace.encoder_self_attention, trace.decoder_self_attention, trace.cross_attention):
        np.testing.assert_allclose(maps.sum(axis=-1, dtype=np.float64), 1, atol=1e-5)


def translate_and_check(translator: Translator, text: str, target: object, beam_size: object) -> None:
    with in_time():
        try:
            found = translator.translate(text, target, beam_size)
        except AtlasError as error:
            assert str(error) and len(str(error)) < 500
            return
        check(translator, found, text)


@share(0.10)
@given(texts, st.sampled_from(("fra", "cmn", None)) | junk, st.sampled_from((1, 2, 4)) | junk)
@example("\ud83d", "fra", 1)
@example("a" * 2_000_000, "fra", 1)
def test_any_text_into_any_language(tiny: Translator, text: str, target: object, beam_size: object) -> None:
    translate_and_check(tiny, text, target, beam_size)


@share(0.01)
@given(texts.filter(lambda text: len(text) < 80), st.sampled_from(("fra", "cmn")), st.sampled_from((1, 2)))
def test_any_text_into_the_embedded_model(embedded: Translator, text: str, target: str, beam_size: int) -> None:
    translate_and_check(embedded, text, target, beam_size)


@share(0.02)
@given(st.fixed_dictionaries({}, optional={
    "length_penalty": junk, "max_new_tokens": junk, "method": st.sampled_from(("beam", "greedy", "sample")) | junk,
    "temperature": junk, "top_k": junk, "top_p": junk, "seed": junk,
}))
def test_any_setting(tiny: Translator, settings: dict) -> None:
    with in_time():
        try:
            found = tiny.translate("I love you.", "fra", 2, **settings)
        except AtlasError:
            return
        check(tiny, found, "I love you.")


@share(0.06)
@given(texts | junk, texts | junk, st.sampled_from(("fra", "cmn")))
def test_any_translation_of_one_s_own(tiny: Translator, text: object, given_text: object, target: str) -> None:
    with in_time():
        try:
            found = tiny.force(text, given_text, target)
        except AtlasError:
            return
        assert found.forced and np.isfinite(found.score)
        check(tiny, found, text)
        examined = tiny.examine(found)
        assert len(head_roles(examined.trace)) == 3 * 2 * 2 and rollout(examined.trace).cross.shape[0] == 2


@share(0.10)
@given(st.data())
def test_no_walk_from_a_place_that_is_not_there(tiny: Translator, translation: Translation, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    rows = len(translation.src_ids if kind == "encoder_self" else translation.tgt_ids)
    place = {"kind": kind, "layer": 1, "head": 1, "row": 2}
    wrong = data.draw(st.sampled_from(tuple(place)))
    bad = {"kind": junk.filter(lambda value: value not in KINDS), "layer": bad_index(2), "head": bad_index(2), "row": bad_index(rows)}
    place[wrong] = data.draw(bad[wrong])
    for ask in (lambda: tiny.walk(translation, **place), lambda: tiny.cell(translation, **place, stage="q", index=0)):
        with in_time(), pytest.raises(InvalidSettingError):
            ask()


@share(0.04)
@given(st.sampled_from(KINDS), st.sampled_from(STAGES) | junk, junk, junk)
def test_a_cell_is_there_or_refused(
    tiny: Translator, translation: Translation, kind: str, stage: object, index: object, key: object
) -> None:
    with in_time():
        try:
            found = tiny.cell(translation, kind, 0, 1, 2, stage, index, key)
        except InvalidSettingError:
            return
        assert isinstance(index, int) and index >= 0 and not isinstance(index, bool)
        assert len(found.inputs) == len(found.weights) and np.isfinite(found.total)


@share(0.04)
@given(junk, junk, junk, junk)
def test_analysis_is_asked_for_what_is_not_there(
    tiny: Translator, translation: Translation, first: object, second: object, third: object, part: object
) -> None:
    maps, length = tiny.trace(translation).encoder_self_attention, len(translation.src_ids)
    known = ("encoder_self", "decoder_self")
    questions = (  # what is asked, and whether it is there
        (lambda: position_scores(tiny, translation, "encoder_self", first, second), is_index(first, 2) and is_index(second, 2)),
        (lambda: position_scores(tiny, translation, third, 0, 0), third in known),
        (lambda: clearest_head(tiny, translation, "encoder_self", maps, first), first is None or is_index(first, 2)),
        (lambda: likeness(tiny, translation, first, second), is_index(first, length) and is_index(second, length) and first != second),
        (lambda: input_lengths(tiny, translation, third), third in ("source", "read")),
        (lambda: head_score_scale(tiny.model, translation, "cross", first), is_index(first, 2)),
        (lambda: head_score_scale(tiny.model, translation, third, 0), third in KINDS),
        (lambda: read_orders(tiny, translation, (first, second), 1), False),
        (lambda: tiny.positional_encoding(first), is_index(first, tiny.config.max_len + 1) and first > 0),
        (lambda: tiny.without(part), part in PARTS),
        (lambda: tiny.translate_ids((first, second), "fra"), is_ids(tiny, (first, second))),
        (lambda: tiny.translate_ids(third, "fra"), is_ids(tiny, third)),
        (lambda: tiny.trace(first), False),
        (lambda: tiny.examine(third), False),
        (lambda: tiny.walk(first, "cross", 0, 0, 0), False),
    )
    for number, (ask, there) in enumerate(questions):
        with in_time():
            try:
                ask()
            except InvalidSettingError as error:
                assert not there and len(str(error)) < 600, number
            else:
                assert there, number


def is_index(value: object, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def is_ids(translator: Translator, value: object) -> bool:
    """Whether these are ids of the vocabulary, and at least one."""
    size = translator.config.encoder.vocab_size
    return isinstance(value, (list, tuple, bytes)) and len(value) > 0 and all(isinstance(i, int) and 0 <= i < size for i in value)


@pytest.mark.parametrize("part", PARTS)
def test_a_variant_checks_as_the_whole_model_does(tiny: Translator, translation: Translation, part: str) -> None:
    variant = tiny.without(part)
    for bad in (-1, 2, True, 1.0, "0", None):
        with pytest.raises(InvalidSettingError):
            variant.walk(translation, "cross", 0, bad, 0)
