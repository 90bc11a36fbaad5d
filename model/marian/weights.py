"""Marian's tensors into our Transformer: one table of names, the rules for embeddings that are stored once, twice or not at all."""

# V source vocabulary, Vd target vocabulary, D d_model, P positions

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from model.checkpoint import check_keys, check_tensor
from model.config import TransformerConfig
from model.marian.config import MarianConfig
from model.marian.files import read_tensors
from model.positional import sinusoidal_table
from model.transformer import Transformer

SHARED = "model.shared.weight"
SRC_EMBEDDING, TGT_EMBEDDING = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
OUTPUT, OUTPUT_BIAS = "lm_head.weight", "final_logits_bias"
SRC_POSITIONS, TGT_POSITIONS = "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"
# Left by ancestors of the format; they never held weights.
_MEANINGLESS = ("model.encoder.version", "model.decoder.version")
# Inside a layer: Marian's name, ours. Attentions have four projections each.
_ATTENTIONS = {"self_attn": "self_attn", "encoder_attn": "cross_attn"}
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
_NORMS = {"self_attn_layer_norm": "self_attn_norm", "encoder_attn_layer_norm": "cross_attn_norm", "final_layer_norm": "feed_forward_norm"}
_LINEAR = {"fc1": "feed_forward.linear1", "fc2": "feed_forward.linear2"}

_SAME_POSITIONS = 1e-3  # what a table loses that was kept in half precision


@dataclass(frozen=True)
class LoadWarning:
    """Something about a checkpoint that its user should know. `code` is stable; `detail` holds the names concerned; str() is English.

    "tie_conflict"   matrices that the configuration says are one differ in the file; `detail` names those that were left out
    "not_applied"    rules of generation that the checkpoint asks for and that are not built here
    "own_positions"  the file's table of positions is not that of sines and cosines; `detail` is the largest difference
    """

    code: str
    detail: str

    def __str__(self) -> str:
        if self.code == "tie_conflict":
            return f"The file holds other values for matrices that should be one, and these were left out: {self.detail}."
        if self.code == "own_positions":
            return f"The file's table of positions differs from that of sines and cosines by up to {self.detail}."
        return f"The model asks for rules of generation that are not applied here: {self.detail}."


@dataclass(frozen=True)
class LoadedMarian:
    model: Transformer
    warnings: tuple[LoadWarning, ...] = ()


def load_marian(folder: Path, config: MarianConfig, device: str | torch.device = "cpu") -> LoadedMarian:
    """The model in `folder`, in float32 on `device`, in evaluation mode.

    Raises the errors of `model.marian.files.read_tensors`, and CheckpointCorruptError for a tensor left over on either side, a shape that
    does not fit the configuration or a weight that is not a finite number.
    """
    tensors, file = read_tensors(folder)
    state, positions, left_out = translated(tensors, config, file)
    with torch.device("meta"):  # no memory and no random numbers for weights that are replaced at once
        model = Transformer(config.transformer)
    model.load_state_dict(state, assign=True)
    # A table in the file goes before the formula, as in transformers: old files hold one.
    formula = sinusoidal_table(config.transformer.max_len, config.transformer.d_model, config.transformer.position_layout)
    src_positions, tgt_positions = (formula if table is None else table for table in positions)
    model.positions = src_positions
    if not torch.equal(src_positions, tgt_positions):
        model.tgt_positions = tgt_positions
    warnings = [LoadWarning("tie_conflict", ", ".join(left_out))] if left_out else []
    if config.generation.not_applied:
        warnings.append(LoadWarning("not_applied", ", ".join(config.generation.not_applied)))
    difference = max(float((table - formula).abs().max()) for table in (src_positions, tgt_positions))
    if not difference <= _SAME_POSITIONS:
        warnings.append(LoadWarning("own_positions", f"{difference:.2g}"))
    return LoadedMarian(model.to(device).eval(), tuple(warnings))


