"""The limits of saturation that are measured, by the clock and in memory, between iterations and inside them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from eqsat.egraph.engine import Interruption
from eqsat.egraph.stop import Stop
from eqsat.options import Budget

_STATUS = Path("/proc/self/statm")
_EVERY = 256
"""Calls of primitives between two looks at the memory."""


class Meter:
    """What a budget leaves of time and memory."""

    def __init__(self, budget: Budget, start: float) -> None:
        """start: when saturation began, by `time.perf_counter`; its memory is what the process takes from now on."""
        self._deadline = None if budget.seconds is None else start + budget.seconds
        self._most_bytes = None if budget.bytes is None else resident_bytes() + budget.bytes
        self._calls = 0

    def stop(self) -> Stop | None:
        """The limit that is reached."""
        if self._deadline is not None and time.perf_counter() > self._deadline:
            return Stop.TIME_LIMIT
        if self._most_bytes is not None and resident_bytes() > self._most_bytes:
            return Stop.MEMORY_LIMIT
        return None

    def check(self) -> None:
        """Interrupt an iteration where a limit is reached; memory is looked at now and then."""
        self._calls += 1
        if self._deadline is not None and time.perf_counter() > self._deadline:
            raise Interruption
        if self._calls % _EVERY == 0 and self.stop():
            raise Interruption


def resident_bytes() -> int:
    """Memory that the process takes; where the system tells only the most that it ever took, that."""
    import mmap
    import resource

    if _STATUS.exists():
        return int(_STATUS.read_text().split()[1]) * mmap.PAGESIZE
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
