"""What every way of decoding shares: settings, what is told of a step, results, and the next token's scores by way of the cache."""

# N live rows (beams), S src_len, D d_model, V vocabulary, C candidates per row

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from model.cache import DecoderCache
from model.decoding_record import DecodingRecord
from model.errors import CheckpointCorruptError, InvalidSettingError
from model.hooks import by_weights, unwatched, watched
from model.reasons import because
from model.repetition import allowed_repeats, banned_next
from model.stepping import DecoderWeights, Stepper
from model.transformer import Transformer

METHODS = ("beam", "greedy", "sample")
MAX_BEAM_SIZE = 16
MAX_LENGTH_PENALTY = 5.0
MIN_CANDIDATES = 8

Fate = Literal["kept", "dropped", "finished"]


@dataclass(frozen=True)
class DecodingSettings:
    """How to choose among continuations. Raises InvalidSettingError for a value that is not allowed.

    method          "beam", "greedy" (the most probable token each time) or "sample"; a beam of 1 is greedy
    beam_size       hypotheses kept alive, 1 to 16; only "beam" reads it
    length_penalty  a hypothesis scores sum of log p / length**length_penalty: 0 favours short ones, 1 is the mean per token
    max_new_tokens  longest output in tokens, end token included; None: see `default_max_new_tokens`
    temperature     "sample": log-probabilities are divided by it before the draw
    top_k           "sample": draw among the k most probable tokens; 0 means all
    top_p           "sample": draw among the fewest tokens whose probabilities reach p together (Holtzman et al. 2020), after top_k
    seed            "sample": the same seed draws the same tokens; None draws anew each time
    """

    method: str = "beam"
    beam_size: int = 4
    length_penalty: float = 1.0
    max_new_tokens: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.method, str) or self.method not in METHODS:
            raise InvalidSettingError("method", self.method, f"one of {', '.join(METHODS)}")
        self._whole("beam_size", 1, MAX_BEAM_SIZE)
        self._whole("top_k", 0, None)
        if self.max_new_tokens is not None:
            self._whole("max_new_tokens", 1, None)
        if self.seed is not None:
            self._whole("seed", 0, 2**63 - 1)
        limit = MAX_LENGTH_PENALTY
        self._number("length_penalty", -limit <= _float(self.length_penalty) <= limit, f"a number from {-limit:g} to {limit:g}")
        self._number("temperature", 0 < _float(self.temperature) < math.inf, "a number above 0")
        self._number("top_p", 0 < _float(self.top_p) <= 1, "a number above 0, at most 1")

    def _whole(self, name: str, low: int, high: int | None) -> None:
        value = getattr(self, name)
        allowed = because("whole_number", low=low, high=high) if high is not None else f"a whole number, {low} or more"
        try:
            fits = not isinstance(value, bool) and low <= operator.index(value) and (high is None or value <= high)
        except TypeError:
            fits = False
        if not fits:
            raise InvalidSettingError(name, value, allowed)
        object.__setattr__(self, name, operator.index(value))

    def _number(self, name: str, fits: bool, allowed: str) -> None:
        if not fits:
            raise InvalidSettingError(name, getattr(self, name), allowed)
        object.__setattr__(self, name, float(getattr(self, name)))


@dataclass(frozen=True)
class SearchRules:
    """What a model's makers prescribe for its decoding, apart from the settings that a visitor chooses. The defaults are our own model's;
    `model.marian.generation` reads a Marian checkpoint's.

    renormalize     once tokens are banned, the probabilities of the others sum to one again; if not, the banned ones' share is lost
    forced_last_id  the token that stands at the length limit, with probability one; None: whatever comes
    early_stopping  when a beam search with N finished hypotheses ends. False: when the best live one, scored at its present length,
                    is no better than the worst of them. "never": when it would not be even if it reached the limit at no further cost
                    (with length_penalty > 0). True: at once
    cut_may_win     hypotheses that the limit cuts off are ranked with the finished ones by score, as in transformers. If not, they come
                    after all of these: a text that repeats itself to the limit is very sure of itself
    max_repeats     how often 1 to 4 tokens may stand in a row, if the source does not repeat itself more often (`model.repetition`): the
                    token that would go further gets no probability. None: no such rule
    """

    renormalize: bool = True
    forced_last_id: int | None = None
    early_stopping: bool | Literal["never"] = False
    cut_may_win: bool = False
    max_repeats: int | None = None


OWN_RULES = SearchRules()


