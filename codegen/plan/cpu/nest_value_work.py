"""The arithmetic of a nest under the loops of a plan, and where the nest computes its values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import NamedTuple

from codegen.plan.cpu.dependency_chains import chain_waits
from codegen.plan.cpu.kept_rows import KeptRow, computed_in
from codegen.plan.cpu.nest_trips import PlannedNest
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE, division_weight, score_weight, weight
from codegen.plan.region_loops import RegionLoops
from codegen.plan.stream_view import stream_dtype
from ir.index.facts import index_divisions
from ir.index.map import AxisMap, compose, support
from ir.poly.core import Site
from ir.region.region import Op, Operand
from ir.region.work import score_points
from ir.target import Target

_EXTREME_WEIGHT = 3.5
"""Additions-worth of a term of a maximum or minimum, at least: passing on NaN takes a chain of instructions."""
_SCORE_WEIGHT = 7.0
"""Additions-worth of a stream's term besides its sum, maximum and exponential: waiting for the maximum of its step."""
_DIVIDING = frozenset(["fdiv", "recip", "sqrt", "rsqrt"])
"""Functions with a unit of their own: the one quotient or root of a row runs beside the additions of other rows."""


class ComputePlace(NamedTuple):
    """Where a value is computed: the axes of the outputs on which it depends, and the points of the reductions around
    it per point of these axes."""

    axes: frozenset[int]
    terms: int


class Computed(NamedTuple):
    """One computation of a value: at the points of the outputs' `axes`, times `terms` points of the reductions around
    it. `weight`: additions-worth of one point. `divides`: another unit than that of additions computes it."""

    weight: float
    axes: frozenset[int]
    terms: int
    divides: bool = False


