"""What a Plan says about the GPU kernel of a region without a contraction.

algo_choice  {"nest": "points"}   each thread has a few points of the outputs: pointwise, copies, short reductions
             {"nest": "rows"}     a team of threads has a row: what reductions and scans need is made together
             {"nest": "tile"}     a block has a tile of the outputs; what crosses them goes through shared memory
             {"loops": "i0 i1i2"} points, tile: the loops over the outputs, merged axes together, lanes along the last;
                                  the one before that is the tile's other, along which lanes read
             {"team": "near"}     rows: the threads of a team are neighbours ("far": neighbours have neighbouring rows)
             {"keep": "reg"}      rows: what a thread has of its row stays in registers from one reduction to the next
                                  ("smem": what it loads of it stays in shared memory)
tile         points: (threads, vectors of each thread); rows: (rows of a block, threads of a team); tile: elements of
             the last loop but one, and of the last
bind         {"p.o": "block", "p.i": "thread"}   blocks of points or rows, and what is in them
vectorize    the neighbours that one thread loads and stores at once, along the last loop ("e": along the row)
layout_hints {"split_k": 8}  rows: so many blocks share a row, each with a part of it; the last joins the parts
predicate_tail  "p" where the last block is not full of points or rows, "e" where the last turn of a row is not; of
             tiles, the loops that they do not divide
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from codegen.plan.gpu.nest_blocks import Points, Rows, Tiles, loop_name
from codegen.plan.plan_check import TemplateChoices, check_open_fields
from codegen.plan.region_loops import RegionLoops, loop_axes
from codegen.plan.relative_sums import relative_sums
from ir.axis_map import AxisMap, support
from ir.diagnostics import Kind, fail
from ir.gpu import WARP_LANES
from ir.gpu_limits import LIMITS, MAX_THREADS
from ir.plan import Plan
from ir.poly_core import MemoryAccess
from ir.region import behind

STAGE = "gpu_nest_choices"
BIND = {"p.o": "block", "p.i": "thread"}
ELEMENTS = "e"
"""`Vectorize.axis` along a row."""
_CHOICES = TemplateChoices(
    {"nest": ("points", "rows", "tile"), "loops": None, "team": ("near", "far"), "keep": ("reg", "smem", "none")},
    {"split_k": None},
    tuple(BIND),
)


def check_gpu_nest(plan: Plan) -> None:
    """Raises EqsatError, UnsupportedOp or MalformedGraph, for a plan that says what a nest on a GPU cannot do."""
    if plan.arch not in LIMITS:
        fail(Kind.UNKNOWN_TARGET, STAGE, f"a plan for {plan.arch} on a GPU", hint=", ".join(LIMITS))
    check_open_fields(plan, _CHOICES, STAGE, ("block", "thread"))
    if plan.stages != 1 or plan.warp_tile or plan.cache or plan.epilogue or plan.local_edges:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a nest has one stage, and no warp_tile, cache, epilogue or local edges")
    if len(plan.tile) != 2 or min(plan.tile) < 1 or dict(plan.bind) != BIND:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a nest with the tile {plan.tile} and bind {plan.bind}")
    if "split_k" in plan.layout_hints and plan.algo_choice.get("nest") != "rows":
        fail(Kind.UNSUPPORTED_OP, STAGE, "blocks share rows alone", hint="nest: rows")


def points_of(loops: RegionLoops, plan: Plan) -> Points:
    """Raises EqsatError for a plan of points that contradicts the region."""
    check_gpu_nest(plan)
    axes, extents = _loops_of(loops, plan)
    width = 1
    if plan.vectorize is not None:
        if (
            not axes
            or plan.vectorize.axis != loop_name(axes[-1])
            or (len(axes) > 1 and extents[-1] % plan.vectorize.width)
        ):
            message = f"{plan.vectorize.width} neighbours at once along {plan.vectorize.axis}"
            fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=plan.vectorize.axis)
        width = plan.vectorize.width
    found = Points(axes, extents, width, *plan.tile)
    _check_block(found.threads)
    if loops.scan_axes(loops.shape) and 0 not in loops.shape:
        fail(Kind.UNSUPPORTED_OP, STAGE, "threads that have points cannot carry a scan", hint="nest: rows")
    _check_tails(found.tails, plan)
    return found


def rows_of(loops: RegionLoops, plan: Plan) -> Rows:
    """Raises EqsatError for a plan of rows that contradicts the region."""
    check_gpu_nest(plan)
    axes, inner = row_axes(loops)
    height, team = plan.tile
    near, keep = plan.algo_choice.get("team", "near") == "near", plan.algo_choice.get("keep", "none")
    width = plan.vectorize.width if plan.vectorize is not None else 1
    count = math.prod(loops.shape[axis] for axis in axes)
    split = int(plan.layout_hints.get("split_k", 1))
    found = Rows(axes, inner, count, row_length(loops), height, team, near, keep, width, split)
    _check_block(found.threads)
    if near and team > 1 and (team & (team - 1) if team < WARP_LANES else team % WARP_LANES):
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a team of {team}: a power of two, or whole warps")
    if not near and width > 1:
        fail(Kind.UNSUPPORTED_OP, STAGE, "neighbouring threads have neighbouring rows, and one element at once")
    if found.in_shared and near and team <= WARP_LANES:
        fail(Kind.UNSUPPORTED_OP, STAGE, "a warp that meets no other keeps its row in registers", hint="keep: reg")
    if plan.vectorize is not None and plan.vectorize.axis != ELEMENTS:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"vectors along {plan.vectorize.axis} in a row", hint=ELEMENTS)
    if loops.scan_axes(loops.shape) and (width > 1 or not near):
        fail(Kind.UNSUPPORTED_OP, STAGE, "a scan is carried from neighbour to neighbour", hint="team: near, width 1")
    if split != 1:
        _check_split(loops, found)
    _check_tails(found.tails, plan)
    return found


def tiles_of(loops: RegionLoops, plan: Plan) -> Tiles:
    """Raises EqsatError for a plan of tiles that contradicts the region."""
    check_gpu_nest(plan)
    axes, extents = _loops_of(loops, plan)
    pointwise = not any(op.reduced or op.kind == "scan" for op in loops.ops.values())
    if len(axes) < 2 or 0 in extents or not pointwise or plan.vectorize is not None:
        message = "tiles are of two loops over the outputs, of regions without reductions, and of single elements"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, loops=plan.algo_choice.get("loops"))
    found = Tiles(axes, extents, *plan.tile)
    if found.across % WARP_LANES or found.along % WARP_LANES:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a tile of {found.across} x {found.along}: multiples of {WARP_LANES}")
    _check_tails(found.tails, plan)
    return found


def crossing_reads(loops: RegionLoops, axes: Sequence[Sequence[int]]) -> tuple[MemoryAccess, ...]:
    """The reads whose neighbours lie along the last loop but one, each place once."""
    across, along = axes[-2][-1], axes[-1][-1]
    found: dict[tuple[str, AxisMap], MemoryAccess] = {}
    for each in loops.core.accesses:
        if each.scope == loops.scope and each.input >= 0 and each.indirect is None and not each.map.guards:
            steps = each.strides[across].step, each.strides[along].step
            if steps[0] == 1 and steps[1] not in (0, 1):
                found.setdefault((each.buffer, each.map), each)
    return tuple(found.values())


def row_axes(loops: RegionLoops) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The outer axes that number the rows, and those inside a row: reductions are made once a row, scans along it."""
    shape, carried = loops.shape, loops.scan_axes(loops.shape)
    needed = {int(name[1:]) for value in row_values(loops) for name in loops.core.finished[value]}
    if carried:
        needed = {axis for axis in range(len(shape)) if axis not in carried}
    rows = tuple(axis for axis in range(len(shape)) if axis in needed)
    return rows, tuple(axis for axis in range(len(shape)) if axis not in needed)


