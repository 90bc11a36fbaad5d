"""A random Marian folder in our Transformer and in transformers' model, and `generate` of both with the same settings."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from model.beam import beam_search
from model.decoding import Decoding, Hypothesis
from model.marian.config import MarianConfig, read_marian_config
from model.marian.generation import search_rules
from model.marian.weights import load_marian
from model.sampling import greedy_search
from model.transformer import Transformer
from tests.model.marian.factories import load_reference, make_marian_folder, save_weights

if TYPE_CHECKING:
    from transformers import MarianMTModel


class Pair:
    """One folder in both. Random weights alone repeat one token up to the limit, so they are taught a few random pairs first, not well:
    searches then end at many lengths, and beams part and trade places. Padding, which generation bans, stays the likeliest token of all.
    """

    def __init__(self, folder: Path, seed: int = 0, steps: int = 60, **options: object) -> None:
        make_marian_folder(folder, seed=seed, **options)
        self.config: MarianConfig = read_marian_config(folder)
        stored = load_file(folder / "model.safetensors").keys()
        save_weights(folder, {key: value for key, value in self._taught(load_reference(folder), steps).items() if key in stored})
        self.reference = load_reference(folder)
        self.ours: Transformer = load_marian(folder, self.config).model

    def _taught(self, model: MarianMTModel, steps: int) -> dict[str, Tensor]:
        sizes = self.config.transformer
        pairs = [(self.src_ids(1000 + i), self.src_ids(2000 + i, sizes.decoder.vocab_size)) for i in range(24)]
        src_ids, labels = (
            torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in side], batch_first=True, padding_value=sizes.pad_id)
            for side in zip(*pairs, strict=True)
        )
        # The tables of positions are parameters there, but no file holds them.
        optimizer = torch.optim.Adam([p for name, p in model.named_parameters() if "embed_positions" not in name], lr=0.01)
        for _ in range(steps):
            loss = model(src_ids, src_ids != sizes.pad_id, labels=labels.masked_fill(labels == sizes.pad_id, -100)).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            model.final_logits_bias[0, sizes.pad_id] += 20.0
        return model.state_dict()

    def src_ids(self, seed: int, vocab_size: int | None = None) -> list[int]:
        draw = random.Random(seed)
        sizes = self.config.transformer
        words = [i for i in range(vocab_size or sizes.vocab_size) if i not in (sizes.pad_id, sizes.eos_id)]
        return [*(draw.choice(words) for _ in range(draw.randint(2, 9))), sizes.eos_id]

    def generate(
        self, src_ids: list[int], max_new_tokens: int | None, beam_size: int | None, **settings: object
    ) -> tuple[int, list[Outcome]]:
        """(number of steps, every hypothesis of the reference, best first). Settings not given (None) are those of the folder."""
        settings |= {} if max_new_tokens is None else {"max_length": max_new_tokens + 1}
        settings |= {} if beam_size is None else {"num_beams": beam_size}
        beam_size = beam_size or self.config.generation.num_beams
        with torch.no_grad():
            out = self.reference.generate(
                input_ids=torch.tensor([src_ids]),
                attention_mask=torch.ones(1, len(src_ids), dtype=torch.long),
                num_return_sequences=beam_size,
                return_dict_in_generate=True,
                output_scores=True,
                **settings,
            )
        if beam_size == 1:
            ids = tuple(out.sequences[0, 1:].tolist())
            return len(out.scores), [Outcome(ids, None, (0,) * len(ids))]
        outcomes = []
        for ids, score, rows in zip(out.sequences.tolist(), out.sequences_scores.tolist(), out.beam_indices.tolist(), strict=True):
            rows = tuple(row for row in rows if row >= 0)
            outcomes.append(Outcome(tuple(ids[1 : len(rows) + 1]), score, rows))
        return len(out.scores), outcomes

    def search(
        self, src_ids: list[int], max_new_tokens: int, beam_size: int, length_penalty: float = 1.0, **changes: object
    ) -> tuple[int, list[Hypothesis]]:
        """The same of ours, with the rules of the folder and `changes` to these."""
        defaults = replace(self.config.generation, **changes)
        options = {
            "max_new_tokens": max_new_tokens,
            "length_penalty": length_penalty,
            "banned_ids": defaults.bad_word_ids,
            "rules": search_rules(defaults),
        }
        if beam_size == 1:
            return run(greedy_search(self.ours, src_ids, **options))
        return run(beam_search(self.ours, src_ids, beam_size=beam_size, **options))


class Outcome(NamedTuple):
    """A hypothesis of the reference: ids without start and padding, score (None if greedy), and the row of each step's batch."""

    token_ids: tuple[int, ...]
    score: float | None
    rows: tuple[int, ...]


def run(decoding: Decoding) -> tuple[int, list[Hypothesis]]:
    steps = 0
    while True:
        try:
            next(decoding)
            steps += 1
        except StopIteration as stop:
            return steps, list(stop.value)
