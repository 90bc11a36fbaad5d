"""A class on the server: `python -m tests.benchmarks.load`. Prints throughput, waiting times and memory, and checks every answer.

The server is a process of its own with the embedded model and its limits as they are; visitors are those of tests/load/visitors.py.
Times depend on the machine and on what else it does: read p50 and p95 beside the time of one translation alone.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from model import load_translator
from tests.benchmarks.table import spread
from tests.load.visitors import Answer, Visitor, class_of, visiting

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = ("The cat", "My sister", "The old teacher", "A student", "Our neighbour", "The little boy", "She", "Tom", "The doctor", "Mary")
VERBS = ("reads", "wants", "has lost", "is looking for", "bought", "will bring", "has found", "needs", "likes", "forgot")
OBJECTS = ("a book", "the key", "two tickets", "an umbrella", "the red bag", "a bicycle", "the letter", "some water", "a map", "her phone")
ENDS = ("today.", "at the station.", "in the garden.", "every morning.", "because it is late.", "for you.", "at home.", "before school.")


def sentences(count: int, seed: int) -> list[str]:
    """So many different sentences of everyday words. ValueError if there are not so many."""
    every = [f"{s} {v} {o} {e}" for s in SUBJECTS for v in VERBS for o in OBJECTS for e in ENDS]
    return random.Random(seed).sample(every, count)


@contextmanager
def serving() -> Iterator[tuple[str, int]]:
    """Address and process id of `python app.py`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {"PORT": str(port), "GRADIO_SERVER_NAME": "127.0.0.1"}
    code = f"import os, runpy; os.environ.update({environment!r}); runpy.run_path('app.py', run_name='__main__')"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            if process.poll() is not None:
                raise SystemExit("the server ended by itself")
            try:
                httpx.get(f"{url}/gradio_api/app_id", trust_env=False, timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.2)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait(30)


def memory(pid: int) -> float:
    """Resident megabytes of a process; 0 where there is no /proc."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1000


def report(name: str, answers: Sequence[Answer], seconds: float) -> None:
    times = sorted(answer.seconds for answer in answers)
    p50, p95 = statistics.median(times), times[int(0.95 * (len(times) - 1))]
    refused = sum(bool(answer.refusals) for answer in answers)
    print(
        f"{name:34} {len(answers):5} answers in {seconds:6.1f} s: {len(answers) / seconds:5.1f}/s,"
        f" p50 {p50:.2f} s, p95 {p95:.2f} s, longest {times[-1]:.2f} s, asked again: {refused}",
        flush=True,
    )


def check(answers: Sequence[Answer], sample: int = 0) -> None:
    """Every answer is of its own sentence; `sample` of them are what the model writes when nobody else is there. Else SystemExit."""
    wrong = [answer for answer in answers if not answer.is_right()]
    translator = load_translator() if sample else None
    for answer in random.Random(1).sample(answers, min(sample, len(answers))):
        tokens = [label["raw"] for label in answer.maps["sides"]["source"]["pieces"]["en"]]
        alone = translator.translate(answer.sentence, "fra", answer.result["request"]["beam_size"])
        if not answer.is_right(alone.text) or tuple(tokens) != alone.src_tokens:
            wrong.append(answer)
    if wrong:
        raise SystemExit(f"{len(wrong)} wrong answers, such as to {wrong[0].sentence!r}: {wrong[0].result}")


def timed(url: str, visitors: Sequence[Sequence[str]], pause: float, beam_size: int) -> tuple[list[Answer], float]:
    start = time.perf_counter()
    answers = asyncio.run(class_of(url, visitors, pause, beam_size))
    return answers, time.perf_counter() - start


async def closed_tabs(url: str, count: int, beam_size: int) -> float:
    """Seconds that a visitor waits after `count` tabs have asked for something and were closed."""
    async with visiting(url) as (http, event):
        reached: set[str] = set()

        async def read(tab: Visitor) -> None:
            async with tab.stream() as messages:
                async for _ in messages:
                    reached.add(tab.session)

        tabs = [Visitor(http, event) for _ in range(count)]
        for tab, sentence in zip(tabs, sentences(count, seed=7), strict=True):
            (await tab.join(f"{sentence} {sentence} {sentence}", "fra", 8)).raise_for_status()
        reading = [asyncio.create_task(read(tab)) for tab in tabs]
        while len(reached) < count:
            await asyncio.sleep(0.05)
        for each in reading:
            each.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        answer = await Visitor(http, event).translate("I am still here.", beam_size=beam_size)
        check([answer])
        return answer.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visitors", type=int, default=60)
    parser.add_argument("--translations", type=int, default=2000)
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--pause", type=float, default=5.0, help="seconds at most between two sentences of a visitor")
    options = parser.parse_args()
    each = options.translations // options.visitors
    every = sentences(each * options.visitors, seed=1)
    beam = options.beam_size

    with serving() as (url, pid):
        alone, _ = timed(url, [sentences(8, seed=2)], 0, beam)
        print(f"{'one visitor alone':34} {spread([answer.seconds for answer in alone[1:]], 2)} s a translation", flush=True)
        same, seconds = timed(url, [["All of us press the same button."]] * options.visitors, 0, beam)
        check(same)
        report("all the same sentence at once", same, seconds)
        different, seconds = timed(url, [[sentence] for sentence in sentences(options.visitors, seed=3)], 0, beam)
        check(different)
        report("each another sentence at once", different, seconds)
        before = memory(pid)
        answers, seconds = timed(url, [every[i :: options.visitors] for i in range(options.visitors)], options.pause, beam)
        report("all typing on", answers, seconds)
        check(answers, sample=40)
        print(f"{'memory of the server':34} {before:.0f} MB before, {memory(pid):.0f} MB after {len(answers)} translations", flush=True)
        print(f"{'a visitor after 40 closed tabs':34} {asyncio.run(closed_tabs(url, 40, beam)):.2f} s", flush=True)
        last, _ = timed(url, [["I am a student."]], 0, beam)
        check(last, sample=1)
        print("The server is alive, and every answer was right.")


if __name__ == "__main__":
    main()
