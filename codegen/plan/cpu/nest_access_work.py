"""The cycles of a nest's loads and stores under the loops of a plan.

They depend on how lanes lie in memory, on what the nearest cache loses before it is read again, and on accesses that
share few sets of that cache.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from codegen.plan.cpu.cache_lines import FAR_LINE, NEAR_LINE, WAY_BYTES, are_far, every_nth_set
from codegen.plan.cpu.nest_tiling import holds_terms
from codegen.plan.cpu.nest_trips import PlannedNest
from codegen.plan.region_loops import RegionLoops, Shape, View
from ir.index.expr import interval
from ir.target import CACHE_LINE_BYTES, Target

EXPOSED_SHARE = 0.5
"""The share of the cycles of loads and stores of whole registers that arithmetic does not hide."""
_ELEMENT_BYTES = 4
"""Bytes of an element whose dtype is not known to the access: fp32's."""
_FEW_SETS = 16
"""A walk over cache lines that uses only every n-th set of the cache waits from this n on."""
_LONE_LINE, _SHORT_RUN = 4.0, 256
"""Cycles to fetch a cache line, or a part of one, from the second-level cache where no prefetcher does; and bytes from
which on a run of cache lines is prefetched."""
_HELD_SHARE = 0.75
"""The share of the nearest cache that the windows of one point, or of rows that run together, may fill."""
_REVERSAL = 2.0
"""Cycles to reverse the lanes of a register."""
_PERMUTATION = 12.0
"""Cycles to compute the places of lanes in a window of neighbours, and to permute the window."""
_PART = 4.0
"""Cycles to load and permute a part of neighbours, in places that are known."""
_COMPARISON = 8.0
"""Cycles to compare the floors of the first lane with those of the last one."""
_CONFLICT_CYCLES = 15.0
"""Cycles until a cache line comes from the second-level cache where cache lines share few sets: no prefetcher follows
them."""
_WAITS, _FIRST_WAITS = 1 / 40, 1 / 80
"""The share of runs that wait for such a line, per set that the lines leave out: of accesses again, and of first
accesses, whose data come from a farther cache anyhow. Fitted."""


class AccessShape(NamedTuple):
    """All of an access that its cycles depend on.

    axes         the axes along which the access moves
    sizes, steps size of every axis, and elements per step along it, None where that varies; the first `rank` axes are
                 the axes of the outputs
    reaches      elements between the least and the greatest place along an axis of uneven steps, 0 along others
    runs         elements of the runs of neighbours along an axis of uneven steps, 0 along others
    parts        parts of neighbours among which lanes along an axis of uneven steps lie, 0 along others
    windows      whether lanes along an axis of uneven steps lie among as many neighbours, in ways that vary
    inner        accesses per point of the outputs
    """

    axes: frozenset[int]
    sizes: tuple[int, ...]
    steps: tuple[int | None, ...]
    reaches: tuple[int, ...]
    runs: tuple[int, ...]
    parts: tuple[int, ...]
    windows: tuple[bool, ...]
    rank: int
    inner: int
    indirect: bool
    stored: bool

    @property
    def nbytes(self) -> int:
        """Bytes of fp32 at all points of the outputs along which the access moves."""
        return _ELEMENT_BYTES * math.prod([self.sizes[axis] for axis in self.axes if axis < self.rank])

    @staticmethod
    def of(view: View, rank: int, lanes: int) -> AccessShape:
        sizes, steps = view.map.sizes, tuple([stride.step for stride in view.strides])
        inner = math.prod(sizes[rank:])
        runs = tuple([view.run(axis) for axis in range(len(sizes))])
        parts = tuple([view.parts(axis, lanes) for axis in range(len(sizes))])
        windows = tuple([view.has_windows(axis) for axis in range(len(sizes))])
        reaches, indirect = _reaches(view), bool(view.data)
        return AccessShape(view.axes, sizes, steps, reaches, runs, parts, windows, rank, inner, indirect, view.stored)


def _reaches(view: View) -> tuple[int, ...]:
    """The field `reaches` of an access."""
    return tuple([0 if stride.step is not None else _reach(view, axis) for axis, stride in enumerate(view.strides)])


def _reach(view: View, axis: int) -> int:
    box = tuple([(0, size - 1 if at == axis else 0) for at, size in enumerate(view.map.sizes)])
    low, high = interval(view.linear, box)
    return high - low


def _share_of_rows(access: AccessShape, nest: PlannedNest) -> float:
    """The share of loads that remain where rows that run together read the same elements: all of them, or those of
    windows that overlap."""
    if access.axes.isdisjoint(nest.row_axes):
        return 1 / nest.rows
    if len(nest.row_axes) > 1:
        return 1.0
    windows = sliding_windows(access.steps, access.sizes, access.rank, nest.row_axes[0])
    return 1.0 if windows is None else ((nest.rows - 1) * windows.step + windows.size) / (nest.rows * windows.size)


