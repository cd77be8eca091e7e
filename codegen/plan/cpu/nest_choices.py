"""What a Plan says about the nest of a region without a contraction.

algo_choice  {"nest": "i0 i1i2"}   the loops, outermost first; merged axes stand together
             {"reduce": "split"}   the reductions are cut into parts that run side by side
tile         one block size per loop, in elements, then the size of a part where the reduction is split
bind         {"i0.o": "thread"}    the blocks of this loop are tasks
vectorize    the loop that lanes run along and the elements per step: whole registers, or fewer lanes than one has;
             "r0" means that lanes run along the reduced axes and outputs are written one by one
warp_tile    "4x16": 4 rows, points of the innermost loop besides that of the lanes, run together, each in steps of 16
             elements, so that one goes on while the lanes of another are summed; empty for one row at a time
layout_hints {"stream": true}      stores bypass the caches
local_edges  exp → y, "stack"      a row of the value is kept on chip (`codegen.plan.cpu.kept_rows`)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from codegen.plan.cpu.kept_rows import KeptRow, kept_rows
from codegen.plan.plan_check import TemplateChoices, check_choices, runs_parallel
from codegen.plan.region_loops import Group, RegionLoops, loop_axes
from codegen.where.tails import Steps, check_tails
from ir.diagnostics import Kind, fail
from ir.plan import Plan
from ir.target import LANES

STAGE = "nest_choices"
TERMS = "r0"
"""`Vectorize.axis` where lanes run along the terms of reductions."""


@dataclass(frozen=True)
class NestLoop:
    """One loop of the nest. `width` elements are one step: lanes of registers where `vector`, else rows."""

    group: Group
    tile: int
    bound: bool = False
    vector: bool = False
    width: int = 1

    @property
    def name(self) -> str:
        return self.group.name

    @property
    def extent(self) -> int:
        return self.group.extent

    @property
    def blocks(self) -> int:
        return -(-self.extent // self.tile)

    @property
    def steps(self) -> Steps:
        """What a tail may cut: blocks, or the vectors of the only one."""
        return Steps(self.name, self.extent, self.tile if self.blocks > 1 else self.width)


def check_nest_plan(plan: Plan) -> None:
    """Raises EqsatError, UnsupportedOp or MalformedGraph, for a plan that says what a nest cannot do."""
    loops = loop_names(plan)
    pieces = [f"{name}.o" for name in (*loops, *("r" for _ in range(is_split(plan))))]
    check_choices(
        plan, TemplateChoices({"nest": None, "reduce": ("split",)}, {"stream": (True, False)}, pieces, True), STAGE
    )
    if plan.cache or plan.epilogue:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a nest has no cache or epilogue", hint="leave them empty")
    if len(plan.tile) != len(loops) + is_split(plan) or min(plan.tile, default=1) < 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{len(loops)} loops have the tile {plan.tile}", nest=loops)
    if plan.vectorize and plan.vectorize.axis not in (*loops, TERMS):
        message = f"lanes run along {plan.vectorize.axis!r}, which is no loop of the nest"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, nest=loops)
    if plan.vectorize and plan.vectorize.axis == TERMS and plan.vectorize.width != LANES[plan.arch]:
        message = f"lanes along the terms of a reduction fill registers of {LANES[plan.arch]}"
        fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=TERMS, width=plan.vectorize.width)
    _check_register_tile(plan)


def _check_register_tile(plan: Plan) -> None:
    tile = re.fullmatch(r"([1-9]\d*)x(\d+)", plan.warp_tile)
    if not plan.warp_tile:
        return
    if tile is None or plan.vectorize is None or int(tile[2]) != plan.vectorize.width:
        message = f"the register tile {plan.warp_tile!r} is not that many rows by the elements of a step"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, vectorize=plan.vectorize)
    if is_split(plan) or row_loop(plan) is None:
        message = "rows run together inside a loop over outputs besides that of the lanes, all their terms at once"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=plan.warp_tile)


def rows_together(plan: Plan) -> int:
    """How many rows run together."""
    return int(plan.warp_tile.partition("x")[0]) if plan.warp_tile else 1


def row_loop(plan: Plan) -> str | None:
    """The loop whose points are rows: the innermost besides that of the lanes."""
    along = plan.vectorize.axis if plan.vectorize else ""
    return next((name for name in reversed(loop_names(plan)) if name != along), None)


def chosen_rows(loops: RegionLoops, plan: Plan) -> list[KeptRow]:
    """The rows that a plan keeps. Raises EqsatError, UnsupportedOp, for one that its lanes or parts do not allow."""
    rows = {row.edge: row for row in kept_rows(loops)} if plan.local_edges else {}
    for edge in plan.local_edges:
        if edge not in rows or not may_keep(rows[edge], plan):
            fail(Kind.UNSUPPORTED_OP, STAGE, f"no row of {edge.src} can be kept for {edge.dst}", at=edge.src)
    return [rows[edge] for edge in plan.local_edges]


def may_keep(row: KeptRow, plan: Plan) -> bool:
    """Whether a thread of this plan has one row at a time: lanes share it, and all its terms are made together."""
    lanes = loop_axes(plan.vectorize.axis) if plan.vectorize else []
    return not is_split(plan) and not row.outer.intersection(lanes)


def loop_names(plan: Plan) -> list[str]:
    """The loops over the outputs, outermost first."""
    return plan.algo_choice.get("nest", "").split()


def is_split(plan: Plan) -> bool:
    """Whether the reductions are cut into parts."""
    return plan.algo_choice.get("reduce") == "split"


def nest_of(loops: RegionLoops, plan: Plan) -> tuple[NestLoop, ...]:
    """The loops over the points of the first output."""
    shape, names = loops.shape, loop_names(plan)
    rows = row_loop(plan) if plan.warp_tile else None
    if rows is not None and any(op.kind == "scan" for op in loops.ops.values()):
        fail(Kind.UNSUPPORTED_OP, STAGE, "a scan goes through one row at a time", at=plan.warp_tile)
    found = []
    for name, tile in zip(names, plan.tile, strict=False):
        axes = loop_axes(name)
        if "".join(f"i{axis}" for axis in axes) != name or any(axis >= len(shape) for axis in axes):
            fail(Kind.MALFORMED_GRAPH, STAGE, f"the plan names a loop {name!r} over axes of shape {shape}", at=name)
        group = Group.whole(axes, [shape[axis] for axis in axes], "i")
        vector = plan.vectorize is not None and plan.vectorize.axis == name
        width = plan.vectorize.width if vector and plan.vectorize else rows_together(plan) if name == rows else 1
        bound = runs_parallel(plan, f"{name}.o")
        if bound and not {f"i{axis}" for axis in axes} <= set(loops.core.parallel_axes):
            message = f"a scan carries its value along {name}: threads can not share it"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=name)
        if bound and not loops.writes_apart(axes):
            fail(Kind.UNSUPPORTED_OP, STAGE, f"tasks along {name} would write the same elements", at=name)
        loop = NestLoop(group, max(1, min(tile, group.extent)), bound, vector, width)
        _check_width(loop, LANES[plan.arch])
        found.append(loop)
    check_tails([loop.steps for loop in found], plan.predicate_tail, STAGE, loops.region.name)
    covered = sorted(axis for loop in found for axis in loop.group.axes)
    if covered != list(range(len(shape))):
        fail(Kind.MALFORMED_GRAPH, STAGE, "the plan's nest does not cover the output", nest=names, shape=shape)
    return tuple(found)


def _check_width(loop: NestLoop, lanes: int) -> None:
    if loop.vector and (loop.width < 1 or (loop.width % lanes and loop.width > lanes)):
        fail(
            Kind.ALIGNMENT_MISMATCH,
            STAGE,
            f"{loop.width} elements are neither whole registers of {lanes} lanes nor fewer lanes than one has",
            at=loop.name,
        )
    if loop.blocks > 1 and loop.tile % loop.width:
        fail(
            Kind.ALIGNMENT_MISMATCH,
            STAGE,
            f"a tile of {loop.tile} is no whole number of steps of {loop.width}",
            at=loop.name,
        )


def split_parts(plan: Plan, extent: int) -> tuple[int, int]:
    """(size of a part, number of whole parts) of a split reduction along `extent` terms."""
    size = max(1, min(plan.tile[-1] if plan.tile else extent, extent))
    return size, extent // size
