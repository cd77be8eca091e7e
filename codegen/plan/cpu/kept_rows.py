"""Values worth keeping on chip: computed with the terms of a reduction, and read again after it.

    for r: e = exp(x[i, r] - m); row[r] = e; s += e
    for j: y[i, j] = row[j] / s

A chain of reductions may keep several values. One row of a kept value lies in a thread's workspace, from the reduction
that computes it to the end of the loops around.
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

_POINTWISE = frozenset({"ewise", "unary", "cast"})
_WORTH_FLOPS = 8
"""Additions per element from which storing and loading a row is cheaper than computing it again."""


@dataclass(frozen=True, eq=False)
class KeptRow:
    """`value` is stored in a row while the reduction `filler` computes its terms.

    own      per axis of the filler: the value's coordinate along it; None for an axis of one point
    row      the value's other coordinates, of `sizes`: a row runs over them
    outer    the axes of the outputs; at every point of them the row is another one
    nbytes   of one row
    rereads  the sites in other scopes that read the value, in the order of the scopes
    """

    value: str
    filler: str
    own: tuple[int | None, ...]
    row: tuple[int, ...]
    sizes: tuple[int, ...]
    outer: frozenset[int]
    nbytes: int
    rereads: tuple[Site, ...]

    @property
    def kept(self) -> KeptValue:
        """The row as a plan names it."""
        return KeptValue(self.value, self.rereads[-1].scope)


def kept_rows(loops: RegionLoops) -> tuple[KeptRow, ...]:
    """The values that can be kept and are worth it, in the body's order. A value is worth a row if computing it from
    the rows before is dear, and if it is still read again when all other rows are kept."""
    reductions = [name for name, op in loops.ops.items() if op.kind == "reduce" and name in loops.core.scopes]
    if not reductions or any(op.kind == "stream" for op in loops.ops.values()):
        return ()  # the pass of a stream computes the terms of its maximum too
    sites: dict[str, list[Site]] = {}
    for site in loops.core.sites:
        sites.setdefault(site.value, []).append(site)
    fillers: dict[str, str] = {}
    candidates: list[KeptRow] = []
    for name, op in loops.ops.items():
        row = _kept_row(loops, name, reductions, sites.get(name, ())) if op.kind in _POINTWISE else None
        if row is not None and _flops(loops, name, fillers) >= _WORTH_FLOPS:
            candidates.append(row)
            fillers[name] = row.filler
    read = {scope: frozenset(_values_in(loops, scope, fillers)) for scope in (_scopes(loops) if candidates else ())}
    rows = (
        replace(row, rereads=tuple(site for site in row.rereads if row.value in read[site.scope])) for row in candidates
    )
    return tuple(row for row in rows if row.rereads)


def computed_in(loops: RegionLoops, rows: Iterable[KeptRow]) -> Mapping[str, frozenset[str]]:
    """Scope → the values that are computed at its points when these rows are kept."""
    fillers = {row.value: row.filler for row in rows}
    return {
        scope: frozenset(name for name in _values_in(loops, scope, fillers) if fillers.get(name, scope) == scope)
        for scope in _scopes(loops)
    }


def _scopes(loops: RegionLoops) -> list[str]:
    """The scopes in which values are computed. A scope stands after the scopes that it waits for."""
    used = {site.scope for site in loops.core.sites}
    return [name for name in (*loops.ops, loops.scope) if name in used]


def _values_in(loops: RegionLoops, scope: str, fillers: Mapping[str, str]) -> list[str]:
    """The values that are computed at the points of a scope, and the values read there from rows of other scopes."""
    read = _inlined_reads(loops, scope) if scope in loops.ops else [name.value for name in loops.region.yields]
    roots = [name for name in read if _is_inlined(loops, name)]
    return post_order(roots, lambda name: _inlined_reads(loops, name) if fillers.get(name, scope) == scope else [])


def _kept_row(loops: RegionLoops, value: str, reductions: Sequence[str], sites: Sequence[Site]) -> KeptRow | None:
    """A value that one of the `reductions` computes first, and other scopes compute again."""
    scopes = {site.scope for site in sites}
    filler = next((name for name in reductions if name in scopes), None)
    if filler is None or len(scopes) < 2 or any(site.map.guards for site in sites):
        return None
    shape = loops.ops[value].shape
    rereads = sorted(
        (site for site in sites if site.scope != filler), key=lambda site: _scopes(loops).index(site.scope)
    )
    within = _sites_of_scope(sites, filler)
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
    if any(_leaves_row(loops, site, own) for site in rereads):
        return None
    return KeptRow(
        value=value,
        filler=filler,
        own=own,
        row=row,
        sizes=sizes,
        outer=frozenset(outer),
        nbytes=math.prod(sizes) * DTYPES[loops.ops[value].dtype].bytes,
        rereads=tuple(rereads),
    )


def _leaves_row(loops: RegionLoops, site: Site, own: Sequence[int | None]) -> bool:
    """Whether the scope of a reread is a reduction over several rows: each of its terms would fill a row anew."""
    op = loops.ops.get(site.scope)
    if op is None or not op.reduced:
        return False
    rows = [site.map.exprs[position] for position in own if position is not None]
    return any(axis >= len(op.shape) for row in rows for axis in row.axes)


def _sites_of_scope(sites: Sequence[Site], scope: str) -> list[Site]:
    return [site for site in sites if site.scope == scope]


def _coordinates(view: AxisMap, shape: tuple[int, ...]) -> dict[int, int] | None:
    """Axis of the domain → the coordinate that equals it; None unless the map picks one axis for every coordinate."""
    axes = picked_axes(view, shape)
    if axes is None:
        return None
    wide = [position for position, size in enumerate(shape) if size != 1]
    return dict(zip(axes, wide, strict=True))


def _flops(loops: RegionLoops, value: str, kept: Container[str]) -> float:
    """Additions-worth of one point of the value, computed from buffers, accumulators and kept values."""
    inlined = post_order([value], lambda name: [read for read in _inlined_reads(loops, name) if read not in kept])
    flops = (flops_per_point(op.kind, op.fn) * math.prod(op.domain) for op in map(loops.ops.__getitem__, inlined))
    return sum(flops) / max(1, math.prod(loops.ops[value].domain))


def _inlined_reads(loops: RegionLoops, value: str) -> list[str]:
    """The operands of a value that are computed where they are read."""
    return [read for read in loops.ops[value].reads if _is_inlined(loops, read)]


def _is_inlined(loops: RegionLoops, value: str) -> bool:
    """Whether a value is computed wherever it is read: it is no buffer and no accumulator."""
    return value in loops.ops and value not in loops.core.scopes
