"""What our own translation costs: with and without capture, against the memory's speed, and as sentences and beams grow.

`python -m tests.benchmarks.costs [--only embedded base] [--rounds 5] [--threads 1]`. All is measured in one process, in turns.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks import rivals
from tests.benchmarks.contest import CLOCKS, ENOUGH, Job, Ours, Worker
from tests.benchmarks.table import Ratios, line, paired, spread
from tests.benchmarks.translation import LENGTHS, default_threads, job

SHORT, MIDDLE, LONG = LENGTHS
FEW, MANY = 10, 40  # tokens written: what is between them is steps of decoding, and nothing else
BEAMS = (2, 4, 8)


class Turns:
    """Takes the time of several things in turns: `times[name]` has one entry, in seconds, for each round."""

    def __init__(self, ours: Worker, rounds: int, clock: str) -> None:
        self.ours, self.rounds, self.clock = ours, rounds, clock

    def take(self, **calls: tuple[Job, str]) -> dict[str, list[float]]:
        """name=(job, what is captured)."""
        counts = {}
        for name, (work, capture) in calls.items():
            seconds, written = self.ours.timed("run", work, capture)
            if len(written) != work.new_tokens:
                raise RuntimeError(f"{name}: {len(written)} tokens were written, not {work.new_tokens}")
            counts[name] = max(1, round(ENOUGH / seconds))
        found: dict[str, list[float]] = defaultdict(list)
        for turn in range(self.rounds):
            for name in list(calls)[:: 1 if turn % 2 else -1]:
                found[name].append(self.ours.timed("run", *calls[name], times=counts[name])[0])
        return found


def capture(model: str, ours: Worker, turns: Turns, lengths: Sequence[int], ratios: Ratios) -> None:
    """Translation with all maps (trace), and with norms and runner-ups too (examine), against translation alone."""
    together: dict[str, list[list[float]]] = defaultdict(list)
    for length in lengths:
        for beam_size in (1, 4):
            work = job(ours, model, length, beam_size)
            found = turns.take(off=(work, "nothing"), trace=(work, "trace"), examine=(work, "examine"))
            each = {name: paired(found[name], found["off"]) for name in ("trace", "examine")}
            label = f"{model}, {length} tokens, {'greedy' if beam_size == 1 else f'beam {beam_size}'}: capture"
            line(label, *(f"{name} {spread(values, 2)}" for name, values in each.items()))
            for name, values in each.items():
                together[name].append(values)
    # The sum of all rounds would be that of the longest: every length counts alike.
    for name, said in (("trace", "capture_on"), ("examine", "capture_and_examination_on")):
        means = [sum(of_round) / len(of_round) for of_round in zip(*together[name], strict=True)]
        ratios.add(f"{said}.{model}.vs_off", means, "translation alone, same ids; mean over lengths, greedy and beam 4")


def floor(model: str, ours: Worker, turns: Turns, ratios: Ratios) -> None:
    """Time of one step of decoding against the time that reading its weights takes, at the speed with which memory was read meanwhile."""
    size = ours.call("bytes_a_step")
    for beam_size in (1, 4):
        found: dict[str, list[float]] = defaultdict(list)
        for _ in range(turns.rounds):
            one = Turns(ours, 1, turns.clock).take(
                few=(job(ours, model, MIDDLE, beam_size, FEW), "nothing"), many=(job(ours, model, MIDDLE, beam_size, MANY), "nothing")
            )
            found["step"].append((one["many"][0] - one["few"][0]) / (MANY - FEW))
            found["floor"].append(ours.call("read", size, turns.clock))
        ratios_found = paired(found["step"], found["floor"])
        speed = [size / seconds / 1e9 for seconds in found["floor"]]
        label = f"{model}, {'greedy' if beam_size == 1 else f'beam {beam_size}'}: a step"
        line(label, f"{spread([1000 * t for t in found['step']], 1)} ms", f"times floor {spread(ratios_found, 1)}")
        line(f"  {size / 1e6:,.0f} MB of weights, memory at", f"{spread(speed, 1)} GB/s")
        name = f"time_per_token.{model}.{'greedy' if beam_size == 1 else f'beam_{beam_size}'}.vs_bandwidth_floor"
        ratios.add(name, ratios_found, "reading the decoder's weights once, at the memory speed measured in the same round")


def growth(model: str, ours: Worker, turns: Turns, lengths: Sequence[int], ratios: Ratios) -> None:
    """Longer sentences against the shortest, and wider beams against greedy: translation with all maps."""
    works = {f"{length}_tokens": (job(ours, model, length, 4), "trace") for length in lengths}
    works |= {"greedy": (job(ours, model, MIDDLE, 1), "trace")}
    works |= {f"beam_{beam_size}": (job(ours, model, MIDDLE, beam_size), "trace") for beam_size in BEAMS}
    found = turns.take(**works)
    first = f"{lengths[0]}_tokens"
    for name in works:
        against = first if name.endswith("tokens") else "greedy"
        if name == against:
            continue
        values = paired(found[name], found[against])
        line(f"{model}: {name.replace('_', ' ')} / {against.replace('_', ' ')}", spread(values, 2))
        what = f"{against.replace('_', ' ')}, translation with all maps, " + ("beam 4" if against == first else f"{MIDDLE} tokens")
        ratios.add(f"growth.{model}.{name}.vs_{against}", values, what)


def run(models: Sequence[str], rounds: int, threads: int, clock: str, lengths: Sequence[int], ratios: Ratios) -> None:
    with TemporaryDirectory() as temporary:
        for model in models:
            folder = Path(temporary) / model
            if model == rivals.BASE:
                rivals.write_base_folder(folder)
            ours = Worker(Ours, model, folder, threads=threads, clock=clock)
            try:
                turns = Turns(ours, rounds, clock)
                capture(model, ours, turns, lengths, ratios)
                floor(model, ours, turns, ratios)
                growth(model, ours, turns, lengths, ratios)
            finally:
                ours.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=rivals.MODELS, default=rivals.MODELS)
    parser.add_argument("--lengths", nargs="+", type=int, choices=LENGTHS, default=LENGTHS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="processor: for one thread on a busy machine")
    given = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {given.threads} threads, {given.rounds} rounds")
    ratios = Ratios()
    run(given.only, given.rounds, given.threads, given.clock, given.lengths, ratios)
    ratios.save()


if __name__ == "__main__":
    main()
