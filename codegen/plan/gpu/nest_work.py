"""The work of a plan of a nest on a GPU.

An addition of a lane takes one issue slot; loads and stores also take the slots of their address. Bytes that warps read
but do not use, and bytes that they read again, come from the second-level cache; buffers that the first level holds are
read once. Latencies that follow one another (turns of a loop, shuffles, barriers) count once per wave of blocks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from codegen.plan.gpu.latencies import ARRIVAL, BARRIER, LOAD
from codegen.plan.gpu.nest_tiling import (
    DEAR_FLOPS,
    kept_buffers,
    row_passes,
    row_values,
    scanned_buffers,
    terms_of,
)
from codegen.plan.op_weights import weight
from codegen.plan.region_loops import RegionLoops, Shape, View
from codegen.plan.relative_sums import relative_sums
from ir.dtype import DTYPES
from ir.index.map import support
from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import SECTOR_BYTES, most_registers
from ir.kernel.gpu.occupancy import blocks_per_unit
from ir.plan.gpu_nest import AT_A_TIME, Points, Rows, Tiles
from ir.poly.core import Site
from ir.pricer import Work
from ir.region.work import cold_bytes, flops_per_point, region_bytes
from ir.target import Target

_MOVE_SLOTS = 1
"""Issue slots of a load or store, of a vector or of one element."""
_POINT_SLOTS, _TURN_SLOTS, _FIXED_SLOTS = 4, 4, 1
"""Issue slots of the address of a vector: computed from a point's number; advanced by a turn of a loop over a row; at a
fixed distance, as in a tile or in a row in registers.

These and the weights of ops were fitted to the instructions per element of SASS (CUDA 13.0, sm_80) of ten nests with
their best plans for an A100: layer norms of bf16 and fp32, an RMS norm of bf16, softmax, pointwise chains and
transposes of fp16 and fp32, sums of columns. The sum is 2 % too low in the mean, from 20 % too low to 29 % too high."""
_IN_L1 = 4
"""A buffer of at most 1/4 of an SM's cache stays there, as the weights of a norm do. Then only its loads count."""
_KEPT_CLOCKS = 8
"""Clocks of a turn over elements in registers."""
_SHUFFLE_CLOCKS = 30
"""Clocks of a shuffle."""
_PART_CLOCKS = 8
"""Clocks to read one warp's part of a reduction from shared memory."""
_RESIDENT_THREADS = 1024
"""Threads that are resident on an SM, at most, with the registers of such kernels."""
_ROW_REGISTERS, _POINT_REGISTERS, _TILE_REGISTERS = 20, 12, 16
"""Registers for indices and addresses. With the values that are held they fit what ptxas (CUDA 13.0, sm_80) reports for
189 kernels, with a mean error of 6 registers."""


@dataclass(frozen=True)
class _Launch:
    """The figures of a plan on which its work depends.

    lane       the outer axis along which lanes run; a lane has `width` neighbours
    waits      clocks that threads wait
    registers  of a thread
    indexing   issue slots of the address of a vector
    across     reads whose neighbours lie along this axis count as reads through shared memory
    scratch    bytes of shared memory of a block
    idle       elements that threads go through per element of the nest
    readings   how often the elements of the inputs are loaded, for scans in parts
    """

    blocks: int
    threads: int
    lane: int | None
    width: int
    waits: float
    registers: int
    indexing: int
    rows: Rows | None = None
    across: int | None = None
    scratch: int = 0
    idle: float = 1.0
    readings: int = 1


