import dataclasses
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import model as package
from model.catalogue import EMBEDDED, find_model, known_models
from model.checkpoint import save_checkpoint
from model.decoding import DecodingSettings
from model.device import pick_device
from model.errors import (
    AtlasError,
    CheckpointCorruptError,
    CheckpointMissingError,
    DeviceError,
    EmptyTextError,
    InvalidSettingError,
    TextTooLongError,
    UnknownTargetError,
    UnusableTextError,
)
from model.hooks import AttentionSite, attention_hook
from model.translator import Translator, load_translator
from tests.model.test_decoding import StepRecorder, finish
from tests.tiny import random_model, tiny_config

TEXT = "The cat saw 12 apples."
HOSTILE = (
    "<script>alert(1)</script>",
    "<b>bold</b>",
    "$x$",
    "مرحبا بالعالم",
    "שלום",
    ">>cmn<< hello",
    "</s>",
    "<s><pad>",
    "😀 👩‍👩‍👧",
    "a\x00b\x1b[0m",
    "half \ud83d pair",
    "user\u202egpj",
    "“Où”\u00a0?\r\nNo.",
)


# --- translate ---


@pytest.mark.parametrize("target", ["fra", "cmn"])
@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"method": "greedy"}, {"method": "sample", "seed": 4}, {"length_penalty": 0.0}])
def test_a_translation_fits_together(tiny_translator, options, target):
    result = tiny_translator.translate(TEXT, target, **options)
    tokenizer = tiny_translator.tokenizer
    assert result.source_text == TEXT and result.target == target and not result.forced
    assert list(result.src_ids) == tokenizer.encode_source(TEXT, target)
    assert result.src_tokens == tokenizer.tokens(result.src_ids)
    assert result.src_tokens[0] == f">>{target}<<" and result.src_tokens[-1] == "</s>"
    assert result.tgt_in_tokens[0] == "<s>" and result.tgt_in_tokens[1:] == result.tgt_out_tokens[:-1]
    assert len(result.tgt_in_tokens) == len(result.tgt_out_tokens) == len(result.tgt_ids) == len(result.token_log_probs)
    assert result.finished == (result.tgt_ids[-1] == 2) == (result.tgt_out_tokens[-1] == "</s>")
    assert result.text == tokenizer.decode(result.tgt_ids)
    assert result.score == pytest.approx(sum(result.token_log_probs) / len(result.tgt_ids) ** options.get("length_penalty", 1.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.text = ""


def test_the_target_changes_the_output(tiny_translator):
    assert tiny_translator.translate(TEXT, "fra").token_log_probs != tiny_translator.translate(TEXT, "cmn").token_log_probs


def test_a_beam_of_one_is_greedy(tiny_translator):
    assert tiny_translator.translate(TEXT, beam_size=1) == tiny_translator.translate(TEXT, method="greedy")


def test_a_seed_repeats(tiny_translator):
    drawn = [tiny_translator.translate(TEXT, method="sample", temperature=2.0, seed=seed).tgt_ids for seed in (1, 2, 3, 1, 2, 3)]
    assert drawn[:3] == drawn[3:] and len(set(drawn)) == 3


def test_steps_lead_to_the_translation(tiny_translator):
    steps, result = finish(tiny_translator.steps(TEXT, beam_size=3))
    assert result == tiny_translator.translate(TEXT, beam_size=3)
    assert len(steps[0].beams) == 1 and all(len(step.beams) == 3 for step in steps[1:])


def test_steps_complain_before_the_first_step(tiny_translator):
    with pytest.raises(EmptyTextError):
        tiny_translator.steps("")


def test_the_length_limit_says_unfinished(tiny_translator):
    result = tiny_translator.translate(TEXT, method="greedy", max_new_tokens=1)
    assert len(result.tgt_ids) == 1 and not result.finished and result.tgt_out_tokens[-1] != "</s>"
    assert tiny_translator.trace(result).cross_attention.shape[2] == 1


def test_input_tokens_never_come_out(tiny_tokenizer, tiny_config):
    model = random_model(tiny_config)
    with torch.no_grad():
        model.output_bias[[0, 1, 4, 5]] += 30.0
    translator = Translator(model, tiny_tokenizer)
    for options in ({}, {"method": "greedy"}, {"method": "sample", "temperature": 5.0, "seed": 0}):
        assert not {0, 1, 4, 5} & set(translator.translate(TEXT, **options).tgt_ids)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_text(tiny_translator, text):
    result = tiny_translator.translate(text, max_new_tokens=6)
    assert not {0, 1, 2, 3, 4, 5} & set(result.src_ids[1:-1])
    assert result.src_ids[0] == 4
    assert all(token.isprintable() for token in (*result.src_tokens, *result.tgt_out_tokens))
    tiny_translator.trace(result)
    forced = tiny_translator.force(TEXT, text)
    assert not {0, 1, 2, 3, 4, 5} & set(forced.tgt_ids[:-1])
    assert np.isfinite(forced.score)


# --- force ---


def test_forcing_what_was_generated_gives_its_scores(tiny_translator):
    compared = 0
    for text in ("I am a student.", "I love you.", "The dog saw the cat.", TEXT):
        for beam_size in (1, 4):
            result = tiny_translator.translate(text, beam_size=beam_size)
            forced = tiny_translator.force(text, result.text)
            if forced.tgt_ids == result.tgt_ids:  # what is generated may spell a text in other pieces than the tokenizer would
                assert forced.token_log_probs == pytest.approx(result.token_log_probs, abs=1e-5)
                assert forced.score == pytest.approx(result.score, abs=1e-5)
                assert forced == dataclasses.replace(result, forced=True, token_log_probs=forced.token_log_probs, score=forced.score)
                compared += 1
    assert compared >= 4


def test_force_gives_log_probs_of_a_full_pass(tiny_translator, tiny_model):
    forced = tiny_translator.force("I love you.", "Je t'aime.", "fra")
    assert forced.forced and forced.finished and forced.text == "Je t'aime." and forced.tgt_out_tokens[-1] == "</s>"
    assert list(forced.tgt_ids) == tiny_translator.tokenizer.encode_target("Je t'aime.")
    with torch.no_grad():
        logits = tiny_model(torch.tensor([forced.src_ids]), torch.tensor([[1, *forced.tgt_ids[:-1]]]))[0].double()
    logits[:, [0, 1, 4, 5]] = -torch.inf
    probs = logits.exp() / logits.exp().sum(-1, keepdim=True)
    expected = [float(probs[t, i].log()) for t, i in enumerate(forced.tgt_ids)]
    assert forced.token_log_probs == pytest.approx(expected, abs=1e-5)
    assert forced.score == pytest.approx(sum(expected) / len(expected), abs=1e-5)


# --- trace ---


@pytest.mark.parametrize("options", [{"method": "greedy"}, {"beam_size": 4}, {"method": "sample", "seed": 2, "temperature": 2.0}])
def test_row_t_of_the_trace_is_step_t(tiny_translator, options):
    recorder = StepRecorder()
    with attention_hook(recorder):
        steps, result = finish(tiny_translator.steps(TEXT, **options))
    trace = tiny_translator.trace(result)
    row, rows = None, []
    # Follow the winner's parents: the beam that held its first t tokens at step t.
    for step, t in zip(steps, range(len(result.tgt_ids)), strict=False):
        row = next(i for i, beam in enumerate(step.beams) if beam.token_ids == result.tgt_ids[:t])
        rows.append(row)
    for kind, maps in (("decoder_self", trace.decoder_self_attention), ("cross", trace.cross_attention)):
        for t, row in enumerate(rows):
            for layer, step in recorder.steps[kind][t].items():
                keys = step.shape[-1]
                assert np.allclose(maps[layer, :, t, :keys], step[row].numpy(), atol=1e-5)
                assert not maps[layer, :, t, keys:].any()


def test_a_trace_is_every_map_of_one_pass(tiny_translator, tiny_model):
    result = tiny_translator.translate(TEXT)
    trace = tiny_translator.trace(result)
    seen: dict[AttentionSite, np.ndarray] = {}
    with torch.no_grad(), attention_hook(lambda site, weights: seen.update({site: weights[0].numpy()})):
        tiny_model(torch.tensor([result.src_ids]), torch.tensor([[1, *result.tgt_ids[:-1]]]))
    src_len, tgt_len = len(result.src_ids), len(result.tgt_ids)
    assert src_len != tgt_len
    assert trace.encoder_self_attention.shape == (2, 2, src_len, src_len)
    assert trace.decoder_self_attention.shape == (2, 2, tgt_len, tgt_len)
    assert trace.cross_attention.shape == (2, 2, tgt_len, src_len)
    for site, weights in seen.items():
        maps = getattr(trace, {"cross": "cross_attention"}.get(site.kind, f"{site.kind}_attention"))
        assert np.allclose(maps[site.layer], weights, atol=1e-6)
        assert maps.dtype == np.float32 and not maps.flags.writeable
    assert trace.src_tokens == result.src_tokens
    assert (trace.tgt_in_tokens, trace.tgt_out_tokens) == (result.tgt_in_tokens, result.tgt_out_tokens)


def test_a_trace_needs_a_translation_of_its_own_model(tiny_translator):
    result = tiny_translator.translate(TEXT)
    with pytest.raises(InvalidSettingError, match="tgt_ids"):
        tiny_translator.trace(dataclasses.replace(result, tgt_ids=(10**6, *result.tgt_ids[1:])))
    long = {"src_ids": result.src_ids * 20, "src_tokens": result.src_tokens * 20}
    with pytest.raises(InvalidSettingError, match="src_ids"):
        tiny_translator.trace(dataclasses.replace(result, **long))


def test_nothing_is_hooked_or_kept_after_a_call(tiny_translator):
    before = dict(vars(tiny_translator))
    tiny_translator.trace(tiny_translator.translate(TEXT))
    assert vars(tiny_translator) == before
    assert not torch.is_inference_mode_enabled()
    for step in tiny_translator.steps(TEXT):
        assert step is not None and not torch.is_inference_mode_enabled()


def test_longest_texts_run(tiny_translator):
    words = "I " * 61  # as many tokens as the model has positions, prefix and end included
    while len(tiny_translator.tokenizer.encode_source(words, "fra")) > tiny_translator.config.max_len:
        words = words[:-2]
    result = tiny_translator.force(words, words)
    assert tiny_translator.trace(result).encoder_self_attention.shape[-1] == len(result.src_ids) > 50
    assert tiny_translator.translate(words, max_new_tokens=tiny_translator.config.max_len).text is not None


# --- threads ---


def test_threads_do_not_meet(tiny_translator):
    """Different sentences, targets and hooks at once give what they give alone."""
    jobs = [(f"The cat saw {i} dogs, {'and I love you ' * (i % 4)}.", ("fra", "cmn")[i % 2], i / 10) for i in range(8)]

    def run(job):
        text, target, mix = job

        def blend(site, weights):
            # Changes what this job computes: some of the weight of cross-attention is spread evenly.
            return (1 - mix) * weights + mix / weights.shape[-1] if site.kind == "cross" else None

        with attention_hook(blend):
            result = tiny_translator.translate(text, target, beam_size=3)
            trace = tiny_translator.trace(result)
        return result, trace.cross_attention.tobytes()

    alone = [run(job) for job in jobs]
    assert len({result.token_log_probs for result, _ in alone}) == len(jobs)
    start = threading.Barrier(4)

    def together(jobs_of_one):
        start.wait(timeout=30)
        return [run(job) for job in jobs_of_one]

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(together, [jobs[i::4] for i in range(4)]))
    for i, part in enumerate(parts):
        for got, expected in zip(part, alone[i::4], strict=True):
            assert got == expected


# --- errors ---


@pytest.mark.parametrize("text", ["", "   ", "\n\u3000"])
def test_no_text(tiny_translator, text):
    with pytest.raises(EmptyTextError):
        tiny_translator.translate(text)
    for texts in ((text, "x"), ("x", text)):
        with pytest.raises(EmptyTextError):
            tiny_translator.force(*texts)


@pytest.mark.parametrize("text", ["\x00\x01", "\u202e", "\udcff"])
def test_no_usable_text(tiny_translator, text):
    with pytest.raises(UnusableTextError):
        tiny_translator.translate(text)


def test_a_long_text_is_refused_with_its_number(tiny_translator):
    text = "I am a student. " * 312 + "I am old"
    assert len(text) == 5000
    with pytest.raises(TextTooLongError) as error:
        tiny_translator.translate(text)
    num_tokens = len(tiny_translator.tokenizer.encode_source(text, "fra"))
    assert error.value.params == {"num_tokens": num_tokens, "limit": 64}
    assert str(num_tokens) in str(error.value) and "64" in str(error.value)
    with pytest.raises(TextTooLongError):
        tiny_translator.force(TEXT, text)


def test_a_huge_text_is_refused_fast(tiny_translator):
    start = time.perf_counter()
    with pytest.raises(TextTooLongError):
        tiny_translator.translate("word \x00é" * 5_000_000)
    assert time.perf_counter() - start < 3


@pytest.mark.parametrize("target", ["deu", None, "", 7])
def test_unknown_target(tiny_translator, target):
    with pytest.raises(UnknownTargetError, match="fra, cmn"):
        tiny_translator.translate(TEXT, target)
    with pytest.raises(UnknownTargetError):
        tiny_translator.force(TEXT, "x", target)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", None),
        ("text", 5),
        ("beam_size", 0),
        ("beam_size", 17),
        ("beam_size", 1000),
        ("beam_size", -1),
        ("beam_size", 2.5),
        ("beam_size", True),
        ("beam_size", "4"),
        ("beam_size", None),
        ("method", "magic"),
        ("method", None),
        ("method", ["beam"]),
        ("temperature", 0),
        ("temperature", -1.0),
        ("temperature", float("nan")),
        ("temperature", float("inf")),
        ("temperature", "hot"),
        ("temperature", None),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_p", float("nan")),
        ("length_penalty", float("nan")),
        ("length_penalty", 1e9),
        ("length_penalty", None),
        ("max_new_tokens", 0),
        ("max_new_tokens", 65),
        ("max_new_tokens", 1.0),
        ("seed", -1),
        ("seed", 2**63),
        ("seed", "a"),
        ("seed", 1.0),
    ],
)
def test_impossible_settings(tiny_translator, name, value):
    with pytest.raises(InvalidSettingError) as error:
        tiny_translator.translate(**{"text": TEXT, name: value})
    assert error.value.params["name"] == name and error.value.params["allowed"]


