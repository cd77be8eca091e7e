"""Python's cyclic collector, at rest while programs are optimized.

E-nodes, trees and plans are many, live until the optimizer is done, and form no cycles: every pass over them finds
nothing, and the passes take half of the optimizer's time.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No cyclic collection inside; as it was before, outside."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def release() -> None:
    """Give the system what the C library keeps of freed memory, where it can: of an e-graph's Python uses nothing."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)
