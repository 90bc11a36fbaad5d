"""Lengths at the foot of the stacks and likeness of two places: against numpy, and against what must hold of any model."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from model.analysis.position_sentence import input_lengths, likeness
from model.errors import InvalidSettingError
from model.loading import load_translator
from model.tokenizer import Tokenizer
from model.translator import Translator
from tests import tiny
from tests.model.factories import torch_encoder
from tests.model.marian.factories import make_marian_folder

TEXT = "The cat saw the cat, and the dog."  # repeated tokens
SHAPES = {
    "paper": {},
    "pre-norm, halves": {"norm": "pre", "position_layout": "halves"},
    "unscaled, untied": {"scale_embedding": False, "tie_embeddings": False, "tie_output": True},
    "unequal": {"num_encoder_layers": 3, "num_decoder_heads": 4, "norm": "pre"},
}


@pytest.fixture(scope="module", params=SHAPES)
def translator(request: pytest.FixtureRequest, tiny_tokenizer: Tokenizer) -> Translator:
    config = tiny.tiny_config(tiny_tokenizer.vocab_size, **SHAPES[request.param])
    return Translator(tiny.random_model(config, seed=3), tiny_tokenizer, "tiny")


def formula(length: int, d_model: int) -> np.ndarray:
    """PE in the paper's order; lengths of rows are the same in either."""
    angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model)


@pytest.mark.parametrize("side", ["source", "read"])
def test_lengths_are_those_of_the_rows_that_are_added(translator: Translator, side: str) -> None:
    translation = translator.force(TEXT, "Le chat a vu le chat.")
    config, model = translator.config, translator.model
    ids = translation.src_ids if side == "source" else (config.bos_id, *translation.tgt_ids[:-1])
    table = (model.src_embedding if side == "source" else model.tgt_embedding).tokens.weight.detach().numpy()
    found = input_lengths(translator, translation, side)
    rows = table[list(ids)].astype(np.float64)
    assert len(found.embedding) == len(ids) and len(set(np.round(found.embedding, 4))) > 3
    np.testing.assert_allclose(found.embedding, np.linalg.norm(rows, axis=1), rtol=1e-5)
    np.testing.assert_allclose(found.scaled, np.linalg.norm(rows, axis=1) * math.sqrt(config.d_model), rtol=1e-5)
    np.testing.assert_allclose(found.position, math.sqrt(config.d_model / 2), rtol=1e-5)  # every pair has length 1
    assert found.sqrt_d == 4.0 and found.factor == (4.0 if config.scale_embedding else 1.0)
    position = formula(len(ids), config.d_model)
    if config.position_layout == "halves":
        position = np.concatenate([position[:, 0::2], position[:, 1::2]], axis=1)
    np.testing.assert_allclose(found.total, np.linalg.norm(rows * found.factor + position, axis=1), rtol=1e-5)


def test_lengths_of_an_unknown_side_are_refused(translator: Translator) -> None:
    translation = translator.force(TEXT, "Le chat.")
    for side in ("target", "", None, 1):
        with pytest.raises(InvalidSettingError):
            input_lengths(translator, translation, side)


def states(translator: Translator, ids: tuple[int, ...], positions: bool) -> list[np.ndarray]:
    """Embedding, input and every layer's output by `nn.TransformerEncoder`, float64."""
    model = translator.model
    with torch.no_grad():
        rows = model.src_embedding.tokens.weight[list(ids)]
        table = torch.tensor(formula(len(ids), translator.config.d_model), dtype=torch.float32)
        if translator.config.position_layout == "halves":
            table = torch.cat([table[:, 0::2], table[:, 1::2]], dim=1)
        x = rows * (math.sqrt(translator.config.d_model) if translator.config.scale_embedding else 1.0) + table * float(positions)
        encoder = torch_encoder(model).eval()
        found = [rows, x]
        for layer in encoder.layers:
            x = layer(x[None])[0]
            found.append(x)
        if encoder.norm is not None:
            found.append(encoder.norm(x))
        return [each.double().numpy() for each in found]


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float((a * b).sum() / math.sqrt((a * a).sum() * (b * b).sum()))


@pytest.mark.parametrize(("first", "second"), [(2, 5), (1, 3), (6, 0)])
def test_likeness_is_that_of_torchs_own_encoder(translator: Translator, first: int, second: int) -> None:
    translation = translator.force(TEXT, "Le chat.")
    found = likeness(translator, translation, first, second)
    layers = translator.config.encoder.num_layers
    assert found.stages == ("embedding", "input", *map(str, range(layers)), *(("memory",) if translator.config.norm == "pre" else ()))
    assert (found.first, found.second) == (first, second)
    for values, positions in ((found.with_positions, True), (found.without, False)):
        expected = [cosine(each[first], each[second]) for each in states(translator, translation.src_ids, positions)]
        np.testing.assert_allclose(values, expected, atol=2e-5)
    assert np.abs(found.with_positions[1:] - found.without[1:]).max() > 0.01


def test_without_positions_equal_tokens_stay_equal_in_every_layer(translator: Translator) -> None:
    translation = translator.force(TEXT, "Le chat.")
    ids = translation.src_ids
    twice = [(i, j) for i in range(len(ids)) for j in range(i) if ids[i] == ids[j]]
    assert twice
    found = likeness(translator, translation, *twice[0])
    np.testing.assert_allclose(found.without, 1, atol=1e-6)
    assert found.with_positions[0] == 1 and (found.with_positions[1:] < 0.9999).all()


def test_places_that_there_are_not_are_refused(translator: Translator) -> None:
    translation = translator.force(TEXT, "Le chat.")
    count = len(translation.src_ids)
    for places in ((0, count), (-1, 1), (2, 2), (True, 2), (1.0, 2), ("1", 2), (None, 1)):
        with pytest.raises(InvalidSettingError):
            likeness(translator, translation, *places)


def test_a_marian_checkpoint(tmp_path) -> None:
    """Halves, post-norm, start token = padding, a decoder with other heads."""
    translator = load_translator(make_marian_folder(tmp_path / "marian"))
    translation = translator.translate("the house is small")
    lengths = input_lengths(translator, translation, "read")
    start = translator.model.tgt_embedding.tokens.weight[translator.config.bos_id].detach().double().norm()
    assert lengths.embedding[0] == pytest.approx(float(start), rel=1e-5)
    assert lengths.position == pytest.approx(math.sqrt(translator.config.d_model / 2), rel=1e-5)
    found = likeness(translator, translation, 0, 1)
    assert found.stages == ("embedding", "input", "0", "1")
    expected = [cosine(each[0], each[1]) for each in states(translator, translation.src_ids, True)]
    np.testing.assert_allclose(found.with_positions, expected, atol=2e-5)