class SlidingWindows(NamedTuple):
    """Windows of `size` elements of which neighbours lie `step` elements apart, fewer than their size."""

    step: int
    size: int


def sliding_windows(steps: Sequence[int | None], sizes: Sequence[int], rank: int, axis: int) -> SlidingWindows | None:
    """The windows of an access at neighbouring points along an output's axis, if they overlap. The first `rank` of the
    steps and sizes are those of the outputs' axes."""
    step = steps[axis]
    for term, size in zip(steps[rank:], sizes[rank:], strict=True):
        if step and term and step % term == 0 and abs(step // term) < size:
            return SlidingWindows(abs(step // term), size)
    return None


class LaneCycles(NamedTuple):
    """Cycles per point of an access; and the cycles where the nearest cache holds its cache lines until all their
    elements are used."""

    cycles: float
    line_reuse: float


class Collision(NamedTuple):
    """Accesses that go through `columns` runs of lanes in turn, and that use only some sets of the cache.

    set_step  only every `set_step`-th set is used
    times     number of accesses
    first     the data come from a farther cache anyhow: this is their first access
    """

    columns: int
    set_step: int
    times: int
    first: bool


@dataclass(frozen=True, eq=False)
class NestAccesses:
    """The accesses of one region on one machine. Equal accesses are computed once per nest. Sums take the accesses in
    order, so that equal nests have the same bits."""

    loops: RegionLoops
    target: Target
    _lanes: dict[tuple[int, ...], Sequence[LaneCycles | None]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _distinct(self) -> tuple[AccessShape, ...]:
        return tuple(dict.fromkeys(self._all))

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """All accesses in order, as numbers of distinct accesses."""
        numbers = {access: number for number, access in enumerate(self._distinct)}
        return tuple(numbers[access] for access in self._all)

    @cached_property
    def _all(self) -> tuple[AccessShape, ...]:
        return tuple(AccessShape.of(view, len(self.loops.shape), self.target.lanes) for view in self._views)

    @cached_property
    def _first(self) -> tuple[bool, ...]:
        """Access → whether its data come from a farther cache anyhow: it is the first read in a frame."""
        first: list[bool] = []
        frames: set[Shape] = set()
        for view in self._views:
            first.append(not view.stored and view.frame not in frames)
            frames.add(view.frame)
        return tuple(first)

    @property
    def _views(self) -> tuple[View, ...]:
        return self.loops.views(self.loops.scope, self.loops.shape)

    def moves(self, nest: PlannedNest) -> tuple[float, float]:
        """Cycles of loads and stores if all lanes were neighbours; and further cycles, because lanes lie apart."""
        if 0 in self.loops.shape:
            return 0.0, 0.0
        lanes = self._lanes_along(nest.along)
        cycles = [self._moves_of(access, along, nest) for access, along in zip(self._distinct, lanes, strict=True)]
        close = apart = 0.0
        for number in self._order:
            close += cycles[number][0]
            apart += cycles[number][1]
        return close, apart

    def _moves_of(self, access: AccessShape, lanes: LaneCycles | None, nest: PlannedNest) -> tuple[float, float]:
        times, whole = self._times(access, nest), self.target.vector_cycles / self.target.lanes
        if lanes is None:
            around = nest.around[access.axes]
            cycles = times * around.vectors / around.points * self.target.vector_cycles
            return cycles * EXPOSED_SHARE, cycles * (1 - EXPOSED_SHARE)
        near = nest.is_strip and lanes.line_reuse != lanes.cycles and self._uses_lines_up(access, nest)
        apart = times * ((lanes.line_reuse if near else lanes.cycles) - whole)
        return times * whole * EXPOSED_SHARE, apart + self._lone_lines(access, nest) + self._lines_again(
            access, nest, times
        )

    def _lone_lines(self, access: AccessShape, nest: PlannedNest) -> float:
        """Cycles to fetch cache lines whose neighbours are read much later: lanes run along the outermost of several
        loops, or in strips through rows of a tensor that the second-level cache does not hold. Windows count from the
        nearest cache on."""
        run = nest.registers * nest.width * _ELEMENT_BYTES
        if nest.lanes is None or len(nest.loops) == 1 or run >= _SHORT_RUN:
            return 0.0
        far = are_far(access.nbytes, self.target)
        if nest.lanes and not (far and nest.is_strip and access.steps[nest.along[-1]] in (1, 2)):
            return 0.0
        if nest.loops[nest.lanes][1] * _ELEMENT_BYTES <= run or access.axes.isdisjoint(nest.along):
            return 0.0
        if not far and (access.inner == 1 or access.nbytes <= self.target.l1_bytes):
            return 0.0
        return access.nbytes / min(run, CACHE_LINE_BYTES) * (FAR_LINE if far and not nest.lanes else _LONE_LINE)

    def _lines_again(self, access: AccessShape, nest: PlannedNest, times: float) -> float:
        """Cycles to fetch the cache lines of windows from the second-level cache, `times` elements, where the nearest
        cache does not hold those of all lanes until the next rows read them again."""
        if access.inner == 1 or nest.lanes != len(nest.loops) - 1 or access.axes.isdisjoint(nest.along):
            return 0.0
        window = access.inner * nest.rows * _share_of_rows(access, nest)
        held = window * nest.loops[nest.lanes][1] * _ELEMENT_BYTES <= _HELD_SHARE * self.target.l1_bytes
        return 0.0 if held else times * _ELEMENT_BYTES / CACHE_LINE_BYTES * NEAR_LINE

    def _times(self, access: AccessShape, nest: PlannedNest) -> float:
        """How often an access runs, one element at a time. Terms that an outer loop could load once are loaded again
        where registers do not hold them; rows that run together load shared elements once."""
        times = float(nest.around[access.axes].points * access.inner)
        if access.inner == 1 or not nest.along or not self.loops.accumulates_at_points:
            return times
        if not holds_terms(self.loops, nest.registers * nest.width, self.target.arch):
            times = float(nest.points * access.inner)
        return times * _share_of_rows(access, nest)

    def _lanes_along(self, along: tuple[int, ...]) -> Sequence[LaneCycles | None]:
        """Distinct access → cycles with lanes along the loop over these axes."""
        if along not in self._lanes:
            self._lanes[along] = [self._lanes_of(access, along) for access in self._distinct]
        return self._lanes[along]

    def _lanes_of(self, access: AccessShape, along: tuple[int, ...]) -> LaneCycles | None:
        """None where all lanes share one number, or lanes do not run along outputs: then a whole register is moved."""
        axis = next((axis for axis in reversed(along) if access.sizes[axis] > 1), None)
        if axis is None or access.steps[axis] == 0:
            if len(access.sizes) == access.rank:
                return None
            axis = len(access.sizes) - 1
        size, step = access.sizes[axis], access.steps[axis]
        neighbours = self.target.vector_cycles / max(1, min(self.target.lanes, size))
        if step in (0, 1):
            return LaneCycles(neighbours, neighbours)
        if step == -1 and not access.stored:
            cycles = neighbours + _REVERSAL / self.target.lanes
            return LaneCycles(cycles, cycles)
        times = 2 if access.stored else 1
        # two registers hold every second element
        near = self.target.lane_cycles / (2 if step in (2, -2) else 1) * times
        far = self.target.far_cycles * times
        near += self._waiting(access, step)
        if step is None and access.runs[axis]:
            cut = self.target.lanes / access.runs[axis]
            cycles = neighbours + _COMPARISON / self.target.lanes + cut * far
            return LaneCycles(cycles, cycles)
        if step is None and (access.parts[axis] or access.windows[axis]):
            permuted = _PART * access.parts[axis] or _PERMUTATION
            cycles = neighbours + permuted / self.target.lanes
            return LaneCycles(cycles, cycles)
        if step is None:
            return LaneCycles(far, far)
        return LaneCycles(far if abs(step) * _ELEMENT_BYTES >= CACHE_LINE_BYTES else near, near)

    def _waiting(self, access: AccessShape, step: int | None) -> float:
        """Cycles per element that lanes apart wait for cache lines, all of whose elements are used."""
        whole = _ELEMENT_BYTES * math.prod(size for axis, size in enumerate(access.sizes) if axis in access.axes)
        crosses = step is not None and abs(step) * _ELEMENT_BYTES >= CACHE_LINE_BYTES
        return FAR_LINE * _ELEMENT_BYTES / CACHE_LINE_BYTES if crosses and are_far(whole, self.target) else 0.0

    def _uses_lines_up(self, access: AccessShape, nest: PlannedNest) -> bool:
        """Whether the nearest cache still holds the cache lines of lanes that lie apart, when the loops inside a strip
        come to the neighbouring elements. Lanes a multiple of `WAY_BYTES` apart share one set of that cache."""
        sets = WAY_BYTES // CACHE_LINE_BYTES // every_nth_set((access.steps[nest.along[-1]] or 0) * _ELEMENT_BYTES)
        if self.target.lanes > sets * (self.target.l1_bytes // WAY_BYTES):
            return False
        outer = [loop for number, loop in enumerate(nest.loops) if number != nest.lanes]
        terms = [(frozenset({axis}), access.sizes[axis]) for axis in range(access.rank, len(access.sizes))]
        touched = CACHE_LINE_BYTES * self.target.lanes
        for axes, extent in reversed([*outer, *terms]):
            if extent > 1 and axes & access.axes:
                step = access.steps[max(axes & access.axes)]
                if step is not None and abs(step) * _ELEMENT_BYTES < CACHE_LINE_BYTES:
                    return touched <= self.target.l1_bytes
                touched *= extent
        return False

    def refetch_cycles(self, nest: PlannedNest) -> float:
        """Cycles to read data again that the nearest cache lost, because inner loops read more than it holds."""
        if not any(self._may_be_lost):
            return 0.0
        cycles = [
            self._refetch_cycles_of(access, nest) if may else 0.0
            for access, may in zip(self._distinct, self._may_be_lost, strict=True)
        ]
        return sum([cycles[number] for number in self._order])

    @cached_property
    def _may_be_lost(self) -> Sequence[bool]:
        """Distinct access → whether some loop reads the data again and the nearest cache does not hold all of them."""
        lost = []
        for access in self._distinct:
            outer = [axis for axis in range(access.rank) if axis in access.axes]
            whole = _ELEMENT_BYTES * access.inner * math.prod([access.sizes[axis] for axis in outer])
            overlaps = any(_overlaps(access, [axis], whole // max(1, access.sizes[axis])) for axis in outer)
            lost.append((len(outer) < access.rank or overlaps) and whole > self.target.l1_bytes)
        return lost

    def _refetch_cycles_of(self, access: AccessShape, nest: PlannedNest) -> float:
        """Goes through the loops from the inside; `behind`: bytes that one round of the loops inside reads."""
        around, behind = nest.around[access.axes], _ELEMENT_BYTES * access.inner
        fetched = behind * around.points
        for axes, extent in reversed(nest.loops[: around.depth]):
            if access.axes & axes and not _overlaps(access, axes, behind):
                behind *= extent
            elif behind > self.target.l1_bytes:
                return fetched * self.target.refetch_cycles(behind)
            else:
                fetched //= extent
        return 0.0

    def collisions(self, nest: PlannedNest) -> tuple[Collision, ...]:
        """The accesses to runs of lanes that share few sets of the nearest cache, because of their distance: columns of
        a matrix whose rows are a power of two apart."""
        if nest.lanes is None or not any(self._may_collide):
            return ()
        collisions = [
            self._collision(access, nest) if may else None
            for access, may in zip(self._distinct, self._may_collide, strict=True)
        ]
        with_first = ((collisions[number], first) for number, first in zip(self._order, self._first, strict=True))
        return tuple(collision._replace(first=first) for collision, first in with_first if collision is not None)

    @cached_property
    def _may_collide(self) -> Sequence[bool]:
        """Distinct access → whether its runs share few sets along some axis."""
        return [
            not access.indirect and 0 not in access.sizes and any(map(_set_step, access.steps))
            for access in self._distinct
        ]

    def _collision(self, access: AccessShape, nest: PlannedNest) -> Collision | None:
        sizes = access.sizes
        if nest.lanes is None or access.steps[nest.along[-1]] != 1:
            return None
        inside = [axis for axes, _ in nest.loops[nest.lanes + 1 :] for axis in sorted(axes)]
        faster = next((axis for axis in reversed((*inside, *range(access.rank, len(sizes)))) if sizes[axis] > 1), None)
        set_step = 0 if faster is None else _set_step(access.steps[faster])
        if faster is None or not set_step:
            return None
        return Collision(sizes[faster], set_step, nest.around[access.axes].points * access.inner, first=False)

    def collision_cycles(self, collision: Collision, width: int) -> float:
        """Cycles of waiting for runs of `width` lanes, where the sets do not hold all runs."""
        run = max(CACHE_LINE_BYTES, width * _ELEMENT_BYTES)
        kept = self.target.l1_bytes // CACHE_LINE_BYTES * run // (collision.set_step * CACHE_LINE_BYTES)
        if collision.columns * run // CACHE_LINE_BYTES <= kept:
            return 0.0
        runs = collision.times / width
        skipped = collision.set_step - _FEW_SETS if collision.first else collision.set_step
        return runs * _CONFLICT_CYCLES * skipped * (_FIRST_WAITS if collision.first else _WAITS)


def _set_step(step: int | None) -> int:
    """n where cache lines so many elements apart use only every n-th set of the nearest cache; 0 where n causes no
    waits."""
    distance = (step or 0) * _ELEMENT_BYTES
    every = every_nth_set(distance)
    return every if every >= _FEW_SETS and distance >= WAY_BYTES // 8 else 0


def _overlaps(access: AccessShape, axes: Iterable[int], behind: int) -> bool:
    """Whether a load that moves along these axes, in uneven steps, reads most of the `behind` bytes of the loops inside
    again. (Even steps lead to other elements, which may lie between those of the loops inside.)"""
    if access.stored or access.indirect or any(access.steps[axis] is not None for axis in axes):
        return False
    return 2 * sum(access.reaches[axis] for axis in axes) * _ELEMENT_BYTES < behind
