"""Scores on held-out sentences: BLEU and chrF by sacrebleu, all references, each source once."""

from __future__ import annotations

from collections.abc import Iterable

import sacrebleu
from tqdm import tqdm

from model.training.corpus import Pair, with_references
from model.translator import Translator

# sacrebleu's tokenizer for Chinese counts characters; for everything else its default, 13a.
_TOKENIZER = {"cmn": "zh"}

# Sentences every card shows, good or bad: the worked examples, then what small translators find hard.
EXAMPLES = (
    "I am a student.",
    "I love you.",
    "Where is the nearest station?",
    "He was born in 1992 and moved to Boston in 2014.",
    "My friend Olivia gave me a book about the history of mathematics.",
    "hello",
    "I LOST MY KEYS",
    "If I had known that you were coming, I would have cooked something.",
    "The cat sat on the mat. The dog slept.",
)


def evaluate(translator: Translator, pairs: Iterable[Pair], beam_size: int = 4, limit: int | None = None) -> dict[str, dict[str, object]]:
    """Scores per target: {"bleu", "chrf", "signature", "sentences", "unfinished"}.

    `limit` scores only the first sources of each language, `unfinished` counts translations that ran into the length limit.
    """
    results: dict[str, dict[str, object]] = {}
    for target, references in with_references(pairs).items():
        sources = list(references)[:limit]
        translations = [translator.translate(source, target, beam_size) for source in tqdm(sources, desc=target, unit="sentence")]
        results[target] = score([t.text for t in translations], [references[source] for source in sources], target)
        results[target]["unfinished"] = sum(not t.finished for t in translations)
    return results


def score(hypotheses: list[str], references: list[list[str]], target: str) -> dict[str, object]:
    """Corpus BLEU and chrF of hypotheses against any number of references each."""
    most = max(map(len, references))
    # sacrebleu wants one list per reference number; a sentence with fewer references has None there.
    columns = [[refs[i] if i < len(refs) else None for refs in references] for i in range(most)]
    bleu = sacrebleu.BLEU(tokenize=_TOKENIZER.get(target, "13a"))
    result = bleu.corpus_score(hypotheses, columns)
    chrf = sacrebleu.corpus_chrf(hypotheses, [[refs[i % len(refs)] for refs in references] for i in range(most)])
    return {
        "bleu": round(result.score, 2),
        "chrf": round(chrf.score, 2),
        "signature": str(bleu.get_signature()),
        "sentences": len(hypotheses),
    }


def examples(translator: Translator, beam_size: int = 4) -> dict[str, dict[str, str]]:
    """target -> sentence -> translation, for EXAMPLES."""
    return {target: {text: translator.translate(text, target, beam_size).text for text in EXAMPLES} for target in translator.targets}
