"""Memory for vectors: NumPy arrays that start at a cache line."""

from __future__ import annotations

import numpy as np

from ir.host.memory import memory_for

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector."""


def aligned(nbytes: int) -> np.ndarray:
    """`nbytes` of memory, not initialised, from a 64-byte boundary on.

    Raises:
        EqsatError: ResourceExceeded where the machine has not so much.
    """
    with memory_for(nbytes, "call", "what the program keeps between its kernels"):
        memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -address(memory) % ALIGNMENT
    return memory[start : start + nbytes]


def touched(nbytes: int) -> np.ndarray:
    """The same, each page of it in use already, as what is measured must be."""
    memory = aligned(nbytes)
    memory.fill(1)
    return memory


def address(array: np.ndarray) -> int:
    """Where its elements start."""
    found: int = array.__array_interface__["data"][0]
    return found
