"""The loops over the outputs that a plan of a nest says, and the check that a plan fits the region."""

from __future__ import annotations

import math
from dataclasses import dataclass

from codegen.plan.cpu.kept_rows import KeptRow, kept_rows
from codegen.plan.plan_check import STAGE, check_cpu
from codegen.plan.region_loops import Group, RegionLoops
from codegen.poly.tail_axes import Steps, check_tails
from ir.diagnostics import Kind, fail
from ir.plan.cpu import CpuNestPlan
from ir.target import LANES, VECTOR_REGISTERS


@dataclass(frozen=True)
class NestLoop:
    """One loop of the nest. A step is `width` elements: lanes of registers where `vector`, else rows. `split`: ranges
    of rows whose reads need no check are loops of their own."""

    group: Group
    tile: int
    bound: bool = False
    vector: bool = False
    width: int = 1
    split: bool = True

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
        """The steps that a tail may cut: blocks, or the vectors of the only block."""
        return Steps(self.name, self.extent, self.tile if self.blocks > 1 else self.width)


def check_nest_plan(loops: RegionLoops, plan: CpuNestPlan) -> None:
    """Raises EqsatError where a plan does not fit: UnknownTarget for another machine's plan; AlignmentMismatch where
    steps do not divide; MalformedGraph where the plan contradicts the region; UnsupportedOp where the template does not
    have the choice."""
    check_cpu(plan.arch)
    shape, axes = loops.shape, [axis for loop in plan.loops for axis in loop.axes]
    if sorted(axes) != list(range(len(shape))):
        fail(Kind.MALFORMED_GRAPH, STAGE, "the plan's loops do not cover the output", loops=plan.loops, shape=shape)
    places = range(len(plan.loops))
    if (plan.lanes is not None and plan.lanes not in places) or not {*plan.threads} <= {*places}:
        message = f"lanes {plan.lanes} and threads {plan.threads} are no loops of the nest"
        fail(Kind.MALFORMED_GRAPH, STAGE, message, loops=plan.loops)
    if min(plan.rows, 1 if plan.part is None else plan.part, *(loop.tile for loop in plan.loops)) < 1:
        fail(Kind.MALFORMED_GRAPH, STAGE, "tiles, rows and parts are one at least", plan=plan)
    if plan.rescaled < 2:
        fail(Kind.MALFORMED_GRAPH, STAGE, "a stream takes two terms or more between rescalings", plan=plan)
    for loop in nest_loops(loops, plan):
        if loop.tile > max(1, loop.extent):
            message = f"a tile of {loop.tile} is longer than the loop of {loop.extent}"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, at=loop.name)
    _check_widths(loops, plan)
    if plan.rows > 1:
        _check_rows(loops, plan)
    _check_threads(loops, plan)
    _check_scans(loops, plan)
    _check_streams(loops)
    _check_kept(loops, plan)
    if plan.part is not None and (
        not loops.divisible_reductions or 0 in loops.ops[loops.divisible_reductions[0]].domain
    ):
        message = "the reductions of the region can not be cut into parts"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=loops.region.name)
    check_tails([loop.steps for loop in nest_loops(loops, plan)], plan.tails, STAGE, loops.region.name)


def _check_widths(loops: RegionLoops, plan: CpuNestPlan) -> None:
    lanes, width = LANES[plan.arch], plan.width
    if plan.lanes is None and width != lanes:
        message = f"lanes along the terms of a reduction must fill one register of {lanes}"
        fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, width=width)
    if width < 1 or width % lanes:
        message = f"{width} elements are no whole number of registers of {lanes} lanes"
        fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, width=width)
    for loop in nest_loops(loops, plan):
        if loop.blocks > 1 and loop.tile % loop.width:
            message = f"a tile of {loop.tile} is no whole number of steps of {loop.width}"
            fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=loop.name)


def _check_rows(loops: RegionLoops, plan: CpuNestPlan) -> None:
    if plan.part is not None or plan.row_loop is None:
        message = "rows that run together need a loop over outputs without lanes, and reductions that are not in parts"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, rows=plan.rows)
    if any(op.kind == "scan" for op in loops.ops.values()):
        fail(Kind.UNSUPPORTED_OP, STAGE, "a scan goes through one row at a time", rows=plan.rows)


def _check_threads(loops: RegionLoops, plan: CpuNestPlan) -> None:
    for loop in (plan.loops[position] for position in plan.threads):
        if not set(loop.axes).isdisjoint(loops.core.sequential_axes):
            message = f"a scan carries its value along {loop.name}: threads can not share it"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=loop.name)
        if not loops.has_own_outputs(loop.axes):
            fail(Kind.UNSUPPORTED_OP, STAGE, f"tasks along {loop.name} would write the same elements", at=loop.name)


def _check_scans(loops: RegionLoops, plan: CpuNestPlan) -> None:
    """A scan carries its value through the innermost loop that the kernel has, which must be the scan's own."""
    carried = loops.scan_axes(loops.shape)
    if not carried or 0 in loops.shape:
        return
    *_, inner = (loop for loop in nest_loops(loops, plan) if loop.extent > 1 or loop.vector)
    if inner.blocks > 1 or [axis for axis in inner.group.axes if loops.shape[axis] > 1] != carried:
        message = f"a scan carries its value along i{carried[0]}, which is not the innermost loop in one block"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, loops=plan.loops)


def _check_streams(loops: RegionLoops) -> None:
    for name, op in loops.ops.items():
        if op.kind == "stream" and loops.in_order(name):
            message = "the terms of a stream are rescaled together, not in index order"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=name)


def _check_kept(loops: RegionLoops, plan: CpuNestPlan) -> None:
    """A thread keeps one row at a time: lanes share the row, and no reduction is in parts."""
    rows = {row.kept: row for row in kept_rows(loops)} if plan.kept else {}
    lanes = () if plan.lanes is None else plan.loops[plan.lanes].axes
    for kept in plan.kept:
        if kept not in rows or plan.part is not None or not can_keep(rows[kept], lanes):
            fail(Kind.UNSUPPORTED_OP, STAGE, f"no row of {kept.value} can be kept for {kept.until}", at=kept.value)


def holds_terms(loops: RegionLoops, width: int, arch: str) -> bool:
    """Whether half of the vector registers hold an element per term of the reductions, for every register of a step of
    `width` lanes, so that outer loops may load elements that are the same at several points."""
    terms = sum(math.prod(op.domain[len(op.shape) :]) for op in loops.ops.values() if op.kind == "reduce")
    return terms * -(-width // LANES[arch]) <= VECTOR_REGISTERS[arch] // 2


def can_keep(row: KeptRow, lanes: tuple[int, ...]) -> bool:
    """Whether lanes along these axes share one row."""
    return row.outer.isdisjoint(lanes)


def kept_rows_of(loops: RegionLoops, plan: CpuNestPlan) -> list[KeptRow]:
    """The rows that a plan keeps."""
    rows = {row.kept: row for row in kept_rows(loops)} if plan.kept else {}
    return [rows[row] for row in plan.kept]


def nest_loops(loops: RegionLoops, plan: CpuNestPlan) -> tuple[NestLoop, ...]:
    """The loops over the points of the first output."""
    rows = plan.row_loop if plan.rows > 1 else None
    nest = []
    for position, loop in enumerate(plan.loops):
        group = Group.whole(loop.axes, [loops.shape[axis] for axis in loop.axes], "i")
        vector = position == plan.lanes
        width = plan.width if vector else plan.rows if position == rows else 1
        nest.append(NestLoop(group, loop.tile, position in plan.threads, vector, width))
    return tuple(nest)
