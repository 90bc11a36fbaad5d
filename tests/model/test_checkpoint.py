import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from model import checkpoint
from model.checkpoint import load_checkpoint, load_config, save_checkpoint
from model.transformer import Transformer
from tests.model.factories import SRC_IDS, TGT_IN_IDS, fill, tiny_config, tiny_model

WEIGHTS = "model.safetensors"
VARIANTS = [
    {},
    {"norm": "pre", "activation": "silu"},
    {"tie_embeddings": False, "output_bias": True},
    {"position_layout": "halves", "output_bias": True, "attention_dropout": 0.1, "layer_norm_eps": 1e-3, "eos_id": 5},
    {"num_decoder_heads": 2, "decoder_d_ff": 40, "tie_embeddings": False, "tgt_vocab_size": 17, "tie_output": True},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_checkpoint(tiny_model(), tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def stored(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / WEIGHTS)


def assert_same(model: Transformer, other: Transformer) -> None:
    assert other.config == model.config
    state = model.state_dict()
    assert state.keys() == other.state_dict().keys()
    for key, value in other.state_dict().items():
        assert value.dtype == torch.float32 and torch.equal(value, state[key]), key


def in_half_precision(model: Transformer) -> Transformer:
    """Each weight rounded to half precision and kept in single."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half().float())
    return model


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
class TestRoundTrip:
    def test_exact_in_single_precision(self, tmp_path, changes):
        model = tiny_model(**changes)
        save_checkpoint(model, tmp_path, dtype=torch.float32)
        loaded = load_checkpoint(tmp_path)
        assert_same(model, loaded)
        assert torch.equal(loaded(SRC_IDS, TGT_IN_IDS), model(SRC_IDS, TGT_IN_IDS))

    def test_half_precision_rounds_each_weight_once(self, tmp_path, changes):
        model = tiny_model(**changes)
        save_checkpoint(model, tmp_path)
        assert {tensor.dtype for tensor in stored(tmp_path).values()} == {torch.float16}
        loaded = load_checkpoint(tmp_path)
        rounded = tiny_model(**changes)
        assert_same(in_half_precision(rounded), loaded)
        for parameter, original in zip(loaded.parameters(), model.parameters(), strict=True):
            assert ((parameter - original).abs() <= original.abs() * 2**-11 + 2**-25).all()

    def test_in_shards(self, tmp_path, changes):
        model = tiny_model(**changes)
        save_checkpoint(model, tmp_path, dtype=torch.float32, max_shard_size="4KB")
        shards = list(tmp_path.glob("model-*.safetensors"))
        assert len(shards) > 3 and not (tmp_path / WEIGHTS).exists()
        assert max(shard.stat().st_size for shard in shards) < 8 * 1024
        assert_same(model, load_checkpoint(tmp_path))

    def test_again_is_the_same(self, tmp_path, changes):
        save_checkpoint(tiny_model(**changes), tmp_path / "one")
        loaded = load_checkpoint(tmp_path / "one")
        save_checkpoint(loaded, tmp_path / "two")
        for name in ("config.json", WEIGHTS):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


class TestSaving:
    def test_two_files(self, folder):
        assert sorted(path.name for path in folder.iterdir()) == ["config.json", WEIGHTS]

    def test_tied_embedding_is_stored_once(self, folder):
        matrices = [key for key, value in stored(folder).items() if value.shape == (13, 16)]
        assert matrices == ["src_embedding.tokens.weight"]
        loaded = load_checkpoint(folder)
        assert loaded.src_embedding.tokens.weight is loaded.tgt_embedding.tokens.weight

    def test_every_parameter_and_nothing_else_is_stored(self, folder, tmp_path):
        assert set(stored(folder)) == {name for name, _ in tiny_model().named_parameters()}
        untied = tiny_model(tie_embeddings=False, output_bias=True)
        save_checkpoint(untied, tmp_path)
        assert set(stored(tmp_path)) == {name for name, _ in untied.named_parameters()}

    def test_the_model_is_left_as_it_was(self, tmp_path):
        model = tiny_model().train()
        before = {key: (value.clone(), value.dtype) for key, value in model.state_dict().items()}
        save_checkpoint(model, tmp_path)
        assert model.training
        for key, value in model.state_dict().items():
            assert value.dtype == before[key][1] and torch.equal(value, before[key][0])

    def test_what_was_there_is_replaced(self, tmp_path):
        save_checkpoint(tiny_model(seed=1), tmp_path, dtype=torch.float32, max_shard_size="4KB")
        for max_shard_size in ("9MB", "8KB", "9MB"):
            model = tiny_model(seed=2)
            save_checkpoint(model, tmp_path, dtype=torch.float32, max_shard_size=max_shard_size)
            assert_same(model, load_checkpoint(tmp_path))
        assert len(list(tmp_path.glob("model*"))) == 1

    def test_other_files_of_the_folder_stay(self, folder):
        (folder / "tokenizer.model").write_bytes(b"pieces")
        save_checkpoint(tiny_model(), folder)
        assert (folder / "tokenizer.model").read_bytes() == b"pieces"

    def test_shards_of_a_larger_model_stay_under_10_megabytes(self, tmp_path):
        model = fill(Transformer(tiny_config(d_model=64, d_ff=30_000, num_encoder_layers=1, num_decoder_layers=1)))
        save_checkpoint(model, tmp_path)
        sizes = [file.stat().st_size for file in tmp_path.glob("*.safetensors")]
        assert len(sizes) >= 2 and max(sizes) < 10_000_000 and sum(sizes) > 15_000_000
        assert_same(in_half_precision(model), load_checkpoint(tmp_path))

    def test_a_matrix_above_the_limit_gets_a_file_of_its_own(self, tmp_path):
        model = tiny_model()
        save_checkpoint(model, tmp_path, dtype=torch.float32, max_shard_size="1KB")
        for file in tmp_path.glob("*.safetensors"):
            state = load_file(file)
            assert len(state) == 1 or sum(tensor.nbytes for tensor in state.values()) <= 1000
        assert_same(model, load_checkpoint(tmp_path))

    def test_a_weight_beyond_half_precision_is_refused_before_anything_is_written(self, tmp_path):
        save_checkpoint(tiny_model(), tmp_path)
        model = tiny_model(seed=1)
        with torch.no_grad():
            model.encoder[0].feed_forward.linear1.bias[0] = 1e5
        with pytest.raises(ValueError, match=r"encoder\.0\.feed_forward\.linear1\.bias"):
            save_checkpoint(model, tmp_path)
        assert_same(in_half_precision(tiny_model()), load_checkpoint(tmp_path))

    def test_a_failed_save_leaves_the_old_checkpoint(self, tmp_path, monkeypatch):
        def full_disk(*args: object, **kwargs: object) -> None:
            raise OSError("no space left")

        save_checkpoint(tiny_model(), tmp_path)
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
            patch.setattr(checkpoint, "save_torch_state_dict", full_disk)
            save_checkpoint(tiny_model(seed=1), tmp_path)
        assert_same(in_half_precision(tiny_model()), load_checkpoint(tmp_path))

    def test_positions_that_no_formula_gives_are_not_lost_in_silence(self, tmp_path):
        for name in ("positions", "tgt_positions"):
            model = tiny_model()
            setattr(model, name, torch.zeros(20, 16))
            with pytest.raises(ValueError, match="table of positions"):
                save_checkpoint(model, tmp_path / name)
            assert not (tmp_path / name).exists()

    def test_what_the_decoder_has_like_the_encoder_is_not_written(self, folder, tmp_path):
        """So that the files of equal stacks stay those of the first checkpoints, and those can be read."""
        names = {"num_decoder_heads", "decoder_d_ff", "tgt_vocab_size", "tie_output"}
        assert not names & set(json.loads((folder / "config.json").read_text(encoding="utf-8")))
        unequal = dict(VARIANTS[-1])
        save_checkpoint(tiny_model(**unequal), tmp_path / "unequal")
        values = json.loads((tmp_path / "unequal" / "config.json").read_text(encoding="utf-8"))
        assert {name: values[name] for name in names} == {name: unequal[name] for name in names}

    def test_config_is_plain_json_with_a_format(self, folder):
        values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert values["format"] == "attention-atlas" and values["num_decoder_layers"] == 3
        assert load_config(folder) == tiny_config()


class TestLoading:
    def test_ready_to_run_in_single_precision(self, folder):
        model = load_checkpoint(folder, "cpu")
        assert not model.training
        assert all(parameter.dtype == torch.float32 and parameter.requires_grad for parameter in model.parameters())
        assert model(SRC_IDS, TGT_IN_IDS).isfinite().all()

    def test_two_loads_share_no_memory(self, folder):
        one, other = load_checkpoint(folder), load_checkpoint(folder)
        with torch.no_grad():
            one.decoder[0].cross_attn.k_proj.weight.zero_()
        assert_same(load_checkpoint(folder), other)

    def test_the_files_may_go_once_loaded(self, folder):
        model = load_checkpoint(folder)
        for path in folder.iterdir():
            path.write_bytes(b"")
        assert_same(in_half_precision(tiny_model()), model)
