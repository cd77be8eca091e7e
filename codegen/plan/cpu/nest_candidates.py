"""Candidate plans of a region without a contraction.

A candidate says along which loop lanes run (a loop over outputs, or over the terms of reductions), the tiles of the
outputs, and what runs in parallel. `codegen.plan.cpu.nest_work` gives the work of a plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from codegen.plan.cpu.contraction_work import SMALL_FLOPS
from codegen.plan.cpu.kept_rows import KeptRow, kept_rows
from codegen.plan.cpu.nest_access_work import sliding_windows
from codegen.plan.cpu.nest_tiling import can_keep
from codegen.plan.cpu.nest_work import PARTS, NestWork
from codegen.plan.region_loops import Axes, RegionLoops, Shape
from codegen.poly.tail_axes import Steps, tail_axes
from ir.dtype import DTYPES
from ir.plan.cpu import CpuNestPlan, PlannedLoop
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.region.work import region_flops
from ir.target import VECTOR_REGISTERS, Target

SMALL_BYTES = 64 << 10
"""Bytes of a kernel below which, if its FLOPs are few too, a fork and join cost more than a second core saves."""

_REGISTERS = 4
"""Registers per step along outputs that accumulate: their sums hide latency, and rows are read in longer runs."""
_WIDE_SHARE = 2
"""Where one reduction alone accumulates, its sums take one of so many vector registers of a core: rows that are far
apart in memory are then read in runs of a kilobyte, which take a third of the time of shorter runs."""
_WIDE_READS = 2
"""Reads of a term, at most, where a reduction has so many registers: a mean over a concatenation of four tensors had
half a megabyte of text, which gcc compiled for 12 s."""
_ROWS = (4, 2)
"""Rows that may run together: as many as the sums of one reduction that run side by side, or half as many."""
_ROWS_SHARE = 0.75
"""The share of the first-level cache, at most, that rows that run together fill. The sums of a row are ready before the
row is read again: four rows of 16 KiB took 113 µs where one row at a time takes 69, on a Zen 4 with 32 KiB."""
_WINDOW_TERMS, _WINDOW_ROWS = 64, (8, 7, 6, 5, 4)
"""Terms of a window, at most, of which several points run together; and how many, where they leave few points over."""
_SHORT_LOOP = 8
"""Points, at most, of an outer loop that may run inside."""
_RESCALED = 8
"""Registers of a stream's terms between two rescalings of its sums: `rescaled` of every plan."""
_SHORT_TERMS = 2048
"""Terms of a row, at most, for rows that run together: a longer row keeps a core busy while another row waits."""
_FEW_VECTORS = 64
"""Vectors of outputs up to which reductions are cut into parts."""


def nest_candidates(
    region: Region, core: PolyCore, target: Target, *, ordered: bool = False
) -> list[tuple[CpuNestPlan, Work]]:
    """The candidates, the fastest first by the estimate below; none where the region is not legal as one kernel, has a
    contraction, or would compute a sum in two orders. `ordered`: plans take the terms of floating-point sums and
    products in index order."""
    if not core.legal or core.contraction is not None:
        return []
    loops = RegionLoops(region, core, ordered)
    if loops.sums_in_two_orders:
        return []
    space = _Space.of(loops, target)
    plans = list(_plans(space))
    once = [plan for plan in plans if not space.recomputes(plan)]
    work = NestWork(space.loops, target, space.rows)
    priced = [(plan, work.of(plan)) for plan in once or plans]
    priced.sort(key=lambda candidate: _rank(candidate[0], candidate[1], target))
    return priced


def _rank(plan: CpuNestPlan, work: Work, target: Target) -> tuple[float, ...]:
    """Better plans rank lower: by the cycles of the unit that works longest, or of memory; then those that read memory
    in order, a row at a time."""
    compute = (work.flops + work.recomputed) / (4 * target.lanes * work.efficiency)
    busy = (compute + work.reread + work.layout + work.fanout) / work.occupancy
    memory = target.cycles_in(work.bytes / target.bandwidth)
    return max(busy, memory), plan.rows, busy


