"""Memory for vectors: NumPy arrays that start at a cache line."""

from __future__ import annotations

import numpy as np

from ir.host.address import address
from ir.host.memory import memory_for

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


def allocate(nbytes: int) -> np.ndarray:
    """`nbytes` of memory, not initialised, from a 64-byte boundary on.

    Raises:
        EqsatError: ResourceExceeded where the machine does not have so much memory.
    """
    with memory_for(nbytes, "call", "what the program keeps between its kernels"):
        memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address(memory) % ALIGNMENT
    return memory[start : start + nbytes]


def allocate_touched(nbytes: int) -> np.ndarray:
    """As `allocate`, with all pages mapped, so that measurements do not count page faults."""
    memory = allocate(nbytes)
    memory.fill(1)
    return memory
