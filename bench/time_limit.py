"""A limit on the time that a block of code may take."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raises TimeoutError inside the block after so many seconds. Only in the main thread of a process."""

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
