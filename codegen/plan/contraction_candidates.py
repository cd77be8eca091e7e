"""Candidate plans of a contraction, and the work that each makes the machine do.

Two algorithms, one template:

    outer   lanes along the columns: a register tile of MR rows × NR columns takes one rank-1 update per k
    dot     lanes along k: MR × NR sums side by side, folded at the end; for few columns, both operands along k

A plan says which side has the columns (`layout_hints["vector"]`), the register tile, the blocks [BM, BN, BK] that
one task works on, which operands are packed into panels (`cache`), and what runs in parallel (`bind`).
The model counts cycles of one core: multiply-adds against loads, packing, and the epilogue.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from codegen.plan.contraction_blocks import Blocks, block_axis, cache_step, epilogue_of, steps_of
from codegen.plan.contraction_view import Contraction, contraction_of, lanes_along_k
from codegen.where.tails import tail_axes
from ir.dtype import DTYPES
from ir.plan import Cached, Plan, Vectorize
from ir.poly_core import PolyCore
from ir.pricer import Work
from ir.region import Region
from ir.target import Target

SMALL_FLOPS = 200_000
"""Below this a fork and join cost more than a second core saves."""

BLOCK_K = 1024
_SUM_BYTES = _ROW_BYTES = 1 << 20  # at most, of a thread's workspace: what its second-level cache holds
_STREAMED = 1 << 18
_REGISTERS = {"avx512": 32}
_PORTS = 2  # multiply-adds and loads per cycle, each
_LATENCY = 4
_UNIT_PACK, _LANE_PACK, _STORE, _EPILOGUE = 5.0, 1.5, 3.0, 1.5
_CANDIDATES = 20


def contraction_candidates(
    region: Region, core: PolyCore, target: Target, *, ordered: bool = False
) -> list[tuple[Plan, Work]]:
    """The candidates, none if the region is no contraction that the template covers. `ordered`: they take the terms of
    floating-point sums in index order."""
    default = contraction_of(region, core, ordered=ordered)
    if default is None:
        return []
    found: list[tuple[Contraction, Blocks, Work]] = []
    for side in (default.vector, 1 - default.vector):
        view = default if side == default.vector else contraction_of(region, core, vector=side, ordered=ordered)
        if view is not None and (side == default.vector or _worth_turning(default)):
            cuts = (*_outer_blocks(view, target), *_dot_blocks(view, target))
            found += [(view, blocks, _work(view, blocks, target)) for blocks in cuts]
    found.sort(key=lambda each: (_time(each[2], target), -each[2].efficiency))
    return [(_plan(view, blocks, target), work) for view, blocks, work in found[:_CANDIDATES]]


def _time(work: Work, target: Target) -> float:
    """§11's estimate in seconds, to keep the best candidates only."""
    peak = target.peak_flops.get(work.compute_dtype, max(target.peak_flops.values(), default=1.0))
    return max(work.flops / (peak * work.occupancy * work.efficiency), work.bytes / (target.bandwidth * work.occupancy))


def _worth_turning(view: Contraction) -> bool:
    """The output is stored across its memory order when the other side has the columns: for few columns only."""
    return view.n < 128 and view.m > view.n


# --- blocks ---------------------------------------------------------------------------------------


