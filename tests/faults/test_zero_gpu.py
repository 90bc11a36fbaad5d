"""A ZeroGPU Space: what needs the model goes to a forked process and comes back, or is computed here; the page notices nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gradio as gr
import numpy as np
import pytest
import torch

import app
from model.device import pick_device
from model.errors import DeviceError, TextTooLongError
from model.pool import ModelPool
from model.tokenizer import Tokenizer
from model.translator import Translator
from tests import tiny
from tests.faults.zero_gpu import ZeroGpu, taken_away
from viz.lent_gpu import REST, LentGpu
from viz.panels import lab_values, machine, position_sentence, steps_answers, translate
from viz.runs import Request, RunCache

ROOT = Path(__file__).resolve().parents[2]
TEXT = "The cat sat on the mat."
STORE = {"lang": "en", "kind": "cross", "layer": 1, "head": 1, "rows": "predicted", "target": "fra", "model": "embedded"}


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    tokenizer = Tokenizer(tiny.train_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tokenizer.model"))
    return Translator(tiny.taught_model(tiny.tiny_config(tokenizer.vocab_size), tokenizer, steps=120), tokenizer, "tiny")


@pytest.fixture
def zero(monkeypatch: pytest.MonkeyPatch) -> Iterator[ZeroGpu]:
    stub = ZeroGpu()
    monkeypatch.setenv("SPACES_ZERO_GPU", "true")
    monkeypatch.setitem(sys.modules, "spaces", stub)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    yield stub
    stub.stop()


@pytest.fixture
def runs(zero: ZeroGpu, translator: Translator) -> RunCache:
    return RunCache(translator)


def same(ours: object, theirs: object) -> None:
    """Equal field by field, but for the seconds."""
    assert ours.translation == theirs.translation and ours.runner_ups == theirs.runner_ups
    for name in ("encoder_self_attention", "decoder_self_attention", "cross_attention"):
        np.testing.assert_array_equal(getattr(ours.trace, name), getattr(theirs.trace, name))
    for kind in ours.norms:
        np.testing.assert_array_equal(ours.norms[kind], theirs.norms[kind])


# --- where things are computed ---


def test_the_process_that_serves_takes_no_gpu_for_its_own(zero: ZeroGpu) -> None:
    assert pick_device() == torch.device("cpu")
    with pytest.raises(DeviceError, match="available: cpu"):
        pick_device("cuda")


def test_a_run_comes_from_the_forked_process_as_it_would_from_here(runs: RunCache, zero: ZeroGpu, translator: Translator) -> None:
    for request in (Request(TEXT, "fra"), Request(TEXT, "cmn", 2), Request(TEXT, "fra", given="Je t'aime.")):
        same(runs.get(request), RunCache._compute_run(plain_cache(translator), request))
    assert zero.seconds == [15]
    pids = {pid for _, pid in zero.answered}
    assert len(zero.answered) == 3 and len(pids) == 1 and os.getpid() not in pids  # one process for all calls


def plain_cache(translator: Translator) -> RunCache:
    """One that knows of no lent GPU."""
    cache = RunCache(None)
    cache.translator, cache._lent = translator, None
    return cache


def test_every_tab_works_through_it(runs: RunCache, zero: ZeroGpu) -> None:
    message, result, maps = translate.answer(runs, TEXT, "", STORE)
    assert message is None and maps
    store = {**STORE, "steps": {"row": 2, "without": "positions"}, "cell": {"stage": "scores", "index": 1, "key": None}}
    message, walk = steps_answers.steps(runs, result, store)
    assert message is None and isinstance(walk, str)
    assert steps_answers.cell(runs, result, {**store, "steps": {"row": 2, "without": ""}, "cell": {"stage": "q", "index": 0}})[0] is None
    for draw in (position_sentence.draw_lengths, position_sentence.draw_places, position_sentence.draw_head):
        assert draw(runs, result, store)[0] is None, draw.__name__
    assert machine.answer(runs, result, store)[0] is None
    for ask in (lab_values.masks, lab_values.serial, lab_values.scale):
        assert ask(runs, result, store)
    asked = [name for name, _ in zero.answered]
    expected = {"_make", "walk_steps", "_write", "input_lengths", "likeness", "position_scores", "ask_masks", "ask_serial", "ask_scale"}
    assert expected <= set(asked)
    assert len({pid for _, pid in zero.answered}) == 1


def test_a_model_that_came_after_the_fork_is_computed_here(zero: ZeroGpu, translator: Translator) -> None:
    other = Translator(translator.model, translator.tokenizer, "owner/other")
    runs = RunCache(translator, pool=ModelPool(lambda *_: other, 10**9))
    runs.get(Request(TEXT, "fra"))
    runs.pool.get("owner/other")
    same(runs.get(Request(TEXT, "fra", model="owner/other")), runs.get(Request(TEXT, "fra")))
    assert len(zero.answered) == 1
    assert runs.ask("owner/other", os_of) == os.getpid()
    assert runs.ask("embedded", os_of) != os.getpid()


def os_of(translator: Translator) -> int:
    return os.getpid()


def test_one_marked_function_inside_another_stays_where_it_is(zero: ZeroGpu, translator: Translator) -> None:
    lent = LentGpu(translator)
    assert lent.ask(nested) == lent.ask(os_of)


def nested(translator: Translator) -> int:
    return LentGpu(translator).ask(os_of)


# --- what goes wrong ---


def test_errors_keep_their_type_and_their_words(runs: RunCache, zero: ZeroGpu) -> None:
    with pytest.raises(TextTooLongError) as caught:
        runs.get(Request("word " * 100, "fra"))
    assert caught.value.params["limit"] == 64
    assert [name for name, _ in zero.answered] == ["_make"]  # and it was not computed twice
    message, *_ = translate.answer(runs, "word " * 100, "", STORE)
    assert message["code"] == "text_too_long"


def test_a_refused_gpu_turns_nobody_away(zero: ZeroGpu, translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    lent = LentGpu(translator, lambda: now[0])
    zero.refusal = "You have exceeded your ZeroGPU quota (15s requested vs. 3s left). Try again in 3:00:00."
    assert lent.ask(os_of) == os.getpid()
    assert "exceeded your ZeroGPU quota" in caplog.text and "the CPU computes" in caplog.text
    zero.refusal = None
    now[0] = REST - 1.0
    assert lent.ask(os_of) == os.getpid()  # it is not asked for at once
    now[0] = REST
    assert lent.ask(os_of) != os.getpid()


def test_a_gpu_that_is_taken_away_in_the_middle(zero: ZeroGpu, translator: Translator, caplog: pytest.LogCaptureFixture) -> None:
    lent = LentGpu(translator)
    here = os.getpid()
    assert lent.ask(dies_elsewhere, here) == "the CPU's answer"
    assert "GPU task aborted" in caplog.text


def dies_elsewhere(translator: Translator, here: int) -> str:
    if os.getpid() != here:
        taken_away()
    return "the CPU's answer"


def test_a_mistake_of_ours_is_still_one(zero: ZeroGpu, translator: Translator) -> None:
    with pytest.raises(ZeroDivisionError):
        LentGpu(translator).ask(wrong)


def wrong(translator: Translator) -> float:
    return 1 / 0


def test_the_app_starts_and_answers_there(zero: ZeroGpu, translator: Translator) -> None:
    demo = app.build_app(translator)
    names = {fn.api_name for fn in demo.fns.values()}
    assert {"translate", "attention"} <= names
    endpoint = next(fn for fn in demo.fns.values() if fn.api_name == "translate")
    assert endpoint.fn(TEXT, "fra")["text"]
    assert [name for name, _ in zero.answered] == ["_make"]
    with pytest.raises(gr.Error, match="does not translate into"):
        endpoint.fn(TEXT, "xx")


def test_without_the_variable_the_package_is_not_asked_for(monkeypatch: pytest.MonkeyPatch, translator: Translator) -> None:
    monkeypatch.delenv("SPACES_ZERO_GPU", raising=False)
    monkeypatch.setitem(sys.modules, "spaces", None)  # importing it would fail
    assert RunCache(translator).get(Request(TEXT, "fra")).translation.text


THREADS = """
import os, sys
os.environ["SPACES_ZERO_GPU"] = "true"
from tests.faults.zero_gpu import ZeroGpu
zero = sys.modules["spaces"] = ZeroGpu()
import torch
from model import load_translator
from viz.runs import Request, RunCache
translator = load_translator()
torch.randn(512, 512) @ torch.randn(512, 512)  # both threads are there before the fork
translator.translate("Both threads compute this long enough.", "fra")
run = RunCache(translator).get(Request("I am a student.", "fra"))
assert run.translation == translator.translate_and_examine("I am a student.", "fra")[0]
print(len(zero.answered), torch.get_num_threads(), "torch._dynamo" in sys.modules)
zero.stop()
"""


def test_the_embedded_model_after_many_threads_have_computed() -> None:
    """None of them is there after the fork: a process that waited for them would never answer. (And torch's compiler, which takes longer to
    load than all the rest of the model, is not asked for.)"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", THREADS], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "1 2 False", done.stderr
