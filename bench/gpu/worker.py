"""A process that answers requests and may hang, die or fail. Every request has a time limit. A process that gives no
answer is replaced, since a kernel's fault makes its device unusable. The error says what the process was doing."""

from __future__ import annotations

import contextlib
import multiprocessing
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from bench.gpu import place

START_SECONDS = 180.0
"""Time limit for imports and for the call of `make`."""

Answer = Callable[[Any], Any]


class LostError(Exception):
    """No answer: the request failed, took too long, or ended the process; the text says which of these, and what the
    process was doing."""


class NoStartError(LostError):
    """`make` failed: no request will be answered."""


class Worker:
    """`make`, a function of a module, is called in the process; its result answers the requests there."""

    def __init__(self, make: Callable[[], Answer]) -> None:
        self._make = make
        self._process: BaseProcess | None = None
        self._place: Any = None
        self._pipe: Connection | None = None

    def ask(self, request: Any, seconds: float) -> Any:
        """The answer.

        Raises:
            LostError: if there is none; another process may answer the next request.
        """
        pipe = self._pipe or self._start()
        pipe.send(request)
        good, value = self._receive(pipe, seconds)
        if not good:
            self.close()
            raise LostError(value)
        return value

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._process = self._pipe = None

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        self._place = context.Array("c", place.LENGTH, lock=False)
        arguments = (self._make, theirs, self._place)
        process = context.Process(target=_serve, args=arguments)  # no daemon: Inductor starts others
        process.start()
        self._process = process
        theirs.close()
        good, value = self._receive(pipe, START_SECONDS)
        if not good:
            self.close()
            raise NoStartError(value)
        self._pipe = pipe
        return pipe

    def _receive(self, pipe: Connection, seconds: float) -> tuple[bool, Any]:
        reason = "the process ended"
        with contextlib.suppress(EOFError, OSError):
            if pipe.poll(seconds):
                good, value = pipe.recv()
                return good, value if good else self._placed(value)
            reason = f"no answer within {seconds:.0f} s"
        self.close()
        return False, self._placed(reason)

    def _placed(self, reason: str) -> str:
        """The reason, and what the process was doing."""
        doing = place.read(self._place)
        return f"{reason}, while {doing}" if doing else reason


@contextlib.contextmanager
def working(make: Callable[[], Answer]) -> Iterator[Worker]:
    """A worker that is closed at the end."""
    worker = Worker(make)
    try:
        yield worker
    finally:
        worker.close()


def _serve(make: Callable[[], Answer], pipe: Connection, memory: Any) -> None:
    """Runs in the process: sends (True, answer) or (False, reason) for the start and for every request."""
    place.share(memory)
    try:
        answer = make()
    except Exception as error:
        pipe.send((False, _error_text(error)))
        return
    pipe.send((True, None))
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        try:
            place.tell("")
            pipe.send((True, answer(request)))
        except Exception as error:
            pipe.send((False, _error_text(error)))


def _error_text(error: Exception) -> str:
    """The error and where it arose."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {str(error)[:400]} ({place.name}, {place.filename}:{place.lineno})"
