"""The loops that a region offers to a nest: which axes merge into one loop, and along which loop lanes run well.

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
from ir.dtype import DTYPES, HALVES
from ir.index.expr import AxisExpr
from ir.index.facts import offset
from ir.index.map import AxisMap, compose, fusable, lift, support
from ir.index.runs import growth_of_lanes, parts_of_lanes, run_of_neighbours, window_floor
from ir.poly.core import PolyCore, Stride
from ir.region.region import Op, Operand, Region, behind, is_order_bound
from ir.region.work import region_bytes, uncached_bytes
from ir.target import LANES

Shape = tuple[int, ...]
Axes = list[int]
"""The axes of one loop, as positions among the axes of a scope."""
_LANES = max(LANES.values())
"""`View.moves_apart` judges reads by so many lanes on every machine: then the loop along which lanes run does not
depend on the instruction set."""


@dataclass(frozen=True)
class Group:
    """Neighbouring axes of one scope that one loop runs over, in `extent` steps from `origin`. `axes` are positions
    among the scope's `i` axes or among its `r` axes."""

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
    """An access to a buffer that lies in a row-major tensor of shape `frame`. `map` and `strides` are in terms of a
    scope's axes, then of the loops inside. `data`: the axes along which the index of a gather moves the access; one
    place stands for all that it may read. `stored`: a write."""

    map: AxisMap
    frame: Shape
    strides: tuple[Stride, ...]
    data: frozenset[int] = frozenset()
    stored: bool = False

    @property
    def axes(self) -> frozenset[int]:
        """The axes along which the access moves."""
        return support(self.map) | self.data

    @property
    def linear(self) -> AxisExpr:
        """The offset in elements."""
        return offset(self.map, self.frame)

    def run(self, axis: int) -> int:
        """Elements of the runs of neighbours along an axis of uneven steps; 0 along others, and of writes."""
        return run_of_neighbours(self.linear, axis) if self._reads_unevenly(axis) else 0

    def parts(self, axis: int, lanes: int = _LANES) -> int:
        """Among how many parts of neighbours in memory so many lanes along an axis of uneven steps read, always in the
        same way, as in an image that is twice as large; 0 where they are not few."""
        growth = growth_of_lanes(self.linear, axis, lanes) if self._may_permute(axis) else ()
        return len(parts_of_lanes(growth, lanes))

    def has_windows(self, axis: int) -> bool:
        """Whether lanes along an axis of uneven steps read among as many neighbours in memory, as in an enlarged
        image."""
        return self._may_permute(axis) and window_floor(self.linear, axis) is not None

    def _may_permute(self, axis: int) -> bool:
        guards = (bound.expr for guard in self.map.guards for bound in guard.bounds)
        return self._reads_unevenly(axis) and not any(axis in expr.axes for expr in guards)

    def _reads_unevenly(self, axis: int) -> bool:
        """Whether an index expression, not a gather, makes the steps of a read along an axis uneven."""
        return self.strides[axis].step is None and axis not in self.data and not self.stored

    def moves_apart(self, axis: int) -> bool:
        """Whether neighbours along an axis are no neighbours in memory, and are not the same element. Reads may go from
        the last neighbour to the first."""
        close = (0, 1) if self.stored else (0, 1, -1)
        if self.strides[axis].step in close or self.run(axis):
            return False
        return not self.parts(axis) and not self.has_windows(axis)


