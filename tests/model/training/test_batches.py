"""Batches of an epoch: complete, bounded, repeatable."""

from __future__ import annotations

from collections import Counter

import pytest
import sentencepiece as spm
import torch

from model.training.batches import Batch, EpochBuilder, Sampling, bucket, collate, encode_pairs
from model.training.corpus import Pair
from tests.model.training import samples

PLAIN = Sampling({}, augment=False)
WILD = Sampling({"cmn": 3}, augment=True, source_alpha=0.3)


def build(vocabulary: spm.SentencePieceProcessor, sampling: Sampling, seed: int = 0, epoch: int = 0, tokens: int = 600, **options: int):
    return EpochBuilder(vocabulary, samples.pairs(), tokens, sampling, **options).build(seed, epoch)


def flat(batches: list[list]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(tuple(src), tuple(tgt)) for batch in batches for src, tgt in batch]


def test_encoded_pairs_have_prefix_start_and_end(vocabulary: spm.SentencePieceProcessor) -> None:
    pairs = [Pair("cmn", "Tom saw a dog.", "汤姆看见了一只狗。"), Pair("fra", "Tom", "Tom")]
    (src, tgt), (src_2, tgt_2) = encode_pairs(vocabulary, pairs)
    assert (src[0], src[-1], tgt[0], tgt[-1]) == (vocabulary.piece_to_id(">>cmn<<"), 2, 1, 2)
    assert vocabulary.decode(src[1:-1]) == "Tom saw a dog."
    assert vocabulary.decode(tgt[1:-1]) == "汤姆看见了一只狗。"
    assert src_2[0] == vocabulary.piece_to_id(">>fra<<")
    assert src_2[1:] == tgt_2[1:]
    assert encode_pairs(vocabulary, []) == []


def test_a_language_without_prefix_is_refused(vocabulary: spm.SentencePieceProcessor) -> None:
    with pytest.raises(ValueError, match="no prefix for deu"):
        encode_pairs(vocabulary, [Pair("deu", "Tom", "Tom")])


@pytest.mark.parametrize("copies", [{}, {"cmn": 3}, {"cmn": 2, "fra": 0}])
def test_every_pair_appears_exactly_as_often_as_asked(vocabulary: spm.SentencePieceProcessor, copies: dict[str, int]) -> None:
    expected: Counter = Counter()
    for pair, (src, tgt) in zip(samples.pairs(), encode_pairs(vocabulary, samples.pairs()), strict=True):
        expected[(tuple(src), tuple(tgt))] += copies.get(pair.target, 1)
    assert Counter(flat(build(vocabulary, Sampling(copies, augment=False)))) == +expected


def test_sampling_changes_sources_only_in_their_cut(vocabulary: spm.SentencePieceProcessor) -> None:
    drawn = flat(build(vocabulary, Sampling({}, augment=False, source_alpha=0.3)))
    plain = flat(build(vocabulary, PLAIN))
    spelt = [Counter((src[0], vocabulary.decode(src[1:-1]), tgt) for src, tgt in map(_lists, items)) for items in (drawn, plain)]
    assert spelt[0] == spelt[1]
    assert Counter(drawn) != Counter(plain)


def _lists(item: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[list[int], tuple[int, ...]]:
    return list(item[0]), item[1]


@pytest.mark.parametrize("tokens", [100, 600, 5000])
def test_padded_size_stays_within_the_bound_and_comes_near_it(vocabulary: spm.SentencePieceProcessor, tokens: int) -> None:
    batches = build(vocabulary, WILD, tokens=tokens)
    padded = [len(batch) * max(max(len(src), len(tgt)) for src, tgt in batch) for batch in batches]
    assert max(padded) <= tokens
    if tokens == 600:
        assert sum(padded) / len(padded) > 0.85 * tokens
        # bucketed by length: little of it is padding on the target side
        real = sum(len(tgt) for batch in batches for _, tgt in batch)
        assert real > 0.9 * sum(len(batch) * max(len(tgt) for _, tgt in batch) for batch in batches)


def test_bucket_lets_a_giant_stand_alone() -> None:
    assert bucket([3, 3, 3, 20, 4], 10, lambda n: n) == [[3, 3, 3], [20], [4]]
    assert bucket([2, 5], 10, lambda n: n) == [[2, 5]]
    assert bucket([2, 2, 6], 12, lambda n: n) == [[2, 2], [6]]
    assert bucket([], 10, lambda n: n) == []


def test_the_same_seed_and_epoch_give_the_same_batches(vocabulary: spm.SentencePieceProcessor) -> None:
    """Also when other epochs were built, or text was sampled, in between: a resumed run has not seen them."""
    builder = EpochBuilder(vocabulary, samples.pairs(), 600, WILD)
    first = builder.build(seed=5, epoch=2)
    builder.build(seed=5, epoch=3)
    vocabulary.encode("The doctor sold the old car.", enable_sampling=True, alpha=0.1, nbest_size=-1)
    assert builder.build(seed=5, epoch=2) == first
    assert build(vocabulary, WILD, seed=5, epoch=2) == first


def test_another_epoch_or_seed_gives_others(vocabulary: spm.SentencePieceProcessor) -> None:
    built = [build(vocabulary, WILD, seed, epoch) for seed, epoch in ((0, 0), (0, 1), (1, 0))]
    assert built[0] != built[1] and built[0] != built[2] and built[1] != built[2]
    # not only the order: other numbers, other cuts
    assert Counter(flat(built[0])) != Counter(flat(built[1]))
    plain = [build(vocabulary, PLAIN, 0, epoch) for epoch in (0, 1)]
    assert plain[0] != plain[1]
    assert Counter(flat(plain[0])) == Counter(flat(plain[1]))


def test_batches_come_in_no_order_of_length(vocabulary: spm.SentencePieceProcessor) -> None:
    lengths = [len(batch[0][1]) for batch in build(vocabulary, PLAIN, tokens=200)]
    assert lengths != sorted(lengths)


def test_pairs_beyond_the_limit_are_left_out(vocabulary: spm.SentencePieceProcessor) -> None:
    encoded = [(tuple(src), tuple(tgt)) for src, tgt in encode_pairs(vocabulary, samples.pairs())]
    limit = sorted(max(len(src), len(tgt)) for src, tgt in encoded)[len(encoded) // 2]
    kept = Counter(item for item in encoded if max(map(len, item)) <= limit)
    assert 0 < kept.total() < len(encoded)
    assert Counter(flat(build(vocabulary, PLAIN, max_len=limit))) == kept


def test_collate_pads_each_side_to_its_longest() -> None:
    batch = collate([([4, 7, 2], [1, 8, 9, 10, 2]), ([5, 2], [1, 2])])
    assert torch.equal(batch.src_ids, torch.tensor([[4, 7, 2], [5, 2, 0]]))
    assert torch.equal(batch.tgt_ids, torch.tensor([[1, 8, 9, 10, 2], [1, 2, 0, 0, 0]]))
    assert batch.src_ids.dtype == batch.tgt_ids.dtype == torch.int64
    assert batch.num_tokens == 5
    assert collate([([4, 2], [1, 2]), ([4], [1])], pad_id=9).src_ids[1].tolist() == [4, 9]


def test_tokens_are_the_predicted_ones() -> None:
    assert Batch(torch.tensor([[4, 2]]), torch.tensor([[1, 5, 6, 2]])).num_tokens == 3
