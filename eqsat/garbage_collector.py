"""Python's cyclic garbage collector is off while programs are optimized.

E-nodes, trees and plans are many, live until the optimizer ends, and form no cycles. So the collector finds nothing in
them, and would take half of the optimizer's time.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """The collector is off inside, and as before outside."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def release_memory() -> None:
    """Return freed memory that the C library keeps to the system: Python cannot use what an e-graph has freed."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