def _outer_blocks(view: Contraction, target: Target) -> Iterator[Blocks]:
    wide = _registers_per_vector(view)
    budget = _REGISTERS.get(target.arch, 16)
    lanes = target.lanes
    for vectors in (1, 2, 3, 4, 8):
        most = (budget // wide - 1 - vectors) // vectors
        if most < 1 or (vectors > 1 and (vectors - 1) * lanes >= view.n):
            continue
        if vectors > 4 and view.m > most:  # a panel that is read again should stay in the first-level cache
            continue
        for rows in _even_rows(view.m, min(most, 16)):
            yield from _grids(view, rows, vectors * lanes, target)


def _even_rows(m: int, most: int) -> Iterator[int]:
    """Heights of the register tile that split `m` evenly: the tallest, and the one that wastes least."""
    tallest = _even(max(m, 1), most)
    yield tallest
    leanest = min(range(most, 0, -1), key=lambda rows: -(-m // rows) * (rows + 1))
    if leanest != tallest:
        yield leanest


def _even(size: int, most: int) -> int:
    """The length of the pieces when `size` is cut into the fewest equal pieces of at most `most`."""
    return -(-size // -(-size // most)) if size else 1


def _grids(view: Contraction, mr: int, nr: int, target: Target) -> Iterator[Blocks]:
    """Blocks of a task: all rows and few columns, or all columns and few rows, so that every core has work."""
    item = DTYPES[view.accumulator].bytes
    tiles_m, tiles_n = max(1, -(-view.m // mr)), max(1, -(-view.n // nr))
    seen = set()
    for bk in _depths(view, tiles_m):
        tall = max(1, min(target.l2_bytes, _ROW_BYTES) // (bk * item * mr))
        rows = min(tall, tiles_m) * mr
        wide = tiles_n if bk >= view.depth else max(1, _SUM_BYTES // (rows * item * nr))
        for cuts_m, cuts_n in _cuts(target.units if _flops(view) >= SMALL_FLOPS else 1, view.repeats):
            bm = _even(tiles_m, max(1, min(tall, -(-tiles_m // cuts_m)))) * mr
            bn = _even(tiles_n, max(1, min(wide, -(-tiles_n // cuts_n)))) * nr
            if (bm, bn, bk) not in seen:
                seen.add((bm, bn, bk))
                yield Blocks(mr, nr, bm, bn, bk, target.lanes)


def _depths(view: Contraction, tiles_m: int) -> list[int]:
    """Lengths of a block of k: few long ones, as each block lays the sums down; short ones where the columns are used
    once, so that they stream from memory in wide rows."""
    if tiles_m == 1 and view.n * view.depth > _STREAMED and not view.is_constant(view.vector):
        return [block_k(view, 8)]
    return sorted({block_k(view, BLOCK_K), block_k(view, BLOCK_K // 2)})


def _cuts(units: int, repeats: int) -> list[tuple[int, int]]:
    """Into how many pieces rows and columns are cut."""
    if units == 1 or repeats >= 4 * units:
        return [(1, 1)]
    return [(1, 1), (units, 1), (1, units), (2 * units, 1), (1, 2 * units), (units, 2), (2, 2 * units)]


def _dot_blocks(view: Contraction, target: Target) -> Iterator[Blocks]:
    """Few rows or columns, and both operands neighbours along k: nothing is reused, so nothing is packed."""
    few = min(view.m, view.n)
    if view.ordered or not view.k or view.m * view.n == 0 or few > 8 or not _dot_possible(view):
        return
    budget = _REGISTERS.get(target.arch, 16) // _registers_per_vector(view) - 4
    for mr in sorted({1, _even(max(view.m, 1), 4)}):
        nr = min(target.lanes, max(1, budget // mr), view.n)
        units = target.units if _flops(view) >= SMALL_FLOPS else 1
        tiles = -(-view.n // nr)
        for cuts in sorted({1, units, 4 * units}):
            bm, bn = -(-view.m // mr) * mr, -(-tiles // min(cuts, tiles)) * nr
            yield Blocks(mr, nr, bm, bn, view.depth, target.lanes, dot=True)


def _dot_possible(view: Contraction) -> bool:
    runs = [view.run(side, view.k) for side in (0, 1)]
    return all(run == runs[0][0] for run, _ in runs) and all(step == 1 for _, step in runs)


def block_k(view: Contraction, most: int) -> int:
    """Terms per block, about `most`: a whole number of steps of one reduced digit, all digits inside it whole."""
    if view.depth <= most:
        return max(view.depth, 1)
    position, inner = block_axis(view, most)
    return _even(view.sizes[position], max(1, most // inner)) * inner


# --- plans ----------------------------------------------------------------------------------------


def _plan(view: Contraction, blocks: Blocks, target: Target) -> Plan:
    return Plan(
        arch=target.arch,
        algo_choice={view.pattern: blocks.algorithm},
        tile=(blocks.bm, blocks.bn, blocks.bk),
        bind=dict.fromkeys(("batch", "m.o", "n.o"), "thread") if _is_parallel(view, blocks, target) else {},
        vectorize=Vectorize("k" if blocks.dot else "n", blocks.lanes),
        warp_tile=f"{blocks.mr}x{blocks.nr}",
        cache=_caches(view, blocks),
        predicate_tail=tail_axes(steps_of(view, blocks)),
        epilogue=epilogue_of(view),
        ordered=view.ordered,
        layout_hints={"vector": "rhs" if view.vector else "lhs"},
    )


def _tasks(view: Contraction, blocks: Blocks) -> int:
    return max(view.repeats * -(-view.m // blocks.bm) * -(-view.n // blocks.bn), 1)


def _is_parallel(view: Contraction, blocks: Blocks, target: Target) -> bool:
    return _flops(view) >= SMALL_FLOPS and _tasks(view, blocks) > 1 and target.units > 1


def _caches(view: Contraction, blocks: Blocks) -> tuple[Cached, ...]:
    """What is packed, and where."""
    found = []
    for side in (0, 1):
        name = view.operand(side).value
        if _is_packed(view, blocks, side):
            found.append(Cached(name, "packed", cache_step(view, side)))
        elif view.is_constant(side) and not blocks.dot:
            found.append(Cached(name, "const_pool", "build"))
    return tuple(found)


def _is_packed(view: Contraction, blocks: Blocks, side: int) -> bool:
    """Whether the kernel packs an operand: one that is used once per element is read where it lies."""
    if blocks.dot or view.is_constant(side):
        return False
    if side == view.vector:
        return view.m > blocks.mr or _run_step(view, side) not in (0, 1)
    return view.n > blocks.nr or view.m % blocks.mr != 0


@lru_cache(maxsize=64)
def _run_step(view: Contraction, side: int) -> int | None:
    group = view.columns if side == view.vector else view.rows
    run, step = view.run(side, group)
    return step if run == group else None


# --- work -----------------------------------------------------------------------------------------


def _flops(view: Contraction) -> float:
    return 2.0 * view.repeats * view.m * view.n * view.depth


def _registers_per_vector(view: Contraction) -> int:
    """Machine registers that hold `lanes` numbers."""
    return max(1, DTYPES[view.accumulator].bytes // 4)


def _work(view: Contraction, blocks: Blocks, target: Target) -> Work:
    tasks = _tasks(view, blocks)
    tiles_m, tiles_n = -(-view.m // blocks.mr), -(-view.n // blocks.nr)
    useful = max(_flops(view), 1.0)
    whole = 2.0 * view.repeats * tiles_m * blocks.mr * tiles_n * blocks.nr * view.depth
    flops = useful if blocks.dot else whole
    ideal = max(flops, 1.0) / (2 * target.lanes * _PORTS) * _registers_per_vector(view)
    inner, side_work = _inner_cycles(view, blocks, target), _side_cycles(view, blocks, target)
    units = min(target.units, tasks) if _is_parallel(view, blocks, target) else 1
    each = -(-blocks.bm // blocks.mr) * -(-blocks.bn // blocks.nr)
    longest = -(-tasks // units) * each if units > 1 else max(view.repeats * tiles_m * tiles_n, 1)
    occupancy = max(view.repeats * tiles_m * tiles_n, 1) / (longest * target.units)
    return Work(
        flops=max(flops, 1.0),
        bytes=_bytes(view, blocks, target),
        compute_dtype=view.accumulator,
        occupancy=min(1.0, occupancy),
        efficiency=min(1.0, max(0.01, ideal / (ideal * inner + side_work))),
    )


def _inner_cycles(view: Contraction, blocks: Blocks, target: Target) -> float:
    """Cycles of the micro-kernel for each cycle that its multiply-adds need at the least."""
    wide = _registers_per_vector(view)
    if blocks.dot:
        multiplies = blocks.mr * blocks.nr * wide
        return max(multiplies, (blocks.mr + blocks.nr) * wide, _LATENCY * _PORTS) / multiplies
    vectors = blocks.nr // target.lanes * wide
    multiplies = blocks.mr * vectors
    panel = blocks.bk * blocks.nr * DTYPES[view.accumulator].bytes
    far = 2 * vectors * _PORTS if panel > target.l1_bytes else 0  # half a vector per cycle from the second level
    return max(multiplies, blocks.mr + vectors, far, _LATENCY * _PORTS) / multiplies


def _side_cycles(view: Contraction, blocks: Blocks, target: Target) -> float:
    """Cycles of packing and of the epilogue, all tasks together."""
    lanes = target.lanes
    cycles = 0.0
    for side in (0, 1):
        if not _is_packed(view, blocks, side):
            continue
        columns = side == view.vector
        elements = view.repeats * view.depth * (view.n if columns else view.m)
        again = -(-view.m // blocks.bm) if columns else -(-view.n // blocks.bn)
        cycles += elements * again * _pack_cycles(view, side, lanes)
    stores = view.repeats * -(-view.m // blocks.mr) * blocks.mr * -(-view.n // blocks.nr) * blocks.nr
    blocks_k = -(-view.depth // blocks.bk) if blocks.bk else 1
    each = (1.0 if view.n > 1 and _turned(view) else _STORE / lanes) + _EPILOGUE / lanes * len(epilogue_of(view))
    return cycles + stores * (each + (blocks_k - 1) * _STORE / lanes)


@lru_cache(maxsize=64)
def _turned(view: Contraction) -> bool:
    """Whether neighbouring columns are not neighbours in the output."""
    return view.out_step(view.columns) != 1


@lru_cache(maxsize=64)
def _pack_cycles(view: Contraction, side: int, lanes: int) -> float:
    """Cycles per element packed: a vector at a time where the reads are a run along the panel or along k."""
    group = view.columns if side == view.vector else view.rows
    along_k = lanes_along_k(view, side, group, lanes)
    run, step = view.run(side, view.k if along_k else group)
    cycles = _UNIT_PACK if step in (0, 1) else 2 * _UNIT_PACK if step == 2 else _LANE_PACK * lanes
    if along_k and side == view.vector:
        cycles *= 2  # turned in squares
    return cycles / max(min(view.extent(run), lanes), 1)


def _bytes(view: Contraction, blocks: Blocks, target: Target) -> float:
    """Bytes to and from memory: every tensor once, an operand that no cache holds once per block of the other."""
    once, sides = _sizes(view)
    total = float(once)
    for side, sizes in enumerate(sides):
        again = -(-view.m // blocks.bm) if side == view.vector else -(-view.n // blocks.bn)
        total += sum(size * (again - 1) for size in sizes if size > target.l3_bytes / 2)
    return total


@lru_cache(maxsize=64)
def _sizes(view: Contraction) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """Bytes of all tensors together, and per operand of those that it is computed from."""
    buffers = {each.name: each.memref.nbytes for each in (*view.region.inputs, *view.region.outputs)}
    sides = (tuple(buffers[name] for name in dict.fromkeys(read.buffer for read in side)) for side in view.roles.reads)
    return sum(buffers.values()), tuple(sides)
