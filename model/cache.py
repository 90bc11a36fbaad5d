"""Keys and values of the decoder's past, so that each generated token costs one position and not the whole prefix."""

# B batch (beams), H heads, T positions so far, S src_len

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class LayerCache:
    """One decoder layer: self-attention keys and values grow by a position a step, those of `memory` are computed once."""

    self_k: Tensor | None = None  # [B, H, T, head_dim]
    self_v: Tensor | None = None
    cross_k: Tensor | None = None  # [B, H, S, head_dim]
    cross_v: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Appends k, v [B, H, new, head_dim] and returns everything so far."""
        if self.self_k is not None and self.self_v is not None:
            k = torch.cat((self.self_k, k), dim=2)
            v = torch.cat((self.self_v, v), dim=2)
        self.self_k, self.self_v = k, v
        return k, v


@dataclass
class DecoderCache:
    """Belongs to one decoding call, never to the model."""

    num_layers: int
    layers: list[LayerCache] = field(init=False)

    def __post_init__(self) -> None:
        self.layers = [LayerCache() for _ in range(self.num_layers)]

    @property
    def length(self) -> int:
        """Positions decoded so far."""
        k = self.layers[0].self_k
        return 0 if k is None else k.shape[2]

    def reorder(self, rows: Tensor, cross: bool = True) -> None:
        """Selects, repeats or drops batch rows (rows: int64 [B']) after a beam step.

        With cross=False the keys and values of `memory` are left alone: right when all rows share one sentence and their number stays.
        """
        for layer in self.layers:
            for name in ("self_k", "self_v", "cross_k", "cross_v") if cross else ("self_k", "self_v"):
                tensor = getattr(layer, name)
                if tensor is not None:
                    setattr(layer, name, tensor.index_select(0, rows))
