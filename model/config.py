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

    vocab_size        V, shared by source and target
    norm              "post": LayerNorm(x + Sublayer(x)), as in 2017; "pre": x + Sublayer(LayerNorm(x)) with a final norm
    position_layout   "interleaved": sin, cos, sin, cos, ... (the paper); "halves": all sines, then all cosines (Marian)
    scale_embedding   multiply token embeddings by sqrt(d_model) before positions are added (paper, section 3.4)
    tie_embeddings    source embedding, target embedding and output projection are one matrix (paper, section 3.4)
    output_bias       a bias on the logits (Marian has one, the paper does not)
    max_len           positions in the sinusoidal table: the longest source or target in tokens

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

    def __post_init__(self) -> None:
        for name in ("vocab_size", "d_model", "num_heads", "num_encoder_layers", "num_decoder_layers", "d_ff", "max_len"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name} must be a positive whole number, not {value!r}")
        if self.d_model % 2:
            raise ValueError(f"d_model must be even, since sines and cosines come in pairs; it is {self.d_model}")
        if self.d_model % self.num_heads:
            raise ValueError(f"d_model {self.d_model} cannot be split into {self.num_heads} heads of equal width")
        for name in ("dropout", "attention_dropout"):
            if not _is_number(getattr(self, name)) or not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} must lie in [0, 1), not {getattr(self, name)!r}")
        for name, allowed in (("activation", ACTIVATIONS), ("norm", NORMS), ("position_layout", POSITION_LAYOUTS)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")
        if not _is_number(self.layer_norm_eps) or not 0.0 < self.layer_norm_eps < math.inf:
            raise ValueError(f"layer_norm_eps must be positive and finite, not {self.layer_norm_eps!r}")
        for name in ("scale_embedding", "tie_embeddings", "output_bias"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, not {getattr(self, name)!r}")
        for name in ("pad_id", "bos_id", "eos_id", "unk_id"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < self.vocab_size:
                raise ValueError(f"{name} {value!r} lies outside the vocabulary of {self.vocab_size}")

    @property
    def head_dim(self) -> int:
        """d_k = d_model / num_heads."""
        return self.d_model // self.num_heads


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

    The sinusoidal table has none. With tied embeddings one matrix is counted once, under `embedding`.
    """
    d_model, d_ff, vocab_size = config.d_model, config.d_ff, config.vocab_size
    attention = 4 * (d_model * d_model + d_model)
    feed_forward = d_model * d_ff + d_ff + d_ff * d_model + d_model
    norm = 2 * d_model
    pre = config.norm == "pre"
    encoder, decoder = config.num_encoder_layers, config.num_decoder_layers
    return {
        "embedding": vocab_size * d_model * (1 if config.tie_embeddings else 2),
        "encoder_self_attention": encoder * attention,
        "encoder_feed_forward": encoder * feed_forward,
        "encoder_norm": encoder * 2 * norm + (norm if pre else 0),
        "decoder_self_attention": decoder * attention,
        "cross_attention": decoder * attention,
        "decoder_feed_forward": decoder * feed_forward,
        "decoder_norm": decoder * 3 * norm + (norm if pre else 0),
        "output_projection": (0 if config.tie_embeddings else vocab_size * d_model) + (vocab_size if config.output_bias else 0),
    }
