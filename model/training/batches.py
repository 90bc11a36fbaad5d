"""An epoch as batches of similar length: augmented, cut into pieces, padded. The same seed and epoch give the same batches."""

# B batch, S src_len, T tgt_len

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import sentencepiece as spm
import torch
from torch import Tensor

from model.training.augment import augment
from model.training.corpus import Pair
from model.training.joining import join_some
from model.training.names import NEW_NAMES, NameSwapper
from model.training.segmentation import SubwordSampler

_CHUNK = 2048  # pairs between two looks at `stop`


class DataError(ValueError):
    """The prepared pairs cannot be trained on."""


@dataclass(frozen=True)
class Batch:
    """src_ids [B, S]: prefix, pieces, end. tgt_ids [B, T + 1]: start, pieces, end; its first T are read, its last T predicted."""

    src_ids: Tensor
    tgt_ids: Tensor

    @property
    def num_tokens(self) -> int:
        """Target tokens that are predicted (padding not counted, given pad id 0)."""
        return int((self.tgt_ids[:, 1:] != 0).sum())

    def twice(self) -> Batch:
        """All pairs, and all of them again: [2 B, ...]."""
        return Batch(self.src_ids.repeat(2, 1), self.tgt_ids.repeat(2, 1))


@dataclass(frozen=True)
class Sampling:
    """How an epoch differs from the plain data. `copies`: target -> how often each pair of that language is seen."""

    copies: dict[str, int]
    augment: bool = True
    source_alpha: float = 0.0  # subword regularisation of the source (Kudo 2018): 0 is off, smaller is wilder


class EpochBuilder:
    """Turns pairs into shuffled, length-bucketed batches of about `batch_tokens` padded tokens on the longer side."""

    def __init__(
        self, vocabulary: spm.SentencePieceProcessor, pairs: Sequence[Pair], batch_tokens: int, sampling: Sampling, max_len: int = 128
    ) -> None:
        self.vocabulary, self.pairs, self.batch_tokens = vocabulary, pairs, batch_tokens
        self.sampling, self.max_len = sampling, max_len
        self._names = NameSwapper(pairs) if sampling.augment else None
        self._sampler = SubwordSampler(vocabulary, sampling.source_alpha) if sampling.source_alpha else None

    def build(
        self, seed: int, epoch: int, stop: Callable[[], bool] = lambda: False
    ) -> list[list[tuple[list[int], list[int]]]] | None:
        """Batches as lists of (source ids, target ids); `collate` makes tensors of one. Pairs of more than max_len tokens are left out.

        `stop` is asked now and then: once it says yes, building ends with None."""
        rng = random.Random(f"{seed}-{epoch}")
        segmentation_rng = random.Random(rng.randrange(2**31))
        pairs = [pair for pair in self.pairs for _ in range(self.sampling.copies.get(pair.target, 1))]
        # Neighbours in the file are alike; those that come to be joined should not be.
        rng.shuffle(pairs)
        encoded: list[tuple[list[int], list[int]]] = []
        for start in range(0, len(pairs), _CHUNK):
            if stop():
                return None
            encoded += self._encode(pairs[start : start + _CHUNK], rng, segmentation_rng)
        encoded = [(src, tgt) for src, tgt in encoded if max(len(src), len(tgt)) <= self.max_len]
        rng.shuffle(encoded)
        encoded.sort(key=lambda item: (len(item[1]), len(item[0])))
        batches = bucket(encoded, self.batch_tokens, lambda item: max(len(item[0]), len(item[1])))
        rng.shuffle(batches)
        return batches

    def _encode(self, pairs: Sequence[Pair], rng: random.Random, segmentation_rng: random.Random) -> list[tuple[list[int], list[int]]]:
        if self._names:
            pairs = [self._names.swap(pair, rng) if rng.random() < NEW_NAMES else pair for pair in pairs]
            pairs = join_some([augment(pair, rng) for pair in pairs], rng)
        encoded = encode_pairs(self.vocabulary, pairs)
        if self._sampler:
            sampled = self._sampler.encode([pair.source for pair in pairs], segmentation_rng)
            encoded = [([src[0], *pieces, src[-1]], tgt) for (src, tgt), pieces in zip(encoded, sampled, strict=True)]
        return encoded


def encode_pairs(vocabulary: spm.SentencePieceProcessor, pairs: Sequence[Pair]) -> list[tuple[list[int], list[int]]]:
    """(source ids with prefix and end, target ids with start and end) of each pair.

    Raises DataError for a target language without a prefix in the vocabulary."""
    prefix = {target: vocabulary.piece_to_id(f">>{target}<<") for target in {pair.target for pair in pairs}}
    if unknown := sorted(target for target, prefix_id in prefix.items() if prefix_id == vocabulary.unk_id()):
        raise DataError(f"the vocabulary has no prefix for {', '.join(unknown)}: prepare the data anew")
    bos, eos = vocabulary.bos_id(), vocabulary.eos_id()
    # One thread: the machine's other processors belong to the other processes.
    sources = vocabulary.encode([pair.source for pair in pairs], num_threads=1)
    targets = vocabulary.encode([pair.translation for pair in pairs], num_threads=1)
    return [([prefix[pair.target], *src, eos], [bos, *tgt, eos]) for pair, src, tgt in zip(pairs, sources, targets, strict=True)]


def bucket(items: Sequence, batch_tokens: int, length: Callable[..., int]) -> list[list]:
    """Cuts items, sorted by length, into runs whose padded size (longest x number) stays within batch_tokens."""
    batches: list[list] = []
    current: list = []
    longest = 0
    for item in items:
        grown = max(longest, length(item))
        if current and grown * (len(current) + 1) > batch_tokens:
            batches.append(current)
            current, grown = [], length(item)
        current.append(item)
        longest = grown
    if current:
        batches.append(current)
    return batches


def collate(items: Sequence[tuple[list[int], list[int]]], pad_id: int = 0) -> Batch:
    """Pads one batch."""
    return Batch(*(_pad([item[side] for item in items], pad_id) for side in (0, 1)))


def _pad(rows: Sequence[list[int]], pad_id: int) -> Tensor:
    padded = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return torch.from_numpy(padded)
