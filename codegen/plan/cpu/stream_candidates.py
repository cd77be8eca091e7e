"""Candidate plans of streams whose scores are tiles.

A plan says how many rows a task has, how many rows and terms a tile of scores has, the register tiles, and which
tensors are packed. A task packs keys and values once. `codegen.plan.cpu.stream_work` gives the work of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from codegen.plan.cpu.cache_lines import share_pages
from codegen.plan.cpu.contraction_blocks import block_k, can_dot
from codegen.plan.cpu.stream_tiling import bound_of, packable, stream_steps
from codegen.plan.cpu.stream_work import CpuStreamWork, is_contiguous, is_parallel, row_bytes
from codegen.plan.stream_mask import last_seen
from codegen.plan.stream_view import StreamView, stream_epilogue, stream_views
from codegen.poly.tail_axes import tail_axes
from ir.dtype import DTYPES
from ir.plan.cpu import CpuStreamPlan, PackedTensor, StreamBlocks
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import VECTOR_REGISTERS, Target

_TERMS = (128, 256, 512)
"""Terms of a tile, at most: the sums of a row are rescaled once per tile."""
_MASKED_TERMS = 64
"""Terms of a tile, at most, where tiles that no row sees are left out."""
_TILE_BYTES = 1 << 17
"""Bytes of a tile of scores, at most: the second-level cache also holds the panels that meet the tile."""
_TILE_ROWS = 56
"""Rows of a tile, at most: enough to use a panel of keys several times while the first-level cache holds it."""
_FAR = 4
"""Sizes of the second-level cache that the rows of one task may fill."""
_FEW_ROWS = 8
"""Rows up to which dot products are tried."""
_VALUE_VECTORS = 8
"""Vectors of values in a row of a tile, at most: as many sums as a core needs for two multiply-adds per cycle."""
_CANDIDATES = 12
"""Candidates returned, at most."""


def stream_candidates(region: Region, core: PolyCore, target: Target) -> list[tuple[CpuStreamPlan, Work]]:
    """The candidates, the fastest first by the estimate below; none where the template does not cover the region."""
    priced = []
    for view in stream_views(region, core):
        work = CpuStreamWork(view, target)
        cuts = dict.fromkeys((*map(partial(_stopped, view), _blocks(view, target)), *_dot_blocks(view, target)))
        priced += [(view, blocks, work.of(blocks)) for blocks in cuts]
    priced.sort(key=lambda candidate: _cycles(candidate[2], target))
    return [(_plan(view, blocks, target), work) for view, blocks, work in priced[:_CANDIDATES]]


def _cycles(work: Work, target: Target) -> float:
    """Cycles of the unit that works longest."""
    return (work.flops / (4 * target.lanes * work.efficiency) + work.layout) / work.occupancy


def _blocks(view: StreamView, target: Target) -> Iterator[StreamBlocks]:
    lanes, item = target.lanes, DTYPES[view.kind].bytes
    for mr, nr in _register_tiles(view, target):
        nv = min(nr, -(-view.n // lanes) * lanes)
        for most in _TERMS if last_seen(view) is None else (_MASKED_TERMS, *_TERMS):
            bc = _terms(view, most, nr)
            width = -(-bc // nr) * nr
            rows = min(_TILE_ROWS, _TILE_BYTES // (width * item), -(-view.m // mr) * mr)
            br = mr * max(1, rows // mr)
            for bm in _task_rows(view, br, target):
                for columns in sorted({nv, lanes}) if view.n % nv else (nv,):
                    blocks = StreamBlocks(mr, nr, columns, bm, min(br, bm), bc, lanes)
                    if bm == br or row_bytes(view, blocks) <= _FAR * target.l2_bytes:
                        yield blocks


def _stopped(view: StreamView, blocks: StreamBlocks) -> StreamBlocks:
    """The blocks, without tiles that no row sees if the kernel can leave them out."""
    stopped = msgspec.structs.replace(blocks, stops=True)
    return stopped if blocks.bc < view.terms and bound_of(view, stopped) is not None else blocks


def _terms(view: StreamView, most: int, nr: int) -> int:
    """Terms of a block, about `most`; a whole number of register tiles where one loop runs over the terms."""
    bc = block_k(view.lead, most)
    return min(view.terms, -(-bc // nr) * nr) if len(view.roles.terms) == 1 else bc


def _dot_blocks(view: StreamView, target: Target) -> Iterator[StreamBlocks]:
    """Blocks of dot products, for few rows and neighbours along the depth: packing does not pay for so little reuse."""
    if view.scores is None or view.m > _FEW_ROWS or not view.scores.k or not can_dot(view.scores):
        return
    budget = VECTOR_REGISTERS[target.arch] // max(1, DTYPES[view.kind].bytes // 4) - 4
    bc = block_k(view.lead, _TERMS[-1])
    for mr in sorted({1, min(view.m, 4)}):
        rows = -(-view.m // mr) * mr
        columns = _value_columns(view, mr, target)
        keys = 1 if share_pages(view.scores) else min(bc, budget // mr, 8)
        yield StreamBlocks(mr, keys, columns, rows, rows, bc, target.lanes, dot=True)


def _value_columns(view: StreamView, mr: int, target: Target) -> int:
    """Columns of a tile of values for a few rows: as many as registers hold sums of, so that values are read in the
    order of memory. Equal tiles run faster than wider ones of which the last is cut."""
    vectors = -(-view.n // target.lanes)
    wide = max(1, DTYPES[view.kind].bytes // 4)
    loaded = mr + 1 if mr > 1 else 1  # one row takes values from memory, others from registers
    most = max(1, min(_VALUE_VECTORS, (VECTOR_REGISTERS[target.arch] // wide - 1) // loaded))
    equal = max(count for count in range(1, most + 1) if vectors % count == 0)
    return (equal if 2 * equal >= min(most, vectors) else -(-vectors // -(-vectors // most))) * target.lanes


def _register_tiles(view: StreamView, target: Target) -> Iterator[tuple[int, int]]:
    """Rows and columns of the tallest register tiles with 1, 2 and 4 vectors per row; the rows are split evenly."""
    wide = max(1, DTYPES[view.kind].bytes // 4)
    budget = VECTOR_REGISTERS[target.arch]
    for vectors in (1, 2, 4):
        most = (budget // wide - 1 - vectors) // vectors
        if most >= 1 and (vectors - 1) * target.lanes < max(view.terms, view.n):
            tiles = -(-view.m // min(most, 16))
            yield max(1, -(-view.m // tiles)), vectors * target.lanes


def _task_rows(view: StreamView, br: int, target: Target) -> Iterator[int]:
    """Rows of a task, in whole tiles: from all rows down to one tile."""
    tiles = -(-view.m // br)
    for pieces in sorted({1, 2, 4, 8, 16, target.units, 2 * target.units, tiles}):
        if pieces <= tiles:
            yield -(-tiles // pieces) * br


def _plan(view: StreamView, blocks: StreamBlocks, target: Target) -> CpuStreamPlan:
    return CpuStreamPlan(
        arch=target.arch,
        blocks=blocks,
        together=view.together,
        products=bool(view.products),
        packed=_packed_tensors(view, blocks),
        parallel=is_parallel(view, blocks, target),
        tails=tail_axes(stream_steps(view, blocks)),
        epilogue=stream_epilogue(view),
    )


def _packed_tensors(view: StreamView, blocks: StreamBlocks) -> tuple[PackedTensor, ...]:
    """The packed tensors: all but values that a few rows use, which are read from memory."""
    few = blocks.dot or view.m <= blocks.mr
    once = {product.operand(1).value for product in view.products if few and is_contiguous(product)}
    keys = {view.scores.operand(side).value for side in (0, 1)} if view.scores else set()
    known = dict.fromkeys(packable(view, blocks))
    return tuple(packed for packed in known if packed.tensor not in (once if blocks.dot else once - keys))
