"""Alignment error rate of every cross-attention head on a gold set: which head shows best which word was translated."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from tqdm import tqdm

from model.analysis.alignment import (
    GoldAlignment,
    alignment_error_rate,
    merge_to_words,
    parse_links,
    strongest_links,
    word_of_piece,
)
from model.best_heads import LABELLINGS
from model.errors import AtlasError
from model.translator import Translator

GOLD_NAME = "alibi"


def read_gold(folder: Path, name: str, source: str, target: str) -> list[GoldAlignment]:
    """The sentences of name.<source>, name.<target> and name.align: one tokenised sentence, one line of links each."""
    columns = [(folder / f"{name}.{ending}").read_text(encoding="utf-8").splitlines() for ending in (source, target, "align")]
    gold = []
    for english, other, links in zip(*columns, strict=True):
        # The model knows one kind of apostrophe; letters stay one to one.
        words = [tuple(side.replace("’", "'").split()) for side in (english, other)]
        gold.append(GoldAlignment(words[0], words[1], *parse_links(links)))
    return gold


def detokenize(words: tuple[str, ...], french: bool) -> str:
    """Words as a line of text the way the training data has it: French keeps a space before ? ! : ; and none after an apostrophe."""
    text = re.sub(r" ([.,)])", r"\1", " ".join(words)).replace("( ", "(")
    return re.sub(r"' ", "'", text) if french else re.sub(r" (['?!:;])", r"\1", text)


def head_error_rates(translator: Translator, gold: list[GoldAlignment], target: str = "fra") -> dict[str, object]:
    """AER on given translations, by rows labelled with the token predicted and with the token read.

    Returns for each labelling {"heads": [[...] per layer], "layers": means over heads, "all": mean over everything,
    "best": {"layer", "head", "aer"}}, and how many sentences were scored.
    """
    scored: list[GoldAlignment] = []
    links: dict[str, list[dict[tuple, frozenset]]] = {labelling: [] for labelling in LABELLINGS}
    for pair in tqdm(gold, desc="alignment", unit="sentence"):
        try:
            given = translator.force(detokenize(pair.source_words, False), detokenize(pair.target_words, True), target)
            cross = translator.trace(given).cross_attention
            tokenizer = translator.tokenizer
            specials = {tokenizer.tokens([i])[0] for i in (tokenizer.bos_id, tokenizer.eos_id, given.src_ids[0])}
            keys = word_of_piece(tokenizer.groups(given.src_ids), pair.source_words, specials)
            queries = word_of_piece(tokenizer.groups(given.tgt_ids), pair.target_words, specials)
        except (AtlasError, ValueError):
            continue  # too long, or spelled differently once normalised: the count of sentences tells
        scored.append(pair)
        for labelling, rows in (("predicted", queries), ("read", np.concatenate(([-1], queries[:-1])))):
            links[labelling].append(_links_of_all(cross, rows, keys))
    return {"sentences": len(scored), **{labelling: _summary(found, scored, cross.shape[:2]) for labelling, found in links.items()}}


def _links_of_all(cross: np.ndarray, queries: np.ndarray, keys: np.ndarray) -> dict[tuple, frozenset]:
    words = merge_to_words(cross, queries, keys)  # [L, H, J, I]
    found = {("head", layer, head): strongest_links(words[layer, head]) for layer, head in np.ndindex(*words.shape[:2])}
    found |= {("layer", layer): strongest_links(words[layer].mean(axis=0)) for layer in range(len(words))}
    return found | {("all",): strongest_links(words.mean(axis=(0, 1)))}


def _summary(found: list[dict[tuple, frozenset]], gold: list[GoldAlignment], shape: tuple[int, int]) -> dict[str, object]:
    def rate(*key: object) -> float:
        return round(alignment_error_rate([links[key] for links in found], gold), 4)

    heads = [[rate("head", layer, head) for head in range(shape[1])] for layer in range(shape[0])]
    layer, head = np.unravel_index(int(np.argmin(heads)), shape)
    return {
        "heads": heads,
        "layers": [rate("layer", i) for i in range(shape[0])],
        "all": rate("all"),
        "best": {"layer": int(layer), "head": int(head), "aer": heads[layer][head]},
    }