def row_values(loops: RegionLoops) -> tuple[str, ...]:
    """The reductions that are finished in the outer scope, in the body's order."""
    names = (let.name for let in loops.region.body if let.op.kind == "reduce")
    return tuple(name for name in names if loops.core.finished.get(name) is not None)


def can_split(loops: RegionLoops, *, relative: bool = True) -> bool:
    """Whether several blocks may share a row: all that is made of it is reductions side by side, whose terms may be
    joined in any order, or, if `relative`, sums relative to a maximum among them; and what follows once a row."""
    names, (_, inner) = row_values(loops), row_axes(loops)
    bases = {name: {each.maximum} for name, each in relative_sums(loops.region).items()} if relative else {}
    below = {name: set(behind(loops.ops, name)) & (set(names) - {name}) for name in names}
    alone = all(below[name] == bases.get(name, set()) or not below[name] for name in names)
    alike = len({terms_of(loops, name) for name in names}) == 1
    of_row = all(loops.shape[axis] == 1 for axis in inner)
    ordered = any(loops.in_order(name) for name, op in loops.ops.items() if op.reduced or op.kind == "scan")
    return alone and alike and of_row and not ordered and not loops.scan_axes(loops.shape)


def row_length(loops: RegionLoops) -> int:
    """Elements of the longest pass over a row."""
    _, inner = row_axes(loops)
    lengths = [math.prod(loops.shape[axis] for axis in inner)]
    lengths += [terms_of(loops, name) for name in row_values(loops)]
    return max(lengths)