class Accumulator(NamedTuple):
    """A reduction, stream or scan; it has one result per point of the outputs' `axes`.

    rows, terms  number of results, and terms of one result
    run          terms along the innermost axis
    awaited      whether the rest of a row waits for the result
    in_order     whether the terms are added one by one in index order
    score        additions-worth of rescaling the sums of a stream; None where the accumulator is no stream
    beside       additions-worth of the values computed per term
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
    """The values of one region on one machine, for plans that keep these rows. `rescaled`: as in `CpuNestPlan`."""

    loops: RegionLoops
    target: Target
    rescaled: int
    rows: tuple[KeptRow, ...] = ()

    @cached_property
    def computed_once(self) -> float:
        """Additions-worth when every value is computed once."""
        ops = self.loops.ops
        scores = (score * score_points(ops[name]) for name, score in self._scores.items())
        return sum(math.prod(op.domain) * self._weights[name] for name, op in ops.items()) + sum(scores)

    def recompute_work(self, nest: PlannedNest) -> float:
        """Additions-worth beyond `computed_once`."""
        total = sum(
            [computed.weight * computed.terms * nest.around[computed.axes].points for computed in self._computed]
        )
        return max(0.0, total - self.computed_once)

    def arithmetic(self, nest: PlannedNest) -> float:
        """Cycles of vector operations."""
        total, innermost = 0.0, min(self.target.lanes, self._innermost_terms)
        for computed in self._computed:
            around = nest.around[computed.axes]
            if around.has_lanes:
                total += computed.weight * around.vectors * computed.terms
            elif computed.terms > 1:  # one result at a time, whose terms share a register
                total += computed.weight * around.points * computed.terms / innermost
            else:  # beside the additions of other rows
                total += (1.0 if computed.divides else computed.weight) * around.points
        return total / ADDITIONS_PER_CYCLE

    def row_moves(self, nest: PlannedNest) -> float:
        """Cycles to store the kept rows and to load them again."""
        points = 0.0
        for row in self.rows:
            places = map(self._place, row.rereads)
            points += math.prod(self.loops.ops[row.value].shape)
            points += sum([terms * nest.around[axes].points for axes, terms in places])
        return points * self.target.vector_cycles / self.target.lanes

    def chain_wait(self, nest: PlannedNest) -> float:
        """Cycles of waiting for chains of functions: of every scope the chain that loses most."""
        lanes, lost = self.target.lanes, dict[str, float]()
        for scope, (axes, terms), additions in self._chains:
            around = nest.around[axes]
            shared = lanes if terms >= lanes and not around.has_lanes else 1
            points = around.vectors if around.has_lanes else around.points
            lost[scope] = max(lost.get(scope, 0.0), points * terms / shared * additions / ADDITIONS_PER_CYCLE)
        return sum(lost.values())

    @cached_property
    def accumulators(self) -> tuple[Accumulator, ...]:
        """The accumulators that are used, in the body's order."""
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
            beside=sum(self._weights[value] for value in (name, *inside)),
        )

    def _is_awaited(self, name: str, axes: frozenset[int]) -> bool:
        """Whether a value that depends on the accumulator is computed at more points or inside another reduction."""
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

    # --- weights ---

    @cached_property
    def _weights(self) -> Mapping[str, float]:
        """Value → additions-worth of one point."""
        return {name: weight(op, self.target) for name, op in self.loops.ops.items()}

    @cached_property
    def _scores(self) -> Mapping[str, float]:
        """Stream → additions-worth of a term's exponential, rescaling included. Streams of equal scores share it: the
        first of them has the entry."""
        first: dict[tuple[object, ...], str] = {}
        for name, op in self.loops.ops.items():
            if op.kind == "stream":
                first.setdefault((op.fn, op.inputs[0], op.domain), name)
        streams = ((name, self.loops.ops[name]) for name in first.values())
        weights = {name: score_weight(op.fn, stream_dtype(self.loops.region, op), self.target) for name, op in streams}
        return {name: (exponential + _SCORE_WEIGHT) * (1 + 1 / self.rescaled) for name, exponential in weights.items()}

    @cached_property
    def _innermost_terms(self) -> int:
        return max([op.domain[-1] for op in self.loops.ops.values() if op.reduced], default=1)

    @cached_property
    def _computed(self) -> tuple[Computed, ...]:
        return tuple(self._computations())

    def _computations(self) -> Iterator[Computed]:
        for name, op in self.loops.ops.items():
            if op.kind == "gather":
                yield from self._index_divisions(name, op)
            point = self._weights[name] + self._scores.get(name, 0.0)
            if op.kind == "reduce" and op.fn in ("max", "min"):
                point = max(point, _EXTREME_WEIGHT)
            if not point:
                continue
            places = self._places.get(name, ())
            if op.reduced:  # computed once, wherever it is read
                terms = math.prod(op.domain[len(op.shape) :])
                yield from (Computed(point, axes, terms * within) for axes, within in places[:1])
            else:
                divides = op.fn in _DIVIDING
                is_computed = (self._is_computed_at(site) for site in self._sites.get(name, ()))
                yield from (Computed(point, axes, within, divides) for axes, within in compress(places, is_computed))

    def _index_divisions(self, name: str, op: Op) -> Iterator[Computed]:
        """The divisions by which a gather finds its place: made once for all elements of one index."""
        source, index = op.inputs
        assert isinstance(source, Operand)
        frame = next(buffer.memref.frame for buffer in self.loops.region.inputs if buffer.name == source.value)
        point = index_divisions(source.map, frame) * division_weight(self.target)
        if point and isinstance(index, Operand):
            sites = (Site(name, site.scope, compose(index.map, site.map)) for site in self._sites.get(name, ()))
            yield from (Computed(point, axes, within) for axes, within in map(self._place, sites))

    def _is_computed_at(self, site: Site) -> bool:
        """Whether the value is computed at the site, and not read from a kept row."""
        return not self.rows or site.value in self.loops.core.scopes or site.value in self._computed_in[site.scope]

    @cached_property
    def _computed_in(self) -> Mapping[str, frozenset[str]]:
        return computed_in(self.loops, self.rows)

    @cached_property
    def _chains(self) -> tuple[tuple[str, ComputePlace, float], ...]:
        """The places at which a core waits: scope, place, additions-worth lost per point of the values there."""
        own: dict[tuple[str, ComputePlace], set[str]] = {}
        for name, sites in self._sites.items():
            if self.loops.ops[name].kind in ("ewise", "unary", "cast"):
                first = next((site for site in sites if self._is_computed_at(site)), None)
                if first is not None:
                    own.setdefault((first.scope, self._place(first)), set()).add(name)
        ops, target = self.loops.ops, self.target
        waits = ((*place, chain_waits(sorted(names), ops, names.__contains__, target)) for place, names in own.items())
        return tuple(wait for wait in waits if wait[2])

    # --- sites ---

    @cached_property
    def _sites(self) -> Mapping[str, list[Site]]:
        sites_of: dict[str, list[Site]] = {}
        for site in self.loops.core.sites:
            sites_of.setdefault(site.value, []).append(site)
        return sites_of

    @cached_property
    def _places(self) -> Mapping[str, tuple[ComputePlace, ...]]:
        """Value → its places, one per site."""
        return {name: tuple(map(self._place, sites)) for name, sites in self._sites.items()}

    def _place(self, site: Site) -> ComputePlace:
        used, terms, scope = support(site.map), 1, site.scope
        while scope != self.loops.scope:
            op = self.loops.ops[scope]
            rank = len(op.shape)
            terms *= math.prod(op.domain[rank:]) if any(axis >= rank for axis in used) else 1
            outer = self._sites[scope][0]
            used = _axes_through(outer.map, frozenset(range(rank)) if terms > 1 else used)
            scope = outer.scope
        return ComputePlace(used, terms)


def _axes_through(view: AxisMap, axes: frozenset[int]) -> frozenset[int]:
    """The axes on which the coordinates `axes` of a map depend."""
    return frozenset(axis for place in axes if place < len(view.exprs) for axis in view.exprs[place].axes)
