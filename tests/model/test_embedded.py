"""The model that comes with the project: what it must translate, and that its recorded example is one of its own runs."""

import json
import re

import numpy as np
import pytest

from model import load_translator
from model.catalogue import EMBEDDED
from model.config import count_parameters
from model.recording import load_run
from model.stepping import DecoderWeights
from model.training.export import EVALUATION_FILE, EXAMPLE_FILE


@pytest.fixture(scope="module")
def translator():
    return load_translator(device="cpu")


@pytest.mark.parametrize(
    ("text", "target", "accepted"),
    [
        ("I am a student.", "fra", {"Je suis étudiant.", "Je suis étudiante.", "Je suis un étudiant.", "Je suis une étudiante."}),
        ("I love you.", "fra", {"Je t'aime."}),
        ("I love you.", "cmn", {"我爱你。"}),
    ],
)
def test_worked_examples(translator, text, target, accepted):
    assert translator.translate(text, target).text in accepted


def test_the_recorded_example_is_a_run_of_these_weights(translator):
    translation, trace = load_run(EMBEDDED.folder / EXAMPLE_FILE)
    fresh = translator.translate(translation.source_text, translation.target)
    assert fresh.tgt_ids == translation.tgt_ids
    np.testing.assert_allclose(fresh.token_log_probs, translation.token_log_probs, atol=1e-4)
    for name in ("encoder_self_attention", "decoder_self_attention", "cross_attention"):
        np.testing.assert_allclose(getattr(translator.trace(fresh), name), getattr(trace, name), atol=1e-4)


def test_it_attends_to_different_words(translator):
    """A collapsed encoder gives every position the same memory, and cross-attention has nothing to choose from."""
    trace = translator.trace(translator.translate("My friend gave me a book about the history of Boston.", "fra"))
    even = 1 / len(trace.src_tokens)
    assert trace.cross_attention[:, :, :-1].max(axis=-1).mean() > 3 * even


def test_the_files_are_small_enough_for_a_space(translator):
    sizes = {path.name: path.stat().st_size for path in EMBEDDED.folder.iterdir()}
    assert max(sizes.values()) < 10_000_000
    assert sum(sizes.values()) < 25_000_000


def test_the_card_says_what_was_measured(translator):
    card = (EMBEDDED.folder / "README.md").read_text(encoding="utf-8")
    scores = json.loads((EMBEDDED.folder / EVALUATION_FILE).read_text(encoding="utf-8"))["scores"]
    assert set(scores) == set(translator.targets)
    for measured in scores.values():
        assert f"| {measured['sentences']:,} | {measured['bleu']} | {measured['chrf']} |" in card
    assert re.search(rf"\b{sum(count_parameters(translator.config).values()):,}\b", card)
    assert "Tatoeba" in card and "CC BY 2.0 FR" in card


def test_the_copies_for_decoding_are_counted_apart(translator):
    """What Machine shows is the model's own size; what the pool makes room for is all of it."""
    config = translator.config
    assert translator.num_bytes == 4 * (sum(count_parameters(config).values()) + config.max_len * config.d_model)
    assert translator.memory_bytes - translator.num_bytes == DecoderWeights(translator.model).num_bytes <= 21 * 10**6
