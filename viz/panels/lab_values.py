"""What the experiments of the Machine tab show, as plain values for the page and figures: computed here, laid out in `machine_lab`.

Every function takes what the page sent and raises typed errors; `machine_lab.answer` puts them into words.
"""

# B batch, S src_len, T tgt_len, H heads

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from model.analysis.attention_cost import head_count, layers_of, offered_heads, weight_bytes
from model.analysis.batch_masks import BatchMasks, batch_masks
from model.analysis.generation_cost import WAYS, GenerationCost, generation_cost
from model.analysis.norm_gradients import MAX_DEPTH, SEEDS, WIDTH, norm_gradients
from model.analysis.score_scale import MEASURES, ScoreScale, head_score_scale, random_score_scale
from model.catalogue import EMBEDDED
from model.errors import AtlasError, InvalidSettingError
from viz.components import view_value
from viz.figures.labels import token_labels
from viz.figures.machine_lab import (
    GradientTexts,
    MemoryTexts,
    ScaleTexts,
    gradient_lanes,
    memory_lanes,
    score_scale_lanes,
)
from viz.panels.choice import KINDS, as_mapping, language_of, one_of, whole_number
from viz.panels.map_view import label_texts
from viz.panels.position_choice import NoWeightsError
from viz.runs import Request, Run, RunCache
from viz.text import say

if TYPE_CHECKING:
    from model.config import TransformerConfig
    from model.transformer import Transformer
    from model.translator import AttentionTrace, Translation, Translator

MAX_MASK_TOKENS = 40
MAX_SECOND = 400  # characters
MAX_KEY = 100  # characters
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
MIN_KEYS = 2


class MasksTooLongError(AtlasError):
    """The masks would be too large to read."""

    code = "masks_too_long"

    def __init__(self, num_tokens: int) -> None:
        message = f"Masks are drawn for up to {MAX_MASK_TOKENS} tokens; there are {num_tokens}."
        super().__init__(message, num_tokens=num_tokens, limit=MAX_MASK_TOKENS)


class SecondTooLongError(MasksTooLongError):
    """The same of the second sentence of the batch."""

    code = "second_too_long"


def weights_of(translator: Translator) -> Transformer:
    """Raises NoWeightsError."""
    model = getattr(translator, "model", None)
    if model is None:
        raise NoWeightsError()
    return model


# --- what is asked of a model, by way of `RunCache.ask` ---


def ask_masks(translator: Translator, translations: list[Translation], traces: list[AttentionTrace]) -> BatchMasks:
    return batch_masks(weights_of(translator), translations, traces)


def ask_serial(translator: Translator, translation: Translation, trace: AttentionTrace) -> GenerationCost:
    return generation_cost(weights_of(translator), translation, trace)


def ask_scale(translator: Translator, translation: Translation, kind: str, layer: int) -> ScoreScale | None:
    return head_score_scale(weights_of(translator), translation, kind, layer)


# --- what a page asks ---


@dataclass(frozen=True)
class Asked:
    """What a page asks for, checked: its language, what it remembers the question by, its choices, and the model's name with its config."""

    language: str
    key: str
    store: Mapping[str, object]
    lab: Mapping[str, object]
    name: object
    config: TransformerConfig

    @classmethod
    def of(cls, runs: RunCache, store: object, experiment: str) -> Asked:
        """Raises ModelNotLoadedError and its like."""
        key, store = asked_key(store, experiment), as_mapping(store)
        name = store.get("model", EMBEDDED.name)
        return cls(language_of(store), key, store, as_mapping(store.get("lab")), name, runs.translator_of(name).config)

    def run(self, runs: RunCache, shown: object) -> Run:
        """The run that the page shows. Raises InvalidSettingError if it is of another model, and the errors of a run."""
        request = Request.from_page(as_mapping(shown).get("request"))
        if request.model != self.name:
            raise InvalidSettingError("model", request.model, "the model of the sentence on the page")
        return runs.get(request)


def asked_key(store: object, name: str) -> str:
    """What the page remembers its question by; it comes back with the answer."""
    key = as_mapping(as_mapping(as_mapping(store).get("lab")).get("keys")).get(name)
    return key if isinstance(key, str) and len(key) <= MAX_KEY else ""


