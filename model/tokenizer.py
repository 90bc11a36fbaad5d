"""SentencePiece between text, ids and token strings fit for a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from sentencepiece import SentencePieceProcessor

from model.cleaning import checked_text, clean_text, plain_source
from model.errors import CheckpointCorruptError, CheckpointMissingError, TextTooLongError, UnknownTargetError
from model.reasons import because
from model.token_display import TokenDisplay, TokenGroup

TOKENIZER_FILE = "tokenizer.model"
# Beyond this many characters a text is refused by the count of its beginning alone, so that no upload can keep the server busy.
MAX_CHARACTERS = 1_000_000

# Which vocabulary ids belong to, where a model has one for each side.
Side = Literal["source", "target"]


class Tokenizer:
    """One SentencePiece model for source and target (a *.model file), with a control symbol `>>xxx<<` per target language.

    A control symbol never comes out of text: `>>fra<<` or `</s>` in a sentence is cut into pieces like any other text.
    Read only after construction, so threads may share it.

    Raises CheckpointMissingError, or CheckpointCorruptError if the file is damaged or lacks a special token.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        sp = load_sentencepiece(path)
        self._sp = sp
        self.vocab_size: int = sp.get_piece_size()
        self.target_vocab_size = self.vocab_size
        self.pad_id, self.bos_id, self.eos_id, self.unk_id = sp.pad_id(), sp.bos_id(), sp.eos_id(), sp.unk_id()
        if min(self.pad_id, self.bos_id, self.eos_id, self.unk_id) < 0:
            raise CheckpointCorruptError(path.name, because("no_special_tokens"))
        pieces = [sp.id_to_piece(i) for i in range(self.vocab_size)]
        self._prefix_ids = {
            piece[2:-2]: i for i, piece in enumerate(pieces) if sp.is_control(i) and piece.startswith(">>") and piece.endswith("<<")
        }
        self.targets: tuple[str, ...] = tuple(self._prefix_ids)
        self._special_ids = frozenset(i for i in range(self.vocab_size) if sp.is_control(i) or sp.is_unknown(i))
        self._display = TokenDisplay(dict(enumerate(pieces)), {i: byte_value(piece) for i, piece in enumerate(pieces) if sp.is_byte(i)})

    @property
    def never_generated(self) -> tuple[int, ...]:
        """Ids that only ever stand in an input: padding, start and the language prefixes. Decoding gives them no probability."""
        return (self.pad_id, self.bos_id, *self._prefix_ids.values())

    def encode_source(self, text: str, target: str, limit: int | None = None) -> list[int]:
        """[prefix of the target language] + pieces of the cleaned text, made plain (`cleaning.plain_source`), + [end].

        Raises UnknownTargetError, the errors of `checked_text`, and TextTooLongError beyond `limit` tokens.
        """
        if not isinstance(target, str) or target not in self._prefix_ids:
            raise UnknownTargetError(target, self.targets)
        return self._encode(text, "text", [self._prefix_ids[target]], limit, plain_source)

    def encode_target(self, text: str, limit: int | None = None) -> list[int]:
        """Pieces of the cleaned text + [end]. Raises the errors of `checked_text`, and TextTooLongError beyond `limit` tokens."""
        return self._encode(text, "translation", [], limit)

    def decode(self, ids: Sequence[int], side: Side = "target") -> str:
        """The text of these ids, cleaned like a typed one; special tokens are left out, bytes that form no character become U+FFFD.

        Source and target share one vocabulary, so `side` changes nothing here. Raises ValueError for an id outside the vocabulary.
        """
        self._display.check(ids)
        return clean_text(self._sp.decode([int(i) for i in ids if i not in self._special_ids]))

    def tokens(self, ids: Sequence[int], side: Side = "target") -> tuple[str, ...]:
        """One printable string per id. SentencePiece's space mark stays ("▁Je"); special tokens read "<s>", "</s>", "<pad>", ">>fra<<".

        The byte pieces of one character read "😀 1/4", "😀 2/4", ...; a byte that belongs to no character reads "<0xE4>"; an invisible
        character reads "<U+200D>"; a combining mark is drawn on "◌". Raises ValueError for an id outside the vocabulary.
        """
        return self._display.tokens(ids)

    def groups(self, ids: Sequence[int], side: Side = "target") -> tuple[TokenGroup, ...]:
        """The same as units: byte pieces of one character joined, everything else alone. The spans cover every position, in order.

        Raises ValueError for an id outside the vocabulary.
        """
        return self._display.groups(ids)

    def _encode(self, text: str, name: str, prefix: list[int], limit: int | None, plain: Callable[[str], str] = str) -> list[int]:
        if isinstance(text, str) and len(text) > MAX_CHARACTERS and limit is not None:
            beginning = len(self._sp.encode(clean_text(text[:MAX_CHARACTERS]))) + len(prefix) + 1
            raise TextTooLongError(max(beginning, limit + 1), limit)
        ids = [*prefix, *self._sp.encode(plain(checked_text(text, name))), self.eos_id]
        check_length(len(ids), limit)
        return ids


def load_sentencepiece(path: Path) -> SentencePieceProcessor:
    """Raises CheckpointMissingError, or CheckpointCorruptError if the file is damaged."""
    try:
        proto = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointMissingError(path.name) from None
    except OSError as error:
        raise CheckpointCorruptError(path.name, because("unreadable", why=error.strerror)) from error
    if not proto:  # SentencePiece takes no bytes for a model without pieces
        raise CheckpointCorruptError(path.name, because("empty"))
    try:
        return SentencePieceProcessor(model_proto=proto)
    except (RuntimeError, ValueError, TypeError) as error:
        raise CheckpointCorruptError(path.name, because("no_sentencepiece")) from error


def byte_value(piece: str) -> int:
    """228 for the byte piece "<0xE4>"."""
    return int(piece[3:-1], 16)


def check_length(num_tokens: int, limit: int | None) -> None:
    """Raises TextTooLongError."""
    if limit is not None and num_tokens > limit:
        raise TextTooLongError(num_tokens, limit)
