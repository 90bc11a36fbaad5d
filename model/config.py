"""The one description of a Transformer: sizes and the few choices that change the computation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

ACTIVATIONS = ("relu", "gelu", "silu")
NORMS = ("post", "pre")
POSITION_LAYOUTS = ("interleaved", "halves")


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes as Vaswani et al. (2017) name them; the defaults are their base model.

    vocab_size        V, of the source, and of the target too unless tgt_vocab_size differs
    norm              "post": LayerNorm(x + Sublayer(x)), as in 2017; "pre": x + Sublayer(LayerNorm(x)) with a final norm
    position_layout   "interleaved": sin, cos, sin, cos, ... (the paper); "halves": all sines, then all cosines (Marian)
    scale_embedding   multiply token embeddings by sqrt(d_model) before positions are added (paper, section 3.4)
    tie_embeddings    source embedding, target embedding and output projection are one matrix (paper, section 3.4)
    tie_output        where tie_embeddings is false: the target embedding and the output projection are still one matrix
    output_bias       a bias on the logits (Marian has one, the paper does not)
    max_len           positions in the sinusoidal table: the longest source or target in tokens
    bos_id            what decoding starts from (Marian starts from pad_id)

    The two stacks are alike in the paper. Where a checkpoint's are not, num_decoder_heads, decoder_d_ff and tgt_vocab_size hold what
    the decoder has instead; None is "as the encoder". Read either side through `encoder` and `decoder`.

    Raises ValueError for values that describe no model.
    """

    vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    d_ff: int = 2048
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation: str = "relu"
    norm: str = "post"
    position_layout: str = "interleaved"
    max_len: int = 512
    scale_embedding: bool = True
    tie_embeddings: bool = True
    output_bias: bool = False
    layer_norm_eps: float = 1e-5
    pad_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    unk_id: int = 3
    num_decoder_heads: int | None = None
    decoder_d_ff: int | None = None
    tgt_vocab_size: int | None = None
    tie_output: bool = False

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "d_ff", "max_len"):
            if not _is_size(getattr(self, name)):
                raise ValueError(f"{name} must be a positive whole number, not {getattr(self, name)!r}")
        for name in ("num_decoder_heads", "decoder_d_ff", "tgt_vocab_size"):
            if getattr(self, name) is not None and not _is_size(getattr(self, name)):
                raise ValueError(f"{name} must be a positive whole number or nothing, not {getattr(self, name)!r}")
        if self.d_model % 2:
            raise ValueError(f"d_model must be even, since sines and cosines come in pairs; it is {self.d_model}")
        for stack in (self.encoder, self.decoder):
            if self.d_model % stack.num_heads:
                raise ValueError(f"d_model {self.d_model} cannot be split into {stack.num_heads} heads of equal width")
        for name in ("dropout", "attention_dropout"):
            if not _is_number(getattr(self, name)) or not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must lie in [0, 1), not {getattr(self, name)!r}")
        for name, allowed in (("activation", ACTIVATIONS), ("norm", NORMS), ("position_layout", POSITION_LAYOUTS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        if not _is_number(self.layer_norm_eps) or not 0.0 < self.layer_norm_eps < math.inf:
            raise ValueError(f"layer_norm_eps must be positive and finite, not {self.layer_norm_eps!r}")
        for name in ("scale_embedding", "tie_embeddings", "tie_output", "output_bias"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, not {getattr(self, name)!r}")
        if self.tie_embeddings and self.decoder.vocab_size != self.vocab_size:
            raise ValueError(f"vocabularies of {self.vocab_size} and {self.decoder.vocab_size} cannot share one matrix (tie_embeddings)")
        # The unknown token never comes out of the decoder: only the source needs it.
        for name, vocab_size in (
            *((name, self.vocab_size) for name in ("pad_id", "bos_id", "eos_id", "unk_id")),
            *((name, self.decoder.vocab_size) for name in ("pad_id", "bos_id", "eos_id")),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < vocab_size:
                raise ValueError(f"{name} {value!r} lies outside the vocabulary of {vocab_size}")

    @property
    def encoder(self) -> StackSizes:
        return StackSizes(self.num_encoder_layers, self.num_heads, self.d_ff, self.vocab_size)

    @property
    def decoder(self) -> StackSizes:
        return StackSizes(
            self.num_decoder_layers,
            self.num_heads if self.num_decoder_heads is None else self.num_decoder_heads,
            self.d_ff if self.decoder_d_ff is None else self.decoder_d_ff,
            self.vocab_size if self.tgt_vocab_size is None else self.tgt_vocab_size,
        )

    @property
    def head_dim(self) -> int:
        """d_k = d_model / num_heads, of the encoder."""
        return self.d_model // self.num_heads


@dataclass(frozen=True)
class StackSizes:
    """What may differ between encoder and decoder. `vocab_size` is that of the ids which the stack reads."""

    num_layers: int
    num_heads: int
    d_ff: int
    vocab_size: int


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# Vaswani et al. (2017), table 3; 37,000 shared English-German pieces (section 5.1).
PRESETS: dict[str, TransformerConfig] = {
    "base": TransformerConfig(vocab_size=37_000),
    "big": TransformerConfig(vocab_size=37_000, d_model=1024, num_heads=16, d_ff=4096, dropout=0.3),
}


def preset(name: str, **changes: object) -> TransformerConfig:
    """A preset by name, with fields changed. Raises ValueError for an unknown name or an impossible change."""
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}: choose one of {', '.join(PRESETS)}")
    return replace(PRESETS[name], **changes)


def count_parameters(config: TransformerConfig) -> dict[str, int]:
    """Trainable parameters by part, from the configuration alone; the values sum to the module's total.

    The sinusoidal table has none. A matrix that is tied is counted once, under `embedding`.
    """
    d_model, encoder, decoder = config.d_model, config.encoder, config.decoder
    attention = 4 * (d_model * d_model + d_model)
    norm = 2 * d_model
    final_norm = norm if config.norm == "pre" else 0
    output_tied = config.tie_embeddings or config.tie_output

    def feed_forward(d_ff: int) -> int:
        return d_model * d_ff + d_ff + d_ff * d_model + d_model

    return {
        "embedding": (encoder.vocab_size + (0 if config.tie_embeddings else decoder.vocab_size)) * d_model,
        "encoder_self_attention": encoder.num_layers * attention,
        "encoder_feed_forward": encoder.num_layers * feed_forward(encoder.d_ff),
        "encoder_norm": encoder.num_layers * 2 * norm + final_norm,
        "decoder_self_attention": decoder.num_layers * attention,
        "cross_attention": decoder.num_layers * attention,
        "decoder_feed_forward": decoder.num_layers * feed_forward(decoder.d_ff),
        "decoder_norm": decoder.num_layers * 3 * norm + final_norm,
        "output_projection": (0 if output_tied else decoder.vocab_size * d_model) + (decoder.vocab_size if config.output_bias else 0),
    }
