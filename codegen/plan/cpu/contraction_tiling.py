"""The loops that the blocks of a contraction's plan cut, and the check that a plan fits the contraction."""

from __future__ import annotations

from functools import lru_cache

from codegen.plan.contraction_view import Contraction, rows_are_neighbours
from codegen.plan.cpu.cell_operands import (
    CELL_ALGORITHMS,
    can_pack_rows,
    grid_of,
    has_cells,
    multiplies,
    rows_in_memory,
    splits_terms,
)
from codegen.plan.cpu.constant_parts import constant_parts
from codegen.plan.cpu.row_box import boxed_blocks, has_even_rows, row_box
from codegen.plan.op_weights import SHORT_FUNCTIONS
from codegen.plan.plan_check import STAGE, check_cpu, fail_malformed, fail_misaligned
from codegen.poly.tail_axes import Steps, check_tails
from ir.diagnostics import Kind, fail
from ir.kernel.cpu.matrix import REGISTERS, ROWS
from ir.plan.cpu import PACKED_AT_BUILD, PACKED_BEFORE, Blocks, CpuContractionPlan, LoopOrder
from ir.region.region import behind
from ir.target import LANES

_MOST_HELD = 4
"""Functions, at most, of an epilogue that takes its sums from registers. The code of the epilogue stands in the kernel
once per register of sums."""


def check_contraction_plan(view: Contraction, plan: CpuContractionPlan) -> None:
    """Raises EqsatError where a plan does not fit: UnknownTarget for another machine's plan; AlignmentMismatch where
    blocks, lanes or axes do not divide; MalformedGraph where the plan contradicts the region; UnsupportedOp where the
    template does not have the choice."""
    check_cpu(plan.arch)
    blocks = plan.blocks
    if min(blocks.mr, blocks.nr, blocks.bm, blocks.bn, blocks.bk) < 1:
        fail_malformed(view, f"{blocks} are not sizes in elements")
    if plan.pattern != view.pattern:
        fail_malformed(view, f"the region is a {view.pattern}, the plan is of a {plan.pattern}")
    if blocks.algorithm == "dot" and view.ordered:
        fail(Kind.UNSUPPORTED_OP, STAGE, "dot products do not sum in index order", at=view.region.name, hint="outer")
    if blocks.lanes != LANES[plan.arch]:
        fail_misaligned(view, f"{blocks.lanes} elements are no register of {LANES[plan.arch]}, which {plan.arch} has")
    _check_multiples(view, blocks)
    _check_operands(view, plan)
    if blocks.algorithm in CELL_ALGORITHMS:
        _check_cells(view, plan)
    if plan.epilogue != view.epilogue:
        fail_malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {view.epilogue}")
    check_tails(steps_of(view, blocks), plan.tails, STAGE, view.region.name)


def steps_of(view: Contraction, blocks: Blocks) -> tuple[Steps, ...]:
    """The loops that a tail may cut: register tiles of m and n; blocks of k, or the vectors of a dot product."""
    k = Steps("k", 1, 1)
    if view.k and view.depth and blocks.algorithm == "dot":
        k = Steps("k", view.extent(view.run(view.vector, view.k)[0]), blocks.lanes)
    elif view.k and view.depth:
        position, inner = block_axis(view, blocks.bk)
        k = Steps("k", view.sizes[position], blocks.bk // inner)
    return Steps("m", view.m, blocks.mr), Steps("n", view.n, blocks.nr), k


def block_axis(view: Contraction, bk: int) -> tuple[int, int]:
    """The reduced digit that blocks of `bk` terms cut, and the terms per step of that digit. `view.k` is not empty."""
    inner = 1
    for position in reversed(view.k):
        if inner * view.sizes[position] > bk:
            return position, inner
        inner *= view.sizes[position]
    return view.k[0], inner // view.sizes[view.k[0]]


def _check_multiples(view: Contraction, blocks: Blocks) -> None:
    for axis, block, tile in (("m", blocks.bm, blocks.mr), ("n", blocks.bn, blocks.nr)):
        if block % tile:
            fail_misaligned(view, f"a block of {block} along {axis} is no whole number of register tiles of {tile}")
    if blocks.algorithm != "dot" and blocks.nr % blocks.lanes:
        fail_misaligned(view, f"{blocks.nr} columns are no whole number of registers of {blocks.lanes} lanes")
    if (blocks.algorithm == "dot" and blocks.bk < view.depth) or blocks.bk > max(view.depth, 1):
        fail_misaligned(view, f"{blocks.algorithm} products do not take {blocks.bk} of {view.depth} terms in one block")
    if view.k and view.depth and blocks.bk % block_axis(view, blocks.bk)[1]:
        inner = block_axis(view, blocks.bk)[1]
        fail_misaligned(view, f"a block of {blocks.bk} terms is no whole number of steps of {inner}")


def _check_operands(view: Contraction, plan: CpuContractionPlan) -> None:
    """The operands are the region's, in places that the template has."""
    for side, operand in enumerate(plan.operands):
        if operand.tensor != view.operand(side).value:
            fail_malformed(
                view, f"operand {side} of `{view.name}` is {view.operand(side).value!r}, not {operand.tensor!r}"
            )
        if operand.place != "memory" and (
            plan.blocks.algorithm == "dot" or (operand.place in PACKED_AT_BUILD and not view.is_constant(side))
        ):
            message = f"{operand.tensor!r} can not be kept in {operand.place} by {plan.blocks.algorithm} products"
            hint = "memory or packed; box for rows, packed_once for columns, const_pool for constants; memory for dots"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name, hint=hint)
        if operand.place == "const_parts" and (side != view.vector or not constant_parts(view)):
            message = f"{operand.tensor!r} has no parts: smaller constants from which tiles compute the columns"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name, hint="const_pool")
        if operand.place == "packed_once" and side != view.vector:
            message, hint = f"{operand.tensor!r} has the rows, which tasks pack", "packed; packed_once for columns"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name, hint=hint)
        if operand.place == "box":
            _check_box(view, plan.blocks, side)
    columns = plan.places[view.vector]
    if columns == "packed" and plan.order == "mnk":
        message = f"loops in the order {plan.order!r} can not pack columns for the next tiles"
        hint = "knm or nkm"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name, hint=hint)
    if plan.prefetch and (columns not in PACKED_BEFORE or plan.order == "mnk"):
        message = "there are no further panels of packed columns to prefetch"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name, hint="prefetch=False")
    if plan.held and not can_hold(view, plan.blocks):
        message = "the epilogue can not take the sums from registers"
        hint = "one block of k, whole tiles, outputs contiguous along the columns, and up to four short functions"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name, hint=hint)


