"""Words in another order: permutation equivariance of attention without positions, its absence with them, and the orders themselves."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.analysis.word_order import read_orders, shuffled, token_order
from model.errors import InvalidSettingError
from model.hooks import AttentionRecorder, attention_hook
from model.loading import load_translator
from model.tokenizer import Tokenizer
from model.translator import Translator
from tests import tiny
from tests.model.marian.factories import make_marian_folder

TEXT = "The cat saw the cat, and the dog."
SHAPES = {
    "post": {"num_heads": 4, "num_decoder_heads": 2},
    "pre, halves": {"norm": "pre", "position_layout": "halves", "num_encoder_layers": 3},
}


@pytest.fixture(scope="module", params=SHAPES)
def translator(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> Translator:
    config = tiny.tiny_config(tiny_tokenizer.vocab_size, **SHAPES[request.param])
    return Translator(tiny.random_model(config, seed=1, eos_bias=1.0), tiny_tokenizer, "tiny")


def cycle(count: int) -> tuple[int, ...]:
    """An order that is not its own inverse, so that moving there and back are told apart; the ends stay."""
    return (0, *range(3, count - 1), 1, 2, count - 1)


def encoder_maps(translator: Translator, ids: list[int]) -> np.ndarray:
    with torch.no_grad(), attention_hook(AttentionRecorder()) as recorder:
        translator.model.encode(torch.tensor([ids]))
    return recorder.stack("encoder_self")[:, 0].numpy()


def test_maps_are_the_encoders_own_of_each_order_with_and_without(translator: Translator) -> None:
    translation = translator.translate(TEXT)
    count = len(translation.src_ids)
    order = cycle(count)
    found = read_orders(translator, translation, order)
    moved = [translation.src_ids[place] for place in order]
    assert found.tokens == order and tuple(moved) != translation.src_ids
    for name, model in (("on", translator), ("off", translator.without("positions"))):
        np.testing.assert_allclose(found.original[name].maps, encoder_maps(model, list(translation.src_ids)), atol=1e-6)
        np.testing.assert_allclose(found.shuffled[name].maps, encoder_maps(model, moved), atol=1e-6)
        assert found.original[name].translation == model.translate(TEXT)
        assert found.shuffled[name].translation.src_ids == tuple(moved)
        assert found.shuffled[name].translation.text == model.translate_ids(moved).text


def test_without_positions_rows_and_columns_only_move(translator: Translator) -> None:
    translation = translator.translate(TEXT)
    order = cycle(len(translation.src_ids))
    found = read_orders(translator, translation, order)
    for layer, head in np.ndindex(found.original["off"].maps.shape[:2]):
        original, moved = found.original["off"].maps[layer, head], found.shuffled["off"].maps[layer, head]
        for i, j in np.ndindex(moved.shape):
            assert moved[i, j] == pytest.approx(original[order[i], order[j]], abs=2e-5)
    assert found.differences("off").max() < 2e-5
    assert found.differences("on").min() > 1e-3, "with positions every head's weights change"
    assert np.abs(found.shuffled["off"].maps - found.original["off"].maps).max() > 0.01, "they did move"


def test_the_largest_difference_is_that_of_pairs_of_tokens_with_themselves(translator: Translator) -> None:
    translation = translator.translate(TEXT)
    order = cycle(len(translation.src_ids))
    found = read_orders(translator, translation, order)
    original, moved = found.original["on"].maps, found.shuffled["on"].maps
    place = {token: at for at, token in enumerate(order)}
    for layer, head in np.ndindex(original.shape[:2]):
        one, other = original[layer, head], moved[layer, head]
        pairs = [abs(float(other[place[i], place[j]]) - float(one[i, j])) for i, j in np.ndindex(one.shape)]
        assert found.differences("on")[layer, head] == pytest.approx(max(pairs), abs=1e-6)


def test_without_positions_the_translation_is_the_same_in_any_order(tiny_translator: Translator) -> None:
    """A model that has learned: its translations are varied, so that this says something."""
    changed = 0
    for text in ("I am a student.", "The cat sat on the mat.", "I love you."):
        translation = tiny_translator.translate(text)
        found = read_orders(tiny_translator, translation, cycle(len(translation.src_ids)), beam_size=2)
        assert found.original["off"].translation.tgt_ids == found.shuffled["off"].translation.tgt_ids
        changed += found.original["on"].translation.tgt_ids != found.shuffled["on"].translation.tgt_ids
    assert changed


def test_a_given_translation_is_not_taken_for_the_models_own(tiny_translator: Translator) -> None:
    given = tiny_translator.force("I love you.", "Le chat.")
    found = read_orders(tiny_translator, given, cycle(len(given.src_ids)))
    assert found.original["on"].translation.text == tiny_translator.translate("I love you.").text != "Le chat."


def test_anything_but_an_order_of_all_tokens_is_refused(tiny_translator: Translator) -> None:
    translation = tiny_translator.translate("I love you.")
    count = len(translation.src_ids)
    whole = list(range(count))
    odd = ([*whole[:-1], True], [*whole[:-1], float(count - 1)], ["0", *whole[1:]])
    for order in (whole[1:], [*whole, count], [0, *whole[:-1]], [*whole[:-1], -1], *odd):
        with pytest.raises(InvalidSettingError):
            read_orders(tiny_translator, translation, order)


def test_a_seed_gives_one_order_and_never_the_one_there_is() -> None:
    orders = {shuffled(5, seed) for seed in range(40)}
    assert len(orders) > 20 and all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    assert tuple(range(5)) not in orders and shuffled(5, 3) == shuffled(5, 3)
    assert {shuffled(2, seed) for seed in range(20)} == {(1, 0)}
    assert shuffled(1, 7) == (0,) and shuffled(0, 7) == ()


def test_the_pieces_of_a_word_stay_together() -> None:
    spans = ((0, 1), (1, 3), (3, 4), (4, 7), (7, 8))
    assert token_order(spans, (0, 3, 1, 2, 4)) == (0, 4, 5, 6, 1, 2, 3, 7)
    for order in ((0, 1, 2, 3), (0, 1, 2, 3, 3), (0, 1, 2, 3, 5), (0, 1, 2, 3, "4"), (False, 1, 2, 3, 4)):
        with pytest.raises(InvalidSettingError):
            token_order(spans, order)


def test_a_marian_checkpoint(tmp_path) -> None:
    translator = load_translator(make_marian_folder(tmp_path / "marian"))
    translation = translator.translate("the house is small")
    count = len(translation.src_ids)
    found = read_orders(translator, translation, (*range(1, count - 1), 0, count - 1))
    assert found.differences("off").shape == (2, 4) and found.differences("off").max() < 2e-5
    assert found.differences("on").max() > 1e-3
    assert found.original["on"].translation == translation
