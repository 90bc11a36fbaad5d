"""The GPU of a ZeroGPU Space. It is lent for one call at a time, inside a function that `spaces` marks and runs in a forked process.

What follows from that:

- The process that serves computes on the CPU, as on a machine without a GPU; it holds every model and reads the weights for the pictures.
- The embedded model alone goes to the GPU. A forked process knows what was loaded when it was forked, and lives on for later calls; models
  that visitors load meanwhile are not in it, and are computed here on the CPU.
- Question and answer are pickled. Of an error only the name of its class would come back, so typed ones come back as the answer.
- A visitor has seconds of it in a day, and there may be none free. Then the CPU answers, and the GPU is left alone for a while: waiting for
  it would make everybody wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from model.errors import AtlasError
from model.loading import on_lent_device

if TYPE_CHECKING:
    from model.translator import Translator

Answer = TypeVar("Answer")

SECONDS = 15  # that a call asks for; one that asks for more than the visitor has left is refused
REST = 60  # seconds for which a GPU that was refused is not asked for
log = logging.getLogger(__name__)


class LentGpu:
    """Answers questions about one model on the lent GPU, or else on the CPU. Any thread may ask; one at a time."""

    def __init__(self, translator: Translator, clock: Callable[[], float] = time.monotonic) -> None:
        import spaces  # type: ignore[import-not-found]  # only a Space has it

        self._translator = translator
        self._moved: Translator | None = None  # stays None but in a forked process
        self._ask = spaces.GPU(duration=SECONDS)(self._in_fork)
        self._clock = clock
        self._asks_from = clock()

    def ask(self, question: Callable[..., Answer], *args: object, **here: object) -> Answer:
        """`question(translator, *args)`. Raises the question's errors. The question is a function at the top of its module.

        here: further arguments, for the CPU alone, that go to no other process.
        """
        if self._clock() >= self._asks_from:
            try:
                answer = self._ask(question, *args)
            except Exception as error:  # whatever stands in the way of the GPU; a mistake of ours is raised again by the CPU
                log.warning("No GPU (%s): the CPU computes, for the next %d seconds.", error, REST)
                self._asks_from = self._clock() + REST
            else:
                if isinstance(answer, AtlasError):
                    raise answer
                return answer
        return question(self._translator, *args, **here)

    def _in_fork(self, question: Callable[..., Answer], *args: object) -> Answer | AtlasError:
        try:
            if self._moved is None:
                self._moved = on_lent_device(self._translator)
            return question(self._moved, *args)
        except AtlasError as error:
            return error