@dataclass(frozen=True, eq=False)
class RegionLoops:
    """The loops of a region, from its Poly Core. `ordered`: the terms of floating-point sums and products are taken in
    index order."""

    region: Region
    core: PolyCore
    ordered: bool = False
    _views: dict[tuple[str, Shape], tuple[View, ...]] = field(default_factory=dict, init=False, repr=False)
    _reduce_groups: dict[str, tuple[Group, ...]] = field(default_factory=dict, init=False, repr=False)
    _apart: dict[tuple[int, ...], tuple[bool, ...]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def shape(self) -> Shape:
        """The shape of the first output."""
        return self.region.outputs[0].memref.shape

    @cached_property
    def scope(self) -> str:
        """The outer scope's name."""
        return self.region.outputs[0].name

    @cached_property
    def ops(self) -> Mapping[str, Op]:
        """Value → the op that computes it."""
        return {let.name: let.op for let in self.region.body}

    @cached_property
    def nbytes(self) -> int:
        """Bytes that the kernel must move: the elements of the inputs that are read, and the outputs, all once."""
        return region_bytes(self.region)

    @cached_property
    def cold_bytes(self) -> float:
        """Bytes of arguments that no cache holds."""
        return float(uncached_bytes(self.region))

    def in_order(self, value: str) -> bool:
        """Whether the terms of the accumulator `value` must be taken in index order."""
        return self.ordered and is_order_bound(self.ops[value])

    def fused_product(self, total: str) -> str | None:
        """The product that the sum `total` takes by multiply-adds: a floating-point value in registers of the sum's
        dtype, without padding, which nothing else reads. None where the terms are no such product."""
        op = self.ops[total]
        if (op.kind, op.fn) != ("reduce", "sum") or not DTYPES[op.dtype].is_float or self.in_order(total):
            return None
        (term,) = op.inputs
        if not isinstance(term, Operand) or term.map.guards or self._reads[term.value] > 1:
            return None
        product = self.ops.get(term.value)
        fits = product is not None and (product.kind, product.fn, product.dtype) == ("ewise", "mul", op.dtype)
        return term.value if fits and op.dtype not in HALVES else None

    @cached_property
    def _reads(self) -> Counter[str]:
        """Value → the number of its readers, results of the kernel included."""
        inside = (operand.value for op in self.ops.values() for operand in op.operands)
        return Counter([*inside, *(result.value for result in self.region.yields)])

    @cached_property
    def sums_in_two_orders(self) -> bool:
        """Whether the kernel computes a sum of floats at several sites, as row sums r in r[i] - r[j]. Lanes may run
        along the outputs at one site and along the terms at another, so that the sum of one row has two roundings."""
        counted = Counter(site.value for site in self.core.sites)
        return any(count > 1 and is_order_bound(self.ops[name]) for name, count in counted.items()) and not self.ordered

    @cached_property
    def divisible_reductions(self) -> tuple[str, ...]:
        """The region's reductions if all can be cut into parts together: they have equal terms, in any order, and no
        reduction needs another. Else ()."""
        names = [let.name for let in self.region.body if let.op.kind in ("reduce", "stream")]
        alike = {(op.kind, op.domain, op.reduced) for op in map(self.ops.__getitem__, names)}
        if len(alike) != 1 or self.ops[names[0]].kind != "reduce" or any(map(self.in_order, names)):
            return ()
        together = all(self.reduce_groups(name) == self.reduce_groups(names[0]) for name in names)
        apart = all(set(behind(self.ops, name)).isdisjoint({*names} - {name}) for name in names)
        return tuple(names) if together and apart else ()

    # --- accesses ---

    def views(self, scope: str, shape: Shape) -> tuple[View, ...]:
        """The accesses of a scope whose domain has `shape`, including those of the accumulators inside. Equal reads of
        several values are one access."""
        key = (scope, shape)
        if key not in self._views:
            self._views[key] = tuple(self._accesses(scope, shape))
        return self._views[key]

    def _accesses(self, scope: str, shape: Shape) -> Iterator[View]:
        frames = {buffer.name: buffer.memref.frame for buffer in (*self.region.inputs, *self.region.outputs)}
        loaded: set[tuple[str, AxisMap]] = set()
        for access in self.core.accesses:
            if access.scope == scope and access.map.sizes == shape and (access.buffer, access.map) not in loaded:
                loaded |= set() if access.indirect else {(access.buffer, access.map)}
                data, stored = frozenset(access.data), access.input < 0
                yield View(access.map, frames[access.buffer], access.strides, data, stored)
        for site in self.core.sites:
            if site.scope == scope and site.map.sizes == shape and site.value in self.core.scopes:
                op = self.ops[site.value]
                kept = len(op.domain) - op.reduced
                for inner in self.views(site.value, op.domain):
                    composed = compose(inner.map, lift(site.map, inner.map.sizes[kept:]))
                    data = _moved(inner.data, site.map, kept)
                    yield View(composed, inner.frame, strides_of(composed, inner.frame, data), data, inner.stored)

    def lane_score(self, scope: str, shape: Shape, axis: int) -> float:
        """How well lanes run along an axis: the sum over accesses of 1 for neighbours, 0 for one number in all lanes
        and -1 otherwise, weighed by frequency relative to the most frequent access."""
        if 0 in shape:
            return 0.0
        views = self.views(scope, shape)
        counts = [math.prod(view.map.sizes[len(shape) :]) for view in views]
        score = 0.0
        for view, count in zip(views, counts, strict=True):
            step = view.strides[axis].step
            score += count * (0 if step == 0 else -1 if view.moves_apart(axis) else 1)
        return score / max(counts, default=1)

    def interior_cuts(self, shape: Shape, axis: int, lanes: int) -> list[int]:
        """The points of a loop over an output's `axis` that bound the ranges where a padded access needs no check.
        They are multiples of `lanes`: a register that holds an edge of an image costs less than two that end there."""
        cuts: set[int] = set()
        for view in self.views(self.scope, shape):
            stride = view.strides[axis]
            if stride.guarded:
                low, high = stride.interior
                first, last = -(-low // lanes) * lanes, shape[axis] if high == shape[axis] else high // lanes * lanes
                if first < last:
                    cuts |= {first, last}
        return sorted(cut for cut in cuts if 0 < cut < shape[axis])

    def interior(self, shape: Shape, axis: int) -> tuple[int, int] | None:
        """The range of an output's `axis` in which no padded access needs a check; None if it is empty, or if no access
        is padded along the axis."""
        ranges = [view.strides[axis].interior for view in self.views(self.scope, shape) if view.strides[axis].guarded]
        low, high = max([0, *(first for first, _ in ranges)]), min([shape[axis], *(last for _, last in ranges)])
        return (low, high) if ranges and low < high else None

    # --- loops over outputs ---

    def scan_axes(self, shape: Shape) -> list[int]:
        """The output axes along which a scan carries its value, so that they are not parallel."""
        return [axis for axis in range(len(shape)) if axis in self.core.sequential_axes]

    def output_groups(self, shape: Shape) -> list[Axes]:
        """The output axes in row-major order, merged where possible; axes of scans stand last."""
        carried = self.scan_axes(shape)
        runs: list[Axes] = []
        for axis in range(len(shape)):
            if axis in carried:
                continue
            if runs and runs[-1][-1] == axis - 1:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        merged = [group for run in runs for group in self._merged_axes(self.scope, shape, run)]
        return [*merged, *([axis] for axis in carried)]

    def groups_around(self, axis: int) -> list[Axes]:
        """The output axes in row-major order, merged where possible; `axis` is merged with no other."""
        before, after = range(axis), range(axis + 1, len(self.shape))
        return [
            *self._merged_axes(self.scope, self.shape, before),
            [axis],
            *self._merged_axes(self.scope, self.shape, after),
        ]

    def finishing_order(self, groups: Sequence[Axes], numbers: Iterable[int]) -> list[int]:
        """The `numbers` of loops over `groups`, sorted: first the loops on which most accumulators depend, so that
        inner loops do not compute them again."""
        return sorted(numbers, key=lambda number: -sum(self._has_own_accumulators(groups[number])))

    def recomputes(self, groups: Sequence[Sequence[int]]) -> bool:
        """Whether loops over `groups`, outermost first, compute an accumulator again at the points of a loop on which
        the accumulator does not depend."""
        loops = [group for group in groups if math.prod([self.shape[axis] for axis in group]) > 1]
        ownership = zip(*map(self._has_own_accumulators, loops), strict=True)
        return any(outer < inner for own in ownership for outer, inner in pairwise(own))

    def has_own_accumulators(self, group: Axes) -> bool:
        """Whether no two points of the loop over `group` share an accumulator, so that tasks may split the loop without
        computing one twice."""
        return all(self._has_own_accumulators(group))

    @cached_property
    def accumulates_at_points(self) -> bool:
        """Whether every point of the outputs has accumulators of its own."""
        axes = {axis for axis, size in enumerate(self.shape) if size > 1}
        return all(axes <= set(finished) for finished in self.core.finished.values())

    def has_own_outputs(self, group: Iterable[int]) -> bool:
        """Whether the points of the loop over `group` write different elements of every output."""
        return all(self._moves_along(axes, group) for axes in self._yield_axes)

    def _has_own_accumulators(self, group: Sequence[int]) -> tuple[bool, ...]:
        """Accumulator → whether no two points of the loop over `group` share it."""
        key = tuple(group)
        if key not in self._apart:
            self._apart[key] = tuple([self._moves_along(axes, group) for axes in self._accumulator_axes])
        return self._apart[key]

    @cached_property
    def _accumulator_axes(self) -> list[set[int]]:
        """Per accumulator of the outer scope, then per output with a map of its own: the axes on which it depends."""
        return [*map(set, self.core.finished.values()), *self._yield_axes]

    @cached_property
    def _yield_axes(self) -> list[set[int]]:
        return [set(support(result.at)) for result in self.region.yields if result.at is not None]

    @staticmethod
    def _moves_along(axes: Container[int], group: Iterable[int]) -> bool:
        return any(axis in axes for axis in group)

    def best_lane(self, shape: Shape, groups: Sequence[Axes]) -> int | None:
        """The number of the group along which lanes run best; None when lanes can run along none."""
        carried = self.scan_axes(shape)
        usable = [
            number
            for number, group in enumerate(groups)
            if group[0] not in carried and math.prod(shape[axis] for axis in group) > 1
        ]
        if not usable:
            return None
        return max(usable, key=lambda number: (self.lane_score(self.scope, shape, groups[number][-1]), number))

    # --- loops over terms ---

    def reduce_groups(self, value: str) -> tuple[Group, ...]:
        """The loops over the terms of the accumulator `value`: in index order where the plan asks for it, else with the
        loop last along which lanes run best."""
        if value not in self._reduce_groups:
            self._reduce_groups[value] = self._term_loops(value)
        return self._reduce_groups[value]

    def _term_loops(self, value: str) -> tuple[Group, ...]:
        op = self.ops[value]
        kept = len(op.domain) - op.reduced
        axes = range(kept, len(op.domain))
        merged = [[axis] for axis in axes] if 0 in op.domain else self._merged_axes(value, op.domain, axes)
        loops = [Group.whole([a - kept for a in group], [op.domain[a] for a in group], "r") for group in merged]
        if self.in_order(value):
            return tuple(loops)
        scores = [self.lane_score(value, op.domain, group[-1]) for group in merged]
        best = max(range(len(loops)), key=lambda k: (loops[k].extent > 1, scores[k], loops[k].extent, k))
        return (*loops[:best], *loops[best + 1 :], loops[best])

    # --- merging ---

    def _merged_axes(self, scope: str, shape: Shape, axes: Sequence[int]) -> list[Axes]:
        """The axes of a scope, with neighbours merged where every index is affine in the merged axis."""
        read = [expr for view in self.views(scope, shape) for expr in (view.linear, *_bounds(view.map))]
        exprs = dict.fromkeys([*read, *self._value_indices(scope, shape)])
        merged: list[Axes] = []
        for axis in axes:
            outer = math.prod([shape[inner] for inner in merged[-1]]) if merged else 0
            if merged and all(fusable(expr, merged[-1][-1], outer, shape[axis]) for expr in exprs):
                merged[-1].append(axis)
            else:
                merged.append([axis])
        return merged

    def _value_indices(self, scope: str, shape: Shape) -> list[AxisExpr]:
        """The indices of a scope that are not accesses: values of index ops, and the sites of accumulators."""
        exprs: list[AxisExpr] = []
        for site in self.core.sites:
            if site.scope != scope or site.map.sizes != shape:
                continue
            op = self.ops[site.value]
            if op.kind == "scan":
                exprs += site.map.exprs
                exprs += [AxisExpr(0, ((axis, 1),)) for axis in range(len(shape))]
            elif site.value in self.core.scopes:
                exprs.append(offset(site.map, op.domain[: len(op.domain) - op.reduced]))
            elif op.index_map is not None:
                read = compose(op.index_map, site.map)
                exprs += [*read.exprs, *_bounds(read)]
            exprs += _bounds(site.map)
        return exprs


def _moved(axes: Iterable[int], at: AxisMap, kept: int) -> frozenset[int]:
    """Axes of an accumulator's scope as axes of the scope around, followed by the loops over terms. The first `kept`
    axes are at `at`."""
    outer = [at.exprs[axis].axes if axis < kept else {axis - kept + len(at.sizes)} for axis in axes]
    return frozenset().union(*outer)


def _bounds(view: AxisMap) -> list[AxisExpr]:
    return [bound.expr for guard in view.guards for bound in guard.bounds]
