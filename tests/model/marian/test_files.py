"""Which file is read, and that one that is truncated, damaged or hostile is refused with a typed error and runs nothing."""

from __future__ import annotations

import collections
import io
import json
import pickle
import re
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from model.errors import AtlasError, CheckpointCorruptError, CheckpointMissingError, UnsafeFileError
from model.marian.files import read_tensors
from tests.model.marian.factories import save_weights

STATE = {"a.weight": torch.arange(6.0).reshape(2, 3), "b.bias": torch.tensor([1.5, -2.0]), "c.weight": torch.full((1, 4), 0.25)}
BIN, SAFE, INDEX = "pytorch_model.bin", "model.safetensors", "model.safetensors.index.json"
FORMS = {"safetensors": SAFE, "bin": BIN, "legacy_bin": BIN}


class Intruder:
    """What a hostile pickle holds: a call. If it is ever made, a file appears."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def saved(obj: object, legacy: bool) -> bytes:
    buffer = io.BytesIO()
    torch.save(obj, buffer, _use_new_zipfile_serialization=not legacy)
    return buffer.getvalue()


def refusal(folder: Path, kind: type[AtlasError], *said: str) -> None:
    with pytest.raises(kind) as error:
        read_tensors(folder)
    assert str(folder) not in str(error.value)
    for words in said:
        assert words in str(error.value)


def assert_state(found: dict[str, Tensor], expected: dict[str, Tensor] = STATE) -> None:
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], value) for name, value in expected.items())


class TestWhichFile:
    @pytest.mark.parametrize(
        ("form", "name"), [("safetensors", SAFE), ("bin", BIN), ("legacy_bin", BIN), ("sharded", "model-00001-of-00002.safetensors")]
    )
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
    def test_every_form_gives_the_same(self, tmp_path, form, name, dtype):
        save_weights(tmp_path, STATE, form, dtype)
        found, blamed = read_tensors(tmp_path)
        assert_state(found, {key: value.to(dtype) for key, value in STATE.items()})
        assert blamed == name

    def test_the_two_pickles_are_of_two_formats(self, tmp_path):
        save_weights(tmp_path, STATE, "legacy_bin")
        assert (tmp_path / BIN).read_bytes()[:4] == b"\x80\x02\x8a\x0a"
        save_weights(tmp_path, STATE, "bin")
        assert zipfile.is_zipfile(tmp_path / BIN)

    @pytest.mark.parametrize("form", ["safetensors", "sharded"])
    def test_a_pickle_is_not_opened_where_there_is_something_better(self, tmp_path, form):
        save_weights(tmp_path, STATE, form)
        mark = tmp_path / "mark"
        (tmp_path / BIN).write_bytes(pickle.dumps(Intruder(mark)))
        assert_state(read_tensors(tmp_path)[0])
        assert not mark.exists()

    def test_one_file_goes_before_shards(self, tmp_path):
        save_weights(tmp_path, {"other": torch.ones(1)}, "sharded")
        save_weights(tmp_path, STATE)
        assert_state(read_tensors(tmp_path)[0])

    @pytest.mark.parametrize("others", [(), ("tf_model.h5", "rust_model.ot", "flax_model.msgpack")], ids=["nothing", "other frameworks"])
    def test_no_weights(self, tmp_path, others):
        for name in others:
            (tmp_path / name).write_bytes(b"weights")
        refusal(tmp_path, CheckpointMissingError, "model.safetensors is missing")

    def test_parameters_and_ordered_dictionaries_are_tensors_by_name(self, tmp_path):
        state = collections.OrderedDict((key, nn.Parameter(value)) for key, value in STATE.items())
        (tmp_path / BIN).write_bytes(saved(state, legacy=True))
        found, _ = read_tensors(tmp_path)
        assert_state(found)
        assert not any(value.requires_grad for value in found.values())


class TestShards:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        save_weights(tmp_path, STATE, "sharded")
        return tmp_path

    def change(self, folder: Path, **places: object) -> None:
        values = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        values["weight_map"] |= {name.replace("_", "."): place for name, place in places.items()}
        (folder / INDEX).write_text(json.dumps(values), encoding="utf-8")

    def test_a_missing_one_is_named(self, folder):
        (folder / "model-00002-of-00002.safetensors").unlink()
        refusal(folder, CheckpointMissingError, "model-00002-of-00002.safetensors is missing")

    def test_a_truncated_one_is_named(self, folder):
        path = folder / "model-00002-of-00002.safetensors"
        path.write_bytes(path.read_bytes()[:-1])
        refusal(folder, CheckpointCorruptError, "model-00002-of-00002.safetensors", "truncated or damaged")

    def test_a_tensor_that_is_not_where_the_index_says(self, folder):
        self.change(folder, d_weight="model-00001-of-00002.safetensors")
        refusal(folder, CheckpointCorruptError, "lacks d.weight")

    def test_a_tensor_in_two_of_them(self, folder):
        save_file(dict(STATE), folder / "model-00002-of-00002.safetensors")
        refusal(folder, CheckpointCorruptError, "is in another file as well")

    @pytest.mark.parametrize(
        "place", ["../outside.safetensors", "/tmp/outside.safetensors", "a/b.safetensors", "..", ".", "", "..\\outside", 3, None]
    )
    def test_an_index_never_leads_out_of_the_folder(self, tmp_path, place):
        save_file({"d.weight": torch.ones(1)}, tmp_path / "outside.safetensors")
        folder = tmp_path / "folder"
        folder.mkdir()
        save_weights(folder, STATE, "sharded")
        self.change(folder, d_weight=place)
        with pytest.raises(CheckpointCorruptError, match="the file of d.weight is"):
            read_tensors(folder)

    @pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"weight_map": {}}', b'{"weight_map": []}', b"\xff"])
    def test_an_index_that_is_none(self, folder, content):
        (folder / INDEX).write_bytes(content)
        refusal(folder, CheckpointCorruptError, INDEX)


class TestDamage:
    @pytest.mark.parametrize("form", FORMS)
    def test_cut_off_anywhere(self, tmp_path, form):
        save_weights(tmp_path, STATE, form)
        path = tmp_path / FORMS[form]
        content = path.read_bytes()
        for kept in [*range(0, 40), *range(40, len(content) - 40, 37), *range(len(content) - 40, len(content))]:
            path.write_bytes(content[:kept])
            refusal(tmp_path, CheckpointCorruptError, path.name, "truncated or damaged")

    @pytest.mark.parametrize("name", [SAFE, BIN])
    @pytest.mark.parametrize(
        "content",
        [
            b"not a model at all",
            b"\xff" * 64,
            b"\x00" * 4096,
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            b"<!doctype html><title>404</title>",
            b"PK\x03\x04" + b"\x00" * 200,
        ],
        ids=["text", "ones", "zeros", "large-storage pointer", "html", "a zip's beginning"],
    )
    def test_garbage(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        refusal(tmp_path, CheckpointCorruptError, name, "truncated or damaged")

    @pytest.mark.filterwarnings("ignore:Detected pickle protocol")
    @pytest.mark.parametrize("legacy", [True, False], ids=["stream", "zip"])
    def test_a_changed_byte_never_escapes_as_another_error(self, tmp_path, legacy):
        """It may load with another number in it, or be taken for a foreign object, but raises nothing untyped and runs nothing."""
        content = saved(STATE, legacy)
        refused = 0
        for place in range(0, len(content), 5):
            (tmp_path / BIN).write_bytes(content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :])
            try:
                read_tensors(tmp_path)
            except AtlasError:
                refused += 1
        assert refused > 10

    @pytest.mark.parametrize("name", [SAFE, BIN])
    def test_a_folder_in_its_place(self, tmp_path, name):
        (tmp_path / name).mkdir()
        refusal(tmp_path, CheckpointCorruptError, name)


class TestHostilePickle:
    @pytest.mark.filterwarnings("ignore:Detected pickle protocol")
    @pytest.mark.parametrize("shape", ["stream", "zip", "protocol 0", "protocol 2", "protocol 5", "beside tensors"])
    def test_nothing_is_executed(self, tmp_path, shape):
        mark = tmp_path / "mark"
        intruder = {"a.weight": Intruder(mark)}
        if shape == "beside tensors":
            content = saved({**STATE, **intruder}, legacy=False)
        elif shape.startswith("protocol"):
            content = pickle.dumps(intruder, protocol=int(shape[-1]))
        else:
            content = saved(intruder, legacy=shape == "stream")
        (tmp_path / BIN).write_bytes(content)
        refusal(tmp_path, UnsafeFileError, BIN, "nothing of it was read or run")
        assert not mark.exists()
        if shape.startswith("protocol"):  # it is dangerous indeed
            pickle.loads(content)
            assert mark.exists()

    @pytest.mark.parametrize("legacy", [True, False], ids=["stream", "zip"])
    @pytest.mark.parametrize("obj", [{"a": STATE["a.weight"].numpy()}, nn.Linear(2, 2), {"a": Path("a")}], ids=["numpy", "module", "path"])
    def test_objects_that_are_no_plain_tensors(self, tmp_path, legacy, obj):
        (tmp_path / BIN).write_bytes(saved(obj, legacy))
        refusal(tmp_path, UnsafeFileError, BIN)

    @pytest.mark.parametrize(
        ("obj", "said"),
        [
            ({"a": 3}, "a is a int, not a tensor"),
            ({3: torch.ones(1)}, "3 is a Tensor"),
            ({"model": STATE}, "model is a dict"),
            ([torch.ones(1)], "it holds a list"),
            (torch.ones(2), "it holds a Tensor"),
            ({"a": torch.eye(3).to_sparse()}, "a is no plain tensor"),
            ({"a": torch.zeros(1).expand(10**9)}, "a is no plain tensor"),
            ({"a": torch.zeros(1, 1).expand(10**6, 10**6)}, "a is no plain tensor"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    @pytest.mark.parametrize("legacy", [True, False], ids=["stream", "zip"])
    def test_plain_data_that_is_no_state(self, tmp_path, obj, said, legacy):
        (tmp_path / BIN).write_bytes(saved(obj, legacy))
        refusal(tmp_path, CheckpointCorruptError, BIN, said)

    @pytest.mark.filterwarnings("ignore:Detected pickle protocol")
    @pytest.mark.parametrize("words", ["memory", "out of memory", "DefaultCPUAllocator: can't allocate memory"])
    @pytest.mark.parametrize("form", ["raw", "stream", "zip"])
    def test_a_name_that_speaks_of_memory_is_refused_like_others(self, tmp_path, form, words):
        """torch quotes the name that it refuses."""
        call = f"cos\n{words}\n(tR.".encode()
        content = saved(Intruder(tmp_path / "mark"), legacy=form == "stream") if form != "raw" else b"\x80\x02" + call
        if form == "stream":  # after the magic number and the version, where the object would come
            content = b"".join(pickle.dumps(value, protocol=2) for value in (0x1950A86A20F9469CFC6C, 1001, {})) + b"\x80\x02" + call
        if form == "zip":
            buffer = io.BytesIO()
            with zipfile.ZipFile(io.BytesIO(content)) as before, zipfile.ZipFile(buffer, "w") as after:
                for entry in before.infolist():
                    changed = entry.filename.endswith("data.pkl")
                    after.writestr(entry.filename, b"\x80\x02" + call if changed else before.read(entry))
            content = buffer.getvalue()
        (tmp_path / BIN).write_bytes(content)
        with pytest.raises(pickle.UnpicklingError, match=re.escape(words)):  # else this would prove nothing
            torch.load(tmp_path / BIN, weights_only=True)
        refusal(tmp_path, UnsafeFileError, BIN, "nothing of it was read or run")

    def test_memory_that_runs_out_is_said_as_such(self, tmp_path, monkeypatch):
        """The caller tells it from a damaged file."""
        save_weights(tmp_path, STATE, "bin")
        for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes.")):

            def fail(*args: object, error: Exception = error, **kwargs: object) -> None:
                raise error

            monkeypatch.setattr(torch, "load", fail)
            with pytest.raises(type(error)):
                read_tensors(tmp_path)
