"""Candidate plans of a contraction.

The template has two algorithms:

    outer   lanes run along the columns; a register tile of MR rows × NR columns takes one rank-1 update per k
    dot     lanes run along k; MR × NR sums of vectors, whose lanes are summed at the end; for few columns

A plan says which side has the columns, the register tile, the blocks of a task, from where operands are read, and what
runs in parallel. Rows that lie at equal distances may be read in memory or in a box. Other rows come from panels, or
from memory if each is used once.
`codegen.plan.cpu.contraction_work` gives the work of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from codegen.plan.contraction_view import Contraction, contraction_of
from codegen.plan.cpu.contraction_tiling import block_axis, can_hold, steps_of
from codegen.plan.cpu.contraction_work import (
    SMALL_FLOPS,
    CpuContractionWork,
    flops_of,
    is_parallel,
    panel_places,
    registers_per_vector,
)
from codegen.plan.cpu.row_box import boxed_blocks, has_even_rows, is_plain
from codegen.poly.tail_axes import tail_axes
from ir.dtype import DTYPES
from ir.plan.cpu import Blocks, CpuContractionPlan, LoopOrder, OperandPlace, Place
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import VECTOR_REGISTERS, Target

BLOCK_K = 1024
"""Terms of a block of k, at most."""
_SUM_BYTES = _ROW_BYTES = 1 << 20
"""Bytes of a thread's sums, and of its packed rows, at most: a second-level cache holds them."""
_STREAMED = 1 << 18
"""Elements of an operand of columns from which one row of tiles reads it in short blocks of k."""
_LEAST_SUMS = 8
"""Registers of sums, at least, of a tile that reads its rows where they lie: a core starts two multiply-adds per cycle,
and the sum of each is ready after four cycles."""
_SHARE_OF_COLUMNS = 4
"""All columns of a task stay in the second-level cache if they fit in this part of it: in a quarter."""
_TILES_THAT_PREFETCH = range(2, 33)
"""Numbers of row tiles per block with which a kernel prefetches the next panel. With one tile, panels are read in
order, which the core foresees. With many, the first reading of a panel takes little of the time."""
_CANDIDATES = 20
"""Candidates returned, at most."""


def contraction_candidates(
    region: Region, core: PolyCore, target: Target, *, ordered: bool = False
) -> list[tuple[CpuContractionPlan, Work]]:
    """The candidates, the fastest first; none if the region is no contraction that the template covers. `ordered`:
    plans take the terms of floating-point sums in index order."""
    default = contraction_of(region, core, ordered=ordered)
    if default is None:
        return []
    priced: list[tuple[_ProductChoice, Work]] = []
    for side in (default.vector, 1 - default.vector):
        view = default if side == default.vector else contraction_of(region, core, vector=side, ordered=ordered)
        if view is not None and (side == default.vector or _is_worth_transposing(default)):
            work = CpuContractionWork(view, target)
            choices = dict.fromkeys((*_panel_choices(view, target), *_unpacked_choices(view, target)))
            priced += [(one, work.of(one.blocks, one.places, one.order, held=one.held)) for one in choices]
    priced.sort(key=lambda candidate: (_time(candidate[1], target), -candidate[1].efficiency))
    return [(_plan(candidate, target), work) for candidate, work in priced[:_CANDIDATES]]


class _ProductChoice(NamedTuple):
    """What a plan chooses: the side with the columns, the blocks, the places of the operands, the order of the loops,
    and whether the epilogue takes the sums from registers."""

    view: Contraction
    blocks: Blocks
    places: tuple[Place, Place]
    order: LoopOrder
    held: bool

    @staticmethod
    def of(view: Contraction, blocks: Blocks, places: tuple[Place, Place], target: Target) -> _ProductChoice:
        return _ProductChoice(view, blocks, places, _loop_order(view, blocks, places, target), can_hold(view, blocks))


def _time(work: Work, target: Target) -> float:
    """The estimate of seed 000 §11, in cycles of the whole machine."""
    compute = (work.flops + work.recomputed) / (4 * target.lanes * work.efficiency) + work.reread + work.layout
    memory = work.bytes / target.bandwidth * 1e9 / target.cycle_ns
    return max(compute / target.units, memory) / work.occupancy


def _is_worth_transposing(view: Contraction) -> bool:
    """Whether the other side may have the columns too. Stores then cross the output's memory order, which pays only
    where columns are few."""
    return view.n < 128 and view.m > view.n


# --- blocks ---------------------------------------------------------------------------------------


