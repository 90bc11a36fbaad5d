"""What attention heads do, as numbers: means over the rows of a map in which a head had a choice.

Rows count, not sentences: each measure is a sum over rows and the number of those rows, so sentences add up to the mean over all their
tokens (as in Clark et al. 2019 and Voita et al. 2019), in which a short sentence weighs no more than its tokens.

In a short sentence the token before may be the start token, and the next one the end: weight there could mean either. So that each measure
says one thing, `previous`, `next` and `same` leave out rows where that token is the first or the last, and in self-attention the sinks and
`punctuation` leave out their token's own row and the rows next to it. A row with a single key is left out everywhere: its weight is 1
whatever the head does. These exclusions are ours.

Self-attention (row i, key j, positions of one sentence)
    previous, next, same   weight on j = i - 1, i + 1, i (Clark et al. 2019, section 3.1). `next` in the encoder only
    start                  weight on the first position: the language prefix, where the model has one, or the decoder's start token
    end                    weight on the end token. In the encoder only: a decoder never reads it
    punctuation            weight on all tokens that are punctuation, in rows that may attend to one (Clark et al. 2019, section 3.2, count
                           commas and full stops)
    distance               sum over j of weight * |i - j|, in tokens (Vig and Belinkov 2019)
Cross-attention (row t predicts target token t, key j is a source position)
    start, end             as above; `end` leaves out the row that predicts the end token
    punctuation            as above; leaves out rows that predict punctuation
    alignment              how often a row's largest weight (of those on words: special tokens are left out on both sides) is where the
                           reference has it. The reference is an alignment that is given, or else the largest weight of the mean over
                           all heads of all layers, to which each head itself belongs: then it says "agrees with the others", and not
                           "is right"
    alignment_read         the same, where each row answers for the token that it reads, not for the one it predicts: row t + 1 against the
                           reference of row t. Heads of the first layers align so (Chen et al. 2020, "Accurate Word Alignment Induction")
    previous, next, same and distance are left out: positions of two languages do not count from the same place.
All kinds
    entropy                - sum over j of weight * ln weight, in nats (Clark et al. 2019, section 3.3)
    normalised_entropy     the same over ln n, n the number of keys that the row may attend to: 0 one key, 1 all alike. Unlike entropy it
                           does not grow with the length of the sentence, nor along the rows of a causal map
    broad                  (exp(entropy) - 1) / (n - 1): exp(entropy) is the number of keys that an even spread of this entropy has, so 0 is
                           one key, 1 all of them, 0.5 half of them. Ours
All but entropy and distance lie in [0, 1]. A measure whose number of rows is 0 has no value.
"""

# L layers, H heads, Q queries, K keys

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from model.analysis.alignment import Links
from model.hooks import AttentionKind

_SPECIAL = re.compile(r"<s>|</s>|<pad>|>>[^<>]+<<")


@dataclass(frozen=True, eq=False)
class RowSum:
    """A measure summed over rows: total [L, H], and how many rows these were. They add up."""

    total: np.ndarray
    rows: int

    def __add__(self, other: RowSum) -> RowSum:
        return RowSum(self.total + other.total, self.rows + other.rows)


def self_measures(attention: np.ndarray, tokens: Sequence[str], kind: AttentionKind) -> dict[str, RowSum]:
    """attention [L, H, K, K] of kind "encoder_self" or "decoder_self"; tokens as they are read."""
    causal, size = kind == "decoder_self", len(tokens)
    offset = np.arange(size)[None, :] - np.arange(size)[:, None]  # key - query
    allowed = offset <= 0 if causal else np.ones_like(offset, dtype=bool)
    first = np.arange(size) == 0
    last = np.zeros_like(first) if causal else np.arange(size) == size - 1
    inner = ~first & ~last
    apart = np.abs(offset) >= 2
    marks = np.array([is_punctuation(token) for token in tokens]) & inner & allowed  # [Q, K]
    targets = {
        "previous": (offset == -1) & inner,
        "next": (offset == 1) & inner & allowed,
        "same": (offset == 0) & inner,
        "start": first & apart & allowed,
        "end": last & apart,
        "punctuation": marks & ~(marks & ~apart).any(axis=1, keepdims=True),
    }
    found = {name: _on_keys(attention, keys) for name, keys in targets.items()}
    found["distance"] = _over_rows(_weighted(attention, np.abs(offset)), allowed.sum(axis=1) > 1)
    return found | _spread(attention, allowed)


