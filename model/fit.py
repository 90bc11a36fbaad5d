"""Whether a tokenizer is the one of a model: sizes of the vocabularies, and the ids that have a meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.errors import CheckpointCorruptError, UnsupportedModelError
from model.marian.vocabulary import VOCAB_FILE
from model.reasons import because
from model.tokenizer import TOKENIZER_FILE

if TYPE_CHECKING:
    from model.config import TransformerConfig
    from model.marian.tokenizer import MarianTokenizer
    from model.tokenizer import Tokenizer


def check_fit(config: TransformerConfig, tokenizer: Tokenizer | MarianTokenizer, is_marian: bool) -> None:
    """Raises CheckpointCorruptError for a tokenizer of another model, and UnsupportedModelError for a model that no sentence fits into."""
    if config.max_len < 2:
        raise UnsupportedModelError(because("one_position"))
    ours = {"vocab_size": tokenizer.vocab_size, "tgt_vocab_size": tokenizer.target_vocab_size}
    theirs = {"vocab_size": config.encoder.vocab_size, "tgt_vocab_size": config.decoder.vocab_size}
    for field in ("pad_id", "bos_id", "eos_id", "unk_id"):
        ours[field], theirs[field] = getattr(tokenizer, field), getattr(config, field)
    for field, value in ours.items():
        if value < theirs[field] and is_marian and field.endswith("vocab_size"):
            continue
        if value != theirs[field]:
            file = VOCAB_FILE if is_marian else TOKENIZER_FILE
            raise CheckpointCorruptError(file, because("other_tokenizer", what=field, found=value, wanted=theirs[field]))
