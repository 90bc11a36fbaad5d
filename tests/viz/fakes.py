"""A translator without weights: real dataclasses, real arrays, every weight different, encoder and decoder of different sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from model.analysis.profile import HeadProfile
from model.config import StackSizes
from model.errors import EmptyTextError, TextTooLongError, UnknownRepositoryError, UnknownTargetError, UnusableTextError
from model.marian.weights import LoadWarning
from model.results import NORM_KINDS, AttentionTrace, Examination, RunnerUps, Translation
from viz.runs import NoModelError, Request, Run

ENCODER = (3, 4)  # layers, heads
DECODER = (2, 3)
D_MODEL = 64
MAX_LEN = 128

KNOWN = {
    ("I am a student.", "fra"): "▁Je ▁suis ▁étudiant .",
    ("I love you.", "fra"): "▁Je ▁t ' aime .",
    ("I love you.", "cmn"): "我 爱 你 。",
    ("The cat sat on the mat because it was tired.", "fra"): "▁Le ▁chat ▁était ▁assis ▁sur ▁le ▁tapis ▁parce ▁qu ' il ▁était ▁fatigué .",
}


def pieces(text: str) -> tuple[str, ...]:
    """A crude stand-in for SentencePiece: one piece per word, the last punctuation apart."""
    found: list[str] = []
    for word in text.split():
        core = word.rstrip(".,!?。")
        found += ["▁" + core] if core else []
        found += list(word[len(core) :])
    return tuple(found)


def weights(layers: int, heads: int, queries: int, keys: int, seed: int, causal: bool = False) -> np.ndarray:
    """Softmax rows around a tilted diagonal, float32 [layer, head, query, key]; no two cells alike, so swapped axes are seen."""
    generator = np.random.default_rng(seed)
    q, k = np.mgrid[0:queries, 0:keys]
    along = -3.0 * np.abs(k / max(1, keys - 1) - q / max(1, queries - 1)) * (1 + np.arange(heads))[None, :, None, None]
    scores = along + generator.normal(0, 0.8, (layers, heads, queries, keys))
    if causal:
        scores = np.where(k > q, -np.inf, scores)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (scores / scores.sum(axis=-1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True)
class FakeConfig:
    d_model: int = D_MODEL
    max_len: int = MAX_LEN
    position_layout: str = "interleaved"
    encoder: StackSizes = StackSizes(*ENCODER, d_ff=128, vocab_size=100)
    decoder: StackSizes = StackSizes(*DECODER, d_ff=128, vocab_size=100)
    norm: str = "pre"
    tie_embeddings: bool = True
    tie_output: bool = False
    output_bias: bool = False


class FakeTranslator:
    """Answers like `model.translator.Translator`. `calls` counts passes of the "model"."""

    targets = ("fra", "cmn")
    config = FakeConfig()
    device = "cpu"
    name = "fake"
    revision: str | None = None
    source_language: str | None = "eng"
    num_bytes = memory_bytes = 1000
    warnings: tuple[LoadWarning, ...] = ()
    best_heads: dict[str, tuple[int, int]] = {}
    profile: HeadProfile | None = None
    known = KNOWN

    def __init__(self) -> None:
        self.calls = 0

    def translate(self, text: str, target: str = "fra", beam_size: int = 4) -> Translation:
        del beam_size
        self.calls += 1
        source = self._source(text, target)
        known = self.known.get((text, target))
        if known:
            out = tuple(known.split())
        else:
            out = tuple(token.swapcase() for token in source[1:-1])
        return self._translation(text, target, source, out, forced=False)

    def translate_and_examine(
        self, text: str, target: str = "fra", beam_size: int = 4, still_wanted: Callable[[], bool] | None = None
    ) -> tuple[Translation, Examination]:
        del still_wanted
        translation = self.translate(text, target, beam_size)
        return translation, self.examine(translation)

    def force(self, text: str, translation: str, target: str = "fra") -> Translation:
        self.calls += 1
        source, out = self._source(text, target), pieces(translation)
        if len(out) >= MAX_LEN:
            raise TextTooLongError(len(out) + 1, MAX_LEN)
        return self._translation(text, target, source, out, forced=True)

    def trace(self, translation: Translation) -> AttentionTrace:
        s, t = len(translation.src_tokens), len(translation.tgt_out_tokens)
        seed = sum(map(ord, translation.text)) + s
        return AttentionTrace(
            weights(*self._sizes("encoder"), s, s, seed),
            weights(*self._sizes("decoder"), t, t, seed + 1, causal=True),
            weights(*self._sizes("decoder"), t, s, seed + 2),
            translation.src_tokens,
            translation.tgt_in_tokens,
            translation.tgt_out_tokens,
        )

    def examine(self, translation: Translation) -> Examination:
        """The trace; norms that are no mean of it, with repeated tokens and all; every third token was only the second likeliest."""
        trace = self.trace(translation)
        s, t = len(trace.src_tokens), len(trace.tgt_out_tokens)
        seed = sum(map(ord, translation.text)) + s + 3
        sizes = (("encoder", s, s, False), ("decoder", t, t, True), ("decoder", t, s, False))
        norms = {
            kind: weights(self._sizes(side)[0], 1, queries, keys, seed + i, causal)[:, 0]
            for i, (kind, (side, queries, keys, causal)) in enumerate(zip(NORM_KINDS, sizes, strict=True))
        }
        probabilities = [math.exp(log_prob) for log_prob in translation.token_log_probs]
        runner_ups = tuple(
            RunnerUps(1 + (i % 3 == 2), tuple((f"▁other{i}{j}", (1 - p) / 2 ** (j + 1)) for j in range(5)))
            for i, p in enumerate(probabilities)
        )
        return Examination(trace, norms, runner_ups)

    def walk(self, translation: Translation, *place: object) -> NoReturn:
        """There is nothing to compute with: as if there were no model."""
        raise NoModelError

    def without(self, part: str) -> NoReturn:
        raise NoModelError

    def cell(self, translation: Translation, *place: object) -> NoReturn:
        raise NoModelError

    def positional_encoding(self, length: int) -> np.ndarray:
        d_model = self.config.d_model
        angle = np.arange(length)[:, None] / 10000 ** (np.arange(0, d_model, 2) / d_model)
        if self.config.position_layout == "halves":
            return np.concatenate([np.sin(angle), np.cos(angle)], axis=-1).astype(np.float32)
        return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model).astype(np.float32)

    def _sizes(self, side: str) -> tuple[int, int]:
        stack = getattr(self.config, side)
        return stack.num_layers, stack.num_heads

    def _source(self, text: str, target: str) -> tuple[str, ...]:
        if target not in self.targets:
            raise UnknownTargetError(target, self.targets)
        if not text.strip():
            raise EmptyTextError
        if not any(char.isprintable() and not char.isspace() for char in text):
            raise UnusableTextError
        source = (f">>{target}<<", *pieces(text), "</s>")
        if len(source) > MAX_LEN:
            raise TextTooLongError(len(source), MAX_LEN)
        return source

    def _translation(self, text: str, target: str, source: tuple[str, ...], out: tuple[str, ...], forced: bool) -> Translation:
        tgt_out = (*out, "</s>")
        log_probs = tuple(-0.02 - 0.9 * ((7 * i) % 5 == 3) - 0.11 * (i % 3) for i in range(len(tgt_out)))
        return Translation(
            source_text=text,
            target=target,
            text="".join(out).replace("▁", " ").strip(),
            src_ids=tuple(range(4, 4 + len(source))),
            tgt_ids=(*range(40, 40 + len(out)), 2),
            src_tokens=source,
            tgt_in_tokens=("<s>", *out),
            tgt_out_tokens=tgt_out,
            token_log_probs=log_probs,
            score=sum(log_probs) / len(log_probs),
            forced=forced,
            finished=True,
        )


ARABIC = "Helsinki-NLP/opus-mt-en-ar"
ROMANCE = "Helsinki-NLP/opus-mt-en-ROMANCE"
GERMAN = "Helsinki-NLP/opus-mt-de-en"


class OtherTranslator(FakeTranslator):
    """A model like those of the hub: other sizes, more in the decoder than in the encoder, halves layout, a commit."""

    config = FakeConfig(
        48, 64, "halves", StackSizes(1, 2, d_ff=64, vocab_size=90), StackSizes(4, 6, d_ff=64, vocab_size=90)
    )
    known = {("I am a student.", "ara"): "▁أنا ▁طالب .", ("I love you.", "ara"): "▁أنا ▁أحبك ."}

    def __init__(self, name: str, targets: tuple[str, ...], source_language: str = "en") -> None:
        super().__init__()
        self.name, self.targets, self.source_language, self.revision = name, targets, source_language, "5e1f" * 10
        self.warnings = (LoadWarning("not_applied", "min_length"),)


def shelf(name: str, revision: str | None = None, progress: object = None, max_bytes: int | None = None) -> OtherTranslator:
    """A loader for `model.pool.ModelPool` that knows three models."""
    del revision, max_bytes
    if callable(progress):
        progress(150 * 10**6, 300 * 10**6)
    languages = {ARABIC: (("ara",), "en"), GERMAN: (("en",), "de"), ROMANCE: (("fr", "es", "it", "pt", "ro", "ca", "gl", "oc"), "en")}
    if name not in languages:
        raise UnknownRepositoryError(name)
    return OtherTranslator(name, *languages[name])


def recorded_run(translator: FakeTranslator) -> Run:
    """The run a page opens with."""
    translation = translator.translate("I am a student.")
    request = Request(translation.source_text, translation.target, recorded=True)
    return Run.of(request, translation, translator.examine(translation), best_heads=translator.best_heads, profile=translator.profile)


TWICE = "the cat saw the other cat and the cat ran"  # repeated words: a map that goes by their names would mix them up


class Scripts(FakeTranslator):
    """Pieces and scripts that are easily drawn wrong."""

    targets = ("fra", "ara", "jpn", "hin")
    known = {
        ("I am a student.", "fra"): "▁Je ▁suis ▁étudiant .",
        (TWICE, "fra"): "▁le ▁ch at ▁a ▁vu ▁le ▁ch at ▁et ▁a ▁couru .",
        ("I am a student.", "ara"): "▁أنا ▁طال ب .",
        ("I am a student.", "jpn"): "▁ 私 は 学生 です 。",
        ("I am a student.", "hin"): "▁मैं ▁एक ▁छात ्र ▁हूँ ।",
        ("I love you.", "fra"): "▁<b>x</b> ▁<img/src=x> ▁&lt; ▁👩‍👩‍👧 <unk> ▁$y$ 😀~1/4 😀~2/4 😀~3/4 😀~4/4",
    }

    def _translation(self, text, target, source, out, forced):
        return super()._translation(text, target, source, tuple(token.replace("~", " ") for token in out), forced)