def test_numpy_numbers_are_numbers():
    settings = DecodingSettings(beam_size=np.int64(3), temperature=np.float32(0.5), seed=np.int32(3))
    assert settings == DecodingSettings(beam_size=3, temperature=0.5, seed=3)
    assert type(settings.beam_size) is int and type(settings.temperature) is float


def test_positional_encoding_is_the_models_own(tiny_translator, tiny_model, tiny_tokenizer):
    table = tiny_translator.positional_encoding(5)
    assert table.shape == (5, 16) and table.dtype == np.float32
    assert table[3, 0] == pytest.approx(np.sin(3)) and table[3, 1] == pytest.approx(np.cos(3))
    table[:] = 0
    assert tiny_translator.positional_encoding(5).any()
    halves = Translator(random_model_like(tiny_model, position_layout="halves"), tiny_tokenizer).positional_encoding(5)
    assert halves[3, 8] == pytest.approx(np.cos(3))
    for length in (0, -1, 65, 2.0, None, True):
        with pytest.raises(InvalidSettingError):
            tiny_translator.positional_encoding(length)


def random_model_like(model, **changes):
    return random_model(dataclasses.replace(model.config, **changes))


# --- loading ---


def test_a_loaded_folder_translates_like_the_model(tiny_folder, tiny_translator):
    for loaded in (load_translator(tiny_folder, device="cpu"), package.load_translator(str(tiny_folder), "cpu")):
        assert (loaded.name, loaded.device, loaded.targets, loaded.config) == ("tiny", "cpu", ("fra", "cmn"), tiny_translator.config)
        assert loaded.translate(TEXT) == tiny_translator.translate(TEXT)


