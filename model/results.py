"""What the translator hands out: plain values and numpy arrays that check themselves on arrival."""

# L layers, H heads, S src_len, T tgt_len

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

ROW_SUM_TOLERANCE = 1e-4
MAPS = ("encoder_self_attention", "decoder_self_attention", "cross_attention")
NORM_KINDS = ("encoder_self", "decoder_self", "cross")  # of MAPS, in the same order


@dataclass(frozen=True)
class Translation:
    """One translation, generated or given.

    source_text      the text as the model read it (see `model.cleaning`)
    src_ids          every encoder position: prefix of the target language and end token included; src_tokens are their strings
    tgt_ids          without the start token; they end with the end token if `finished`
    tgt_in_tokens    what each decoder position reads: "<s>" and all but the last of tgt_ids; length T = len(tgt_ids)
    tgt_out_tokens   what each decoder position predicts: tgt_ids; length T
    token_log_probs  ln p of each of tgt_ids, given the source and what stands before
    score            sum of token_log_probs / T**length_penalty
    forced           the translation was given, not generated
    finished         the end token was reached before the length limit
    """

    source_text: str
    target: str
    text: str
    src_ids: tuple[int, ...]
    tgt_ids: tuple[int, ...]
    src_tokens: tuple[str, ...]
    tgt_in_tokens: tuple[str, ...]
    tgt_out_tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    score: float
    forced: bool
    finished: bool

    def __post_init__(self) -> None:
        if len(self.src_tokens) != len(self.src_ids):
            raise ValueError(f"{len(self.src_tokens)} source tokens for {len(self.src_ids)} source ids")
        for name in ("tgt_in_tokens", "tgt_out_tokens", "token_log_probs"):
            if len(getattr(self, name)) != len(self.tgt_ids):
                raise ValueError(f"{len(getattr(self, name))} {name} for {len(self.tgt_ids)} target ids")


@dataclass(frozen=True)
class RunnerUps:
    """What else the model held likely at one target position.

    rank    of the token that stands there: 1 is the likeliest, 2 the next
    others  the likeliest other tokens with their probabilities, best first; those the model may never write are not among them
    """

    rank: int
    others: tuple[tuple[str, float], ...]


@dataclass(frozen=True, eq=False)
class AttentionTrace:
    """Every attention weight of one pass, float32, read-only, [layer, head, query, key], with the tokens of its rows and columns.

    encoder_self_attention [L, H, S, S]; decoder_self_attention [L, H, T, T]; cross_attention [L, H, T, S]. Encoder and decoder may differ
    in L. Row t of a decoder or cross map is the state that reads tgt_in_tokens[t] and predicts tgt_out_tokens[t].
    causal is false for a model whose causal mask was taken away (`model.variants`).

    Raises ValueError if a shape does not fit the tokens, a row does not sum to 1, or a decoder row of a causal model looks ahead.
    """

    encoder_self_attention: np.ndarray
    decoder_self_attention: np.ndarray
    cross_attention: np.ndarray
    src_tokens: tuple[str, ...]
    tgt_in_tokens: tuple[str, ...]
    tgt_out_tokens: tuple[str, ...]
    causal: bool = True

    def __post_init__(self) -> None:
        src_len, tgt_len = len(self.src_tokens), len(self.tgt_in_tokens)
        if len(self.tgt_out_tokens) != tgt_len:
            raise ValueError(f"{tgt_len} tokens read, but {len(self.tgt_out_tokens)} predicted")
        sides = {"source": src_len, "target": tgt_len}
        for name, query, key in (
            ("encoder_self_attention", "source", "source"),
            ("decoder_self_attention", "target", "target"),
            ("cross_attention", "target", "source"),
        ):
            weights = np.asarray(getattr(self, name))
            if weights.dtype != np.float32:
                raise ValueError(f"{name} holds {weights.dtype}, expected float32")
            if weights.ndim != 4 or weights.shape[2:] != (sides[query], sides[key]):
                raise ValueError(f"{name} has shape {weights.shape}, but there are {sides[query]} {query} and {sides[key]} {key} tokens")
            _check_rows(name, weights)
            weights = weights.view()
            weights.flags.writeable = False
            object.__setattr__(self, name, weights)
        if self.decoder_self_attention.shape[:2] != self.cross_attention.shape[:2]:
            raise ValueError(
                f"decoder_self_attention has {self.decoder_self_attention.shape[:2]} layers and heads,"
                f" cross_attention {self.cross_attention.shape[:2]}"
            )
        ahead = np.triu(np.ones((tgt_len, tgt_len), dtype=bool), k=1)
        if self.causal and np.any(self.decoder_self_attention[..., ahead]):
            raise ValueError(f"decoder_self_attention gives weight to a later one of its {tgt_len} tokens")

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}={getattr(self, name).shape}" for name in MAPS)
        return f"AttentionTrace({shapes})"


@dataclass(frozen=True, eq=False)
class Examination:
    """All that one teacher-forced pass over a translation shows.

    trace       every attention weight
    norms       by kind of attention, float32, read-only, [layer, query, key]: norm-weighted attention of all heads of a layer together,
                each row as shares of its sum (`model.analysis.norms`); None if it was not measured
    runner_ups  what else was likely, one for each target token; empty if it was not measured

    Raises ValueError for norms of other sizes than the trace has, or for runner-ups of another number of tokens.
    """

    trace: AttentionTrace
    norms: Mapping[str, np.ndarray] | None = None
    runner_ups: tuple[RunnerUps, ...] = ()

    def __post_init__(self) -> None:
        tgt_len = len(self.trace.tgt_out_tokens)
        if len(self.runner_ups) not in (0, tgt_len):
            raise ValueError(f"runner-ups of {len(self.runner_ups)} tokens for {tgt_len} target tokens")
        if self.norms is None:
            return
        checked = {}
        for kind, weights in zip(NORM_KINDS, (getattr(self.trace, name) for name in MAPS), strict=True):
            norms = np.asarray(self.norms[kind]).view()
            if norms.dtype != np.float32 or norms.shape != (len(weights), *weights.shape[2:]):
                raise ValueError(f"norms of {kind} are {norms.dtype} {norms.shape}, the weights have shape {weights.shape}")
            if not np.all(np.isfinite(norms)) or np.any(norms < 0):
                raise ValueError(f"norms of {kind} are negative or not finite")
            norms.flags.writeable = False
            checked[kind] = norms
        object.__setattr__(self, "norms", checked)


def _check_rows(name: str, weights: np.ndarray) -> None:
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise ValueError(f"{name} holds weights that are negative or not finite")
    sums = weights.sum(axis=-1, dtype=np.float64)
    wrong = np.abs(sums - 1.0) > ROW_SUM_TOLERANCE
    if np.any(wrong):
        layer, head, query = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name} row {query} of L{layer} H{head} sums to {sums[layer, head, query]:.6f}, not to 1")
