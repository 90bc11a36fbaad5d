"""What `export` writes: weights, vocabulary, scores, the recorded example and the card."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest
import torch

from model.checkpoint import load_checkpoint
from model.config import TransformerConfig, count_parameters
from model.loading import load_translator
from model.recording import load_run
from model.training import export
from model.training.corpus import read_prepared
from model.training.loop import average_snapshots
from model.transformer import Transformer
from tests.model.training import samples
from tests.model.training.samples import TinyRun


def read_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_folder_holds_what_a_model_needs_and_no_more(tiny_run: TinyRun) -> None:
    names = {path.name for path in tiny_run.out.iterdir()}
    others = {"config.json", "tokenizer.model", "README.md", "example.npz", "evaluation.json", "training.json", "heads.json"}
    assert names == others | {"model.safetensors"}


def test_it_loads_and_translates_into_both_languages(tiny_run: TinyRun) -> None:
    translator = load_translator(tiny_run.out, "cpu")
    assert translator.targets == ("fra", "cmn")
    for target in translator.targets:
        assert translator.translate("Tom saw a dog.", target, beam_size=2).tgt_ids


@pytest.mark.parametrize("norm, tied", [("post", True), ("pre", False)])
def test_weights_are_the_average_in_half_precision(norm: str, tied: bool, tiny_run: TinyRun, tmp_path: Path) -> None:
    if tied:
        run, out = tiny_run.run, tiny_run.out
    else:
        run, out = made_up_run(tmp_path / "run", tiny_run, norm=norm, tie_embeddings=False), tmp_path / "out"
        export.build(run, tiny_run.prepared, out, 2)
    mean, _ = average_snapshots(run, 2)
    state = load_checkpoint(out).state_dict()
    assert state.keys() == mean.keys()
    for key, value in state.items():
        assert torch.equal(value, mean[key].half().float())


def test_weights_can_be_mixed_half_and_half_with_an_exported_folder(tiny_run: TinyRun, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    options = ["--data", tiny_run.prepared, "--run-folder", run]
    samples.command("train", *options, *samples.TINY_TRAINING, "--steps", 4, "--seed", 9)
    samples.command("export", *options, "--out", out, *samples.TINY_SCORING, "--average", 1, "--mix", tiny_run.out)
    alone, _ = average_snapshots(run, 1)
    other, mixed = load_checkpoint(tiny_run.out).state_dict(), load_checkpoint(out).state_dict()
    for key, value in mixed.items():
        assert torch.equal(value, ((alone[key] + other[key]) / 2).half().float())
    assert not torch.equal(mixed["src_embedding.tokens.weight"], other["src_embedding.tokens.weight"])
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "their mean with the weights of `weights`, half and half" in card and "--average 1 --mix weights" in card
    another = made_up_run(tmp_path / "another", tiny_run, norm="pre", tie_embeddings=False)
    with pytest.raises(ValueError, match="another model"):
        export.build(another, tiny_run.prepared, tmp_path / "never", 1, mix=tiny_run.out)


def test_the_example_equals_a_fresh_run(tiny_run: TinyRun) -> None:
    translation, trace = load_run(tiny_run.out / "example.npz")
    translator = load_translator(tiny_run.out, "cpu")
    fresh = translator.translate("I am a student.", "fra")
    assert translation.text == fresh.text
    assert (translation.src_ids, translation.tgt_ids) == (fresh.src_ids, fresh.tgt_ids)
    assert translation.token_log_probs == pytest.approx(fresh.token_log_probs, abs=1e-5)
    again = translator.trace(fresh)
    for name in ("encoder_self_attention", "decoder_self_attention", "cross_attention"):
        np.testing.assert_allclose(getattr(trace, name), getattr(again, name), atol=1e-5)


def test_the_profile_is_of_the_heads_of_these_weights(tiny_run: TinyRun, tmp_path: Path) -> None:
    """Over references that are forced, and the same again from the folder alone."""
    translator, stored = load_translator(tiny_run.out, "cpu"), read_json(tiny_run.out / "heads.json")
    config = translator.config
    sizes = {"encoder_self": config.num_encoder_layers, "decoder_self": config.num_decoder_layers, "cross": config.num_decoder_layers}
    expected = {(kind, layer, head) for kind, layers in sizes.items() for layer in range(layers) for head in range(config.num_heads)}
    assert {(head["kind"], head["layer"], head["head"]) for head in stored["heads"]} == expected
    pairs = read_prepared(tiny_run.prepared / "test.tsv")
    assert stored["sentences"] == stored["given"] > 0
    export.write_profile(tmp_path, translator, pairs, stored["sentences"])
    assert read_json(tmp_path / "heads.json") == stored
    export.write_profile(tmp_path, translator, pairs, 1)
    assert read_json(tmp_path / "heads.json")["sentences"] == 1


def test_scores_are_what_was_printed(tiny_run: TinyRun) -> None:
    evaluation = read_json(tiny_run.out / "evaluation.json")
    assert json.loads(tiny_run.printed["export"]) == evaluation["scores"]
    assert evaluation["beam_size"] == 2
    assert {target: found["sentences"] for target, found in evaluation["scores"].items()} == {"fra": 4, "cmn": 4}


def test_the_card_holds_the_run_s_own_numbers(tiny_run: TinyRun) -> None:
    card = (tiny_run.out / "README.md").read_text(encoding="utf-8")
    evaluation, training = read_json(tiny_run.out / "evaluation.json"), read_json(tiny_run.out / "training.json")
    for target, name in (("fra", "French"), ("cmn", "Chinese (simplified)")):
        found = evaluation["scores"][target]
        assert f"| {name} | 4 | {found['bleu']} | {found['chrf']} | `{found['signature']}` |" in card
        for source, text in evaluation["examples"][target].items():
            assert "| {} | {} |".format(source, text.replace("|", r"\|")) in card
    assert "Beam 2, on held-out sentences" in card
    config = TransformerConfig(**{k: v for k, v in read_json(tiny_run.out / "config.json").items() if k != "format"})
    assert f"Transformer (Vaswani et al. 2017) of {sum(count_parameters(config).values()):,} parameters" in card
    reached = training["reached"]
    assert (reached["step"], training["snapshots"]) == (10, [8, 10])
    pairs, tokens = sum(training["prepared"]["train"].values()), reached["tokens"]
    assert f"10 updates ({reached['epoch']} passes over {pairs} pairs, {tokens:,} target tokens)" in card
    assert "the last\n2 snapshots averaged" in card
    rows = {"dropout": 0.2, "batch tokens": 1500, "peak rate": 0.003, "source alpha": 0.3, "d_model, heads, d_ff": "16, 2, 32"}
    assert all(f"| {name} | {value} |" in card for name, value in rows.items())
    assert not re.search(r"\{\w*\}", card.replace("{'cmn': 2}", ""))


def test_extra_data_that_was_not_there_is_not_credited(tiny_run: TinyRun) -> None:
    card = (tiny_run.out / "README.md").read_text(encoding="utf-8")
    assert "in the training split only: nothing." in card
    assert read_json(tiny_run.prepared / "prepared.json")["extra"] == []


def test_the_card_is_written_from_the_files_alone(tiny_run: TinyRun, tmp_path: Path) -> None:
    for name in ("config.json", "training.json", "evaluation.json"):
        (tmp_path / name).write_bytes((tiny_run.out / name).read_bytes())
    export.write_card(tmp_path)
    assert (tmp_path / "README.md").read_bytes() == (tiny_run.out / "README.md").read_bytes()

    evaluation, training = read_json(tmp_path / "evaluation.json"), read_json(tmp_path / "training.json")
    evaluation["scores"]["fra"]["bleu"] = 54.32
    evaluation["examples"]["fra"] = {"a | b": "c | d"}
    training["prepared"]["extra"] = ["tico19", "my_own"]
    export.write_evaluation(tmp_path, evaluation)
    (tmp_path / "training.json").write_text(json.dumps(training), encoding="utf-8")
    export.write_card(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "| 54.32 |" in card
    assert r"| a \| b | c \| d |" in card
    assert "TICO-19 (Anastasopoulos et al. 2020, CC0 1.0); my_own." in card

    (tmp_path / "evaluation.json").unlink()
    with pytest.raises(FileNotFoundError):
        export.write_card(tmp_path)


def made_up_run(folder: Path, tiny_run: TinyRun, **changes: object) -> Path:
    """A run folder as training leaves it, with random weights of any size: two snapshots."""
    facts = read_json(tiny_run.run / "run.json")
    facts["config"] |= changes
    (folder / "snapshots").mkdir(parents=True)
    for step in (8, 10):
        torch.save(Transformer(TransformerConfig(**facts["config"])).state_dict(), folder / "snapshots" / f"{step:07d}.pt")
    (folder / "run.json").write_text(json.dumps(facts), encoding="utf-8")
    (folder / "log.jsonl").write_bytes((tiny_run.run / "log.jsonl").read_bytes())
    return folder


def test_no_file_of_a_large_model_exceeds_10_mb(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = made_up_run(tmp_path / "run", tiny_run, d_model=512, num_heads=8, d_ff=2048)
    translator = export.build(run, tiny_run.prepared, tmp_path / "out", 1)
    files = list((tmp_path / "out").glob("model*.safetensors"))
    assert len(files) > 1
    assert sum(file.stat().st_size for file in files) > 2 * sum(count_parameters(translator.config).values())
    assert max(path.stat().st_size for path in (tmp_path / "out").iterdir()) < 10_000_000


def test_a_run_without_snapshots_cannot_be_exported(tiny_run: TinyRun, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((tiny_run.run / "run.json").read_bytes())
    with pytest.raises(FileNotFoundError, match="train first"):
        export.build(tmp_path, tiny_run.prepared, tmp_path / "out", 5)
    assert not (tmp_path / "out").exists()


# --- a folder that is replaced as a whole ---


def old_export(folder: Path) -> Path:
    folder.mkdir()
    for name in ("config.json", "model-00001-of-00002.safetensors", "evaluation.json", "README.md"):
        (folder / name).write_text(f"old {name}")
    return folder


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_nothing_of_the_old_folder_stays_and_everybody_may_read_the_new_one(tmp_path: Path) -> None:
    out = old_export(tmp_path / "weights")
    before = os.umask(0o077)
    try:
        with export.replacing(out) as new:
            (new / "config.json").write_text("new")
            assert contents(out)["config.json"] == "old config.json"
    finally:
        os.umask(before)
    assert contents(out) == {"config.json": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]
    assert stat.S_IMODE(out.stat().st_mode) == 0o755
    assert stat.S_IMODE((out / "config.json").stat().st_mode) == 0o644


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_export_leaves_the_old_folder(error: type[BaseException], tmp_path: Path) -> None:
    out = old_export(tmp_path / "weights")
    before = contents(out)
    with pytest.raises(error), export.replacing(out) as new:
        (new / "config.json").write_text("new")
        raise error
    assert contents(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


def test_an_export_that_was_killed_is_cleared_away(tmp_path: Path) -> None:
    """Be it while it wrote, or between the two renamings, when only the old folder was left, under another name."""
    (tmp_path / ".weights.new").mkdir()
    (tmp_path / ".weights.new" / "half").write_text("half")
    before = contents(old_export(tmp_path / ".weights.old"))
    with pytest.raises(RuntimeError), export.replacing(tmp_path / "weights") as new:
        assert list(new.iterdir()) == []
        raise RuntimeError
    assert contents(tmp_path / "weights") == before
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    out = old_export(tmp_path / "home")
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="thesis.txt"), export.replacing(out):
        raise AssertionError
    assert len(contents(out)) == 5


def test_an_export_that_fails_in_the_middle_changes_nothing(tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """New weights never lie beside old scores."""
    out = Path(shutil.copytree(tiny_run.out, tmp_path / "out"))
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def fail(*_: object) -> None:
        raise RuntimeError("power cut")

    monkeypatch.setattr(export, "record_example", fail)
    options = ("--data", tiny_run.prepared, "--run-folder", tiny_run.run, "--out", out, *samples.TINY_SCORING, "--average", 1)
    with pytest.raises(RuntimeError, match="power cut"):
        samples.command("export", *options)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    monkeypatch.undo()
    samples.command("export", *options)
    assert {path.name for path in out.iterdir()} == before.keys()
    assert (out / "model.safetensors").read_bytes() != before["model.safetensors"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in out.iterdir()} == {0o644}


def test_the_card_spells_the_recipe_out_and_credits_what_download_fetched(tiny_run: TinyRun, tmp_path: Path) -> None:
    card = (tiny_run.out / "README.md").read_text(encoding="utf-8")
    assert "\npython -m model.training prepare --data FOLDER --vocab-size 400\npython -m model.training train --d-model 16 " in card
    assert "by way of manythings.org/anki" in card
    for name in ("config.json", "training.json", "evaluation.json"):
        (tmp_path / name).write_bytes((tiny_run.out / name).read_bytes())
    training = read_json(tmp_path / "training.json")
    training["prepared"]["credit"] = "Sentences of somebody else."
    # as exports before there were recipes wrote it
    del training["recipe"]
    (tmp_path / "training.json").write_text(json.dumps(training), encoding="utf-8")
    export.write_card(tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "Sentences of somebody else. Beside them" in card and "manythings" not in card
