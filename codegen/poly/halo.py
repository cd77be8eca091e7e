"""The halo: the elements that the output reads beyond its own points, per axis and in bytes (seed 000 §4.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping

from codegen.poly.value_sites import outer_scope
from ir.dtype import dtype
from ir.index.expr import AxisExpr, box_of, interval
from ir.poly.core import MemoryAccess, PolyCore
from ir.poly.report import Halo
from ir.region.region import Region


def halo(region: Region, core: PolyCore) -> Halo:
    """The halo of the region's windowed reads, for the whole output.

    A coordinate s·x + w(r) with an outer axis x moves s elements per output, and its window spans the range of w over
    the reduced axes. The halo is the part of the window that exceeds s; the part where w is below 0 comes before.
    """
    sizes = dict(core.outer)
    dtypes = {buffer.name: buffer.memref.dtype for buffer in region.inputs}
    per_axis, total = dict.fromkeys((*sizes, *core.reduce_axes), (0, 0)), 0
    for access in core.accesses:
        if access.input < 0 or access.map.is_empty:
            continue
        places = _outer_axes(core, access.scope, outer_scope(region))
        own, whole = [], []
        for coordinate in access.map.exprs:
            axis, elements, before, after = _window(coordinate, access, places, sizes)
            if axis is not None:
                old = per_axis[axis]
                per_axis[axis] = max(old[0], before), max(old[1], after)
            own.append(elements)
            whole.append(elements + before + after)
        total += (math.prod(whole) - math.prod(own)) * dtype(dtypes[access.buffer]).bytes
    return Halo(total, per_axis)


def _outer_axes(core: PolyCore, scope: str, outer: str) -> dict[int, str]:
    """Axis of `scope` → the outer axis that it is, for the axes that a scope shares with the outer one."""
    if scope == outer:
        return {axis: name for axis, (name, _) in enumerate(core.outer)}
    place = next((site.map for site in core.sites if (site.value, site.scope) == (scope, outer)), None)
    if place is None:
        return {}
    picked = {position: expr.lone_axis for position, expr in enumerate(place.exprs)}
    return {position: f"i{axis}" for position, axis in picked.items() if axis is not None}


def _window(
    coordinate: AxisExpr, access: MemoryAccess, places: Mapping[int, str], sizes: Mapping[str, int]
) -> tuple[str | None, int, int, int]:
    """The outer axis of a coordinate, the elements that answer to the output, and those before and after them."""
    box = box_of(access.map.sizes)
    moving = [(term, c) for term, c in coordinate.terms if isinstance(term, int) and term in places]
    if len(moving) != 1 or not coordinate.is_affine:
        low, high = interval(coordinate, box)
        return None, high - low + 1, 0, 0
    ((term, c),) = moving
    window = AxisExpr(coordinate.const, tuple(item for item in coordinate.terms if item[0] != term))
    low, high = interval(window, box)
    beyond = max(0, high - low - (abs(c) - 1))
    before = min(beyond, max(0, -low))
    return places[term], abs(c) * sizes[places[term]], before, beyond - before
