"""What a nest computes, and where: additions-worth and cycles of its values under the loops of a plan."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import NamedTuple

from codegen.plan.cpu.dependency_chains import chain_waits
from codegen.plan.cpu.kept_rows import KeptRow, computed_in
from codegen.plan.cpu.nest_tiling import RESCALED
from codegen.plan.cpu.nest_trips import PlannedNest
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE, score_weight, weight
from codegen.plan.region_loops import RegionLoops
from codegen.plan.stream_view import summed_in
from ir.index.map import AxisMap, support
from ir.poly.core import Site
from ir.region.region import Op
from ir.region.work import score_points
from ir.target import Target

_EXTREME_WEIGHT = 3.5
"""Additions-worth of a term of a maximum, as four chains wait for it: it passes on what is no number."""
_SCORED = 7.0
"""Additions-worth of a stream's term besides its sum, maximum and exponential: it waits for the maximum of its step."""
_DIVIDING = frozenset(["fdiv", "recip", "sqrt", "rsqrt"])
"""What has a unit of its own, so that a row's one quotient or root runs beside what other rows add."""


class ComputePlace(NamedTuple):
    """Where a value is computed: the outer axes on which it depends, and the points of the reductions inside them."""

    axes: frozenset[int]
    terms: int


class Computed(NamedTuple):
    """A value where the nest computes it: at the points of the outer axes `axes`, for each of them at `terms` points of
    the reductions around it. `weight`: additions-worth of one point; `divides`: not on the units that add."""

    weight: float
    axes: frozenset[int]
    terms: int
    divides: bool = False


class Accumulator(NamedTuple):
    """A reduction or scan, finished for the outer axes `axes`.

    rows, terms  its points, and the terms of each, of which `run` are those of the innermost axis
    awaited      whether the rest of a row waits for it
    in_order     whether its terms are added one by one in index order
    score        additions-worth of rescaling a stream's sums, as of a term's exponential; None of any other
    beside       additions-worth of what is computed for each term
    """

    op: Op
    axes: frozenset[int]
    rows: int
    terms: int
    run: int
    awaited: bool
    in_order: bool
    score: float | None
    beside: float


