"""What it would cost to join the position to the embedding instead of adding it: parameters and operations, by the configuration alone.

The code that is joined is as wide as the one that is added, d_model. Tests hold all counts against real modules.
"""

# S src_len, T tgt_len, D d_model, V vocabulary

from __future__ import annotations

from dataclasses import dataclass, replace

from model.analysis.sizes import operations, places, times
from model.config import TransformerConfig

WAYS = ("added", "mapped", "wide")


@dataclass(frozen=True)
class Cost:
    """parameters: trainable ones of the whole model. operations: floating-point operations of one pass, see `operations`. width: of the
    vectors that go through the layers."""

    parameters: int
    operations: int
    width: int


def join_costs(config: TransformerConfig, src_len: int, tgt_len: int) -> dict[str, Cost]:
    """The whole model, by how it takes in positions, for one training pass over src_len source and tgt_len target tokens.

    "added"   as it is: no parameter and no matrix product, d_model additions for each token
    "mapped"  [embedding, position], 2 d_model wide, and a linear map back to d_model, one for each stack
    "wide"    the same, but left at 2 d_model through all layers (as many heads, the same d_ff); the output needs a matrix of its own,
              as states and embeddings are no longer equally wide
    Operations: 2 n m p for each product of [n, m] and [m, p], and one for each number that is added to an embedding.
    """
    d_model, tokens = config.d_model, src_len + tgt_len
    parameters = sum(place.count * times(config, name) for name, place in places(config).items())
    products = sum(count * times(config, name) for name, count in operations(config, src_len, tgt_len).items())
    maps = 2 * (2 * d_model * d_model + d_model)  # a matrix and a bias for each stack
    return {
        "added": Cost(parameters, products + tokens * d_model, d_model),
        "mapped": Cost(parameters + maps, products + 2 * tokens * 2 * d_model * d_model, d_model),
        "wide": _wide(config, src_len, tgt_len),
    }


def _wide(config: TransformerConfig, src_len: int, tgt_len: int) -> Cost:
    wide = replace(config, d_model=2 * config.d_model, tie_embeddings=False, tie_output=False)
    layers = {name: place for name, place in places(wide).items() if not name.endswith("_embedding")}
    embeddings = [place for name, place in places(config).items() if name.endswith("_embedding")]
    parameters = sum(place.count * times(wide, name) for name, place in layers.items()) + sum(place.count for place in embeddings)
    products = sum(count * times(wide, name) for name, count in operations(wide, src_len, tgt_len).items())
    return Cost(parameters, products, wide.d_model)
