"""How a Marian checkpoint is decoded: its own defaults, in the words of our decoders."""

from __future__ import annotations

from model.decoding import SearchRules
from model.marian.config import GenerationDefaults


def search_rules(defaults: GenerationDefaults) -> SearchRules:
    """The rules of transformers' `generate` with the choices of this checkpoint.

    Pass them with `banned_ids=defaults.bad_word_ids`, and a beam size, length penalty and limit, to get what `generate` gets.
    """
    return SearchRules(
        renormalize=defaults.renormalize_logits,
        forced_last_id=defaults.forced_eos_id,
        early_stopping=defaults.early_stopping,
        cut_may_win=True,
    )


def max_new_tokens(defaults: GenerationDefaults, max_len: int) -> int:
    """The longest output in tokens, end included, that the checkpoint allows and the model has positions for (`max_len`).

    `max_length` counts the start token. Where no file says it, all positions: transformers' 20 tokens would cut sentences in two.
    """
    return max_len if defaults.max_length is None else max(1, min(defaults.max_length - 1, max_len))