def kept_buffers(loops: RegionLoops) -> tuple[str, ...]:
    """The inputs that several passes over a row read, element by element."""
    return tuple(name for name, scopes in row_passes(loops).items() if len(scopes) > 1)


def row_passes(loops: RegionLoops) -> dict[str, set[str]]:
    """The inputs that passes over a row read element by element, each with the scopes of those passes."""
    passes: dict[str, set[str]] = {}
    _, inner = row_axes(loops)
    for each in loops.core.accesses:
        if each.input >= 0 and each.scope in (loops.scope, *row_values(loops)):
            rank = len(loops.ops[each.scope].shape) if each.scope in loops.ops else 0
            along = inner if each.scope == loops.scope else range(rank, len(each.map.sizes))
            if not support(each.map).isdisjoint(along):
                passes.setdefault(each.buffer, set()).add(each.scope)
    return passes


def terms_of(loops: RegionLoops, name: str) -> int:
    """Terms of each value of a reduction."""
    op = loops.ops[name]
    return math.prod(op.domain[len(op.shape) :])


def _loops_of(loops: RegionLoops, plan: Plan) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The axes and the extent of each loop over the outputs."""
    names = plan.algo_choice.get("loops", "").split()
    axes = tuple(tuple(loop_axes(name)) for name in names)
    extents = tuple(math.prod(loops.shape[axis] for axis in each if axis < len(loops.shape)) for each in axes)
    if sorted(axis for each in axes for axis in each) != list(range(len(loops.shape))):
        fail(Kind.MALFORMED_GRAPH, STAGE, "the plan's loops do not cover the output", loops=names, shape=loops.shape)
    return axes, extents


def _check_split(loops: RegionLoops, rows: Rows) -> None:
    turns, own = rows.turns(rows.length), rows.own_turns(rows.length) if rows.split > 0 else 0
    if 0 in loops.shape or not can_split(loops) or rows.in_shared:
        message = "blocks share a row of reductions side by side, in any order of terms, of which registers keep parts"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, keep=rows.keep)
    if rows.split < 1 or (rows.split - 1) * own >= turns:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"{rows.split} blocks cannot share {turns} turns")


def _check_block(threads: int) -> None:
    if threads % WARP_LANES or threads > MAX_THREADS:
        fail(Kind.MALFORMED_GRAPH, STAGE, f"a block of {threads} threads: whole warps, at most {MAX_THREADS}")


def _check_tails(tails: tuple[str, ...], plan: Plan) -> None:
    """A tail that the plan does not name is a promise that there is none."""
    missing = [each for each in tails if each not in plan.predicate_tail]
    if missing:
        message = f"the plan promises that tiles divide {', '.join(missing)}, and they do not"
        fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, tail=missing)