def cross_measures(
    attention: np.ndarray, src_tokens: Sequence[str], tgt_out_tokens: Sequence[str], links: Links | None = None
) -> dict[str, RowSum]:
    """attention [L, H, T, S]; tgt_out_tokens, what each row predicts.

    links: (source position, target position) of tokens that belong together; None takes the mean of all heads as the reference.
    Raises ValueError for a link outside the sentence.
    """
    size = len(src_tokens)
    place = np.arange(size)
    at_end = np.array([token == src_tokens[-1] for token in tgt_out_tokens])
    at_mark = np.array([is_punctuation(token) for token in tgt_out_tokens])
    marks = np.array([is_punctuation(token) for token in src_tokens])
    targets = {
        "start": np.broadcast_to(place == 0, (len(at_end), size)),
        "end": (place == size - 1) & ~at_end[:, None],
        "punctuation": marks & ~at_mark[:, None],
    }
    found = {name: _on_keys(attention, keys) for name, keys in targets.items()}
    found |= _alignments(attention, src_tokens, tgt_out_tokens, links)
    return found | _spread(attention, np.ones(attention.shape[-2:], dtype=bool))


def is_special(token: str) -> bool:
    """Whether a token's string is that of a start, end or padding token or of a language prefix. <unk> stands for a word."""
    return _SPECIAL.fullmatch(token) is not None


def is_punctuation(token: str) -> bool:
    """Whether a token's string is punctuation only (Unicode's categories P), a mark of a word's beginning aside."""
    text = token.replace("▁", "")
    return bool(text) and not is_special(token) and all(unicodedata.category(character).startswith("P") for character in text)


def _on_keys(attention: np.ndarray, keys: np.ndarray) -> RowSum:
    """Weight on keys [Q, K] in all rows that have one, and others beside it."""
    keys = keys & (keys.shape[1] > 1)
    return _over_rows(_weighted(attention, keys), keys.any(axis=1))


def _weighted(attention: np.ndarray, values: np.ndarray) -> np.ndarray:
    """[L, H, Q] = sum over keys of weight * value, value [Q, K]. Without a copy of all maps: those of 512 tokens are large."""
    return np.einsum("lhqk,qk->lhq", attention, values, dtype=np.float64)


def _over_rows(values: np.ndarray, rows: np.ndarray) -> RowSum:
    return RowSum(values[..., rows].sum(axis=-1), int(rows.sum()))


def _spread(attention: np.ndarray, allowed: np.ndarray) -> dict[str, RowSum]:
    rows = allowed.sum(axis=1) > 1
    count = allowed.sum(axis=1)[rows]
    entropy = np.stack([_entropy(layer)[:, rows] for layer in attention])
    shares = {"normalised_entropy": entropy / np.log(count), "broad": (np.exp(entropy) - 1) / (count - 1)}
    # rows sum to 1 in float32 only, so an even row may come out a little over
    values = {"entropy": entropy} | {name: np.clip(share, 0, 1) for name, share in shares.items()}
    return {name: RowSum(value.sum(axis=-1), len(count)) for name, value in values.items()}


def _entropy(weights: np.ndarray) -> np.ndarray:
    """[..., K] to [...]; a weight of 0 adds 0, its limit."""
    weights = weights.astype(np.float64)
    logs = np.maximum(weights, np.finfo(np.float64).tiny)  # below any weight of a softmax in float32, so that only 0 is changed
    np.log(logs, out=logs)
    return -np.multiply(weights, logs, out=logs).sum(axis=-1)


def _alignments(
    attention: np.ndarray, src_tokens: Sequence[str], tgt_out_tokens: Sequence[str], links: Links | None
) -> dict[str, RowSum]:
    linked = np.zeros(attention.shape[-2:], dtype=bool)
    for source, target in links or ():
        if not (0 <= source < linked.shape[1] and 0 <= target < linked.shape[0]):
            raise ValueError(f"link {source}-{target} in a sentence of {linked.shape[1]} source and {linked.shape[0]} target tokens")
        linked[target, source] = True
    words = np.flatnonzero([not is_special(token) for token in src_tokens])
    if len(words) < 2:  # nothing to choose from
        return dict.fromkeys(("alignment", "alignment_read"), RowSum(np.zeros(attention.shape[:2]), 0))
    rows = np.arange(len(linked))
    if links is None:
        mean = attention.mean(axis=(0, 1), dtype=np.float64)
        linked[rows, words[mean[:, words].argmax(axis=-1)]] = True
    chosen = np.stack([_largest(layer, words) for layer in attention])  # [L, H, Q]
    linked[:, np.isin(np.arange(linked.shape[1]), words, invert=True)] = False
    aligned = np.array([not is_special(token) for token in tgt_out_tokens]) & linked.any(axis=1)
    found = {"alignment": _over_rows(linked[rows, chosen].astype(np.float64), aligned)}
    # a token is read in the row after the one that predicts it
    linked[1:], aligned[1:] = linked[:-1].copy(), aligned[:-1].copy()
    aligned[0] = False
    return found | {"alignment_read": _over_rows(linked[rows, chosen].astype(np.float64), aligned)}


def _largest(weights: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """[H, Q, K] to [H, Q]: which of `keys`, that ascend, has the largest weight. Without a copy where no other key stands between them."""
    first, last = keys[0], keys[-1] + 1
    weights = weights[..., first:last]
    if len(keys) < last - first:
        weights = np.where(np.isin(np.arange(first, last), keys), weights, -1)
    return weights.argmax(axis=-1) + first
