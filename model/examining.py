"""What a decoding wrote and the recorders of one pass over it saw, as the results that the facade returns."""

# T tgt_len, D d_model

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING

from model.analysis.norms import recorded_norms, shares
from model.errors import InvalidSettingError
from model.hooks import ATTENTION_KINDS, AttentionRecorder, ValueRecorder
from model.results import AttentionTrace, Examination, RunnerUps, Translation

if TYPE_CHECKING:
    from model.config import StackSizes, TransformerConfig
    from model.decoding import Hypothesis
    from model.marian.tokenizer import MarianTokenizer
    from model.tokenizer import Tokenizer
    from model.transformer import Transformer

START = "<s>"


def recorded_trace(model: Transformer, attention: AttentionRecorder, translation: Translation) -> AttentionTrace:
    """All maps. Raises KeyError if a kind was not recorded."""
    maps = (attention.stack(kind)[:, 0].float().cpu().numpy() for kind in ATTENTION_KINDS)  # [L, H, T, S]
    return AttentionTrace(*maps, translation.src_tokens, translation.tgt_in_tokens, translation.tgt_out_tokens, model.causal)


def recorded_examination(
    model: Transformer, attention: AttentionRecorder, values: ValueRecorder, runner_ups: Sequence[RunnerUps], translation: Translation
) -> Examination:
    """The maps, norm-weighted attention, and runner-ups that were found already. Raises KeyError if a site was not recorded."""
    norms = recorded_norms(model, attention, values).layers
    shares_of = {kind: shares(norms[kind]) for kind in norms}
    return Examination(recorded_trace(model, attention, translation), shares_of, tuple(runner_ups))


def as_translation(
    tokenizer: Tokenizer | MarianTokenizer, target: str, src_ids: Sequence[int], hypothesis: Hypothesis, forced: bool
) -> Translation:
    """What was written, or was given (forced), with the names of its tokens."""
    tgt_ids = hypothesis.token_ids
    # What starts the target is called "<s>" here, also where a checkpoint uses its padding for that, as Marian's do. The rest is named
    # as one sequence, so that a character cut between bytes reads the same in both rows of labels.
    tgt_tokens = (START, *tokenizer.tokens(tgt_ids))
    return Translation(
        source_text=tokenizer.decode(src_ids, side="source"),
        target=target,
        text=tokenizer.decode(tgt_ids),
        src_ids=tuple(src_ids),
        tgt_ids=tgt_ids,
        src_tokens=tokenizer.tokens(src_ids, side="source"),
        tgt_in_tokens=tgt_tokens[:-1],
        tgt_out_tokens=tgt_tokens[1:],
        token_log_probs=hypothesis.token_log_probs,
        score=hypothesis.score,
        forced=forced,
        finished=hypothesis.finished,
    )


def check_translation(translation: object, config: TransformerConfig) -> None:
    """Raises InvalidSettingError for anything but a translation that a model of this shape can read."""
    if not isinstance(translation, Translation):
        raise InvalidSettingError("translation", type(translation).__name__, "what translate() or force() returned")
    for name, stack in (("src_ids", config.encoder), ("tgt_ids", config.decoder)):
        check_ids(name, getattr(translation, name), stack, config.max_len)


def check_ids(name: str, ids: Sequence[int], stack: StackSizes, max_len: int) -> None:
    """Raises InvalidSettingError."""
    try:
        whole = [operator.index(i) for i in ids]
    except TypeError:
        raise InvalidSettingError(name, ids, "a sequence of token ids") from None
    if not 1 <= len(whole) <= max_len:
        raise InvalidSettingError(name, f"{len(whole)} tokens", f"1 to {max_len} tokens, as this model has positions")
    if not all(0 <= i < stack.vocab_size for i in whole):
        raise InvalidSettingError(name, "an id beyond the vocabulary", "a translation that this model made")
