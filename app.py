"""Attention Atlas: starts the page. `python app.py`, then open the address it prints; PORT picks another port than 7860."""

from __future__ import annotations

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # before Gradio is imported: it asks once
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# Gradio else keeps ten thousand past requests and sums them up anew after each, for a page of statistics that is off here.
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "1")
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", str(10**12))
# The server would else take this machine's own programs for proxies: viz/limits.py alone reads whose request it is.
os.environ["FORWARDED_ALLOW_IPS"] = ""
# Before torch is imported: threads that spin while they wait take the cores from everything else on a small machine.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if __name__ == "__main__":
    from viz import startup

    startup.prepare()
    startup.limit_threads()
if os.environ.get("SPACES_ZERO_GPU"):
    import spaces  # noqa: F401  # a Space with a GPU to lend wants it before torch

import warnings
from pathlib import Path

import gradio as gr

import model
from model.analysis.profile import read_profile
from model.best_heads import read_best_heads
from model.errors import AtlasError
from model.loading import load_offered
from model.pool import ModelPool
from model.recording import is_of, load_examination
from model.translator import Translator
from viz import limits, page, sessions, waiting
from viz.panels import api, heads, machine, positions, share, steps, translate
from viz.runs import MAX_CACHE_BYTES, Request, Run, RunCache
from viz.serve import serve
from viz.text import say

# Gradio takes data that quotes a visitor's "<script>" for markup of ours, and says so in the log.
warnings.filterwarnings("ignore", message="A `<script>` tag was found")

EXAMPLE = Path(model.__file__).parent / "weights" / "example.npz"


def recorded_run(path: Path = EXAMPLE, translator: Translator | None = None) -> Run | None:
    """The worked example that the page opens with; None if there is none that can be read (the page then opens without a picture).

    translator: the model that should have made it. If it did not, somebody replaced its weights alone: then what was measured on the former
    ones is left out too.
    """
    try:
        translation, examination = load_examination(path)
    except AtlasError as error:
        print(f"No recorded example: {error}")
        return None
    if translator is not None and not is_of(translator, translation, examination.trace):
        print(f"{path.name} and what was measured of the heads belong to other weights than those that are here, and are left out.")
        translator.best_heads, translator.profile = {}, None
        return None
    request = Request(translation.source_text, translation.target, recorded=True)
    return Run.of(request, translation, examination, best_heads=read_best_heads(path.parent), profile=read_profile(path.parent))


def build_app(
    translator: Translator | None,
    recorded: Run | None = None,
    problem: AtlasError | None = None,
    max_cache_bytes: int = MAX_CACHE_BYTES,
    pool: ModelPool | None = None,
) -> gr.Blocks:
    """The whole page as Gradio Blocks; start it with `launch(**page.launch_options())`.

    translator: the embedded model, or None. problem: why there is none; the page says so and shows what is recorded.
    max_cache_bytes: how many bytes of attention maps are kept for all visitors together.
    pool: where all other models are loaded; None makes one as the environment says.
    """
    waits = waiting.waiting_for(translate.asked_by)
    runs = RunCache(translator, recorded, problem, max_cache_bytes, pool or ModelPool(load_offered), waits)
    with gr.Blocks(title=say("en", "page.title"), analytics_enabled=False, delete_cache=(3600, 3600)) as demo:
        bridge = page.bridge()
        page.header()
        with gr.Tabs(elem_id="tabs"):
            with gr.Tab(say("en", "tab.translate"), id="translate", elem_id="tab-translate"):
                result = translate.build(runs, bridge)
            with gr.Tab(say("en", "tab.heads"), id="heads", elem_id="tab-heads"):
                heads.build()
            with gr.Tab(say("en", "tab.steps"), id="steps", elem_id="tab-steps"):
                steps.build(runs, bridge, result)
            with gr.Tab(say("en", "tab.positions"), id="positions", elem_id="tab-positions"):
                positions.build(runs, bridge, result)
            with gr.Tab(say("en", "tab.machine"), id="machine", elem_id="tab-machine"):
                machine.build(runs, bridge, result)
        share.build(runs, bridge, result)
        page.footer()
        api.build(runs)
    queued = demo.queue(max_size=limits.QUEUE, default_concurrency_limit=1, api_open=False)
    return sessions.bounded(queued, at_hand=lambda event: runs.holds(translate.asked_by(event)))


def main() -> None:
    """Loads the embedded model once and serves the page. A model that cannot be loaded is reported on the page."""
    problem = None
    try:
        translator = model.load_translator()
    except AtlasError as error:
        translator, problem = None, error
        print(f"The page starts without a model. {error}")
    options = page.launch_options()
    try:
        pool = ModelPool(load_offered)
    except AtlasError as error:  # ATLAS_MODEL_MEMORY is no size
        raise SystemExit(str(error)) from None
    serve(build_app(translator, recorded_run(translator=translator), problem, pool=pool), options)


if __name__ == "__main__":
    main()
