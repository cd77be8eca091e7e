"""Values worth keeping on chip: computed with the terms of a reduction, and read again after it.

    for r: e = exp(x[i, r] - m); row[r] = e; s += e
    for j: y[i, j] = row[j] / s

A chain of reductions keeps several, each computed from those before. One row of such a value lies in a thread's
workspace, from the reduction that computes it to the end of the loops around.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from codegen.plan.region_loops import RegionLoops
from ir.dtype import DTYPES
from ir.index.facts import picked_axes
from ir.index.map import AxisMap
from ir.plan.cpu import KeptValue
from ir.poly.core import Site
from ir.post_order import post_order
from ir.region.work import flops_per_point

_COMPUTED = frozenset({"ewise", "unary", "cast"})
_WORTH_FLOPS = 8
"""Additions per element above which storing and loading a row is cheaper than computing it again."""


@dataclass(frozen=True, eq=False)
class KeptRow:
    """`value` is kept while the terms of `filler` are made.

    own    per axis of the filler, the value's coordinate that is it; None for an axis of one point
    row    the value's other coordinates: one row of it, over `sizes`
    outer  the axes of the outputs of which each point has a row of its own
    again  the sites where the value is read again, in other scopes than the filler, the last of these at the end
    """

    value: str
    filler: str
    own: tuple[int | None, ...]
    row: tuple[int, ...]
    sizes: tuple[int, ...]
    outer: frozenset[int]
    nbytes: int
    again: tuple[Site, ...]

    @property
    def kept(self) -> KeptValue:
        """What a plan says of it."""
        return KeptValue(self.value, self.again[-1].scope)


def kept_rows(loops: RegionLoops) -> tuple[KeptRow, ...]:
    """The values that can be kept and are worth it, in the body's order: those that take much to compute from the rows
    before, and are read again although the rows after are kept as well."""
    reductions = [name for name, op in loops.ops.items() if op.kind == "reduce" and name in loops.core.scopes]
    if not reductions or any(op.kind == "stream" for op in loops.ops.values()):
        return ()  # a stream's pass makes the terms of its maximum too
    sites: dict[str, list[Site]] = {}
    for site in loops.core.sites:
        sites.setdefault(site.value, []).append(site)
    fillers: dict[str, str] = {}
    found: list[KeptRow] = []
    for name, op in loops.ops.items():
        row = _kept_row(loops, name, reductions, sites.get(name, ())) if op.kind in _COMPUTED else None
        if row is not None and _flops(loops, name, fillers) >= _WORTH_FLOPS:
            found.append(row)
            fillers[name] = row.filler
    read = {scope: frozenset(_met_in(loops, scope, fillers)) for scope in (_scopes(loops) if found else ())}
    rows = (replace(row, again=tuple(each for each in row.again if row.value in read[each.scope])) for row in found)
    return tuple(row for row in rows if row.again)


def computed_in(loops: RegionLoops, rows: Iterable[KeptRow]) -> Mapping[str, frozenset[str]]:
    """Scope → the values that are computed at its points, where these rows are kept."""
    fillers = {row.value: row.filler for row in rows}
    return {
        scope: frozenset(name for name in _met_in(loops, scope, fillers) if fillers.get(name, scope) == scope)
        for scope in _scopes(loops)
    }


def _scopes(loops: RegionLoops) -> list[str]:
    """Those in which values are computed, each after those that it waits for, the outputs' last."""
    used = {site.scope for site in loops.core.sites}
    return [name for name in (*loops.ops, loops.scope) if name in used]


def _met_in(loops: RegionLoops, scope: str, fillers: Mapping[str, str]) -> list[str]:
    """The values that are computed at the points of a scope, and those read there from rows which others fill."""
    read = _below(loops, scope) if scope in loops.ops else [each.value for each in loops.region.yields]
    roots = [each for each in read if _is_inlined(loops, each)]
    return post_order(roots, lambda name: _below(loops, name) if fillers.get(name, scope) == scope else [])


def _kept_row(loops: RegionLoops, value: str, reductions: Sequence[str], sites: Sequence[Site]) -> KeptRow | None:
    """A value that one of the `reductions` computes first, and other scopes compute again."""
    scopes = {site.scope for site in sites}
    filler = next((name for name in reductions if name in scopes), None)
    if filler is None or len(scopes) < 2 or any(site.map.guards for site in sites):
        return None
    shape = loops.ops[value].shape
    again = sorted((site for site in sites if site.scope != filler), key=lambda site: _scopes(loops).index(site.scope))
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
        again=tuple(again),
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


def _flops(loops: RegionLoops, value: str, kept: Container[str]) -> float:
    """Additions-worth per point of the value: of what it takes, down to reads, accumulators and kept values."""
    met = post_order([value], lambda name: [each for each in _below(loops, name) if each not in kept])
    each = (flops_per_point(op.kind, op.fn) * math.prod(op.domain) for op in map(loops.ops.__getitem__, met))
    return sum(each) / max(1, math.prod(loops.ops[value].domain))


def _below(loops: RegionLoops, value: str) -> list[str]:
    """The values that are computed at a point for this one."""
    return [each for each in loops.ops[value].reads if _is_inlined(loops, each)]


def _is_inlined(loops: RegionLoops, value: str) -> bool:
    """Whether a value is computed wherever it is read: it is no buffer, and not finished in a scope of its own."""
    return value in loops.ops and value not in loops.core.scopes
