"""What attention costs: many heads against one, and memory of the weights against length.

h heads of width d_model / h take the parameters and operations of one head of width d_model (Vaswani et al. 2017, section 3.2.2);
the weights grow with the square of the length, where a recurrent net takes a serial step per token instead (section 4, table 1).
"""

# T queries, S keys, D d_model, K head_dim

from __future__ import annotations

from dataclasses import dataclass

from model.config import TransformerConfig

BYTES_PER_WEIGHT = 4  # float32


@dataclass(frozen=True)
class HeadCount:
    """One attention with `num_heads` heads of width `head_dim`, T queries and S keys.

    parameters    of the four maps with their biases
    projections   floating-point operations (two for a multiply-add) of q, k, v and the output
    scores        operations of all q.k; sums of values take as many
    weights       numbers that come out of softmax: these do grow with the heads
    """

    num_heads: int
    head_dim: int
    parameters: int
    projections: int
    scores: int
    weights: int


def head_count(d_model: int, num_heads: int, queries: int, keys: int) -> HeadCount:
    """Added up head by head: each has its own slices of q, k and v; the output joins them.

    Raises ValueError if the heads don't divide d_model.
    """
    if num_heads < 1 or d_model % num_heads:
        raise ValueError(f"d_model {d_model} cannot be split into {num_heads} heads of equal width")
    head_dim = d_model // num_heads
    one_map = d_model * head_dim
    return HeadCount(
        num_heads,
        head_dim,
        parameters=num_heads * 3 * (one_map + head_dim) + (num_heads * one_map + d_model),
        projections=2 * num_heads * (2 * queries + 2 * keys) * one_map,
        scores=2 * num_heads * queries * keys * head_dim,
        weights=num_heads * queries * keys,
    )


def offered_heads(d_model: int, num_heads: int) -> tuple[int, ...]:
    """1, 2, 4, ... as far as a head is at least 8 wide, and the model's own number."""
    powers = (2**power for power in range(d_model.bit_length()))
    return tuple(sorted({heads for heads in powers if d_model % heads == 0 and d_model // heads >= 8} | {1, num_heads}))


def weight_bytes(config: TransformerConfig, kind: str, src_len: int, tgt_len: int) -> int:
    """Bytes of the attention weights of one layer and one sentence, float32: heads x queries x keys x 4. Raises ValueError."""
    if kind == "encoder_self":
        return config.encoder.num_heads * src_len * src_len * BYTES_PER_WEIGHT
    if kind == "decoder_self":
        return config.decoder.num_heads * tgt_len * tgt_len * BYTES_PER_WEIGHT
    if kind == "cross":
        return config.decoder.num_heads * tgt_len * src_len * BYTES_PER_WEIGHT
    raise ValueError(f"unknown kind of attention {kind!r}")


def layers_of(config: TransformerConfig, kind: str) -> int:
    """Layers that have this kind of attention."""
    return (config.encoder if kind == "encoder_self" else config.decoder).num_layers