@dataclass(frozen=True, eq=False)
class GpuNestWork:
    """The work of every plan of one region."""

    loops: RegionLoops
    target: Target
    _slots_of: dict[tuple[str, int] | None, float] = field(default_factory=dict, init=False, repr=False)
    """Issue slots of arithmetic: for points under None, for rows by `keep` and the threads that share a row."""

    def of_points(self, points: Points) -> Work:
        """The work of a plan whose threads have points of their own."""
        serial = max([terms_of(self.loops, name) for name, op in self.loops.ops.items() if op.reduced], default=0)
        waits = (1 + -(-serial // AT_A_TIME)) * LOAD
        lane = points.axes[-1][-1] if points.axes else None
        sizes = [DTYPES[buffer.memref.dtype].bytes for buffer in self.loops.region.inputs]
        loaded = points.width * points.turns * (sum(sizes) / 4 + min(serial, AT_A_TIME))
        registers = int(_POINT_REGISTERS + points.width + loaded)
        return self._work(_Launch(points.blocks, points.threads, lane, points.width, waits, registers, _POINT_SLOTS))

    def of_tiles(self, tiles: Tiles) -> Work:
        """The work of a plan whose blocks have a tile."""
        own = tiles.across * tiles.along // tiles.threads
        waits = 2 * LOAD + BARRIER + _KEPT_CLOCKS * own
        across, along = tiles.axes[-2][-1], tiles.axes[-1][-1]
        registers = _TILE_REGISTERS + own
        return self._work(_Launch(tiles.blocks, tiles.threads, along, 1, waits, registers, _FIXED_SLOTS, across=across))

    def of_rows(self, rows: Rows) -> Work:
        """The work of a plan whose teams of threads have a row. Waits count a pass per reduction, although the kernel
        runs reductions of equal terms in one pass."""
        passes = [terms_of(self.loops, name) for name in row_values(self.loops)]
        passes.append(math.prod(self.loops.shape[axis] for axis in rows.inner))
        waits = 0.0
        for number, length in enumerate(passes):
            loaded = number == 0 or rows.keep == "none"
            turns = rows.own_turns(length)
            rounds = 1 if rows.in_registers else -(-turns // AT_A_TIME)
            waits += rounds * LOAD if loaded else turns * _KEPT_CLOCKS
            waits += self._team_clocks(rows)
        if self.loops.scan_axes(self.loops.shape):
            waits += rows.own_turns(rows.length) * (self._team_clocks(rows) + BARRIER)
        if rows.scans:
            waits += self._waits_of_parts(rows)
        elif rows.split > 1:
            joining = LOAD * -(-rows.turns(rows.split) // AT_A_TIME) + self._team_clocks(rows)
            waits += ARRIVAL + self._joining_passes * joining
        last = rows.inner if rows.near else rows.axes
        blocks = rows.blocks * rows.split
        readings = 2 if rows.scans and not rows.in_registers else 1
        gone = blocks * rows.threads * readings * sum(rows.own_turns(pass_) * rows.width for pass_ in passes)
        return self._work(
            _Launch(
                blocks,
                rows.threads,
                last[-1] if last else None,
                rows.width,
                waits,
                self._row_registers(rows),
                _FIXED_SLOTS if rows.in_registers else _TURN_SLOTS,
                rows=rows,
                scratch=rows.height * rows.held * self.kept_bytes if rows.in_shared else 0,
                idle=max(1.0, gone / max(1, sum(passes) * rows.count)),
                readings=readings,
            )
        )

    def _waits_of_parts(self, rows: Rows) -> float:
        """Clocks that a block of a scan in parts waits beside the pass that scans: until it has its number; for the
        pass that joins its part, whose loads serve the scan where registers keep the elements; until the totals of all
        parts are there; to join these."""
        number = LOAD + BARRIER
        loads = 0 if rows.in_registers else -(-rows.own_turns(rows.length) // AT_A_TIME)
        totals = 1 + -(-rows.turns(rows.split) // AT_A_TIME)
        return number + ARRIVAL + (loads + totals) * LOAD + 2 * self._team_clocks(rows)

    def _row_registers(self, rows: Rows) -> int:
        """Registers of a thread: the elements of its row that it holds at one time, of all inputs, and the values that
        it keeps; of scans in parts also the totals of half the warps, of which ptxas loads so many early."""
        sizes = {buffer.name: DTYPES[buffer.memref.dtype].bytes for buffer in self.loops.region.inputs}
        scanned = scanned_buffers(self.loops) if rows.scans else ()
        words = sum(max(1, sizes[name] // 4) for name in {*row_passes(self.loops), *scanned})
        warps = rows.team // WARP_LANES
        totals = sum(max(1, DTYPES[self.loops.ops[name].dtype].bytes // 4) * warps // 2 for name in rows.scans)
        if rows.in_registers:
            held = rows.own_turns(rows.length) * rows.width * (words + self._kept_values)
        else:
            held = min(rows.own_turns(rows.length), AT_A_TIME) * rows.width * words
        return _ROW_REGISTERS + held + totals

    @cached_property
    def _joining_passes(self) -> int:
        """Passes over the parts of a row: 1, or 2 where sums are relative to a maximum."""
        names = row_values(self.loops)
        return 1 + any(relative.maximum in names for relative in relative_sums(self.loops.region).values())

    @cached_property
    def _kept_values(self) -> int:
        """Number of values that several passes over a row need and that are dear to compute again."""
        scopes: dict[str, set[str | None]] = {}
        for site in self.loops.core.sites:
            scopes.setdefault(site.value, set()).add(site.scope)
        ops = {name: self.loops.ops[name] for name, where in scopes.items() if len(where) > 1}
        return sum(not op.reduced and flops_per_point(op.kind, op.fn) >= DEAR_FLOPS for op in ops.values())

    def _team_clocks(self, rows: Rows) -> float:
        """Clocks until a team has combined the results of its threads."""
        if rows.team == 1:
            return 0.0
        if not rows.near:
            return BARRIER + _PART_CLOCKS * rows.team
        shuffles = math.log2(min(rows.team, WARP_LANES)) * _SHUFFLE_CLOCKS
        warps = rows.team // WARP_LANES
        return shuffles + (BARRIER + _PART_CLOCKS * warps if warps > 1 else 0.0)

    def _work(self, launch: _Launch) -> Work:
        target, once = self.target, max(1.0, self._weight_once)
        slots = self._slots(launch.rows) * launch.idle
        moved, beyond, again = self._traffic(launch)
        registers = min(launch.registers, most_registers(launch.threads, target))
        fit = blocks_per_unit(target, launch.threads, registers, launch.scratch)
        resident = max(1, min(_RESIDENT_THREADS // launch.threads, fit))
        waves = -(-launch.blocks // (target.units * resident))
        cycle = target.cycle_ns / target.units
        spare = max(0.0, slots - once)
        near = target.cache_bandwidth
        if launch.readings > 1 and self._bytes * min(1, target.units * resident / launch.blocks) > target.l2_bytes:
            near = target.bandwidth  # the first part of what resident blocks read is gone before they read it again
        occupancy = min(1.0, launch.blocks / target.units)
        return Work(
            flops=once,
            bytes=float(self._bytes),
            cold_bytes=float(cold_bytes(self.loops.region)),
            compute_dtype="fp32",
            occupancy=occupancy,
            efficiency=max(
                1e-5, min(1.0, target.issue / target.per_cycle("fp32") * (once + spare) / (once + spare + moved))
            ),
            recomputed=spare,
            reread=again / near * 1e9 / cycle,
            layout=beyond / target.cache_bandwidth * 1e9 / cycle + launch.waits * waves * target.units * occupancy,
            block_threads=launch.threads,
            thread_registers=registers,
            scratch=launch.scratch,
        )

    @cached_property
    def _bytes(self) -> int:
        return region_bytes(self.loops.region)

    @cached_property
    def kept_words(self) -> int:
        """Registers per element of a row that threads keep."""
        return max(1, sum(max(1, size // 4) for size in self._kept_sizes))

    @property
    def kept_bytes(self) -> int:
        """Bytes of shared memory per element of a row that a block keeps."""
        return sum(self._kept_sizes)

    @cached_property
    def _kept_sizes(self) -> list[int]:
        sizes = {buffer.name: DTYPES[buffer.memref.dtype].bytes for buffer in self.loops.region.inputs}
        return [sizes[name] for name in dict.fromkeys((*kept_buffers(self.loops), *scanned_buffers(self.loops)))]

    # --- arithmetic ---

    @cached_property
    def _weight_once(self) -> float:
        """Additions-worth when every value is computed once."""
        return sum(math.prod(op.domain) * weight(op, self.target) for op in self.loops.ops.values())

    def _slots(self, rows: Rows | None) -> float:
        """Additions-worth when every thread computes the values that it needs."""
        key = None if rows is None else (rows.keep, rows.team * rows.split)
        if key not in self._slots_of:
            self._slots_of[key] = self._additions(rows)
        return self._slots_of[key]

    def _additions(self, rows: Rows | None) -> float:
        times, seen, total = self._scope_points(rows), set[str](), 0.0
        for site in self.loops.core.sites:
            op = self.loops.ops[site.value]
            kept = rows is not None and rows.in_registers  # the compiler keeps cheap values, too
            if not op.reduced and not (kept and site.value in seen):
                total += weight(op, self.target) * self._times_computed(site, rows, times.get(site.scope, 0.0))
            seen.add(site.value)
        reduced = {name: op for name, op in self.loops.ops.items() if op.reduced}
        return total + sum(weight(op, self.target) * times[name] for name, op in reduced.items())

    def _times_computed(self, site: Site, rows: Rows | None, times: float) -> float:
        """How often a value is computed in a scope of so many points. A value that does not change in the scope's
        innermost loop, as a statistic of a row, is computed before the loop by every thread that runs the loop."""
        op = self.loops.ops.get(site.scope)
        if op is None:
            looped: Sequence[int] = rows.inner if rows is not None else ()
        else:
            looped = range(len(op.shape), len(op.domain))
        if not support(site.map).isdisjoint(looped):
            return times
        together = rows is not None and (op is None or site.scope in row_values(self.loops))
        threads = rows.team * rows.split if rows is not None and together else 1
        return min(times, threads * times / max(1, math.prod(site.map.sizes[axis] for axis in looped)))

    def _scope_points(self, rows: Rows | None) -> Mapping[str, float]:
        """Scope → the points that all threads together go through."""
        points = {self.loops.scope: float(math.prod(self.loops.shape))}
        together = row_values(self.loops) if rows is not None else ()
        for let in reversed(self.loops.region.body):
            if let.op.reduced:
                sites = (site for site in self.loops.core.sites if site.value == let.name)
                alone = sum(points.get(site.scope, 0.0) for site in sites)
                times = float(rows.count) if rows is not None and let.name in together else alone
                points[let.name] = times * terms_of(self.loops, let.name)
        return points

    # --- memory ---

    def _traffic(self, launch: _Launch) -> tuple[float, float, float]:
        """Issue slots of loads and stores; bytes that are fetched but not used; bytes that are read again."""
        slots, beyond, read = 0.0, 0.0, 0.0
        if 0 in self.loops.shape:
            return slots, beyond, read
        for view in self._distinct_views(launch.rows):
            size, times = self._sizes[view.frame], self._access_count(view, launch.rows)
            times *= 1 if view.stored else launch.readings
            axis = self._lane(view, launch)
            step = view.strides[axis].step if axis is not None else 0
            if step == 0:  # one number for a warp
                slots += times / WARP_LANES * _MOVE_SLOTS / launch.width
                read += 0 if view.stored else times / WARP_LANES * SECTOR_BYTES / launch.width
                continue
            staged = axis is not None and axis == launch.across
            wide = launch.width if step == 1 else 1
            slots += times * (_MOVE_SLOTS * (3 if staged else 1) + launch.indexing) / wide
            fetched = SECTOR_BYTES if step is None else min(SECTOR_BYTES, size * abs(step))
            beyond += times * (max(size, fetched) - size)
            whole = math.prod(view.frame) * size
            read += whole if whole <= self.target.l1_bytes // _IN_L1 else times * size
        return slots, beyond, max(0.0, read - self._bytes)

    def _distinct_views(self, rows: Rows | None) -> Sequence[View]:
        """The accesses that threads make: of buffers that they keep, the accesses of one pass, each element once."""
        views = self.loops.views(self.loops.scope, self.loops.shape)
        if rows is None or rows.keep == "none":
            return views
        passes: dict[Shape, dict[Shape, list[View]]] = {}
        for view in views:
            if not view.stored:
                passes.setdefault(view.frame, {}).setdefault(view.map.sizes, []).append(view)
        once = (
            {sizes: {view.map: view for view in own}.values() for sizes, own in of.items()} for of in passes.values()
        )
        kept = [max(of_sizes.values(), key=len) for of_sizes in once]
        return [*(view for view in views if view.stored), *itertools.chain.from_iterable(kept)]

    def _lane(self, view: View, launch: _Launch) -> int | None:
        """The axis of an access along which lanes run."""
        rank = len(self.loops.shape)
        terms = [axis for axis in range(rank, len(view.map.sizes)) if view.map.sizes[axis] > 1]
        if launch.rows is not None and launch.rows.near and terms:
            return terms[-1]
        across = launch.across
        if across is not None and not view.stored and not view.map.guards and view.strides[across].step == 1:
            return across
        return launch.lane if launch.lane is not None and launch.lane in view.axes else None

    def _access_count(self, view: View, rows: Rows | None) -> float:
        """How often an access is made."""
        times = math.prod(view.map.sizes)
        if rows is None or len(view.map.sizes) == len(self.loops.shape):
            return float(times)
        return times / math.prod(self.loops.shape[axis] for axis in rows.inner)  # once for all points of a row

    @cached_property
    def _sizes(self) -> Mapping[tuple[int, ...], int]:
        """Shape of a buffer → bytes of an element; the least where several buffers have the shape."""
        sizes_of: dict[tuple[int, ...], int] = {}
        for buffer in self.loops.region.buffers:
            size = DTYPES[buffer.memref.dtype].bytes
            sizes_of[buffer.memref.shape] = min(size, sizes_of.get(buffer.memref.shape, size))
        return sizes_of

    def neighbours(self, axis: int) -> list[int]:
        """Bytes of an element, of every access whose neighbours lie along an outer axis."""
        views = self.loops.views(self.loops.scope, self.loops.shape)
        return [self._sizes[view.frame] for view in views if view.strides[axis].step == 1]
