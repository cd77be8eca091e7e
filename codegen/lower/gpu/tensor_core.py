"""Products on tensor cores: fragments by ldmatrix, one step of 32 bytes of terms ahead of the mma that use them.

    ldmatrix x4 a[4*i] := As[stage][…]        16 rows × 16 terms of tile i
    ldmatrix x4 b[4*j] := Bs[stage][…]        16 terms × 16 columns of tiles 2j and 2j + 1
    mma m16n8k16 acc[…] += a[4*i] · b[2*j]

Tiles that lie along rows or columns in shared memory are transposed on the way. The layouts stand in
`ir.kernel.gpu.device_functions`.

Floats (m16n8k8) are as many bytes: where they lie along terms, an 8 × 8 matrix of halves is one of 8 × 4 floats; where
they lie along rows or columns, each lane loads its own words. They are rounded to tf32 as registers hold them, just
before their mma; rows that stay in registers once.

Rows that are weights of a stream were accumulators: a lane has two neighbouring terms, where a fragment of tf32 has
terms 4 apart. Terms may be taken in any order, so the fragments of columns take them in that of the accumulators.
"""

from __future__ import annotations

from typing import NamedTuple

from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.contraction_frame import GpuContractionFrame
from codegen.lower.gpu.main_loop import Between, no_copies
from codegen.lower.gpu.operand_tile import OperandTile
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant, mod
from ir.kernel.gpu.kernel import WORD
from ir.kernel.gpu.nodes import At, Call, Element, LdMatrix, LdSharedVec, MmaSync, SetElement
from ir.kernel.nodes import Within
from ir.plan.gpu import MMA_LANES, MMA_ROWS, ContractionTile

ROWS, COLUMNS = MMA_ROWS, 8
"""Rows and columns of one mma."""
ACC, A, B = 4, 4, 2
"""Registers of a lane per mma: sums, rows, columns."""
_MATRIX_BYTES = 16
"""Bytes of a row of one 8 × 8 matrix: half the terms of an mma."""


class MatrixFragment:
    """The accumulators of a warp's tile, and their rows and columns."""

    neighbours = 2
    """Neighbouring columns in a lane's registers."""
    across = MMA_LANES
    """Neighbouring lanes that have the same rows."""

    def __init__(self, writer: GpuWriter, tile: ContractionTile, name: str = "acc") -> None:
        self.writer = writer
        self.mi, self.ni = tile.warp_m // ROWS, tile.warp_n // COLUMNS
        warp_row, warp_column = writer.split(writer.warp, tile.warps[1])
        self.row, self.column = warp_row * tile.warp_m, warp_column * tile.warp_n
        self.own_rows, self.count = 2 * self.mi, ACC * self.mi * self.ni
        self.acc = writer.array(name, "fp32", self.count, zero=True)

    def place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        """Row and column in the block's tile of accumulator register `element`."""
        _, j, _, right = self._coordinates(element)
        quad = self.writer.split(self.writer.lane, 4)[1]
        return self.row_place(self.row_of(element)), self.column + j * COLUMNS + quad * 2 + right

    def row_of(self, element: AxisExpr) -> AxisExpr:
        """Which of the thread's rows a register is of."""
        i, _, low, _ = self._coordinates(element)
        return i * 2 + low

    def row_place(self, row: AxisExpr) -> AxisExpr:
        """Where in the block's tile a row of the thread is."""
        i, low = self.writer.split(row, 2)
        return self.row + i * ROWS + low * 8 + self.writer.split(self.writer.lane, 4)[0]

    def _coordinates(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr, AxisExpr, AxisExpr]:
        """Number of the tile of rows, of the tile of columns, whether the lower half, whether the right column."""
        fragment, inside = self.writer.split(element, ACC)
        return *self.writer.split(fragment, self.ni), *self.writer.split(inside, 2)


class TensorCore(MatrixFragment):
    """A fragment, with the code that adds products to it.

    `held`: the fragments of the rows for all steps stay in the registers `a`. `hold` fills them from the tile of the
    rows; without a tile the caller fills them. `ahead`: fragments are loaded one step before their mma.
    """

    def __init__(
        self,
        frame: GpuContractionFrame,
        rows: OperandTile | None,
        columns: OperandTile,
        *,
        held: bool = False,
        ahead: bool = True,
        name: str = "acc",
    ) -> None:
        super().__init__(frame.writer, frame.tile, name)
        self.rows, self.columns, self.held = rows, columns, held
        self.steps, self.half = frame.tile.steps, _MATRIX_BYTES // DTYPES[columns.staged.dtype].bytes
        self.shape, self.dtype = f"m16n8k{2 * self.half}", frame.tile.multiplied
        self.in_pairs = rows is None and self.dtype == "tf32"
        """Whether a lane's two terms of an mma are neighbours."""
        loaded = min(self.steps, 2 if ahead else 1)
        self.turns = {True: self.steps if held else loaded, False: loaded}
        """Of rows, and of columns: the steps whose fragments lie side by side."""
        self.a = self.writer.array("a", WORD, self.turns[True] * A * self.mi)
        self.b = self.writer.array("b", WORD, self.turns[False] * B * self.ni)

    def hold(self, block: GpuBlock) -> None:
        """Loads the fragments of the rows, once for all stages."""
        with block.loop("step", constant(self.steps), unroll=True) as (body, step):
            self._load_rows(body, step, constant(0))
        if self.dtype == "tf32":
            self._round(block, self.a, self.turns[True] * A * self.mi, constant(0))

    def multiply(self, block: GpuBlock, stage: AxisExpr, between: Between = no_copies) -> None:
        """Adds the products of all terms of a stage; every step writes its share of copies."""
        ahead = self.turns[False] > 1
        if ahead:
            self.load_first(block, stage)
        with block.loop("step", constant(self.steps), unroll=True) as (body, step):
            if ahead:
                with body.guard(Within(step.shift(1), 0, self.steps)) as inside:
                    self._load(inside, step.shift(1), stage)
            else:
                self._load(body, step, stage)
            self._step(body, step)
            between(body, step, self.steps)

    def load_first(self, block: GpuBlock, stage: AxisExpr) -> None:
        """Loads the fragments of a stage's first step."""
        self._load(block, ZERO, stage)

    def multiply_but_last(self, block: GpuBlock, stage: AxisExpr, between: Between) -> None:
        """Adds the products of all steps but the last; loads fragments from the second step's on to the last one's."""
        last = self.steps - 1
        with block.loop("step", constant(last), unroll=True) as (body, step):
            self._load(body, step.shift(1), stage)
            self._step(body, step)
            between(body, step, last)

    def multiply_last(self, block: GpuBlock) -> None:
        """Adds the products of the last step, whose fragments are loaded."""
        self._step(block, constant(self.steps - 1))

    def _step(self, block: GpuBlock, step: AxisExpr) -> None:
        """Adds the products of a step, whose fragments are loaded."""
        if self.dtype == "tf32":
            if not self.held:
                self._round(block, self.a, A * self.mi, self._first(step, rows=True))
            self._round(block, self.b, B * self.ni, self._first(step, rows=False))
        with (
            block.loop("i", constant(self.mi), unroll=True) as (row, i),
            row.loop("j", constant(self.ni), unroll=True) as (inner, j),
        ):
            acc = i * (ACC * self.ni) + j * ACC
            a, b = self._first(step, rows=True) + i * A, self._first(step, rows=False) + j * B
            inner.add(MmaSync(self.shape, self.dtype, self.acc, acc, self.a, a, self.b, b))

    def _first(self, step: AxisExpr, *, rows: bool) -> AxisExpr:
        """The first register of the fragments of a step; the fragments of the next step follow."""
        return mod(step, self.turns[rows], self.writer.box) * (A * self.mi if rows else B * self.ni)

    def _load(self, block: GpuBlock, step: AxisExpr, stage: AxisExpr) -> None:
        if not self.held:
            self._load_rows(block, step, stage)
        self._fragments(block, self.columns, self.b, self.ni // 2, self._first(step, rows=False), step, stage)

    def _load_rows(self, block: GpuBlock, step: AxisExpr, stage: AxisExpr) -> None:
        assert self.rows is not None
        self._fragments(block, self.rows, self.a, self.mi, self._first(step, rows=True), step, stage)

    def _round(self, block: GpuBlock, registers: str, count: int, first: AxisExpr) -> None:
        """Rounds floats in registers to tf32."""
        with block.loop(f"{registers}_i", constant(count), unroll=True) as (body, number):
            index = first + number
            value = Call("from_bits_f32", (Element(registers, index, WORD),), "fp32")
            body.add(SetElement(registers, index, Call("tf32", (value,), WORD)))

    def _fragments(
        self,
        block: GpuBlock,
        tile: OperandTile,
        registers: str,
        count: int,
        first: AxisExpr,
        step: AxisExpr,
        stage: AxisExpr,
    ) -> None:
        """16 rows or columns × the terms of a step at once: four matrices, in the order in which mma takes them."""
        of_rows = tile is self.rows
        warp = self.row if of_rows else self.column
        by_words = self.dtype == "tf32" and (self.in_pairs or not tile.staged.along_k)
        load = self._words if by_words else self._matrices
        with block.loop("i" if of_rows else "j", constant(count), unroll=True) as (body, number):
            piece = _Piece(tile, of_rows, warp + number * 16, step * (2 * self.half), stage)
            load(body, piece, registers, first + number * 4)

    def _words(self, block: GpuBlock, piece: _Piece, registers: str, first: AxisExpr) -> None:
        """Loads four matrices word by word: a lane's rows or columns by groups of lanes, its terms inside the
        groups."""
        group, place = self.writer.split(self.writer.lane, 4)
        with block.loop("word", constant(4), unroll=True) as (body, word):
            high, low = self.writer.split(word, 2)
            beside, further = (low, high) if piece.of_rows else (high, low)
            term = place * 2 + further if self.in_pairs else further * self.half + place
            source = piece.at(beside * 8 + group, term)
            body.add(LdSharedVec(registers, first + word, 1, source))

    def _matrices(self, block: GpuBlock, piece: _Piece, registers: str, first: AxisExpr) -> None:
        """Loads four matrices by one instruction; a lane has the address of one row."""
        split, lane = self.writer.split, self.writer.lane
        upper, lower = split(lane, 16)
        middle, fiber = split(lower, 8)
        along_k = piece.tile.staged.along_k
        if piece.of_rows == along_k:  # lanes 0…15 run through the fibers of two matrices
            near, far = lower, upper * self.half
        else:
            near, far = upper * 8 + fiber, middle * self.half
        own, term = (near, far) if along_k else (far, near)
        block.add(LdMatrix(registers, first, piece.at(own, term), 4, trans=not along_k))


class _Piece(NamedTuple):
    """16 rows or columns × the terms of a step in shared memory, by the first of both."""

    tile: OperandTile
    of_rows: bool
    own: AxisExpr
    term: AxisExpr
    stage: AxisExpr

    def at(self, own: AxisExpr, term: AxisExpr) -> At:
        """The element `own`, `term` of the piece."""
        return self.tile.at(self.own + own, self.term + term, self.stage)
