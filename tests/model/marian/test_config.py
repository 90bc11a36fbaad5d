"""The configuration of a Marian folder: everything from its files, nothing assumed, and a clear refusal for what is not built here."""

from __future__ import annotations

import json

import pytest

from model.config import StackSizes
from model.errors import CheckpointCorruptError, CheckpointMissingError, UnsupportedModelError, WrongArchitectureError
from model.marian.config import read_marian_config
from tests.model.marian.config_files import GONE, change, change_generation, refusal, values


class TestTransformer:
    def test_every_size_and_choice(self, folder):
        change(folder, activation_function="relu", scale_embedding=False, max_position_embeddings=96, dropout=0.2, attention_dropout=0.3)
        config = read_marian_config(folder)
        ours, vocabulary = config.transformer, values(folder, "vocab.json")
        assert ours.encoder == StackSizes(num_layers=2, num_heads=4, d_ff=24, vocab_size=len(vocabulary))
        assert ours.decoder == StackSizes(num_layers=3, num_heads=2, d_ff=40, vocab_size=len(vocabulary))
        assert (ours.d_model, ours.max_len, ours.activation, ours.norm) == (16, 96, "relu", "post")
        assert (ours.scale_embedding, ours.position_layout, ours.output_bias) == (False, "halves", True)
        assert (ours.dropout, ours.attention_dropout, ours.layer_norm_eps) == (0.2, 0.3, 1e-5)
        assert (ours.tie_embeddings, config.share_vocab, config.tie_embeddings) == (True, True, True)

    @pytest.mark.parametrize(("theirs", "ours"), [("swish", "silu"), ("silu", "silu"), ("relu", "relu"), ("gelu", "gelu")])
    def test_activation(self, folder, theirs, ours):
        change(folder, activation_function=theirs)
        assert read_marian_config(folder).transformer.activation == ours

    def test_special_ids_are_those_of_the_vocabulary(self, folder):
        pad = len(values(folder, "vocab.json")) - 1
        ours = read_marian_config(folder).transformer
        assert (ours.eos_id, ours.unk_id, ours.pad_id, ours.bos_id) == (7, 8, pad, pad)

    def test_special_ids_need_not_stand_in_config_json(self, folder):
        before = read_marian_config(folder)
        for name in ("config.json", "generation_config.json"):
            change(folder, name, eos_token_id=GONE, pad_token_id=GONE, decoder_start_token_id=GONE)
        assert read_marian_config(folder) == before

    def test_special_tokens_may_be_spelled_otherwise(self, folder):
        vocabulary = values(folder, "vocab.json")
        spelled = {"</s>": "<eos>", "<pad>": "[PAD]"}
        (folder / "vocab.json").write_text(json.dumps({spelled.get(token, token): i for token, i in vocabulary.items()}), encoding="utf-8")
        change(folder, "tokenizer_config.json", eos_token="<eos>", pad_token={"content": "[PAD]", "special": True})
        assert read_marian_config(folder).transformer.eos_id == 7

    def test_the_start_token_may_be_another_than_padding(self, folder):
        change(folder, decoder_start_token_id=5)
        change_generation(folder, decoder_start_token_id=GONE)
        config = read_marian_config(folder)
        assert config.transformer.bos_id == config.generation.decoder_start_id == 5
        change_generation(folder, decoder_start_token_id=6)
        config = read_marian_config(folder)
        assert config.transformer.bos_id == config.generation.decoder_start_id == 6

    @pytest.mark.parametrize(
        ("share", "tie", "expected"),
        [(True, True, (True, False)), (False, True, (False, True)), (True, False, (False, False)), (False, False, (False, False))],
    )
    def test_which_matrices_are_one(self, folder, share, tie, expected):
        change(folder, share_encoder_decoder_embeddings=share, tie_word_embeddings=tie)
        config = read_marian_config(folder)
        assert (config.transformer.tie_embeddings, config.transformer.tie_output) == expected
        assert (config.share_vocab, config.tie_embeddings) == (share, tie)

    def test_the_size_of_the_target_vocabulary_counts_only_where_there_are_two(self, folder):
        size = len(values(folder, "vocab.json"))
        change(folder, decoder_vocab_size=size + 9)
        assert read_marian_config(folder).transformer.decoder.vocab_size == size
        change(folder, share_encoder_decoder_embeddings=False)
        assert read_marian_config(folder).transformer.decoder.vocab_size == size + 9
        change(folder, decoder_vocab_size=None)
        assert read_marian_config(folder).transformer.decoder.vocab_size == size

    def test_an_alias_goes_before_the_name_that_it_stands_for(self, folder):
        """As in transformers, whatever the order (which is asked below)."""
        change(folder, num_hidden_layers=5, hidden_size=32, num_attention_heads=8)
        ours = read_marian_config(folder).transformer
        assert (ours.num_encoder_layers, ours.d_model, ours.num_heads) == (5, 32, 8)
        from transformers import MarianConfig

        theirs = MarianConfig(**values(folder))
        assert (theirs.encoder_layers, theirs.d_model, theirs.encoder_attention_heads) == (5, 32, 8)

    def test_an_alias_alone_is_enough(self, folder):
        change(folder, encoder_layers=GONE, num_hidden_layers=4)
        assert read_marian_config(folder).transformer.num_encoder_layers == 4

    def test_entries_that_mean_nothing_are_passed_over(self, folder):
        before = read_marian_config(folder)
        change(folder, extra_pos_embeddings=2, do_blenderbot_90_layernorm=True, id2label={"0": "x"}, _name_or_path="/tmp/a", init_std=9)
        assert read_marian_config(folder) == before


