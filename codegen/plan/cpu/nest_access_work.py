"""What the loads and stores of a nest take under the loops of a plan: by how their lanes lie in memory, by what the
nearest cache loses between them, and by its sets in which they meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from codegen.plan.cpu.nest_trips import PlannedNest
from codegen.plan.region_loops import RegionLoops, Shape, View
from ir.index.map import support
from ir.target import Target

SEEN = 0.5
"""The share of the loads and stores of whole registers that arithmetic beside them does not hide."""
_LINE_BYTES, _ELEMENT_BYTES = 64, 4
_WAY_BYTES = 4096
"""Of a first-level cache: lines so far apart share one set of it, which keeps as many as the cache has ways."""
_SHARED = 16
"""Times fewer sets than lines from which on a run of them waits."""
_CONFLICT_CYCLES = 15.0
"""Until a line comes from the second level that no prefetcher follows: one of many in a few sets of the first."""


class AccessShape(NamedTuple):
    """All that cycles depend on of an access: the `axes` that it needs, the sizes of all and the elements per step of
    each, of which the first `rank` are those of the outputs; `inner`: how often it is made at a point of these."""

    axes: frozenset[int]
    sizes: tuple[int, ...]
    steps: tuple[int | None, ...]
    rank: int
    inner: int
    indirect: bool
    stored: bool

    @staticmethod
    def of(view: View, rank: int) -> AccessShape:
        sizes, steps = view.map.sizes, tuple([each.step for each in view.strides])
        return AccessShape(support(view.map), sizes, steps, rank, math.prod(sizes[rank:]), view.indirect, view.stored)


class LaneCycles(NamedTuple):
    """How lanes of an access lie: its cycles per point, and those where the nearest cache keeps its lines until they
    are used up."""

    cycles: float
    used_up: float


class Collision(NamedTuple):
    """Accesses to `columns` runs of lanes in turn, which lie in `shared` times fewer sets than lines: `times` in all;
    `first`: of what had to come from further away anyhow."""

    columns: int
    shared: int
    times: int
    first: bool


@dataclass(frozen=True, eq=False)
class NestAccesses:
    """The accesses of one region on one machine. Those alike are counted once for each nest, and added up in the order
    in which they are made."""

    loops: RegionLoops
    target: Target
    _lanes: dict[tuple[int, ...], Sequence[LaneCycles | None]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def _distinct(self) -> tuple[AccessShape, ...]:
        return tuple(dict.fromkeys(self._all))

    @cached_property
    def _made(self) -> tuple[int, ...]:
        """All accesses in order: which of the distinct ones each is."""
        numbers = {access: number for number, access in enumerate(self._distinct)}
        return tuple(numbers[access] for access in self._all)

    @cached_property
    def _all(self) -> tuple[AccessShape, ...]:
        return tuple(AccessShape.of(view, len(self.loops.shape)) for view in self._views)

    @cached_property
    def _first(self) -> tuple[bool, ...]:
        """Of each access whether what it reads comes from further away anyhow: the first of a shape."""
        found: list[bool] = []
        met: set[Shape] = set()
        for view in self._views:
            found.append(not view.stored and view.shape not in met)
            met.add(view.shape)
        return tuple(found)

    @property
    def _views(self) -> tuple[View, ...]:
        return self.loops.views(self.loops.scope, self.loops.shape)

    def moves(self, nest: PlannedNest) -> tuple[float, float]:
        """Cycles of loads and stores were all lanes neighbours; and those lost because they are not."""
        if 0 in self.loops.shape:
            return 0.0, 0.0
        lanes = self._lanes_along(nest.along)
        cycles = [self._moved(each, along, nest) for each, along in zip(self._distinct, lanes, strict=True)]
        close = apart = 0.0
        for number in self._made:
            close += cycles[number][0]
            apart += cycles[number][1]
        return close, apart

    def _moved(self, access: AccessShape, lanes: LaneCycles | None, nest: PlannedNest) -> tuple[float, float]:
        around = nest.around[access.axes]
        if lanes is None:
            splats = around.vectors * access.inner
            return splats * self.target.vector_cycles * SEEN, splats * self.target.vector_cycles * (1 - SEEN)
        times, whole = around.points * access.inner, self.target.vector_cycles / self.target.lanes
        near = nest.is_strip and lanes.used_up != lanes.cycles and self._uses_lines_up(access, nest)
        return times * whole * SEEN, times * ((lanes.used_up if near else lanes.cycles) - whole)

    def _lanes_along(self, along: tuple[int, ...]) -> Sequence[LaneCycles | None]:
        """How lanes along the loop over these axes lie, for each distinct access."""
        if along not in self._lanes:
            self._lanes[along] = [self._lanes_of(each, along) for each in self._distinct]
        return self._lanes[along]

    def _lanes_of(self, access: AccessShape, along: tuple[int, ...]) -> LaneCycles | None:
        """None where one number is for all lanes, or lanes do not run along outputs: a register is moved for it."""
        axis = next((axis for axis in reversed(along) if access.sizes[axis] > 1), None)
        if axis is None or access.steps[axis] == 0:
            if len(access.sizes) == access.rank:
                return None
            axis = len(access.sizes) - 1
        size, step = access.sizes[axis], access.steps[axis]
        if step in (0, 1) and not access.indirect:
            cycles = self.target.vector_cycles / max(1, min(self.target.lanes, size))
            return LaneCycles(cycles, cycles)
        times = 2 if access.stored else 1
        near = (
            self.target.lane_cycles / (2 if step in (2, -2) else 1) * times
        )  # two registers hold every second element
        far = self.target.far_cycles * times
        if step is None:
            return LaneCycles(far, far)
        return LaneCycles(far if abs(step) * _ELEMENT_BYTES >= _LINE_BYTES else near, near)

    def _uses_lines_up(self, access: AccessShape, nest: PlannedNest) -> bool:
        """Whether lines in which lanes lie apart are still in the nearest cache when the other loops inside a strip
        come to the elements beside."""
        outer = [each for number, each in enumerate(nest.loops) if number != nest.lanes]
        terms = [(frozenset({axis}), access.sizes[axis]) for axis in range(access.rank, len(access.sizes))]
        touched = _LINE_BYTES * self.target.lanes
        for axes, extent in reversed([*outer, *terms]):
            if extent > 1 and axes & access.axes:
                step = access.steps[max(axes & access.axes)]
                if step is not None and abs(step) * _ELEMENT_BYTES < _LINE_BYTES:
                    return touched <= self.target.l1_bytes
                touched *= extent
        return False

    def refetched(self, nest: PlannedNest) -> float:
        """Cycles of reading again what the nearest cache lost, because loops inside read more than it holds."""
        if not any(self._may_be_lost):
            return 0.0
        cycles = [
            self._lost(each, nest) if may else 0.0 for each, may in zip(self._distinct, self._may_be_lost, strict=True)
        ]
        return sum([cycles[number] for number in self._made])

    @cached_property
    def _may_be_lost(self) -> Sequence[bool]:
        """Of each distinct access whether some loop reads it again, and the nearest cache does not hold all of it."""
        found = []
        for each in self._distinct:
            outer = [size for axis, size in enumerate(each.sizes[: each.rank]) if axis in each.axes]
            whole = _ELEMENT_BYTES * each.inner * math.prod(outer)
            found.append(len(outer) < each.rank and whole > self.target.l1_bytes)
        return found

    def _lost(self, access: AccessShape, nest: PlannedNest) -> float:
        """The loops are gone through from the inside, `behind` are the bytes that one round of them reads."""
        around, behind = nest.around[access.axes], _ELEMENT_BYTES * access.inner
        fetched = behind * around.points
        for axes, extent in reversed(nest.loops[: around.depth]):
            if access.axes & axes:
                behind *= extent
            elif behind > self.target.l1_bytes:
                return fetched * self.target.refetch_cycles(behind)
            else:
                fetched //= extent
        return 0.0

    def collisions(self, nest: PlannedNest) -> tuple[Collision, ...]:
        """The accesses to runs of lanes whose distance maps them to a few sets of the nearest cache: columns of a
        matrix whose rows are a power of two apart."""
        if nest.lanes is None or not any(self._may_collide):
            return ()
        found = [
            self._collision(each, nest) if may else None
            for each, may in zip(self._distinct, self._may_collide, strict=True)
        ]
        met = ((found[number], first) for number, first in zip(self._made, self._first, strict=True))
        return tuple(each._replace(first=first) for each, first in met if each is not None)

    @cached_property
    def _may_collide(self) -> Sequence[bool]:
        """Of each distinct access whether runs of it meet along some axis."""
        return [not each.indirect and 0 not in each.sizes and any(map(_sharing, each.steps)) for each in self._distinct]

    def _collision(self, access: AccessShape, nest: PlannedNest) -> Collision | None:
        sizes = access.sizes
        if nest.lanes is None or access.steps[nest.along[-1]] != 1:
            return None
        inside = [axis for axes, _ in nest.loops[nest.lanes + 1 :] for axis in sorted(axes)]
        faster = next((axis for axis in reversed((*inside, *range(access.rank, len(sizes)))) if sizes[axis] > 1), None)
        shared = 0 if faster is None else _sharing(access.steps[faster])
        if faster is None or not shared:
            return None
        return Collision(sizes[faster], shared, nest.around[access.axes].points * access.inner, first=False)

    def waited(self, each: Collision, width: int) -> float:
        """Cycles of waiting for runs of `width` lanes, more of them than the sets keep."""
        run = max(_LINE_BYTES, width * _ELEMENT_BYTES)
        kept = self.target.l1_bytes // _LINE_BYTES * run // (each.shared * _LINE_BYTES)
        if each.columns * run // _LINE_BYTES <= kept:
            return 0.0
        runs = each.times / width
        return runs * _CONFLICT_CYCLES * ((each.shared - _SHARED) / 80 if each.first else each.shared / 40)


def _sharing(step: int | None) -> int:
    """How many times fewer sets of the nearest cache than lines take what lies so many elements apart; 0 where that is
    few times."""
    distance = (step or 0) * _ELEMENT_BYTES
    shared = math.gcd(_WAY_BYTES, distance) // _LINE_BYTES
    return shared if shared >= _SHARED and distance >= _WAY_BYTES // 8 else 0
