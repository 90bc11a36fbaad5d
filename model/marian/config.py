"""What a Marian folder says of itself: config.json, generation_config.json and the special ids of vocab.json, as our configuration.

Sizes and flags come from the files and never from the format's defaults, which are not those of OPUS-MT.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.checkpoint import CONFIG_FILE, read_json
from model.config import TransformerConfig
from model.decoding import MAX_BEAM_SIZE, MAX_LENGTH_PENALTY
from model.errors import CheckpointCorruptError, CheckpointMissingError, UnsupportedModelError, WrongArchitectureError
from model.marian.vocabulary import VOCAB_FILE, read_settings, read_vocabulary
from model.reasons import because

GENERATION_FILE = "generation_config.json"
ARCHITECTURE = "MarianMTModel"
_ACTIVATIONS = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu"}
# Variants of Marian's trainer that no converted checkpoint has; transformers would ignore these flags and compute something else.
_REFUSED = {"normalize_before": True, "normalize_embedding": True, "add_final_layer_norm": True, "static_position_embeddings": False}
# Other names for an entry. Where a file has both, transformers follows this one.
_ALIASES = {"encoder_layers": "num_hidden_layers", "d_model": "hidden_size", "encoder_attention_heads": "num_attention_heads"}
# A table of 16 384 positions is 30 times what any OPUS-MT model has; beyond it a damaged number would ask for gigabytes.
_MAX_POSITIONS = 16_384
# Rules of generation that are not applied here, and the value with which they do nothing.
_NOT_APPLIED = {
    "begin_suppress_tokens": None,
    "diversity_penalty": 0.0,
    "do_sample": False,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0,
    "exponential_decay_length_penalty": None,
    "force_words_ids": None,
    "forced_bos_token_id": None,
    "guidance_scale": 1.0,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "num_beam_groups": 1,
    "repetition_penalty": 1.0,
    "sequence_bias": None,
    "suppress_tokens": None,
}


@dataclass(frozen=True)
class GenerationDefaults:
    """How the makers of the model want it decoded.

    max_length          tokens of the target with the start token, or None where no file says it
    early_stopping      False, True or "never", as in transformers
    renormalize_logits  probabilities sum to one again once tokens are banned
    forced_eos_id       the last position that max_length allows is this token; None: whatever comes
    bad_word_ids        tokens that are never generated
    num_beams           at most what `model.decoding` searches with; so is length_penalty
    not_applied         names of rules that the files ask for and that are not built here, or only up to a limit
    """

    num_beams: int
    max_length: int | None
    length_penalty: float
    early_stopping: bool | str
    renormalize_logits: bool
    forced_eos_id: int | None
    bad_word_ids: tuple[int, ...]
    eos_id: int
    decoder_start_id: int
    pad_id: int
    not_applied: tuple[str, ...] = ()


@dataclass(frozen=True)
class MarianConfig:
    """share_vocab: one vocabulary for both sides. tie_embeddings: the output projection is the target embedding."""

    transformer: TransformerConfig
    generation: GenerationDefaults
    share_vocab: bool = True
    tie_embeddings: bool = True


def read_marian_config(folder: Path) -> MarianConfig:
    """The configuration of the Marian model in `folder`.

    Raises WrongArchitectureError if it is another kind of model, UnsupportedModelError for a variant that is not built here, and
    CheckpointMissingError or CheckpointCorruptError, which name the file.
    """
    values = read_json(folder, CONFIG_FILE)
    _check_architecture(values)
    entries, rules = _Entries(values, CONFIG_FILE), _generation_entries(folder, values)
    for name, refused in _REFUSED.items():
        if entries.flag(name, not refused) is refused:
            raise UnsupportedModelError(because("setting", what=name, found=str(refused).lower()))
    activation = entries.required("activation_function")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise UnsupportedModelError(because("setting", what="activation_function", found=str(activation)[:40]))
    eos_id, unk_id, pad_id = _special_ids(folder, (entries, rules))
    start_id = rules.token_id("decoder_start_token_id", entries.token_id("decoder_start_token_id", pad_id))
    share, tie = entries.flag("share_encoder_decoder_embeddings", True), entries.flag("tie_word_embeddings", True)
    vocab_size = entries.size("vocab_size")
    tgt_vocab_size = vocab_size if share or values.get("decoder_vocab_size") is None else entries.size("decoder_vocab_size")
    max_len = entries.size("max_position_embeddings")
    if max_len > _MAX_POSITIONS:
        raise UnsupportedModelError(because("too_many_positions", found=str(max_len)[:40], limit=_MAX_POSITIONS))
    try:
        transformer = TransformerConfig(
            vocab_size=vocab_size,
            d_model=entries.size("d_model"),
            num_heads=entries.size("encoder_attention_heads"),
            num_encoder_layers=entries.size("encoder_layers"),
            num_decoder_layers=entries.size("decoder_layers"),
            d_ff=entries.size("encoder_ffn_dim"),
            dropout=values.get("dropout", 0.1),
            attention_dropout=values.get("attention_dropout", 0.0),
            activation=_ACTIVATIONS[activation],
            position_layout="halves",
            max_len=max_len,
            scale_embedding=entries.flag("scale_embedding"),
            tie_embeddings=share and tie,
            output_bias=True,
            pad_id=pad_id,
            bos_id=start_id,
            eos_id=eos_id,
            unk_id=unk_id,
            num_decoder_heads=entries.size("decoder_attention_heads"),
            decoder_d_ff=entries.size("decoder_ffn_dim"),
            tgt_vocab_size=tgt_vocab_size,
            tie_output=tie and not share,
        )
    except ValueError as error:
        raise CheckpointCorruptError(CONFIG_FILE, str(error)) from error
    return MarianConfig(transformer, _generation(rules, transformer), share, tie)


def _check_architecture(values: Mapping[str, object]) -> None:
    named = values.get("architectures")
    architectures = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    if architectures:
        # The same weights are also published from other frameworks, as TFMarianMTModel and FlaxMarianMTModel.
        if not any(name.endswith(ARCHITECTURE) for name in architectures):
            raise WrongArchitectureError(architectures[0])
    elif values.get("model_type") != "marian":
        raise WrongArchitectureError(values.get("model_type") or "unknown")


def _generation_entries(folder: Path, config: Mapping[str, object]) -> _Entries:
    """generation_config.json; where there is none, config.json, in which old repositories keep the same entries."""
    try:
        return _Entries(read_json(folder, GENERATION_FILE), GENERATION_FILE)
    except CheckpointMissingError:
        return _Entries(config, CONFIG_FILE)


def _special_ids(folder: Path, files: Sequence[_Entries]) -> tuple[int, int, int]:
    """The ids of </s>, <unk> and <pad>. They lie anywhere in a vocabulary; vocab.json decides, and the other files must agree."""
    settings, vocabulary = read_settings(folder), read_vocabulary(folder / VOCAB_FILE)
    for token in (settings.eos, settings.unk, settings.pad):
        if token not in vocabulary:
            raise CheckpointCorruptError(VOCAB_FILE, because("lacks", what=token[:40]))
    for token, entry in ((settings.eos, "eos_token_id"), (settings.pad, "pad_token_id")):
        for file in files:
            if (said := file.token_id(entry, vocabulary[token])) != vocabulary[token]:
                why = because("other_vocabulary", what=entry, found=said, file=VOCAB_FILE, wanted=vocabulary[token])
                raise CheckpointCorruptError(file.file, why)
    return vocabulary[settings.eos], vocabulary[settings.unk], vocabulary[settings.pad]


def _generation(rules: _Entries, transformer: TransformerConfig) -> GenerationDefaults:
    max_length = rules.optional_size("max_length")
    if (max_new_tokens := rules.optional_size("max_new_tokens")) is not None:  # does not count the start token, and goes first
        max_length = max_new_tokens + 1
    early_stopping = rules.values.get("early_stopping") or False
    if not isinstance(early_stopping, bool) and early_stopping != "never":
        raise rules.wrong("early_stopping", 'true, false or "never"')
    not_applied = [name for name, neutral in _NOT_APPLIED.items() if rules.values.get(name) not in (None, neutral, [])]
    bad_word_ids = []
    for word in rules.token_lists("bad_words_ids"):
        if len(word) > 1:
            not_applied.append("bad_words_ids")
        elif word != [transformer.eos_id]:  # as in transformers: the end cannot be banned
            bad_word_ids += word
    if any(i >= transformer.decoder.vocab_size for i in bad_word_ids):
        raise rules.wrong("bad_words_ids", f"ids below {transformer.decoder.vocab_size}")
    num_beams, length_penalty = rules.optional_size("num_beams") or 1, rules.number("length_penalty", 1.0)
    if num_beams > MAX_BEAM_SIZE:
        num_beams = MAX_BEAM_SIZE
        not_applied.append("num_beams")
    if abs(length_penalty) > MAX_LENGTH_PENALTY:
        length_penalty = math.copysign(MAX_LENGTH_PENALTY, length_penalty)
        not_applied.append("length_penalty")
    return GenerationDefaults(
        num_beams=num_beams,
        max_length=max_length,
        length_penalty=length_penalty,
        early_stopping=early_stopping,
        renormalize_logits=rules.flag("renormalize_logits", False),
        forced_eos_id=rules.token_id("forced_eos_token_id", None, transformer.decoder.vocab_size),
        bad_word_ids=tuple(dict.fromkeys(bad_word_ids)),
        eos_id=transformer.eos_id,
        decoder_start_id=transformer.bos_id,
        pad_id=transformer.pad_id,
        not_applied=tuple(dict.fromkeys(not_applied)),
    )


class _Entries:
    """The entries of one JSON file, read as what they must be. Raises CheckpointCorruptError naming the file and the entry."""

    def __init__(self, values: Mapping[str, object], file: str) -> None:
        self.values, self.file = values, file

    def wrong(self, name: str, wanted: str) -> CheckpointCorruptError:
        return CheckpointCorruptError(self.file, because("wrong_value", what=name, found=str(self.required(name))[:40], wanted=wanted))

    def required(self, name: str) -> object:
        for known_as in (_ALIASES.get(name), name):
            if known_as is not None and self.values.get(known_as) is not None:
                return self.values[known_as]
        raise CheckpointCorruptError(self.file, because("lacks", what=name))

    def size(self, name: str) -> int:
        value = self.required(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.wrong(name, because("positive"))
        return value

    def optional_size(self, name: str) -> int | None:
        return None if self.values.get(name) is None else self.size(name)

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self.required(name) if default is None else self.values.get(name)
        if value is None:
            return bool(default)
        if not isinstance(value, bool):
            raise self.wrong(name, because("flag"))
        return value

    def number(self, name: str, default: float) -> float:
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
            raise self.wrong(name, because("number"))
        return float(value)

    def token_id(self, name: str, default: int | None, vocab_size: int | None = None) -> int | None:
        """A token id, which some files wrap into a list of one."""
        value = self.values.get(name)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self.wrong(name, "one token id")
        if vocab_size is not None and value >= vocab_size:
            raise self.wrong(name, f"an id below {vocab_size}")
        return value

    def token_lists(self, name: str) -> list[list[int]]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(word, list) and word for word in value):
            raise self.wrong(name, "lists of token ids")
        if not all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for word in value for i in word):
            raise self.wrong(name, "lists of token ids")
        return value
