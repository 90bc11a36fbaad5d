"""The two masks, and how they meet. Everywhere: bool, True = this query may attend to this key."""

# B batch, S keys, T queries

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(ids: Tensor, pad_id: int) -> Tensor:
    """True where `ids` [B, S] is a real token. Shape [B, S]. Raises ValueError if a sentence is padding only:
    its softmax would have no key to attend to."""
    mask = ids != pad_id
    if not bool(mask.any(dim=1).all()):
        raise ValueError("a sentence of the batch is all padding: its attention would have no key")
    return mask


def causal_mask(tgt_len: int, past_len: int = 0, device: torch.device | str | None = None) -> Tensor:
    """True where key position <= query position. Shape [T, past_len + T].

    With a key/value cache the T queries stand at positions past_len .. past_len + T - 1.
    """
    query = torch.arange(past_len, past_len + tgt_len, device=device)
    key = torch.arange(past_len + tgt_len, device=device)
    return key[None, :] <= query[:, None]
