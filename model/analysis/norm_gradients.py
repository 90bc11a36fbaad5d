"""Gradient norm by depth at initialisation: why post-norm wants warm-up and pre-norm does not (Xiong et al. 2020, arXiv:2002.04745).

Real modules at their random start and a real backward pass, only small: of width 64, on random tokens. What decides is where the norms
stand and how many layers there are, not the width or the words.
"""

# B batch, T tokens, L layers

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from model.config import NORMS, TransformerConfig
from model.transformer import Transformer

SEEDS = (0, 1, 2)
MAX_DEPTH = 18
WIDTH, HEADS, D_FF, VOCABULARY = 64, 4, 256, 200
BATCH, LENGTH = 4, 12


@dataclass(frozen=True, eq=False)
class NormGradients:
    """Frobenius norms of the gradient of each layer's second feed-forward matrix, float32 [seed, layer], by "post" and "pre".

    It is the matrix that Xiong et al. look at (theorem 1); its gradient needs no path but the one down through the layers above.
    """

    encoder: dict[str, np.ndarray]
    decoder: dict[str, np.ndarray]


def norm_gradients(encoder_layers: int, decoder_layers: int, activation: str = "relu", seeds: tuple[int, ...] = SEEDS) -> NormGradients:
    """Raises ValueError for a depth outside 1 .. MAX_DEPTH, no seed, or an unknown activation."""
    for depth in (encoder_layers, decoder_layers):
        if not 1 <= depth <= MAX_DEPTH:
            raise ValueError(f"a stack must have 1 to {MAX_DEPTH} layers, not {depth}")
    if not seeds:
        raise ValueError("there must be at least one seed")
    encoder, decoder = {}, {}
    for norm in NORMS:
        config = TransformerConfig(
            vocab_size=VOCABULARY,
            d_model=WIDTH,
            num_heads=HEADS,
            num_encoder_layers=encoder_layers,
            num_decoder_layers=decoder_layers,
            d_ff=D_FF,
            dropout=0.0,
            activation=activation,
            norm=norm,
            max_len=LENGTH,
        )
        stacks = [_one(config, seed) for seed in seeds]
        encoder[norm] = np.stack([stack[0] for stack in stacks])
        decoder[norm] = np.stack([stack[1] for stack in stacks])
    return NormGradients(encoder, decoder)


def _one(config: TransformerConfig, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 [L] of both stacks. The same seed gives both norms the same weights (norms draw nothing) and the same batch."""
    generator = torch.Generator().manual_seed(seed)
    model = Transformer(config)
    model.reset_parameters(generator)
    first = config.unk_id + 1  # no special tokens
    src_ids, tgt_ids = (torch.randint(first, config.vocab_size, (BATCH, LENGTH), generator=generator) for _ in range(2))
    starts = torch.full((BATCH, 1), config.bos_id)
    logits = model(src_ids, torch.cat([starts, tgt_ids[:, :-1]], dim=1))  # [B, T, V]
    loss = F.cross_entropy(logits.flatten(0, 1), tgt_ids.flatten())
    encoder, decoder = ([layer.feed_forward.linear2.weight for layer in stack] for stack in (model.encoder, model.decoder))
    gradients = torch.autograd.grad(loss, [*encoder, *decoder])
    norms = np.array([float(gradient.norm()) for gradient in gradients], dtype=np.float32)
    return norms[: len(encoder)], norms[len(encoder) :]