class TestArchitecture:
    @pytest.mark.parametrize(
        ("changes", "found"),
        [
            ({"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"}, "T5ForConditionalGeneration"),
            ({"architectures": ["MarianForCausalLM"]}, "MarianForCausalLM"),
            ({"architectures": ["MarianModel"]}, "MarianModel"),
            ({"architectures": None, "model_type": "mbart"}, "mbart"),
            ({"architectures": [], "model_type": "bart"}, "bart"),
            ({"architectures": GONE, "model_type": GONE}, "unknown"),
            ({"architectures": "MarianMTModel", "model_type": 3}, "3"),
        ],
    )
    def test_another_kind_is_named(self, folder, changes, found):
        change(folder, **changes)
        with pytest.raises(WrongArchitectureError) as error:
            read_marian_config(folder)
        assert error.value.params == {"found": found}

    @pytest.mark.parametrize(
        "changes",
        [
            {"architectures": GONE},
            {"architectures": []},
            {"model_type": GONE},
            {"architectures": ["TFMarianMTModel"]},
            {"architectures": ["MarianMTModel"], "model_type": "bart"},
        ],
        ids=["no architectures", "none listed", "no model_type", "TensorFlow", "another type"],
    )
    def test_either_entry_is_enough(self, folder, changes):
        before = read_marian_config(folder)
        change(folder, **changes)
        assert read_marian_config(folder) == before

    @pytest.mark.parametrize(
        ("name", "refused", "harmless"),
        [
            ("normalize_before", True, False),
            ("normalize_embedding", True, False),
            ("add_final_layer_norm", True, False),
            ("static_position_embeddings", False, True),
        ],
    )
    def test_other_ways_to_normalise_are_refused_not_ignored(self, folder, name, refused, harmless):
        before = read_marian_config(folder)
        for value in (harmless, None, GONE):
            change(folder, **{name: value})
            assert read_marian_config(folder) == before
        change(folder, **{name: refused})
        refusal(folder, UnsupportedModelError, f"{name} is {str(refused).lower()}")
        for value in (int(refused), int(harmless), str(refused), [refused]):  # to a program that asks no type, some of these are true
            change(folder, **{name: value})
            refusal(folder, CheckpointCorruptError, name, "expected true or false")

    @pytest.mark.parametrize("value", ["gelu_new", "tanh", "", 3, ["relu"]])
    def test_an_unknown_activation_is_refused(self, folder, value):
        change(folder, activation_function=value)
        refusal(folder, UnsupportedModelError, "activation_function", str(value))

    def test_a_table_of_millions_of_positions_is_refused(self, folder):
        change(folder, max_position_embeddings=10**9)
        refusal(folder, UnsupportedModelError, "max_position_embeddings is 1000000000")