def _panel_choices(view: Contraction, target: Target) -> Iterator[_ProductChoice]:
    """Plans that read both operands from panels, where panels pay."""
    for blocks in (*_outer_blocks(view, target), *_dot_blocks(view, target)):
        yield _ProductChoice.of(view, blocks, panel_places(view, blocks), target)


def _unpacked_choices(view: Contraction, target: Target) -> Iterator[_ProductChoice]:
    """Plans that read rows in memory or in a box. Nothing is packed once per position of a window."""
    side = 1 - view.vector
    if not view.rows or not view.repeats or view.is_constant(side):
        return
    place: Place = "memory" if is_plain(view) else "box"
    for mr, nr in _even_tiles(view, target):
        for blocks in _even_grids(view, mr, nr, target, boxed=place == "box"):
            places = panel_places(view, blocks)
            both = (place, places[1]) if side == 0 else (places[0], place)
            yield _ProductChoice.of(view, blocks, both, target)


def _even_tiles(view: Contraction, target: Target) -> Iterator[tuple[int, int]]:
    """Register tiles whose rows lie at equal distances: the tallest for each number of vectors. AVX-512 multiplies by a
    number in memory, which takes no register."""
    wide, lanes = registers_per_vector(view), target.lanes
    budget = VECTOR_REGISTERS[target.arch] - (target.arch != "avx512")
    for vectors in (1, 2, 3, 4):
        most = (budget // wide - vectors) // vectors
        rows = [mr for mr in range(1, most + 1) if has_even_rows(view, mr)]
        if rows and (vectors - 1) * lanes < view.n and rows[-1] * vectors * wide >= _LEAST_SUMS:
            yield rows[-1], vectors * lanes


def _even_grids(view: Contraction, mr: int, nr: int, target: Target, *, boxed: bool) -> Iterator[Blocks]:
    """Blocks of such tiles, whose rows or whose box stay in the second-level cache."""
    item = DTYPES[view.accumulator].bytes
    elements = min(target.l2_bytes, _ROW_BYTES) // item
    tiles_m, tiles_n = -(-view.m // mr), max(1, -(-view.n // nr))
    seen = set()
    for bk in _depths(view, tiles_m):
        for cuts_m, cuts_n in _cuts(target.units if flops_of(view) >= SMALL_FLOPS else 1, view.repeats):
            most = -(-tiles_m // cuts_m) * mr
            if boxed:
                boxes = (bm for bm, size in boxed_blocks(view) if size <= elements // 2)
                bm = next((bm for bm in boxes if bm <= most and bm % mr == 0), 0)
            else:
                bm = _even(tiles_m, max(1, min(most, elements // max(view.depth, 1)) // mr)) * mr
            bn = _even(tiles_n, max(1, -(-tiles_n // cuts_n))) * nr
            if bm and (bm, bn, bk) not in seen:
                seen.add((bm, bn, bk))
                yield Blocks(mr, nr, bm, bn, bk, target.lanes)


def _outer_blocks(view: Contraction, target: Target) -> Iterator[Blocks]:
    wide = registers_per_vector(view)
    budget = VECTOR_REGISTERS[target.arch]
    lanes = target.lanes
    cuts = _cuts(target.units if flops_of(view) >= SMALL_FLOPS else 1, view.repeats)
    for vectors in (1, 2, 3, 4, 8):
        most = (budget // wide - 1 - vectors) // vectors
        if most < 1 or (vectors > 1 and (vectors - 1) * lanes >= view.n):
            continue
        if vectors > 4 and view.m > most:  # the first-level cache does not hold so wide a panel, which is read again
            continue
        for rows in _even_rows(view.m, min(most, 16)):
            yield from _grids(view, rows, vectors * lanes, cuts, target)


def _even_rows(m: int, most: int) -> Iterator[int]:
    """Heights of the register tile that split `m` evenly: the tallest, and the height with the least padding."""
    tallest = _even(max(m, 1), most)
    yield tallest
    leanest = min(range(most, 0, -1), key=lambda rows: -(-m // rows) * (rows + 1))
    if leanest != tallest:
        yield leanest


def _even(size: int, most: int) -> int:
    """The length of a piece when `size` is cut into the fewest even pieces of at most `most`."""
    return -(-size // -(-size // most)) if size else 1


def _grids(view: Contraction, mr: int, nr: int, cuts: Sequence[tuple[int, int]], target: Target) -> Iterator[Blocks]:
    """Blocks of a task, from all rows and few columns to few rows and all columns, so that every core has work."""
    item = DTYPES[view.accumulator].bytes
    tiles_m, tiles_n = max(1, -(-view.m // mr)), max(1, -(-view.n // nr))
    seen = set()
    for bk in _depths(view, tiles_m):
        tall = max(1, min(target.l2_bytes, _ROW_BYTES) // (bk * item * mr))
        rows = min(tall, tiles_m) * mr
        wide = tiles_n if bk >= view.depth else max(1, _SUM_BYTES // (rows * item * nr))
        for cuts_m, cuts_n in cuts:
            bm = _even(tiles_m, max(1, min(tall, -(-tiles_m // cuts_m)))) * mr
            bn = _even(tiles_n, max(1, min(wide, -(-tiles_n // cuts_n)))) * nr
            if (bm, bn, bk) not in seen:
                seen.add((bm, bn, bk))
                yield Blocks(mr, nr, bm, bn, bk, target.lanes)


def _depths(view: Contraction, tiles_m: int) -> list[int]:
    """Lengths of a block of k. Blocks are long, since sums are stored after each; but short where the columns are used
    once, so that they come from memory in wide rows."""
    if tiles_m == 1 and view.n * view.depth > _STREAMED and not view.is_constant(view.vector):
        return [block_k(view, 8)]
    return sorted({block_k(view, BLOCK_K), block_k(view, BLOCK_K // 2)})


def _cuts(units: int, repeats: int) -> list[tuple[int, int]]:
    """Pairs: into how many pieces rows and columns are cut."""
    if units == 1 or repeats >= 4 * units:
        return [(1, 1)]
    return [(1, 1), (units, 1), (1, units), (2 * units, 1), (1, 2 * units), (units, 2), (2, 2 * units)]


def _dot_blocks(view: Contraction, target: Target) -> Iterator[Blocks]:
    """Blocks of dot products, for few rows or columns and neighbours along k: packing does not pay without reuse."""
    few = min(view.m, view.n)
    if view.ordered or not view.k or view.m * view.n == 0 or few > 8 or not can_dot(view):
        return
    budget = VECTOR_REGISTERS[target.arch] // registers_per_vector(view) - 4
    for mr in sorted({1, _even(max(view.m, 1), 4)}):
        nr = min(target.lanes, max(1, budget // mr), view.n)
        units = target.units if flops_of(view) >= SMALL_FLOPS else 1
        tiles = -(-view.n // nr)
        for cuts in sorted({1, units, 4 * units}):
            bm, bn = -(-view.m // mr) * mr, -(-tiles // min(cuts, tiles)) * nr
            yield Blocks(mr, nr, bm, bn, view.depth, target.lanes, dot=True)


def can_dot(view: Contraction) -> bool:
    """Whether both operands have neighbours in memory along the same digits of k."""
    runs = [view.run(side, view.k) for side in (0, 1)]
    return all(run == runs[0][0] for run, _ in runs) and all(step == 1 for _, step in runs)


def block_k(view: Contraction, most: int) -> int:
    """Terms per block, about `most`: a whole number of steps of one reduced digit, over all of the digits inside."""
    if view.depth <= most:
        return max(view.depth, 1)
    position, inner = block_axis(view, most)
    return _even(view.sizes[position], max(1, most // inner)) * inner


# --- plans ----------------------------------------------------------------------------------------


def _plan(choice: _ProductChoice, target: Target) -> CpuContractionPlan:
    view, blocks, places, order, held = choice
    constant_columns = places[view.vector] == "const_pool"
    return CpuContractionPlan(
        arch=target.arch,
        pattern=view.pattern,
        vector=1 if view.vector else 0,
        blocks=blocks,
        operands=(OperandPlace(view.operand(0).value, places[0]), OperandPlace(view.operand(1).value, places[1])),
        order=order,
        prefetch=constant_columns and order != "mnk" and blocks.bm // blocks.mr in _TILES_THAT_PREFETCH,
        held=held,
        parallel=is_parallel(view, blocks, target),
        tails=tail_axes(steps_of(view, blocks)),
        epilogue=view.epilogue,
        ordered=view.ordered,
    )


def _loop_order(view: Contraction, blocks: Blocks, places: tuple[Place, Place], target: Target) -> LoopOrder:
    """Rows are packed once per block of k. Else, if all columns of a task stay in the second-level cache, the loop over
    rows is the outermost, so that each row is read once; if not, the loop over panels, so that each panel is read
    once."""
    if places[1 - view.vector] == "packed" or blocks.dot:
        return "knm"
    columns = blocks.bn * view.depth * DTYPES[view.accumulator].bytes
    return "mnk" if places[view.vector] == "const_pool" and columns <= target.l2_bytes // _SHARE_OF_COLUMNS else "nkm"
