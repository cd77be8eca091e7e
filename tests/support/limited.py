"""A time limit for tests of code that might hang."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator


class HangError(Exception):
    """Something took longer than it may."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raises HangError after so many seconds, or when a limit around this one ends; in the main thread only."""

    def stop(*_: object) -> None:
        raise HangError(f"more than {seconds} s")

    began, before, left = time.monotonic(), signal.signal(signal.SIGALRM, stop), signal.alarm(seconds)
    if left:
        signal.alarm(min(seconds, left))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.alarm(max(1, left - int(time.monotonic() - began)))
