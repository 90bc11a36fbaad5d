"""The words of a sentence in another order, with positions and without: what order is to attention.

Self-attention compares vectors in pairs and adds them up; nothing in it knows which stands first (Vaswani et al. 2017, section 3.5). With
nothing added for the place, the encoder of shuffled words gives the same weights and states, shuffled alike, and the decoder, which looks
at them through a sum again, writes the same translation. With positions it does neither.
"""

# L layers, H heads, S tokens of the source

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from model.errors import InvalidSettingError
from model.hooks import AttentionRecorder, attention_hook

if TYPE_CHECKING:
    from model.results import Translation
    from model.translator import Translator


@dataclass(frozen=True, eq=False)
class Reading:
    """One sentence as one model reads and translates it. maps: the encoder's, float32 [L, H, S, S]."""

    maps: np.ndarray
    translation: Translation


@dataclass(frozen=True, eq=False)
class Orders:
    """A sentence in two orders, read with positions ("on") and without ("off").

    tokens    for each place of the new order, which place of the sentence its token comes from; [S]
    original  by "on" and "off", of the sentence as it was
    shuffled  the same of the new order
    """

    tokens: tuple[int, ...]
    original: dict[str, Reading]
    shuffled: dict[str, Reading]

    def put_back(self, positions: str) -> np.ndarray:
        """The maps of the new order, rows and columns moved back to where their tokens came from. float32 [L, H, S, S]."""
        back = np.argsort(self.tokens)
        return self.shuffled[positions].maps[:, :, back][:, :, :, back]

    def differences(self, positions: str) -> np.ndarray:
        """The largest difference of each head's weights between the two orders, every pair of tokens against itself. float32 [L, H]."""
        return np.abs(self.put_back(positions) - self.original[positions].maps).max(axis=(2, 3))


def read_orders(
    translator: Translator,
    translation: Translation,
    tokens: Sequence[int],
    beam_size: int | None = None,
    still_wanted: Callable[[], bool] | None = None,
) -> Orders:
    """Reads and translates the sentence and the same tokens in another order, with positions and without: four times, but that the given
    translation is taken for the first of them, unless it is not the model's own (`forced`).

    tokens: see `Orders`. still_wanted: see `Translator.translate`.
    Raises InvalidSettingError for anything but an order of all the sentence's tokens, and NotWantedError.
    """
    count = len(translation.src_ids)
    if not all(isinstance(place, int) and not isinstance(place, bool) for place in tokens) or sorted(tokens) != list(range(count)):
        raise InvalidSettingError("order", list(tokens), f"the numbers from 0 to {count - 1}, each once")
    models = {"on": translator, "off": translator.without("positions")}
    orders = (translation.src_ids, tuple(translation.src_ids[place] for place in tokens))
    own = None if translation.forced else translation

    def read(name: str, ids: Sequence[int], known: Translation | None = None) -> Reading:
        maps = _encoder_maps(models[name], ids)
        return Reading(maps, known or models[name].translate_ids(ids, translation.target, beam_size, still_wanted))

    original, moved = orders
    return Orders(
        tuple(tokens),
        {"on": read("on", original, own), "off": read("off", original)},
        {"on": read("on", moved), "off": read("off", moved)},
    )


def _encoder_maps(translator: Translator, src_ids: Sequence[int]) -> np.ndarray:
    ids = torch.tensor([list(src_ids)], dtype=torch.long, device=translator.device)
    with torch.inference_mode(), attention_hook(AttentionRecorder()) as recorder:
        translator.model.encode(ids)
    return recorder.stack("encoder_self")[:, 0].float().cpu().numpy()


def shuffled(count: int, seed: int) -> tuple[int, ...]:
    """An order of `count` things that is not the one they have, the same for the same seed. Fewer than two have no other order."""
    order = list(range(count))
    if count < 2:
        return tuple(order)
    generator = random.Random(seed)
    while order == sorted(order):
        generator.shuffle(order)
    return tuple(order)


def token_order(spans: Sequence[tuple[int, int]], order: Sequence[int]) -> tuple[int, ...]:
    """Tokens of words in another order: spans are (start, stop) of the words, which cover all places; the pieces of a word stay together.

    Raises InvalidSettingError for anything but an order of all the words.
    """
    if not all(isinstance(word, int) and not isinstance(word, bool) for word in order) or sorted(order) != list(range(len(spans))):
        raise InvalidSettingError("order", list(order), f"the numbers from 0 to {len(spans) - 1}, each once")
    return tuple(place for word in order for place in range(*spans[word]))
