"""How a Marian folder wants to be decoded: generation_config.json first, config.json for old folders, and nothing assumed."""

from __future__ import annotations

import pytest

from model.errors import CheckpointCorruptError
from model.marian.config import GenerationDefaults, read_marian_config
from tests.model.marian.config_files import change, change_generation, refusal, values


class TestGeneration:
    def test_what_generation_config_says(self, folder):
        pad = len(values(folder, "vocab.json")) - 1
        change_generation(folder, num_beams=6, max_length=40, length_penalty=0.6, early_stopping="never", bad_words_ids=[[pad], [3]])
        assert read_marian_config(folder).generation == GenerationDefaults(
            num_beams=6,
            max_length=40,
            length_penalty=0.6,
            early_stopping="never",
            renormalize_logits=True,
            forced_eos_id=7,
            bad_word_ids=(pad, 3),
            eos_id=7,
            decoder_start_id=pad,
            pad_id=pad,
        )

    def test_what_it_does_not_say_has_the_neutral_value(self, folder):
        """Not that of config.json: transformers looks there only where there is no generation_config.json."""
        change(folder, num_beams=9, max_length=99, renormalize_logits=True, length_penalty=3.0)
        (folder / "generation_config.json").write_text("{}", encoding="utf-8")
        pad = len(values(folder, "vocab.json")) - 1
        assert read_marian_config(folder).generation == GenerationDefaults(
            num_beams=1,
            max_length=None,
            length_penalty=1.0,
            early_stopping=False,
            renormalize_logits=False,
            forced_eos_id=None,
            bad_word_ids=(),
            eos_id=7,
            decoder_start_id=pad,
            pad_id=pad,
        )

    def test_old_repositories_keep_it_in_config_json(self, folder):
        expected = read_marian_config(folder).generation
        change(folder, **values(folder, "generation_config.json"))
        (folder / "generation_config.json").unlink()
        assert read_marian_config(folder).generation == expected

    def test_old_repositories_say_only_what_they_say(self, folder):
        """No forced end for a file without the entry, though the class of transformers 4 had one."""
        (folder / "generation_config.json").unlink()
        assert read_marian_config(folder).generation.forced_eos_id is None

    def test_max_new_tokens_does_not_count_the_start_and_goes_first(self, folder):
        change_generation(folder, max_new_tokens=10)
        assert read_marian_config(folder).generation.max_length == 11

    def test_an_id_may_stand_in_a_list_of_one(self, folder):
        change_generation(folder, eos_token_id=[7], forced_eos_token_id=[7])
        assert read_marian_config(folder).generation.forced_eos_id == 7

    def test_the_end_cannot_be_banned(self, folder):
        change_generation(folder, bad_words_ids=[[7], [4], [4]])
        assert read_marian_config(folder).generation.bad_word_ids == (4,)

    @pytest.mark.parametrize(
        ("changes", "names"),
        [
            ({"no_repeat_ngram_size": 3, "min_length": 5}, ("min_length", "no_repeat_ngram_size")),
            ({"repetition_penalty": 1.2, "do_sample": True}, ("do_sample", "repetition_penalty")),
            ({"bad_words_ids": [[1, 2], [3]], "forced_bos_token_id": 4}, ("forced_bos_token_id", "bad_words_ids")),
            ({"no_repeat_ngram_size": 0, "min_length": None, "repetition_penalty": 1.0, "suppress_tokens": [], "do_sample": False}, ()),
            ({"transformers_version": "4.30", "_from_model_config": True, "use_cache": False}, ()),
        ],
        ids=str,
    )
    def test_rules_that_are_not_applied_are_named(self, folder, changes, names):
        change_generation(folder, **changes)
        assert read_marian_config(folder).generation.not_applied == names

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("num_beams", 0),
            ("num_beams", "4"),
            ("max_length", 1.5),
            ("length_penalty", "1"),
            ("length_penalty", float("nan")),
            ("length_penalty", True),
            ("early_stopping", "always"),
            ("early_stopping", 1),
            ("renormalize_logits", "yes"),
            ("forced_eos_token_id", [1, 2]),
            ("forced_eos_token_id", 5000),
            ("forced_eos_token_id", -1),
            ("bad_words_ids", [5]),
            ("bad_words_ids", [[]]),
            ("bad_words_ids", [["a"]]),
            ("bad_words_ids", [[5000]]),
            ("eos_token_id", 6),
            ("eos_token_id", [7, 8]),
            ("pad_token_id", 6),
            ("decoder_start_token_id", "a"),
        ],
    )
    def test_values_of_the_wrong_kind(self, folder, name, value):
        change_generation(folder, **{name: value})
        refusal(folder, CheckpointCorruptError, "generation_config.json", name)

    def test_a_start_token_beyond_the_vocabulary(self, folder):
        change_generation(folder, decoder_start_token_id=5000)
        refusal(folder, CheckpointCorruptError, "5000")
