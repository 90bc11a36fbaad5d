"""Cross-entropy with label smoothing (Vaswani et al. 2017, section 5.4; Szegedy et al. 2016), with the distance between two passes
under dropout if asked for (R-Drop, Liang et al. 2021), and the rate schedule (Vaswani et al. 2017, section 5.3)."""

# N predicted tokens, D d_model, V vocabulary

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

# Rows projected at a time: 256 x 12,000 logits in float32 are 12 MB, which stays in a processor's cache.
_ROWS = 256


class _ProjectedLoss(torch.autograd.Function):
    """Logits, loss and gradient a block of rows at a time: the [N, V] logits, the largest tensor of training, are never held whole."""

    @staticmethod
    def forward(ctx, states: Tensor, weight: Tensor, labels: Tensor, smoothing: float, dtype: torch.dtype, consistency: float) -> Tensor:
        vocab_size = weight.shape[0]
        projection = weight.to(dtype)
        grad_states = torch.empty_like(states)
        grad_weight = torch.zeros_like(weight)
        total = torch.zeros((), dtype=torch.float32, device=states.device)
        for rows in _blocks(labels, consistency > 0):
            block, label = states[rows].to(dtype), labels[rows, None]
            logits, log_z, loss = _block_loss(block, projection, label, smoothing)
            log_probs = logits.sub_(log_z)
            apart = None
            if consistency:
                divergence, apart = _distance(log_probs)
                loss = loss + consistency * divergence
            total += loss
            grad = log_probs.exp_().sub_(smoothing / vocab_size)
            grad.scatter_add_(1, label, torch.full_like(log_z, smoothing - 1))
            if apart is not None:
                grad.add_(apart, alpha=consistency)
            grad = grad.to(dtype)
            grad_states[rows] = (grad @ projection).to(states.dtype)
            grad_weight += grad.T @ block
        ctx.save_for_backward(grad_states, grad_weight)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output: Tensor):
        grad_states, grad_weight = ctx.saved_tensors
        return grad_states * grad_output, grad_weight * grad_output, None, None, None, None


def _blocks(labels: Tensor, twice: bool) -> tuple[Tensor, ...]:
    """Indices of the rows of each block; with `twice`, those of one half and then the same tokens' of the other."""
    if not twice:
        return torch.arange(labels.shape[0], device=labels.device).split(_ROWS)
    half = labels.shape[0] // 2
    return tuple(torch.cat([rows, rows + half]) for rows in torch.arange(half, device=labels.device).split(_ROWS // 2))


def _distance(log_probs: Tensor) -> tuple[Tensor, Tensor]:
    """Symmetric divergence (KL(p|q) + KL(q|p)) / 2, summed over tokens, of the first half p [n, V] of the rows and the second q,
    and its gradient by the logits [2n, V]."""
    p, q = log_probs.exp().chunk(2)
    difference = torch.sub(*log_probs.chunk(2))
    forward, backward = (p * difference).sum(dim=1, keepdim=True), -(q * difference).sum(dim=1, keepdim=True)
    gradient = torch.cat([p * (difference - forward + 1) - q, q * (1 - difference - backward) - p])
    return (forward.sum() + backward.sum()) / 2, gradient.div_(2)


def _block_loss(block: Tensor, projection: Tensor, label: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [n, V], log of the normaliser [n, 1] and the summed loss of n rows."""
    logits = (block @ projection.T).float()
    log_z = logits.logsumexp(dim=1, keepdim=True)
    # -sum_v q_v log p_v with q = (1 - e) one-hot + e / V
    loss = (log_z - (1 - smoothing) * logits.gather(1, label) - smoothing * logits.mean(dim=1, keepdim=True)).sum()
    return logits, log_z, loss


def projected_loss(
    states: Tensor,
    weight: Tensor,
    labels: Tensor,
    smoothing: float = 0.1,
    dtype: torch.dtype = torch.float32,
    consistency: float = 0.0,
) -> Tensor:
    """Sum over tokens of the smoothed cross-entropy of softmax(states @ weight.T).

    states [N, D], weight [V, D], labels int64 [N]. Matrix products in `dtype`, the softmax in float32.
    Equals F.cross_entropy(..., label_smoothing=smoothing, reduction="sum").
    With `consistency`, for training only, the second half of the rows are the same tokens as the first, from another pass under dropout,
    and so many times their symmetric Kullback-Leibler divergence is added (Liang et al. 2021, equation 4).
    """
    if torch.is_grad_enabled() and (states.requires_grad or weight.requires_grad):
        return _ProjectedLoss.apply(states, weight, labels, smoothing, dtype, consistency)
    projection = weight.to(dtype)
    total = torch.zeros((), dtype=torch.float32, device=states.device)
    for block, label in zip(states.split(_ROWS), labels[:, None].split(_ROWS), strict=True):
        total += _block_loss(block.to(dtype), projection, label, smoothing)[2]
    return total


def learning_rate(
    step: int, peak: float, warmup_steps: int, last_step: int | None = None, cooldown_steps: int = 0, decay: str = "root"
) -> float:
    """Rate of update `step` (from 1): linear warm-up to `peak`, then inverse square root (2017, equation 3, with
    factor x d_model^-0.5 x warmup^-0.5 written as `peak`), or with decay="none" flat. Over the last `cooldown_steps` before
    `last_step` it falls linearly to zero."""
    rate = peak * min(step / warmup_steps, (warmup_steps / step) ** 0.5 if decay == "root" else 1.0)
    if last_step is not None and cooldown_steps > 0:
        rate *= min(1.0, max(0.0, (last_step - step + 1) / cooldown_steps))
    return rate
