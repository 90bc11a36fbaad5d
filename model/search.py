"""The one search of three that the settings ask for: greedy, beam, or sampling."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence

from model.beam import beam_search
from model.decoding import Decoding, DecodingSettings, DecodingStep, SearchRules
from model.decoding_record import DecodingRecord
from model.errors import NotWantedError
from model.results import Translation
from model.sampling import greedy_search, sample
from model.stepping import DecoderWeights
from model.transformer import Transformer


def search(
    model: Transformer,
    src_ids: Sequence[int],
    settings: DecodingSettings,
    max_new_tokens: int,
    banned_ids: Collection[int],
    rules: SearchRules,
    weights: DecoderWeights | None = None,
    record: DecodingRecord | None = None,
) -> Decoding:
    """The decoding of one sentence as a generator of steps; a beam of one is greedy.

    src_ids: S ids. max_new_tokens: the limit in force, whatever the settings say. banned_ids: never written.
    weights: the model's, prepared; None: prepared for this call. record: what will hold
    the maps of the call (`model.decoding_record`).
    """
    common = {"max_new_tokens": max_new_tokens, "length_penalty": settings.length_penalty, "banned_ids": banned_ids}
    common |= {"rules": rules, "weights": weights, "record": record}
    if settings.method == "sample":
        chance = {"temperature": settings.temperature, "top_k": settings.top_k, "top_p": settings.top_p, "seed": settings.seed}
        return sample(model, src_ids, **chance, **common)
    if settings.method == "greedy" or settings.beam_size == 1:
        return greedy_search(model, src_ids, **common)
    return beam_search(model, src_ids, beam_size=settings.beam_size, **common)


def finished(steps: Generator[DecodingStep, None, Translation], still_wanted: Callable[[], bool] | None = None) -> Translation:
    """What a decoding comes to, its steps left aside. still_wanted: asked before each step; once it says no, NotWantedError is raised."""
    while True:
        if still_wanted is not None and not still_wanted():
            raise NotWantedError
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value
