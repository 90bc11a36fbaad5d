import dataclasses
import json
import zipfile

import numpy as np
import pytest

from model.errors import CheckpointCorruptError, CheckpointMissingError
from model.recording import load_examination, load_run, save_run
from model.results import AttentionTrace, Examination

MAPS = ("encoder_self_attention", "decoder_self_attention", "cross_attention")
NORM_KINDS = ("encoder_self", "decoder_self", "cross")


@pytest.fixture(scope="module")
def run(tiny_translator):
    translation = tiny_translator.translate('I love "you" 😀 <b>', "cmn")
    return translation, tiny_translator.examine(translation)


def same(found, expected):
    return (
        all(np.array_equal(getattr(found.trace, name), getattr(expected.trace, name)) for name in MAPS)
        and all(np.array_equal(found.norms[kind], expected.norms[kind]) for kind in NORM_KINDS)
        and found.runner_ups == expected.runner_ups
    )


def test_a_run_comes_back(run, tmp_path):
    save_run(tmp_path / "run.npz", *run)
    translation, found = load_examination(str(tmp_path / "run.npz"))
    assert translation == run[0] and same(found, run[1]) and len(found.runner_ups[0].others) == 5
    trace, ours = found.trace, run[1].trace
    assert not any(getattr(trace, name).flags.writeable for name in MAPS) and not any(part.flags.writeable for part in found.norms.values())
    assert (trace.src_tokens, trace.tgt_in_tokens, trace.tgt_out_tokens) == (ours.src_tokens, ours.tgt_in_tokens, ours.tgt_out_tokens)
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]
    translation, trace = load_run(tmp_path / "run.npz")
    assert translation == run[0] and np.array_equal(trace.cross_attention, ours.cross_attention)


def test_saving_again_gives_the_same_bytes(run, tmp_path):
    save_run(tmp_path / "a.npz", *run)
    save_run(tmp_path / "b.npz", *load_examination(tmp_path / "a.npz"))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_run_without_norms_and_runner_ups_comes_back_without(run, tmp_path):
    save_run(tmp_path / "run.npz", run[0], Examination(run[1].trace))
    found = load_examination(tmp_path / "run.npz")[1]
    assert found.norms is None and found.runner_ups == ()
    assert np.array_equal(found.trace.cross_attention, run[1].trace.cross_attention)


def test_files_of_the_first_format_are_still_read(run, tmp_path):
    def older(arrays):
        for kind in NORM_KINDS:
            del arrays[f"{kind}_norms"]
        values = json.loads(bytes(arrays["translation"]))
        del values["runner_ups"]
        arrays["translation"] = np.frombuffer(json.dumps({**values, "format": "attention-atlas-run-1"}).encode(), dtype=np.uint8)

    translation, found = load_examination(rewritten(tmp_path / "run.npz", run, older))
    assert translation == run[0] and found.norms is None and found.runner_ups == ()
    assert np.array_equal(found.trace.decoder_self_attention, run[1].trace.decoder_self_attention)


def test_a_file_needs_no_pickle_and_names_its_format(run, tmp_path):
    save_run(tmp_path / "run.npz", *run)
    with np.load(tmp_path / "run.npz", allow_pickle=False) as file:
        assert set(file.files) == {"translation", *MAPS, *(f"{kind}_norms" for kind in NORM_KINDS)}
        assert file["translation"].dtype == np.uint8
        assert json.loads(bytes(file["translation"]))["format"] == "attention-atlas-run-2"


def test_maps_of_another_translation_are_not_saved(run, tiny_translator, tmp_path):
    other = tiny_translator.translate("I am a student.")
    with pytest.raises(ValueError, match=f"{len(other.src_tokens)} src_tokens against {len(run[0].src_tokens)}"):
        save_run(tmp_path / "run.npz", other, run[1])
    assert not list(tmp_path.iterdir())


def test_a_missing_file(tmp_path):
    with pytest.raises(CheckpointMissingError, match="example.npz") as error:
        load_run(tmp_path / "example.npz")
    assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file(run, tmp_path, part):
    save_run(tmp_path / "run.npz", *run)
    whole = (tmp_path / "run.npz").read_bytes()
    (tmp_path / "run.npz").write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(CheckpointCorruptError):
        load_run(tmp_path / "run.npz")


def test_flipped_bytes_never_pass_unseen(run, tmp_path):
    save_run(tmp_path / "run.npz", *run)
    whole = (tmp_path / "run.npz").read_bytes()
    for at in np.random.default_rng(0).integers(0, len(whole), 60):
        damaged = bytearray(whole)
        damaged[at] ^= 0x55
        (tmp_path / "damaged.npz").write_bytes(damaged)
        try:
            translation, found = load_examination(tmp_path / "damaged.npz")
        except CheckpointCorruptError:
            continue
        # Some bytes of a zip (times, attributes) mean nothing here; then nothing may have changed.
        assert translation == run[0] and same(found, run[1])


