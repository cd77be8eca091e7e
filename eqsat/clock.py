"""Wall time per stage, and progress messages to the caller."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from eqsat.failure.internal_error import at_stage, callers_code
from eqsat.logs.topics import OF_STAGE

Progress = Callable[[str], None]


class Clock:
    """`seconds` is wall time by stage; the times of a stage that runs twice are added. A stage that goes on is told
    once."""

    def __init__(self, progress: Progress | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._stage = ""

    def tell(self, what: str) -> None:
        """Report to the caller what begins inside a stage."""
        if self._progress is not None:
            with callers_code():
                self._progress(what)

    def count(self, what: str) -> None:
        """Report what a stage has counted so far, to a caller who shows it."""
        detail = getattr(self._progress, "detail", None)
        if detail is not None:
            with callers_code():
                detail(what)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        if name != self._stage:
            self.tell(name)
        self._stage = name
        start = time.perf_counter()
        try:
            with at_stage(name):
                yield
        finally:
            seconds = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            if name in OF_STAGE:
                OF_STAGE[name].info("%s took %.1f ms", name, seconds * 1e3)