REQUIRED = [
    "vocab_size",
    "d_model",
    "encoder_layers",
    "decoder_layers",
    "encoder_attention_heads",
    "decoder_attention_heads",
    "encoder_ffn_dim",
    "decoder_ffn_dim",
    "max_position_embeddings",
]


class TestDamagedConfiguration:
    @pytest.mark.parametrize("name", [*REQUIRED, "activation_function", "scale_embedding"])
    @pytest.mark.parametrize("value", [GONE, None], ids=["absent", "null"])
    def test_nothing_is_assumed(self, folder, name, value):
        """The format has defaults for all of these, and they are not those of OPUS-MT."""
        change(folder, num_hidden_layers=GONE)
        change(folder, **{name: value})
        refusal(folder, CheckpointCorruptError, "config.json", f"it lacks {name}")

    @pytest.mark.parametrize("name", REQUIRED)
    @pytest.mark.parametrize("value", [0, -1, 16.0, True, "16", [16]], ids=str)
    def test_sizes_are_whole_numbers(self, folder, name, value):
        change(folder, num_hidden_layers=GONE)
        change(folder, **{name: value})
        refusal(folder, CheckpointCorruptError, "config.json", f"{name} is {value}", "positive whole number")

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            ({"encoder_attention_heads": 3}, "16 cannot be split into 3 heads"),
            ({"decoder_attention_heads": 5}, "16 cannot be split into 5 heads"),
            ({"d_model": 15, "encoder_attention_heads": 1, "decoder_attention_heads": 1}, "d_model must be even"),
            ({"vocab_size": 20}, "pad_id"),
            ({"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 20}, "lies outside the vocabulary of 20"),
            ({"scale_embedding": "yes"}, "scale_embedding is yes, expected true or false"),
            ({"tie_word_embeddings": 1}, "tie_word_embeddings is 1"),
            ({"share_encoder_decoder_embeddings": "x"}, "share_encoder_decoder_embeddings is x"),
            ({"eos_token_id": 0}, "its eos_token_id is 0, that of vocab.json is 7"),
            ({"pad_token_id": 3}, "its pad_token_id is 3"),
            ({"eos_token_id": "7"}, "eos_token_id is 7, expected one token id"),
            ({"decoder_start_token_id": [1, 2]}, "decoder_start_token_id is [1, 2]"),
            ({"dropout": "a"}, "dropout"),
        ],
        ids=str,
    )
    def test_what_describes_no_model(self, folder, changes, said):
        change(folder, **changes)
        refusal(folder, CheckpointCorruptError, "config.json", said)

    @pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"{" * 100_000, b'{"a": 1' + b"0" * 5000 + b"}"])
    @pytest.mark.parametrize("name", ["config.json", "generation_config.json", "vocab.json", "tokenizer_config.json"])
    def test_files_that_are_no_json_object(self, folder, name, content):
        (folder / name).write_bytes(content)
        refusal(folder, CheckpointCorruptError, name)

    @pytest.mark.parametrize("name", ["config.json", "vocab.json"])
    def test_missing_files(self, folder, name):
        (folder / name).unlink()
        refusal(folder, CheckpointMissingError, f"{name} is missing")

    def test_missing_folder(self, tmp_path):
        refusal(tmp_path / "nowhere", CheckpointMissingError, "config.json is missing")

    @pytest.mark.parametrize("token", ["</s>", "<unk>", "<pad>"])
    def test_a_vocabulary_without_special_tokens(self, folder, token):
        kept = {name: i for name, i in values(folder, "vocab.json").items() if name != token}
        (folder / "vocab.json").write_text(json.dumps(kept), encoding="utf-8")
        refusal(folder, CheckpointCorruptError, "vocab.json", f"it lacks {token}")
