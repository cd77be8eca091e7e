"""The cycles that packing an operand's elements into panels takes, and the waiting for memory that packing does.

A cycle is that of `contraction_work`. A constant without a source was fitted to timed kernels (docs/cost.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from codegen.plan.contraction_view import Contraction, lanes_along_k
from codegen.plan.cpu.cache_lines import FAR_LINE, PAGE_BYTES, STREAMED_LINE, are_far, share_of_core
from codegen.plan.cpu.cell_operands import CELL_ALGORITHMS, copies_rows, has_terms_in_place, turns_rows
from ir.dtype import DTYPES
from ir.plan.cpu import Blocks, Place
from ir.target import CACHE_LINE_BYTES, Target

_UNIT_PACK = 5.0
"""Cycles to pack a vector of neighbouring elements."""
_FORK = 10_000.0
"""Cycles of all cores until every thread has begun the tasks, once the columns are packed for all of them."""
_NARROW_PACK = 3.0
"""Cycles to pack a row of a panel at the least, however narrow."""
_LANE_PACK = 1.5
"""Cycles to pack one element where elements lie evenly apart."""
_UNEVEN_PACK = 5.0
"""Cycles to pack one element where elements lie unevenly apart, as in an image that is read enlarged."""
_COPY_LINE, _COPY_RUN = 2.5, 6.0
"""Cycles to copy a cache line of stored bytes into a panel; and to begin a run of neighbours."""
_CELL = 2.0
"""Cycles to make cells of a vector of packed terms."""
_CELL_IN_PLACE = 3.0
"""Cycles to load a vector of terms and to make cells of the terms, without a copy of them as numbers."""
_TURN_CELLS = 2.0
"""Cycles to turn the cells of a vector of packed terms: 64 shuffles turn the 512 terms of a square; estimated."""
_TESTED = 6.0
"""Cycles to find which lanes of a vector lie inside the image, where padding is no copy of zeros."""
_NARROW_GATHER = 3.0
"""Cycles to gather a lane of 8 or 16 bits, for which no CPU has an instruction, where its test holds."""
_NEAR_TERMS, _FAR_TERMS = 16, 112
"""Terms of a block of k whose pages a core's prefetcher follows together; and further terms from which on it follows
none."""
_SHARED_LINE = 20.0
"""Cycles that a thread waits for a cache line that it packs for all threads: it reads the line, and writes a line that
others read."""


@dataclass(frozen=True, eq=False)
class PackingWork:
    """The cycles of packing the operands of one contraction on one machine."""

    view: Contraction
    target: Target

    def cycles(self, blocks: Blocks, side: int, place: Place) -> float:
        """Cycles per element that a call packs; 0 where it packs none. Reads along a run are packed a vector at a
        time."""
        if place not in ("packed", "packed_once"):
            return 0.0
        view, lanes, columns = self.view, self.target.lanes, side == self.view.vector
        cycles, run, along_k = self._runs[side]
        if copies_rows(view, blocks.algorithm, lanes) and not columns:
            return (-(-run // CACHE_LINE_BYTES) * _COPY_LINE + _COPY_RUN) / run
        if blocks.algorithm in CELL_ALGORITHMS:
            if columns and has_terms_in_place(view, blocks.algorithm, lanes):
                return _CELL_IN_PLACE / max(min(run, lanes), 1)
            turned = turns_rows(view, blocks.algorithm)
            cycles += _CELL if columns else _CELL + _TURN_CELLS if turned else 0.0
            if not (columns or along_k or turned):
                cycles += _LANE_PACK * lanes  # each number is stored alone
        per_element = cycles / max(min(run, lanes), 1)
        return per_element if along_k else max(per_element, _NARROW_PACK / (blocks.nr if columns else blocks.mr))

    def waiting(self, blocks: Blocks, places: tuple[Place, Place], packings: tuple[float, float]) -> float:
        """Cycles that a call waits for memory while it packs operands, each so many times, or reads them where they
        lie."""
        return sum(
            self._waiting(blocks, side, place, times)
            for side, (place, times) in enumerate(zip(places, packings, strict=True))
        )

    def _waiting(self, blocks: Blocks, side: int, place: Place, times: float) -> float:
        view, columns = self.view, side == self.view.vector
        stored = self._stored[side]
        lines = stored / CACHE_LINE_BYTES
        if place == "packed_once":
            return lines * times * _SHARED_LINE + _FORK
        parts = -(-view.m // blocks.bm), -(-view.n // blocks.bn)
        share = share_of_core(stored, *(parts[::-1] if columns else parts), self.target)
        if place not in ("packed", "memory") or not are_far(share, self.target):
            return 0.0
        if place == "memory" and not columns:
            return lines * (self._passes_of_rows(blocks) - 1) * STREAMED_LINE
        _, _, along_k = self._runs[side]
        apart = 0.0 if along_k else FAR_LINE * min(1.0, max(0, blocks.bk - _NEAR_TERMS) / _FAR_TERMS)
        if place == "memory":
            return lines * apart
        in_pieces = columns and not along_k and blocks.bn < view.n
        share_of_page = min(max(blocks.bn * view.item_bytes[side] / PAGE_BYTES, 0.5), 1.0) if in_pieces else 1.0
        return lines * times * max(apart, STREAMED_LINE / share_of_page)

    def _passes_of_rows(self, blocks: Blocks) -> float:
        """How often the rows in memory pass into a core: for each product that shares them, and for each panel of
        columns if the second-level cache does not hold the rows of a task, else for each block of columns."""
        view, side = self.view, 1 - self.view.vector
        own = max(view.extent(view.own_products(side)), 1)
        of_task = self._stored[side] / own * min(1.0, blocks.bm / max(view.m, 1))
        width = blocks.nr if are_far(of_task, self.target) else blocks.bn
        return view.repeats / own * -(-view.n // width)

    @cached_property
    def _stored(self) -> tuple[float, float]:
        """Per operand: bytes of the tensors from which the operand is computed, or of its elements in their dtype if
        these are fewer."""
        return self._stored_bytes(0), self._stored_bytes(1)

    def _stored_bytes(self, side: int) -> float:
        view = self.view
        elements = view.repeats * view.depth * (view.n if side == view.vector else view.m)
        return min(elements * view.item_bytes[side], view.bytes_read[side])

    @cached_property
    def _runs(self) -> tuple[tuple[float, int, bool], ...]:
        """Per operand: the cycles to pack a vector, the length of its runs, and whether the runs are along k."""
        view, lanes, runs = self.view, self.target.lanes, []
        for side in (0, 1):
            group = view.columns if side == view.vector else view.rows
            along_k = lanes_along_k(view, side, group, lanes)
            run, step = view.run(side, view.k if along_k else group)
            cycles = _UNIT_PACK if step in (0, 1) else 2 * _UNIT_PACK if step == 2 else _LANE_PACK * lanes
            if not along_k and not view.is_even(side, run):
                cycles, run = _UNEVEN_PACK * lanes, group
            if along_k and side == view.vector:
                cycles *= 2  # turned in squares
            runs.append((cycles + self._test_cycles(side, run, step in (0, 1)), view.extent(run), along_k))
        return tuple(runs)

    def _test_cycles(self, side: int, run: Sequence[int], neighbours: bool) -> float:
        """Cycles for reads of an operand that test every lane of a vector. A padded image is copied in rows without
        tests. Lanes that are no neighbours are gathered, narrow ones by single loads."""
        if self.view.image(side, run) is not None:
            return 0.0
        cycles = 0.0
        for read in self.view.roles.reads[side]:
            if read.map.guards:
                narrow = DTYPES[self.view.buffer(read).memref.dtype].bytes < 4
                cycles += _TESTED + (0.0 if neighbours or not narrow else _NARROW_GATHER * self.target.lanes)
        return cycles
