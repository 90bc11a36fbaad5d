"""How large a Transformer is, place by place, from its configuration alone: parameters, shapes of what flows, operations of a pass.

No module is built, so that sizes which no server could hold are counted as quickly as any. Tests hold all of it against real modules.

A place is a part of the model as `model.transformer.Transformer` names it; what every layer of a stack has is named once:
"encoder.self_attn" stands for encoder.0.self_attn, encoder.1.self_attn and so on (`layer_places`).
"""

# S src_len, T tgt_len, D d_model, F d_ff, H heads, K head_dim, V vocabulary

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from model.config import StackSizes, TransformerConfig

Length = int | str  # a number of tokens, or a letter for one that is not known
Shape = tuple[Length, ...]
STACKS = ("encoder", "decoder")
ATTENTION = ("self_attn", "cross_attn")
MATRICES = ("q_proj", "k_proj", "v_proj", "out_proj")


@dataclass(frozen=True)
class Place:
    """The parameters of one place.

    tensors  name as in `Transformer.named_parameters` -> shape as PyTorch holds it ([out, in] for a linear map); "{layer}" stands for the
             number of the layer
    shared   the place whose matrix this one uses (tied weights), or ""
    """

    tensors: dict[str, tuple[int, ...]] = field(default_factory=dict)
    shared: str = ""

    @property
    def count(self) -> int:
        """Trainable parameters, of one layer. What is shared counts where it is first used."""
        return sum(math.prod(shape) for shape in self.tensors.values())


def sublayers(stack: str) -> tuple[str, ...]:
    """What a layer of "encoder" or "decoder" is made of, in the order of a pass."""
    return ("self_attn", "feed_forward") if stack == "encoder" else ("self_attn", "cross_attn", "feed_forward")


def layer_places(stack: str) -> tuple[str, ...]:
    """The places of one layer: every sublayer and its norm."""
    return tuple(f"{stack}.{name}{part}" for name in sublayers(stack) for part in ("_norm", ""))


def places(config: TransformerConfig) -> dict[str, Place]:
    """All places that this configuration has, in the order of a pass. Their counts, those of a layer's `times`, make up the model."""
    d_model, encoder, decoder = config.d_model, config.encoder, config.decoder
    found = {"src_embedding": _embedding("src_embedding", encoder, d_model), **_stack(config, "encoder")}
    tied = config.tie_embeddings
    found["tgt_embedding"] = Place(shared="src_embedding") if tied else _embedding("tgt_embedding", decoder, d_model)
    found |= _stack(config, "decoder")
    shared = "src_embedding" if tied else "tgt_embedding" if config.tie_output else ""
    weight = {} if shared else {"output_weight": (decoder.vocab_size, d_model)}
    bias = {"output_bias": (decoder.vocab_size,)} if config.output_bias else {}
    found["output"] = Place(weight | bias, shared)
    return found


def times(config: TransformerConfig, place: str) -> int:
    """How often the model has this place: once, or once in each layer of its stack."""
    stack, dot, _ = place.partition(".")
    return getattr(config, stack).num_layers if dot else 1


def total_parameters(config: TransformerConfig) -> int:
    """Trainable parameters of the whole model."""
    return sum(place.count * times(config, name) for name, place in places(config).items())


def tying(config: TransformerConfig) -> tuple[int | None, int]:
    """Trainable parameters with one matrix for both embeddings and the output (section 3.4 of the paper), and with three.

    The first is None where the two vocabularies differ in size, so that no matrix fits both.
    """
    one = None
    if config.encoder.vocab_size == config.decoder.vocab_size:
        one = total_parameters(replace(config, tie_embeddings=True, tie_output=False))
    return one, total_parameters(replace(config, tie_embeddings=False, tie_output=False))


