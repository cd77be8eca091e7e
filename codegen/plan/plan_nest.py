"""Candidate plans of a region without a contraction, and the work that each makes the machine do.

A candidate says which loop lanes run along (an output axis, or the reduced axes), how the outputs are blocked, and
what runs in parallel. The model counts the cycles of one core per vector: arithmetic, and loads and stores by how
their lanes lie in memory; traffic beyond the caches is the buffers' own size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from codegen.plan.nest_axes import View, reduce_groups, views
from codegen.plan.nest_plan import TERMS, best_lane, is_split, loop_axes, loop_names, output_groups, scan_axes
from codegen.plan.plan_check import runs_parallel
from codegen.where.tails import Steps, tail_axes
from ir.axis_map import support
from ir.plan import Plan, Vectorize
from ir.poly_core import PolyCore
from ir.pricer import Work
from ir.region import Region
from ir.region_work import region_bytes, region_flops
from ir.target import Target

SMALL_FLOPS = 200_000
SMALL_BYTES = 64 << 10
"""Below both a fork and join cost more than a second core saves."""

_PARTS = 32
"""Tasks or parts of a reduction where there is work for several threads: a fixed number, for the same bits."""
_LANE_CYCLES, _VECTOR_CYCLES = 1.2, 0.6
"""Cycles to move one lane on its own, and a whole register."""
_FAR_CYCLES = 3.0
"""Cycles of a lane that lies in a cache line of its own."""
_HORIZONTAL_CYCLES = 20.0
"""Cycles to reduce the lanes of a register to one number."""
_CARRY_CYCLES = 4.0
"""Cycles per step of a scan along lanes: the latency of an addition."""
_LINE_BYTES, _ELEMENT_BYTES = 64, 4
_FEW_VECTORS = 64
"""With so few vectors of outputs a long reduction is cut into parts."""


def nest_plans(region: Region, core: PolyCore, target: Target) -> list[tuple[Plan, Work]]:
    """The candidates, best first by their own estimate; none where the region is not legal as one kernel or holds
    a contraction."""
    if not core.legal or core.contraction is not None:
        return []
    found = [(plan, _work(region, core, plan, target)) for plan in _plans(region, core, target)]
    found.sort(key=lambda each: each[1].flops / (each[1].efficiency * each[1].occupancy))
    return found


def _plans(region: Region, core: PolyCore, target: Target) -> Iterator[Plan]:
    shape = region.outputs[0].memref.shape
    lanes = target.lanes
    threads = not _is_small(region)
    axes = output_groups(region, core, shape)
    best = best_lane(region, core, shape, axes)
    reduces = _outer_reductions(region, core)
    for lane in dict.fromkeys([best, *_others(axes, best, shape, core)]):
        if lane is not None:
            yield _along_outputs(region, core, target, shape, axes, lane, threads)
            if len(axes) > 1 and not scan_axes(core, shape):
                yield _around_outputs(target, shape, axes, lane, threads)
            if threads and _splits(region, shape, lanes):
                yield _split(_along_outputs(region, core, target, shape, axes, lane, False), region, core, target)
    carried = [number for number, group in enumerate(axes) if group[0] in scan_axes(core, shape)]
    if len(carried) == 1:
        yield _along_scan(target, shape, axes, carried[0], threads)
    if reduces or best is None:
        plain = _along_terms(core, target, shape, axes, threads)
        yield plain
        if threads and _splits(region, shape, 1):
            yield _split(_along_terms(core, target, shape, axes, False), region, core, target)


def _others(axes: list[list[int]], best: int | None, shape: tuple[int, ...], core: PolyCore) -> list[int]:
    """Loops worth a try besides the best one."""
    carried = scan_axes(core, shape)
    extents = {number: math.prod(shape[axis] for axis in group) for number, group in enumerate(axes)}
    usable = [number for number in extents if axes[number][0] not in carried and extents[number] > 1]
    return [number for number in sorted(usable, key=lambda number: -extents[number]) if number != best][:2]


def _outer_reductions(region: Region, core: PolyCore) -> list[str]:
    return [let.name for let in region.body if let.op.kind == "reduce" and let.name in core.scopes]


def _splits(region: Region, shape: tuple[int, ...], lanes: int) -> bool:
    """Whether the region has one reduction, and too few outputs to feed several threads."""
    reductions = sum(let.op.kind == "reduce" for let in region.body)
    return reductions == 1 and math.prod(shape) <= _FEW_VECTORS * lanes


def _along_outputs(
    region: Region,
    core: PolyCore,
    target: Target,
    shape: tuple[int, ...],
    axes: list[list[int]],
    lane: int,
    threads: bool,
) -> Plan:
    """Lanes along loop `lane`, which is the innermost but for scans."""
    carried = scan_axes(core, shape)
    order = [number for number in range(len(axes)) if number != lane]
    position = sum(axes[number][0] not in carried for number in order)
    order.insert(position, lane)
    extents = [math.prod(shape[axis] for axis in axes[number]) for number in order]
    lanes = target.lanes
    wide = 4 if _outer_reductions(region, core) and extents[position] >= 4 * lanes else 1
    tiles = list(extents)
    crossed = any(
        each.linear.coeff(axes[lane][-1]) not in (0, 1) for each in views(region, region.outputs[0].name, shape)
    )
    strip = crossed and not carried and position > 0 and extents[position] > lanes * wide
    if strip:  # the lines that one vector's lanes lie in are used up before the next vector
        tiles[position] = lanes * wide
    bind: list[int] = []
    if threads:
        rank = len(axes)
        first = [position] if strip else []
        bind = _spread(
            tiles, extents, position, lanes * wide, [axes[number][0] in carried for number in order],
            [*first, *(each for each in range(rank) if each not in first)],
        )  # fmt: skip
    return _plan(target, axes, order, tiles, extents, bind, Vectorize(_name(axes[lane]), lanes * wide))


def _around_outputs(target: Target, shape: tuple[int, ...], axes: list[list[int]], lane: int, threads: bool) -> Plan:
    """Lanes along loop `lane`, which is the outermost: what depends on it alone is loaded once for all the others."""
    order = [lane, *(number for number in range(len(axes)) if number != lane)]
    extents = [math.prod(shape[axis] for axis in axes[number]) for number in order]
    tiles = list(extents)
    others = [*range(1, len(order)), 0]
    bind = _spread(tiles, extents, 0, target.lanes, [False] * len(order), others) if threads else []
    return _plan(target, axes, order, tiles, extents, bind, Vectorize(_name(axes[lane]), target.lanes))


def _along_scan(target: Target, shape: tuple[int, ...], axes: list[list[int]], scan: int, threads: bool) -> Plan:
    """Lanes along a scan, handed on from lane to lane; the other axes are rows."""
    extents = [math.prod(shape[axis] for axis in group) for group in axes]
    tiles = list(extents)
    bind = _spread(tiles, extents, None, 1, [number == scan for number in range(len(axes))]) if threads else []
    vectorize = Vectorize(_name(axes[scan]), target.lanes)
    return _plan(target, axes, list(range(len(axes))), tiles, extents, bind, vectorize)


def _along_terms(core: PolyCore, target: Target, shape: tuple[int, ...], axes: list[list[int]], threads: bool) -> Plan:
    """Lanes along the reduced axes: outputs are written one by one."""
    extents = [math.prod(shape[axis] for axis in group) for group in axes]
    tiles = list(extents)
    carried = scan_axes(core, shape)
    bind = _spread(tiles, extents, None, 1, [group[0] in carried for group in axes]) if threads else []
    lanes = target.lanes
    return _plan(target, axes, list(range(len(axes))), tiles, extents, bind, Vectorize(TERMS, lanes))


def _spread(
    tiles: list[int],
    extents: list[int],
    lane: int | None,
    width: int,
    carried: list[bool],
    order: Sequence[int] | None = None,
) -> list[int]:
    """Binds loops to threads, in `order` (outermost first), until there are tasks enough; changes `tiles` of those."""
    bind: list[int] = []
    tasks = 1
    for position in order if order is not None else range(len(extents)):
        extent = extents[position]
        if carried[position] or tasks >= _PARTS or extent == 1:
            continue
        wanted = -(-_PARTS // tasks)
        tile = max(1, extent // wanted)
        if position == lane:
            tile = max(width, tile // width * width)
        tile = min(tile, tiles[position])
        if tile < extent:
            tiles[position] = tile
            bind.append(position)
            tasks *= -(-extent // tile)
    return bind


def _plan(
    target: Target,
    axes: list[list[int]],
    order: list[int],
    tiles: list[int],
    extents: list[int],
    bind: list[int],
    vectorize: Vectorize,
) -> Plan:
    names = [_name(axes[number]) for number in order]
    widths = [vectorize.width if name == vectorize.axis else 1 for name in names]
    steps = [
        Steps(name, extent, tile if tile < extent else width)
        for name, extent, tile, width in zip(names, extents, tiles, widths, strict=True)
    ]
    return Plan(
        arch=target.arch,
        algo_choice={"nest": " ".join(names)},
        tile=tuple(max(1, tile) for tile in tiles),
        bind={f"{names[position]}.o": "thread" for position in bind},
        vectorize=vectorize,
        predicate_tail=tail_axes(steps),
    )


def _split(plan: Plan, region: Region, core: PolyCore, target: Target) -> Plan:
    """The same plan with its only reduction in parts."""
    (name, *_) = _outer_reductions(region, core)
    longest = max(each.extent for each in reduce_groups(region, name))
    lanes = target.lanes
    part = max(1, -(-longest // _PARTS))
    part = -(-part // lanes) * lanes
    return msgspec.structs.replace(
        plan,
        algo_choice={**plan.algo_choice, "reduce": "split"},
        tile=(*plan.tile, min(part, longest)),
        bind={**plan.bind, "r.o": "thread"},
    )


def _name(axes: list[int]) -> str:
    return "".join(f"i{axis}" for axis in axes)


# --- work ---


def _is_small(region: Region) -> bool:
    return region_flops(region) < SMALL_FLOPS and region_bytes(region) < SMALL_BYTES


def _work(region: Region, core: PolyCore, plan: Plan, target: Target) -> Work:
    lanes = target.lanes
    points = sum(math.prod(each.memref.shape) for each in region.outputs)
    flops = float(max(1, points, region_flops(region)))
    cycles = flops / lanes + _moves(region, core, plan, lanes)
    return Work(
        flops=flops,
        bytes=float(region_bytes(region)),
        compute_dtype="fp32",
        occupancy=_occupancy(plan, region, target),
        efficiency=max(1e-5, min(1.0, flops / (4 * lanes * cycles))),
    )


def _moves(region: Region, core: PolyCore, plan: Plan, lanes: int) -> float:
    """Cycles of one core for the loads and stores."""
    shape = region.outputs[0].memref.shape
    if 0 in shape:
        return 0.0
    scope = region.outputs[0].name
    along = plan.vectorize.axis if plan.vectorize else ""
    total = 0.0
    for each in views(region, scope, shape):
        total += _times(each, plan) * _per_point(each, along, len(shape), lanes)
    if along == TERMS:
        reductions = sum(let.op.kind == "reduce" for let in region.body)
        total += math.prod(shape) * reductions * _HORIZONTAL_CYCLES
    if along.startswith("i") and f"i{along.rsplit('i', 1)[1]}" in core.sequential_axes:
        total += math.prod(shape) * _CARRY_CYCLES
    return total


def _times(view: View, plan: Plan) -> int:
    """How many points an access is made at: not at those of inner loops that it does not depend on."""
    used, times = support(view.map), math.prod(view.map.sizes)
    for name in reversed(loop_names(plan)):
        axes = loop_axes(name)
        if used & set(axes):
            break
        times //= math.prod(view.map.sizes[axis] for axis in axes)
    return times


def _per_point(view: View, along: str, rank: int, lanes: int) -> float:
    """Cycles per point of one access, with lanes along the loop `along`."""
    if along.startswith("i"):
        axis = int(along.rsplit("i", 1)[1])
    elif len(view.map.sizes) > rank:
        axis = len(view.map.sizes) - 1
    else:
        return _VECTOR_CYCLES  # one result at a time
    size = view.map.sizes[axis]
    step = view.linear.coeff(axis)
    filled = max(1, min(lanes, size))
    if step in (0, 1) and not view.indirect:
        return _VECTOR_CYCLES / filled
    far = step is None or abs(step) * _ELEMENT_BYTES >= _LINE_BYTES
    return (_FAR_CYCLES if far else _LANE_CYCLES) * (2 if view.stored else 1)


def _occupancy(plan: Plan, region: Region, target: Target) -> float:
    """The share of the cores that the plan's tasks keep busy."""
    shape = region.outputs[0].memref.shape
    tasks = 1
    for position, name in enumerate(loop_names(plan)):
        if runs_parallel(plan, f"{name}.o"):
            extent = math.prod(shape[axis] for axis in loop_axes(name))
            tasks *= max(1, -(-extent // max(1, plan.tile[position])))
    if is_split(plan):
        tasks = max(tasks, _PARTS)
    rounds = -(-tasks // target.units)
    return tasks / (rounds * target.units)
