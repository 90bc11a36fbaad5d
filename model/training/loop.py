"""The training loop: mixed precision, clipping, data-parallel gradients, and a run folder from which it goes on exactly."""

# B batch, S src_len, T tgt_len, N predicted tokens, D d_model

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor
from tqdm import tqdm

from model.config import TransformerConfig
from model.hooks import by_weights
from model.masks import padding_mask
from model.training.batches import Batch, DataError, EpochBuilder, bucket, collate, encode_pairs
from model.training.corpus import Pair
from model.training.dropout import use_byte_dropout
from model.training.initial import LOG_FILE, vocabulary_fingerprint
from model.training.learned import LearnedPositions
from model.training.loss import learning_rate, projected_loss
from model.training.settings import TrainingSettings, autocast_dtype, build_optimizers
from model.transformer import Transformer

__all__ = ["Trainer", "TrainingDivergedError", "TrainingSettings", "autocast_dtype", "average_snapshots", "start_processes"]

STATE_FILE = "state.pt"
# So many updates in a row without a finite gradient end a run: one may be a freak batch, five are none.
MAX_SKIPPED = 5


class TrainingDivergedError(RuntimeError):
    """Loss, gradients or weights are no finite numbers any more; the last good state was kept."""


def batch_loss(model: Transformer, batch: Batch, smoothing: float, dtype: torch.dtype, consistency: float = 0.0) -> Tensor:
    """Sum over the batch's target tokens of the smoothed cross-entropy. Only real tokens are projected to the vocabulary.
    `consistency` is that of `projected_loss`, for a batch that holds each pair twice."""
    src_mask = padding_mask(batch.src_ids, model.config.pad_id)
    tgt_in, labels = batch.tgt_ids[:, :-1], batch.tgt_ids[:, 1:]
    with _attention_kernel(batch.src_ids.device), torch.autocast(batch.src_ids.device.type, dtype=dtype, enabled=dtype != torch.float32):
        states = model.decode(tgt_in, model.encode(batch.src_ids, src_mask), src_mask)  # [B, T, D]
    real = labels != model.config.pad_id
    weight = model.tgt_embedding.tokens.weight if model.output_weight is None else model.output_weight
    if model.output_bias is not None:
        raise ValueError("training projects without an output bias: use output_bias=False")
    return projected_loss(states[real], weight, labels[real], smoothing, dtype, consistency)


def _attention_kernel(device: torch.device) -> AbstractContextManager:
    # For sentences of a dozen tokens in bf16, the backward pass of a CPU's fused kernel takes six times as long as the plain products,
    # which a hook that only looks on selects.
    return by_weights() if device.type == "cpu" else nullcontext()


class Trainer:
    """One run in `folder`. `state.pt` holds model, optimizer, place in the epoch and random state; `snapshots/` the weights to average."""

    def __init__(
        self, config: TransformerConfig, settings: TrainingSettings, epochs: EpochBuilder, valid: Sequence[Pair], folder: Path, device: str
    ) -> None:
        self.settings, self.epochs, self.folder = settings, epochs, folder
        self.device = torch.device(device)
        self.dtype = autocast_dtype(settings.precision, self.device)
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        torch.manual_seed(settings.seed)
        self.model = (LearnedPositions if settings.positions == "learned" else Transformer)(config).to(self.device)
        if self.device.type == "cpu":
            use_byte_dropout(self.model)
        # Dropout differs between processes, the initial weights do not.
        torch.manual_seed(settings.seed + self.rank)
        self.optimizers = build_optimizers(self.model, settings)
        encoded = sorted(encode_pairs(epochs.vocabulary, list(valid)), key=lambda item: len(item[1]))
        self.valid = [collate(items) for items in bucket(encoded, settings.batch_tokens, lambda item: max(map(len, item)))]
        self.step, self.epoch, self.next_batch, self.seconds, self.tokens = 0, 0, 0, 0.0, 0
        self._skipped = 0  # updates in a row that were left out
        self._stop_asked = self._stop_agreed = False

    def resume(self) -> bool:
        """Takes up the run from its folder; False if there is none. Exact on the same kind of device, with as many processes.

        Raises ValueError if the state cannot be read, or is that of a model of other sizes or of other optimizers."""
        path = self.folder / STATE_FILE
        if not path.exists():
            return False
        try:
            state = torch.load(path, map_location=self.device, weights_only=True)
        except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{path.name} is damaged ({error}): begin anew, perhaps with --init and the last snapshot") from error
        try:
            self.model.load_state_dict(state["model"])
            for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(saved)
        except (RuntimeError, ValueError) as error:
            raise ValueError(f"{path.name} is of another model or optimizer: give the options that run.json holds ({error})") from error
        for name in ("step", "epoch", "next_batch", "seconds", "tokens"):
            setattr(self, name, state[name])
        if len(state["random"]) == self.world and state.get("device", "cpu") == self.device.type:
            self._set_random_state(state["random"][self.rank].cpu())
        return True

    def save(self) -> None:
        """Writes state.pt; the old one stays whole until the new one is, and no process goes on before.

        Raises TrainingDivergedError, writing nothing, if a weight is no finite number."""
        norms = torch.stack(torch._foreach_norm(list(self.model.parameters())))
        # The weights of all processes are the same, so all of them stop here.
        if not bool(torch.isfinite(norms).all()):
            raise TrainingDivergedError(f"the weights of step {self.step} are no finite numbers. {self._last_good()}")
        random = [self._random_state()]
        if self.world > 1:
            random = [torch.empty_like(random[0]) for _ in range(self.world)]
            dist.all_gather(random, self._random_state())
        if not self.rank:
            self.folder.mkdir(parents=True, exist_ok=True)
            state = {name: getattr(self, name) for name in ("step", "epoch", "next_batch", "seconds", "tokens")}
            state |= {"model": self.model.state_dict(), "optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}
            _replace(self.folder / STATE_FILE, state | {"random": random, "device": self.device.type})
        if self.world > 1:
            dist.barrier()

    def snapshot(self) -> None:
        """Keeps the weights of this step for averaging, and drops the oldest beyond `keep_snapshots`."""
        folder = self.folder / "snapshots"
        folder.mkdir(parents=True, exist_ok=True)
        _replace(folder / f"{self.step:07d}.pt", self.model.state_dict())
        snapshots = sorted(folder.glob("*.pt"))
        for old in snapshots[: max(0, len(snapshots) - self.settings.keep_snapshots)]:
            old.unlink()

    def train(self, last_step: int) -> None:
        """Runs until `last_step` updates are done, or SIGTERM / SIGINT, which saves and returns.

        Raises DataError if the pairs give too few batches for an epoch, TrainingDivergedError if it can't go on with finite numbers."""
        self._stop_asked = self._stop_agreed = False
        previous = {number: signal.signal(number, self._request_stop) for number in (signal.SIGTERM, signal.SIGINT)}
        bar = tqdm(total=last_step, initial=self.step, unit="step", disable=bool(self.rank), mininterval=5, dynamic_ncols=True)
        try:
            self.model.train()
            recent_loss, recent_tokens, began = 0.0, 0, time.monotonic()
            while self.step < last_step and not self._stop():
                batches = self._epoch()
                if self._stop():
                    break
                for batch in self._rest_of(batches):
                    tick = time.monotonic()
                    loss, tokens = self.update(batch)
                    self.seconds += time.monotonic() - tick
                    self.tokens += tokens
                    recent_loss, recent_tokens = recent_loss + loss, recent_tokens + tokens
                    bar.update()
                    if self.step % 100 == 0:
                        speed = recent_tokens / (time.monotonic() - began)
                        bar.set_postfix_str(f"epoch {self.epoch} loss {recent_loss / max(recent_tokens, 1):.3f}, {speed:,.0f} tokens/s")
                        recent_loss, recent_tokens, began = 0.0, 0, time.monotonic()
                    if self.step % self.settings.snapshot_every == 0 or self.step >= last_step:
                        self._checkpoint(bar)
                    if self.step >= last_step or self._stop():
                        break
                else:
                    self.epoch, self.next_batch = self.epoch + 1, 0
            self.save()
        finally:
            bar.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def update(self, batch: Batch) -> tuple[float, int]:
        """One step of Adam on the mean loss per token of the batch (over all processes). Returns (summed loss, tokens).

        Without a finite loss and gradient the step is left out, (0, 0) returned, and after MAX_SKIPPED in a row TrainingDivergedError
        raised: such a gradient would spoil weights and optimizer for good.
        """
        self.step += 1
        settings = self.settings
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(
                    self.step, group["peak_rate"], settings.warmup_steps, settings.last_step, settings.cooldown_steps, settings.decay
                )
        if settings.consistency:
            batch = batch.twice()
        loss = batch_loss(self.model, batch, settings.smoothing, self.dtype, settings.consistency)
        loss.backward()
        totals = torch.tensor([loss.item(), batch.num_tokens, self._stop_asked], dtype=torch.float64)
        parameters = list(self.model.parameters())
        if self.world > 1:
            average_gradients(parameters, totals)
            self._stop_agreed = bool(totals[2])
        scale = 1.0 / float(totals[1])
        torch._foreach_mul_([p.grad for p in parameters], scale)
        norm = torch.nn.utils.clip_grad_norm_(parameters, settings.clip_norm)
        # Both are sums over all processes, so all of them decide alike.
        if not (math.isfinite(float(totals[0])) and math.isfinite(float(norm))):
            self._skip()
            return 0.0, 0
        self._skipped = 0
        for optimizer in self.optimizers:
            optimizer.step()
        return float(totals[0]), int(totals[1])

    @torch.inference_mode()
    def validate(self) -> float:
        """Mean cross-entropy per target token of the validation pairs, without smoothing and dropout, in nats."""
        self.model.eval()
        total, tokens = 0.0, 0
        for batch in self.valid:
            batch = Batch(batch.src_ids.to(self.device), batch.tgt_ids.to(self.device))
            total += float(batch_loss(self.model, batch, 0.0, self.dtype))
            tokens += batch.num_tokens
        self.model.train()
        return total / max(tokens, 1)

    def _checkpoint(self, bar: tqdm) -> None:
        self.save()
        if self.rank:
            return
        entry = {"step": self.step, "epoch": self.epoch, "tokens": self.tokens, "seconds": round(self.seconds)}
        entry["valid_loss"] = round(self.validate(), 4)
        with (self.folder / LOG_FILE).open("a", encoding="utf-8") as log:
            log.write(json.dumps(entry) + "\n")
        bar.write(json.dumps(entry))
        # Last, so that every snapshot has its line in the log.
        self.snapshot()

    def _skip(self) -> None:
        self._skipped += 1
        if not self.rank:
            tqdm.write(f"step {self.step}: loss or gradient is no finite number, update left out ({self._skipped} in a row)")
        if self._skipped >= MAX_SKIPPED:
            told = f"{self._skipped} updates in a row, up to step {self.step}, had no finite loss and gradient"
            raise TrainingDivergedError(f"{told}. {self._last_good()}")

    def _last_good(self) -> str:
        kept = f"{STATE_FILE} holds the last good state" if (self.folder / STATE_FILE).exists() else "Nothing was saved yet"
        return f"{kept}; go on from there with a lower --peak-rate, or --precision fp32."

    def _epoch(self) -> list[list[tuple[list[int], list[int]]]]:
        """The batches of this epoch; nothing if a stop was asked for meanwhile, which building minutes of batches must not outlast."""
        batches = self.epochs.build(self.settings.seed, self.epoch, lambda: self._stop_asked) or []
        if self.world > 1:
            asked = torch.tensor(float(self._stop_asked))
            dist.all_reduce(asked)
            self._stop_agreed = bool(asked)
        # Every process takes its share of each group of `world` batches; a last incomplete group is left out.
        if len(batches) < self.world and not self._stop():
            raise DataError(f"the pairs give {len(batches)} batches for {self.world} processes: add pairs or lower batch_tokens")
        return batches

    def _rest_of(self, batches: list[list[tuple[list[int], list[int]]]]) -> Iterator[Batch]:
        # The run may have come to any batch before, with another number of processes.
        for start in range(self.next_batch, len(batches) - self.world + 1, self.world):
            self.next_batch = start + self.world
            batch = collate(batches[start + self.rank], self.model.config.pad_id)
            yield Batch(batch.src_ids.to(self.device), batch.tgt_ids.to(self.device))

    def _request_stop(self, *_: object) -> None:
        self._stop_asked = True

    def _stop(self) -> bool:
        # One process of several may not stop on its own, the others would wait for its gradients: they agree with each update.
        return self._stop_asked if self.world == 1 else self._stop_agreed

    def _random_state(self) -> Tensor:
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()

    def _set_random_state(self, state: Tensor) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_rng_state(state, self.device)
        else:
            torch.set_rng_state(state)

    def describe(self) -> dict[str, object]:
        """Facts of the run for its folder and the model card."""
        settings = {"processes": self.world, **asdict(self.settings)}
        data = {"pairs": len(self.epochs.pairs), "vocabulary": vocabulary_fingerprint(self.epochs.vocabulary)}
        return {"config": asdict(self.model.config), "settings": settings, "sampling": asdict(self.epochs.sampling), "data": data}


def average_gradients(parameters: Sequence[Tensor], totals: Tensor) -> None:
    """Sums gradients (of summed losses) and `totals` over all processes, in place: divided by the summed token count,
    they are the gradients one process would have had on all the batches together."""
    flat = torch.cat([p.grad.reshape(-1) for p in parameters])
    dist.all_reduce(flat)
    dist.all_reduce(totals)
    offset = 0
    for p in parameters:
        p.grad.copy_(flat[offset : offset + p.numel()].view_as(p))
        offset += p.numel()


def start_processes() -> None:
    """Joins the process group if `torchrun` started this process."""
    if "RANK" in os.environ and not dist.is_initialized():
        # Both kinds on CUDA: gradients go from device to device, token counts and random states lie in main memory.
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")


def _replace(path: Path, value: object) -> None:
    # Killed half-way, the old file stays whole.
    partial = path.with_name(path.name + ".part")
    try:
        torch.save(value, partial)
    except BaseException as error:
        partial.unlink(missing_ok=True)  # a full disk has its room back
        if isinstance(error, RuntimeError):  # how torch words it
            raise OSError(f"{path.name} was not written, is the disk full? ({error})") from error
        raise
    partial.replace(path)


def average_snapshots(folder: Path, count: int) -> tuple[dict[str, Tensor], list[str]]:
    """The mean of the last `count` snapshots of a run (Vaswani et al. 2017, section 6.1), and their names.
    Raises FileNotFoundError if there is none."""
    paths = sorted((folder / "snapshots").glob("*.pt"))
    paths = paths[max(0, len(paths) - count) :]
    if not paths:
        raise FileNotFoundError(f"no snapshots in {folder.name}/snapshots: train first")
    states = [torch.load(path, map_location="cpu", weights_only=True) for path in paths]
    return {key: torch.stack([state[key].float() for state in states]).mean(dim=0) for key in states[0]}, [path.stem for path in paths]
