"""The model box: which models there are, how far a load is, and what the page has to know of a model.

Handlers first: plain functions that take what the page sent and return what the page shows, callable without a browser.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import gradio as gr

from model.catalogue import EMBEDDED, MAX_SOURCE, POPULAR, find_offered, offered_folders, preferred_target
from model.errors import ModelNotLoadedError, TooManyLoadsError
from viz.page import report_end, static_block
from viz.panels.choice import as_mapping
from viz.panels.notice import notice
from viz.panels.position_table import positions_about
from viz.runs import RunCache

if TYPE_CHECKING:
    from model.translator import Translator


# Calls of programs that hold a thread while a model is fetched; who comes after them is told so at once, and holds no place in the queue.
_WAITING = threading.BoundedSemaphore(4)
TARGETS_WITHOUT_MODEL = ("fra", "cmn")
# A few short sentences for each language that a model may read; for others the page offers none.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "en": (
        "I am a student.",
        "I love you.",
        "The cat sat on the mat because it was tired.",
        "We will not go to the beach tomorrow.",
    ),
    "ar": ("أنا طالب.", "الطقس جميل اليوم.", "لن نذهب إلى الشاطئ غدا."),
    "de": ("Ich bin Student.", "Ich liebe dich.", "Wir werden morgen nicht an den Strand gehen."),
    "es": ("Soy estudiante.", "Te quiero mucho.", "Mañana no iremos a la playa."),
    "fr": ("Je suis étudiant.", "Je t'aime.", "Nous n'irons pas à la plage demain."),
    "he": ("אני סטודנט.", "אני אוהב אותך.", "מחר לא נלך לחוף הים."),
    "hi": ("मैं एक छात्र हूँ।", "आज मौसम अच्छा है।"),
    "it": ("Sono uno studente.", "Ti amo.", "Domani non andremo in spiaggia."),
    "ja": ("私は学生です。", "明日は海に行きません。"),
    "ko": ("저는 학생입니다.", "내일은 바다에 가지 않을 거예요."),
    "nl": ("Ik ben student.", "Ik hou van je.", "Morgen gaan we niet naar het strand."),
    "ru": ("Я студент.", "Я тебя люблю.", "Завтра мы не пойдём на пляж."),
    "sv": ("Jag är student.", "Jag älskar dig.", "Vi går inte till stranden i morgon."),
    "tr": ("Ben öğrenciyim.", "Seni seviyorum.", "Yarın sahile gitmeyeceğiz."),
    "uk": ("Я студент.", "Я тебе кохаю.", "Завтра ми не підемо на пляж."),
    "vi": ("Tôi là sinh viên.", "Ngày mai chúng tôi sẽ không đi biển."),
    "zh": ("我是一名学生。", "我爱你。", "明天我们不去海边。"),
}
_SHORT = {"eng": "en", "jap": "ja"}


def model_info(translator: Translator | None, name: str = EMBEDDED.name) -> dict[str, Any]:
    """What the page knows of a model (static/models.js reads exactly these fields). Plain JSON values only.

    translator: None is an embedded model that cannot be loaded. name: by which the page asks for it.
    """
    if translator is None:
        targets, examples = list(TARGETS_WITHOUT_MODEL), list(EXAMPLES["en"])
        info = {"targets": targets, "target": targets[0], "sizes": None, "positions": None, "examples": examples}
        return {"name": name, "revision": None, "source": "eng", "warnings": [], **info}
    config, source = translator.config, translator.source_language
    return {
        "name": name,
        "revision": translator.revision,
        "source": source,
        "targets": list(translator.targets),
        "target": preferred_target(name, translator.targets),
        "sizes": {
            "layers": [config.encoder.num_layers, config.decoder.num_layers],
            "heads": [config.encoder.num_heads, config.decoder.num_heads],
            "d_model": config.d_model,
        },
        "warnings": [{"code": warning.code, "detail": warning.detail} for warning in translator.warnings],
        "positions": positions_about(config),
        "examples": list(EXAMPLES.get(_SHORT.get(source, source), ())),
    }


def asked_name(value: object) -> object:
    """What a visitor typed as a model: without spaces around it, and "opus-mt-..." means that of the usual owner, unless a folder is
    offered under this very name.
    """
    if not isinstance(value, str):
        return value
    name = value[: MAX_SOURCE + 1].strip()
    if name in offered_folders():
        return name
    return f"Helsinki-NLP/{name}" if name.startswith("opus-") and "/" not in name else name


# --- handlers ---


def load(runs: RunCache, store: object) -> dict[str, Any]:
    """How far the model is that the page wants; begins to load it if nobody has. Never waits: the page asks again.

    Returns `asked` (what the page sent, so that it knows which wish this answers), `stage` (see `model.pool.LoadState`), `name`, bytes
    `done` of `total`, and for "ready" the model's `info`, for "failed" the `problem`. An error changes nothing that is loaded.
    """
    wanted = as_mapping(as_mapping(store).get("wanted"))
    asked = wanted.get("name")
    name = asked_name(asked)
    known_as = name[:MAX_SOURCE] if isinstance(name, str) else ""
    answer = {"asked": asked if isinstance(asked, str) else None, "name": known_as, "done": 0, "total": 0, "at": time.time()}
    try:
        if name == EMBEDDED.name:
            return {**answer, "stage": "ready", "info": model_info(runs.translator)}
        find_offered(name)
        if runs.pool is None:
            raise ModelNotLoadedError(name)
        state = runs.pool.start(name, again=wanted.get("again") is True)
        if state.error is not None:
            raise state.error
    except Exception as error:
        return {**answer, "stage": "failed", "problem": notice(error)}
    answer |= {"stage": state.stage, "done": state.done, "total": state.total}
    return answer if state.translator is None else {**answer, "info": model_info(state.translator, name)}


def load_and_wait(runs: RunCache, model: str) -> dict[str, Any]:
    """The same for programs: returns when the model is there. Raises the typed errors of `model.errors`, among them TooManyLoadsError."""
    name = asked_name(model)
    if name == EMBEDDED.name:
        return model_info(runs.translator_of())
    find_offered(name)
    if runs.pool is None:
        raise ModelNotLoadedError(name)
    found = runs.pool.find(name)
    if found is not None:
        return model_info(found, name)
    if not _WAITING.acquire(blocking=False):
        raise TooManyLoadsError
    try:
        return model_info(runs.pool.get(name), name)
    finally:
        _WAITING.release()


# --- layout ---

_PANEL = """
<section class="models" id="models-panel" data-t-label="model.choose">
  <p class="faint" data-t="model.intro"></p>
  <div data-lists></div>
  <form data-form><label><span class="field-name" data-t="model.id"></span>
    <input type="text" data-id spellcheck="false" autocapitalize="none" autocomplete="off" placeholder="Helsinki-NLP/opus-mt-fi-sv"
      maxlength="300"></label>
    <button type="submit" class="quiet" data-t="model.load"></button></form>
  <div class="notice" role="alert" hidden data-problem></div>
  <p class="model-status" role="status" data-status></p>
  <div class="model-bar" aria-hidden="true" data-bar hidden><i></i></div>
</section>
"""


def offered() -> dict[str, Any]:
    """The models that the box lists."""
    return {
        "embedded": EMBEDDED.name,
        "folders": list(offered_folders()),
        "pairs": [{"source": pair.source, "target": pair.target, "name": pair.repo_id} for pair in POPULAR],
    }


def build(runs: RunCache, bridge: gr.HTML) -> None:
    """Lays the panel out inside the current Blocks and wires it. It is closed until the visitor opens it."""
    first = {"stage": "ready", "asked": None, "info": model_info(runs.translator)}
    box = static_block(_PANEL, "atlas.modelBox(element, props, watch)", "models", first, offered=offered())

    def on_load(store: dict) -> dict[str, Any]:
        return load(runs, store)

    event = bridge.load_model(
        on_load,
        [bridge],
        [box],
        show_progress="hidden",
        trigger_mode="always_last",
        concurrency_id="load",
        concurrency_limit=8,
        api_visibility="private",
    )
    report_end(event, "load_model")