def masks(runs: RunCache, shown: object, store: object) -> dict[str, Any]:
    """Three masks of a batch of the sentence on the page and a second one, if there is one.

    {"sentences": [{"text", "translation", "source", "target": labels, "src_len", "tgt_len"}],
     "masks": {kind: [per sentence: [per row: one character a column, "0" or "x" for -inf]]}, "shapes", "leak", "difference"}
    """
    asked = Asked.of(runs, store, "masks")
    pair = [asked.run(runs, shown)]
    second = asked.lab.get("second", "")
    if not isinstance(second, str) or len(second) > MAX_SECOND:
        raise InvalidSettingError("second", second, f"text of at most {MAX_SECOND} characters")
    if second.strip():
        first = pair[0].request
        pair.append(runs.get(Request(second, first.target, first.beam_size, model=first.model)))
    translations = [run.translation for run in pair]
    for each, too_long in zip(translations, (MasksTooLongError, SecondTooLongError), strict=False):
        longest = max(len(each.src_ids), len(each.tgt_ids))
        if longest > MAX_MASK_TOKENS:
            raise too_long(longest)
    found = runs.ask(asked.name, ask_masks, translations, [run.trace for run in pair])
    src_len, tgt_len = found.encoder_self.shape[1], found.decoder_self.shape[1]
    labels = label_texts(asked.language)

    def named(tokens: tuple[str, ...], length: int) -> list[dict[str, Any]]:
        padded = (*tokens, *["<pad>"] * (length - len(tokens)))
        return [{"text": label.text, "special": label.special} for label in token_labels(padded, labels)]

    return {
        "key": asked.key,
        "sentences": [
            {
                "text": each.source_text,
                "translation": each.text,
                "source": named(each.src_tokens, src_len),
                "target": named(each.tgt_in_tokens, tgt_len),
                "src_len": len(each.src_ids),
                "tgt_len": len(each.tgt_ids),
            }
            for each in translations
        ],
        "masks": {kind: [_marks(mask) for mask in getattr(found, kind)] for kind in KINDS},
        "shapes": {kind: list(found.shapes[kind]) for kind in KINDS},
        "leak": found.leak,
        "difference": found.difference,
    }


def _marks(mask: np.ndarray) -> list[str]:
    return ["".join("x" if np.isneginf(cell) else "0" for cell in row) for row in mask]


def serial(runs: RunCache, shown: object, store: object) -> dict[str, Any]:
    """Training's pass against generation, on the translation that the page shows.

    {"tgt_len", "whole": tokens of the whole translation, "src_len", "reads", "writes": labels,
     "ways": {way: {"operations": [per step], "seconds": [least, median, most], "repeats"}}, "difference": {way: [per step]}}
    """
    asked = Asked.of(runs, store, "serial")
    run = asked.run(runs, shown)
    found = runs.ask(asked.name, ask_serial, run.translation, run.trace)
    labels = label_texts(asked.language)
    return {
        "key": asked.key,
        "tgt_len": found.tgt_len,
        "whole": len(run.translation.tgt_ids),
        "src_len": found.src_len,
        "reads": [label.text for label in token_labels(run.translation.tgt_in_tokens[: found.tgt_len], labels)],
        "writes": [label.text for label in token_labels(run.translation.tgt_out_tokens[: found.tgt_len], labels)],
        "ways": {
            way: {
                "operations": list(found.operations[way]),
                "seconds": [min(found.seconds[way]), median(found.seconds[way]), max(found.seconds[way])],
                "repeats": len(found.seconds[way]),
            }
            for way in WAYS
        },
        "difference": {way: [float(value) for value in each] for way, each in found.difference.items()},
    }


def norms(runs: RunCache, store: object) -> tuple[dict[str, Any], str]:
    """{"layers": [encoder, decoder], "own": those of the model, "seeds", "width", "growth": {"encoder" | "decoder":
    {"post" | "pre": last layer / first}}}, and the figure. Small modules of this depth, at random; the loaded weights have no part in it.
    """
    asked = Asked.of(runs, store, "norms")
    config = weights_of(runs.translator_of(asked.name)).config
    own = [min(stack.num_layers, MAX_DEPTH) for stack in (config.encoder, config.decoder)]
    depth = asked.lab.get("depth")
    layers = own if depth is None else [whole_number("depth", depth, 1, MAX_DEPTH)] * 2
    found = norm_gradients(*layers, activation=config.activation)
    language = asked.language
    names = {name: say(language, f"lab.norms.{name}") for name in ("post", "pre", "encoder", "decoder", "layer")}
    figure = gradient_lanes(found.encoder, found.decoder, texts=GradientTexts(**names))
    means = {name: {norm: each.mean(axis=0) for norm, each in getattr(found, name).items()} for name in ("encoder", "decoder")}
    growth = {name: {norm: float(mean[-1] / mean[0]) for norm, mean in each.items()} for name, each in means.items()}
    value = {"key": asked.key, "layers": layers, "own": own, "norm": config.norm, "seeds": len(SEEDS), "width": WIDTH, "growth": growth}
    post, pre = (_two_digits(growth["decoder"][norm]) for norm in ("post", "pre"))
    alt = say(language, "lab.norms.alt", post=post, pre=pre, encoder=_two_digits(growth["encoder"]["post"]), layers=layers[1])
    return value, view_value({language: figure}, {language: alt})


def _two_digits(value: float) -> str:
    """Two significant digits, never as a power of ten: 260, 0.58."""
    return f"{float(f'{value:.2g}'):,.10g}"


