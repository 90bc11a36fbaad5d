"""Masks of a padded batch: against lists written out by hand, and against what a pass of torch.nn does with them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.analysis.batch_masks import batch_masks
from model.loading import load_translator
from model.translator import Translator
from tests import tiny
from tests.model import factories
from tests.model.marian.factories import make_marian_folder

SEEN, HIDDEN = 0.0, -np.inf
LONG, SHORT = ("The cat sat on the mat.", "Le chat est assis sur le tapis."), ("I love you.", "Je t'aime.")


@pytest.fixture(scope="module", params=["post", "pre", "halves", "marian"])
def translator(request, tmp_path_factory, tiny_tokenizer) -> Translator:
    if request.param == "marian":  # starts the target with its padding, and has unequal stacks
        return load_translator(make_marian_folder(tmp_path_factory.mktemp("marian") / "opus-mt-en-fr", seed=3), "cpu")
    changes = {"position_layout": "halves"} if request.param == "halves" else {"norm": request.param}
    return Translator(tiny.random_model(tiny.tiny_config(tiny_tokenizer.vocab_size, **changes)), tiny_tokenizer, "tiny")


@pytest.fixture(scope="module")
def pair(translator):
    """The short sentence first, so that padding is not in the last one only."""
    translations = [translator.force(*SHORT, translator.targets[0]), translator.force(*LONG, translator.targets[0])]
    return translations, [translator.trace(each) for each in translations]


def test_the_masks_written_out(translator, pair):
    translations, traces = pair
    found = batch_masks(translator.model, translations, traces)
    (s, src_len), (t, tgt_len) = found.src_lengths, found.tgt_lengths
    assert s < src_len and t < tgt_len
    row = [SEEN] * s + [HIDDEN] * (src_len - s)
    assert found.encoder_self[0].tolist() == [row] * src_len and found.cross[0].tolist() == [row] * tgt_len
    assert not found.encoder_self[1].any() and not found.cross[1].any()
    causal = [[SEEN] * (i + 1) + [HIDDEN] * (tgt_len - i - 1) for i in range(tgt_len)]
    assert found.decoder_self[0].tolist() == causal and found.decoder_self[1].tolist() == causal
    assert found.shapes == {"encoder_self": (2, 1, 1, src_len), "decoder_self": (tgt_len, tgt_len), "cross": (2, 1, 1, src_len)}


def test_padding_gets_nothing_and_changes_nothing(translator, pair):
    found = batch_masks(translator.model, *pair)
    assert found.leak == 0
    assert 0 <= found.difference < 2e-6


def test_a_trace_of_another_sentence_is_seen(translator, pair):
    translations, traces = pair
    other = translator.force("I am a student.", SHORT[1], translator.targets[0])
    if len(other.src_ids) != len(translations[0].src_ids):
        other = translator.force("You love I.", SHORT[1], translator.targets[0])
    assert len(other.src_ids) == len(translations[0].src_ids)
    assert batch_masks(translator.model, translations, [translator.trace(other), traces[1]]).difference > 1e-3


def test_the_same_batch_in_torchs_own_modules():
    """torch.nn adds float masks to the scores; ours, handed over as they are shown, give our memory."""
    model = factories.tiny_model(norm="post")
    src_ids = factories.SRC_IDS
    ours = np.where(factories.SRC_MASK.numpy()[:, None], np.float32(0), np.float32(-np.inf)).repeat(src_ids.shape[1], axis=1)
    with torch.inference_mode():
        x = model.src_embedding(src_ids, model.positions[: src_ids.shape[1]])
        mask = torch.from_numpy(ours).repeat_interleave(model.config.num_heads, dim=0)  # [B * H, S, S]
        theirs = factories.torch_encoder(model)(x, mask=mask)
        torch.testing.assert_close(model.encode(src_ids, factories.SRC_MASK), theirs, atol=1e-5, rtol=1e-5)


def test_one_sentence_alone_is_a_batch_too(translator, pair):
    found = batch_masks(translator.model, pair[0][1:], pair[1][1:])
    assert found.encoder_self.shape == (1, found.src_lengths[0], found.src_lengths[0]) and not found.encoder_self.any()
    for translations, traces in (([], []), (pair[0], pair[1][:1])):
        with pytest.raises(ValueError, match="one each"):
            batch_masks(translator.model, translations, traces)
