"""A model in memory with its tokenizer, and what is known of both: what a translator translates with."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from model.best_heads import BestHeads
from model.catalogue import language_pair
from model.config import TransformerConfig
from model.decoding import OWN_RULES
from model.errors import InvalidSettingError
from model.fit import check_fit
from model.marian.config import GenerationDefaults
from model.marian.generation import search_rules
from model.marian.tokenizer import MarianTokenizer
from model.marian.weights import LoadWarning
from model.reasons import because
from model.repetition import MAX_REPEATS
from model.stepping import DecoderWeights
from model.tokenizer import Tokenizer
from model.transformer import Transformer

if TYPE_CHECKING:
    from model.analysis.profile import HeadProfile

# A small model of little data loops on what it has never seen; Marian's are decoded by their own rules alone.
EMBEDDED_RULES = replace(OWN_RULES, max_repeats=MAX_REPEATS)


class LoadedModel:
    """Holds nothing of any call, so threads may share one.

    revision: the commit that the files are of, if they came from the hub. best_heads: see `model.best_heads`; nothing if not measured.
    generation: how a Marian checkpoint wants to be decoded. warnings: what its user should know of it.
    profile: what its heads do over many sentences; None if not measured. taken_away: the parts that `Translator.without` left out.
    Raises CheckpointCorruptError if model and tokenizer do not belong together, UnsupportedModelError if no sentence fits into the model.
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer | MarianTokenizer,
        name: str = "",
        revision: str | None = None,
        best_heads: BestHeads | None = None,
        generation: GenerationDefaults | None = None,
        warnings: tuple[LoadWarning, ...] = (),
        profile: HeadProfile | None = None,
    ) -> None:
        check_fit(model.config, tokenizer, is_marian=generation is not None)
        self._model = model.eval()
        self._device = next(model.parameters()).device
        self._weights = DecoderWeights(self._model)
        self.tokenizer = tokenizer
        self.name = name
        self.revision = revision
        self.best_heads = best_heads or {}
        self.generation = generation
        self.warnings = warnings
        self.profile = profile
        self.taken_away: tuple[str, ...] = ()
        self._rules = EMBEDDED_RULES if generation is None else search_rules(generation)
        # A Marian model may have rows to spare, for which there is no token.
        spare_ids = range(tokenizer.target_vocab_size, model.config.decoder.vocab_size)
        of_checkpoint = () if generation is None else generation.bad_word_ids
        self._banned_ids = frozenset((*tokenizer.never_generated, *of_checkpoint, *spare_ids))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, targets={self.targets}, device={self.device!r})"

    @property
    def model(self) -> Transformer:
        """The Transformer itself, for the functions of `model.analysis`: to run and to read, never to change."""
        return self._model

    @property
    def config(self) -> TransformerConfig:
        return self._model.config

    @property
    def device(self) -> str:
        """Such as "cpu" or "cuda:0"."""
        return str(self._device)

    @property
    def dtype(self) -> str:
        """The kind of number that the weights are, here in memory: such as "float32"."""
        return str(next(self._model.parameters()).dtype).removeprefix("torch.")

    @property
    def num_bytes(self) -> int:
        """Memory that the model itself takes: parameters and tables, each once."""
        tensors = {tensor.data_ptr(): tensor for tensor in (*self._model.parameters(), *self._model.buffers())}
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())

    @property
    def memory_bytes(self) -> int:
        """The same with the copies that were laid out for decoding (`model.stepping`)."""
        return self.num_bytes + self._weights.num_bytes

    @property
    def source_language(self) -> str | None:
        """Code of the language it reads, such as "eng" or "de"; None if nothing tells."""
        said = getattr(self.tokenizer, "source_lang", "eng")
        return said or (language_pair(self.name) or (None,))[0]

    @property
    def targets(self) -> tuple[str, ...]:
        """Codes of the languages it translates into, such as "fra"."""
        return self.tokenizer.targets

    def positional_encoding(self, length: int) -> np.ndarray:
        """The first `length` rows of the model's own table, float32 [length, d_model].

        Raises InvalidSettingError outside 1 .. config.max_len.
        """
        max_len = self.config.max_len
        if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= max_len:
            raise InvalidSettingError("length", length, because("whole_number", low=1, high=max_len))
        return self._model.positions[:length].cpu().numpy().copy()
