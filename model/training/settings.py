"""What a run is trained with: its settings, the type of its matrix products, its optimizers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from model.transformer import Transformer

PRECISIONS = ("auto", "fp32", "bf16")
OPTIMIZERS = ("adam", "muon")
DECAYS = ("root", "none")
POSITIONS = ("sinusoidal", "learned")


@dataclass(frozen=True)
class TrainingSettings:
    """What a run is trained with. `last_step` and `cooldown_steps` may be changed on resume; the rate is a function of the step alone.

    Raises ValueError for values with which nothing can be trained.
    """

    batch_tokens: int = 4800
    peak_rate: float = 1.5e-3
    warmup_steps: int = 800
    last_step: int | None = None
    cooldown_steps: int = 2200
    decay: str = "root"
    smoothing: float = 0.1
    consistency: float = 0.0  # weight of the distance between two passes under dropout (R-Drop); each pair then counts twice in a batch
    clip_norm: float = 1.0
    snapshot_every: int = 250
    keep_snapshots: int = 10
    seed: int = 0
    precision: str = "auto"
    optimizer: str = "adam"
    muon_rate: float = 4e-3  # peak rate of the matrices with optimizer="muon"; `peak_rate` is that of all else
    positions: str = "sinusoidal"  # "learned": a table is trained, to be shown beside the sines

    def __post_init__(self) -> None:
        for name in ("batch_tokens", "warmup_steps", "snapshot_every", "keep_snapshots"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be 1 or more, not {getattr(self, name)}")
        for name in ("cooldown_steps", "peak_rate", "muon_rate", "consistency"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing must lie in [0, 1), not {self.smoothing}")
        if not 0 < self.clip_norm:
            raise ValueError(f"clip_norm must be above 0, not {self.clip_norm}")
        words = (("precision", PRECISIONS), ("optimizer", OPTIMIZERS), ("decay", DECAYS), ("positions", POSITIONS))
        for name, allowed in words:
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} must be {', '.join(allowed[:-1])} or {allowed[-1]}, not {getattr(self, name)!r}")


def autocast_dtype(precision: str, device: torch.device) -> torch.dtype:
    """The type of matrix products: "fp32", "bf16", or "auto" = bf16 where the hardware has instructions for it (measured: three to four
    times fp32 on such a processor), else fp32. Raises ValueError for another word."""
    if precision == "auto":
        fast = device.type == "cuda" or (device.type == "cpu" and torch.cpu.get_capabilities().get("avx512_bf16", False))
        return torch.bfloat16 if fast else torch.float32
    try:
        return {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    except KeyError:
        raise ValueError(f"precision must be auto, fp32 or bf16, not {precision!r}") from None


def build_optimizers(model: Transformer, settings: TrainingSettings) -> list[torch.optim.Optimizer]:
    """Adam(0.9, 0.98) for everything (2017, section 5.3), or with "muon" that method (Jordan et al. 2024) for the matrices inside the
    layers and Adam for the rest. Each group holds its `peak_rate`."""
    fused = next(model.parameters()).device.type in ("cpu", "cuda")
    parameters = list(model.parameters())
    optimizers: list[torch.optim.Optimizer] = []
    if settings.optimizer == "muon":
        matrices = [p for layers in (model.encoder, model.decoder) for p in layers.parameters() if p.ndim == 2]
        inside = {id(p) for p in matrices}
        parameters = [p for p in parameters if id(p) not in inside]
        group = {"params": matrices, "peak_rate": settings.muon_rate}
        optimizers.append(torch.optim.Muon([group], lr=0.0, adjust_lr_fn="match_rms_adamw"))
    tables = []
    if settings.positions == "learned":  # unlike embeddings they are not scaled by sqrt(d_model), so they would learn that much slower
        table = model.positions
        parameters = [p for p in parameters if p is not table]
        tables.append({"params": [table], "peak_rate": settings.peak_rate * math.sqrt(model.config.d_model)})
    group = {"params": parameters, "peak_rate": settings.peak_rate}
    optimizers.append(torch.optim.Adam([group, *tables], lr=0.0, betas=(0.9, 0.98), eps=1e-9, fused=fused))
    return optimizers
