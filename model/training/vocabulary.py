"""One SentencePiece vocabulary shared by all languages (Kudo 2018, unigram), with the target prefixes as control symbols."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import sentencepiece as spm

# Applied inside the SentencePiece model, so that training and use cannot differ: no-break and thin spaces become spaces, the typographic
# apostrophe the plain one. Nothing else: full-width Chinese punctuation has to survive.
NORMALIZATION = {"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u3000": " ", "\t": " ", "\n": " ", "\r": " ", "\u2019": "'"}


def train_vocabulary(sentences: Iterable[str], path: Path, size: int, targets: Sequence[str], character_coverage: float = 0.9999) -> None:
    """Trains `path` (a .model file) on `sentences`.

    Unigram with byte fallback, so no text is out of vocabulary; digits are split, so that numbers can be copied digit by digit.
    Every Chinese character of the data is made a piece. Ids 0 to 3 are <pad>, <s>, </s>, <unk>; then one >>code<< per target.
    Raises ValueError if the sentences give no vocabulary of this size.
    """
    sentences = list(sentences)
    chinese = sorted({ch for sentence in sentences for ch in sentence if _is_chinese(ch)})
    with TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        rules.write_text("".join(f"{ord(old):X}\t{ord(new):X}\n" for old, new in NORMALIZATION.items()), encoding="utf-8")
        prefix = Path(folder) / "vocabulary"
        try:
            spm.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_prefix=str(prefix),
                model_type="unigram",
                vocab_size=size,
                character_coverage=character_coverage,
                required_chars="".join(chinese),
                byte_fallback=True,
                split_digits=True,
                normalization_rule_tsv=str(rules),
                pad_id=0,
                bos_id=1,
                eos_id=2,
                unk_id=3,
                pad_piece="<pad>",
                control_symbols=[f">>{target}<<" for target in targets],
                num_threads=2,
                minloglevel=1,
            )
        except RuntimeError as error:
            raise ValueError(f"these {len(sentences):,} sentences give no vocabulary of {size:,} pieces: {error}") from error
        path.write_bytes(prefix.with_suffix(".model").read_bytes())


def _is_chinese(character: str) -> bool:
    # The unified ideographs with all their extensions, the compatibility ones, and the zero of "二〇一四年", which Unicode files elsewhere.
    return unicodedata.name(character, "").startswith("CJK UNIFIED") or "\uf900" <= character <= "\ufaff" or character == "〇"
