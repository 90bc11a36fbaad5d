"""Programs that translate the same ids, each in a process of its own, asked in turns.

A program that waits uses no processor: it blocks on a pipe. Threads that spin for a moment after their work (OpenMP's do) are over before
the next one is asked. Every answer holds the ids that were written, so that what is timed is known to be the same work.
"""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import torch

from model.results import Translation
from tests.benchmarks import rivals

if TYPE_CHECKING:
    from ctranslate2 import TranslationResult
    from transformers.utils import ModelOutput

SETTLE = 0.25  # s: KMP_BLOCKTIME is 0.2 s
ENOUGH = 0.15  # s: shorter work is done several times in a round
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
KINDS = ("encoder_self_attention", "decoder_self_attention", "cross_attention")


@dataclass(frozen=True)
class Job:
    """One sentence to translate into exactly `new_tokens` tokens. beam_size 1 is greedy."""

    text: str
    src_ids: tuple[int, ...]
    beam_size: int
    new_tokens: int


class Program(Protocol):
    def run(self, job: Job) -> tuple[int, ...]:
        """The ids that were written, without the start."""


class Ours:
    """capture: "trace" (all maps), "examine" (all maps, norms and runner-ups: what the page asks for) or "nothing"."""

    def __init__(self, model: str, folder: Path, capture: str = "trace", device: str = "cpu") -> None:
        self.translator = rivals.our_translator(model, folder, device)
        self.capture = capture
        self._buffer = torch.empty(0)

    def run(self, job: Job, capture: str | None = None) -> tuple[int, ...]:
        capture = capture or self.capture
        if capture == "nothing":
            return self._translate(job).tgt_ids
        together = getattr(self.translator, f"translate_and_{capture}")
        found, _ = together(job.text, self.translator.targets[0], job.beam_size, max_new_tokens=job.new_tokens)
        return found.tgt_ids

    def src_ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.translator.tokenizer.encode_source(text, self.translator.targets[0]))

    def maps(self, job: Job) -> list[torch.Tensor]:
        """[layer, head, query, key] of each of the KINDS."""
        _, trace = self.translator.translate_and_trace(job.text, self.translator.targets[0], job.beam_size, max_new_tokens=job.new_tokens)
        return [torch.tensor(getattr(trace, kind)) for kind in KINDS]

    def score(self, job: Job) -> float:
        """Log-probability of what was written, for each token of it on average."""
        return self._translate(job).score

    def bytes_a_step(self) -> int:
        """What a step of decoding has to read of the weights: the decoder's and the output's. Of cross-attention, keys and values are
        computed once; of the embedding, a row a token is read."""
        model = self.translator.model
        parameters = [*model.decoder.parameters(), *model.decoder_norm.parameters(), model.output_bias]
        parameters.append(model.tgt_embedding.tokens.weight if model.output_weight is None else model.output_weight)
        size = sum(each.numel() * each.element_size() for each in parameters if each is not None)
        once = [each for layer in model.decoder for each in (layer.cross_attn.k_proj, layer.cross_attn.v_proj)]
        return size - sum(each.numel() * each.element_size() for module in once for each in module.parameters())

    def read(self, size: int, clock: str = "wall") -> float:
        """Seconds to read `size` bytes of memory: as many as the weights, so that they lie as near (a small model's stay in the processor's
        cache), and for as long as a measurement of the model takes, so that a busy machine slows both."""
        if self._buffer.numel() != size // 4:
            self._buffer = torch.ones(size // 4)
        now, count = CLOCKS[clock], 0
        start = now()
        while (passed := now() - start) < ENOUGH:
            self._buffer.sum()
            count += 1
        return passed / count

    def _translate(self, job: Job) -> Translation:
        return self.translator.translate(job.text, self.translator.targets[0], job.beam_size, max_new_tokens=job.new_tokens)


class Transformers:
    """`generate`, with the attentions that it returns (one tensor for each layer and step, of all beams) left as they are."""

    def __init__(self, model: str, folder: Path, device: str = "cpu") -> None:
        self.model = rivals.transformers_model(model, folder).to(device)

    def run(self, job: Job) -> tuple[int, ...]:
        return tuple(self._generate(job).sequences[0, 1:].tolist())

    def maps(self, job: Job) -> list[torch.Tensor]:
        """The same as of ours, for a beam of one, on the CPU: the rows of all steps, put together."""
        out = self._generate(job)
        cross = torch.stack([torch.stack(step)[:, 0] for step in out.cross_attentions])[:, :, :, 0]  # [step, layer, head, source]
        own = cross.new_zeros(*cross.shape[:3], len(out.decoder_attentions))
        for row, step in enumerate(out.decoder_attentions):
            own[row, :, :, : row + 1] = torch.stack(step)[:, 0, :, 0]
        return [maps.cpu() for maps in (torch.stack(out.encoder_attentions)[:, 0], own.permute(1, 2, 0, 3), cross.permute(1, 2, 0, 3))]

    def _generate(self, job: Job, attentions: bool = True) -> ModelOutput:
        src_ids = torch.tensor([job.src_ids], device=self.model.device)
        with torch.inference_mode():
            return self.model.generate(
                input_ids=src_ids,
                attention_mask=torch.ones_like(src_ids),
                num_beams=job.beam_size,
                do_sample=False,
                min_new_tokens=job.new_tokens,
                max_new_tokens=job.new_tokens,
                output_attentions=attentions,
                return_dict_in_generate=True,
            )


class TransformersInTwoPasses(Transformers):
    """As ours does it: `generate` with the fused attention, and one pass over what it wrote with the eager one, for the maps."""

    def run(self, job: Job) -> tuple[int, ...]:
        self.model.set_attn_implementation("sdpa")
        written = self._generate(job, attentions=False).sequences
        self.model.set_attn_implementation("eager")
        with torch.inference_mode():
            src_ids = torch.tensor([job.src_ids], device=self.model.device)
            out = self.model(src_ids, decoder_input_ids=written[:, :-1], output_attentions=True, use_cache=False)
        if len(out.cross_attentions) != self.model.config.decoder_layers:
            raise RuntimeError("the second pass returned no attentions")
        return tuple(written[0, 1:].tolist())


class CTranslate2:
    """Plain translation, without any maps."""

    def __init__(self, model: str, folder: Path, threads: int, device: str = "cpu") -> None:
        self.translator = rivals.ctranslate2_model(model, folder, folder / f"ctranslate2-{model}", threads, device)

    def run(self, job: Job) -> tuple[int, ...]:
        return tuple(rivals.token_id(word) for word in self._translate(job).hypotheses[0])

    def score(self, job: Job) -> float:
        """The same as of ours."""
        return self._translate(job, return_scores=True).scores[0]

    def _translate(self, job: Job, **more: object) -> TranslationResult:
        (result,) = self.translator.translate_batch(
            [[rivals.token(i) for i in job.src_ids]],
            beam_size=job.beam_size,
            min_decoding_length=job.new_tokens,
            max_decoding_length=job.new_tokens,
            max_input_length=0,
            **more,
        )
        return result


class Worker:
    """A program in a process of its own. Raises RuntimeError, with its traceback, for what goes wrong there.

    clock: "wall", or "processor": the time that all threads of the process compute, whatever else the machine does meanwhile. It is for a
    busy machine and one thread: threads that wait for each other compute, too.
    """

    def __init__(self, make: Callable[..., Program], *args: object, threads: int, clock: str = "wall") -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(target=_serve, args=(there, threads, clock, make, *args), daemon=True)
        self._process.start()
        there.close()
        self._answer()

    def call(self, method: str, *args: object) -> object:
        self._pipe.send((method, 1, args))
        return self._answer()[1]

    def timed(self, method: str, *args: object, times: int = 1) -> tuple[float, object]:
        """(seconds of one of `times` calls, the last answer)."""
        time.sleep(SETTLE)
        self._pipe.send((method, times, args))
        return self._answer()

    def peak_bytes(self) -> int:
        """The most memory that the process has had so far."""
        return self.call("peak_bytes")

    def close(self) -> None:
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()

    def _answer(self) -> tuple[float, object]:
        try:
            failed, answer = self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"a program has ended with status {self._process.exitcode}") from None
        if failed:
            raise RuntimeError(answer)
        return answer


@contextmanager
def workers(threads: int, clock: str = "wall", **programs: Sequence[object]) -> Iterator[dict[str, Worker]]:
    """name=(class, arguments...): a Worker of each."""
    with ExitStack() as stack:
        found = {}
        for name, (make, *args) in programs.items():
            found[name] = Worker(make, *args, threads=threads, clock=clock)
            stack.callback(found[name].close)
        yield found


def _serve(pipe: Connection, threads: int, clock: str, make: Callable[..., Program], *args: object) -> None:
    now = CLOCKS[clock]
    try:
        torch.set_num_threads(threads)
        program = make(*args)
        pipe.send((False, (0.0, None)))
        while True:
            method, times, given = pipe.recv()
            act = peak_bytes if method == "peak_bytes" else getattr(program, method)
            start = now()
            for _ in range(times):
                answer = act(*given)
            pipe.send((False, ((now() - start) / times, answer)))
    except EOFError:
        pass
    except Exception:
        pipe.send((True, traceback.format_exc()))


def peak_bytes() -> int:
    """The most memory that this process has had so far: resident, and without what it shares with files on Linux."""
    import resource

    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) * 1024
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if os.uname().sysname == "Darwin" else size * 1024