def shapes(config: TransformerConfig, src_len: Length = "S", tgt_len: Length = "T") -> dict[str, Shape]:
    """Shapes of what flows through a pass over one sentence, without the axis of the batch.

    Of every stack "ids", "embedded" (and, after positions are added, "input"), "state" (between sublayers and layers), "final" (the
    encoder's is `memory`); of every attention "q", "k", "v" as they come out of the linear maps, "q_heads", "k_heads", "v_heads" split
    into heads, "scores" (and weights) [H, query, key], "joined", "output"; of every feed-forward "hidden"; "logits".
    Lengths are whole numbers, or letters that stand for them.
    """
    d_model, found = config.d_model, {}
    for stack, length in (("encoder", src_len), ("decoder", tgt_len)):
        sizes: StackSizes = getattr(config, stack)
        found[f"{stack}.ids"] = (length,)
        found |= {f"{stack}.{name}": (length, d_model) for name in ("embedded", "input", "state", "final")}
        found[f"{stack}.hidden"] = (length, sizes.d_ff)
        for name in sublayers(stack)[:-1]:
            keys = src_len if name == "cross_attn" else length
            head_dim = d_model // sizes.num_heads
            here = f"{stack}.{name}"
            found |= {f"{here}.q": (length, d_model), f"{here}.k": (keys, d_model), f"{here}.v": (keys, d_model)}
            found |= {f"{here}.q_heads": (sizes.num_heads, length, head_dim)}
            found |= {f"{here}.{part}_heads": (sizes.num_heads, keys, head_dim) for part in "kv"}
            found |= {f"{here}.scores": (sizes.num_heads, length, keys)}
            found |= {f"{here}.{part}": (length, d_model) for part in ("joined", "output")}
    found["logits"] = (tgt_len, config.decoder.vocab_size)
    return found


def operations(config: TransformerConfig, src_len: int, tgt_len: int) -> dict[str, int]:
    """Floating-point operations of the matrix products of one pass (training's: all target positions at once), by place; of layers of one.

    A product of [n, m] and [m, p] counts 2 n m p: one multiplication and one addition for each of n m p pairs. Biases, norms, softmax and
    activations are left out, as is common: beside the products they are few. Causal scores count whole, as they are computed.
    """
    d_model, found = config.d_model, {"src_embedding": 0, "tgt_embedding": 0}
    for stack, length in (("encoder", src_len), ("decoder", tgt_len)):
        for name in sublayers(stack)[:-1]:
            keys = src_len if name == "cross_attn" else length
            linear = 2 * (length + keys) * 2 * d_model * d_model  # q and out of every query, k and v of every key
            found[f"{stack}.{name}"] = linear + 2 * 2 * length * keys * d_model  # q k, and weights v: all heads together are d_model wide
        found[f"{stack}.feed_forward"] = 2 * 2 * length * d_model * getattr(config, stack).d_ff
    found["output"] = 2 * tgt_len * d_model * config.decoder.vocab_size
    return {name: found.get(name, 0) for name in places(config)}


def _embedding(name: str, sizes: StackSizes, d_model: int) -> Place:
    return Place({f"{name}.tokens.weight": (sizes.vocab_size, d_model)})


def _norm(name: str, d_model: int) -> Place:
    return Place({f"{name}.weight": (d_model,), f"{name}.bias": (d_model,)})


def _linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _stack(config: TransformerConfig, stack: str) -> dict[str, Place]:
    d_model, d_ff, found = config.d_model, getattr(config, stack).d_ff, {}
    for name in sublayers(stack):
        here = f"{stack}.{{layer}}.{name}"
        if name in ATTENTION:
            tensors = {key: shape for matrix in MATRICES for key, shape in _linear(f"{here}.{matrix}", d_model, d_model).items()}
        else:
            tensors = _linear(f"{here}.linear1", d_model, d_ff) | _linear(f"{here}.linear2", d_ff, d_model)
        found[f"{stack}.{name}_norm"] = _norm(f"{here}_norm", d_model)
        found[f"{stack}.{name}"] = Place(tensors)
    if config.norm == "pre":  # nothing else would normalise what the last layer adds
        found[f"{stack}_norm"] = _norm(f"{stack}_norm", d_model)
    return found
