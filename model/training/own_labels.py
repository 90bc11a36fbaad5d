"""Self-training (He et al. 2020): English sentences that have no translation in the data are translated by a trained model, and what it
is surest of is trained on beside the real pairs. Tatoeba has more English sentences with a German translation than with a French one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import sentencepiece as spm
from tqdm import tqdm

from model.training.batch_search import Found, search_batch
from model.training.batches import bucket, collate, encode_pairs
from model.training.corpus import Pair, clean_english_or_french, clean_pair, read_pairs, source_key, summary
from model.transformer import Transformer

MAX_CHARACTERS = 200
BATCH_TOKENS = 1200  # of the padded sources; as many rows of the decoder for each beam
_SPLITS_HELD_OUT = ("valid", "test")


def english_sentences(folder: Path) -> dict[str, str]:
    """Every English sentence of the training files eng-*/train.tsv under `folder`, by `corpus.source_key`, cleaned, but for those that
    stand in a validation or test file beside them, of any language, and for long ones.

    Raises FileNotFoundError if there is no such file, ValueError as `read_pairs`."""
    found: dict[str, str] = {}
    paths = sorted(folder.glob("eng-*/train.tsv"))
    if not paths:
        raise FileNotFoundError(f"{folder.name} holds no eng-<language>/train.tsv: name a folder that `download` wrote")
    for path in paths:
        for pair in read_pairs(path, path.parent.name[4:]):
            text = clean_english_or_french(pair.source)
            if 0 < len(text) <= MAX_CHARACTERS:
                found.setdefault(source_key(text), text)
    held_out = (path for split in _SPLITS_HELD_OUT for path in folder.glob(f"eng-*/{split}.tsv"))
    for path in held_out:
        for pair in read_pairs(path, path.parent.name[4:]):
            found.pop(source_key(pair.source), None)
    return found


def new_sources(english: dict[str, str], target: str, known: Iterable[Pair], limit: int | None = None) -> list[str]:
    """Those of `english` that none of the known pairs into `target`, of whatever split, has as its source; `limit`: so many, drawn."""
    keys = {source_key(pair.source) for pair in known if pair.target == target}
    found = [text for key, text in sorted(english.items()) if key not in keys]
    random.Random(1).shuffle(found)
    return found[:limit]


def translate_all(
    model: Transformer, vocabulary: spm.SentencePieceProcessor, sources: Sequence[str], target: str, beam_size: int
) -> Iterator[tuple[str, Found]]:
    """Each sentence with its translation's ids, in the order of their lengths; those without an end are left out."""
    encoded = zip(sources, (source for source, _ in encode_pairs(vocabulary, [Pair(target, text, "") for text in sources])), strict=True)
    ordered = sorted((item for item in encoded if len(item[1]) <= model.config.max_len), key=lambda item: len(item[1]))
    control = [i for i in range(vocabulary.get_piece_size()) if vocabulary.is_control(i) and i != vocabulary.eos_id()]
    banned = [*control, vocabulary.unk_id()]
    for items in tqdm(bucket(ordered, BATCH_TOKENS, lambda item: len(item[1])), desc=target, unit="batch"):
        src_ids = collate([(source, [0]) for _, source in items], model.config.pad_id).src_ids
        limit = min(2 * src_ids.shape[1] + 10, model.config.max_len)
        for (text, _), found in zip(items, search_batch(model, src_ids, beam_size, limit, banned), strict=True):
            if found is not None:
                yield text, found


def surest(translations: Iterable[tuple[str, Found]], share: float) -> list[tuple[str, Found]]:
    """The share of them (0 to 1) with the highest scores, that is, mean log-probabilities per token."""
    ranked = sorted(translations, key=lambda item: -item[1].score)
    return ranked[: round(share * len(ranked))]


def extend(
    model: Transformer,
    vocabulary: spm.SentencePieceProcessor,
    english: dict[str, str],
    splits: Mapping[str, Sequence[Pair]],
    copies: Mapping[str, int],
    share: float,
    beam_size: int = 4,
    limit: int | None = None,
) -> tuple[list[Pair], dict[str, int]]:
    """The training pairs of `splits`, each as often as `copies` says of its language (else once), and after them the model's own; and how
    many of these there are by language. What is of a held-out source is never among them."""
    known = [pair for pairs in splits.values() for pair in pairs]
    real = list(splits["train"])
    own: list[Pair] = []
    for target in sorted({pair.target for pair in real}):
        made = translate_all(model, vocabulary, new_sources(english, target, known, limit), target, beam_size)
        own += [Pair(target, text, vocabulary.decode(found.ids)) for text, found in surest(made, share)]
    own = [pair for pair in map(clean_pair, own) if pair]
    return [pair for pair in real for _ in range(copies.get(pair.target, 1))] + own, summary(own)
