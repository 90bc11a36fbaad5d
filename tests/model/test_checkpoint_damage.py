"""A checkpoint that is not whole is refused: with a typed error, and with a message that says what is wrong but not where the files lie."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from model.checkpoint import load_checkpoint, load_state, save_checkpoint
from model.errors import AtlasError, CheckpointCorruptError, CheckpointMissingError
from tests.model.factories import tiny_model

WEIGHTS = "model.safetensors"
KEY = "decoder.1.cross_attn.k_proj.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_checkpoint(tiny_model(), tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def stored(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / WEIGHTS)


def rewrite_config(folder: Path, **changes: object) -> None:
    values = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    values.update(changes)
    kept = {name: value for name, value in values.items() if value is not ...}
    (folder / "config.json").write_text(json.dumps(kept), encoding="utf-8")


def rewrite_weights(folder: Path, **changes: Tensor | None) -> None:
    state = {**stored(folder), **changes}
    save_file({key: value for key, value in state.items() if value is not None}, folder / WEIGHTS)


def refusal(folder: Path, kind: type[AtlasError], *said: str) -> None:
    """Loading fails with the typed error, whose message says what is wrong and nothing about where the server keeps its files."""
    with pytest.raises(kind) as error:
        load_checkpoint(folder)
    for text in (str(error.value), *(str(value) for value in error.value.params.values())):
        assert str(folder) not in text and str(folder.parent) not in text and "/" not in text
    for words in said:
        assert words in str(error.value)


class TestMissing:
    def test_folder(self, tmp_path):
        refusal(tmp_path / "nowhere", CheckpointMissingError, "config.json is missing")

    def test_config(self, folder):
        (folder / "config.json").unlink()
        refusal(folder, CheckpointMissingError, "config.json is missing")

    def test_weights(self, folder):
        (folder / WEIGHTS).unlink()
        refusal(folder, CheckpointMissingError, "model.safetensors is missing")

    def test_one_shard(self, tmp_path):
        save_checkpoint(tiny_model(), tmp_path, max_shard_size="4KB")
        sorted(tmp_path.glob("model-*.safetensors"))[1].unlink()
        refusal(tmp_path, AtlasError, "model-0000")

    def test_the_shard_that_is_missing_is_the_one_named(self, tmp_path):
        save_checkpoint(tiny_model(), tmp_path, max_shard_size="4KB")
        shard = sorted(tmp_path.glob("model-*.safetensors"))[1]
        shard.unlink()
        refusal(tmp_path, CheckpointMissingError, shard.name)


class TestDamagedWeights:
    @pytest.mark.parametrize("kept", [0, 1, 7, 8, 100, 0.5, -1])
    def test_truncated(self, folder, kept):
        content = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(content[: int(len(content) * kept) if isinstance(kept, float) else kept])
        refusal(folder, CheckpointCorruptError, WEIGHTS, "truncated or damaged")

    def test_with_more_at_the_end(self, folder):
        (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes() + b"more")
        refusal(folder, CheckpointCorruptError, WEIGHTS, "truncated or damaged")

    @pytest.mark.parametrize(
        "content",
        [b"not a model at all", b"\xff" * 64, b"version https://git-lfs.github.com/spec/v1\n", b"\x00" * 4096],
        ids=["text", "ones", "large-storage pointer", "zeros"],
    )
    def test_garbage(self, folder, content):
        (folder / WEIGHTS).write_bytes(content)
        refusal(folder, CheckpointCorruptError, WEIGHTS, "truncated or damaged")

    def test_a_pickle_is_not_opened(self, folder):
        torch.save({"a": torch.ones(2)}, folder / WEIGHTS)
        refusal(folder, CheckpointCorruptError, WEIGHTS)

    def test_one_truncated_shard_is_named(self, tmp_path):
        save_checkpoint(tiny_model(), tmp_path, max_shard_size="4KB")
        shard = sorted(tmp_path.glob("model-*.safetensors"))[2]
        shard.write_bytes(shard.read_bytes()[:-10])
        refusal(tmp_path, CheckpointCorruptError, shard.name)

    def test_a_key_too_many(self, folder):
        rewrite_weights(folder, **{"decoder.9.bias": torch.zeros(3)})
        refusal(folder, CheckpointCorruptError, WEIGHTS, "unknown decoder.9.bias")

    def test_a_key_too_few(self, folder):
        rewrite_weights(folder, **{KEY: None})
        refusal(folder, CheckpointCorruptError, WEIGHTS, f"lacks {KEY}")

    def test_a_renamed_key_is_both(self, folder):
        rewrite_weights(folder, **{KEY: None, KEY.upper(): stored(folder)[KEY]})
        refusal(folder, CheckpointCorruptError, f"lacks {KEY}", f"unknown {KEY.upper()}")

    def test_many_keys_are_not_all_listed(self, folder):
        rewrite_weights(folder, **{f"extra.{i:03}": torch.zeros(1) for i in range(200)})
        with pytest.raises(CheckpointCorruptError, match=r"extra.000, extra.001, extra.002 \.\.\.") as error:
            load_checkpoint(folder)
        assert len(str(error.value)) < 300

    def test_a_tied_matrix_stored_twice_is_one_too_many(self, folder):
        rewrite_weights(folder, **{"tgt_embedding.tokens.weight": torch.zeros(13, 16)})
        refusal(folder, CheckpointCorruptError, "unknown tgt_embedding.tokens.weight")

    @pytest.mark.parametrize("shape", [(16, 15), (256,), (16, 16, 1), (1, 16), ()])
    def test_a_wrong_shape(self, folder, shape):
        rewrite_weights(folder, **{KEY: torch.ones(shape)})
        refusal(folder, CheckpointCorruptError, WEIGHTS, KEY, str(shape), "(16, 16)")

    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
    def test_a_number_that_is_none(self, folder, value, dtype):
        tensor = stored(folder)[KEY].to(dtype)
        tensor[3, 4] = value
        rewrite_weights(folder, **{KEY: tensor})
        refusal(folder, CheckpointCorruptError, WEIGHTS, KEY, "not finite")

    def test_infinities_do_not_cancel_out(self, folder):
        tensor = stored(folder)[KEY].float()
        tensor[0, 0], tensor[15, 15] = math.inf, -math.inf
        rewrite_weights(folder, **{KEY: tensor})
        refusal(folder, CheckpointCorruptError, KEY, "not finite")

    def test_large_numbers_are_numbers(self, folder):
        """Even where their sum is none."""
        rewrite_weights(folder, **{KEY: torch.full((16, 16), 3e38)})
        assert (load_checkpoint(folder).decoder[1].cross_attn.k_proj.weight == 3e38).all()

    def test_weights_of_another_model(self, folder, tmp_path):
        save_checkpoint(tiny_model(num_encoder_layers=3), tmp_path / "other")
        (tmp_path / "other" / WEIGHTS).rename(folder / WEIGHTS)
        refusal(folder, CheckpointCorruptError, WEIGHTS, "unknown encoder.2")

    def test_a_folder_in_their_place(self, folder):
        (folder / WEIGHTS).unlink()
        (folder / WEIGHTS).mkdir()
        refusal(folder, CheckpointCorruptError, WEIGHTS)

    def test_a_key_in_two_files(self, folder):
        save_file({KEY: torch.zeros(16, 16)}, folder / "model-old.safetensors")
        refusal(folder, CheckpointCorruptError, KEY)

    @pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn], ids=str)
    @pytest.mark.filterwarnings("ignore:Casting complex")
    def test_another_kind_of_number(self, folder, dtype):
        rewrite_weights(folder, **{KEY: stored(folder)[KEY].float().to(dtype)})
        refusal(folder, CheckpointCorruptError, KEY)

    def test_a_number_beyond_single_precision(self, folder):
        rewrite_weights(folder, **{KEY: torch.full((16, 16), 1e300, dtype=torch.float64)})
        refusal(folder, CheckpointCorruptError, KEY, "not finite")

    def test_nothing_is_copied_from_a_state_that_is_refused(self):
        model, state = tiny_model(), dict(tiny_model(seed=1).state_dict())
        del state["tgt_embedding.tokens.weight"]
        last = list(state)[-1]
        state[last] = torch.full_like(state[last], math.nan)
        with pytest.raises(CheckpointCorruptError):
            load_state(model, state, "part-7")
        for key, value in tiny_model().state_dict().items():
            assert torch.equal(model.state_dict()[key], value), key

    def test_load_state_names_the_file_it_is_told(self):
        model = tiny_model()
        with pytest.raises(CheckpointCorruptError, match="part-7") as error:
            load_state(model, {}, "part-7")
        assert error.value.params["path"] == "part-7"


class TestDamagedConfig:
    @pytest.mark.parametrize("content", [b"", b"{", b"not json", b"{'single': 1}", b"\xff\xfe\x00", b'{"format": "attention-atlas",}'])
    def test_not_json(self, folder, content):
        (folder / "config.json").write_bytes(content)
        refusal(folder, CheckpointCorruptError, "config.json", "not readable JSON")

    @pytest.mark.parametrize("content", ["[]", "null", "3", '"text"'])
    def test_not_an_object(self, folder, content):
        (folder / "config.json").write_text(content, encoding="utf-8")
        refusal(folder, CheckpointCorruptError, "config.json", "not a JSON object")

    @pytest.mark.parametrize("value", [..., None, "bert", ["attention-atlas"]])
    def test_another_format(self, folder, value):
        rewrite_config(folder, format=value)
        refusal(folder, CheckpointCorruptError, "config.json", "format")

    def test_an_unknown_entry(self, folder):
        rewrite_config(folder, rotary=True)
        refusal(folder, CheckpointCorruptError, "config.json", "unknown entries rotary")

    def test_no_vocabulary(self, folder):
        rewrite_config(folder, vocab_size=...)
        refusal(folder, CheckpointCorruptError, "config.json", "vocab_size")

    @pytest.mark.parametrize(
        ("name", "value"),
        [("d_model", 15), ("num_heads", 0), ("norm", "both"), ("activation", None), ("dropout", 2), ("d_ff", "24"), ("pad_id", 99)],
    )
    def test_an_impossible_value(self, folder, name, value):
        rewrite_config(folder, **{name: value})
        refusal(folder, CheckpointCorruptError, "config.json", name)

    @pytest.mark.parametrize(
        ("name", "value"), [("d_model", 32), ("vocab_size", 14), ("d_ff", 25), ("norm", "pre"), ("tie_embeddings", False)]
    )
    def test_one_that_does_not_fit_the_weights(self, folder, name, value):
        rewrite_config(folder, **{name: value})
        refusal(folder, CheckpointCorruptError, WEIGHTS)

    @pytest.mark.parametrize("name", ["activation", "position_layout", "pad_id", "scale_embedding", "layer_norm_eps", "num_heads"])
    def test_an_entry_that_is_not_there(self, folder, name):
        rewrite_config(folder, **{name: ...})
        refusal(folder, CheckpointCorruptError, "config.json", name)

    @pytest.mark.parametrize("name", ["vocab_size", "max_len", "d_ff"])
    def test_a_size_that_no_machine_holds(self, folder, name):
        rewrite_config(folder, **{name: 10**13})
        refusal(folder, CheckpointCorruptError)

    def test_brackets_without_end(self, folder):
        (folder / "config.json").write_text("[" * 100_000, encoding="utf-8")
        refusal(folder, CheckpointCorruptError, "config.json", "not readable JSON")

    def test_a_folder_in_its_place(self, folder):
        (folder / "config.json").unlink()
        (folder / "config.json").mkdir()
        refusal(folder, CheckpointCorruptError, "config.json")

    def test_a_file_in_place_of_the_folder(self, tmp_path):
        (tmp_path / "checkpoint").write_text("a file", encoding="utf-8")
        refusal(tmp_path / "checkpoint", AtlasError, "config.json")
