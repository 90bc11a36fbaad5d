"""Self-training: the search over many sentences against the one over a single sentence, and which sentences are translated and kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sentencepiece as spm
import torch

from model.beam import beam_search
from model.checkpoint import load_checkpoint
from model.training import corpus
from model.training.batch_search import Found, search_batch
from model.training.batches import collate
from model.training.corpus import Pair
from model.training.own_labels import english_sentences, extend, new_sources, surest, translate_all
from tests.model.decoding_reference import BANNED, finish, small_model
from tests.model.training import samples
from tests.model.training.samples import TinyRun

SOURCES = [[4, 5, 6, 4, 2], [5, 2], [6, 6, 5, 2], [4, 4, 4, 5, 6, 5, 2], [6, 2], [5, 6, 2]]


@pytest.mark.parametrize("beam_size", [1, 2, 4])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_each_sentence_is_translated_as_it_is_alone(norm: str, beam_size: int) -> None:
    finished = unfinished = 0
    for seed in range(8):
        model, limit = small_model(9 + 5 * seed, seed, eos_bias=3.5, norm=norm), 7
        found = search_batch(model, collate([(source, [0]) for source in SOURCES]).src_ids, beam_size, limit, BANNED)
        for source, ours in zip(SOURCES, found, strict=True):
            _, hypotheses = finish(beam_search(model, source, beam_size=beam_size, max_new_tokens=limit, banned_ids=BANNED))
            if not hypotheses[0].finished:
                assert ours is None
                unfinished += 1
                continue
            finished += 1
            assert [*ours.ids, 2] == list(hypotheses[0].token_ids)
            assert ours.score == pytest.approx(hypotheses[0].score, abs=1e-5)
    assert finished > 10 and (unfinished or beam_size > 1)


def test_a_translation_without_an_end_is_none() -> None:
    model = small_model(12, 1, eos_bias=-50.0)
    assert search_batch(model, collate([(SOURCES[0], [0])]).src_ids, 3, 5, BANNED) == [None]


def write(folder: Path, language: str, split: str, *lines: str) -> None:
    path = folder / f"eng-{language}" / f"{split}.tsv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\tx\n" for line in lines), encoding="utf-8")


def test_held_out_and_known_sentences_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "deu", "train", "I  am here.", "You are there!", "Held out one.", "We know it.", "a" * 300, "")
    write(tmp_path, "spa", "train", "i am HERE", "They sing.", "Held, out: two?")
    write(tmp_path, "spa", "test", "held out one")
    write(tmp_path, "fra", "valid", "Held out two.")
    english = english_sentences(tmp_path)
    assert sorted(english.values()) == ["I am here.", "They sing.", "We know it.", "You are there!"]
    known = [Pair("fra", "we know it", "x"), Pair("cmn", "They sing.", "x")]
    assert sorted(new_sources(english, "fra", known)) == ["I am here.", "They sing.", "You are there!"]
    assert len(new_sources(english, "fra", known, 2)) == 2
    assert new_sources(english, "fra", known, 2) == new_sources(english, "fra", known)[:2]
    with pytest.raises(FileNotFoundError, match="download"):
        english_sentences(tmp_path / "nothing")


def test_the_surest_are_kept() -> None:
    made = [(str(score), Found([], score)) for score in (-0.5, -0.1, -0.9, -0.3)]
    assert [text for text, _ in surest(made, 0.5)] == ["-0.1", "-0.3"]
    assert len(surest(made, 1.0)) == 4 and surest(made, 0.0) == []


@pytest.fixture
def english(tmp_path: Path) -> Path:
    write(tmp_path / "english", "deu", "train", "Tom saw 12 books.", "My sister sold a dog today!", "I found a dog, Tom saw 12 books.")
    return tmp_path / "english"


def test_the_command_adds_its_own_translations_to_the_data(tiny_run: TinyRun, english: Path, tmp_path: Path) -> None:
    out = tmp_path / "extended"
    options = ["--data", tiny_run.prepared, "--english", english, "--model", tiny_run.out, "--out", out, "--beam-size", 2]
    printed = samples.command("extend", *options, "--share", 1.0, "--copies", "cmn=2", "--threads", 1)
    before, after = (corpus.read_prepared(folder / "train.tsv") for folder in (tiny_run.prepared, out))
    own = after[len(before) + sum(pair.target == "cmn" for pair in before) :]
    for target, copies in (("fra", 1), ("cmn", 2)):
        assert [pair for pair in after if pair.target == target and pair not in own] == [
            pair for pair in before if pair.target == target for _ in range(copies)
        ]
    facts = json.loads((out / "prepared.json").read_text(encoding="utf-8"))
    assert facts["own"]["pairs"] == corpus.summary(own) and facts["own"]["by"] == "weights" and str(facts["own"]["pairs"]) in printed
    for name in ("valid.tsv", "test.tsv", "tokenizer.model"):
        assert (out / name).read_bytes() == (tiny_run.prepared / name).read_bytes()
    with pytest.raises(SystemExit, match="holds something already"):
        samples.command("extend", *options)
    # It is data as any other: a run begins with it, and the card tells of it.
    run, weights = tmp_path / "run", tmp_path / "exported"
    samples.command("train", "--data", out, "--run-folder", run, *samples.TINY_TRAINING, "--steps", 2)
    samples.command("export", "--data", out, "--run-folder", run, "--out", weights, *samples.TINY_SCORING)
    card = (weights / "README.md").read_text(encoding="utf-8")
    assert "translations of more English sentences" in card and "extend --english FOLDER --model weights --share 1.0 --copies cmn=2" in card


def test_own_translations_are_the_models_and_never_of_a_held_out_sentence(tiny_run: TinyRun, english: Path) -> None:
    pieces = spm.SentencePieceProcessor(model_file=str(tiny_run.prepared / "tokenizer.model"))
    splits = {split: corpus.read_prepared(tiny_run.prepared / f"{split}.tsv") for split in corpus.SPLITS}
    model = load_checkpoint(tiny_run.out).eval()
    held_out = [pair.source for pair in splits["test"] + splits["valid"]]
    sentences = english_sentences(english) | {corpus.source_key(text): text for text in held_out}
    with torch.no_grad():  # so that it ends
        model.tgt_embedding.tokens.weight[2] *= 3
    pairs, own = extend(model, pieces, sentences, splits, {}, share=1.0, beam_size=2)
    made = pairs[len(splits["train"]) :]
    assert own == corpus.summary(made) and {pair.source for pair in made} <= set(english_sentences(english).values())
    for text, found in translate_all(model, pieces, [pair.source for pair in made], "fra", 2):
        assert found.ids and not any(pieces.is_control(i) for i in found.ids), text


def test_another_vocabulary_is_refused(tiny_run: TinyRun, english: Path, vocabulary_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in ("train.tsv", "valid.tsv", "test.tsv", "prepared.json"):
        (other / name).write_bytes((tiny_run.prepared / name).read_bytes())
    (other / "tokenizer.model").write_bytes(vocabulary_file.read_bytes())
    with pytest.raises(SystemExit, match="another vocabulary"):
        samples.command("extend", "--data", other, "--english", english, "--model", tiny_run.out, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("share", ["0", "-0.5", "1.5", "most", "nan"])
def test_a_share_is_above_0_and_up_to_1(share: str, english: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        samples.command("extend", "--english", english, "--share", share)
    assert ended.value.code == 2 and "--share" in capsys.readouterr().err


def test_what_is_missing_is_named(tiny_run: TinyRun, english: Path, tmp_path: Path) -> None:
    options = ["--english", english, "--out", tmp_path / "out"]
    for data, model, said in (
        (tmp_path, tiny_run.out, r"train\.tsv is missing"),
        (tiny_run.prepared, tmp_path, r"config\.json is missing"),
    ):
        with pytest.raises(SystemExit, match=said):
            samples.command("extend", "--data", data, "--model", model, *options)
    with pytest.raises(SystemExit, match="download"):
        samples.command("extend", "--data", tiny_run.prepared, "--model", tiny_run.out, "--english", tmp_path, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
