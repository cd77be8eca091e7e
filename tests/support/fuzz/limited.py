"""A time limit for tests of code that might hang."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator

WAITING = 8
"""Seconds of wall clock per second of CPU that a limit allows: a process waits for its turn and for compilers."""


class HangError(Exception):
    """Something took longer than it may."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raises HangError after `seconds` of CPU of this process, after `WAITING` times as many of wall clock, or when a
    limit around this one ends; in the main thread only."""
    with _timer(signal.ITIMER_PROF, seconds), _timer(signal.ITIMER_REAL, WAITING * seconds):
        yield


_SIGNALS = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}
_CLOCKS = {signal.ITIMER_PROF: time.process_time, signal.ITIMER_REAL: time.monotonic}


@contextlib.contextmanager
def _timer(timer: int, seconds: float) -> Iterator[None]:
    """Raises HangError when one of the system's timers has run for so long."""

    def stop(*_: object) -> None:
        raise HangError(f"more than {seconds:.0f} s of {'CPU' if timer == signal.ITIMER_PROF else 'wall clock'}")

    clock = _CLOCKS[timer]
    before, began = signal.signal(_SIGNALS[timer], stop), clock()
    left, _ = signal.getitimer(timer)
    signal.setitimer(timer, min(seconds, left) if left else seconds)
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(_SIGNALS[timer], before)
        if left:
            signal.setitimer(timer, max(0.01, left - (clock() - began)))
