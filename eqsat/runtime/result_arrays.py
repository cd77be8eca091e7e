"""New arrays for the results of calls. Large arrays are used again when nobody refers to them any more: the system
clears new pages at the first touch, which takes longer than many a kernel."""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from ir.dtype import TensorType
from ir.host.memory import memory_for

LARGE = 16 << 20
"""Bytes of all results of a call from which on arrays are used again. The C library returns memory of smaller arrays
to later calls itself (glibc up to 32 MiB an array)."""
MOST_KEPT = 4
"""Calls whose arrays are watched."""


def _most_references(arrays: list[np.ndarray]) -> int:
    return max(sys.getrefcount(array) + weakref.getweakrefcount(array) for array in arrays)


_UNUSED = _most_references([np.empty(1)])
"""The number for arrays that only their list refers to; it depends on the version of Python."""


T = TypeVar("T")


def interleave(new: Sequence[T], known: Mapping[int, T]) -> tuple[T, ...]:
    """The known values at their places, with the new ones between them, in order."""
    others = iter(new)
    return tuple(known[place] if place in known else next(others) for place in range(len(new) + len(known)))


class ResultArrays:
    """Makes the arrays for the results of one variant. outputs: name and type of each result, in order."""

    def __init__(self, outputs: Sequence[tuple[str, TensorType]]) -> None:
        self.outputs = outputs
        self._shapes = [(type_.shape, type_.dtype.numpy) for _, type_ in outputs]
        self.nbytes = sum(type_.nbytes for _, type_ in outputs)
        self._watched: deque[list[np.ndarray]] = deque(maxlen=MOST_KEPT)

    def take(self) -> tuple[np.ndarray, ...]:
        """C-contiguous arrays that nobody else refers to; their elements are arbitrary. It may be called from many
        threads at once.

        Raises:
            EqsatError: ResourceExceeded if memory is missing.
        """
        if self.nbytes < LARGE:
            return tuple([np.empty(shape, kind) for shape, kind in self._shapes])
        arrays = self._take_unused()
        if arrays is None:
            sizes = {name: str(type_) for name, type_ in self.outputs}
            with memory_for(self.nbytes, "call", "an array for every output", outputs=sizes):
                arrays = [np.empty(shape, kind) for shape, kind in self._shapes]
        taken = tuple(arrays)  # first, so that no other thread finds them unused
        self._watched.append(arrays)
        return taken

    def _take_unused(self) -> list[np.ndarray] | None:
        """Arrays that no caller refers to any more. Of several such lists, one is kept."""
        unused = None
        for _ in range(len(self._watched)):
            try:
                arrays = self._watched.popleft()  # one step: no other thread has these arrays
            except IndexError:
                break
            if _most_references(arrays) > _UNUSED:
                self._watched.append(arrays)
            elif all(map(self._is_as_new, arrays, self._shapes)):
                unused = arrays
        return unused

    def _is_as_new(self, array: np.ndarray, layout: tuple[tuple[int, ...], np.dtype]) -> bool:
        """Whether no caller has changed the shape, the dtype or the flags."""
        return (array.shape, array.dtype) == layout and array.flags.carray and array.flags.owndata
