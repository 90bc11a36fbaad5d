"""A stand-in for the package `spaces` as it behaves on a ZeroGPU Space (0.51), for a machine without one.

A marked function runs in a process that is forked at its first call and answers later ones too; arguments and answers are pickled; of an
exception the name of its class comes back, unless it is Gradio's own; a function called inside of a marked one runs where it is; the
GPU may be refused, with Gradio's error, or be taken away in the middle. Outside torch says that CUDA is there, and it is not.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gradio as gr
import torch


class ZeroGpu:
    """Stands in for the module. refusal: what every call is refused with, while it is set. seconds: the duration that was asked for.

    answered: (name of the first argument if it is a function, process that ran it) of every call. forked: of the workers.
    """

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.seconds: list[object] = []
        self.answered: list[tuple[str, int]] = []
        self.workers: list[_Worker] = []
        self.inside = False

    def GPU(self, task: Callable | None = None, *, duration: object = None, size: str | None = None) -> Callable:
        if task is None:
            return lambda task: self.GPU(task, duration=duration, size=size)
        self.seconds.append(duration)
        idle: list[_Worker] = []

        def marked(*args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return task(*args, **kwargs)
            if self.refusal is not None:
                raise gr.Error(self.refusal, title="ZeroGPU quota exceeded", print_exception=False)
            if not idle or not idle[-1].process.is_alive():
                idle.append(_Worker(self, task))
                self.workers.append(idle[-1])
            worker = idle[-1]
            worker.pipe.send_bytes(pickle.dumps((args, kwargs)))
            try:
                kind, pid, value = pickle.loads(worker.pipe.recv_bytes())
            except EOFError:
                raise gr.Error("GPU task aborted", title="ZeroGPU worker error", print_exception=False) from None
            if kind == "failed":
                raise gr.Error(value, title="ZeroGPU worker error", print_exception=False)
            first = args[0] if args else None
            self.answered.append((getattr(first, "__name__", ""), pid))
            return value

        return marked

    def stop(self) -> None:
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()


class _Worker:
    def __init__(self, zero: ZeroGpu, task: Callable) -> None:
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(zero, task, theirs, self.pipe), daemon=True)
        self.process.start()
        theirs.close()


def _serve(zero: ZeroGpu, task: Callable, pipe: Any, other: Any) -> None:
    other.close()
    zero.inside = True
    torch.cuda.is_available = lambda: False  # as on the machine that the tests run on; on a Space the real one comes back
    while True:
        try:
            args, kwargs = pickle.loads(pipe.recv_bytes())
        except EOFError:
            return

        def run(args: tuple = args, kwargs: dict = kwargs) -> bytes:
            try:
                return pickle.dumps(("ok", os.getpid(), task(*args, **kwargs)))
            except Exception as error:
                return pickle.dumps(("failed", os.getpid(), type(error).__name__))

        with ThreadPoolExecutor(1) as executor:
            pipe.send_bytes(executor.submit(run).result())


def taken_away(seconds: float = 0.0) -> None:
    """Ends the process that runs this, as the Space does with a call that takes too long."""
    threading.Timer(seconds, os._exit, (1,)).start()
    threading.Event().wait()
