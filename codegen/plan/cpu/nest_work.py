"""The work that a plan of a nest makes the machine do.

The model counts the cycles of one core per vector: arithmetic at every point where the nest computes it, and loads and
stores by how their lanes lie in memory; traffic beyond the caches is the buffers' own size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from codegen.plan.cpu.chains import chain_waits
from codegen.plan.cpu.kept_rows import KeptRow
from codegen.plan.cpu.nest_choices import is_split, loop_names, rows_together
from codegen.plan.cpu.planned_nest import PlannedNest
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE, score_weight, weight
from codegen.plan.plan_check import runs_parallel
from codegen.plan.region_loops import RegionLoops, Shape, View, loop_axes
from codegen.plan.stream_view import summed_in
from ir.axis_map import AxisMap, support
from ir.plan import Plan
from ir.poly_core import Site
from ir.pricer import Work
from ir.region import Operand
from ir.region_work import region_bytes, score_points
from ir.target import Target

PARTS = 32
"""Tasks or parts of a reduction where there is work for several threads: a fixed number, for the same bits."""
_HORIZONTAL_CYCLES, _TOGETHER_CYCLES = 5.0, 2.0
"""Cycles to reduce the lanes of a register to one number, among other such work; and of each of rows together."""
_EXTREME_WEIGHT = 3.5
"""Additions-worth of a term of a maximum, as four chains wait for it: it passes on what is no number."""
_STALL_CYCLES = 50.0
"""Cycles until a number so reduced can be used, where all that follows in its row waits for it."""
_WINDOW_CYCLES = 150.0
"""Work that a core finds ready ahead of what waits: rows shorter than this run during the stalls of those before."""
_CARRY_CYCLES = 4.0
"""Cycles per term that lanes hand on one after another: the latency of an addition."""
_EXTREME_CYCLES, _FEW_TERMS = 7.0, 32
"""The latency of a maximum; and terms so few that those of the next points run meanwhile."""
_DOUBLING_CYCLES = 12.0
"""Cycles per vector of a scan along lanes, by doubling."""
RESCALED = 8
"""Terms of a stream, or registers of terms, between two rescalings of its sums."""
_SCORED = 7.0
"""Additions-worth of a stream's term besides its sum, maximum and exponential: it waits for the maximum of its step."""
_DIVIDING = frozenset(["fdiv", "recip", "sqrt", "rsqrt"])
"""What has a unit of its own, so that a row's one quotient or root runs beside what other rows add."""
_LINE_BYTES, _ELEMENT_BYTES = 64, 4
_WAY_BYTES = 4096
"""Of a first-level cache: lines so far apart share one set of it, which keeps as many as the cache has ways."""
_CONFLICT_CYCLES = 15.0
"""Until a line comes from the second level that no prefetcher follows: one of many in a few sets of the first."""
_SEEN = 0.5
"""The share of the loads and stores of whole registers that arithmetic beside them does not hide."""


@dataclass(frozen=True)
class Computed:
    """A value where the nest computes it: at the points of the outer axes `axes`, for each of them at `terms` points of
    the reductions around it. `weight`: additions-worth of one point; `divides`: not on the units that add."""

    weight: float
    axes: frozenset[int]
    terms: int
    divides: bool = False