@dataclass(frozen=True, eq=False)
class NestValues:
    """The values of one region on one machine, where these rows are kept."""

    loops: RegionLoops
    target: Target
    rows: tuple[KeptRow, ...] = ()

    @cached_property
    def once(self) -> float:
        """Additions-worth, each value computed once."""
        ops = self.loops.ops
        scores = (each * score_points(ops[name]) for name, each in self._scores.items())
        return sum(math.prod(op.domain) * self._weights[name] for name, op in ops.items()) + sum(scores)

    def again(self, nest: PlannedNest) -> float:
        """Additions-worth beyond that."""
        total = sum([each.weight * each.terms * nest.around[each.axes].points for each in self._computed])
        return max(0.0, total - self.once)

    def arithmetic(self, nest: PlannedNest) -> float:
        """Cycles of vector operations."""
        total, innermost = 0.0, min(self.target.lanes, self._innermost_terms)
        for each in self._computed:
            around = nest.around[each.axes]
            if around.has_lanes:
                total += each.weight * around.vectors * each.terms
            elif each.terms > 1:  # all lanes agree: one result at a time, whose terms share a register
                total += each.weight * around.points * each.terms / innermost
            else:  # beside what other rows add
                total += (1.0 if each.divides else each.weight) * around.points
        return total / ADDITIONS_PER_CYCLE

    def kept(self, nest: PlannedNest) -> float:
        """Cycles of storing rows and loading them again."""
        points = 0.0
        for row in self.rows:
            places = map(self._place, row.again)
            points += math.prod(self.loops.ops[row.value].shape)
            points += sum([terms * nest.around[axes].points for axes, terms in places])
        return points * self.target.vector_cycles / self.target.lanes

    def chained(self, nest: PlannedNest) -> float:
        """Cycles of waiting for functions of one point, one after another: those of each scope, where most is lost."""
        lanes, lost = self.target.lanes, dict[str, float]()
        for scope, (axes, terms), additions in self._chains:
            around = nest.around[axes]
            shared = lanes if terms >= lanes and not around.has_lanes else 1
            points = around.vectors if around.has_lanes else around.points
            lost[scope] = max(lost.get(scope, 0.0), points * terms / shared * additions / ADDITIONS_PER_CYCLE)
        return sum(lost.values())

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """Those that are used, in the body's order."""
        return tuple(
            self._accumulator(name, op) for name, op in self.loops.ops.items() if op.reduced and name in self._sites
        )

    def _accumulator(self, name: str, op: Op) -> Accumulator:
        axes, _ = self._places[name][0]
        inside = [value for value, sites in self._sites.items() if any(site.scope == name for site in sites)]
        return Accumulator(
            op=op,
            axes=axes,
            rows=math.prod(op.shape),
            terms=math.prod(op.domain[len(op.shape) :]),
            run=op.domain[-1],
            awaited=self._is_awaited(name, axes),
            in_order=self.loops.in_order(name),
            score=self._scores.get(name),
            beside=sum(self._weights[each] for each in (name, *inside)),
        )

    def _is_awaited(self, name: str, axes: frozenset[int]) -> bool:
        """Whether what is computed from an accumulator is computed at more points than it, or for another one."""
        shape = self.loops.shape
        wide = frozenset(axis for axis in axes if shape[axis] > 1)
        above = {name}
        for value, op in self.loops.ops.items():
            if not above.isdisjoint(op.reads):
                above.add(value)
                places = self._places.get(value, ())
                if any(terms > 1 or any(shape[axis] > 1 for axis in used - wide) for used, terms in places):
                    return True
        return False

    # --- what each value takes ---

    @cached_property
    def _weights(self) -> Mapping[str, float]:
        """Additions-worth of one point of each value."""
        return {name: weight(op, self.target) for name, op in self.loops.ops.items()}

    @cached_property
    def _scores(self) -> Mapping[str, float]:
        """Additions-worth of a term's exponential, by the streams that compute it: one of those with like terms. One
        more rescales the sums for several terms."""
        found: dict[tuple[object, ...], str] = {}
        for name, op in self.loops.ops.items():
            if op.kind == "stream":
                found.setdefault((op.fn, op.inputs[0], op.domain), name)
        region, ops = self.loops.region, self.loops.ops
        each = {name: score_weight(ops[name].fn, summed_in(region, ops[name]), self.target) for name in found.values()}
        return {name: (cost + _SCORED) * (1 + 1 / RESCALED) for name, cost in each.items()}

    @cached_property
    def _innermost_terms(self) -> int:
        return max([op.domain[-1] for op in self.loops.ops.values() if op.reduced], default=1)

    @cached_property
    def _computed(self) -> tuple[Computed, ...]:
        return tuple(self._occurrences())

    def _occurrences(self) -> Iterator[Computed]:
        for name, op in self.loops.ops.items():
            each = self._weights[name] + self._scores.get(name, 0.0)
            if op.kind == "reduce" and op.fn in ("max", "min"):
                each = max(each, _EXTREME_WEIGHT)
            if not each:
                continue
            places = self._places.get(name, ())
            if op.reduced:  # finished once, wherever it is read
                terms = math.prod(op.domain[len(op.shape) :])
                yield from (Computed(each, axes, terms * within) for axes, within in places[:1])
            else:
                divides = op.fn in _DIVIDING
                met = (self._is_met(site) for site in self._sites.get(name, ()))
                yield from (Computed(each, axes, within, divides) for axes, within in compress(places, met))

    def _is_met(self, site: Site) -> bool:
        """Whether a value is computed there, and not read from a row."""
        return not self.rows or site.value in self.loops.core.scopes or site.value in self._computed_in[site.scope]

    @cached_property
    def _computed_in(self) -> Mapping[str, frozenset[str]]:
        return computed_in(self.loops, self.rows)

    @cached_property
    def _chains(self) -> tuple[tuple[str, ComputePlace, float], ...]:
        """Per scope and place in it where a core waits: the additions-worth lost at each point of the values there."""
        own: dict[tuple[str, ComputePlace], set[str]] = {}
        for name, sites in self._sites.items():
            if self.loops.ops[name].kind in ("ewise", "unary", "cast"):
                first = next((site for site in sites if self._is_met(site)), None)
                if first is not None:
                    own.setdefault((first.scope, self._place(first)), set()).add(name)
        ops, target = self.loops.ops, self.target
        waits = ((*place, chain_waits(sorted(names), ops, names.__contains__, target)) for place, names in own.items())
        return tuple(each for each in waits if each[2])

    # --- where it is ---

    @cached_property
    def _sites(self) -> Mapping[str, list[Site]]:
        found: dict[str, list[Site]] = {}
        for site in self.loops.core.sites:
            found.setdefault(site.value, []).append(site)
        return found

    @cached_property
    def _places(self) -> Mapping[str, tuple[ComputePlace, ...]]:
        """Of each value, site by site."""
        return {name: tuple(map(self._place, sites)) for name, sites in self._sites.items()}

    def _place(self, site: Site) -> ComputePlace:
        used, terms, scope = support(site.map), 1, site.scope
        while scope != self.loops.scope:
            op = self.loops.ops[scope]
            kept = len(op.shape)
            terms *= math.prod(op.domain[kept:]) if any(axis >= kept for axis in used) else 1
            outer = self._sites[scope][0]
            used = _through(outer.map, frozenset(range(kept)) if terms > 1 else used)
            scope = outer.scope
        return ComputePlace(used, terms)


def _through(view: AxisMap, axes: frozenset[int]) -> frozenset[int]:
    """The axes on which the coordinates `axes` of a map depend."""
    return frozenset(axis for place in axes if place < len(view.exprs) for axis in view.exprs[place].axes)
