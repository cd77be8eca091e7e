"""Merges axes of buffers in a kernel, where one number gives the coordinates along them in all accesses:

    x[p // 768 % 12, p % 768]  of [12, 768]   →   x[p]  of [9216]

Then vectors may cross the ends of rows, and bounds only need one comparison.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from codegen.plan.region_loops import RegionLoops
from ir.index.expr import ZERO, AxisExpr
from ir.index.map import AxisMap, compose, lift

Runs = Sequence[Sequence[int]]
"""Axes of a scope that one number gives, the fastest axis last."""


@dataclass(frozen=True)
class BufferAxes:
    """Per buffer: its shape, and the runs of coordinates that are merged."""

    shapes: Mapping[str, tuple[int, ...]]
    runs: Mapping[str, tuple[tuple[int, ...], ...]]

    def shape(self, buffer: str) -> tuple[int, ...]:
        """The buffer's shape in the kernel."""
        whole = self.shapes[buffer]
        return tuple(math.prod(whole[axis] for axis in run) for run in self.runs[buffer])

    def place(self, buffer: str, point: Sequence[AxisExpr]) -> tuple[AxisExpr, ...]:
        """The coordinates in the kernel of an element of the region's buffer."""
        whole, merged = self.shapes[buffer], []
        for run in self.runs[buffer]:
            at = ZERO
            for axis in run:
                at = at * whole[axis] + point[axis]
            merged.append(at)
        return tuple(merged)


def separate_axes(loops: RegionLoops) -> BufferAxes:
    """The buffers with all axes as they are."""
    shapes = {buffer.name: buffer.memref.shape for buffer in loops.region.buffers}
    return BufferAxes(shapes, {name: tuple((axis,) for axis in range(len(shape))) for name, shape in shapes.items()})


@dataclass(frozen=True)
class _Access:
    buffer: str
    map: AxisMap
    follows: frozenset[tuple[int, int]]
    indirect: tuple[int, ...]


def merged_axes(loops: RegionLoops, outer: Runs, terms: Callable[[str], Runs]) -> BufferAxes:
    """The axes that can be merged in all accesses. `outer`: the runs of the outer scope. `terms`: reduction → the runs
    of its reduced axes."""
    shapes = {buffer.name: buffer.memref.shape for buffer in loops.region.buffers}
    accesses = list(_accesses(loops, loops.scope, loops.shape, _pairs(outer), terms))
    runs = {
        name: _runs(shape, [access for access in accesses if access.buffer == name]) for name, shape in shapes.items()
    }
    return BufferAxes(shapes, runs)


def _accesses(
    loops: RegionLoops,
    scope: str,
    shape: tuple[int, ...],
    follows: frozenset[tuple[int, int]],
    terms: Callable[[str], Runs],
) -> Iterator[_Access]:
    """All accesses from a scope, over its axes and then those of the reductions inside."""
    core = loops.core
    for access in core.accesses:
        if access.scope == scope and access.map.sizes == shape:
            yield _Access(access.buffer, access.map, follows, access.indirect)
    for site in core.sites:
        if site.scope != scope or site.map.sizes != shape or site.value not in core.scopes:
            continue
        op = loops.ops[site.value]
        kept = len(op.shape)
        own = frozenset((kept + a, kept + b) for a, b in _pairs(terms(site.value))) if op.reduced else frozenset()
        for inner in _accesses(loops, site.value, op.domain, own, terms):
            composed = compose(inner.map, lift(site.map, inner.map.sizes[kept:]))
            by = len(shape) - kept
            shifted = frozenset((a + by, b + by) for a, b in inner.follows)
            yield _Access(inner.buffer, composed, follows | shifted, inner.indirect)


def _pairs(runs: Runs) -> frozenset[tuple[int, int]]:
    return frozenset(pair for run in runs for pair in itertools.pairwise(run))


def _runs(shape: tuple[int, ...], accesses: Sequence[_Access]) -> tuple[tuple[int, ...], ...]:
    merged: list[list[int]] = []
    for axis in range(len(shape)):
        if merged and all(_can_merge(access, shape, merged[-1], axis) for access in accesses):
            merged[-1].append(axis)
        else:
            merged.append([axis])
    return tuple(map(tuple, merged))


def _can_merge(access: _Access, shape: tuple[int, ...], run: Sequence[int], axis: int) -> bool:
    """Whether one number gives the coordinates of `run` and of the next axis, `axis`, in an access."""
    view = access.map
    if view.is_empty or not {*run, axis}.isdisjoint(access.indirect):
        return False
    guarded = {axis for guard in view.guards for bound in guard.bounds for axis in bound.expr.axes}
    if any(guarded & view.exprs[position].axes for position in (*run, axis)):
        return False
    before = [position for position in run if shape[position] != 1]
    if not before or shape[axis] == 1:
        return True
    slow, fast = view.exprs[before[-1]], view.exprs[axis]
    if len(slow.axes) != 1 or len(fast.axes) != 1:
        return False
    (p,), (q,) = slow.axes, fast.axes
    whole = slow == _axis(p) and fast == _axis(q) and view.sizes[q] == shape[axis]
    return whole and (p, q) in access.follows


def _axis(position: int) -> AxisExpr:
    return AxisExpr(0, ((position, 1),))
