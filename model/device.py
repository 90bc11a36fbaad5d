"""Which device computes: asked for, named by ATLAS_DEVICE, or the best one here; and whether its memory ran out."""

from __future__ import annotations

import errno
import os
import re

import torch

from model.errors import DeviceError
from model.reasons import because

ENVIRONMENT_VARIABLE = "ATLAS_DEVICE"
LENT_VARIABLE = "SPACES_ZERO_GPU"  # which a ZeroGPU Space of Hugging Face sets
# Only some of torch's allocators have a type for it. The rest raise a plain RuntimeError; the words of the CPU's depend on the system.
_NO_MEMORY = re.compile(
    r"DefaultCPUAllocator: (?:not enough|can't allocate) memory|unable to mmap .*Cannot allocate memory|out of memory|std::bad_alloc",
    re.DOTALL,
)


def gpu_is_lent() -> bool:
    """Whether this is a ZeroGPU Space: its GPU exists for the moments of a call, in a process forked for it (see `viz.lent_gpu`)."""
    return os.environ.get(LENT_VARIABLE, "").lower() in ("1", "t", "true")


def available_devices() -> tuple[str, ...]:
    """Devices of this machine, best first: every CUDA device, then MPS, then the CPU. One that is only lent is no device of ours: torch
    says there that CUDA is available, and tensors that are moved to it hold no numbers outside of the call.
    """
    if gpu_is_lent():
        return ("cpu",)
    cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    mps = ["mps"] if torch.backends.mps.is_available() else []
    return (*cuda, *mps, "cpu")


def pick_device(requested: str | None = None) -> torch.device:
    """The requested device; else the one in the environment variable ATLAS_DEVICE; else the best of CUDA, MPS and CPU, in this order.

    Names are "cuda", "cuda:1", "mps", "cpu". Raises DeviceError, naming what there is, for a name that is none or a device that isn't here.
    """
    available = available_devices()
    name = requested if requested is not None else os.environ.get(ENVIRONMENT_VARIABLE, "").strip()
    if name == "" and requested is None:
        return torch.device(available[0])
    said = ", ".join(available)
    if not isinstance(name, str) or not re.fullmatch(r"(cuda(:\d{1,3})?|mps|cpu)", name.lower()):
        raise DeviceError(str(name)[:40], because("no_device", available=said))
    name = name.lower()
    if name not in available and f"{name}:0" not in available:
        raise DeviceError(name, because("device_missing", available=said))
    return torch.device(name)


def lent_device() -> torch.device:
    """The device inside a call for which a GPU is lent."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, torch or the system says that there is no memory left, on whatever device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and _NO_MEMORY.search(str(error)) is not None
