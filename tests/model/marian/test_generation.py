"""Greedy and beam search with a Marian checkpoint's rules against `generate` of the transformers package: every hypothesis, its score, its
rows, and the number of steps."""

from dataclasses import replace

import pytest

from model.marian.config import read_marian_config
from model.marian.generation import max_new_tokens, search_rules
from tests.model.marian.factories import make_marian_folder
from tests.model.marian.generation_reference import Pair

TOLERANCE = 1e-5
LIMITS = (4, 12)
SOURCES = (2, 3, 5)
FOLDERS = {
    "renormalized": {"generation": {"renormalize_logits": True}},
    "plain": {"generation": {"renormalize_logits": False, "forced_eos_token_id": None}, "eos_token_id": 11, "seed": 1},
    "separate": {"separate_vocabs": True, "eos_token_id": 5, "activation_function": "relu", "seed": 2, "generation_file": False},
}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    base = tmp_path_factory.mktemp("generation")
    return {name: Pair(base / name, init_std=0.15, **options) for name, options in FOLDERS.items()}


def check(found, expected, score_tolerance=TOLERANCE):
    (steps, found), (expected_steps, expected) = found, expected
    assert steps == expected_steps
    assert [hypothesis.token_ids for hypothesis in found] == [outcome.token_ids for outcome in expected]
    assert [hypothesis.rows for hypothesis in found] == [outcome.rows for outcome in expected]
    if expected[0].score is not None:
        assert [hypothesis.score for hypothesis in found] == pytest.approx([outcome.score for outcome in expected], abs=score_tolerance)


@pytest.mark.parametrize("early_stopping", [False, True, "never"])
@pytest.mark.parametrize("length_penalty", [0.6, 1.0, 2.0])
@pytest.mark.parametrize("beam_size", [2, 4, 6])
@pytest.mark.parametrize("name", ["renormalized", "plain"])
def test_beam_search_is_the_reference_s(pairs, name, beam_size, length_penalty, early_stopping):
    pair = pairs[name]
    for limit in LIMITS:
        for seed in SOURCES:
            src_ids = pair.src_ids(seed)
            expected = pair.generate(src_ids, limit, beam_size, length_penalty=length_penalty, early_stopping=early_stopping)
            check(pair.search(src_ids, limit, beam_size, length_penalty, early_stopping=early_stopping), expected)


@pytest.mark.parametrize("length_penalty", [-1.0, 0.0, 5.0])
def test_beam_search_with_unusual_penalties(pairs, length_penalty):
    for pair in pairs.values():
        for early_stopping in (False, "never"):
            src_ids = pair.src_ids(7)
            expected = pair.generate(src_ids, 8, 3, length_penalty=length_penalty, early_stopping=early_stopping)
            # At -1 a score is a sum times its length.
            check(pair.search(src_ids, 8, 3, length_penalty, early_stopping=early_stopping), expected, 1e-4)


@pytest.mark.parametrize("name", FOLDERS)
def test_greedy_search_is_the_reference_s(pairs, name):
    pair = pairs[name]
    lengths = set()
    for seed in range(12):
        for limit in (1, *LIMITS):
            expected = pair.generate(pair.src_ids(seed), limit, 1)
            check(pair.search(pair.src_ids(seed), limit, 1), expected)
            lengths.add(expected[0])
    assert len(lengths) > 3


@pytest.mark.parametrize("name", FOLDERS)
def test_with_the_checkpoint_s_own_settings(pairs, name):
    """Nothing is said to the reference: its beams, limit and rules are what it reads from the folder, and so are ours."""
    pair = pairs[name]
    defaults = pair.config.generation
    limit = max_new_tokens(defaults, pair.config.transformer.max_len)
    assert limit == 31 and defaults.num_beams == 4
    for seed in range(20, 24):
        expected = pair.generate(pair.src_ids(seed), None, None)
        check(pair.search(pair.src_ids(seed), limit, defaults.num_beams, defaults.length_penalty), expected)


def test_the_limit_of_one_token(pairs):
    for pair in pairs.values():
        for beam_size in (1, 4):
            src_ids = pair.src_ids(3)
            # With a forced end the reference fills its slots with copies of the one possible hypothesis.
            (steps, found), (expected_steps, expected) = pair.search(src_ids, 1, beam_size), pair.generate(src_ids, 1, beam_size)
            check((steps, found[:1]), (expected_steps, expected[:1]))


def test_the_sources_and_limits_reach_every_rule(pairs):
    """Otherwise the comparisons above would prove little."""
    plain, forced = pairs["plain"], pairs["renormalized"]
    found = [plain.search(plain.src_ids(seed), limit, 4, 2.0)[1] for seed in SOURCES for limit in LIMITS]
    assert len({len(hypotheses[0].token_ids) for hypotheses in found}) > 2
    assert sum(len(set(hypotheses[0].rows)) > 1 for hypotheses in found) > 3
    order = [[hypothesis.finished for hypothesis in hypotheses] for hypotheses in found]
    assert any(not row[0] and any(row) for row in order)  # a cut one won over a finished one
    assert any(row[0] and not all(row) for row in order)
    ends = [hypothesis for seed in range(8) for hypothesis in forced.search(forced.src_ids(seed), 4, 4)[1]]
    assert {hypothesis.finished for hypothesis in ends} == {True, False}
    assert all(hypothesis.token_ids[-1] == forced.config.generation.eos_id for hypothesis in ends)
    # Padding is banned where it would have come, and the rest is raised to one again or is not.
    pad_id = plain.config.generation.pad_id
    unbanned = plain.search(plain.src_ids(0), 4, 4, bad_word_ids=())[1][0]
    assert pad_id in unbanned.token_ids
    scores = [plain.search(plain.src_ids(0), 4, 4, renormalize_logits=choice)[1][0].score for choice in (False, True)]
    assert scores[1] - scores[0] > 1.0
    early, late = ([plain.search(plain.src_ids(seed), 12, 4, early_stopping=rule) for seed in range(8)] for rule in (True, "never"))
    assert early != late


def test_a_forced_end_is_told_from_a_real_one(pairs):
    pair = pairs["renormalized"]
    _, (hypothesis,) = pair.search(pair.src_ids(1), 2, 1)
    eos_id = pair.config.generation.eos_id
    assert hypothesis.token_ids[-1] == eos_id and eos_id not in hypothesis.token_ids[:-1]
    assert hypothesis.token_log_probs[-1] == 0.0 and not hypothesis.finished
    assert hypothesis.score == pytest.approx(hypothesis.token_log_probs[0] / 2)


def test_longest_output(tmp_path):
    defaults = read_marian_config(make_marian_folder(tmp_path / "folder", generation={"max_length": 20})).generation
    assert max_new_tokens(defaults, 64) == 19
    assert max_new_tokens(defaults, 10) == 10
    assert max_new_tokens(replace(defaults, max_length=None), 64) == 64
    assert max_new_tokens(replace(defaults, max_length=1), 64) == 1


def test_rules_come_from_the_files(tmp_path):
    rules = {"early_stopping": "never", "renormalize_logits": False, "forced_eos_token_id": None}
    found = search_rules(read_marian_config(make_marian_folder(tmp_path / "a", generation=rules)).generation)
    assert (found.early_stopping, found.renormalize, found.forced_last_id, found.cut_may_win) == ("never", False, None, True)
    found = search_rules(read_marian_config(make_marian_folder(tmp_path / "b", eos_token_id=9, generation_file=False)).generation)
    assert (found.early_stopping, found.renormalize, found.forced_last_id, found.cut_may_win) == (False, True, 9, True)
