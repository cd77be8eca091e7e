"""The work that a plan of a contraction makes the machine do.

The model counts cycles of one core: multiply-adds against loads, what is computed before and after them, packing,
stores; traffic beyond the caches is the tensors' own size, and that of operands which no cache keeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

from codegen.plan.contraction_view import Contraction, lanes_along_k, rows_are_neighbours
from codegen.plan.cpu.contraction_value_work import ContractionValues
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE
from ir.dtype import DTYPES
from ir.plan.cpu import Blocks
from ir.pricer import Work
from ir.target import Target

SMALL_FLOPS = 200_000
"""Below this a fork and join cost more than a second core saves."""

_PORTS = 2  # multiply-adds and loads per cycle, each
_LATENCY = 4
_DOT_LATENCY = 2  # the sums of other rows overlap with the end of one
_UNIT_PACK, _NARROW_PACK, _LANE_PACK, _STORE = 5.0, 3.0, 1.5, 3.0
_UNEVEN_PACK = 5.0
"""Cycles to find and load one element of those that are not evenly spaced, as in an image that is read enlarged."""
_TESTED = 6.0
"""Cycles of finding out which lanes of a vector lie inside the image, where padding is no copy of zeros."""
_TURN, _CUT_TURN = 6.0, 36.0
"""Cycles of finishing a vector of rows rather than of columns; and one that the tile cuts short."""
_FOLD = 3.5
"""Cycles to reduce the lanes of one sum of a dot product."""
_FORWARD = 20.0
"""Cycles of a vector load from where single numbers have just been stored."""


def flops_of(view: Contraction) -> float:
    """Of the multiply-adds that the contraction asks for."""
    return 2.0 * view.repeats * view.m * view.n * view.depth


def registers_per_vector(view: Contraction) -> int:
    """Machine registers that hold `lanes` numbers."""
    return max(1, DTYPES[view.accumulator].bytes // 4)


def tasks_of(view: Contraction, blocks: Blocks) -> int:
    return max(view.repeats * -(-view.m // blocks.bm) * -(-view.n // blocks.bn), 1)


def is_parallel(view: Contraction, blocks: Blocks, target: Target) -> bool:
    """Whether threads share the tasks."""
    return flops_of(view) >= SMALL_FLOPS and tasks_of(view, blocks) > 1 and target.units > 1


def is_packed(view: Contraction, blocks: Blocks, side: int) -> bool:
    """Whether the kernel packs an operand: one that is used once per element is read where it lies, unless it is padded
    and each element would be tested by itself."""
    if blocks.dot or view.is_constant(side):
        return False
    if side == view.vector:
        return view.m > blocks.mr or _run_step(view, side) not in (0, 1)
    return view.n > blocks.nr or view.m % blocks.mr != 0 or any(read.map.guards for read in view.roles.reads[side])


@lru_cache(maxsize=64)
def _run_step(view: Contraction, side: int) -> int | None:
    group = view.columns if side == view.vector else view.rows
    run, step = view.run(side, group)
    return step if run == group else None


class _TileFigures(NamedTuple):
    """What all plans of one register tile share.

    rows, columns  tiles along m and n
    sums           that the tiles hold, padding included
    flops, ideal   of the multiply-adds, and the cycles that these need at the least
    folds          cycles of making numbers of the sums whose lanes run along k, and vectors of these
    after          additions-worth of the epilogue, all tasks together: whole registers, whatever they hold
    turned         cycles lost where neighbouring columns are no neighbours in the output, all tasks together
    packed         whether the kernel packs each operand
    pack_cycles    of packing an element of each; 0 where it is read as it lies
    """

    rows: int
    columns: int
    sums: int
    flops: float
    ideal: float
    folds: float
    after: float
    turned: float
    packed: tuple[bool, bool]
    pack_cycles: tuple[float, float]


@dataclass(frozen=True, eq=False)
class CpuContractionWork:
    """Works of the plans of one contraction on one machine."""

    view: Contraction
    target: Target
    _tiles: dict[tuple[int, int, bool], _TileFigures] = field(default_factory=dict, init=False, repr=False)

    def of(self, blocks: Blocks) -> Work:
        """The work of a plan that cuts the contraction so."""
        view, target, tile = self.view, self.target, self._tile(blocks)
        blocks_m, blocks_n = -(-view.m // blocks.bm), -(-view.n // blocks.bn)
        met = self._by_side(blocks_m, blocks_n)
        tasks = max(view.repeats * blocks_m * blocks_n, 1)
        parallel = self._is_large and tasks > 1 and target.units > 1
        units = min(target.units, tasks) if parallel else 1
        each = -(-blocks.bm // blocks.mr) * -(-blocks.bn // blocks.nr)
        tiles = max(view.repeats * tile.rows * tile.columns, 1)
        longest = -(-tasks // units) * each if units > 1 else tiles
        again = self._computed_again(tile, met)
        other = (self._once + again + tile.after) / (ADDITIONS_PER_CYCLE * target.lanes)
        cycles = tile.ideal * self._inner_cycles(blocks) + tile.folds + self._stored(tile, blocks) + other
        return Work(
            flops=tile.flops,
            bytes=self._bytes,
            compute_dtype=view.accumulator,
            occupancy=min(1.0, tiles / (longest * target.units)),
            efficiency=min(1.0, max(0.01, tile.ideal * (1 + again / tile.flops) / cycles)),
            recomputed=again,
            reread=self._reread(met),
            layout=self._packing(tile, met) + tile.turned + tile.sums * self._values.apart,
            scratch=self._scratch(tile, blocks),
            parallel=parallel,
        )

    def _tile(self, blocks: Blocks) -> _TileFigures:
        """What the plan shares with all others of its register tile."""
        key = (blocks.mr, blocks.nr, blocks.dot)
        if key not in self._tiles:
            self._tiles[key] = self._tiled(blocks)
        return self._tiles[key]

    def _tiled(self, blocks: Blocks) -> _TileFigures:
        view, lanes = self.view, self.target.lanes
        rows, columns = -(-view.m // blocks.mr), -(-view.n // blocks.nr)
        sums = view.repeats * rows * blocks.mr * columns * blocks.nr
        whole = 2.0 * view.repeats * rows * blocks.mr * columns * blocks.nr * view.depth
        flops = max(flops_of(view) if blocks.dot else whole, 1.0)
        packed = is_packed(view, blocks, 0), is_packed(view, blocks, 1)
        each, once = self._values.epilogue
        return _TileFigures(
            rows=rows,
            columns=columns,
            sums=sums,
            flops=flops,
            ideal=flops / (2 * lanes * _PORTS) * self._wide,
            folds=sums * _FOLD + sums // blocks.nr * _FORWARD if blocks.dot else 0.0,
            after=sums // blocks.nr * lanes * (-(-blocks.nr // lanes) * each + once),
            turned=len(view.region.outputs) * self._turning(sums, blocks.mr) if self._turned else 0.0,
            packed=packed,
            pack_cycles=(
                self._pack_cycles(blocks, 0) if packed[0] else 0.0,
                self._pack_cycles(blocks, 1) if packed[1] else 0.0,
            ),
        )

    def _by_side(self, rows: int, columns: int) -> tuple[int, int]:
        """Per operand what it meets of the other: the one with the columns these rows."""
        return (columns, rows) if self.view.vector else (rows, columns)

    @cached_property
    def _values(self) -> ContractionValues:
        return ContractionValues(self.view, self.target)

    @cached_property
    def _elements(self) -> tuple[int, int]:
        """Of each operand."""
        view = self.view
        each = view.repeats * view.depth
        return self._by_side(each * view.n, each * view.m)

    # --- the multiply-adds ---

    @cached_property
    def _is_large(self) -> bool:
        return flops_of(self.view) >= SMALL_FLOPS

    @cached_property
    def _wide(self) -> int:
        return registers_per_vector(self.view)

    @cached_property
    def _item(self) -> int:
        """Bytes of a sum."""
        return DTYPES[self.view.accumulator].bytes

    def _inner_cycles(self, blocks: Blocks) -> float:
        """Cycles of the micro-kernel for each cycle that its multiply-adds need at the least."""
        wide = self._wide
        if blocks.dot:
            multiplies = blocks.mr * blocks.nr * wide
            return max(multiplies, (blocks.mr + blocks.nr) * wide, _DOT_LATENCY * _PORTS) / multiplies
        vectors = blocks.nr // self.target.lanes * wide
        multiplies = blocks.mr * vectors
        panel = blocks.bk * blocks.nr * self._item
        far = (
            2 * vectors * _PORTS if panel > self.target.l1_bytes else 0
        )  # half a vector per cycle from the second level
        return max(multiplies, blocks.mr + vectors, far, _LATENCY * _PORTS) / multiplies

    # --- what is computed before them ---

    @cached_property
    def _prepared(self) -> tuple[float, float]:
        """Additions-worth of what computes all elements of each operand, once."""
        elements, each = self._elements, self._values.operands
        return elements[0] * each[0], elements[1] * each[1]

    @cached_property
    def _once(self) -> float:
        return self._prepared[0] + self._prepared[1]

    def _computed_again(self, tile: _TileFigures, met: tuple[int, int]) -> float:
        """Additions-worth of computing the operands' elements again, per further block `met` of the other operand or,
        where they are not packed, per register tile."""
        again, tiles = 0.0, self._by_side(tile.rows, tile.columns)
        for side, each in enumerate(self._prepared):
            if each:
                again += each * ((met[side] if tile.packed[side] else tiles[side]) - 1)
        return again

    # --- what is moved ---

    def _packing(self, tile: _TileFigures, met: tuple[int, int]) -> float:
        """Cycles of packing, all tasks together: every element for each block `met` of the other operand."""
        (first, second), cycles = self._elements, tile.pack_cycles
        return first * met[0] * cycles[0] + second * met[1] * cycles[1]

    def _pack_cycles(self, blocks: Blocks, side: int) -> float:
        """Cycles per element packed: a vector at a time where the reads are a run, of a panel or along k."""
        cycles, run, along_k = self._pack_runs[side]
        each = cycles / max(min(run, self.target.lanes), 1)
        return each if along_k else max(each, _NARROW_PACK / (blocks.nr if side == self.view.vector else blocks.mr))

    @cached_property
    def _pack_runs(self) -> tuple[tuple[float, int, bool], ...]:
        """Per operand the cycles to pack a vector of it, how long its runs are, and whether they are along k."""
        view, lanes, found = self.view, self.target.lanes, []
        for side in (0, 1):
            group = view.columns if side == view.vector else view.rows
            along_k = lanes_along_k(view, side, group, lanes)
            run, step = view.run(side, view.k if along_k else group)
            cycles = _UNIT_PACK if step in (0, 1) else 2 * _UNIT_PACK if step == 2 else _LANE_PACK * lanes
            if not along_k and not view.is_even(side, run):
                cycles, run = _UNEVEN_PACK * lanes, group
            if along_k and side == view.vector:
                cycles *= 2  # turned in squares
            found.append((cycles + _TESTED * self._tested_reads(side, run), view.extent(run), along_k))
        return tuple(found)

    def _tested_reads(self, side: int, run: Sequence[int]) -> int:
        """The reads of an operand whose lanes are tested one by one: an image padded with zeros is copied in rows."""
        if self.view.image(side, run) is not None:
            return 0
        return sum(bool(read.map.guards) for read in self.view.roles.reads[side])

    def _stored(self, tile: _TileFigures, blocks: Blocks) -> float:
        """Cycles of storing the sums in whole registers, all tasks together: once per block of k and further output."""
        times = (-(-self.view.depth // blocks.bk) if blocks.bk else 1) + len(self.view.region.outputs) - 1
        return tile.sums * times * (_STORE / self.target.lanes)

    def _turning(self, sums: int, mr: int) -> float:
        """Cycles by which storing across the columns is slower, all tasks together."""
        if not rows_are_neighbours(self.view):
            return sums * (1.0 - _STORE / self.target.lanes)
        whole, cut = divmod(mr, self.target.lanes)
        return sums / mr * (whole * _TURN + (_CUT_TURN if cut else 0.0))

    @cached_property
    def _turned(self) -> bool:
        return self.view.n > 1 and self.view.out_step(self.view.columns) != 1

    def _reread(self, met: tuple[int, int]) -> float:
        """Cycles of reading operands again: those that the last cache does not hold, once more per further block `met`
        of the other."""
        far = self._far
        return (far[0] * (met[0] - 1) + far[1] * (met[1] - 1)) * self._refetch_cycles

    @cached_property
    def _refetch_cycles(self) -> float:
        """Per byte that no cache holds."""
        return self.target.refetch_cycles(math.inf)

    @cached_property
    def _bytes(self) -> float:
        """Of all tensors together."""
        return float(sum(each.memref.nbytes for each in self.view.region.buffers))

    @cached_property
    def _far(self) -> tuple[int, int]:
        """Bytes of the tensors from which each operand is computed, of those that the last cache does not hold."""
        sizes = {each.name: each.memref.nbytes for each in self.view.region.buffers}
        held = self.target.last_level_bytes / 2
        lhs, rhs = ({read.buffer: sizes[read.buffer] for read in side} for side in self.view.roles.reads)
        return sum(each for each in lhs.values() if each > held), sum(each for each in rhs.values() if each > held)

    def _scratch(self, tile: _TileFigures, blocks: Blocks) -> int:
        """Bytes of a task's workspace that it goes through again and again: packed rows, and sums that wait."""
        rows = blocks.bm * blocks.bk if tile.packed[1 - self.view.vector] else 0
        sums = blocks.bm * blocks.bn if blocks.bk < self.view.depth else 0
        return self._item * (rows + sums)
