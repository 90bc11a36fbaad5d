"""Which stored matrix serves where, what may be missing, and that nothing left over or of another shape goes by in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from model.errors import CheckpointCorruptError
from model.marian.config import read_marian_config
from model.marian.weights import LoadedMarian, LoadWarning, load_marian
from model.positional import sinusoidal_table
from model.transformer import Transformer
from tests.model.marian.factories import load_reference, make_marian_folder, random_state, save_weights, stored

SHARED, SRC, TGT, OUT = "model.shared.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"
BIAS = "final_logits_bias"
LAYER_KEY = "model.decoder.layers.1.encoder_attn.k_proj.weight"


@dataclass
class Checkpoint:
    """A folder, every random tensor of its model, and what its file holds, which tests change and write again."""

    folder: Path
    everything: dict[str, Tensor]
    state: dict[str, Tensor]

    def load(self, form: str = "safetensors") -> LoadedMarian:
        (self.folder / "model.safetensors").unlink(missing_ok=True)
        save_weights(self.folder, self.state, form)
        return load_marian(self.folder, read_marian_config(self.folder))

    def refusal(self, *said: str) -> None:
        with pytest.raises(CheckpointCorruptError) as error:
            self.load()
        assert str(self.folder) not in str(error.value) and "model.safetensors" in str(error.value)
        for words in said:
            assert words in str(error.value)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[..., Checkpoint]:
    def make(**changes: Any) -> Checkpoint:
        folder = make_marian_folder(tmp_path / "marian", **changes)
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        everything = random_state(config)
        return Checkpoint(folder, everything, stored(everything, config))

    return make


def used(model: Transformer) -> tuple[Tensor, Tensor, Tensor]:
    """The matrices that embed the source, embed the target and project to logits."""
    target = model.tgt_embedding.tokens.weight
    return model.src_embedding.tokens.weight, target, target if model.output_weight is None else model.output_weight


def assert_uses(model: Transformer, *expected: Tensor) -> None:
    for ours, theirs in zip(used(model), expected, strict=True):
        assert torch.equal(ours, theirs)


class TestTied:
    """All OPUS-MT models: one matrix for three places."""

    @pytest.mark.parametrize("name", [SHARED, TGT, OUT, SRC])
    def test_one_matrix_under_any_of_its_names(self, checkpoint, name):
        given = checkpoint()
        given.state[name] = given.state.pop(SHARED)
        loaded = given.load()
        matrix = given.everything[SHARED]
        assert_uses(loaded.model, matrix, matrix, matrix)
        assert loaded.warnings == ()
        assert loaded.model.src_embedding is loaded.model.tgt_embedding and loaded.model.output_weight is None

    @pytest.mark.parametrize("name", [TGT, OUT])
    def test_transformers_takes_it_from_there_too(self, checkpoint, name):
        given = checkpoint()
        given.state[name] = given.state.pop(SHARED)
        model, theirs = given.load().model, load_reference(given.folder)
        assert_uses(model, theirs.model.encoder.embed_tokens.weight, theirs.model.decoder.embed_tokens.weight, theirs.lm_head.weight)

    @pytest.mark.parametrize("form", ["bin", "legacy_bin"])
    def test_the_names_may_share_their_memory_in_the_file(self, checkpoint, form):
        """As in the files of 2020: three names, one storage, tables of positions, no lm_head."""
        given = checkpoint()
        matrix = given.state[SHARED]
        given.state |= {SRC: matrix, TGT: matrix}
        for side in ("encoder", "decoder"):
            given.state[f"model.{side}.embed_positions.weight"] = sinusoidal_table(64, 16, "halves")
        loaded = given.load(form)
        assert_uses(loaded.model, matrix, matrix, matrix)
        assert loaded.warnings == ()

    def test_shared_wins_over_what_contradicts_it_and_says_so(self, checkpoint):
        given = checkpoint()
        given.state |= {name: given.everything[name] for name in (SRC, TGT, OUT)}
        loaded = given.load()
        matrix = given.everything[SHARED]
        assert_uses(loaded.model, matrix, matrix, matrix)
        assert loaded.warnings == (LoadWarning("tie_conflict", f"{TGT}, {OUT}, {SRC}"),)
        assert OUT in str(loaded.warnings[0])

    def test_one_different_value_is_a_contradiction(self, checkpoint):
        given = checkpoint()
        given.state[OUT] = given.state[SHARED].clone()
        assert given.load().warnings == ()
        given.state[OUT][0, 0] += 1e-3
        assert [warning.code for warning in given.load().warnings] == ["tie_conflict"]

    def test_without_shared_the_target_embedding_wins(self, checkpoint):
        given = checkpoint()
        del given.state[SHARED]
        given.state |= {name: given.everything[name] for name in (SRC, TGT, OUT)}
        loaded = given.load()
        assert_uses(loaded.model, *[given.everything[TGT]] * 3)
        assert loaded.warnings[0].detail == f"{OUT}, {SRC}"

    def test_no_matrix_at_all(self, checkpoint):
        given = checkpoint()
        del given.state[SHARED]
        given.refusal(f"it lacks {SHARED}")


class TestUntied:
    def test_four_matrices_and_shared_serves_nowhere(self, checkpoint):
        given = checkpoint(tie_word_embeddings=False)
        assert_uses(given.load().model, *(given.everything[name] for name in (SRC, TGT, OUT)))

    def test_shared_stands_in_for_embeddings_that_are_not_there(self, checkpoint):
        """As transformers 4 wrote it. (transformers 5 fills them with random numbers.)"""
        given = checkpoint(tie_word_embeddings=False)
        del given.state[SRC], given.state[TGT]
        shared = given.everything[SHARED]
        loaded = given.load()
        assert_uses(loaded.model, shared, shared, given.everything[OUT])
        assert loaded.warnings == ()

    def test_the_projection_cannot_be_guessed(self, checkpoint):
        given = checkpoint(tie_word_embeddings=False)
        del given.state[OUT]
        given.refusal(f"it lacks {OUT}")


class TestTwoVocabularies:
    @pytest.mark.parametrize("kept", [(TGT,), (OUT,), (TGT, OUT)], ids="+".join)
    def test_target_embedding_and_projection_mirror_each_other(self, checkpoint, kept):
        given = checkpoint(separate_vocabs=True)
        matrix = given.everything[TGT]
        given.state = {name: value for name, value in given.state.items() if name != TGT} | {name: matrix.clone() for name in kept}
        loaded = given.load()
        assert_uses(loaded.model, given.everything[SRC], matrix, matrix)
        assert loaded.warnings == ()
        assert loaded.model.src_embedding is not loaded.model.tgt_embedding and loaded.model.output_weight is None

    def test_where_they_differ_the_embedding_wins_and_says_so(self, checkpoint):
        given = checkpoint(separate_vocabs=True)
        given.state[OUT] = given.everything[OUT]
        loaded = given.load()
        assert_uses(loaded.model, given.everything[SRC], *[given.everything[TGT]] * 2)
        assert loaded.warnings == (LoadWarning("tie_conflict", OUT),)

    @pytest.mark.parametrize("name", [SRC, TGT])
    def test_each_side_needs_its_own(self, checkpoint, name):
        given = checkpoint(separate_vocabs=True)
        del given.state[name]
        given.refusal(f"it lacks {name}")

    @pytest.mark.parametrize("name", [SRC, TGT, OUT])
    def test_untied_needs_all_three(self, checkpoint, name):
        given = checkpoint(separate_vocabs=True, tie_word_embeddings=False)
        assert_uses(given.load().model, *(given.everything[each] for each in (SRC, TGT, OUT)))
        del given.state[name]
        given.refusal(f"it lacks {name}")

    def test_a_shared_matrix_has_no_place(self, checkpoint):
        given = checkpoint(separate_vocabs=True)
        given.state[SHARED] = given.everything[SHARED]
        given.refusal(f"unknown {SHARED}")


class TestOutputBias:
    def test_as_a_row_and_as_a_vector(self, checkpoint):
        given = checkpoint()
        row = given.everything[BIAS]
        assert row.shape[0] == 1 and torch.equal(given.load().model.output_bias, row[0])
        given.state[BIAS] = row[0]
        assert torch.equal(given.load().model.output_bias, row[0])

    def test_none_is_a_bias_of_zero(self, checkpoint):
        given = checkpoint()
        del given.state[BIAS]
        loaded = given.load()
        assert (loaded.model.output_bias == 0).all() and loaded.warnings == ()
        assert (load_reference(given.folder).final_logits_bias == 0).all()

    def test_of_the_target_vocabulary(self, checkpoint):
        given = checkpoint(separate_vocabs=True)
        given.state[BIAS] = torch.zeros(1, len(given.everything[SRC]))
        given.refusal(BIAS)


class TestStrictness:
    @pytest.mark.parametrize("name", ["model.encoder.version", "model.decoder.version"])
    def test_what_ancestors_left_is_passed_over(self, checkpoint, name):
        given = checkpoint()
        given.state[name] = torch.tensor([3.0])
        assert given.load().warnings == ()

    @pytest.mark.parametrize(
        "name",
        [
            "model.encoder.layernorm_embedding.weight",
            "model.decoder.layer_norm.weight",
            "model.encoder.layers.2.fc1.bias",
            "model.encoder.layers.0.encoder_attn.k_proj.weight",
            "lm_head.bias",
            "encoder.version",
            "",
        ],
    )
    def test_anything_else_left_over_is_refused(self, checkpoint, name):
        given = checkpoint()
        given.state[name] = torch.zeros(16)
        given.refusal(f"unknown {name}")

    def test_every_tensor_of_every_layer_is_needed(self, checkpoint):
        given = checkpoint()
        names = [name for name in given.state if ".layers." in name]
        assert len(names) == 2 * 16 + 3 * 26
        for name in names:
            kept = given.state.pop(name)
            given.refusal(f"it lacks {name}")
            given.state[name] = kept

    def test_every_shape_is_checked(self, checkpoint):
        given = checkpoint()
        given.state["model.encoder.embed_positions.weight"] = torch.zeros(64, 16)
        given.state["model.decoder.embed_positions.weight"] = torch.zeros(64, 16)
        for name in (*given.state, SRC, TGT, OUT):  # the last three: left out of the model when tied, and checked all the same
            kept = given.state.get(name)
            right = given.everything[name] if kept is None else kept
            for wrong in (right[..., :-1], torch.cat([right, right]), right[None]):
                given.state[name] = wrong
                given.refusal(name, "shape")
            given.state[name] = right
        assert given.load().model is not None

    @pytest.mark.parametrize("name", ["model.encoder.layers.0.self_attn.q_proj.weight", "model.decoder.layers.0.fc1.weight"])
    def test_a_transposed_matrix(self, checkpoint, name):
        given = checkpoint(d_model=16, decoder_ffn_dim=40)
        given.state[name] = given.state[name].T if name.endswith("fc1.weight") else given.state[name][:, :8]
        given.refusal(name, "shape")

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
    @pytest.mark.parametrize("name", [SHARED, LAYER_KEY, BIAS, "model.decoder.embed_positions.weight"])
    def test_values_that_are_no_numbers(self, checkpoint, name, value):
        given = checkpoint()
        given.state.setdefault(name, torch.zeros(64, 16))[0, 3] = value
        given.refusal(name, "not finite")

    @pytest.mark.parametrize("name", [LAYER_KEY, SHARED, OUT])
    @pytest.mark.parametrize("dtype", [torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn], ids=str)
    def test_other_kinds_of_numbers_are_no_weights(self, checkpoint, name, dtype):
        """Whole numbers would be a quantised file, whose scales are elsewhere."""
        given = checkpoint()
        right = given.everything[name]
        given.state[name] = torch.zeros(right.shape, dtype=torch.int8) if dtype == torch.int8 else right.to(dtype)
        (given.folder / "model.safetensors").unlink()
        save_file(given.state, given.folder / "model.safetensors")
        with pytest.raises(CheckpointCorruptError, match=f"{name} holds {dtype}"):
            load_marian(given.folder, read_marian_config(given.folder))

    @pytest.mark.parametrize("layers", [3, 5, 10**9])
    def test_a_configuration_of_more_layers_than_the_file(self, checkpoint, layers):
        """At once, and without the memory that a model of a billion layers would ask for."""
        given = checkpoint()
        config = json.loads((given.folder / "config.json").read_text(encoding="utf-8"))
        config |= {"encoder_layers": layers, "num_hidden_layers": layers}
        (given.folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        given.refusal("it lacks model.encoder.layers.2.self_attn.q_proj.weight")

    @pytest.mark.parametrize(
        "changes",
        [{"d_model": 2**20, "hidden_size": 2**20}, {"vocab_size": 10**12}, {"encoder_ffn_dim": 10**12}, {"max_position_embeddings": 63}],
        ids=str,
    )
    def test_a_configuration_of_other_sizes_than_the_file(self, checkpoint, changes):
        given = checkpoint()
        given.state["model.encoder.embed_positions.weight"] = torch.zeros(64, 16)
        config = json.loads((given.folder / "config.json").read_text(encoding="utf-8"))
        (given.folder / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
        given.refusal("shape")


class TestLoadedModel:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    def test_in_single_precision_ready_to_run(self, checkpoint, dtype):
        given = checkpoint()
        given.state = {name: value.to(dtype) for name, value in given.state.items()}
        (given.folder / "model.safetensors").unlink()
        save_weights(given.folder, given.state, dtype=dtype)
        model = load_marian(given.folder, read_marian_config(given.folder)).model
        assert not model.training
        assert all(parameter.dtype == torch.float32 and parameter.requires_grad for parameter in model.parameters())
        assert model.positions.dtype == torch.float32 and model.tgt_positions is None
        assert torch.equal(model.decoder[1].cross_attn.k_proj.weight, given.state[LAYER_KEY].float())

    @pytest.mark.parametrize("form", ["safetensors", "sharded", "bin", "legacy_bin"])
    def test_the_files_may_go_once_loaded(self, checkpoint, form):
        given = checkpoint()
        model = given.load(form).model
        for path in given.folder.iterdir():
            path.write_bytes(b"")
        assert torch.equal(model.decoder[1].cross_attn.k_proj.weight, given.everything[LAYER_KEY])
        ids = torch.tensor([[3, 4, 0]])
        assert model(ids, ids).isfinite().all()

    def test_two_loads_share_no_memory(self, checkpoint):
        given = checkpoint()
        one, other = given.load().model, given.load().model
        with torch.no_grad():
            for parameter in one.parameters():
                parameter.zero_()
        assert torch.equal(other.decoder[1].cross_attn.k_proj.weight, given.everything[LAYER_KEY])

    def test_every_parameter_comes_from_the_file(self, checkpoint):
        """None is left as the module made it, and no two get the same tensor."""
        given = checkpoint(tie_word_embeddings=False)
        model = given.load().model
        file = {tuple(value.flatten()[:6].tolist()) for value in given.state.values()}
        ours = [tuple(value.flatten()[:6].tolist()) for value in model.parameters()]
        assert len(set(ours)) == len(ours) == len(given.state) - 1 and set(ours) < file

    def test_tables_that_are_alike_are_kept_once(self, checkpoint):
        given = checkpoint()
        table = torch.randn(64, 16)
        given.state |= {f"model.{side}.embed_positions.weight": table.clone() for side in ("encoder", "decoder")}
        model = given.load().model
        assert torch.equal(model.positions, table) and model.tgt_positions is None

    def test_a_table_of_other_positions_comes_as_a_warning(self, checkpoint):
        """Not one that was kept in half precision."""
        given, name = checkpoint(), "model.decoder.embed_positions.weight"
        given.state[name] = sinusoidal_table(64, 16, "halves").half()
        assert given.load().warnings == ()
        given.state[name] = sinusoidal_table(64, 16, "interleaved")
        (warning,) = given.load().warnings
        largest = (sinusoidal_table(64, 16, "halves") - given.state[name]).abs().max().item()
        assert warning.code == "own_positions" and float(warning.detail) == pytest.approx(largest, rel=0.05)
        assert warning.detail in str(warning)

    def test_rules_that_are_not_applied_come_as_a_warning(self, checkpoint):
        given = checkpoint(generation={"no_repeat_ngram_size": 3})
        assert given.load().warnings == (LoadWarning("not_applied", "no_repeat_ngram_size"),)
        assert "no_repeat_ngram_size" in str(given.load().warnings[0])
