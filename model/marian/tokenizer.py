"""Text to ids and back as Marian checkpoints do it: two SentencePiece models that cut, and vocab.json, which alone gives the ids."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from model.cleaning import checked_text, clean_text
from model.errors import CheckpointCorruptError, InvalidSettingError, TextTooLongError, UnknownTargetError
from model.marian.vocabulary import TARGET_VOCAB_FILE, VOCAB_FILE, read_settings, read_vocabulary
from model.reasons import because
from model.token_display import TokenDisplay, TokenGroup
from model.tokenizer import MAX_CHARACTERS, Side, byte_value, check_length, load_sentencepiece

SPACE_MARK = "▁"
UNKNOWN_LANGUAGE = "und"  # ISO 639-3, for a checkpoint that does not say what it translates into
# In this order. Meant for English, and wrong for French, which puts a space before a question mark.
_CLEAN_UP = ((" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"), (" n't", "n't"), (" 'm", "'m"), (" 's", "'s"))
_CLEAN_UP += ((" 've", "'ve"), (" 're", "'re"))


@dataclass(frozen=True)
class _SideFiles:
    """One side of the model: what cuts its text, and piece <-> id."""

    sp: SentencePieceProcessor
    ids: Mapping[str, int]
    unk_id: int
    pieces: Mapping[int, str]
    display: TokenDisplay


class MarianTokenizer:
    """The tokenizer of a Marian folder: source.spm, target.spm, vocab.json, target_vocab.json if it has separate vocabularies, and
    tokenizer_config.json if it is there.

    A model that translates into several languages has a token `>>code<<` for each in its vocabulary; these codes are then the `targets`,
    and the one chosen stands first in the source. Any other model has one target, taken from tokenizer_config.json or the end of `name`
    (such as "Helsinki-NLP/opus-mt-en-de"), and no prefix. The start token is the padding token unless `start_id` names another.

    Text is always text here: `</s>` or `>>fr<<` in a sentence is cut into pieces like any other characters, the text is cleaned
    (`model.cleaning`), and so is what is decoded. With `parity` all this is as in the transformers package: special tokens and a leading
    `>>code<<` in a text take effect, unknown codes become <unk>, and nothing is cleaned or refused for being empty.

    Punctuation is not normalised before cutting: transformers has code for it and never calls it. Read only after construction, so
    threads may share it.

    Raises CheckpointMissingError and CheckpointCorruptError, which name the file.
    """

    def __init__(self, folder: str | Path, *, name: str = "", parity: bool = False, start_id: int | None = None) -> None:
        folder = Path(folder)
        settings = read_settings(folder)
        source_ids = read_vocabulary(folder / VOCAB_FILE)
        target_ids = read_vocabulary(folder / TARGET_VOCAB_FILE) if settings.separate_vocabs else source_ids
        # All special ids, those of the target too, are those of vocab.json; only an unknown piece of the target is one of its own.
        special = {token: source_ids.get(token) for token in (settings.eos, settings.unk, settings.pad)}
        for token, i in special.items():
            if i is None:
                raise CheckpointCorruptError(VOCAB_FILE, because("lacks", what=token[:40]))
        if settings.unk not in target_ids:
            raise CheckpointCorruptError(TARGET_VOCAB_FILE, because("lacks", what=settings.unk[:40]))
        self.eos_id, self.unk_id, self.pad_id = (source_ids[token] for token in (settings.eos, settings.unk, settings.pad))
        self.bos_id = self.pad_id if start_id is None else start_id
        self.parity = parity
        self.model_max_length = settings.model_max_length
        self.source_lang, self.target_lang = settings.source_lang, settings.target_lang
        self._clean_up = settings.clean_up

        added = {**settings.added, **{source_ids[token]: token for token in special}}
        known = {**source_ids, **{token: i for i, token in added.items()}}
        self._special_tokens = frozenset(special) | (settings.special_added & known.keys())
        self._special_ids = frozenset(known[token] for token in self._special_tokens)
        self._added_ids = {token: known[token] for token in (*added.values(), *self._special_tokens)}
        by_length = sorted(self._added_ids, key=len, reverse=True)
        self._special_pattern = re.compile(f"({'|'.join(map(re.escape, by_length))})")

        self._sides: dict[Side, _SideFiles] = {
            "source": _side(folder / "source.spm", source_ids, source_ids[settings.unk], added),
            "target": _side(folder / "target.spm", target_ids, target_ids[settings.unk], added),
        }
        self.vocab_size, self.target_vocab_size = (max(side.pieces) + 1 for side in self._sides.values())
        self._code_ids = {token[2:-2]: i for token, i in source_ids.items() if len(token) > 4 and token[:2] == ">>" and token[-2:] == "<<"}
        self.targets: tuple[str, ...] = tuple(self._code_ids) or (self.target_lang or _target_of(name) or UNKNOWN_LANGUAGE,)
        # What no text may become.
        self._reserved_ids = self._special_ids - {self.unk_id} | frozenset(self._code_ids.values())
        # Padding, and ids that have no token. (The ids that a checkpoint bans are in its configuration.)
        self.never_generated = (self.pad_id, *(i for i in range(self.target_vocab_size) if i not in self._sides["target"].pieces))

    def encode_source(self, text: str, target: str, limit: int | None = None) -> list[int]:
        """[`>>target<<` if the model has several] + pieces + [end].

        With `parity` a target of "" adds nothing to what the text says. A `limit` beyond model_max_length is lowered to it.
        Raises UnknownTargetError, the errors of `checked_text` (without parity), and TextTooLongError beyond `limit` tokens.
        """
        limit = None if limit is None else min(limit, self.model_max_length)
        if self.parity and target == "":
            return self._encode("source", text, "text", [], limit)
        if not isinstance(target, str) or target not in self.targets:
            raise UnknownTargetError(target, self.targets)
        return self._encode("source", text, "text", [self._code_ids[target]] if self._code_ids else [], limit)

    def encode_target(self, text: str, limit: int | None = None) -> list[int]:
        """Pieces of target.spm + [end].

        Raises the errors of `checked_text` (without parity), and TextTooLongError beyond `limit` tokens."""
        return self._encode("target", text, "translation", [], limit)

    def decode(self, ids: Sequence[int], side: Side = "target") -> str:
        """The text of these ids. Left out are </s>, <unk> and <pad>, but not language codes in a translation; byte pieces are assembled,
        and bytes that form no character become U+FFFD.

        Without parity the text is cleaned like a typed one; in a source the language code is left out and an unknown piece reads "⁇".
        Raises ValueError for an id without a token.
        """
        part = self._sides[side]
        part.display.check(ids)
        if self.parity:
            text = self._join(part, [part.pieces[i] for i in ids if i not in self._special_ids])
        else:
            dropped = self._reserved_ids if side == "source" else self._special_ids
            pieces = (part.pieces[i] for i in ids if i not in dropped)
            text = self._join(part, [piece for piece in pieces if side == "source" or piece not in self._special_tokens])
        if self._clean_up:
            for spaced, joined in _CLEAN_UP:
                text = text.replace(spaced, joined)
        return text if self.parity else clean_text(text)

    def tokens(self, ids: Sequence[int], side: Side = "target") -> tuple[str, ...]:
        """One printable string per id, as `model.tokenizer.Tokenizer.tokens` has them: "▁Je", "</s>", ">>fra<<", "😀 1/4".

        Raises ValueError for an id without a token.
        """
        return self._sides[side].display.tokens(ids)

    def groups(self, ids: Sequence[int], side: Side = "target") -> tuple[TokenGroup, ...]:
        """The same as units: byte pieces of one character joined, everything else alone. Raises ValueError for an id without a token."""
        return self._sides[side].display.groups(ids)

    def _encode(self, side: Side, text: str, name: str, prefix: list[int], limit: int | None) -> list[int]:
        part = self._sides[side]
        if isinstance(text, str) and len(text) > MAX_CHARACTERS and limit is not None:
            beginning = len(part.sp.encode(clean_text(text[:MAX_CHARACTERS]))) + len(prefix) + 1
            raise TextTooLongError(max(beginning, limit + 1), limit)
        if self.parity:
            if not isinstance(text, str):
                raise InvalidSettingError(name, type(text).__name__, "a text (str)")
            ids = [self._added_ids.get(piece, part.ids.get(piece, part.unk_id)) for piece in self._cut_as_marked(part, text)]
        else:
            pieces = part.sp.encode(checked_text(text, name), out_type=str)
            ids = [i if (i := part.ids.get(piece, part.unk_id)) not in self._reserved_ids else part.unk_id for piece in pieces]
        ids = [*prefix, *ids, self.eos_id]
        check_length(len(ids), limit)
        return ids

    def _cut_as_marked(self, part: _SideFiles, text: str) -> list[str]:
        """The pieces of a text in which special tokens, and `>>...<<` at the start of each part between them, stand for themselves."""
        pieces: list[str] = []
        for chunk in self._special_pattern.split(text):
            if chunk in self._added_ids:
                pieces.append(chunk)
            elif chunk:
                end = chunk.find("<<") + 2 if chunk.startswith(">>") else 0
                if end > 2:
                    pieces.append(chunk[:end])
                    chunk = chunk[end:]
                pieces += part.sp.encode(chunk, out_type=str)
        return pieces

    def _join(self, part: _SideFiles, pieces: Sequence[str]) -> str:
        """Pieces to text. A special token that is one by its spelling alone, at an id of another vocabulary, parts what is joined."""
        text, run = "", []
        for piece in pieces:
            if self.parity and piece in self._special_tokens:
                text += part.sp.decode_pieces(run) + piece + " "
                run = []
            else:
                run.append(piece)
        # A piece that this SentencePiece model doesn't have comes back with its space mark.
        return (text + part.sp.decode_pieces(run)).replace(SPACE_MARK, " ").strip()


def _side(path: Path, ids: Mapping[str, int], unk_id: int, added: Mapping[int, str]) -> _SideFiles:
    sp = load_sentencepiece(path)
    pieces = {i: piece for piece, i in ids.items()} | dict(added)
    byte_values = {}
    for i, piece in pieces.items():
        if len(piece) == 6 and piece.startswith("<0x") and sp.is_byte(sp.piece_to_id(piece)):
            byte_values[i] = byte_value(piece)
    return _SideFiles(sp, ids, unk_id, pieces, TokenDisplay(pieces, byte_values))


def _target_of(name: str) -> str:
    """The language at the end of a model's name: "de" of "opus-mt-en-de"; "" if there is none."""
    found = re.search(r"-([a-z]{2,3}(?:_[A-Z][a-z]{3})?)$", name)
    return found[1] if found else ""