class Candidate(NamedTuple):
    """A token that could continue a beam, and what became of it. (A named tuple is made in a tenth of the time of a frozen dataclass, and
    there are dozens in a step.)

    log_prob      ln p of the token, of the model itself (whatever temperature or filter the draw then used)
    sum_log_prob  the same summed over the beam and this token
    fate          "kept": lives on; "finished": it is the end token, and the hypothesis went to the finished pool; "dropped"
    next_row      the row it has in the next step, if it was kept
    draw_prob     "sample" only: the probability it was drawn with, after temperature, top_k and top_p
    """

    token_id: int
    log_prob: float
    sum_log_prob: float
    fate: Fate
    next_row: int | None = None
    draw_prob: float | None = None

    @property
    def prob(self) -> float:
        """p of the token."""
        return math.exp(self.log_prob)


@dataclass(frozen=True)
class Beam:
    """One live row of a step: its tokens so far (without start), their summed log-probability and its best continuations, best first.

    parent is its row in the step before, None in the first step. A sampled token stands among the candidates even if it's no top one.
    """

    token_ids: tuple[int, ...]
    sum_log_prob: float
    parent: int | None
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True)
class Hypothesis:
    """A whole output. token_ids end with the end token if `finished`; if not, the length limit cut it off (and may have forced the end
    token there: see SearchRules).

    score = sum of token_log_probs / number of tokens ** length_penalty. rows[t] is the row of the batch that predicted token t in step t.
    """

    token_ids: tuple[int, ...]
    token_log_probs: tuple[float, ...]
    score: float
    finished: bool
    rows: tuple[int, ...]


@dataclass(frozen=True)
class DecodingStep:
    """Everything one step looked at: step `index` chooses the token at position `index` of the output.

    `beams` in row order; `pool` holds the finished hypotheses after this step, best first.
    """

    index: int
    beams: tuple[Beam, ...]
    pool: tuple[Hypothesis, ...]


# Yields its steps and returns the hypotheses, best first.
Decoding = Generator[DecodingStep, None, tuple[Hypothesis, ...]]


def default_max_new_tokens(src_len: int, max_len: int) -> int:
    """Twice the source's tokens plus 10, at most the model's positions: room for a real translation, an early end for one that loops."""
    return min(2 * src_len + 10, max_len)


def length_limit(settings: DecodingSettings, src_len: int, max_len: int) -> int:
    """Longest output in tokens. Raises InvalidSettingError if more was asked for than the model has positions."""
    if settings.max_new_tokens is None:
        return default_max_new_tokens(src_len, max_len)
    if settings.max_new_tokens > max_len:
        raise InvalidSettingError("max_new_tokens", settings.max_new_tokens, because("whole_number", low=1, high=max_len))
    return settings.max_new_tokens


def add_log_probs(total: float, log_probs: Sequence[float]) -> list[float]:
    """total + each of log_probs, in float32 like transformers' sums, so that hypotheses that are nearly equal rank alike."""
    return (np.asarray(log_probs, dtype=np.float32) + np.float32(total)).tolist()


def length_score(sum_log_prob: float, length: int, length_penalty: float) -> float:
    """sum / length**length_penalty in float32."""
    return float(np.float32(sum_log_prob) / np.float32(length**length_penalty))


def hypothesis_score(token_log_probs: Sequence[float], length_penalty: float) -> float:
    """sum / length**length_penalty, the end token counted."""
    total = functools.reduce(operator.add, map(np.float32, token_log_probs))
    return length_score(total, len(token_log_probs), length_penalty)


def masked_log_softmax(logits: Tensor, banned_ids: Collection[int], renormalize: bool = True) -> Tensor:
    """float32 log-probabilities of logits [..., V], with nothing left for `banned_ids`; they sum to one unless told not to."""
    return _masked_log_softmax(logits.clone(), torch.tensor(sorted(banned_ids), dtype=torch.long, device=logits.device), renormalize)


def _masked_log_softmax(logits: Tensor, banned_ids: Tensor, renormalize: bool) -> Tensor:
    """Writes into logits, where these are float32 already."""
    scores = logits.float() if renormalize else logits.float().log_softmax(dim=-1)
    if len(banned_ids):
        scores.index_fill_(-1, banned_ids, -math.inf)
    return scores.log_softmax(dim=-1) if renormalize else scores


