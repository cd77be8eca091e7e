"""Compute-at (seed 003): an accumulator that a reduction reads, sliced to what one point of its reader needs.

The slice is the preimage of the point through the read: S(j) = { i : i is read at j }. It may be embedded when it
is a box of constant extent and fits the fast memory next to the core.
"""

from __future__ import annotations

import math

from codegen.poly.value_sites import ACCUMULATORS, outer_scope
from ir.dtype import dtype
from ir.index.expr import box_of, interval
from ir.poly.core import PolyCore, Site
from ir.poly.report import ComputeAt, Halo, Slice
from ir.region.region import Op, Region

WORKING_SET = 32 * 1024
"""Bytes of the fast memory that a slice may fill: an L1 data cache, or a modest share of shared memory."""


def compute_at(region: Region, core: PolyCore, halo: Halo) -> ComputeAt:
    """The verdict on every accumulator that is read inside another, and the region's halo."""
    ops = {let.name: let.op for let in region.body}
    slices: list[Slice] = []
    for site in core.sites:
        if site.scope == outer_scope(region) or ops[site.value].kind not in ACCUMULATORS:
            continue
        extent = slice_extent(site, ops[site.scope])
        if extent is None:
            reason = f"what `{site.scope}` reads of `{site.value}` is not a box of constant extent"
            return ComputeAt(False, halo, tuple(slices), reason)
        slices.append(_slice(site, extent, ops))
        if slices[-1].bytes > WORKING_SET:
            reason = f"a slice of `{site.value}` takes {slices[-1].bytes} bytes, of {WORKING_SET}"
            return ComputeAt(False, halo, tuple(slices), reason)
    return ComputeAt(True, halo, tuple(slices))


def slice_extent(site: Site, reader: Op) -> tuple[int, ...] | None:
    """Elements per axis of the value that one point of the reader's own axes reads; None when it varies. A stream
    takes its terms in tiles of any size: one term."""
    kept = len(reader.domain) - (0 if reader.kind == "stream" else reader.reduced)
    box = tuple((0, 0) if axis < kept else each for axis, each in enumerate(box_of(site.map.sizes)))
    extent = []
    for coordinate in site.map.exprs:
        if not coordinate.is_affine:
            return None
        low, high = interval(coordinate, box)
        extent.append(high - low + 1)
    return tuple(extent)


def _slice(site: Site, extent: tuple[int, ...], ops: dict[str, Op]) -> Slice:
    reader, op = ops[site.scope], ops[site.value]
    points = math.prod(reader.shape)
    elements = math.prod(extent)
    produced = math.prod(op.shape)
    recompute = points * elements / produced if produced and reader.kind != "stream" else 1.0
    return Slice(site.value, site.scope, extent, elements * dtype(op.dtype).bytes, recompute)
