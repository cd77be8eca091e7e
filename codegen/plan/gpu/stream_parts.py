"""The parts that blocks leave where they share the terms of a tile's rows: per row a maximum, the row sums and the sums
of the products, over the block's own terms. The last block joins the parts.

parts of the products   [product, row tile, column tile, part, row, column]     without the padding of rows
the last block          a thread has `width` columns of one row at a time, and takes all parts in order
"""

from __future__ import annotations

import math

import msgspec

from codegen.plan.gpu.split_k import arrival_cycles
from codegen.plan.gpu.stream_tiling import part_width
from codegen.plan.plan_check import STAGE
from codegen.plan.stream_view import StreamView
from ir.diagnostics import Kind, fail
from ir.dtype import DTYPES
from ir.plan.gpu import GpuStreamPlan, StreamParts, StreamTile

_READS_AT_ONCE = 16
"""Vectors that a thread reads at one time, at most."""
_READ_CYCLES = 300.0
"""Cycles to read a few parts from the second-level cache and to add them."""


def stream_parts(view: StreamView, tile: StreamTile) -> StreamParts | None:
    """The parts of a plan's tiles, joined in as few cycles as possible; None where a block has all terms of its tile.
    Without a product, a part has one column per lane that shares a row."""
    if tile.split <= 1:
        return None
    lead, split, width = tile.lead, tile.split, part_width(view, tile)
    rows = min(lead.bm, view.m)
    vectors = -(-rows * lead.bn // (width * tile.threads))
    together = max(1, min(split, _READS_AT_ONCE // (vectors * max(1, len(view.products)))))
    own = stream_part_bytes(view, tile)
    members = -(-math.ceil(math.sqrt(split)) // together) * together
    twice = _join_cycles(members, together, own) + _join_cycles(-(-split // members), together, own)
    if twice >= _join_cycles(split, together, own):
        members = split
    return StreamParts(rows, lead.bn, width, vectors, together, members)


def check_parts(view: StreamView, plan: GpuStreamPlan) -> None:
    """Raises EqsatError, MalformedGraph, where a plan's parts are not those of the tiles. How many parts a thread reads
    at one time, and how many a block joins, is free."""
    parts, expected, split = plan.parts, stream_parts(view, plan.tile), plan.tile.split
    if parts is not None and expected is not None:
        expected = msgspec.structs.replace(expected, together=parts.together, members=parts.members)
        if not (1 <= parts.together <= split and 2 <= parts.members <= split):
            message = f"a thread reads {parts.together} of {split} parts at one time, a block joins {parts.members}"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, at=view.region.name)
    if parts != expected:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"the parts of the tiles are {expected}, not {parts}", at=view.region.name)


def stream_part_bytes(view: StreamView, tile: StreamTile) -> int:
    """Bytes of the part of one block."""
    per_row = tile.bn * len(view.products) + len(view.row_sums) + 1
    return min(tile.bm, view.m) * per_row * DTYPES[view.kind].bytes


def joining_registers(view: StreamView, tile: StreamTile) -> int:
    """Registers of a thread of the last block: its sums, and the parts that it reads at one time."""
    parts, products = stream_parts(view, tile), len(view.products)
    if parts is None:
        return 0
    own = products * parts.width + len(view.row_sums) + 1
    return parts.vectors * own * (1 + parts.together) * DTYPES[view.kind].bytes // 4


def joining_cycles(view: StreamView, tile: StreamTile) -> float:
    """Cycles from the last turn of the blocks that share a tile to the sums of the tile."""
    parts, own = stream_parts(view, tile), stream_part_bytes(view, tile)
    if parts is None:
        return 0.0
    groups = -(-tile.split // parts.members)
    again = _join_cycles(groups, parts.together, own) if groups > 1 else 0.0
    return _join_cycles(parts.members, parts.together, own) + again


def _join_cycles(count: int, together: int, own: int) -> float:
    """Cycles to join so many parts of `own` bytes."""
    return arrival_cycles(count, own) - (-count // together) * _READ_CYCLES
