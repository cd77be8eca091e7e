"""Values worth keeping on chip: computed with the terms of a reduction, and read again after it.

    for r: e = exp(x[i, r] - m); row[r] = e; s += e
    for j: y[i, j] = row[j] / s

A plan names such a value in `local_edges`, from the value to the scope that reads it again, buffer "stack": one row of
it lies in a thread's workspace, from the reduction that computes it to the end of the loops around.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen.plan.region_loops import RegionLoops
from ir.axis_facts import picked_axes
from ir.axis_map import AxisMap
from ir.dtype import DTYPES
from ir.plan import LocalEdge
from ir.poly_core import Site
from ir.post_order import post_order
from ir.region import Operand
from ir.region_work import flops_per_point

_COMPUTED = frozenset({"ewise", "unary", "cast"})
_WORTH_FLOPS = 8
"""Additions per element above which storing and loading a row is cheaper than computing it again."""


@dataclass(frozen=True)
class KeptRow:
    """`value` is kept while the terms of `filler` are made.

    own    per axis of the filler, the value's coordinate that is it; None for an axis of one point
    row    the value's other coordinates: one row of it, over `sizes`
    outer  the axes of the outputs of which each point has a row of its own
    """

    value: str
    filler: str
    own: tuple[int | None, ...]
    row: tuple[int, ...]
    sizes: tuple[int, ...]
    outer: frozenset[int]
    nbytes: int
    flops: int

    def edge(self, scope: str) -> LocalEdge:
        """What a plan says of it, where `scope` reads it."""
        return LocalEdge(self.value, scope, "stack")


def kept_rows(loops: RegionLoops) -> tuple[KeptRow, ...]:
    """The values that can be kept and are worth it, none of which is part of another, in the body's order."""
    found: list[KeptRow] = []
    if any(op.kind == "stream" for op in loops.ops.values()):
        return ()  # a stream's pass makes the terms of its maximum too
    for let in reversed(loops.region.body):
        below = {name for row in found for name in _computed_below(loops, row.value)}
        if let.name not in below and let.op.kind in _COMPUTED:
            row = _kept_row(loops, let.name)
            if row is not None and row.flops >= _WORTH_FLOPS:
                found.append(row)
    return tuple(reversed(found))


def _kept_row(loops: RegionLoops, value: str) -> KeptRow | None:
    sites = [site for site in loops.core.sites if site.value == value]
    fillers = [let.name for let in loops.region.body if let.op.kind == "reduce" and _sites_in(sites, let.name)]
    others = {site.scope for site in sites}.difference(fillers[:1])
    if not fillers or not others or any(site.map.guards for site in sites):
        return None
    filler, shape = fillers[0], loops.ops[value].shape
    within = _sites_in(sites, filler)
    picked = _coordinates(within[0].map, shape) if len(within) == 1 else None
    if picked is None:
        return None
    op = loops.ops[filler]
    kept = len(op.shape)
    own = tuple(picked.get(axis) for axis in range(kept))
    covered = all(axis in picked or size == 1 for axis, size in enumerate(op.domain))
    row = tuple(position for position in range(len(shape)) if position not in own)
    sizes = tuple(shape[position] for position in row)
    outer = loops.core.finished.get(filler)
    if not covered or outer is None or 0 in op.domain:
        return None
    return KeptRow(
        value=value,
        filler=filler,
        own=own,
        row=row,
        sizes=sizes,
        outer=frozenset(int(name[1:]) for name in outer),
        nbytes=math.prod(sizes) * DTYPES[loops.ops[value].dtype].bytes,
        flops=sum(_flops(loops, name) for name in _computed_below(loops, value)),
    )


def _sites_in(sites: Sequence[Site], scope: str) -> list[Site]:
    return [site for site in sites if site.scope == scope]


def _coordinates(view: AxisMap, shape: tuple[int, ...]) -> dict[int, int] | None:
    """Axis of the domain → the coordinate that it is, of a map that picks axes for all coordinates."""
    axes = picked_axes(view, shape)
    if axes is None:
        return None
    wide = [position for position, size in enumerate(shape) if size != 1]
    return dict(zip(axes, wide, strict=True))


def _computed_below(loops: RegionLoops, value: str) -> Iterator[str]:
    """The elementwise values that computing `value` takes, itself included, down to reads and accumulators."""

    def below(name: str) -> list[str]:
        reads = [each.value for each in loops.ops[name].inputs if isinstance(each, Operand)]
        return [each for each in reads if each in loops.ops and loops.ops[each].kind in _COMPUTED]

    yield from post_order([value], below)


def _flops(loops: RegionLoops, value: str) -> int:
    op = loops.ops[value]
    return flops_per_point(op.kind, op.fn)
