"""What the blocks that share a tile's rows leave for the last of them: a maximum, the sums of each row and of each
product, of the block's own terms.

parts of the products   [product, row tile, column tile, part, row, column]     only of rows that there are
the last block          a thread has `width` columns of one row at a time, for all parts in their order
"""

from __future__ import annotations

import math

import msgspec

from codegen.plan.gpu.split_k import arrival_cycles
from codegen.plan.gpu.stream_tiling import part_width
from codegen.plan.stream_view import StreamView
from ir.dtype import DTYPES
from ir.plan.gpu import StreamTile

_UNDER_WAY = 16
"""Vectors of a thread that are read at one time."""
_READ_CYCLES = 300.0
"""From the reading of a few parts until they have come from the second-level cache and are added."""


class StreamParts(msgspec.Struct, frozen=True):
    """A part: `rows` × `columns` sums of each product, of which a thread of the last block has `vectors` of `width`;
    `together`: parts that are read at one time, `members`: that one block joins. Where these are not all, what they
    come to are parts again."""

    rows: int
    columns: int
    width: int
    vectors: int
    together: int
    members: int


def stream_parts(view: StreamView, tile: StreamTile) -> StreamParts:
    """The parts of a plan's tiles; without a product, of a column for each lane that shares a row."""
    lead, split, width = tile.lead, tile.split, part_width(view, tile)
    rows = min(lead.bm, view.m)
    vectors = -(-rows * lead.bn // (width * tile.threads))
    together = max(1, min(split, _UNDER_WAY // (vectors * max(1, len(view.products)))))
    own = stream_part_bytes(view, tile)
    members = -(-math.ceil(math.sqrt(split)) // together) * together
    twice = _cycles(members, together, own) + _cycles(-(-split // members), together, own)
    if twice >= _cycles(split, together, own):
        members = split
    return StreamParts(rows, lead.bn, width, vectors, together, members)


def stream_part_bytes(view: StreamView, tile: StreamTile) -> int:
    """Of one block."""
    each = tile.lead.bn * len(view.products) + len(view.row_sums) + 1
    return min(tile.lead.bm, view.m) * each * DTYPES[view.kind].bytes


def joining_registers(view: StreamView, tile: StreamTile) -> int:
    """Of a thread of the last block: its sums, and the parts that are on their way."""
    if tile.split == 1:
        return 0
    parts, products = stream_parts(view, tile), len(view.products)
    own = products * parts.width + len(view.row_sums) + 1
    return parts.vectors * own * (1 + parts.together) * DTYPES[view.kind].bytes // 4


def joining_cycles(view: StreamView, tile: StreamTile) -> float:
    """From the last turn of the blocks that share a tile to its sums."""
    if tile.split == 1:
        return 0.0
    parts, own = stream_parts(view, tile), stream_part_bytes(view, tile)
    groups = -(-tile.split // parts.members)
    again = _cycles(groups, parts.together, own) if groups > 1 else 0.0
    return _cycles(parts.members, parts.together, own) + again


def _cycles(count: int, together: int, own: int) -> float:
    """To join so many parts of `own` bytes."""
    return arrival_cycles(count, own) - (-count // together) * _READ_CYCLES