def translated(
    tensors: dict[str, Tensor], config: MarianConfig, file: str = "model.safetensors"
) -> tuple[dict[str, Tensor], tuple[Tensor | None, Tensor | None], list[str]]:
    """(state dict of our Transformer, stored tables [P, D] of encoder and decoder, names of matrices that contradicted others).

    All copies in float32. `tensors` is emptied on the way, so that a large file is not in memory twice.
    Raises CheckpointCorruptError, naming `file`, for a key or shape that does not fit.
    """
    sizes = config.transformer
    d_model, vocab_size, tgt_vocab_size = sizes.d_model, sizes.encoder.vocab_size, sizes.decoder.vocab_size
    # Walked one by one and stopped at the first gap, whatever number of layers a damaged configuration names.
    layers = []
    for names in layer_keys(sizes):
        check_keys(file, missing=[names[0]] if names[0] not in tensors else [], unknown=[])
        layers.append(names)
    outside = {SRC_EMBEDDING, TGT_EMBEDDING, OUTPUT, OUTPUT_BIAS, SRC_POSITIONS, TGT_POSITIONS, *_MEANINGLESS}
    if config.share_vocab:
        outside.add(SHARED)
    check_keys(file, missing=[], unknown=sorted(set(tensors) - {name for name, _, _ in layers} - outside))

    def take(name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = tensors.pop(name)
        check_tensor(file, name, tensor, shape)
        return tensor.to(torch.float32, copy=True).contiguous()

    # Those too that are left out when tied: they are compared.
    for name, rows in ((SHARED, vocab_size), (SRC_EMBEDDING, vocab_size), (TGT_EMBEDDING, tgt_vocab_size), (OUTPUT, tgt_vocab_size)):
        if name in tensors:
            check_tensor(file, name, tensors[name], (rows, d_model))
    sources, left_out = embedding_sources(tensors, config, file)
    matrices = {name: take(name, tensors[name].shape) for name in dict.fromkeys(sources.values())}
    state = {ours: take(name, shape) for name, ours, shape in layers}
    state["src_embedding.tokens.weight"] = matrices[sources[SRC_EMBEDDING]]
    state["tgt_embedding.tokens.weight"] = matrices[sources[TGT_EMBEDDING]]
    if not config.tie_embeddings:
        state["output_weight"] = matrices[sources[OUTPUT]]
    # One row, as transformers writes it; a vector says the same. None: no bias, which is a bias of zero.
    bias = tensors.get(OUTPUT_BIAS)
    bias_shape = (tgt_vocab_size,) if bias is not None and bias.dim() == 1 else (1, tgt_vocab_size)
    state["output_bias"] = torch.zeros(tgt_vocab_size) if bias is None else take(OUTPUT_BIAS, bias_shape).reshape(-1)
    src_positions, tgt_positions = (
        take(name, (sizes.max_len, d_model)) if name in tensors else None for name in (SRC_POSITIONS, TGT_POSITIONS)
    )
    return state, (src_positions, tgt_positions), left_out


def embedding_sources(stored: Mapping[str, Tensor], config: MarianConfig, file: str) -> tuple[dict[str, str], list[str]]:
    """(for the source embedding, the target embedding and the output projection: the stored matrix to take; those that contradict it).

    Tied matrices may be stored once, under any of their names, or under several; where those differ, the first of these wins: `shared`,
    target embedding, output projection, source embedding. (transformers 5 keeps them apart, and some repositories whose matrices
    differ by mistake come out as noise there.) Raises CheckpointCorruptError if one is missing.
    """
    if config.share_vocab and config.tie_embeddings:
        choices = dict.fromkeys((SRC_EMBEDDING, TGT_EMBEDDING, OUTPUT), (SHARED, TGT_EMBEDDING, OUTPUT, SRC_EMBEDDING))
    elif config.tie_embeddings:
        choices = {SRC_EMBEDDING: (SRC_EMBEDDING,)} | dict.fromkeys((TGT_EMBEDDING, OUTPUT), (TGT_EMBEDDING, OUTPUT))
    elif config.share_vocab:
        # Untied, `shared` is unused, unless a file of transformers 4 has nothing else for the embeddings.
        choices = {SRC_EMBEDDING: (SRC_EMBEDDING, SHARED), TGT_EMBEDDING: (TGT_EMBEDDING, SHARED), OUTPUT: (OUTPUT,)}
    else:
        choices = {name: (name,) for name in (SRC_EMBEDDING, TGT_EMBEDDING, OUTPUT)}
    present = {name: [choice for choice in names if choice in stored] for name, names in choices.items()}
    check_keys(file, missing=[choices[name][0] for name, found in present.items() if not found][:1], unknown=[])
    contradicting = []
    if config.tie_embeddings:
        for chosen, *others in present.values():
            contradicting += [name for name in others if not torch.equal(stored[name].float(), stored[chosen].float())]
    return {name: found[0] for name, found in present.items()}, list(dict.fromkeys(contradicting))


def layer_keys(config: TransformerConfig) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """(Marian's name, ours, shape) of every tensor inside a layer: 16 in each of the encoder, 26 in each of the decoder."""
    d_model = config.d_model
    for side, stack in (("encoder", config.encoder), ("decoder", config.decoder)):
        for layer in range(stack.num_layers):
            for marian, ours, out_size, in_size in _modules(side, d_model, stack.d_ff):
                shapes = (out_size, in_size) if in_size else (out_size,), (out_size,)
                for part, shape in zip(("weight", "bias"), shapes, strict=True):
                    yield f"model.{side}.layers.{layer}.{marian}.{part}", f"{side}.{layer}.{ours}.{part}", shape


def _modules(side: str, d_model: int, d_ff: int) -> Iterator[tuple[str, str, int, int]]:
    """(Marian's name, ours, outputs, inputs) of every module with weights in a layer; a norm has no inputs."""
    for marian, ours in _ATTENTIONS.items():
        if side == "decoder" or marian == "self_attn":
            yield from ((f"{marian}.{part}", f"{ours}.{part}", d_model, d_model) for part in _PROJECTIONS)
    for marian, ours in _NORMS.items():
        if side == "decoder" or not marian.startswith("encoder_attn"):
            yield marian, ours, d_model, 0
    yield "fc1", _LINEAR["fc1"], d_ff, d_model
    yield "fc2", _LINEAR["fc2"], d_model, d_ff
