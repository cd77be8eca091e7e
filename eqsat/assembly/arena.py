"""Places tensors in one arena so that tensors that are alive at the same time do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""


class Interval(NamedTuple):
    """A tensor of `size` bytes, alive from `first` to `last`, both inclusive."""

    first: int
    last: int
    size: int


def pack(intervals: Sequence[Interval], alignment: int = ALIGNMENT) -> tuple[tuple[int, ...], int]:
    """Offsets in bytes, and the size of the arena.

    The largest tensor comes first; each goes into the smallest sufficient gap between tensors that are alive with it
    (greedy by size, best fit: Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
    """
    offsets = [0] * len(intervals)
    placed: list[tuple[int, int, Interval]] = []
    order = sorted(range(len(intervals)), key=lambda k: (-intervals[k].size, intervals[k].first, k))
    for index in order:
        interval = intervals[index]
        neighbours = [(low, high) for low, high, other in placed if _are_alive_together(interval, other)]
        offsets[index] = _best_gap(neighbours, _align(interval.size, alignment))
        placed.append((offsets[index], offsets[index] + _align(interval.size, alignment), interval))
        placed.sort(key=lambda item: item[:2])
    return tuple(offsets), max((high for _, high, _ in placed), default=0)


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap of at least `size` bytes between sorted extents; their end if there is none."""
    best: tuple[int, int] | None = None
    end = 0
    for low, high in taken:
        if low - end >= size and (best is None or low - end < best[0]):
            best = (low - end, end)
        end = max(end, high)
    return end if best is None else best[1]


def _are_alive_together(a: Interval, b: Interval) -> bool:
    return a.first <= b.last and b.first <= a.last


def _align(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment
