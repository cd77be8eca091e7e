"""The work of a plan of a contraction.

The model counts cycles of one core: multiply-adds or loads, whichever take longer, the prologue, the epilogue, packing
and stores. Memory traffic is the size of the tensors, and of operands that are read again and that no cache holds.

A cycle of the constants is the time in which a core starts two vector operations. A constant without a source was
fitted to timed kernels (docs/cost.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from codegen.plan.contraction_view import Contraction, rows_are_neighbours
from codegen.plan.cpu.cache_lines import (
    NEAR_LINE,
    PANEL_LINE,
    are_far,
    cold_constants,
    every_nth_set,
    lines_held,
    waiting_for_constants,
)
from codegen.plan.cpu.cell_operands import (
    CELL_ALGORITHMS,
    bytes_of_term,
    cell_operands,
    holds_terms,
)
from codegen.plan.cpu.constant_parts import bytes_per_term, constant_parts
from codegen.plan.cpu.contraction_tiling import kept_tiles
from codegen.plan.cpu.contraction_value_work import ContractionValues
from codegen.plan.cpu.exchanged_lines import exchange_cycles
from codegen.plan.cpu.matrix_work import MatrixWork
from codegen.plan.cpu.packing_work import PackingWork
from codegen.plan.cpu.row_box import RowBox, row_box
from codegen.plan.cpu.unread_terms import share_of_terms, unread_digits
from codegen.plan.op_weights import ADDITIONS_PER_CYCLE
from ir.dtype import DTYPES
from ir.index.expr import AxisExpr
from ir.kernel.cpu.cells import CELL_TERMS, PEAK_DTYPES
from ir.plan.cpu import PACKED_AT_BUILD, Blocks, LoopOrder, Place
from ir.poly.core import OperandRead
from ir.pricer import Work
from ir.target import CACHE_LINE_BYTES, Target

SMALL_FLOPS = 200_000
"""FLOPs of a kernel below which a fork and join cost more than a second core saves."""

PORTS = 2
"""Vector operations that a core starts per cycle, and vector loads."""
_TURN_LOSS = 2.0
"""Multiply-adds that a core could start in the time that one turn of a register tile's loop loses: a tile of 28 sums
reaches 93 % of the peak, and one of 18 sums 88 %."""
_LOAD = 1.3
"""Slots of a load in a register tile, where a load and a multiply-add could have one each: a tile of 27 sums that reads
28 registers reaches three quarters of the speed of one that reads 12."""
_RESUMED, _FAR_RESUMED = 1.75, 5.25
"""Cycles to store a vector of sums in matrix registers after a block of k, and to load the vector for the next block;
and further cycles where such sums fill half of the second-level cache."""
_INTEGER_PRODUCT = 1.5
"""Times as long as the peak of integers allows: a product takes two instructions (`vpmulld`), an addition one."""
_L2_BYTES = 32
"""Bytes that the second-level cache gives in a cycle."""
_LATENCY = 4
"""Cycles from a multiply-add to the next one on the same sum."""
_DOT_LATENCY = 2
"""The same in a dot product: the first terms of a row overlap with the last terms of the row before."""
_UNHIDDEN = 0.7
"""The share of the time of reading large constants that products do not hide where both take equally long: kernels of
few rows take nearly as long as both one after the other. The longer of both hides more of the other."""
_STORE = 3.0
"""Cycles to store a vector of sums."""
_HELD_STORE = 1.0
"""The same where the epilogue takes the sums from the registers."""
_BESIDE_PRODUCTS = 0.35
"""The share of its additions-worth that an op takes where a register tile computes an operand: integer ops and
conversions start beside multiply-adds. One row by 4096 x 4096 weights of 4 bits takes 0.48 ms on two cores of a Zen 4,
of which 6 ops per weight take two thirds."""
_FAR_TERM = 10.0
"""Cycles to load a number of a row whose terms lie on cache lines of their own, which only the second-level cache
holds until the next tile reads their other numbers."""
_TURN, _CUT_TURN = 6.0, 36.0
"""Cycles to store a vector of sums along the rows; and the last vector, if the tile cuts it short."""
_FOLD = 3.5
"""Cycles to sum the lanes of one dot product."""
_DOT_LINE = 1.5
"""Cycles that dot products wait for a line of their columns that the second-level cache does not hold."""
_FORWARD = 20.0
"""Cycles that a vector load waits for the single numbers just stored there."""
_BOX_COPY, _BOX_RUN = 2.5, 4.0
"""Cycles to copy a vector of neighbours into a box whose padding is zeroed before; and to begin a run of neighbours."""


def flops_of(view: Contraction) -> float:
    """FLOPs of the contraction's multiply-adds, without padding."""
    return 2.0 * view.repeats * view.m * view.n * view.depth


