"""y = x W^T + b, by oneDNN where that is the faster of torch's two libraries for products of matrices.

torch multiplies float32 matrices on a processor by MKL. For the shapes of a translation (few rows, many columns) oneDNN, which torch holds
too, takes half the time, and less if the matrix was laid out for it before (`pack`). Both sum in float32 and differ in the last digits.
"""

# M rows of x, K inputs, N outputs

from __future__ import annotations

import platform

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEAST_PRODUCT = 1 << 20  # multiplications (M x K x N) from which oneDNN makes up for the microseconds that it takes to get going
LEAST_PACKED = 1 << 17  # numbers in a matrix that gains from being packed
# Used by torch's own compiler under these names. Where a version or a system lacks them, all is left to MKL (or whatever is there).
_OPERATIONS = torch.ops.mkldnn
AVAILABLE = (
    torch.backends.mkldnn.is_available()
    and platform.machine().lower() in ("x86_64", "amd64")
    and hasattr(_OPERATIONS, "_linear_pointwise")
    and hasattr(_OPERATIONS, "_reorder_linear_weight")
)


class Linear(nn.Linear):
    """`nn.Linear` that computes by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., K], weight [N, K], bias [N] to [..., N]. Gradients, other devices and other kinds of numbers go torch's usual way, as do
    small products."""
    if x.numel() * weight.shape[0] < LEAST_PRODUCT or torch.is_grad_enabled() or not (_suits(x) and _suits(weight)):
        return F.linear(x, weight, bias)
    return packed_linear(x, weight, bias)


def packed_linear(x: Tensor, packed: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same for a matrix that `pack` returned. Without gradients."""
    return _OPERATIONS._linear_pointwise(x, packed, bias, "none", [], "")


def pack(weight: Tensor) -> Tensor | None:
    """A copy of weight [N, K] in oneDNN's own layout, for `packed_linear`; None where that would be no gain. As large as the matrix.

    A copy: what is later written into `weight` is not seen.
    """
    if weight.numel() < LEAST_PACKED or not _suits(weight):
        return None
    with torch.no_grad():
        return _OPERATIONS._reorder_linear_weight(weight.detach())


def _suits(tensor: Tensor) -> bool:
    return AVAILABLE and tensor.device.type == "cpu" and tensor.dtype == torch.float32