@dataclass(frozen=True, eq=False)
class _Space:
    """The facts that all candidates of a region share. Loop number n over the outputs runs over the axes `groups[n]`;
    lanes run best along loop `best`. `threads`: there is work for more than one thread."""

    loops: RegionLoops
    target: Target
    groups: Sequence[Axes]
    best: int | None
    threads: bool
    _repeating: dict[tuple[tuple[int, ...], ...], bool] = field(default_factory=dict, init=False, repr=False)

    @staticmethod
    def of(loops: RegionLoops, target: Target) -> _Space:
        groups = loops.output_groups(loops.shape)
        return _Space(loops, target, groups, loops.best_lane(loops.shape, groups), not _is_small(loops))

    @property
    def shape(self) -> Shape:
        return self.loops.shape

    @property
    def lanes(self) -> int:
        return self.target.lanes

    @cached_property
    def extents(self) -> Sequence[int]:
        """Loop → its points."""
        return [math.prod([self.shape[axis] for axis in group]) for group in self.groups]

    @cached_property
    def has_own_accumulators(self) -> Sequence[bool]:
        """Loop → whether no two of its points share an accumulator."""
        return list(map(self.loops.has_own_accumulators, self.groups))

    @cached_property
    def scans(self) -> frozenset[int]:
        """The loops along which a scan carries its value."""
        axes = self.loops.scan_axes(self.shape)
        return frozenset(number for number, group in enumerate(self.groups) if group[0] in axes)

    @cached_property
    def order(self) -> Sequence[int]:
        """All loops, outermost first: in memory order, but so that no accumulator is computed again, and with scans
        innermost."""
        order = self.loops.finishing_order(self.groups, range(len(self.groups)))
        return sorted(order, key=lambda number: number in self.scans)

    @cached_property
    def rows(self) -> tuple[KeptRow, ...]:
        """The rows that a plan may keep: a row fills a quarter of the second-level cache at most."""
        return tuple(row for row in kept_rows(self.loops) if row.nbytes <= self.target.l2_bytes // 4)

    def recomputes(self, plan: CpuNestPlan) -> bool:
        """Whether a plan's loops compute an accumulator more than once."""
        nest = tuple([loop.axes for loop in plan.loops])
        if nest not in self._repeating:
            self._repeating[nest] = self.loops.recomputes(nest)
        return self._repeating[nest]

    @cached_property
    def reductions(self) -> tuple[str, ...]:
        return tuple(
            let.name
            for let in self.loops.region.body
            if let.op.kind in ("reduce", "stream") and let.name in self.loops.core.scopes
        )

    @cached_property
    def wide_registers(self) -> int:
        """Registers per step where one reduction has most of them for its sums; `_REGISTERS` elsewhere, and where a
        term takes many reads, or padded ones: every register repeats their code."""
        ops = self.loops.ops
        if len(self.reductions) != 1 or self.scans or ops[self.reductions[0]].kind == "stream":
            return _REGISTERS
        reads = [read.map for read in self.loops.core.accesses if read.scope == self.reductions[0]]
        if len(reads) > _WIDE_READS or any(read.guards for read in reads):
            return _REGISTERS
        registers = max(1, DTYPES[ops[self.reductions[0]].dtype].bytes // 4)
        return max(_REGISTERS, VECTOR_REGISTERS[self.target.arch] // _WIDE_SHARE // registers)

    def _row_loop(self, lane: int | None) -> int | None:
        """The innermost loop beside loop `lane`."""
        return next((number for number in reversed(self.order) if number != lane), None)

    def rows_together(self, lane: int | None) -> int:
        """How many rows run together with lanes along loop `lane` (None: along terms). Several hide waits where the
        nest sums many short rows; else 1."""
        inner = self._row_loop(lane)
        if inner is None or not self._has_short_rows(lane, inner):
            return 1
        rows = math.prod([extent for number, extent in enumerate(self.extents) if number != lane])
        most = _ROWS_SHARE * self.target.l1_bytes * rows / max(1, self.loops.nbytes)
        return next((rows for rows in _ROWS if rows <= most), 1)

    def _has_short_rows(self, lane: int | None, inner: int) -> bool:
        """Whether the nest sums many short rows, one for each point of loop `inner`."""
        if self.scans or self.extents[inner] < max(_ROWS) or not self.reductions:
            return False
        if any(self.loops.ops[name].kind == "stream" for name in self.reductions):  # its own terms keep a core busy
            return False
        along = [] if lane is None else self.groups[lane]
        finished = self.loops.core.finished
        summed = [self.loops.ops[name] for name in self.reductions if not set(along) & set(finished.get(name, along))]
        if len(summed) < (2 if lane is None else 1):  # nothing waits for the only sum
            return False
        terms = max(math.prod(op.domain[len(op.shape) :]) for op in summed)
        return self.lanes < terms <= _SHORT_TERMS and self.has_own_accumulators[inner]

    def rows_of_windows(self, lane: int) -> int:
        """How many points run together where every one sums a short window, with lanes along loop `lane`: they share
        the weights and the elements of windows that overlap, and hide one another's latency. 1 elsewhere."""
        inner = self._row_loop(lane)
        if inner is None or self.scans or not self.reductions or len(self.groups[inner]) > 1:
            return 1
        ops = [self.loops.ops[name] for name in self.reductions]
        terms = [math.prod(op.domain[len(op.shape) :]) for op in ops]
        if any(op.kind == "stream" for op in ops) or not 1 < max(terms) <= _WINDOW_TERMS:
            return 1
        if not self.loops.accumulates_at_points or not self._has_windows(self.groups[inner][0]):
            return 1
        low, high = self.loops.interior(self.shape, self.groups[inner][0]) or (0, self.extents[inner])
        return min(_WINDOW_ROWS, key=lambda rows: (high - low) // rows + 2 * ((high - low) % rows))

    def _has_windows(self, axis: int) -> bool:
        """Whether the terms take elements of windows that overlap along an axis, and weights that are equal there."""
        rank = len(self.shape)
        views = self.loops.views(self.loops.scope, self.shape)
        terms = [view for view in views if len(view.map.sizes) > rank]
        steps = [[stride.step for stride in view.strides] for view in terms]
        windows = (sliding_windows(step, view.map.sizes, rank, axis) for step, view in zip(steps, terms, strict=True))
        return any(axis not in view.axes for view in terms) and any(windows)

    def has_short_loop(self, lane: int) -> bool:
        """Whether the outermost loop has so few points that it may run inside the other loops around the lanes."""
        others = len(self.order) > 2 and not self.scans and not self.reductions
        return others and self.order[0] != lane and 1 < self.extents[self.order[0]] <= _SHORT_LOOP

    def can_split(self, lanes: int) -> bool:
        """Whether reductions can be cut into parts, and outputs are too few for several threads."""
        few = math.prod(self.shape) <= _FEW_VECTORS * lanes
        parted = self.loops.divisible_reductions
        return self.threads and few and bool(parted) and 0 not in self.loops.ops[parted[0]].domain


def _plans(space: _Space) -> Iterator[CpuNestPlan]:
    for lane in dict.fromkeys([space.best, *_others(space)]):
        if lane is not None:
            if space.wide_registers > _REGISTERS and space.extents[lane] >= space.wide_registers * space.lanes:
                yield _along_outputs(space, lane, space.threads, registers=space.wide_registers)
            yield _along_outputs(space, lane, space.threads)
            if space.has_short_loop(lane):
                yield _around_short_loop(space, lane)
            if (rows := space.rows_together(lane)) > 1:
                yield _along_outputs(space, lane, space.threads, rows)
            if (rows := space.rows_of_windows(lane)) > 1:
                yield _along_outputs(space, lane, space.threads, rows)
                yield _around_outputs(space, lane, 1, rows)
            if len(space.groups) > 1 and not space.scans:
                if space.reductions and space.extents[lane] >= _REGISTERS * space.lanes:
                    yield _around_outputs(space, lane, _REGISTERS)
                yield _around_outputs(space, lane, 1)
            if space.can_split(space.lanes):
                wide = space.extents[lane] >= space.wide_registers * space.lanes
                registers = space.wide_registers if wide else _REGISTERS
                yield _cut_into_parts(space, _along_outputs(space, lane, False, registers=registers))
    if len(space.scans) == 1:
        (scan,) = space.scans
        yield _along_scan(space, scan)
    if space.reductions or space.best is None:
        yield _along_terms(space, space.threads)
        if (rows := space.rows_together(None)) > 1:
            yield _along_terms(space, space.threads, rows)
        if space.can_split(1):
            yield _cut_into_parts(space, _along_terms(space, False))


def _others(space: _Space) -> list[int]:
    """The two longest loops besides the best, for lanes."""
    usable = [number for number in range(len(space.groups)) if number not in space.scans and space.extents[number] > 1]
    return [number for number in sorted(usable, key=lambda number: -space.extents[number]) if number != space.best][:2]


def _along_outputs(space: _Space, lane: int, threads: bool, rows: int = 1, registers: int = _REGISTERS) -> CpuNestPlan:
    """Lanes along loop `lane`, with only scans inside; `rows` points of the loop around it run together. `registers`:
    of a step, where values accumulate."""
    lanes = space.lanes
    order = [number for number in space.order if number != lane]
    position = sum(number not in space.scans for number in order)
    order.insert(position, lane)
    takes_registers = rows == 1 and (space.reductions or space.scans) and space.extents[lane] >= registers * lanes
    wide = lanes * (registers if takes_registers else 1)
    nest = _NestDraft.of(space, order, lane, wide, rows)
    strip = _crosses_memory(space, lane) and not space.scans and position > 0 and space.extents[lane] > wide
    strip = strip and space.has_own_accumulators[lane]  # else every block computes the same accumulators
    if strip:  # one vector's cache lines are used completely before the next vector
        nest.tiles[position] = wide
    if threads:
        first = [position] if strip else []
        nest.bind_threads([*first, *(position for position in range(len(order)) if position not in first)])
    return nest.plan(space)


def _crosses_memory(space: _Space, lane: int) -> bool:
    """Whether neighbours along loop `lane` are no neighbours in some buffer. Where a gather finds its elements is not
    known: most often in a row that fits the caches."""
    axis, views = space.groups[lane][-1], space.loops.views(space.loops.scope, space.shape)
    return any(view.moves_apart(axis) and axis not in view.data for view in views)


def _around_outputs(space: _Space, lane: int, registers: int, rows: int = 1) -> CpuNestPlan:
    """Lanes along loop `lane`, which is outermost: values that depend on it alone are loaded once."""
    order = [lane, *(number for number in space.order if number != lane)]
    nest = _NestDraft.of(space, order, lane, registers * space.lanes, rows)
    if space.threads:
        nest.bind_threads([*range(1, len(order)), 0])
    return nest.plan(space)


def _around_short_loop(space: _Space, lane: int) -> CpuNestPlan:
    """Lanes along loop `lane`, which is innermost; right around it the loop that is outermost in memory order. Its
    points often read the same elements."""
    short, *others = [number for number in space.order if number != lane]
    nest = _NestDraft.of(space, [*others, short, lane], lane, space.lanes)
    if space.threads:
        nest.bind_threads(range(len(others)))
    return nest.plan(space)


def _along_scan(space: _Space, scan: int) -> CpuNestPlan:
    """Lanes along a scan, whose value is carried from lane to lane; the other axes are rows."""
    nest = _NestDraft.of(space, range(len(space.groups)), scan, space.lanes)
    if space.threads:
        nest.bind_threads(range(len(space.groups)))
    return nest.plan(space)


def _along_terms(space: _Space, threads: bool, rows: int = 1) -> CpuNestPlan:
    """Lanes along the terms of reductions: outputs are written one by one. `rows` points of the innermost loop run
    together."""
    nest = _NestDraft.of(space, space.order, None, space.lanes, rows)
    if threads:
        nest.bind_threads(range(len(space.groups)))
    return nest.plan(space)


@dataclass
class _NestDraft:
    """A nest under construction, outermost loop first.

    whole     per loop: its blocks can not be tasks, because of a scan or because points share an accumulator
    lanes     position of the loop along which lanes run, in steps of `step`; None: along terms
    rows      points of the row loop that run together
    row_loop  position of the innermost loop beside the lanes, if rows run together
    bound     positions of the loops whose blocks are tasks
    """

    groups: Sequence[Axes]
    extents: Sequence[int]
    whole: Sequence[bool]
    lanes: int | None
    step: int
    tiles: list[int]
    rows: int
    row_loop: int | None
    bound: list[int] = field(default_factory=list)

    @staticmethod
    def of(space: _Space, order: Sequence[int], lane: int | None, step: int, rows: int = 1) -> _NestDraft:
        """The loops `order` of a space, in one block, with lanes along loop `lane`."""
        groups = [space.groups[number] for number in order]
        extents = [space.extents[number] for number in order]
        whole = [number in space.scans or not space.has_own_accumulators[number] for number in order]
        lanes = None if lane is None else order.index(lane)
        row_loop = max((place for place in range(len(order)) if place != lanes), default=None) if rows > 1 else None
        return _NestDraft(groups, extents, whole, lanes, step, list(extents), rows, row_loop)

    def width(self, position: int) -> int:
        """Elements per step of a loop."""
        if position == self.lanes:
            return self.step
        return self.rows if position == self.row_loop else 1

    def bind_threads(self, order: Iterable[int]) -> None:
        """Binds loops to threads, in `order`, until there are enough tasks."""
        tasks = 1
        for position in order:
            extent, width = self.extents[position], self.width(position)
            if self.whole[position] or tasks >= PARTS or extent == 1:
                continue
            tile = max(1, extent // -(-PARTS // tasks))
            tile = min(max(width, tile // width * width), self.tiles[position])
            if tile < extent:
                self.tiles[position] = tile
                self.bound.append(position)
                tasks *= -(-extent // tile)

    def plan(self, space: _Space) -> CpuNestPlan:
        loops = [PlannedLoop(tuple(axes), max(1, tile)) for axes, tile in zip(self.groups, self.tiles, strict=True)]
        steps = [
            Steps(loop.name, extent, tile if tile < extent else self.width(position))
            for position, (loop, extent, tile) in enumerate(zip(loops, self.extents, self.tiles, strict=True))
        ]
        along = () if self.lanes is None else loops[self.lanes].axes
        return CpuNestPlan(
            arch=space.target.arch,
            loops=tuple(loops),
            lanes=self.lanes,
            width=self.step,
            rescaled=_RESCALED,
            rows=self.rows,
            threads=tuple(self.bound),
            kept=tuple([row.kept for row in space.rows if can_keep(row, along)]),
            tails=tail_axes(steps),
            ordered=space.loops.ordered,
        )


def _cut_into_parts(space: _Space, plan: CpuNestPlan) -> CpuNestPlan:
    """The same plan with its reductions cut into parts."""
    longest = max(group.extent for group in space.loops.reduce_groups(space.reductions[0]))
    part = max(1, -(-longest // PARTS))
    part = -(-part // space.lanes) * space.lanes
    return msgspec.structs.replace(plan, part=min(part, longest), kept=())


def _is_small(loops: RegionLoops) -> bool:
    return region_flops(loops.region) < SMALL_FLOPS and loops.nbytes < SMALL_BYTES
