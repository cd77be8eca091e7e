"""Plan → Schedule: a plan in the fields of seed 000 §8, the form in which it is printed, dumped and explained."""

from __future__ import annotations

import msgspec

from ir.plan.cpu import CpuContractionPlan, CpuNestPlan, CpuScatterPlan, CpuStreamPlan
from ir.plan.gpu import BlockPlaces, GpuContractionPlan, GpuStreamPlan
from ir.plan.gpu_nest import GpuPointsPlan, GpuRowsPlan, GpuScatterPlan, GpuTilesPlan, loop_name
from ir.plan.plan import Plan
from ir.plan.schedule import Cached, LocalEdge, Schedule, Vectorize


def plan_to_schedule(plan: Plan) -> Schedule:
    """The printed form of a plan."""
    match plan:
        case CpuContractionPlan():
            return _cpu_contraction(plan)
        case CpuStreamPlan():
            return _cpu_stream(plan)
        case CpuNestPlan():
            return _cpu_nest(plan)
        case CpuScatterPlan():
            return _cpu_scatter(plan)
        case GpuContractionPlan():
            return _gpu_contraction(plan)
        case GpuStreamPlan():
            return _gpu_stream(plan)
        case GpuPointsPlan():
            return _gpu_points(plan)
        case GpuRowsPlan():
            return _gpu_rows(plan)
        case GpuTilesPlan():
            return _gpu_tiles(plan)
        case GpuScatterPlan():
            return _gpu_scatter(plan)


_FILLED = {"box": "m.o", "packed_once": "start", "const_pool": "build", "const_parts": "build"}
"""When boxes and panels are filled; "packed" ones at a loop that depends on the operand."""


def _cpu_contraction(plan: CpuContractionPlan) -> Schedule:
    blocks = plan.blocks
    rows = "k.o" if plan.order == "knm" else "m.o"
    steps = ("n.i", rows) if plan.vector == 0 else (rows, "n.i")
    cache = (
        Cached(operand.tensor, operand.place, {**_FILLED, "packed": step}[operand.place])
        for operand, step in zip(plan.operands, steps, strict=True)
        if operand.place != "memory"
    )
    return Schedule(
        arch=plan.arch,
        algo_choice={plan.pattern: blocks.algorithm},
        tile=(blocks.bm, blocks.bn, blocks.bk),
        bind=dict.fromkeys(("batch", "m.o", "n.o") if plan.parallel else (), "thread"),
        vectorize=Vectorize("k" if blocks.algorithm == "dot" else "n", blocks.lanes),
        warp_tile=f"{blocks.mr}x{blocks.nr}",
        cache=tuple(cache),
        predicate_tail=plan.tails,
        epilogue=plan.epilogue,
        ordered=plan.ordered,
        layout_hints={
            "vector": "rhs" if plan.vector else "lhs",
            "loops": " ".join(plan.order),
            **({"prefetch": "columns"} if plan.prefetch else {}),
            **({"sums": "registers"} if plan.held else {}),
        },
        notes=plan.notes,
    )


def _cpu_stream(plan: CpuStreamPlan) -> Schedule:
    blocks = plan.blocks
    return Schedule(
        arch=plan.arch,
        algo_choice={"attention": "online", **({"scores": "dot"} if blocks.dot else {})},
        tile=(blocks.bm, blocks.br, blocks.bc),
        bind=dict.fromkeys(("batch", "m.o") if plan.parallel else (), "thread"),
        vectorize=Vectorize("n" if plan.products else "k", plan.vectors),
        warp_tile=f"{blocks.mr}x{blocks.nr}",
        cache=tuple(Cached(tensor.tensor, "packed", tensor.at) for tensor in plan.packed),
        predicate_tail=plan.tails,
        epilogue=plan.epilogue,
        layout_hints={
            **({"unseen": "skipped"} if blocks.stops else {}),
            **({"heads": "together"} if plan.together else {}),
        },
        notes=plan.notes,
    )


def _cpu_nest(plan: CpuNestPlan) -> Schedule:
    names = [loop.name for loop in plan.loops]
    choice, tile = {"nest": " ".join(names)}, tuple(loop.tile for loop in plan.loops)
    bind = {f"{names[position]}.o": "thread" for position in plan.threads}
    if plan.part is not None:
        choice, tile, bind = {**choice, "reduce": "split"}, (*tile, plan.part), {**bind, "r.o": "thread"}
    return Schedule(
        arch=plan.arch,
        algo_choice=choice,
        tile=tile,
        bind=bind,
        vectorize=Vectorize("r0" if plan.lanes is None else names[plan.lanes], plan.width),
        warp_tile=f"{plan.rows}x{plan.width}" if plan.rows > 1 else "",
        predicate_tail=plan.tails,
        ordered=plan.ordered,
        local_edges=tuple(LocalEdge(kept.value, kept.until, "stack") for kept in plan.kept),
        notes=plan.notes,
    )


def _cpu_scatter(plan: CpuScatterPlan) -> Schedule:
    """The fields of the nest that writes the source, with the loops over updates under names of their own."""
    names = [loop.name for loop in plan.loops]
    tiles = tuple(loop.tile for loop in plan.loops)
    source = Schedule(plan.arch, {}, tiles, {}) if plan.source is None else _cpu_nest(plan.source)
    bind, hints = dict(source.bind), dict(source.layout_hints)
    if plan.threads is not None:
        bind[f"updates.{names[plan.threads]}.o"] = "thread"
        hints["updates.tile"] = plan.loops[plan.threads].tile
    if plan.lanes is not None:
        hints["updates.lanes"] = names[plan.lanes]
    choice = {**source.algo_choice, "scatter": " ".join(names)}
    return msgspec.structs.replace(source, algo_choice=choice, bind=bind, layout_hints=hints, notes=plan.notes)


def _gpu_contraction(plan: GpuContractionPlan) -> Schedule:
    tile = plan.tile
    hints: dict[str, str | bool | int] = {"C_store": tile.store}
    if tile.thread is None:
        hints |= zip(("lhs_swizzle", "rhs_swizzle"), map(tile.is_swizzled, tile.stagings), strict=True)
    else:
        hints["thread_tile"] = f"{tile.thread[0]}x{tile.thread[1]}"
    if tile.raster > 1:
        hints["raster"] = tile.raster
    if tile.split > 1:
        hints["split_k"] = tile.split
    return Schedule(
        arch=plan.arch,
        algo_choice={plan.pattern: tile.algorithm},
        tile=(tile.bm, tile.bn, tile.bk),
        bind={**_blocks(plan.places, tile.split), "m.i.o": "warp.y", "n.i.o": "warp.x"},
        vectorize=Vectorize("n.i.i", tile.store_width),
        stages=tile.stages,
        warp_tile=f"{tile.warp_m}x{tile.warp_n}",
        cache=tuple(Cached(tensor, "smem", "k.o", pingpong=tile.stages > 1) for tensor in plan.operands),
        predicate_tail=plan.tails,
        epilogue=plan.epilogue,
        ordered=plan.ordered,
        layout_hints=hints,
        local_edges=(LocalEdge(plan.sums, plan.result),) if plan.epilogue else (),
        notes=plan.notes,
    )


def _blocks(places: BlockPlaces, split: int) -> dict[str, str]:
    """The unit that runs every piece: tiles of a product, and parts of its terms if there are several."""
    pieces = {"batch": places.batch, "m.o": places.rows, "n.o": places.columns}
    if split > 1:
        pieces["k.o"] = places.parts
    return {piece: f"block.{axis}" for piece, axis in pieces.items()}


def _gpu_stream(plan: GpuStreamPlan) -> Schedule:
    tile, lead, thread = plan.tile, plan.tile.lead, plan.tile.scores.thread
    pipelined = tile.stages > 1
    hints: dict[str, str | bool | int] = {"C_store": lead.store}
    if thread is not None:
        hints["thread_tile"] = f"{thread[0]}x{thread[1]}"
    else:
        hints["queries"] = "registers" if tile.held else "shared"
        hints["fragments"] = "ahead" if tile.ahead else "in time"
    if tile.stops:
        hints["unseen"] = "skipped"
    if plan.together:
        hints["heads"] = "together"
    if tile.split > 1:
        hints["split_k"] = tile.split
    cache = [Cached(tensor, "smem", "k.o", pipelined) for tensor in plan.values]
    if plan.scored is not None:
        queries, keys = plan.scored
        cache = [Cached(queries, "smem", "m.o"), Cached(keys, "smem", "k.o", pipelined), *cache]
    return Schedule(
        arch=plan.arch,
        algo_choice={"attention": tile.algorithm},
        tile=(lead.bm, lead.bn, tile.terms),
        bind={**_blocks(plan.places, tile.split), "m.i.o": "warp.x"},
        vectorize=Vectorize("n.i.i", lead.store_width),
        stages=tile.stages,
        warp_tile=f"{tile.warp_m}x{lead.bn}",
        cache=tuple(cache),
        predicate_tail=plan.tails,
        epilogue=plan.epilogue,
        layout_hints=hints,
        notes=plan.notes,
    )


_POINTS_OR_ROWS = {"p.o": "block", "p.i": "thread"}
"""Binds blocks of points or rows to blocks, and the points or rows inside to threads."""


def _gpu_points(plan: GpuPointsPlan) -> Schedule:
    points = plan.points
    names = [loop_name(axes) for axes in points.axes]
    return Schedule(
        arch=plan.arch,
        algo_choice={"nest": "points", "loops": " ".join(names)},
        tile=(points.threads, points.turns),
        bind=dict(_POINTS_OR_ROWS),
        vectorize=Vectorize(names[-1], points.width) if points.width > 1 else None,
        predicate_tail=points.tails,
        ordered=plan.ordered,
        notes=plan.notes,
    )


def _gpu_rows(plan: GpuRowsPlan) -> Schedule:
    rows = plan.rows
    return Schedule(
        arch=plan.arch,
        algo_choice={"nest": "rows", "team": "near" if rows.near else "far", "keep": rows.keep},
        tile=(rows.height, rows.team),
        bind=dict(_POINTS_OR_ROWS),
        vectorize=Vectorize("e", rows.width) if rows.width > 1 else None,
        predicate_tail=rows.tails,
        ordered=plan.ordered,
        layout_hints={"split_scan" if rows.scans else "split_k": rows.split} if rows.split > 1 else {},
        notes=plan.notes,
    )


def _gpu_tiles(plan: GpuTilesPlan) -> Schedule:
    tiles = plan.tiles
    return Schedule(
        arch=plan.arch,
        algo_choice={"nest": "tile", "loops": " ".join(map(loop_name, tiles.axes))},
        tile=(tiles.across, tiles.along),
        bind=dict(_POINTS_OR_ROWS),
        predicate_tail=tiles.tails,
        ordered=plan.ordered,
        notes=plan.notes,
    )


def _gpu_scatter(plan: GpuScatterPlan) -> Schedule:
    return Schedule(
        arch=plan.arch,
        algo_choice={"nest": "scatter"},
        tile=(plan.threads, plan.parts),
        bind=dict(_POINTS_OR_ROWS),
        notes=plan.notes,
    )