class NextTokenScorer:
    """Log-probabilities of the next token for N rows of one sentence: the source is encoded once, each step costs one new position.

    Belongs to one decoding call. Nothing but the last position is ever projected onto the vocabulary.
    weights: those of the model, prepared; None: prepared for this call. record: what will hold the call's maps (`model.decoding_record`).
    """

    def __init__(
        self,
        model: Transformer,
        src_ids: Sequence[int],
        banned_ids: Collection[int],
        rules: SearchRules = OWN_RULES,
        weights: DecoderWeights | None = None,
        record: DecodingRecord | None = None,
    ) -> None:
        self._model, self._rules = model, rules
        self._weights = DecoderWeights(model, packed=False) if weights is None else weights
        self._device = self._weights.embedding.device
        self._banned_ids = self._tensor(sorted(banned_ids))
        self._cache: DecoderCache | None = None  # only where somebody watches
        self._num_rows = 1
        self._repeats = None if rules.max_repeats is None else allowed_repeats(src_ids, rules.max_repeats)
        self._written: list[tuple[int, ...]] = [()]
        with torch.inference_mode():
            source = self._tensor(src_ids)[None]
            if record is None:
                # By way of the weights, as where they are recorded: the fused kernel's last digits are others.
                with by_weights():
                    self._memory = model.encode(source)  # [1, S, D]
                self._stepper = Stepper(model, self._weights, self._memory)
            else:
                self._memory, self._stepper = record.start(model, self._weights, source)

    def log_probs(self, token_ids: Sequence[int], rows: Sequence[int], last: bool = False) -> Tensor:
        """Row i continues row rows[i] of the call before with token_ids[i]; the first call is ([start], [0]). Returns [N, V] float32.
        `last`: the next token stands at the length limit.

        Raises CheckpointCorruptError if the model computes no numbers.
        """
        # Entered anew in each call: a generator that yielded inside would leave its caller in inference mode.
        self._written = [(*self._written[row], token_id) for token_id, row in zip(token_ids, rows, strict=True)]
        with torch.inference_mode():
            logits = self._weights.output(self._states(self._tensor(token_ids), rows))
            log_probs = _masked_log_softmax(logits, self._banned_ids, self._rules.renormalize)
            # One NaN among the logits makes the whole row NaN, so one column tells, if it's not that of a banned token.
            if any(map(math.isnan, log_probs[:, self._model.config.eos_id].tolist())):
                raise CheckpointCorruptError("model.safetensors", because("computes_not_finite"))
            if self._repeats is not None:
                for row, written in enumerate(self._written):
                    if banned := banned_next(written, self._repeats):
                        log_probs[row, sorted(banned)] = -math.inf
            if last and self._rules.forced_last_id is not None:
                log_probs = torch.full_like(log_probs, -math.inf).index_fill_(1, self._tensor([self._rules.forced_last_id]), 0.0)
        return log_probs

    def best(
        self, token_ids: Sequence[int], rows: Sequence[int], count: int, last: bool = False
    ) -> tuple[list[list[int]], list[list[float]]]:
        """The `count` most probable next tokens of each row, best first: ids and log-probabilities, N lists each. Tokens without
        probability are left out."""
        with torch.inference_mode():
            values, ids = top_tokens(self.log_probs(token_ids, rows, last), count)
        return ids, values

    def _states(self, token_ids: Tensor, rows: Sequence[int]) -> Tensor:
        """[N, D]. Hooks sit in the modules, so where there are any it is the modules that compute, from that step on."""
        if self._cache is None:
            if not watched():
                return self._stepper(token_ids, rows)
            self._cache, self._num_rows, rows = self._caught_up(), len(rows), range(len(rows))
        if list(rows) != list(range(self._num_rows)):
            # All rows read the same sentence, so its keys and values need no shuffling, only as many rows.
            self._cache.reorder(self._tensor(rows), cross=len(rows) != self._num_rows)
            self._num_rows = len(rows)
        return self._model.decode(token_ids[:, None], self._memory, cache=self._cache)[:, -1]

    def _caught_up(self) -> DecoderCache:
        """The cache that the modules would have by now, of all but the newest tokens."""
        cache, read = DecoderCache(self._model.config.num_decoder_layers), self._tensor(self._written)[:, :-1]
        if read.shape[1]:
            with unwatched():
                self._model.decode(read, self._memory.expand(len(read), -1, -1), cache=cache)
        return cache

    def _tensor(self, ids: Sequence[int] | Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor(ids, dtype=torch.long, device=self._device)


def top_tokens(log_probs: Tensor, count: int) -> tuple[list[list[float]], list[list[int]]]:
    """The `count` largest of log_probs [N, V] per row, best first, as Python values; -inf is left out."""
    values, ids = log_probs.topk(min(count, log_probs.shape[-1]), dim=-1)
    kept_values = [[v for v in row if v > -math.inf] for row in values.tolist()]
    return kept_values, [row[: len(kept)] for row, kept in zip(ids.tolist(), kept_values, strict=True)]


def _float(value: object) -> float:
    """NaN, which no range holds, for anything that is not a number."""
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value) if not isinstance(value, str) else math.nan  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan
