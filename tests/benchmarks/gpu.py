"""The GPU beside the CPU, where torch has CUDA: the same ids, the same maps, and the ratio of their times; elsewhere it says so and ends.

`python -m tests.benchmarks.gpu [--rounds 5] [--device cuda]`. In float32 every token has to be the CPU's, and every weight within 1e-4.
In bfloat16, whose numbers have eight bits, 99 of 100 weights of the same ids have to be within 1e-2; the largest distance is printed.
`--device cpu --rounds 1` runs the checks themselves where there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from model.hooks import ATTENTION_KINDS, AttentionRecorder, attention_hook
from tests.benchmarks import rivals
from tests.benchmarks.contest import Job, Ours, Worker, workers
from tests.benchmarks.table import Ratios, line, paired, spread
from tests.benchmarks.translation import BEAMS, LENGTHS, default_threads, job

FLOAT32, BFLOAT16 = "float32", "bfloat16"
WITHIN = {FLOAT32: 1e-4, BFLOAT16: 1e-2}
SHARE = {FLOAT32: 1.0, BFLOAT16: 0.99}  # of the weights


class OnDevice(Ours):
    """Ours on a device, and its maps of given ids in a given kind of number."""

    def __init__(self, model: str, folder: Path, device: str) -> None:
        super().__init__(model, folder, device=device)

    def forced_maps(self, src_ids: Sequence[int], tgt_ids: Sequence[int], dtype: str) -> list[torch.Tensor]:
        """float32 [layer, head, query, key] of each of the ATTENTION_KINDS. The weights stay rounded: ask for float32 first."""
        model = self.translator.model.to(getattr(torch, dtype))
        device = next(model.parameters()).device
        src, tgt_in = (torch.tensor([ids], device=device) for ids in (list(src_ids), [model.config.bos_id, *tgt_ids[:-1]]))
        with torch.inference_mode(), attention_hook(AttentionRecorder()) as recorder:
            model.decode(tgt_in, model.encode(src))
        return [recorder.stack(kind)[:, 0].float().cpu() for kind in ATTENTION_KINDS]


def check(cpu: Worker, gpu: Worker, works: Sequence[Job]) -> None:
    """Raises RuntimeError if the two write different tokens or see different weights."""
    written = [(work, cpu.call("run", work)) for work in works]
    for work, ids in written:
        if (theirs := gpu.call("run", work)) != ids:
            raise RuntimeError(f"beam {work.beam_size}: the CPU writes {ids}, the GPU {theirs}")
    for dtype, within in WITHIN.items():
        shares, largest = [], 0.0
        for work, ids in written:
            ours, theirs = cpu.call("forced_maps", work.src_ids, ids, FLOAT32), gpu.call("forced_maps", work.src_ids, ids, dtype)
            for kind, a, b in zip(ATTENTION_KINDS, ours, theirs, strict=True):
                distances = (a - b).abs()
                shares.append(float((distances <= within).float().mean()))  # of NaN, none is
                largest = max(largest, float(distances.max()))
                if shares[-1] < SHARE[dtype]:
                    raise RuntimeError(f"{dtype}, {kind}: {shares[-1]:.4f} of the weights within {within}, at most {largest:.1e} apart")
        line(f"  same ids; {dtype}: weights within {within:g}", f"{min(shares):.2%} or more", f"at most {largest:.1e} apart")


def run(models: Sequence[str], device: str, rounds: int, threads: int, ratios: Ratios) -> None:
    with TemporaryDirectory() as temporary:
        for model in models:
            folder = Path(temporary) / model
            if model == rivals.BASE:
                rivals.write_base_folder(folder)
            with workers(threads, cpu=(OnDevice, model, folder, "cpu"), gpu=(OnDevice, model, folder, device)) as asked:
                works = [job(asked["cpu"], model, length, beam_size) for length in LENGTHS for beam_size in BEAMS]
                for work in works:
                    for worker in asked.values():
                        worker.call("run", work)  # warms up
                    found: dict[str, list[float]] = defaultdict(list)
                    for _ in range(rounds):
                        for name, worker in asked.items():
                            found[name].append(worker.timed("run", work)[0])
                    each = paired(found["gpu"], found["cpu"])
                    method = "greedy" if work.beam_size == 1 else f"beam_{work.beam_size}"
                    label = f"{model}: {work.new_tokens} tokens, {method.replace('_', ' ')}"
                    line(label, f"{spread([1000 * t for t in found['gpu']])} ms", f"GPU / CPU {spread(each, 2)}")
                    name = f"translate_and_capture.{model}.{device}.{work.new_tokens}_tokens.{method}.vs_cpu"
                    ratios.add(name, each, "the same on the CPU")
                check(asked["cpu"], asked["gpu"], works)  # last: the weights are rounded then


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=rivals.MODELS, default=rivals.MODELS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=default_threads())
    given = parser.parse_args()
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        print("No GPU: torch finds no CUDA here, so nothing is measured on one.")
        sys.exit()
    print(f"load average {os.getloadavg()[0]:.1f}, {given.device}, {given.threads} threads on the CPU, {given.rounds} rounds")
    ratios = Ratios()
    run(given.only, given.device, given.rounds, given.threads, ratios)
    ratios.save()


if __name__ == "__main__":
    main()
