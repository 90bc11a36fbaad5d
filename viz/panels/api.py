"""The same functions for programs: documented endpoints that return plain JSON values, for `gradio_client` and for MCP."""

from __future__ import annotations

import re
from typing import Any

import gradio as gr

from model.catalogue import EMBEDDED, preferred_target
from model.errors import AtlasError
from viz.panels.choice import MapChoice
from viz.panels.map_view import map_view
from viz.panels.models import asked_name, load_and_wait
from viz.runs import Request, Run, RunCache
from viz.text import error_text


def _run(runs: RunCache, text: str, target: str, beam_size: int, translation: str | None, model: str) -> Run:
    name = asked_name(model)
    if target == "" and isinstance(name, str):  # the model's own: "fra" is no target of most
        target = preferred_target(name, runs.translator_of(name).targets)
    return runs.get(Request(text, target, beam_size, translation or None, model=name))


def translate(
    runs: RunCache,
    text: str,
    target: str = "",
    beam_size: int = 4,
    translation: str | None = None,
    model: str = EMBEDDED.name,
) -> dict[str, Any]:
    """The translation of `text` with its tokens and log-probabilities. Raises the typed errors of `model.errors`."""
    run = _run(runs, text, target, beam_size, translation, model)
    found = run.translation
    return {
        "text": found.text,
        "target": found.target,
        "src_tokens": list(found.src_tokens),
        "tgt_in_tokens": list(found.tgt_in_tokens),
        "tgt_out_tokens": list(found.tgt_out_tokens),
        "token_log_probs": list(found.token_log_probs),
        "score": found.score,
        "finished": found.finished,
        "forced": found.forced,
        "seconds": run.seconds,
    }


def attention(
    runs: RunCache,
    text: str,
    target: str = "",
    beam_size: int = 4,
    kind: str = "cross",
    layer: int = 0,
    head: int | str = "mean",
    translation: str | None = None,
    model: str = EMBEDDED.name,
    rows: str = "predicted",
    units: str = "pieces",
    specials: str = "shown",
) -> dict[str, Any]:
    """One attention map of the translation of `text`: weights[query][key] with the tokens (or whole words) of both sides, and the mean
    weight of a row on what is hidden. Raises the typed errors of `model.errors`."""
    run = _run(runs, text, target, beam_size, translation, model)
    if isinstance(head, str) and re.fullmatch("[0-9]{1,4}", head):  # isdigit() also takes "²", which is no number
        head = int(head)
    choice = MapChoice.checked(run.trace, kind, layer, head, rows, units, specials)
    view = map_view(run, choice)
    return {
        "kind": choice.kind,
        "layer": choice.layer,
        "head": choice.head,
        "query_tokens": [unit.label.raw for unit in view.rows],
        "key_tokens": [unit.label.raw for unit in view.columns],
        "weights": view.weights.tolist(),
        "hidden": view.hidden,
    }


def build(runs: RunCache) -> None:
    """Registers the endpoints inside the current Blocks. Errors reach a client as one sentence, without a stack trace."""

    def load_endpoint(model: str) -> dict[str, Any]:
        """Load a model, and say what it translates into. The first time this downloads it, which may take minutes.

        Parameters:
            model: id of an OPUS-MT model, such as Helsinki-NLP/opus-mt-en-de.
        """
        return _told(load_and_wait, runs, model)

    def translate_endpoint(
        text: str, target: str = "", beam_size: int = 4, translation: str = "", model: str = EMBEDDED.name
    ) -> dict[str, Any]:
        """Translate a sentence.

        Parameters:
            text: the sentence, in the language that the model reads (the embedded one reads English).
            target: code of the language to translate into, such as fra or cmn; empty is the model's own or first.
            beam_size: how many unfinished translations are kept while decoding, 1 (greedy) to 8.
            translation: leave empty to let the model translate; a given translation is scored by the model instead.
            model: "embedded", or a model that was loaded before.
        """
        return _told(translate, runs, text, target, beam_size, translation, model)

    def attention_endpoint(
        text: str,
        target: str = "",
        beam_size: int = 4,
        kind: str = "cross",
        layer: int = 0,
        head: str = "mean",
        translation: str = "",
        model: str = EMBEDDED.name,
        rows: str = "predicted",
        units: str = "pieces",
        specials: str = "shown",
    ) -> dict[str, Any]:
        """One attention map of a translation, as weights[query][key] with the tokens of both sides.

        Parameters:
            text: the sentence, in the language that the model reads (the embedded one reads English).
            target: code of the language to translate into, such as fra or cmn; empty is the model's own or first.
            beam_size: how many unfinished translations are kept while decoding, 1 (greedy) to 8.
            kind: encoder_self, decoder_self or cross.
            layer: layer, counted from 0.
            head: a head, counted from 0, or for all heads of the layer together mean, max, rollout (of all layers up to this one) or norm
                (weighted by the length of what each token adds).
            translation: leave empty to let the model translate; for a given translation, its maps are returned.
            model: "embedded", or a model that was loaded before.
            rows: name the rows of a decoder or cross map by the token that is predicted or read.
            units: pieces, or words (columns of a word's pieces summed, rows averaged).
            specials: shown, or hidden to leave out start, end and language tokens; "hidden" in the answer is the weight that lay on them.
        """
        return _told(attention, runs, text, target, beam_size, kind, layer, head, translation, model, rows, units, specials)

    # Never queued: these calls wait for a whole download, and `load_and_wait` itself turns away those that are too many.
    gr.api(load_endpoint, api_name="load_model", concurrency_id="load_and_wait", concurrency_limit=None)
    gr.api(translate_endpoint, api_name="translate", concurrency_id="model", concurrency_limit=1)
    gr.api(attention_endpoint, api_name="attention", concurrency_id="model", concurrency_limit=1)


def _told(fn: Any, *args: Any) -> dict[str, Any]:
    try:
        return fn(*args)
    except AtlasError as error:
        variant = ".other" if fn is load_and_wait else ""
        raise gr.Error(error_text("en", error.code, error.params, variant), print_exception=False) from None