def scale(runs: RunCache, shown: object, store: object) -> tuple[dict[str, Any], str]:
    """Random vectors of many widths, and the heads of the chosen layer on the sentence of the page.

    {"kind", "layer", "head", "heads", "head_dim", "keys": of the random rows, "divided", "plain": {measure: [per head]} or null}, figure.
    """
    asked = Asked.of(runs, store, "scale")
    run = asked.run(runs, shown)
    kind = one_of("kind", asked.store.get("kind", "cross"), KINDS)
    stack = asked.config.encoder if kind == "encoder_self" else asked.config.decoder
    layer, head = (_last_at_most(asked.store.get(name), count) for name, count in (("layer", stack.num_layers), ("head", stack.num_heads)))
    layer = stack.num_layers - 1 if layer is None else layer
    keys = max(MIN_KEYS, len(run.translation.tgt_ids if kind == "decoder_self" else run.translation.src_ids))
    random = random_score_scale(WIDTHS, keys)
    found = runs.ask(asked.name, ask_scale, run.translation, kind, layer)
    head_dim = asked.config.d_model // stack.num_heads
    language = asked.language
    texts = ScaleTexts(
        plain=say(language, "lab.scale.plain"),
        divided=say(language, "lab.scale.divided"),
        measures={name: say(language, f"lab.scale.{name}") for name in MEASURES},
        width=say(language, "lab.scale.width"),
    )
    figure = score_scale_lanes(
        WIDTHS,
        random.plain,
        random.divided,
        None if found is None else (found.plain, found.divided),
        head_dim=head_dim,
        chosen=head,
        head_names=[f"L{layer} H{h}" for h in range(stack.num_heads)],
        texts=texts,
    )
    sides = {side: None if found is None else _lists(getattr(found, side)) for side in ("divided", "plain")}
    value = {
        "key": asked.key, "kind": kind, "layer": layer, "head": head, "heads": stack.num_heads, "head_dim": head_dim, "keys": keys, **sides,
    }
    plain, divided = (f"{side['largest'][-1]:.2f}" for side in (random.plain, random.divided))
    alt = say(language, "lab.scale.alt", width=WIDTHS[-1], plain=plain, divided=divided)
    return value, view_value({language: figure}, {language: alt})


def _lists(arrays: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    return {name: [float(value) for value in each] for name, each in arrays.items()}


def _last_at_most(value: object, count: int) -> int | None:
    """An index below `count`; the last one for one beyond, as the page does with another model's; None for a word or nothing."""
    if value is None or isinstance(value, str):
        return None
    return min(whole_number("index", value, 0, 2**31), count - 1)


def counts(runs: RunCache, shown: object, store: object) -> tuple[dict[str, Any], str]:
    """Heads against one head, and memory of the weights by length, from sizes alone.

    {"kind", "queries", "keys", "d_model", "own", "heads": [HeadCount as a mapping], "max_len",
     "bytes": {kind: {"layers", "heads", "here": bytes of a layer for this sentence, "far": for max_len on both sides}}}, figure.
    """
    asked = Asked.of(runs, store, "counts")
    config, run = weights_of(runs.translator_of(asked.name)).config, asked.run(runs, shown)
    kind = one_of("kind", asked.store.get("kind", "cross"), KINDS)
    src_len, tgt_len = len(run.translation.src_ids), len(run.translation.tgt_ids)
    queries, keys = (src_len if kind == "encoder_self" else tgt_len), (tgt_len if kind == "decoder_self" else src_len)
    own = (config.encoder if kind == "encoder_self" else config.decoder).num_heads
    found = [vars(head_count(config.d_model, heads, queries, keys)) for heads in offered_heads(config.d_model, own)]
    language, most = asked.language, config.max_len
    lengths = sorted({*np.linspace(1, most, 65).round().astype(int).tolist()})
    curves = {each: [layers_of(config, each) * weight_bytes(config, each, n, n) for n in lengths] for each in KINDS}
    names = {name: say(language, f"lab.memory.{name}") for name in ("bytes", "steps", "recurrent", "attention", "length", "mega")}
    texts = MemoryTexts(kinds={each: say(language, f"kind.{each}.short") for each in KINDS}, **names)
    figure = memory_lanes(lengths, curves, here=max(src_len, tgt_len), texts=texts)
    total = sum(curve[-1] for curve in curves.values())
    alt = say(language, "lab.memory.alt", length=most, total=f"{total / 1e6:,.0f}")
    value = {
        "key": asked.key,
        "kind": kind,
        "queries": queries,
        "keys": keys,
        "d_model": config.d_model,
        "own": own,
        "heads": found,
        "src_len": src_len,
        "tgt_len": tgt_len,
        "max_len": most,
        "bytes": {
            each: {
                "layers": layers_of(config, each),
                "here": weight_bytes(config, each, src_len, tgt_len),
                "far": weight_bytes(config, each, most, most),
            }
            for each in KINDS
        },
    }
    return value, view_value({language: figure}, {language: alt})