def _check_cells(view: Contraction, plan: CpuContractionPlan) -> None:
    """The machine multiplies cells of the operands, and loads the cells from the places of the operands."""
    blocks, at = plan.blocks, view.region.name
    algorithm = blocks.algorithm
    if not has_cells(view, algorithm):
        hint = "outer; i8 or u8 with sums in i32; bf16 with sums in fp32, but for quads"
        message = f"products of {algorithm} do not multiply {view.name!r} with sums in {view.accumulator}"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=at, hint=hint)
    if not multiplies(plan.arch, view, algorithm):
        lacks = {"pairs": "products of two bf16", "quads": "products of four bytes", "matrix": "matrix registers"}
        fail(Kind.UNKNOWN_TARGET, STAGE, f"{plan.arch} has no {lacks[algorithm]}", at=at, hint="pairs or outer")
    down, across, _ = grid_of(blocks)
    if algorithm == "matrix" and (blocks.mr % down or blocks.nr % ROWS or down * across + down + 1 > REGISTERS):
        fail_misaligned(view, f"sums of {blocks.mr} x {blocks.nr} are no whole matrix registers, of which there are 8")
    if not splits_terms(view, algorithm, blocks.bk):
        fail_misaligned(view, f"a block of {blocks.bk} terms is no whole number of cells, or rows of matrix registers")
    rows, columns = plan.places[1 - view.vector], plan.places[view.vector]
    loads = (
        rows_in_memory(view, blocks) is not None if rows == "memory" else rows != "box" and can_pack_rows(view, blocks)
    )
    if columns in ("memory", "const_parts") or not loads:
        message = f"products of {algorithm} can not load rows from {rows} and columns from {columns}"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=at, hint="packed or packed_once; const_pool for constants")


def can_hold(view: Contraction, blocks: Blocks) -> bool:
    """Whether the epilogue can take a tile's sums from the registers."""
    whole = (
        blocks.algorithm == "outer" and blocks.bk >= view.depth and not view.m % blocks.mr and not view.n % blocks.nr
    )
    return whole and _has_short_epilogue(view)


@lru_cache(maxsize=64)
def _has_short_epilogue(view: Contraction) -> bool:
    """Whether few and short functions follow the sums, and lanes run along neighbouring columns of the output."""
    inside = {name for side in (0, 1) for name in behind(view.ops, view.operand(side).value)}
    after = [op.fn for name, op in view.ops.items() if name not in inside and name != view.name]
    short = len(after) <= _MOST_HELD and SHORT_FUNCTIONS.issuperset(after)
    return short and not rows_are_neighbours(view) and view.out_step(view.columns) == 1


def _check_box(view: Contraction, blocks: Blocks, side: int) -> None:
    """Refuses a box for an operand that has none."""
    name, row = view.operand(side).value, view.sizes[view.rows[-1]] if view.rows else 1
    if side == view.vector:
        reason, hint = f"{name!r} has the columns; a box holds rows", "box for the other operand alone"
    elif not has_even_rows(view, blocks.mr):
        reason = f"tiles of {blocks.mr} rows do not divide the {row} rows of the innermost axis"
        hint = f"mr a divisor of {row}"
    elif not boxed_blocks(view):
        reason, hint = f"{name!r} is not read by steps of its axes with zeros around it", "packed"
    elif row_box(view, blocks.bm) is None:
        reason = f"a block of {blocks.bm} rows of {name!r} is no box of whole axes"
        hint = f"bm one of {', '.join(str(bm) for bm, _ in boxed_blocks(view) if bm % blocks.mr == 0)}"
    else:
        return
    fail(Kind.UNSUPPORTED_OP, STAGE, reason, at=view.region.name, hint=hint)


def kept_tiles(blocks: Blocks, order: LoopOrder) -> int:
    """Register tiles of a task whose sums are kept between blocks of k: all tiles that the loops inside the loop over
    blocks of k pass."""
    rows, columns = blocks.bm // blocks.mr, blocks.bn // blocks.nr
    return {"knm": rows * columns, "nkm": rows, "mnk": 1}[order]
