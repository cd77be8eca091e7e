"""The loops of a region's nest: which axes run as one, and along which of them lanes run well.

x[768*i0 + i1], y[768*i0 + i1] over i0 < 64, i1 < 768   →   one loop i0i1 over 49152 elements
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from codegen.poly.memory_access import strides_of
from ir.index.expr import AxisExpr
from ir.index.facts import offset
from ir.index.map import AxisMap, compose, fusable, lift, support
from ir.poly.core import PolyCore, Stride
from ir.region.region import Op, Region, behind, is_order_bound
from ir.region.work import region_bytes

Shape = tuple[int, ...]
Axes = list[int]
"""Positions of axes of one scope that one loop runs over."""


@dataclass(frozen=True)
class Group:
    """Neighbouring axes of one scope, by position among its `i` or its `r` axes, run over by one loop of `extent`
    steps from `origin`."""

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    name: str
    origin: AxisExpr
    extent: int

    @staticmethod
    def whole(axes: Sequence[int], sizes: Sequence[int], letter: str) -> Group:
        name = "".join(f"{letter}{axis}" for axis in axes)
        return Group(tuple(axes), tuple(sizes), name, AxisExpr(), math.prod(sizes))


@dataclass(frozen=True)
class View:
    """An access in terms of a scope's axes, then those of the loops inside: `map` to a buffer of `shape`, with the
    stride per axis. `indirect`: a gather, whose data-dependent coordinate counts as 0. `stored`: a write."""

    map: AxisMap
    shape: Shape
    strides: tuple[Stride, ...]
    indirect: bool = False
    stored: bool = False

    @property
    def linear(self) -> AxisExpr:
        """The offset in elements."""
        return offset(self.map, self.shape)


@dataclass(frozen=True, eq=False)
class RegionLoops:
    """The loops that a region offers, by what Poly Core reports on it. `ordered`: the terms of floating-point sums
    and products are taken in index order."""

    region: Region
    core: PolyCore
    ordered: bool = False
    _views: dict[tuple[str, Shape], tuple[View, ...]] = field(default_factory=dict, init=False, repr=False)
    _reduce_groups: dict[str, tuple[Group, ...]] = field(default_factory=dict, init=False, repr=False)
    _apart: dict[tuple[int, ...], tuple[bool, ...]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def shape(self) -> Shape:
        """That of the first output."""
        return self.region.outputs[0].memref.shape

    @cached_property
    def scope(self) -> str:
        """The outer scope's name."""
        return self.region.outputs[0].name

    @cached_property
    def ops(self) -> Mapping[str, Op]:
        """What computes each value."""
        return {let.name: let.op for let in self.region.body}

    @cached_property
    def nbytes(self) -> int:
        """What the kernel must move: of each input once what is read of it, and each output once."""
        return region_bytes(self.region)

    def in_order(self, value: str) -> bool:
        """Whether the terms of the accumulator `value` must be taken in index order."""
        return self.ordered and is_order_bound(self.ops[value])

    @cached_property
    def scattered(self) -> bool:
        """Whether the kernel computes a sum of floats at several of its places, as row sums r in r[i] - r[j]: lanes run
        along the outputs at one and along the terms at another, and the sums of one row get two roundings."""
        counted = Counter(site.value for site in self.core.sites)
        return any(count > 1 and is_order_bound(self.ops[name]) for name, count in counted.items()) and not self.ordered

    @cached_property
    def parted(self) -> tuple[str, ...]:
        """The region's reductions, where they can be cut into parts together: over like terms in any order, none of
        which needs another; else none."""
        names = [let.name for let in self.region.body if let.op.kind in ("reduce", "stream")]
        alike = {(op.kind, op.domain, op.reduced) for op in map(self.ops.__getitem__, names)}
        if len(alike) != 1 or self.ops[names[0]].kind != "reduce" or any(map(self.in_order, names)):
            return ()
        together = all(self.reduce_groups(name) == self.reduce_groups(names[0]) for name in names)
        apart = all(set(behind(self.ops, name)).isdisjoint({*names} - {name}) for name in names)
        return tuple(names) if together and apart else ()

    # --- accesses ---

    def views(self, scope: str, shape: Shape) -> tuple[View, ...]:
        """Every access made from a scope whose domain has `shape`, those of the accumulators inside included; what
        several values read at one place is loaded once."""
        key = (scope, shape)
        if key not in self._views:
            self._views[key] = tuple(self._accesses(scope, shape))
        return self._views[key]

    def _accesses(self, scope: str, shape: Shape) -> Iterator[View]:
        shapes = {each.name: each.memref.shape for each in (*self.region.inputs, *self.region.outputs)}
        met: set[tuple[str, AxisMap]] = set()
        for each in self.core.accesses:
            if each.scope == scope and each.map.sizes == shape and (each.buffer, each.map) not in met:
                indirect, stored = each.indirect is not None, each.input < 0
                met |= set() if indirect else {(each.buffer, each.map)}
                yield View(each.map, shapes[each.buffer], each.strides, indirect, stored)
        for site in self.core.sites:
            if site.scope == scope and site.map.sizes == shape and site.value in self.core.scopes:
                op = self.ops[site.value]
                kept = len(op.domain) - op.reduced
                for inner in self.views(site.value, op.domain):
                    composed = compose(inner.map, lift(site.map, inner.map.sizes[kept:]))
                    strides = strides_of(composed, inner.shape)
                    yield View(composed, inner.shape, strides, inner.indirect, inner.stored)

    def lane_score(self, scope: str, shape: Shape, axis: int) -> float:
        """How well lanes run along an axis: +1 for each access to neighbours, -1 for each lane by lane, by how often
        it is made."""
        if 0 in shape:
            return 0.0
        found = self.views(scope, shape)
        often = [math.prod(each.map.sizes[len(shape) :]) for each in found]
        score = 0.0
        for each, count in zip(found, often, strict=True):
            step = each.strides[axis].step
            score += count * (0 if step == 0 else 1 if step == 1 else -1)
        return score / max(often, default=1)

    def interiors(self, shape: Shape, axis: int) -> list[int]:
        """The points at which a loop over an output's `axis` enters or leaves ranges where a padded access needs no
        check."""
        cuts: set[int] = set()
        for each in self.views(self.scope, shape):
            stride = each.strides[axis]
            if stride.guarded:
                cuts |= set(stride.interior)
        return sorted(cut for cut in cuts if 0 < cut < shape[axis])

    # --- loops over outputs ---

    def scan_axes(self, shape: Shape) -> list[int]:
        """The output axes along which a scan carries its value: what is not parallel."""
        return [axis for axis in range(len(shape)) if f"i{axis}" in self.core.sequential_axes]

    def output_groups(self, shape: Shape) -> list[Axes]:
        """The output axes in row-major order, merged where possible, those of scans last."""
        carried = self.scan_axes(shape)
        runs: list[Axes] = []
        for axis in range(len(shape)):
            if axis in carried:
                continue
            if runs and runs[-1][-1] == axis - 1:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        merged = [group for run in runs for group in self._groups(self.scope, shape, run)]
        return [*merged, *([axis] for axis in carried)]

    def finishing_order(self, groups: Sequence[Axes], numbers: Iterable[int]) -> list[int]:
        """Of the loops over `groups` those of these `numbers`, first the ones on which most accumulators depend: what
        is finished outside a loop is not computed again inside."""
        return sorted(numbers, key=lambda number: -sum(self._finished_apart(groups[number])))

    def repeats(self, groups: Sequence[Sequence[int]]) -> bool:
        """Whether loops over `groups`, outermost first, would compute an accumulator again at points of a loop on
        which it does not depend."""
        loops = [group for group in groups if math.prod([self.shape[axis] for axis in group]) > 1]
        needed = zip(*map(self._finished_apart, loops), strict=True)
        return any(outer < inner for each in needed for outer, inner in pairwise(each))

    def is_apart(self, group: Axes) -> bool:
        """Whether every accumulator is another one at each point of the loop over `group`: its points share none, so
        that tasks may run through them without computing one twice."""
        return all(self._finished_apart(group))

    def writes_apart(self, group: Iterable[int]) -> bool:
        """Whether the points of the loop over `group` write different elements of every output."""
        return all(self._needs(axes, group) for axes in self._placed)

    def _finished_apart(self, group: Sequence[int]) -> tuple[bool, ...]:
        """Of each value that is finished whether it is another one at each point of the loop over `group`."""
        key = tuple(group)
        if key not in self._apart:
            self._apart[key] = tuple([self._needs(axes, group) for axes in self._finished])
        return self._apart[key]

    @cached_property
    def _finished(self) -> list[set[int]]:
        """Per accumulator in the outer scope the axes on which it depends, and per output with a place of its own."""
        return [*({int(name[1:]) for name in axes} for axes in self.core.finished.values()), *self._placed]

    @cached_property
    def _placed(self) -> list[set[int]]:
        return [set(support(each.at)) for each in self.region.yields if each.at is not None]

    @staticmethod
    def _needs(axes: Container[int], group: Iterable[int]) -> bool:
        return any(axis in axes for axis in group)

    def best_lane(self, shape: Shape, found: Sequence[Axes]) -> int | None:
        """The position among the groups `found` of the loop along which lanes run best; None when there is none."""
        carried = self.scan_axes(shape)
        usable = [
            number
            for number, group in enumerate(found)
            if group[0] not in carried and math.prod(shape[axis] for axis in group) > 1
        ]
        if not usable:
            return None
        return max(usable, key=lambda number: (self.lane_score(self.scope, shape, found[number][-1]), number))

    # --- loops over terms ---

    def reduce_groups(self, value: str) -> tuple[Group, ...]:
        """The reduced axes of the accumulator `value`: in index order where that is asked for, else the one along
        which lanes run best last."""
        if value not in self._reduce_groups:
            self._reduce_groups[value] = self._over_terms(value)
        return self._reduce_groups[value]

    def _over_terms(self, value: str) -> tuple[Group, ...]:
        op = self.ops[value]
        kept = len(op.domain) - op.reduced
        axes = range(kept, len(op.domain))
        merged = [[axis] for axis in axes] if 0 in op.domain else self._groups(value, op.domain, axes)
        loops = [Group.whole([a - kept for a in group], [op.domain[a] for a in group], "r") for group in merged]
        if self.in_order(value):
            return tuple(loops)
        scores = [self.lane_score(value, op.domain, group[-1]) for group in merged]
        best = max(range(len(loops)), key=lambda k: (loops[k].extent > 1, scores[k], loops[k].extent, k))
        return (*loops[:best], *loops[best + 1 :], loops[best])

    # --- merging ---

    def _groups(self, scope: str, shape: Shape, axes: Sequence[int]) -> list[Axes]:
        """The axes of a scope, neighbours made one wherever nothing stands against it."""
        read = [expr for each in self.views(scope, shape) for expr in (each.linear, *_bounds(each.map))]
        exprs = dict.fromkeys([*read, *self._computed(scope, shape)])
        found: list[Axes] = []
        for axis in axes:
            outer = math.prod([shape[each] for each in found[-1]]) if found else 0
            if found and all(fusable(expr, found[-1][-1], outer, shape[axis]) for expr in exprs):
                found[-1].append(axis)
            else:
                found.append([axis])
        return found

    def _computed(self, scope: str, shape: Shape) -> list[AxisExpr]:
        """Indices that are values, and the positions at which accumulators are needed."""
        found: list[AxisExpr] = []
        for site in self.core.sites:
            if site.scope != scope or site.map.sizes != shape:
                continue
            op = self.ops[site.value]
            if op.kind == "scan":
                found += site.map.exprs
                found += [AxisExpr(0, ((axis, 1),)) for axis in range(len(shape))]
            elif site.value in self.core.scopes:
                found.append(offset(site.map, op.domain[: len(op.domain) - op.reduced]))
            elif op.index_map is not None:
                read = compose(op.index_map, site.map)
                found += [*read.exprs, *_bounds(read)]
            found += _bounds(site.map)
        return found


def _bounds(view: AxisMap) -> list[AxisExpr]:
    return [bound.expr for guard in view.guards for bound in guard.bounds]