def rewritten(path, run, change):
    save_run(path, *run)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    change(arrays)
    np.savez(path, **arrays)
    return path


def edited_json(arrays, **changes):
    values = {**json.loads(bytes(arrays["translation"])), **changes}
    arrays["translation"] = np.frombuffer(json.dumps(values).encode(), dtype=np.uint8)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.pop("cross_attention"),
        lambda arrays: arrays.pop("translation"),
        lambda arrays: edited_json(arrays, format="another"),
        lambda arrays: edited_json(arrays, surprise=1),
        lambda arrays: edited_json(arrays, src_tokens=["a"]),
        lambda arrays: edited_json(arrays, tgt_ids=None),
        lambda arrays: arrays.update(translation=np.array([91, 93], dtype=np.uint8)),
        lambda arrays: arrays.update(translation=np.array([200, 200], dtype=np.uint8)),
        lambda arrays: arrays.update(cross_attention=arrays["cross_attention"].swapaxes(2, 3)),
        lambda arrays: arrays.update(cross_attention=arrays["cross_attention"] * 0.9),
        lambda arrays: arrays.update(cross_attention=arrays["cross_attention"].astype(np.float64)),
        lambda arrays: arrays.update(cross_attention=np.array(["x"])),
        lambda arrays: arrays.pop("cross_norms"),
        lambda arrays: arrays.update(cross_norms=arrays["cross_norms"].swapaxes(1, 2)),
        lambda arrays: arrays.update(cross_norms=-arrays["cross_norms"]),
        lambda arrays: arrays.update(cross_norms=arrays["cross_norms"].astype(np.float64)),
        lambda arrays: edited_json(arrays, runner_ups=[{"rank": 1, "others": []}]),
        lambda arrays: edited_json(arrays, runner_ups=[{"rank": 1}]),
        lambda arrays: edited_json(arrays, runner_ups="none"),
    ],
)
def test_a_file_with_other_contents(run, tmp_path, change):
    with pytest.raises(CheckpointCorruptError):
        load_run(rewritten(tmp_path / "run.npz", run, change))


def test_a_pickle_is_refused(run, tmp_path):
    path = rewritten(tmp_path / "run.npz", run, lambda arrays: arrays.update(translation=np.array([{"a": 1}], dtype=object)))
    with pytest.raises(CheckpointCorruptError):
        load_run(path)
    (tmp_path / "text.npz").write_text("no archive")
    with pytest.raises(CheckpointCorruptError):
        load_run(tmp_path / "text.npz")
    with zipfile.ZipFile(tmp_path / "empty.npz", "w"):
        pass
    with pytest.raises(CheckpointCorruptError):
        load_run(tmp_path / "empty.npz")
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(CheckpointCorruptError):
        load_run(tmp_path / "one.npy")


# --- the trace checks itself ---


def changed(trace, **changes):
    return dataclasses.replace(trace, **changes)


def test_a_trace_says_both_lengths(run):
    trace = run[1].trace
    src_len, tgt_len = len(trace.src_tokens), len(trace.tgt_in_tokens)
    message = rf"cross_attention has shape .*{tgt_len}, {src_len}\), but there are {tgt_len} target and {src_len - 1} source"
    with pytest.raises(ValueError, match=message):
        changed(trace, src_tokens=trace.src_tokens[1:], encoder_self_attention=np.eye(src_len - 1, dtype=np.float32)[None, None])
    with pytest.raises(ValueError, match=f"{tgt_len} tokens read, but {tgt_len - 1} predicted"):
        changed(trace, tgt_out_tokens=trace.tgt_out_tokens[1:])


def test_a_trace_refuses_maps_that_cannot_be(run):
    trace = run[1].trace
    ahead = trace.decoder_self_attention.copy()
    ahead[1, 1, 0, :2] = 0.5  # the first token looks at the second
    with pytest.raises(ValueError, match="later"):
        changed(trace, decoder_self_attention=ahead)
    spoiled = trace.cross_attention.copy()
    spoiled[1, 0, 2] *= 1.01
    with pytest.raises(ValueError, match="row 2 of L1 H0 sums to 1.01"):
        changed(trace, cross_attention=spoiled)
    spoiled[1, 0, 2, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        changed(trace, cross_attention=spoiled)
    with pytest.raises(ValueError, match="layers and heads"):
        changed(trace, cross_attention=trace.cross_attention[:1])
    with pytest.raises(ValueError, match="float32"):
        changed(trace, cross_attention=trace.cross_attention.astype(np.float16))


def test_encoder_and_decoder_may_differ_in_depth(run):
    deeper = np.concatenate([run[1].trace.encoder_self_attention] * 2)
    assert isinstance(changed(run[1].trace, encoder_self_attention=deeper), AttentionTrace)
