"""Candidate plans of streams whose scores are tiles.

A plan says how many rows a task has (for which keys and values are packed once), how many rows and terms a tile of
scores, the register tiles, and what is packed. `codegen.plan.cpu.stream_work` says what work each makes.
"""

from __future__ import annotations

from collections.abc import Iterator

from codegen.plan.cpu.contraction_candidates import block_k, dot_possible
from codegen.plan.cpu.stream_tiling import packable, stream_steps
from codegen.plan.cpu.stream_work import CpuStreamWork, is_parallel, lies_well, row_bytes
from codegen.plan.stream_view import StreamView, stream_epilogue, stream_view
from codegen.poly.tail_axes import tail_axes
from ir.dtype import DTYPES
from ir.plan.cpu import CpuStreamPlan, PackedTensor, StreamBlocks
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target

_REGISTERS = {"avx512": 32}
_TERMS = (128, 256, 512)
"""Terms of a tile: rows are rescaled once for so many."""
_TILE_BYTES = 1 << 17
"""Of a tile of scores: within the second-level cache, beside the panels that it meets."""
_TILE_ROWS = 56
"""Rows of a tile: enough for a panel of keys in the first-level cache to be used several times."""
_FAR = 4
"""Times the second-level cache that the rows of a task may take."""
_FEW_ROWS = 8
"""Rows for which dot products are tried."""
_CANDIDATES = 12


def stream_candidates(region: Region, core: PolyCore, target: Target) -> list[tuple[CpuStreamPlan, Work]]:
    """The candidates, best first by their own estimate; none where the template does not cover the region."""
    view = stream_view(region, core)
    if view is None:
        return []
    work = CpuStreamWork(view, target)
    cuts = dict.fromkeys((*_blocks(view, target), *_dot_blocks(view, target)))
    found = [(blocks, work.of(blocks)) for blocks in cuts]
    found.sort(key=lambda each: _cycles(each[1], target))
    return [(_plan(view, blocks, target), work) for blocks, work in found[:_CANDIDATES]]


def _cycles(work: Work, target: Target) -> float:
    """Of the unit that works longest, to order candidates by."""
    return (work.flops / (4 * target.lanes * work.efficiency) + work.layout) / work.occupancy


def _blocks(view: StreamView, target: Target) -> Iterator[StreamBlocks]:
    lanes, item = target.lanes, DTYPES[view.kind].bytes
    for mr, nr in _register_tiles(view, target):
        nv = min(nr, -(-view.n // lanes) * lanes)
        for most in _TERMS:
            bc = _terms(view, most, nr)
            width = -(-bc // nr) * nr
            rows = min(_TILE_ROWS, _TILE_BYTES // (width * item), -(-view.m // mr) * mr)
            br = mr * max(1, rows // mr)
            for bm in _task_rows(view, br, target):
                for columns in sorted({nv, lanes}) if view.n % nv else (nv,):
                    blocks = StreamBlocks(mr, nr, columns, bm, min(br, bm), bc, lanes)
                    if bm == br or row_bytes(view, blocks) <= _FAR * target.l2_bytes:
                        yield blocks


def _terms(view: StreamView, most: int, nr: int) -> int:
    """Terms of a block, about `most`: whole register tiles where one loop runs over them."""
    bc = block_k(view.lead, most)
    return min(view.terms, -(-bc // nr) * nr) if len(view.roles.terms) == 1 else bc


def _dot_blocks(view: StreamView, target: Target) -> Iterator[StreamBlocks]:
    """Few rows, and neighbours along the depth: keys are used so seldom that they are read as they lie."""
    if view.scores is None or view.m > _FEW_ROWS or not view.scores.k or not dot_possible(view.scores):
        return
    budget = _REGISTERS.get(target.arch, 16) // max(1, DTYPES[view.kind].bytes // 4) - 4
    bc = block_k(view.lead, _TERMS[-1])
    for mr in sorted({1, min(view.m, 4)}):
        rows = -(-view.m // mr) * mr
        columns = min(2 * target.lanes, -(-view.n // target.lanes) * target.lanes)
        yield StreamBlocks(mr, min(bc, budget // mr, 8), columns, rows, rows, bc, target.lanes, dot=True)


def _register_tiles(view: StreamView, target: Target) -> Iterator[tuple[int, int]]:
    """The tallest register tiles of one to four vectors, the rows split evenly."""
    wide = max(1, DTYPES[view.kind].bytes // 4)
    budget = _REGISTERS.get(target.arch, 16)
    for vectors in (1, 2, 4):
        most = (budget // wide - 1 - vectors) // vectors
        if most >= 1 and (vectors - 1) * target.lanes < max(view.terms, view.n):
            tiles = -(-view.m // min(most, 16))
            yield max(1, -(-view.m // tiles)), vectors * target.lanes


def _task_rows(view: StreamView, br: int, target: Target) -> Iterator[int]:
    """Rows of a task in whole tiles: all, or so few that every unit has a task."""
    tiles = -(-view.m // br)
    for pieces in sorted({1, 2, 4, 8, 16, target.units, 2 * target.units, tiles}):
        if pieces <= tiles:
            yield -(-tiles // pieces) * br


def _plan(view: StreamView, blocks: StreamBlocks, target: Target) -> CpuStreamPlan:
    return CpuStreamPlan(
        arch=target.arch,
        blocks=blocks,
        products=bool(view.products),
        packed=_packed(view, blocks),
        threads=("batch", "m.o") if is_parallel(view, blocks, target) else (),
        tails=tail_axes(stream_steps(view, blocks)),
        epilogue=stream_epilogue(view),
    )


def _packed(view: StreamView, blocks: StreamBlocks) -> tuple[PackedTensor, ...]:
    """What is packed: all but values that one tile of rows uses, which are read as they lie."""
    once = {each.operand(1).value for each in view.products if view.m <= blocks.mr and lies_well(each)}
    keys = {view.scores.operand(side).value for side in (0, 1)} if view.scores else set()
    known = dict.fromkeys(packable(view, blocks))
    return tuple(each for each in known if each.tensor not in (once if blocks.dot else once - keys))
