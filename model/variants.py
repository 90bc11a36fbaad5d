"""A model with one piece of its arithmetic taken away, over the same weights: to see what the piece is for."""

from __future__ import annotations

import copy

from model.attention import MultiHeadAttention
from model.errors import InvalidSettingError
from model.transformer import Embedding, Transformer

# score_scale      scores are q.k, not q.k / sqrt(d_k) (2017, section 3.2.1)
# embedding_scale  token embeddings are not multiplied by sqrt(d_model) (section 3.4)
# causal_mask      every position of the decoder sees all that the decoder reads, later tokens too (section 3.2.3)
# positions        nothing is added that says where a token stands (section 3.5)
PARTS = ("score_scale", "embedding_scale", "causal_mask", "positions")


def without(model: Transformer, part: str) -> Transformer:
    """The same model, one of PARTS left out. All parameters are shared and `model` stays as it is, so this costs no memory to speak of.

    A part that the model never had (a checkpoint that doesn't scale its embeddings) changes nothing.
    Raises InvalidSettingError for anything but one of PARTS.
    """
    if not isinstance(part, str) or part not in PARTS:
        raise InvalidSettingError("without", part, ", ".join(PARTS))
    variant = own_modules(model)
    if part == "causal_mask":
        variant.causal = False
    elif part == "positions":
        table = model.positions
        variant.positions = table.new_zeros(1, table.shape[1]).expand_as(table)  # one row of zeros, seen as many
        variant.tgt_positions = None
    for module in variant.modules():
        if part == "score_scale" and isinstance(module, MultiHeadAttention):
            module.scale_scores = False
        elif part == "embedding_scale" and isinstance(module, Embedding):
            module.scale = 1.0
    return variant


def own_modules(model: Transformer) -> Transformer:
    """The same model with modules of its own, which can be changed or watched while others compute with `model`. The weights are shared."""
    # deepcopy takes for done what its memo holds already
    return copy.deepcopy(model, {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())})
