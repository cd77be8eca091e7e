"""Which kernel of a cover writes a buffer, and which kernels run before which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from eqsat.extraction.cover import CoverKernel
from ir.post_order import post_order

NEXT_READERS = 4
"""A reader of a buffer is paired with this many readers that run after it."""


class KernelGraph:
    """The kernels of a cover.

    Args:
        roots: buffers that must be written.
        inputs: buffers that are there before any kernel runs.
    """

    def __init__(self, kernels: Sequence[CoverKernel], roots: Sequence[int], inputs: frozenset[int]) -> None:
        self._kernels, self._roots, self._inputs = kernels, roots, inputs
        self._computed_from: dict[int, frozenset[int]] = {}

    @cached_property
    def _place(self) -> Mapping[int, int]:
        """Buffer → the place of the kernel that writes it."""
        return {buffer: place for place, kernel in enumerate(self._kernels) for buffer in kernel.writes}

    @cached_property
    def _readers(self) -> Mapping[int, Sequence[int]]:
        """Buffer → the places of the running kernels that read it."""
        readers_of: dict[int, list[int]] = {}
        for place, kernel in enumerate(self._kernels):
            for read in kernel.reads if kernel.price else ():
                readers_of.setdefault(read, []).append(place)
        return readers_of

    def neighbours(self) -> Iterator[tuple[CoverKernel, CoverKernel]]:
        """Kernels of which the second reads what the first writes, and kernels that read one buffer; in the order in
        which they run."""
        pairs: dict[tuple[int, int], None] = {}
        for buffer, places in self._readers.items():
            writer = self._place.get(buffer)
            if writer is not None and self._kernels[writer].price:
                pairs |= dict.fromkeys((writer, place) for place in places)
            for turn, place in enumerate(places):
                pairs |= dict.fromkeys((place, other) for other in places[turn + 1 : turn + 1 + NEXT_READERS])
        yield from ((self._kernels[first], self._kernels[second]) for first, second in pairs)

    def is_before(self, kernel: CoverKernel, buffers: Iterable[int]) -> bool:
        """Whether some of the buffers are computed from what the kernel writes, or are that."""
        place = self._place[kernel.writes[0]]
        if place not in self._computed_from:
            computed = set(kernel.writes)
            for other in self._kernels[place + 1 :]:
                if not computed.isdisjoint(other.reads):
                    computed.update(other.writes)
            self._computed_from[place] = frozenset(computed)
        return not self._computed_from[place].isdisjoint(buffers)

    def is_read_beside(self, buffer: int, reader: CoverKernel) -> bool:
        """Whether a buffer is needed by others than this reader."""
        places = self._readers.get(buffer, ())
        return buffer in self._roots or any(self._kernels[place] is not reader for place in places)

    def has(self, buffers: Iterable[int]) -> bool:
        """Whether all of these are there, or written by some kernel."""
        return all(buffer in self._place or buffer in self._inputs for buffer in buffers)

    def replace_parts(self, kernel: CoverKernel, parts: Collection[tuple[int, ...]]) -> tuple[CoverKernel, ...] | None:
        """The kernels with this one in place of those that write `parts`, without kernels that are no longer needed, in
        an order in which they run. None where there is no order, or one of the parts is gone."""
        kernels = [*(other for other in self._kernels if other.writes not in parts), kernel]
        if len(kernels) != len(self._kernels) + 1 - len(parts):
            return None
        writer = {buffer: place for place, other in enumerate(kernels) for buffer in other.writes}
        if any(root not in writer for root in self._roots):
            return None

        def below(place: int) -> list[int]:
            return [writer[read] for read in kernels[place].reads if read in writer]

        order = post_order([writer[root] for root in self._roots], below)
        there = set(self._inputs)
        for place in order:
            if not there.issuperset(kernels[place].reads):
                return None
            there.update(kernels[place].writes)
        return tuple(kernels[place] for place in order)