@dataclass(frozen=True, eq=False)
class NestWork:
    """Works of the plans of one region. `rows` are those that a plan may keep."""

    loops: RegionLoops
    target: Target
    rows: Sequence[KeptRow]

    def of(self, plan: Plan) -> Work:
        """The work of one plan."""
        region, lanes = self.loops.region, self.target.lanes
        points = sum(math.prod(each.memref.shape) for each in region.outputs)
        kept = {edge.src for edge in plan.local_edges}
        nest = PlannedNest.of(self.loops.shape, plan)
        flops = max(1.0, points, self._once)
        again = max(0.0, sum(each.weight * each.terms * nest.points(each.axes) for each in self._computed) - self._once)
        vectors, lost = self._arithmetic(nest), 0.0
        moved, apart = self._moves(nest, plan)
        waits = self._waits(nest, plan, vectors + moved) + self._chained(nest)
        reread = self._allocated + sum(self._refetched(view, nest) for view in self._views)
        met: set[Shape] = set()
        for view in self._views:
            reread += self._conflicts(view, nest, plan, first=not view.stored and view.shape not in met)
            met.add(view.shape)
        fanout = 0.0
        for row in self.rows:
            if row.value in kept:
                size = math.prod(self.loops.ops[row.value].shape)
                again -= size * row.flops
                vectors -= size * row.flops / (ADDITIONS_PER_CYCLE * lanes)
                fanout += 2 * self.target.vector_cycles * size / lanes
        again = max(0.0, again)
        ideal = (flops + again) / (ADDITIONS_PER_CYCLE * lanes)
        lost = max(0.0, vectors - ideal)
        return Work(
            flops=flops,
            bytes=float(self._bytes),
            compute_dtype="fp32",
            occupancy=self._occupancy(plan),
            efficiency=max(1e-5, min(1.0, (flops + again) / (4 * lanes * (ideal + moved + waits)))),
            recomputed=again,
            reread=reread,
            layout=lost + apart,
            fanout=fanout,
            scratch=rows_together(plan) * sum(row.nbytes for row in self.rows if row.value in kept),
            parallel="thread" in plan.bind.values(),
        )

    # --- what is computed ---

    @cached_property
    def _bytes(self) -> int:
        return region_bytes(self.loops.region)

    @cached_property
    def _once(self) -> float:
        """Additions-worth, each value computed once."""
        ops = self.loops.ops
        scores = (each * score_points(ops[name]) for name, each in self._scores.items())
        return sum(math.prod(op.domain) * weight(op, self.target) for op in ops.values()) + sum(scores)

    @cached_property
    def _computed(self) -> tuple[Computed, ...]:
        return tuple(self._occurrences())

    @cached_property
    def _scores(self) -> dict[str, float]:
        """Additions-worth of a term's exponential, by the streams that compute it: one of those with like terms. One
        more rescales the sums for several terms."""
        found: dict[tuple[object, ...], str] = {}
        for name, op in self.loops.ops.items():
            if op.kind == "stream":
                found.setdefault((op.fn, op.inputs[0], op.domain), name)
        region, ops = self.loops.region, self.loops.ops
        each = {name: score_weight(ops[name].fn, summed_in(region, ops[name]), self.target) for name in found.values()}
        return {name: (cost + _SCORED) * (1 + 1 / RESCALED) for name, cost in each.items()}

    def _occurrences(self) -> Iterator[Computed]:
        for name, op in self.loops.ops.items():
            each = weight(op, self.target) + self._scores.get(name, 0.0)
            if op.kind == "reduce" and op.fn in ("max", "min"):
                each = max(each, _EXTREME_WEIGHT)
            if not each:
                continue
            sites = self._sites.get(name, [])
            if op.reduced:  # finished once, wherever it is read
                terms = math.prod(op.domain[len(op.shape) :])
                yield from (Computed(each, axes, terms * within) for axes, within in map(self._place, sites[:1]))
            else:
                divides = op.fn in _DIVIDING
                yield from (Computed(each, axes, within, divides) for axes, within in map(self._place, sites))

    @cached_property
    def _sites(self) -> dict[str, list[Site]]:
        found: dict[str, list[Site]] = {}
        for site in self.loops.core.sites:
            found.setdefault(site.value, []).append(site)
        return found

    def _place(self, site: Site) -> tuple[frozenset[int], int]:
        """The outer axes on which a value at this site depends, and the points of the reductions inside them."""
        used, terms, scope = support(site.map), 1, site.scope
        while scope != self.loops.scope:
            op = self.loops.ops[scope]
            kept = len(op.shape)
            terms *= math.prod(op.domain[kept:]) if any(axis >= kept for axis in used) else 1
            outer = self._sites[scope][0]
            used = _through(outer.map, frozenset(range(kept)) if terms > 1 else used)
            scope = outer.scope
        return used, terms

    # --- cycles of one core ---

    def _arithmetic(self, nest: PlannedNest) -> float:
        """Cycles of vector operations."""
        lanes, total = self.target.lanes, 0.0
        innermost = min(lanes, self._innermost_terms)
        for each in self._computed:
            if nest.has_lanes(each.axes):
                total += each.weight * nest.vectors(each.axes, lanes) * each.terms
            elif each.terms > 1:  # all lanes agree: one result at a time, whose terms share a register
                total += each.weight * nest.points(each.axes) * each.terms / innermost
            else:  # beside what other rows add
                total += (1.0 if each.divides else each.weight) * nest.points(each.axes)
        return total / ADDITIONS_PER_CYCLE

    @cached_property
    def _accumulators(self) -> tuple[tuple[str, frozenset[int], bool], ...]:
        """The reductions: each with the outer axes on which it depends, and whether the rest of a row waits for it."""
        found = []
        for name, op in self.loops.ops.items():
            if op.reduced and name in self._sites:
                axes, _ = self._place(self._sites[name][0])
                found.append((name, axes, self._is_awaited(name, axes)))
        return tuple(found)

    def _is_awaited(self, name: str, axes: frozenset[int]) -> bool:
        """Whether what is computed from an accumulator is computed at more points than it, or for another one."""
        wide = frozenset(axis for axis in axes if self.loops.shape[axis] > 1)
        above = {name}
        for value, op in self.loops.ops.items():
            if any(isinstance(each, Operand) and each.value in above for each in op.inputs):
                above.add(value)
                places = (self._place(site) for site in self._sites.get(value, ()))
                if any(terms > 1 or any(self.loops.shape[axis] > 1 for axis in used - wide) for used, terms in places):
                    return True
        return False

    @cached_property
    def _innermost_terms(self) -> int:
        ops = [op for op in self.loops.ops.values() if op.reduced]
        return max([op.domain[-1] for op in ops], default=1)

    def _moves(self, nest: PlannedNest, plan: Plan) -> tuple[float, float]:
        """Cycles of loads and stores were all lanes neighbours; and those lost because they are not."""
        rank = len(self.loops.shape)
        if 0 in self.loops.shape:
            return 0.0, 0.0
        along = plan.vectorize.axis if plan.vectorize else ""
        close = apart = 0.0
        for each in self._views:
            used, inner = support(each.map), math.prod(each.map.sizes[rank:])
            whole = self.target.vector_cycles / self.target.lanes
            cycles = self._per_point(each, along, self._uses_lines_up(each, nest))
            if cycles is None:
                splats = nest.vectors(used, self.target.lanes) * inner
                close += splats * self.target.vector_cycles * _SEEN
                apart += splats * self.target.vector_cycles * (1 - _SEEN)
            else:
                times = nest.points(used) * inner
                close += times * whole * _SEEN
                apart += times * (cycles - whole)
        return close, apart

    def _waits(self, nest: PlannedNest, plan: Plan, busy: float) -> float:
        """Cycles until lanes have handed on what they have, of a nest that is `busy` for so many. Rows that run
        together wait together."""
        loops, shape, total = self.loops, self.loops.shape, 0.0
        together = rows_together(plan)
        for name, axes, is_awaited in self._accumulators:
            op = loops.ops[name]
            if not nest.has_lanes(axes):
                total += math.prod(op.domain) * _CARRY_CYCLES if loops.in_order(name) else 0.0
                rows = math.prod(op.shape)
                stall = min(_STALL_CYCLES, _STALL_CYCLES * busy / (_WINDOW_CYCLES * max(1, rows)))
                least = _HORIZONTAL_CYCLES if together == 1 else _TOGETHER_CYCLES
                total += rows * max(least, stall / together if is_awaited else 0.0)
                if name in self._scores:
                    total += rows * (
                        _HORIZONTAL_CYCLES + self._rescalings(op.domain[-1]) * self._scores[name] / ADDITIONS_PER_CYCLE
                    )
            elif op.kind == "reduce":
                total += self._carried(name, nest.vectors(axes, self.target.lanes), plan)
        along = plan.vectorize.axis if plan.vectorize else ""
        if along.startswith("i") and f"i{along.rsplit('i', 1)[1]}" in loops.core.sequential_axes:
            one_by_one = any(loops.in_order(name) for name, op in loops.ops.items() if op.kind == "scan")
            total += math.prod(shape) * (_CARRY_CYCLES if one_by_one else _DOUBLING_CYCLES / self.target.lanes)
        return total

    def _carried(self, name: str, vectors: int, plan: Plan) -> float:
        """Cycles in which the registers of a step wait for their own sums, one term after another."""
        op = self.loops.ops[name]
        terms = math.prod(op.domain[len(op.shape) :])
        registers = max(1, plan.vectorize.width // self.target.lanes) if plan.vectorize else 1
        latency = _EXTREME_CYCLES if op.fn in ("max", "min") else _CARRY_CYCLES
        inside = [value for value, sites in self._sites.items() if any(site.scope == name for site in sites)]
        busy = sum(weight(self.loops.ops[each], self.target) for each in (name, *inside)) / ADDITIONS_PER_CYCLE
        return vectors * terms * max(0.0, latency / registers - busy - _SEEN) if terms > _FEW_TERMS else 0.0

    def _chained(self, nest: PlannedNest) -> float:
        """Cycles of waiting for functions of one point, one after another: those of each scope, where most is lost."""
        lanes, lost = self.target.lanes, dict[str, float]()
        for scope, axes, terms, additions in self._chains:
            shared = lanes if terms >= lanes and not nest.has_lanes(axes) else 1
            points = nest.vectors(axes, lanes) if nest.has_lanes(axes) else nest.points(axes)
            lost[scope] = max(lost.get(scope, 0.0), points * terms / shared * additions / ADDITIONS_PER_CYCLE)
        return sum(lost.values())

    @cached_property
    def _chains(self) -> tuple[tuple[str, frozenset[int], int, float], ...]:
        """Per scope, axes of the outputs and terms: the additions-worth lost at each point of the values there."""
        own: dict[tuple[str, frozenset[int], int], set[str]] = {}
        for name, sites in self._sites.items():
            if self.loops.ops[name].kind in ("ewise", "unary", "cast"):
                own.setdefault((sites[0].scope, *self._place(sites[0])), set()).add(name)
        ops, target = self.loops.ops, self.target
        return tuple(
            (*place, chain_waits(sorted(names), ops, names.__contains__, target)) for place, names in own.items()
        )

    def _rescalings(self, terms: int) -> float:
        """How often the sums of a row are rescaled, where lanes run along terms, more than once for `RESCALED`
        registers: for the registers left, for those partly filled, and to join lanes."""
        registers, rest = divmod(terms, self.target.lanes)
        return -(-registers // RESCALED) - registers / RESCALED + (rest > 0) + 1

    @property
    def _views(self) -> tuple[View, ...]:
        return self.loops.views(self.loops.scope, self.loops.shape)

    def _refetched(self, view: View, nest: PlannedNest) -> float:
        """Cycles of reading again what the nearest cache lost, because loops inside read more than it holds: the loops
        are gone through from the inside, `behind` are the bytes that one round of them reads."""
        rank = len(self.loops.shape)
        inner = math.prod(view.map.sizes[rank:])
        used, behind = support(view.map), _ELEMENT_BYTES * inner
        fetched = _ELEMENT_BYTES * inner * nest.points(used)
        for axes, extent in reversed(nest.loops[: nest.depth(used)]):
            if used & axes:
                behind *= extent
            elif behind > self.target.l1_bytes:
                return fetched * self.target.refetch_cycles(behind)
            else:
                fetched //= extent
        return 0.0

    @cached_property
    def _allocated(self) -> float:
        """Cycles of fetching the lines that stores fill, where the nearest cache does not hold the kernel's data."""
        if self._bytes <= self.target.l1_bytes:
            return 0.0
        stored = sum(each.memref.nbytes for each in self.loops.region.outputs)
        return stored * self.target.refetch_cycles(min(self._bytes, self.target.l2_bytes))

    def _conflicts(self, view: View, nest: PlannedNest, plan: Plan, *, first: bool) -> float:
        """Cycles of waiting for runs of lanes whose distance maps them to a few sets of the nearest cache, more of them
        than these keep: columns of a matrix whose rows are a power of two apart. What is read `first` had to come from
        further away anyhow."""
        if nest.lanes is None or plan.vectorize is None or 0 in view.map.sizes or view.indirect:
            return 0.0
        sizes, steps, rank = view.map.sizes, [each.step for each in view.strides], len(self.loops.shape)
        inside = [axis for axes, _ in nest.loops[nest.lanes + 1 :] for axis in sorted(axes)]
        faster = [axis for axis in (*inside, *range(rank, len(sizes))) if sizes[axis] > 1]
        if not faster or steps[loop_axes(plan.vectorize.axis)[-1]] != 1:
            return 0.0
        distance = (steps[faster[-1]] or 0) * _ELEMENT_BYTES
        run = max(_LINE_BYTES, plan.vectorize.width * _ELEMENT_BYTES)
        shared = math.gcd(_WAY_BYTES, distance) // _LINE_BYTES
        kept = self.target.l1_bytes // _LINE_BYTES * run // (max(1, shared) * _LINE_BYTES)
        if distance < _WAY_BYTES // 8 or shared < 16 or sizes[faster[-1]] * run // _LINE_BYTES <= kept:
            return 0.0
        runs = nest.points(support(view.map)) * math.prod(sizes[rank:]) / plan.vectorize.width
        return runs * _CONFLICT_CYCLES * ((shared - 16) / 80 if first else shared / 40)

    def _uses_lines_up(self, view: View, nest: PlannedNest) -> bool:
        """Whether lines in which lanes lie apart are still in the nearest cache when the other loops inside a strip
        come to the elements beside."""
        if not nest.is_strip:
            return False
        rank, used = len(self.loops.shape), support(view.map)
        outer = [each for number, each in enumerate(nest.loops) if number != nest.lanes]
        terms = [(frozenset({axis}), view.map.sizes[axis]) for axis in range(rank, len(view.map.sizes))]
        touched = _LINE_BYTES * self.target.lanes
        for axes, extent in reversed([*outer, *terms]):
            if extent > 1 and axes & used:
                step = view.strides[max(axes & used)].step
                if step is not None and abs(step) * _ELEMENT_BYTES < _LINE_BYTES:
                    return touched <= self.target.l1_bytes
                touched *= extent
        return False

    def _per_point(self, view: View, along: str, uses_lines_up: bool) -> float | None:
        """Cycles per point of one access, with lanes along the loop `along`; None where one number is for all lanes, or
        lanes do not run along outputs: then a register is moved for it."""
        axis = next((axis for axis in reversed(loop_axes(along)) if view.map.sizes[axis] > 1), None)
        if axis is None or view.strides[axis].step == 0:
            if len(view.map.sizes) == len(self.loops.shape):
                return None
            axis = len(view.map.sizes) - 1
        size, step = view.map.sizes[axis], view.strides[axis].step
        filled = max(1, min(self.target.lanes, size))
        if step in (0, 1) and not view.indirect:
            return self.target.vector_cycles / filled
        far = step is None or (abs(step) * _ELEMENT_BYTES >= _LINE_BYTES and not uses_lines_up)
        near = self.target.lane_cycles / (2 if step in (2, -2) else 1)  # two registers hold every second element
        return (self.target.far_cycles if far else near) * (2 if view.stored else 1)

    def _occupancy(self, plan: Plan) -> float:
        """The share of the cores that the plan's tasks keep busy."""
        shape, target = self.loops.shape, self.target
        tasks = 1
        for position, name in enumerate(loop_names(plan)):
            if runs_parallel(plan, f"{name}.o"):
                extent = math.prod(shape[axis] for axis in loop_axes(name))
                tasks *= max(1, -(-extent // max(1, plan.tile[position])))
        if is_split(plan):
            tasks = max(tasks, PARTS)
        rounds = -(-tasks // target.units)
        return tasks / (rounds * target.units)


def _through(view: AxisMap, axes: frozenset[int]) -> frozenset[int]:
    """The axes on which the coordinates `axes` of a map depend."""
    return frozenset(axis for place in axes if place < len(view.exprs) for axis in view.exprs[place].axes)
