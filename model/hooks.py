"""Scoped hooks on the softmax weights of every attention layer and head, and on the values that they weigh.

A hook lives in a context variable, so it is seen only by the thread (or task) that set it and only inside its `with` block;
nothing is installed on a module and nothing is left behind. Two visitors who share one model never see each other.
Don't yield from a generator inside the block: the caller would run under the hook until the generator is resumed.
"""

# L layers, B batch, H heads, T queries, S keys, K head_dim

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

AttentionKind = Literal["encoder_self", "decoder_self", "cross"]
ATTENTION_KINDS: tuple[AttentionKind, ...] = ("encoder_self", "decoder_self", "cross")


@dataclass(frozen=True)
class AttentionSite:
    """Where a set of weights was computed."""

    kind: AttentionKind
    layer: int


# Called with (site, attn_weights [B, H, T, S]) after softmax and before dropout. Returns None to read,
# or weights of the same shape that are used instead.
AttentionHook = Callable[[AttentionSite, Tensor], "Tensor | None"]
# Called with (site, v [B, H, S, K]) before they are weighed. To read only: the tensor is the one in use.
ValueHook = Callable[[AttentionSite, Tensor], None]

_hooks: ContextVar[tuple[AttentionHook, ...]] = ContextVar("attention_hooks", default=())
_value_hooks: ContextVar[tuple[ValueHook, ...]] = ContextVar("value_hooks", default=())


@contextmanager
def attention_hook(hook: AttentionHook) -> Iterator[AttentionHook]:
    """Runs `hook` at every attention inside the block. Blocks nest; the outer hook is called first."""
    token = _hooks.set((*_hooks.get(), hook))
    try:
        yield hook
    finally:
        _hooks.reset(token)


@contextmanager
def value_hook(hook: ValueHook) -> Iterator[ValueHook]:
    """Shows `hook` the values of every attention inside the block. Blocks nest, with those of `attention_hook` too."""
    token = _value_hooks.set((*_value_hooks.get(), hook))
    try:
        yield hook
    finally:
        _value_hooks.reset(token)


@contextmanager
def unwatched() -> Iterator[None]:
    """Nothing that runs inside the block is shown to any hook: work that a watcher did not ask for."""
    tokens = _hooks.set(()), _value_hooks.set(())
    try:
        yield
    finally:
        _hooks.reset(tokens[0])
        _value_hooks.reset(tokens[1])


def by_weights() -> AbstractContextManager[object]:
    """Attention inside the block computes by way of its weights, as if somebody looked on, and not by the fused kernel."""
    return attention_hook(lambda site, attn_weights: None)


def watched() -> bool:
    """Whether anyone in this context wants to see weights or values."""
    return bool(_hooks.get() or _value_hooks.get())


def hooks_active() -> bool:
    """Whether anyone in this context wants to see the weights. If not, attention takes the fused path that never builds them."""
    return bool(_hooks.get())


def run_hooks(site: AttentionSite, attn_weights: Tensor) -> Tensor:
    """Passes attn_weights [B, H, T, S] through the active hooks. Raises ValueError if a hook changes the shape."""
    for hook in _hooks.get():
        changed = hook(site, attn_weights)
        if changed is None:
            continue
        if changed.shape != attn_weights.shape:
            raise ValueError(f"a hook at {site} returned shape {tuple(changed.shape)}, expected {tuple(attn_weights.shape)}")
        attn_weights = changed
    return attn_weights


def show_values(site: AttentionSite, v: Tensor) -> None:
    """Shows v [B, H, S, K] to the active hooks. With a cache these are the values of the past too."""
    for hook in _value_hooks.get():
        hook(site, v)


@dataclass
class _Recorder:
    """A hook that keeps what one pass shows it.

    A pass visits each site once. A second visit (say, a second pass under the same recorder) raises RuntimeError rather than
    overwrite the first.
    """

    seen: dict[AttentionSite, Tensor] = field(default_factory=dict)

    def __call__(self, site: AttentionSite, tensor: Tensor) -> None:
        if site in self.seen:
            raise RuntimeError(f"{site} was recorded already: use one recorder for one pass")
        # a copy: a later hook may write into the tensor
        self.seen[site] = tensor.detach().clone()

    def stack(self, kind: AttentionKind) -> Tensor:
        """All layers of one kind, [L, ...]. Raises KeyError if the pass had none."""
        sites = sorted((site for site in self.seen if site.kind == kind), key=lambda site: site.layer)
        if not sites:
            raise KeyError(f"no attention of kind {kind!r} was recorded")
        return torch.stack([self.seen[site] for site in sites])


class AttentionRecorder(_Recorder):
    """Keeps the weights: `with attention_hook(AttentionRecorder()) as recorder: model(...)`, then `stack` is [L, B, H, T, S]."""

    @property
    def weights(self) -> dict[AttentionSite, Tensor]:
        """[B, H, T, S] by site."""
        return self.seen


class ValueRecorder(_Recorder):
    """Keeps the values: `with value_hook(ValueRecorder()) as recorder: model(...)`, then `stack` is [L, B, H, S, K]."""

    @property
    def values(self) -> dict[AttentionSite, Tensor]:
        """[B, H, S, K] by site."""
        return self.seen
