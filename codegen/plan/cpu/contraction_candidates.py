"""Candidate plans of a contraction.

The template has these algorithms:

    outer         lanes run along the columns; a register tile of MR rows × NR columns takes one rank-1 update per k
    dot           lanes run along k; MR × NR sums of vectors, whose lanes are summed at the end; for few columns
    pairs, quads  as outer, with the terms of narrow integers in cells: a lane takes a dot product of two cells
    matrix        matrix registers multiply narrow operands: rows of neighbouring terms by panels of columns

A plan says which side has the columns, the register tile, the blocks of a task, from where operands are read, and
whether tasks run in parallel. Rows that lie at equal distances may be read in memory or in a box. Other rows come from
panels, or from memory if each row is used once. `codegen.plan.cpu.contraction_work` gives the work of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.cell_operands import bytes_of_term, can_pack_rows, rows_in_memory
from codegen.plan.cpu.constant_parts import constant_parts
from codegen.plan.cpu.contraction_blocks import (
    cell_blocks,
    dot_blocks,
    even_grids,
    even_tiles,
    is_short,
    matrix_blocks,
    outer_blocks,
)
from codegen.plan.cpu.contraction_tiling import can_hold, steps_of
from codegen.plan.cpu.contraction_work import CpuContractionWork, is_parallel
from codegen.plan.cpu.cpu_contraction import cpu_contraction_of, reads_much_padding
from codegen.plan.cpu.row_box import has_even_columns, is_plain
from codegen.poly.tail_axes import tail_axes
from ir.dtype import DTYPES
from ir.kernel.cpu.cells import PEAK_DTYPES
from ir.plan.cpu import PACKED_BEFORE, Blocks, CpuContractionPlan, LoopOrder, OperandPlace, Place
from ir.poly.core import PolyCore
from ir.pricer import Work
from ir.region.region import Region
from ir.target import Target

_SHARE_OF_COLUMNS = 4
"""All columns of a task stay in the second-level cache if they fit in this part of it: in a quarter."""
_TILES_THAT_PREFETCH = range(2, 33)
"""Numbers of row tiles per block with which a kernel prefetches the next panel. With one tile, panels are read in
order, which the core foresees. With many, the first reading of a panel takes little of the time."""
_TILES_OF_SHORT_BLOCKS = 4
"""Tiles of rows, at most, that read columns in memory in short blocks of k: the first-level cache holds the columns of
a tile."""
_PACKED_BYTES = 1 << 26
"""Bytes of columns that are packed once, at most: the program keeps memory for them."""
_CANDIDATES = 20
"""Candidates returned, at most."""


def contraction_candidates(
    region: Region, core: PolyCore, target: Target, *, ordered: bool = False
) -> list[tuple[CpuContractionPlan, Work]]:
    """The candidates, the fastest first; none if the region is no contraction that the template covers. `ordered`:
    plans take the terms of floating-point sums in index order."""
    default = cpu_contraction_of(region, core, ordered=ordered)
    if default is None:
        return []
    priced: list[tuple[_ProductChoice, Work]] = []
    for side in (default.vector, 1 - default.vector):
        view = default if side == default.vector else cpu_contraction_of(region, core, vector=side, ordered=ordered)
        if view is not None and (view is default or _is_worth_transposing(default) or reads_much_padding(view)):
            work = CpuContractionWork(view, target)
            choices = dict.fromkeys(
                (*_panel_choices(view, target), *_unpacked_choices(view, target), *_cell_choices(view, target))
            )
            priced += [(one, work.of(one.blocks, one.places, one.order, held=one.held)) for one in choices]
    priced.sort(key=lambda candidate: _rank(candidate[0], candidate[1], target))
    return [(_plan(candidate, target), work) for candidate, work in priced[:_CANDIDATES]]


class _ProductChoice(NamedTuple):
    """The choices of a plan: the side with the columns, the blocks, the places of the operands, the order of the loops,
    and whether the epilogue takes the sums from registers."""

    view: Contraction
    blocks: Blocks
    places: tuple[Place, Place]
    order: LoopOrder
    held: bool

    @staticmethod
    def each(
        view: Contraction, blocks: Blocks, places: tuple[Place, Place], target: Target
    ) -> Iterator[_ProductChoice]:
        """The choices for each order of the loops."""
        for order in _loop_orders(view, blocks, places, target):
            yield _ProductChoice(view, blocks, places, order, can_hold(view, blocks))


def _rank(choice: _ProductChoice, work: Work, target: Target) -> tuple[float, ...]:
    """Orders plans: by time. Of plans that take equal time, the more efficient come first; then those with other loops
    than mnk, which can prefetch panels; then those that read fewer bytes of operands from beyond the second-level
    caches; then those of more blocks of columns, since a core that is late then holds up less."""
    view, blocks = choice.view, choice.blocks
    blocks_m, blocks_n = -(-view.m // blocks.bm), -(-view.n // blocks.bn)
    passed = _bytes_passed(view, (view.m, blocks.bm), blocks_n, target)
    passed += _bytes_passed(view, (view.n, blocks.bn), blocks_m, target)
    return _time(work, target), -work.efficiency, choice.order == "mnk", passed, -blocks_n


def _bytes_passed(view: Contraction, lines: tuple[int, int], times: int, target: Target) -> int:
    """Bytes of an operand that pass into the second-level caches. lines: all its rows or columns, and those of a
    task. times: tasks that read each of them. A core whose cache holds the lines of a task reads them once."""
    whole, part = (view.depth * count * DTYPES[view.accumulator].bytes for count in lines)
    return whole * (min(times, target.units) if part <= target.l2_bytes // 2 else times)


def _time(work: Work, target: Target) -> float:
    """The estimate of seed 000 §11, in cycles of the whole machine."""
    per_cycle = target.per_cycle(work.compute_dtype) if work.compute_dtype in PEAK_DTYPES else 4 * target.lanes
    compute = (work.flops + work.recomputed) / (per_cycle * work.efficiency) + work.reread + work.layout
    memory = target.cycles_in(work.bytes / target.bandwidth)
    return max(compute, memory) / target.units / work.occupancy


def _is_worth_transposing(view: Contraction) -> bool:
    """Whether the other side may have the columns too. Stores then cross the output's memory order, which pays only
    where columns are few."""
    return view.n < 128 and view.m > view.n


# --- choices --------------------------------------------------------------------------------------


def _panel_choices(view: Contraction, target: Target) -> Iterator[_ProductChoice]:
    """Plans that read both operands from panels, where panels pay."""
    for blocks in (*outer_blocks(view, target), *dot_blocks(view, target)):
        for places in _column_places(view, blocks, _panel_places(view, blocks), target):
            yield from _ProductChoice.each(view, blocks, places, target)


def _unpacked_choices(view: Contraction, target: Target) -> Iterator[_ProductChoice]:
    """Plans that read rows in memory or in a box. Nothing is packed once per position of a window."""
    side = 1 - view.vector
    if not view.rows or not view.repeats or view.is_constant(side):
        return
    place: Place = "memory" if is_plain(view) else "box"
    for mr, nr in even_tiles(view, target):
        for blocks in even_grids(view, mr, nr, target, boxed=place == "box"):
            places = _panel_places(view, blocks)
            both = (place, places[1]) if side == 0 else (places[0], place)
            for chosen in _column_places(view, blocks, both, target):
                yield from _ProductChoice.each(view, blocks, chosen, target)


def _cell_choices(view: Contraction, target: Target) -> Iterator[_ProductChoice]:
    """Plans that multiply cells, in matrix registers or in vector registers."""
    rows = 1 - view.vector
    for blocks in (*cell_blocks(view, target), *matrix_blocks(view, target)):
        in_memory = rows_in_memory(view, blocks) is not None and not view.is_constant(rows)
        fits: dict[Place, bool] = {"memory": in_memory, _packed_place(view, rows): can_pack_rows(view, blocks)}
        for row_place in (place for place, holds in fits.items() if holds):
            column_place = _packed_place(view, view.vector)
            both = (row_place, column_place) if rows == 0 else (column_place, row_place)
            for places in _column_places(view, blocks, both, target):
                yield from _ProductChoice.each(view, blocks, places, target)


# --- places ---------------------------------------------------------------------------------------


def _panel_places(view: Contraction, blocks: Blocks) -> tuple[Place, Place]:
    """The places of the operands where rows are read from panels, if panels pay."""
    return _panel_place(view, blocks, 0), _panel_place(view, blocks, 1)


def _packed_place(view: Contraction, side: int) -> Place:
    """The place of an operand in panels."""
    return "const_pool" if view.is_constant(side) else "packed"


def _column_places(
    view: Contraction, blocks: Blocks, places: tuple[Place, Place], target: Target
) -> Iterator[tuple[Place, Place]]:
    """The places, and those with columns that are packed once where several tasks would pack them, or that are computed
    from constants with fewer bytes."""
    yield places
    if places[view.vector] == "const_pool" and blocks.algorithm == "outer" and constant_parts(view):
        yield _with_columns(view, places, "const_parts")
    small = view.repeats * view.depth * view.n * bytes_of_term(view, blocks.algorithm) <= _PACKED_BYTES
    if places[view.vector] == "packed" and blocks.bm < view.m and small and is_parallel(view, blocks, target):
        yield _with_columns(view, places, "packed_once")


def _with_columns(view: Contraction, places: tuple[Place, Place], columns: Place) -> tuple[Place, Place]:
    """The places with another place of the columns."""
    return (columns, places[1]) if view.vector == 0 else (places[0], columns)


def _panel_place(view: Contraction, blocks: Blocks, side: int) -> Place:
    """The place of one operand. An operand whose elements are used once is read from memory, unless it is padded and
    every element would be tested alone."""
    if blocks.algorithm == "dot":
        return "memory"
    if view.is_constant(side):
        return "const_pool"
    guarded = any(read.map.guards for read in view.roles.reads[side])
    if side == view.vector:
        run, step = view.run(side, view.columns)
        in_runs = run == view.columns or (has_even_columns(view, blocks.nr) and not guarded)
        tiles = _TILES_OF_SHORT_BLOCKS if is_short(view, blocks) else 1
        packed = view.m > tiles * blocks.mr or not in_runs or step not in (0, 1)
    else:
        packed = view.n > blocks.nr or view.m % blocks.mr != 0 or guarded or is_short(view, blocks)
    return "packed" if packed else "memory"


# --- plans ----------------------------------------------------------------------------------------


def _plan(choice: _ProductChoice, target: Target) -> CpuContractionPlan:
    view, blocks, places, order, held = choice
    packed_before = places[view.vector] in PACKED_BEFORE
    return CpuContractionPlan(
        arch=target.arch,
        pattern=view.pattern,
        vector=1 if view.vector else 0,
        blocks=blocks,
        operands=(OperandPlace(view.operand(0).value, places[0]), OperandPlace(view.operand(1).value, places[1])),
        order=order,
        prefetch=packed_before and order != "mnk" and blocks.bm // blocks.mr in _TILES_THAT_PREFETCH,
        held=held,
        parallel=is_parallel(view, blocks, target),
        tails=tail_axes(steps_of(view, blocks)),
        epilogue=view.epilogue,
        ordered=view.ordered,
    )


def _loop_orders(view: Contraction, blocks: Blocks, places: tuple[Place, Place], target: Target) -> Iterator[LoopOrder]:
    """Rows are packed once per block of k, and a short block passes through all columns; or rows are packed for all
    blocks of k, if these stay in the second-level cache. Else, if all columns of a task stay there, the loop over rows
    is the outermost, so that each row is read once; if not, the loop over panels, so that each panel is read once."""
    item = bytes_of_term(view, blocks.algorithm)
    packed_rows, short = places[1 - view.vector] == "packed", is_short(view, blocks)
    if packed_rows or short or blocks.algorithm == "dot":
        yield "knm"
        all_rows = blocks.bm * view.depth * item
        several = blocks.bk < view.depth and not short
        if packed_rows and several and blocks.algorithm == "matrix" and all_rows <= target.l2_bytes // 4:
            yield "nkm"
    elif places[view.vector] in PACKED_BEFORE and blocks.bn * view.depth * item <= target.l2_bytes // _SHARE_OF_COLUMNS:
        yield "mnk"
    else:
        yield "nkm"
