"""Limits on time and memory of a saturation, checked between iterations and within them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from eqsat.egraph.engine import Interruption
from eqsat.egraph.stop import Stop
from eqsat.options import Budget

_STATUS = Path("/proc/self/statm")
_EVERY = 256
"""Calls of primitives from one measurement of memory to the next."""


class Meter:
    """Compares time and memory with a budget."""

    def __init__(self, budget: Budget, start: float) -> None:
        """start: when saturation began, by `time.perf_counter`. Memory counts from the process's present size."""
        self._deadline = None if budget.seconds is None else start + budget.seconds
        self._most_bytes = None if budget.bytes is None else resident_bytes() + budget.bytes
        self._calls = 0

    def stop(self) -> Stop | None:
        """The limit that is reached; None if there is none."""
        if self._deadline is not None and time.perf_counter() > self._deadline:
            return Stop.TIME_LIMIT
        if self._most_bytes is not None and resident_bytes() > self._most_bytes:
            return Stop.MEMORY_LIMIT
        return None

    def check(self) -> None:
        """Interrupt an iteration when a limit is reached. Memory is measured only once in a while."""
        self._calls += 1
        if self._deadline is not None and time.perf_counter() > self._deadline:
            raise Interruption
        if self._calls % _EVERY == 0 and self.stop():
            raise Interruption


def resident_bytes() -> int:
    """The memory of the process; its peak on systems that report only that."""
    import mmap
    import resource

    if _STATUS.exists():
        return int(_STATUS.read_text().split()[1]) * mmap.PAGESIZE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