def test_missing_and_damaged_files(tiny_folder, tmp_path):
    names = [path.name for path in tiny_folder.iterdir()]
    assert {"config.json", "tokenizer.model"} < set(names)
    for name in names:
        for damage, expected in (("remove", CheckpointMissingError), ("cut", CheckpointCorruptError), ("empty", CheckpointCorruptError)):
            folder = tmp_path / f"{name}-{damage}"
            folder.mkdir()
            for other in names:
                content = (tiny_folder / other).read_bytes()
                if other != name:
                    (folder / other).write_bytes(content)
                elif damage != "remove":
                    (folder / other).write_bytes(content[: len(content) // 2] if damage == "cut" else b"")
            with pytest.raises(expected) as error:
                load_translator(folder, "cpu")
            assert str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("source", ["no-such-folder", "", "a\0b", "x" * 5000])
def test_no_such_model(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((CheckpointMissingError, CheckpointCorruptError)):
        load_translator(source, "cpu")


def test_sources_that_are_no_folder(tiny_folder):
    with pytest.raises(CheckpointCorruptError, match="file"):
        find_model(tiny_folder / "config.json")
    with pytest.raises(InvalidSettingError):
        find_model(5)


def test_a_tokenizer_of_another_model_is_refused(tiny_tokenizer):
    for config in (tiny_config(tiny_tokenizer.vocab_size + 1), tiny_config(tiny_tokenizer.vocab_size, eos_id=6)):
        with pytest.raises(CheckpointCorruptError):
            Translator(random_model(config), tiny_tokenizer)


def test_the_catalogue(tiny_folder, tmp_path):
    assert find_model() == find_model("embedded") == EMBEDDED == known_models()[0]
    save_checkpoint(random_model(tiny_config(20)), tmp_path / "b")
    save_checkpoint(random_model(tiny_config(20)), tmp_path / "a")
    (tmp_path / "c").mkdir()
    assert [entry.name for entry in known_models(tmp_path)] == ["embedded", "a", "b"]
    assert known_models(tmp_path / "none") == (EMBEDDED,)


# --- devices ---


def test_device_order(monkeypatch):
    monkeypatch.delenv("ATLAS_DEVICE", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert str(pick_device()) == "cuda:0"
    assert str(pick_device("cuda")) == "cuda" and str(pick_device("cuda:1")) == "cuda:1" and str(pick_device("mps")) == "mps"
    with pytest.raises(DeviceError, match="cuda:0, cuda:1, mps, cpu"):
        pick_device("cuda:2")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert str(pick_device()) == "mps"
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert str(pick_device()) == "cpu"


def test_the_environment_overrides(monkeypatch, tiny_folder):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("ATLAS_DEVICE", "CPU")
    assert str(pick_device()) == "cpu"
    assert str(pick_device("cuda")) == "cuda"
    monkeypatch.setenv("ATLAS_DEVICE", " ")
    assert str(pick_device()) == "cuda:0"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for bad in ("tpu", "cuda", "cuda:x", "-1"):
        monkeypatch.setenv("ATLAS_DEVICE", bad)
        with pytest.raises(DeviceError, match="available: .*cpu") as error:
            load_translator(tiny_folder)
        assert error.value.code == "device" and isinstance(error.value, AtlasError)
    for bad in ("", 3, "gpu"):
        with pytest.raises(DeviceError):
            pick_device(bad)
