"""Random segmentations: repeatable in any process, true to the text, drawn as likely as SentencePiece draws them."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sentencepiece as spm

from model.training.segmentation import SubwordSampler
from tests.model.training import samples

DRAWS = 4000
TEXTS = [row[0] for row in samples.sentences()]


def test_another_process_draws_the_same(vocabulary: spm.SentencePieceProcessor, vocabulary_file: Path) -> None:
    """SentencePiece's own sampling does not: resumed runs and parallel processes would each see other batches."""
    code = (
        "import random, sys, sentencepiece\n"
        "from model.training.segmentation import SubwordSampler\n"
        "vocabulary = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1])\n"
        "print(SubwordSampler(vocabulary, 0.3).encode(sys.argv[2:], random.Random(5)))\n"
    )
    command = [sys.executable, "-c", code, str(vocabulary_file), *TEXTS[:20]]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]).stdout
    assert printed.strip() == str(SubwordSampler(vocabulary, 0.3).encode(TEXTS[:20], random.Random(5)))


def test_a_seed_repeats_it_whatever_was_cut_before(vocabulary: spm.SentencePieceProcessor) -> None:
    sampler = SubwordSampler(vocabulary, 0.3)
    first = sampler.encode(TEXTS, random.Random(1))
    assert sampler.encode(TEXTS, random.Random(1)) == first
    assert sampler.encode(TEXTS, random.Random(2)) != first


@pytest.mark.parametrize("text", [*TEXTS[:5], "café 😀 नम", "", " ", "two  spaces", "我妹妹 saw 12"])
def test_pieces_spell_the_text(text: str, vocabulary: spm.SentencePieceProcessor) -> None:
    for ids in SubwordSampler(vocabulary, 0.1).encode([text] * 20, random.Random(0)):
        assert vocabulary.decode(ids) == " ".join(text.split())
        assert not any(vocabulary.is_unknown(i) or vocabulary.is_control(i) for i in ids)


def test_a_high_alpha_cuts_as_without_sampling(vocabulary: spm.SentencePieceProcessor) -> None:
    assert SubwordSampler(vocabulary, 1e4).encode(TEXTS, random.Random(0)) == vocabulary.encode(TEXTS)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0])
@pytest.mark.parametrize("text", ["doctor", "books today", "sold"])
def test_as_likely_as_sentencepiece_draws(text: str, alpha: float, vocabulary: spm.SentencePieceProcessor) -> None:
    ours = Counter(map(tuple, SubwordSampler(vocabulary, alpha).encode([text] * DRAWS, random.Random(0))))
    drawn = vocabulary.encode([text] * DRAWS, enable_sampling=True, alpha=alpha, nbest_size=-1, num_threads=1)
    theirs = Counter(map(tuple, drawn))
    # total variation; two draws from one distribution differ by about sqrt(kinds / (pi x draws))
    distance = sum(abs(ours[cut] - theirs[cut]) for cut in ours | theirs) / 2 / DRAWS
    assert distance < 0.08


def test_bytes_are_the_last_resort(vocabulary: spm.SentencePieceProcessor) -> None:
    """A character that is a piece is never cut into them, however wild the sampling."""
    for ids in SubwordSampler(vocabulary, 0.01).encode(TEXTS, random.Random(0)):
        assert not any(map(vocabulary.is_byte, ids))
