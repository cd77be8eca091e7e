"""The loops of a region's nest: which axes run as one, and along which of them lanes run well.

x[768*i0 + i1], y[768*i0 + i1] over i0 < 64, i1 < 768   →   one loop i0i1 over 49152 elements
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from codegen.where.guards import interior
from codegen.where.region_facts import region_facts
from ir.axis_expr import AxisExpr
from ir.axis_facts import offset
from ir.axis_map import AxisMap, compose, fusable, lift
from ir.region import Region


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
    """An access in terms of a scope's axes, then those of the loops inside: `map` to a buffer of `shape`.
    `indirect`: a gather, whose data-dependent coordinate counts as 0. `stored`: a write."""

    map: AxisMap
    shape: tuple[int, ...]
    indirect: bool = False
    stored: bool = False

    @property
    def linear(self) -> AxisExpr:
        """The offset in elements."""
        return offset(self.map, self.shape)


@lru_cache(maxsize=1 << 12)
def views(region: Region, scope: str, shape: tuple[int, ...]) -> tuple[View, ...]:
    """Every access made from a scope whose domain has `shape`, those of the accumulators inside included."""
    core = region_facts(region).core
    shapes = {each.name: each.memref.shape for each in (*region.inputs, *region.outputs)}
    found = [
        View(each.map, shapes[each.buffer], each.indirect is not None, each.input < 0)
        for each in core.accesses
        if each.scope == scope and each.map.sizes == shape
    ]
    ops = {let.name: let.op for let in region.body}
    for site in core.sites:
        if site.scope == scope and site.map.sizes == shape and site.value in core.scopes:
            op = ops[site.value]
            kept = len(op.domain) - op.reduced
            for inner in views(region, site.value, op.domain):
                composed = compose(inner.map, lift(site.map, inner.map.sizes[kept:]))
                found.append(View(composed, inner.shape, inner.indirect))
    return tuple(found)


def groups(region: Region, scope: str, shape: tuple[int, ...], axes: Sequence[int]) -> list[list[int]]:
    """The axes of a scope, neighbours made one wherever nothing stands against it."""
    exprs = [expr for each in views(region, scope, shape) for expr in (each.linear, *_bounds(each.map))]
    exprs += _computed(region, scope, shape)
    found: list[list[int]] = []
    for axis in axes:
        outer = math.prod(shape[each] for each in found[-1]) if found else 0
        if found and all(fusable(expr, found[-1][-1], outer, shape[axis]) for expr in exprs):
            found[-1].append(axis)
        else:
            found.append([axis])
    return found


@lru_cache(maxsize=1 << 12)
def reduce_groups(region: Region, value: str) -> tuple[Group, ...]:
    """The reduced axes of the accumulator `value`, the one along which lanes run best last."""
    op = next(let.op for let in region.body if let.name == value)
    kept = len(op.domain) - op.reduced
    axes = range(kept, len(op.domain))
    if 0 in op.domain:
        found = [[axis] for axis in axes]
    else:
        found = groups(region, value, op.domain, axes)
    loops = [Group.whole([axis - kept for axis in group], [op.domain[axis] for axis in group], "r") for group in found]
    scores = [lane_score(region, value, op.domain, group[-1]) for group in found]
    best = max(range(len(loops)), key=lambda k: (loops[k].extent > 1, scores[k], loops[k].extent, k))
    return (*loops[:best], *loops[best + 1 :], loops[best])


def lane_score(region: Region, scope: str, shape: tuple[int, ...], axis: int) -> float:
    """How well lanes run along an axis: +1 for each access to neighbours, -1 for each lane by lane, by how often
    it is made."""
    if 0 in shape:
        return 0.0
    found = views(region, scope, shape)
    often = [math.prod(each.map.sizes[len(shape) :]) for each in found]
    score = 0.0
    for each, count in zip(found, often, strict=True):
        step = each.linear.coeff(axis)
        score += count * (0 if step == 0 else 1 if step == 1 else -1)
    return score / max(often, default=1)


def interiors(region: Region, scope: str, shape: tuple[int, ...], axis: int) -> list[int]:
    """The points at which a loop over `axis` enters or leaves ranges where a padded access needs no check."""
    size = shape[axis]
    cuts: set[int] = set()
    for each in views(region, scope, shape):
        if any(axis in expr.axes for expr in _bounds(each.map)):
            low, high = interior(each.map, axis)
            if low < high:
                cuts |= {low, high}
    return sorted(cut for cut in cuts if 0 < cut < size)


def _bounds(view: AxisMap) -> list[AxisExpr]:
    return [bound.expr for guard in view.guards for bound in guard.bounds]


def _computed(region: Region, scope: str, shape: tuple[int, ...]) -> list[AxisExpr]:
    """Indices that are values, and the positions at which accumulators are needed."""
    core = region_facts(region).core
    ops = {let.name: let.op for let in region.body}
    found: list[AxisExpr] = []
    for site in core.sites:
        if site.scope != scope or site.map.sizes != shape:
            continue
        op = ops[site.value]
        if op.kind == "scan":
            found += site.map.exprs
            found += [AxisExpr(0, ((axis, 1),)) for axis in range(len(shape))]
        elif site.value in core.scopes:
            found.append(offset(site.map, op.domain[: len(op.domain) - op.reduced]))
        elif op.index_map is not None:
            read = compose(op.index_map, site.map)
            found += [*read.exprs, *_bounds(read)]
        found += _bounds(site.map)
    return found
