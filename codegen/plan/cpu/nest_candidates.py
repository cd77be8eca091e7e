"""Candidate plans of a region without a contraction.

A candidate says which loop lanes run along (an output axis, or the reduced axes), how the outputs are blocked, and
what runs in parallel. `codegen.plan.cpu.nest_work` says what work each makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from codegen.plan.cpu.kept_rows import KeptRow, kept_rows
from codegen.plan.cpu.nest_tiling import RESCALED, may_keep
from codegen.plan.cpu.nest_work import PARTS, NestWork
from codegen.plan.region_loops import Axes, RegionLoops, Shape
from codegen.poly.tail_axes import Steps, tail_axes
from ir.plan.cpu import CpuNestPlan, PlannedLoop
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.region.work import region_flops
from ir.target import Target

SMALL_FLOPS = 200_000
SMALL_BYTES = 64 << 10
"""Below both a fork and join cost more than a second core saves."""

_REGISTERS = 4
"""Registers per step along outputs that accumulate: their chains hide latency, and rows are read in longer runs."""
_ROWS = 4
"""Rows that run together: as many as there are chains of one sum."""
_SHORT_TERMS = 2048
"""Rows longer than this keep a core busy while one of them waits."""
_FEW_VECTORS = 64
"""With so few vectors of outputs a long reduction is cut into parts."""


def nest_candidates(
    region: Region, core: PolyCore, target: Target, *, ordered: bool = False
) -> list[tuple[CpuNestPlan, Work]]:
    """The candidates, best first by their own estimate; none where the region is not legal as one kernel, holds
    a contraction, or would compute a sum in two orders. `ordered`: they take the terms of floating-point sums and
    products in index order."""
    if not core.legal or core.contraction is not None:
        return []
    loops = RegionLoops(region, core, ordered)
    if loops.scattered:
        return []
    space = _Space.of(loops, target)
    several = list(_plans(space))
    once = [plan for plan in several if not space.repeats(plan)]
    work = NestWork(space.loops, target, space.rows)
    found = [(plan, work.of(plan)) for plan in once or several]
    found.sort(key=lambda each: _cycles(each[1], target))
    return found


def _cycles(work: Work, target: Target) -> float:
    """Of the unit that works longest, to order candidates by."""
    compute = (work.flops + work.recomputed) / (4 * target.lanes * work.efficiency)
    return (compute + work.reread + work.layout + work.fanout) / work.occupancy


@dataclass(frozen=True, eq=False)
class _Space:
    """What all candidates of a region share: its loops over outputs are the `groups` of axes, `best` is the one along
    which lanes run best. `threads`: there is work for more than one."""

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
        """Points of each loop."""
        return [math.prod([self.shape[axis] for axis in group]) for group in self.groups]

    @cached_property
    def apart(self) -> Sequence[bool]:
        """Whether each loop's points share no accumulator."""
        return list(map(self.loops.is_apart, self.groups))

    @cached_property
    def scans(self) -> frozenset[int]:
        """The loops along which a scan carries its value."""
        axes = self.loops.scan_axes(self.shape)
        return frozenset(number for number, group in enumerate(self.groups) if group[0] in axes)

    @cached_property
    def order(self) -> Sequence[int]:
        """All loops, outermost first: in memory order, but accumulators are finished before other loops begin, and
        scans run innermost."""
        order = self.loops.finishing_order(self.groups, range(len(self.groups)))
        return sorted(order, key=lambda number: number in self.scans)

    @cached_property
    def rows(self) -> tuple[KeptRow, ...]:
        """The values of which a row is kept, where the second-level cache holds it beside what else is used."""
        return tuple(row for row in kept_rows(self.loops) if row.nbytes <= self.target.l2_bytes // 4)

    def repeats(self, plan: CpuNestPlan) -> bool:
        """Whether a plan's loops would compute an accumulator again."""
        nest = tuple([loop.axes for loop in plan.loops])
        if nest not in self._repeating:
            self._repeating[nest] = self.loops.repeats(nest)
        return self._repeating[nest]

    @cached_property
    def reductions(self) -> tuple[str, ...]:
        return tuple(
            let.name
            for let in self.loops.region.body
            if let.op.kind in ("reduce", "stream") and let.name in self.loops.core.scopes
        )

    def has_short_rows(self, lane: int | None) -> bool:
        """Whether lanes along loop `lane`, or along terms, are summed for each of many rows, of terms of their own, and
        the next is soon to begin."""
        inner = next((number for number in reversed(self.order) if number != lane), None)
        if inner is None or self.scans or self.extents[inner] < _ROWS or not self.reductions:
            return False
        if any(self.loops.ops[name].kind == "stream" for name in self.reductions):  # its own terms keep a core busy
            return False
        along = [] if lane is None else [f"i{axis}" for axis in self.groups[lane]]
        finished = self.loops.core.finished
        summed = [self.loops.ops[name] for name in self.reductions if not set(along) & set(finished.get(name, along))]
        if len(summed) < (2 if lane is None else 1):  # nothing waits for the only sum
            return False
        terms = max(math.prod(op.domain[len(op.shape) :]) for op in summed)
        return self.lanes < terms <= _SHORT_TERMS and self.apart[inner]

    def splits(self, lanes: int) -> bool:
        """Whether the region's reductions have terms, which may be regrouped, and there are too few outputs to feed
        several threads."""
        few = math.prod(self.shape) <= _FEW_VECTORS * lanes
        parted = self.loops.parted
        return self.threads and few and bool(parted) and 0 not in self.loops.ops[parted[0]].domain


def _plans(space: _Space) -> Iterator[CpuNestPlan]:
    for lane in dict.fromkeys([space.best, *_others(space)]):
        if lane is not None:
            yield _along_outputs(space, lane, space.threads)
            if space.has_short_rows(lane):
                yield _along_outputs(space, lane, space.threads, _ROWS)
            if len(space.groups) > 1 and not space.scans:
                yield _around_outputs(space, lane, 1)
                if space.reductions and space.extents[lane] >= _REGISTERS * space.lanes:
                    yield _around_outputs(space, lane, _REGISTERS)
            if space.splits(space.lanes):
                yield _split(space, _along_outputs(space, lane, False))
    if len(space.scans) == 1:
        (scan,) = space.scans
        yield _along_scan(space, scan)
    if space.reductions or space.best is None:
        yield _along_terms(space, space.threads)
        if space.has_short_rows(None):
            yield _along_terms(space, space.threads, _ROWS)
        if space.splits(1):
            yield _split(space, _along_terms(space, False))


def _others(space: _Space) -> list[int]:
    """Loops worth a try besides the best one."""
    usable = [number for number in range(len(space.groups)) if number not in space.scans and space.extents[number] > 1]
    return [number for number in sorted(usable, key=lambda number: -space.extents[number]) if number != space.best][:2]


def _along_outputs(space: _Space, lane: int, threads: bool, rows: int = 1) -> CpuNestPlan:
    """Lanes along loop `lane`, which is the innermost but for scans; `rows` of the loop around it together."""
    lanes = space.lanes
    order = [number for number in space.order if number != lane]
    position = sum(number not in space.scans for number in order)
    order.insert(position, lane)
    several = rows == 1 and (space.reductions or space.scans) and space.extents[lane] >= _REGISTERS * lanes
    wide = lanes * (_REGISTERS if several else 1)
    nest = _NestDraft.of(space, order, lane, wide, rows)
    strip = _crosses_memory(space, lane) and not space.scans and position > 0 and space.extents[lane] > wide
    strip = strip and space.apart[lane]  # else what a block finishes, the next finishes again
    if strip:  # the lines that one vector's lanes lie in are used up before the next vector
        nest.tiles[position] = wide
    if threads:
        first = [position] if strip else []
        nest.spread([*first, *(each for each in range(len(order)) if each not in first)])
    return nest.plan(space)


def _crosses_memory(space: _Space, lane: int) -> bool:
    """Whether the neighbours along loop `lane` are far apart in some buffer."""
    views = space.loops.views(space.loops.scope, space.shape)
    return any(each.strides[space.groups[lane][-1]].step not in (0, 1) for each in views)


def _around_outputs(space: _Space, lane: int, registers: int) -> CpuNestPlan:
    """Lanes along loop `lane`, which is the outermost: what depends on it alone is loaded once for all the others."""
    order = [lane, *(number for number in space.order if number != lane)]
    nest = _NestDraft.of(space, order, lane, registers * space.lanes)
    if space.threads:
        nest.spread([*range(1, len(order)), 0])
    return nest.plan(space)


def _along_scan(space: _Space, scan: int) -> CpuNestPlan:
    """Lanes along a scan, handed on from lane to lane; the other axes are rows."""
    nest = _NestDraft.of(space, range(len(space.groups)), scan, space.lanes)
    if space.threads:
        nest.spread(range(len(space.groups)))
    return nest.plan(space)


def _along_terms(space: _Space, threads: bool, rows: int = 1) -> CpuNestPlan:
    """Lanes along the reduced axes: outputs are written one by one, those of `rows` points of the innermost loop
    together."""
    nest = _NestDraft.of(space, space.order, None, space.lanes, rows)
    if threads:
        nest.spread(range(len(space.groups)))
    return nest.plan(space)


@dataclass
class _NestDraft:
    """A nest under construction, outermost loop first: `bound` are the positions of loops whose blocks are tasks, which
    none can be that runs as a `whole`: along a scan, or at points that share an accumulator. Lanes run along the loop
    at position `lanes` (None: along terms) in steps of `step`; `rows` run together."""

    groups: Sequence[Axes]
    extents: Sequence[int]
    whole: Sequence[bool]
    lanes: int | None
    step: int
    tiles: list[int]
    rows: int
    bound: list[int] = field(default_factory=list)

    @staticmethod
    def of(space: _Space, order: Sequence[int], lane: int | None, step: int, rows: int = 1) -> _NestDraft:
        """The loops `order` of a space, each of one block, lanes along the loop `lane`."""
        groups = [space.groups[number] for number in order]
        extents = [space.extents[number] for number in order]
        whole = [number in space.scans or not space.apart[number] for number in order]
        lanes = None if lane is None else order.index(lane)
        return _NestDraft(groups, extents, whole, lanes, step, list(extents), rows)

    def width(self, position: int) -> int:
        """Elements per step of a loop."""
        if position == self.lanes:
            return self.step
        if self.rows == 1:
            return 1
        inner = (each for each in reversed(range(len(self.groups))) if each != self.lanes)
        return self.rows if position == next(inner) else 1

    def spread(self, order: Iterable[int]) -> None:
        """Binds loops to threads, in `order`, until there are tasks enough."""
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
            rescaled=RESCALED,
            rows=self.rows,
            threads=tuple(self.bound),
            kept=tuple([row.kept for row in space.rows if may_keep(row, along)]),
            tails=tail_axes(steps),
            ordered=space.loops.ordered,
        )


def _split(space: _Space, plan: CpuNestPlan) -> CpuNestPlan:
    """The same plan with its reductions in parts."""
    longest = max(each.extent for each in space.loops.reduce_groups(space.reductions[0]))
    part = max(1, -(-longest // PARTS))
    part = -(-part // space.lanes) * space.lanes
    return msgspec.structs.replace(plan, part=min(part, longest), kept=())


def _is_small(loops: RegionLoops) -> bool:
    return region_flops(loops.region) < SMALL_FLOPS and loops.nbytes < SMALL_BYTES