def registers_per_vector(view: Contraction) -> int:
    """Machine registers that hold one accumulator per lane: 2 for 64-bit dtypes, else 1."""
    return max(1, DTYPES[view.accumulator].bytes // 4)


def tasks_of(view: Contraction, blocks: Blocks) -> int:
    """Blocks of rows and columns of all products, 1 at least."""
    return max(view.repeats * -(-view.m // blocks.bm) * -(-view.n // blocks.bn), 1)


def is_parallel(view: Contraction, blocks: Blocks, target: Target) -> bool:
    """Whether several threads run the tasks."""
    return flops_of(view) >= SMALL_FLOPS and tasks_of(view, blocks) > 1 and target.units > 1


class _TileFigures(NamedTuple):
    """The figures that all plans of one register tile share. Totals are over all tasks.

    rows, columns  tiles along m and n
    sums           sums in all tiles, padding included
    flops, ideal   FLOPs of the multiply-adds, and the least cycles that they need
    folds          cycles to sum the lanes of dot products and to put the results into vectors
    after          additions-worth of the epilogue, of whole registers
    turned         cycles lost where neighbouring columns are no neighbours in the output
    pack_cycles    per operand: cycles to pack an element; 0 where it is not packed
    bytes          bytes of all tensors, with panels that were packed when the program was built in place of their
                   sources
    cold           bytes of constant operands that come from memory
    """

    rows: int
    columns: int
    sums: int
    flops: float
    ideal: float
    folds: float
    after: float
    turned: float
    pack_cycles: tuple[float, float]
    bytes: float
    cold: float


@dataclass(frozen=True, eq=False)
class CpuContractionWork:
    """The work of every plan of one contraction on one machine."""

    view: Contraction
    target: Target
    _tiles: dict[tuple[object, ...], _TileFigures] = field(default_factory=dict, init=False, repr=False)

    def of(self, blocks: Blocks, places: tuple[Place, Place], order: LoopOrder, *, held: bool) -> Work:
        """The work of a plan with these blocks, places of operands, order of loops, and sums that are held or not."""
        view, target, tile = self.view, self.target, self._tile(blocks, places)
        box = row_box(view, blocks.bm) if "box" in places else None
        blocks_m, blocks_n = -(-view.m // blocks.bm), -(-view.n // blocks.bn)
        packings = self._shared_packings if places[view.vector] == "packed_once" else blocks_m
        times = self._in_operand_order(packings, blocks_n)
        tasks, parallel = tasks_of(view, blocks), is_parallel(view, blocks, target)
        units = min(target.units, tasks) if parallel else 1
        tiles_per_task = -(-blocks.bm // blocks.mr) * -(-blocks.bn // blocks.nr)
        tiles = max(view.repeats * tile.rows * tile.columns, 1)
        longest = -(-tasks // units) * tiles_per_task if units > 1 else tiles
        once, again = self._prologue(blocks, tile, places, times, box.elements * tasks if box else 0)
        other = (once + again + tile.after) / (ADDITIONS_PER_CYCLE * target.lanes)
        cycles = (
            tile.ideal * self._inner_cycles(blocks, order, places) * PORTS / target.fma_per_cycle
            + tile.folds
            + self._store_cycles(tile, blocks, order, held)
            + other
        )
        return Work(
            flops=tile.flops,
            bytes=tile.bytes,
            compute_dtype=self._compute_dtype(blocks),
            occupancy=min(1.0, tiles / (longest * target.units)),
            efficiency=min(1.0, max(0.01, tile.ideal * (1 + again / tile.flops) / cycles)),
            recomputed=again,
            reread=self._reread(self._in_operand_order(blocks_m, blocks_n))
            + exchange_cycles(view, blocks, units, target, holds_constants=not tile.cold),
            layout=self._packing(tile, times)
            + self._packing_work.waiting(blocks, places, times)
            + self._waiting_for_constants(blocks, cycles, tile.cold)
            + self._waiting_for_columns(blocks, tile.cold)
            + (tasks * self._box_cycles(box, max(1, blocks_m)) if box else 0.0)
            + tile.turned
            + self._far_terms(tile, blocks, places)
            + tile.sums * self._values.scattered_reads,
            scratch=self._scratch(blocks, places, order, box),
            parallel=parallel,
            cold_bytes=view.cold_bytes,
        )

    def _tile(self, blocks: Blocks, places: tuple[Place, Place]) -> _TileFigures:
        """The figures that the plan shares with all plans of its register tile."""
        key = (blocks.mr, blocks.nr, blocks.algorithm, places)
        if key not in self._tiles:
            self._tiles[key] = self._tile_figures(blocks, places)
        return self._tiles[key]

    def _tile_figures(self, blocks: Blocks, places: tuple[Place, Place]) -> _TileFigures:
        view, lanes = self.view, self.target.lanes
        rows, columns = -(-view.m // blocks.mr), -(-view.n // blocks.nr)
        sums = view.repeats * rows * blocks.mr * columns * blocks.nr
        by_cells = blocks.algorithm in CELL_ALGORITHMS
        depth = cell_operands(view, blocks.algorithm).padded(view.depth) if by_cells else view.depth
        whole = 2.0 * view.repeats * rows * blocks.mr * columns * blocks.nr * depth
        flops = max(flops_of(view) if blocks.algorithm == "dot" else whole, 1.0)
        if unread_digits(view, blocks, places):
            flops *= share_of_terms(view, blocks.mr)
        per_vector, per_row = self._values.epilogue
        return _TileFigures(
            rows=rows,
            columns=columns,
            sums=sums,
            flops=flops,
            ideal=flops / self._per_cycle(blocks),
            folds=sums * _FOLD + sums // blocks.nr * _FORWARD if blocks.algorithm == "dot" else 0.0,
            after=sums // blocks.nr * lanes * (-(-blocks.nr // lanes) * per_vector + per_row),
            turned=len(view.region.outputs) * self._turning(sums, blocks.mr) if self._is_turned else 0.0,
            pack_cycles=(
                self._packing_work.cycles(blocks, 0, places[0]),
                self._packing_work.cycles(blocks, 1, places[1]),
            ),
            bytes=self._bytes(blocks, places),
            cold=self._cold_bytes(blocks, places),
        )

    def _in_operand_order(self, rows: float, columns: float) -> tuple[float, float]:
        """The two numbers in the order of the operands: `rows` for the operand that has the columns."""
        return (columns, rows) if self.view.vector else (rows, columns)

    @cached_property
    def _shared_packings(self) -> float:
        """How often the columns of a product are packed if all products that share them read the same panels."""
        view = self.view
        return view.extent(view.own_products(view.vector)) / max(view.repeats, 1)

    @cached_property
    def _packing_work(self) -> PackingWork:
        return PackingWork(self.view, self.target)

    @cached_property
    def _matrix_work(self) -> MatrixWork:
        return MatrixWork(self.view, self.target)

    @cached_property
    def _values(self) -> ContractionValues:
        return ContractionValues(self.view, self.target)

    @cached_property
    def _elements(self) -> tuple[float, float]:
        """Per operand: its elements."""
        view = self.view
        columns_and_rows = view.repeats * view.depth
        return self._in_operand_order(columns_and_rows * view.n, columns_and_rows * view.m)

    # --- the multiply-adds ---

    @cached_property
    def _registers(self) -> int:
        return registers_per_vector(self.view)

    @cached_property
    def _item(self) -> int:
        """Bytes of a sum."""
        return DTYPES[self.view.accumulator].bytes

    def _compute_dtype(self, blocks: Blocks) -> str:
        """The dtype of the peak: of the operands in cells, else of the sums. Pairs of integers have the rate of fp32:
        two instructions multiply and add two terms."""
        if blocks.algorithm not in CELL_ALGORITHMS:
            return self.view.accumulator
        operands = cell_operands(self.view, blocks.algorithm)
        return "fp32" if operands.stored[0] == "i16" else operands.dtypes[0]

    def _per_cycle(self, blocks: Blocks) -> float:
        """FLOPs of a core in a cycle, at most."""
        dtype = self._compute_dtype(blocks)
        if dtype in PEAK_DTYPES:
            return self.target.per_cycle(dtype)
        return 2 * self.target.lanes * PORTS / self._registers

    def _inner_cycles(self, blocks: Blocks, order: LoopOrder, places: tuple[Place, Place]) -> float:
        """Cycles of the micro-kernel per least cycle of its multiply-adds."""
        wide, place = self._registers, places[self.view.vector]
        if blocks.algorithm == "matrix":
            return self._matrix_work.cycles(blocks, order, places)
        if blocks.algorithm == "dot":
            multiplies = blocks.mr * blocks.nr * wide
            slots = float(max(multiplies, _LOAD * (blocks.mr + blocks.nr) * wide, _DOT_LATENCY * PORTS))
            far = self._far_slots(blocks, order, place, blocks.nr * wide, slots)
            return (slots + far) / multiplies / self._filled_lanes
        vectors = blocks.nr // self.target.lanes * wide
        product = _INTEGER_PRODUCT if blocks.algorithm == "outer" and self.view.accumulator == "i32" else 1.0
        products = product * (blocks.mr + self._has_bias(blocks)) * vectors
        item = self._bytes_of_term(blocks, place)
        loaded = vectors * item / bytes_of_term(self.view, blocks.algorithm)
        far = loaded * self._far_vector_slots if blocks.bk * blocks.nr * item > self.target.l1_bytes else 0
        slots = max(products, _LOAD * (blocks.mr + loaded), far, _LATENCY * PORTS)
        slots += self._far_slots(blocks, order, place, loaded, slots) + _TURN_LOSS
        return slots / (blocks.mr * vectors) * self._over_vectors(blocks)

    @cached_property
    def _far_vector_slots(self) -> float:
        """Slots in which the second-level cache gives a vector."""
        return PORTS * self.target.lanes * 4 / _L2_BYTES

    @cached_property
    def _filled_lanes(self) -> float:
        """The share of the lanes of a dot product that hold a term: every run of neighbouring terms begins a vector."""
        run, _ = self.view.run(self.view.vector, self.view.k)
        length, lanes = self.view.extent(run), self.target.lanes
        return length / (-(-length // lanes) * lanes) if length else 1.0

    def _far_slots(self, blocks: Blocks, order: LoopOrder, place: Place, vectors: float, slots: float) -> float:
        """The slots of a tile's term beyond `slots`, on average, to load `vectors` from beyond the second-level cache:
        where that does not hold all columns, the tiles of a block of rows prefetch them together. The first block of
        rows reads them from memory, which `Work.bytes` counts."""
        operand = self.view.n * self.view.depth * self._bytes_of_term(blocks, place)
        if place == "packed" or operand <= self.target.l2_bytes:
            return 0.0
        tiles = 1 if order == "mnk" else blocks.bm // blocks.mr
        passes = -(-self.view.m // blocks.bm)
        return max(0.0, vectors * PANEL_LINE * PORTS / tiles - slots) * (passes - 1) / max(passes, 1)

    def _over_vectors(self, blocks: Blocks) -> float:
        """How many times the peak is above that of vector registers: bytes may have the peak of matrix registers."""
        if blocks.algorithm != "quads":
            return 1.0
        return self._per_cycle(blocks) / (2 * CELL_TERMS["i8"] * self.target.lanes * PORTS)

    def _has_bias(self, blocks: Blocks) -> bool:
        """Whether a further row sums the products of the bias of quads."""
        return blocks.algorithm == "quads" and cell_operands(self.view, "quads").bias != 0

    # --- the prologue ---

    def _prologue(
        self, blocks: Blocks, tile: _TileFigures, places: tuple[Place, Place], times: tuple[float, float], boxed: int
    ) -> tuple[float, float]:
        """Additions-worth of computing the operands once, and of computing them again. A packed operand is computed
        `times`, an operand in memory for every register tile, and one in boxes as often as its `boxed` elements. Cells
        take terms that a buffer holds as they are. Panels that were packed when the program was built hold the operand,
        or its parts, from which every register tile computes it."""
        once = again = 0.0
        tiles = self._in_operand_order(tile.rows, tile.columns)
        by_cells = blocks.algorithm in CELL_ALGORITHMS
        for side, (weight, place) in enumerate(zip(self._values.operands, places, strict=True)):
            if place == "const_parts":
                weight = self._values.columns_of_parts * _BESIDE_PRODUCTS
            if weight and place != "const_pool" and not (by_cells and holds_terms(self.view, side)):
                elements = boxed / times[side] if place == "box" else self._elements[side]
                passes = tiles[side] if place in ("memory", "const_parts") else times[side]
                once += elements * weight
                again += elements * weight * (passes - 1)
        return once, again

    # --- moves ---

    def _packing(self, tile: _TileFigures, times: tuple[float, float]) -> float:
        """Cycles of packing over all tasks: every element of an operand is packed `times`."""
        (first, second), cycles = self._elements, tile.pack_cycles
        return first * times[0] * cycles[0] + second * times[1] * cycles[1]

    def _far_terms(self, tile: _TileFigures, blocks: Blocks, places: tuple[Place, Place]) -> float:
        """Cycles that rows in memory cost where neighbouring terms do not share a cache line, or where the rows of a
        tile share a set of the first-level cache that does not hold a line of each. If neighbouring rows share a line,
        all tiles load a line per term, or two, and the first-level cache does not hold the lines of a block of k beside
        its panel, or not in the sets that the lines share. Else all tiles load a line per term and row, which that
        cache does not hold until a tile reads the line's next number."""
        side, item = 1 - self.view.vector, self._item
        if blocks.algorithm != "outer" or places[side] != "memory":
            return 0.0
        _, step = self.view.run(side, self.view.k)
        _, distance = self.view.run(side, self.view.rows)
        terms = self.view.repeats * tile.rows * tile.columns * self.view.depth
        if step is not None and abs(step) * item < CACHE_LINE_BYTES:
            held = lines_held(abs(distance) * item, self.target) if distance else blocks.mr
            return terms * blocks.mr * NEAR_LINE if blocks.mr > held else 0.0
        if distance is not None and abs(distance) * item >= CACHE_LINE_BYTES:
            return terms * blocks.mr * NEAR_LINE
        every = 1 if step is None else every_nth_set(step * item)
        if blocks.bk * (blocks.nr * item + CACHE_LINE_BYTES * every) <= self.target.l1_bytes:
            return 0.0
        lines = 1 + (blocks.mr - 1) * item / CACHE_LINE_BYTES
        return terms * lines * _FAR_TERM

    def _box_cycles(self, box: RowBox, blocks_m: int) -> float:
        """Cycles to copy a box, run by run. Each read after the first, of an operand that is computed, waits for the
        cache that holds the block's share of the buffers. The lanes of a read that are no neighbours in memory are
        loaded one by one."""
        reads, lanes = self.view.roles.reads[1 - self.view.vector], self.target.lanes
        run = box.extents[box.lanes]
        buffers = {read.buffer: self.view.buffer(read).memref.nbytes for read in reads}
        line = CACHE_LINE_BYTES * self.target.refetch_cycles(sum(buffers.values()) / blocks_m)
        vector = _BOX_COPY + (len(reads) - 1) * line
        apart = sum(self._step_of(read, box.at[box.lanes]) not in (0, 1) for read in reads)
        return box.elements * ((-(-run // lanes) * vector + _BOX_RUN) / run + apart * self.target.lane_cycles)

    def _step_of(self, read: OperandRead, coordinate: AxisExpr) -> int | None:
        """Elements in memory between two values of a coordinate of the operand."""
        digits = [digit for digit, step in coordinate.terms if step == 1 and isinstance(digit, int)]
        return self.view.offset(read).coeff(digits[-1]) if digits else 0

    def _store_cycles(self, tile: _TileFigures, blocks: Blocks, order: LoopOrder, held: bool) -> float:
        """Cycles to store the sums over all tasks, in whole registers: once per block of k and per further output."""
        if held:
            return tile.sums * len(self.view.region.outputs) * (_HELD_STORE / self.target.lanes)
        resumed = -(-self.view.depth // blocks.bk) - 1 if blocks.bk else 0
        again = _STORE
        if blocks.algorithm == "matrix":
            kept = kept_tiles(blocks, order) * blocks.mr * blocks.nr * self._item
            again = _RESUMED + _FAR_RESUMED * min(1.0, kept / (self.target.l2_bytes / 2))
        return tile.sums * (len(self.view.region.outputs) * _STORE + resumed * again) / self.target.lanes

    def _turning(self, sums: int, mr: int) -> float:
        """Cycles that stores along the rows cost beyond stores along the columns, over all tasks."""
        if not rows_are_neighbours(self.view):
            return sums * (1.0 - _STORE / self.target.lanes)
        whole, cut = divmod(mr, self.target.lanes)
        return sums / mr * (whole * _TURN + (_CUT_TURN if cut else 0.0))

    @cached_property
    def _is_turned(self) -> bool:
        return self.view.n > 1 and self.view.out_step(self.view.columns) != 1

    def _reread(self, times: tuple[float, float]) -> float:
        """Cycles to read operands more than once, where the last cache does not hold them: every operand is read
        `times`."""
        far = self._far
        return (far[0] * (times[0] - 1) + far[1] * (times[1] - 1)) * self._refetch_cycles

    @cached_property
    def _refetch_cycles(self) -> float:
        """Cycles per byte that no cache holds."""
        return self.target.refetch_cycles(math.inf)

    def _bytes(self, blocks: Blocks, places: tuple[Place, Place]) -> float:
        """Bytes of all tensors, with panels that were packed when the program was built in place of their sources. A
        source that the epilogue or the other operand reads, too, counts beside the panels."""
        sources, packed = self.view.source_bytes, [side for side in (0, 1) if places[side] in PACKED_AT_BUILD]
        read = self._values.epilogue_buffers.union(*(sources[side] for side in (0, 1) if side not in packed))
        replaced = {name for side in packed for name in sources[side]} - read
        others = sum(buffer.memref.nbytes for buffer in self.view.region.buffers if buffer.name not in replaced)
        return others + sum(self._constant_bytes(blocks, side, places[side]) for side in packed)

    def _constant_bytes(self, blocks: Blocks, side: int, place: Place) -> float:
        """Bytes from which a call reads a constant operand."""
        view = self.view
        if place not in PACKED_AT_BUILD:
            return view.bytes_read[side]
        lines = view.extent(view.own_products(side)) * (view.n if side == view.vector else view.m)
        return lines * view.depth * self._bytes_of_term(blocks, place)

    def _bytes_of_term(self, blocks: Blocks, place: Place) -> float:
        """Bytes of an element of an operand in panels in this place."""
        if place == "const_parts":
            return bytes_per_term(self.view, constant_parts(self.view))
        return bytes_of_term(self.view, blocks.algorithm)

    def _waiting_for_constants(self, blocks: Blocks, cycles: float, cold: float) -> float:
        """Cycles in which products wait for `cold` bytes of constants, which memory gives, beside `cycles` of
        products. One tile of rows reads constants in the order of memory, and the reading hides the products if it
        takes far longer."""
        less, more = sorted((cycles, self.target.cycles_in(cold / self.target.bandwidth)))
        waiting = _UNHIDDEN * less * less / more
        return max(waiting, waiting_for_constants(cold, cycles, self.target)) if blocks.bm == blocks.mr else waiting

    def _waiting_for_columns(self, blocks: Blocks, cold: float) -> float:
        """Cycles in which dot products wait for columns that the second-level caches do not hold. Constants that come
        from memory are left out: `_waiting_for_constants` counts them."""
        columns = self.view.bytes_read[self.view.vector]
        if blocks.algorithm != "dot" or cold or not are_far(columns / self.target.units, self.target):
            return 0.0
        return columns / CACHE_LINE_BYTES * _DOT_LINE

    def _cold_bytes(self, blocks: Blocks, places: tuple[Place, Place]) -> float:
        """Bytes of the constant operands that come from memory."""
        read = sum(self._constant_bytes(blocks, side, places[side]) for side in (0, 1) if self.view.is_constant(side))
        return cold_constants(read, self.target)

    @cached_property
    def _far(self) -> tuple[int, int]:
        """Per operand: bytes of the tensors from which it is computed and which the last cache does not hold."""
        held = self.target.last_level_bytes / 2
        lhs, rhs = (sum(size for size in sizes.values() if size > held) for sizes in self.view.source_bytes)
        return lhs, rhs

    def _scratch(self, blocks: Blocks, places: tuple[Place, Place], order: LoopOrder, box: RowBox | None) -> int:
        """Bytes of a task's workspace that it passes through repeatedly: rows in panels or in a box, and sums between
        blocks of k."""
        packed = places[1 - self.view.vector] == "packed"
        depth = blocks.bk if order == "knm" else self.view.depth
        rows = box.elements if box else blocks.bm * depth if packed else 0
        sums = kept_tiles(blocks, order) * blocks.mr * blocks.nr if blocks.bk < self.view.depth else 0
        return rows * bytes_of_term(self.view, blocks.algorithm) + sums * self._item
