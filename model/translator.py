"""The facade: a sentence in; its translation, the steps that led there and every attention map out."""

# S src_len, T tgt_len, D d_model, V vocabulary

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch

from model.analysis.cells import Cell, cell
from model.analysis.walkthrough import Place, Speech, Walk, walk
from model.catalogue import preferred_target
from model.decoding import DecodingSettings, DecodingStep, Hypothesis, hypothesis_score, length_limit, masked_log_softmax
from model.decoding_record import DecodingRecord
from model.examining import as_translation, check_ids, check_translation, recorded_examination, recorded_trace
from model.hooks import AttentionRecorder, ValueRecorder, attention_hook, value_hook, watched
from model.loaded import LoadedModel
from model.marian.generation import max_new_tokens as marian_limit
from model.results import AttentionTrace, Examination, RunnerUps, Translation
from model.runner_ups import find_runner_ups
from model.search import finished, search
from model.variants import without as variant_without

__all__ = ["AttentionTrace", "DecodingStep", "Examination", "Translation", "Translator"]


class Translator(LoadedModel):
    """A loaded model (`model.loaded`) at work. Holds nothing of any call, so threads may share one."""

    def translate(
        self,
        text: str,
        target: str | None = None,
        beam_size: int | None = None,
        *,
        length_penalty: float | None = None,
        max_new_tokens: int | None = None,
        method: str = "beam",
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
        still_wanted: Callable[[], bool] | None = None,
    ) -> Translation:
        """The best translation found. The settings are those of `model.decoding.DecodingSettings`.

        beam_size, length_penalty: None is what the makers of a Marian checkpoint chose, else 4 and 1.0.
        max_new_tokens: None is twice the source's tokens plus 10, at most what the checkpoint allows. What would be
        longer nearly always repeats itself; transformers' `generate` lets it run on.
        target: one of `targets`; None is the language in the model's name, or else the first.
        still_wanted: asked before each step; once it says no, the rest is left.

        Raises EmptyTextError, UnusableTextError, TextTooLongError (more tokens than config.max_len), UnknownTargetError,
        InvalidSettingError and NotWantedError.
        """
        more = {"length_penalty": length_penalty, "max_new_tokens": max_new_tokens, "method": method, "temperature": temperature}
        return finished(self.steps(text, target, beam_size, top_k=top_k, top_p=top_p, seed=seed, **more), still_wanted)

    def translate_ids(
        self,
        src_ids: Sequence[int],
        target: str | None = None,
        beam_size: int | None = None,
        still_wanted: Callable[[], bool] | None = None,
    ) -> Translation:
        """`translate` for source ids as they stand, such as those of a sentence in another order: no text is cut.

        target: what the translation is labelled with; for the model the ids alone say it. Raises InvalidSettingError for ids or a beam
        that the model cannot take.
        """
        check_ids("src_ids", src_ids, self.config.encoder, self.config.max_len)
        return finished(self._steps([int(i) for i in src_ids], self._target(target), self._settings(beam_size)), still_wanted)

    def steps(
        self,
        text: str,
        target: str | None = None,
        beam_size: int | None = None,
        *,
        length_penalty: float | None = None,
        max_new_tokens: int | None = None,
        method: str = "beam",
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> Generator[DecodingStep, None, Translation]:
        """`translate`, step by step: a generator that yields what each step looked at and returns the translation.

        Raises the same errors at once, before the first step.
        """
        chance = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        settings = self._settings(beam_size, length_penalty, method=method, max_new_tokens=max_new_tokens, **chance)
        target = self._target(target)
        return self._steps(self.tokenizer.encode_source(text, target, limit=self.config.max_len), target, settings)

    def translate_and_trace(
        self, text: str, target: str | None = None, beam_size: int | None = None, **settings: Any
    ) -> tuple[Translation, AttentionTrace]:
        """`translate`, and `trace` of what it returns, from the numbers of the decoding itself (`model.decoding_record`): for hardly more
        than the translation alone. Settings and errors are those of `translate`.
        """
        translation, record = self._recorded(text, target, beam_size, settings)
        if record is None:
            return translation, self.trace(translation)
        return translation, recorded_trace(self._model, record.attention, translation)

    def translate_and_examine(
        self, text: str, target: str | None = None, beam_size: int | None = None, **settings: Any
    ) -> tuple[Translation, Examination]:
        """The same with all of `examine`."""
        translation, record = self._recorded(text, target, beam_size, settings)
        if record is None:
            return translation, self.examine(translation)
        return translation, self._examination(translation, record.attention, record.values, record.states)

    def force(self, text: str, translation: str, target: str | None = None) -> Translation:
        """A given translation as the model sees it: its log-probabilities under teacher forcing. The score is their mean.

        Raises the errors of `translate`; TextTooLongError for a translation longer than config.max_len too.
        """
        target = self._target(target)
        src_ids = self.tokenizer.encode_source(text, target, limit=self.config.max_len)
        tgt_ids = self.tokenizer.encode_target(translation, limit=self.config.max_len)
        with torch.inference_mode():
            log_probs = self._log_probs(self._teacher_forced(src_ids, tgt_ids)[0])  # [T, V]
            token_log_probs = log_probs.gather(1, self._tensor(tgt_ids)[:, None])[:, 0].tolist()
        hypothesis = Hypothesis(tuple(tgt_ids), tuple(token_log_probs), hypothesis_score(token_log_probs, 1.0), True, (0,) * len(tgt_ids))
        return as_translation(self.tokenizer, target, src_ids, hypothesis, forced=True)

    def trace(self, translation: Translation) -> AttentionTrace:
        """All attention maps of a translation, from one teacher-forced pass over its ids: by the causal mask, row t holds the very weights
        that step t of the decoding had.

        Raises InvalidSettingError for anything but a translation, or one of a model with another vocabulary or more positions.
        """
        check_translation(translation, self.config)
        with torch.inference_mode(), attention_hook(AttentionRecorder()) as recorder:
            self._teacher_forced(translation.src_ids, translation.tgt_ids)
        return recorded_trace(self._model, recorder, translation)

    def examine(self, translation: Translation) -> Examination:
        """`trace`, and of the same pass norm-weighted attention and what else was likely at each target position: the five likeliest
        other tokens, by the probabilities that `token_log_probs` are the logarithms of. Raises the errors of `trace`.
        """
        check_translation(translation, self.config)
        with torch.inference_mode():
            with attention_hook(AttentionRecorder()) as recorder, value_hook(ValueRecorder()) as values:
                states = self._teacher_forced(translation.src_ids, translation.tgt_ids)[0]  # [T, D]
        return self._examination(translation, recorder, values, states)

    def _examination(
        self, translation: Translation, recorder: AttentionRecorder, values: ValueRecorder, states: torch.Tensor
    ) -> Examination:
        with torch.inference_mode():
            runner_ups = find_runner_ups(states, translation.tgt_ids, self._log_probs, lambda i: self.tokenizer.tokens([i])[0])
        if self._ends_by_rule(translation):
            runner_ups = (*runner_ups[:-1], RunnerUps(1, ()))
        return recorded_examination(self._model, recorder, values, runner_ups, translation)

    def walk(self, translation: Translation, kind: str, layer: int, head: int, row: int) -> Walk:
        """One position of a translation, step by step through one layer and head: see `model.analysis.walkthrough`.

        Raises the errors of `trace`, and InvalidSettingError for a layer, head or row that is not there.
        """
        check_translation(translation, self.config)
        speech = Speech(self._banned_ids, self._rules.renormalize, lambda i: self.tokenizer.tokens([i])[0])
        return walk(self._model, translation.src_ids, translation.tgt_ids, Place(kind, layer, head, row), speech)

    def cell(
        self, translation: Translation, kind: str, layer: int, head: int, row: int, stage: str, index: int, key: int | str | None = None
    ) -> Cell:
        """One number of that walk as a sum: see `model.analysis.cells`. Raises the errors of `walk`, and InvalidSettingError."""
        check_translation(translation, self.config)
        return cell(self._model, translation.src_ids, translation.tgt_ids, Place(kind, layer, head, row), stage, index, key)

    def without(self, part: str) -> Translator:
        """The same translator with one of `model.variants.PARTS` taken away, over the same weights; this one stays as it is.

        All methods work as before. Without "causal_mask", `trace`, `examine` and `force` look ahead; writing does not, since later tokens
        aren't there yet: it gives the same translation, of which row t of a trace is no longer what step t saw.
        `best_heads` and `profile` were measured on the whole model, so the variant has none. Its name is the same, and its runs
        belong in no cache. Raises InvalidSettingError.
        """
        variant = copy.copy(self)
        variant._model = variant_without(self._model, part)
        variant.taken_away = tuple(dict.fromkeys((*self.taken_away, part)))
        variant.best_heads, variant.profile = {}, None
        return variant

    def _settings(self, beam_size: int | None, length_penalty: float | None = None, **others: Any) -> DecodingSettings:
        if beam_size is None:
            beam_size = 4 if self.generation is None else self.generation.num_beams
        if length_penalty is None:
            length_penalty = 1.0 if self.generation is None else self.generation.length_penalty
        return DecodingSettings(beam_size=beam_size, length_penalty=length_penalty, **others)

    def _recorded(
        self, text: str, target: str | None, beam_size: int | None, options: dict[str, Any]
    ) -> tuple[Translation, DecodingRecord | None]:
        """A translation and the complete record of it. None where a later pass would see something else than the decoding did (a model
        that looks ahead), or where hooks want to see that pass."""
        still_wanted = options.pop("still_wanted", None)
        settings, target = self._settings(beam_size, **options), self._target(target)
        src_ids = self.tokenizer.encode_source(text, target, limit=self.config.max_len)
        record = None if watched() or not self._model.causal else DecodingRecord()
        return finished(self._steps(src_ids, target, settings, record), still_wanted), record

    def _steps(
        self, src_ids: list[int], target: str, settings: DecodingSettings, record: DecodingRecord | None = None
    ) -> Generator[DecodingStep, None, Translation]:
        limit = length_limit(settings, len(src_ids), self.config.max_len)
        if self.generation is not None and settings.max_new_tokens is None:
            limit = min(limit, marian_limit(self.generation, self.config.max_len))
        decoding = search(self._model, src_ids, settings, limit, self._banned_ids, self._rules, self._weights, record)

        def run() -> Generator[DecodingStep, None, Translation]:
            hypotheses = yield from decoding
            if record is not None:
                record.complete(hypotheses[0].rows)
            return as_translation(self.tokenizer, target, src_ids, hypotheses[0], forced=False)

        return run()

    def _target(self, target: str | None) -> str:
        return preferred_target(self.name, self.targets) if target is None else target

    def _teacher_forced(self, src_ids: tuple[int, ...] | list[int], tgt_ids: tuple[int, ...] | list[int]) -> torch.Tensor:
        """States [1, T, D] of the decoder that reads the start token and all but the last of tgt_ids."""
        memory = self._model.encode(self._tensor(src_ids)[None])
        return self._model.decode(self._tensor([self.config.bos_id, *tgt_ids[:-1]])[None], memory)

    def _log_probs(self, states: torch.Tensor) -> torch.Tensor:
        """States [..., D] of the decoder to the model's log-probabilities [..., V], as decoding has them."""
        return masked_log_softmax(self._weights.output(states), self._banned_ids, self._rules.renormalize)

    def _ends_by_rule(self, translation: Translation) -> bool:
        """Whether the last token stands there by a rule at the length limit, with probability one (see SearchRules)."""
        last_id, last_log_prob = self._rules.forced_last_id, translation.token_log_probs[-1]
        return last_id is not None and not translation.forced and translation.tgt_ids[-1] == last_id and last_log_prob == 0.0

    def _tensor(self, ids: tuple[int, ...] | list[int]) -> torch.Tensor:
        return torch.tensor(list(ids), dtype=torch.long, device=self._device)
