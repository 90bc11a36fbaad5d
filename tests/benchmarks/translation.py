"""A translation with all its attention maps, beside transformers (with its attentions) and CTranslate2 (which gives none).

`python -m tests.benchmarks.translation [--only embedded base] [--against ctranslate2 transformers] [--lengths 10 30] [--beams 1 4]
[--rounds 5] [--threads 1] [--capture trace] [--device cpu] [--clock wall]`. All programs have the same weights in float32, read the same
ids, write as many tokens and have as many threads; they take turns in every round, and each round gives a ratio. Before anything is
timed, what they write is compared.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks import rivals
from tests.benchmarks.contest import CLOCKS, ENOUGH, KINDS, CTranslate2, Job, Ours, Transformers, TransformersInTwoPasses, Worker, workers
from tests.benchmarks.table import Ratios, line, paired, spread

LENGTHS, BEAMS = (10, 30, 100), (1, 4)
AGAINST = {
    "ctranslate2": "CTranslate2 float32, plain translation without maps, same weights, ids, threads",
    "transformers": "transformers generate, eager, output_attentions, same weights, ids, threads",
    "transformers_in_two_passes": "transformers generate, sdpa, and one eager pass for the maps, same weights, ids, threads",
}
TOLERANCE = 1e-4  # between weights
SCORES_WITHIN = 1e-3  # CTranslate2 bans fewer tokens, whose share ours gives to the others
# What is captured, and the names of its ratios.
NAMES = {"trace": "translate_and_capture", "examine": "translate_and_examine", "nothing": "translate"}
# For the embedded model real sentences, so that its translations are real too.
TEXTS = {
    10: "The old man walked slowly to the river.",
    30: "Yesterday my sister bought a red bicycle, and now she rides it to school every morning with her two best friends from our street.",
    100: "I have lived in this town since I was a child. My father worked at the station, and my mother was a teacher. Every summer we "
    "went to the sea, where we had a small house. We swam, we read books, and in the evening we cooked fish on the beach. Now the house "
    "belongs to my brother. He has three children, and they love the water as much as we did. When I visit them, we talk about old times.",
}
WORDS = "the red apple children will find this house my sister loves an old boat and your friend saw a bird today nobody knows it".split()


@dataclass(frozen=True)
class How:
    lengths: Sequence[int] = LENGTHS
    beams: Sequence[int] = BEAMS
    rounds: int = 7
    threads: int = 1
    capture: str = "trace"
    device: str = "cpu"
    clock: str = "wall"

    def name(self, model: str) -> str:
        """How the ratios begin."""
        return f"{NAMES[self.capture]}.{model}" + ("" if self.device == "cpu" else f".{self.device}")


    def against(self, name: str) -> str:
        return AGAINST[name] + ("; processor time, not wall time" if self.clock == "processor" else "")


def default_threads() -> int:
    return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)


def job(ours: Worker, model: str, length: int, beam_size: int, new_tokens: int | None = None) -> Job:
    """About `length` tokens to read, and as many to write, if not told otherwise."""
    if model == rivals.EMBEDDED:
        text = TEXTS[length]
    else:  # random weights: any words
        text = "I"
        for words in (WORDS * length, ["I"] * length):
            for word in words:
                if len(ours.call("src_ids", f"{text} {word}")) > length:
                    break
                text += f" {word}"
    src_ids = ours.call("src_ids", text)
    return Job(text, src_ids, beam_size, new_tokens or length)


def check(programs: dict[str, Worker], work: Job) -> tuple[str, dict[str, float]]:
    """What all of them write for this job, compared with what ours writes, as a word for the table; and the seconds of each.

    Raises RuntimeError for a wrong length."""
    answers = {name: program.timed("run", work) for name, program in programs.items()}
    written = {name: ids for name, (_, ids) in answers.items()}
    for name, ids in written.items():
        if len(ids) != work.new_tokens:
            raise RuntimeError(f"{name} wrote {len(ids)} tokens, not {work.new_tokens}: {ids}")
    ours = written["ours"]
    parted = {name: _agree(ours, ids) for name, ids in written.items() if ids != ours}
    said = "same ids" if not parted else ", ".join(f"{name}: the first {count} ids" for name, count in parted.items())
    return said, {name: seconds for name, (seconds, _) in answers.items()}


def _agree(ours: Sequence[int], theirs: Sequence[int]) -> int:
    return next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)


def check_maps(programs: dict[str, Worker], work: Job) -> None:
    """Our maps beside those that transformers' steps returned. Raises RuntimeError if they differ."""
    ours, theirs = (programs[name].call("maps", work) for name in ("ours", "transformers"))
    for kind, a, b in zip(KINDS, ours, theirs, strict=True):
        if a.shape != b.shape or not (distance := float((a - b).abs().max())) < TOLERANCE:
            raise RuntimeError(f"{kind}: {tuple(a.shape)} of ours, {tuple(b.shape)} of theirs, apart by {distance}")
        print(f"  {kind}: {math.prod(a.shape):,} weights, at most {distance:.1e} apart from transformers'")


def check_scores(programs: dict[str, Worker], work: Job) -> None:
    """What CTranslate2 thinks of what it writes, beside ours: it gives no maps. Raises RuntimeError if they differ."""
    ours, theirs = (programs[name].call("score", work) for name in ("ours", "ctranslate2"))
    if not abs(ours - theirs) < SCORES_WITHIN:
        raise RuntimeError(f"a token's log-probability is {ours:.6f} on average, and {theirs:.6f} in CTranslate2")
    print(f"  log-probability of a token: {ours:.6f}, {abs(ours - theirs):.1e} apart from CTranslate2's")


def contest(programs: dict[str, Worker], model: str, how: How, ratios: Ratios) -> None:
    """Ours beside each of the others, in turns, for all lengths and beams."""
    theirs = [name for name in programs if name != "ours"]
    together: dict[str, list[list[float]]] = defaultdict(list)
    if "transformers" in programs:
        check_maps(programs, job(programs["ours"], model, how.lengths[0], 1))
    if "ctranslate2" in programs:
        check_scores(programs, job(programs["ours"], model, how.lengths[0], how.beams[-1]))
    line(f"{model}: tokens read, written, beam", "ours, ms", *(f"ours / {name}" for name in theirs))
    for length in how.lengths:
        for beam_size in how.beams:
            work = job(programs["ours"], model, length, beam_size)
            said, first = check(programs, work)
            times = {name: max(1, math.ceil(ENOUGH / seconds)) for name, seconds in first.items()}
            found: dict[str, list[float]] = defaultdict(list)
            for turn in range(how.rounds):
                for name in list(programs)[:: 1 if turn % 2 else -1]:
                    found[name].append(programs[name].timed("run", work, times=times[name])[0])
            each = {name: paired(found["ours"], found[name]) for name in theirs}
            method = "greedy" if beam_size == 1 else f"beam_{beam_size}"
            label = f"{len(work.src_ids)}, {work.new_tokens}, {method.replace('_', ' ')}"
            line(label, spread([1000 * t for t in found["ours"]]), *(spread(each[name], 2) for name in theirs), said)
            for name in theirs:
                ratios.add(f"{how.name(model)}.{length}_tokens.{method}.vs_{name}", each[name], how.against(name))
                together[name].append(each[name])
    means = {name: [statistics.geometric_mean(of_round) for of_round in zip(*together[name], strict=True)] for name in theirs}
    line("geometric mean", "", *(spread(means[name], 2) for name in theirs))
    peaks = {name: program.peak_bytes() / 2**20 for name, program in programs.items()}
    line("peak memory of the process, MB", *(f"{peak:,.0f} {name}" for name, peak in peaks.items()))
    for name in theirs:
        ratios.add(f"{how.name(model)}.vs_{name}", means[name], f"{how.against(name)}; geometric mean of lengths and beams")
        ratios.add(f"peak_memory.{how.name(model)}.vs_{name}", [peaks["ours"] / peaks[name]], AGAINST[name])


def run(models: Sequence[str], against: Sequence[str], how: How, ratios: Ratios) -> None:
    with TemporaryDirectory() as temporary:
        for model in models:
            folder = Path(temporary) / model
            folder.mkdir()
            if model == rivals.BASE:
                rivals.write_base_folder(folder)
            if "ctranslate2" in against:
                # Converted in a process of its own: what that takes is none of the translator's memory.
                Worker(CTranslate2, model, folder, how.threads, threads=how.threads).close()
            known = {
                "ctranslate2": (CTranslate2, model, folder, how.threads, how.device),
                "transformers": (Transformers, model, folder, how.device),
                "transformers_in_two_passes": (TransformersInTwoPasses, model, folder, how.device),
            }
            programs = {"ours": (Ours, model, folder, how.capture, how.device)} | {name: known[name] for name in against}
            with workers(how.threads, how.clock, **programs) as asked:
                contest(asked, model, how, ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=rivals.MODELS, default=rivals.MODELS)
    parser.add_argument("--against", nargs="+", choices=tuple(AGAINST), default=("ctranslate2", "transformers"))
    parser.add_argument("--lengths", nargs="+", type=int, choices=LENGTHS, default=LENGTHS)
    parser.add_argument("--beams", nargs="+", type=int, default=BEAMS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--capture", choices=tuple(NAMES), default="trace")
    parser.add_argument("--device", default="cpu", help="such as cuda, for all of them")
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="wall", help="processor: for one thread on a busy machine")
    given = parser.parse_args()
    how = How(given.lengths, given.beams, given.rounds, given.threads, given.capture, given.device, given.clock)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {how.threads} threads each, {how.rounds} rounds, {how.device}")
    ratios = Ratios()
    run(given.only, given.against, how, ratios)
    ratios.save()


if __name__ == "__main__":
    main()
