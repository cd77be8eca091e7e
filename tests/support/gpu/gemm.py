"""A matrix product written by hand in the GPU dialect: what a kernel of the SM80 template looks like.

    C[M, N] = relu(A[M, K] · B[K, N] + bias[N])     fp16 or bf16 in, fp32 accumulators, any M, N, K ≥ 1

A ring of `stages` tiles in swizzled shared memory, filled by asynchronous copies as wide as the rows' alignment allows
(single elements by plain loads where a row has an odd length); fragments by ldmatrix, one k step ahead; the
epilogue on the accumulators; the tile of C through shared memory to stores of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, mod
from ir.kernel.gpu.kernel import (
    BLOCK_X,
    BLOCK_Y,
    LANE,
    THREAD,
    WARP,
    WORD,
    GpuKernel,
    GpuParam,
    Registers,
    Shared,
    id_variables,
)
from ir.kernel.gpu.nodes import (
    At,
    Barrier,
    Call,
    CommitGroup,
    CpAsync,
    Element,
    Epilogue,
    GpuFor,
    GpuIf,
    LdMatrix,
    LdSharedVec,
    LoadGlobal,
    LoadShared,
    MmaSync,
    SetElement,
    StGlobal,
    StGlobalVec,
    Stmt,
    StShared,
    StSharedVec,
    WaitGroup,
)
from ir.kernel.nodes import Comment, Variable, Within

ROW_BYTES = 128
"""Panels of shared memory are so wide, so that one swizzle makes rows and columns of chunks free of bank conflicts."""


def gemm_kernel(
    m: int,
    n: int,
    k: int,
    *,
    dtype: str = "bf16",
    out: str = "fp32",
    tile: tuple[int, int, int] = (128, 128, 32),
    warps: tuple[int, int] = (2, 2),
    stages: int = 3,
    bias: bool = False,
    swizzled: bool = True,
    min_blocks: int = 1,
    arch: str = "sm80",
) -> GpuKernel:
    """The kernel; `swizzled=False` gives the same numbers with bank conflicts."""
    return _Gemm(m, n, k, dtype, out, tile, warps, stages, bias, swizzled, min_blocks, arch).kernel()


def _width(length: int, dtype: str) -> int:
    """How many neighbours of rows of this length may be moved at once: at most 16 bytes."""
    widest = 16 // DTYPES[dtype].bytes
    return next(width for width in (widest, widest // 2, widest // 4, 1) if width and length % width == 0)


class _Gemm:
    def __init__(
        self,
        m: int,
        n: int,
        k: int,
        dtype: str,
        out: str,
        tile: tuple[int, int, int],
        warps: tuple[int, int],
        stages: int,
        bias: bool,
        swizzled: bool,
        min_blocks: int,
        arch: str,
    ) -> None:
        self.m, self.n, self.k, self.dtype, self.out = m, n, k, dtype, out
        (self.bm, self.bn, self.bk), self.stages, self.bias = tile, stages, bias
        self.swizzled, self.min_blocks, self.arch = swizzled, min_blocks, arch
        self.threads = 32 * warps[0] * warps[1]
        self.grid = (-(-n // self.bn), -(-m // self.bm), 1)
        self.warp_m, self.warp_n = self.bm // warps[0], self.bn // warps[1]
        self.mi, self.ni, self.steps = self.warp_m // 16, self.warp_n // 8, self.bk // 16
        self.turns = -(-k // self.bk)
        self.variables = list(id_variables(self.threads, self.grid))
        self.panel = ROW_BYTES // 2
        self.a = self._shared("As", dtype, (self.bm, self.bk), 0)
        self.b = self._shared("Bs", dtype, (self.bn // self.panel, self.bk, self.panel), self.a.end)
        self.c_panel = ROW_BYTES // DTYPES[out].bytes
        self.c = self._staging()
        self.warp_row = floordiv(self.axis(WARP), warps[1], self.box) * self.warp_m
        self.warp_column = mod(self.axis(WARP), warps[1], self.box) * self.warp_n

    def _shared(self, name: str, dtype: str, shape: tuple[int, ...], start: int) -> Shared:
        row = shape[-1] * DTYPES[dtype].bytes
        bits = {32: 1, 64: 2, 128: 3}[row] if self.swizzled else 0
        stages = 1 if name == "Cs" else self.stages
        period = ROW_BYTES << bits
        return Shared(name, dtype, shape, -(-start // period) * period, stages, swizzle=bits)

    def _staging(self) -> Shared:
        """The tile of C, over the ring. Halves go out in rows of a swizzle; of floats lanes write two at once, which
        rows 8 floats longer keep apart."""
        shape = (self.bn // self.c_panel, self.bm, self.c_panel)
        if DTYPES[self.out].bytes == 2:
            return self._shared("Cs", self.out, shape, 0)
        return Shared("Cs", self.out, shape, 0, pitch=self.c_panel + 8)

    # --- expressions ---

    @property
    def box(self) -> tuple[tuple[int, int], ...]:
        return tuple((variable.low, variable.high) for variable in self.variables)

    def axis(self, number: int) -> AxisExpr:
        low, high = self.box[number]
        return constant(low) if low == high else AxisExpr(0, ((number, 1),))

    def variable(self, name: str, count: int) -> int:
        self.variables.append(Variable(name, 0, count - 1))
        return len(self.variables) - 1

    def split(self, expr: AxisExpr, size: int) -> tuple[AxisExpr, AxisExpr]:
        return floordiv(expr, size, self.box), mod(expr, size, self.box)

    def loop(self, name: str, count: int) -> tuple[int, AxisExpr]:
        number = self.variable(name, count)
        return number, self.axis(number)

    # --- the kernel ---

    def kernel(self) -> GpuKernel:
        inputs = [GpuParam("A", self.dtype, (self.m, self.k)), GpuParam("B", self.dtype, (self.k, self.n))]
        if self.bias:
            inputs.append(GpuParam("bias", self.dtype, (self.n,)))
        body = (*self._prologue(), *self._main(), *self._epilogue())
        return GpuKernel(
            f"eq_gemm_{self.m}x{self.n}x{self.k}_{self.dtype}",
            self.arch,
            self.threads,
            self.grid,
            (*inputs, GpuParam("C", self.out, (self.m, self.n), written=True)),
            tuple(self.variables),
            tuple(body),
            (self.a, self.b, self.c),
            (
                Registers("acc", "fp32", 4 * self.mi * self.ni, zero=True),
                Registers("a", WORD, 2 * 4 * self.mi),
                Registers("b", WORD, 2 * 2 * self.ni),
                Registers("out", WORD, 4),
            ),
            self.min_blocks,
            f"plan tile {self.bm}x{self.bn}x{self.bk} stages {self.stages} warp_tile {self.warp_m}x{self.warp_n}\n"
            f"region C[{self.m},{self.n}] = A[{self.m},{self.k}] · B[{self.k},{self.n}]",
        )

    def _prologue(self) -> Iterator[Stmt]:
        yield Comment("fill all stages but one")
        number, stage = self.loop("stage", self.stages - 1)
        copies = tuple(self._copies(stage, stage))
        guarded = (GpuIf((Within(stage, 0, self.turns),), copies),) if self.turns < self.stages - 1 else copies
        yield GpuFor(number, ZERO, constant(self.stages - 1), (*guarded, CommitGroup()), unroll=True)

    def _main(self) -> Iterator[Stmt]:
        number, turn = self.loop("kb", self.turns)
        ahead = turn.shift(self.stages - 1)
        copies = tuple(self._copies(ahead, mod(ahead, self.stages, self.box)))
        yield GpuFor(
            number,
            ZERO,
            constant(self.turns),
            (
                Comment("the oldest stage has arrived, and all have read the one before it"),
                WaitGroup(self.stages - 2),
                Barrier(),
                GpuIf((Within(ahead, 0, self.turns),), copies),
                CommitGroup(),
                *self._products(mod(turn, self.stages, self.box)),
            ),
        )

    def _copies(self, turn: AxisExpr, stage: AxisExpr) -> Iterator[Stmt]:
        first = turn * self.bk
        yield from self._copy("A", self.a, self.bm, self.bk, (self.block_row, first), (self.m, self.k), stage, self.bk)
        yield from self._copy(
            "B", self.b, self.bk, self.bn, (first, self.block_column), (self.k, self.n), stage, self.panel
        )

    @property
    def block_row(self) -> AxisExpr:
        return self.axis(BLOCK_Y) * self.bm

    @property
    def block_column(self) -> AxisExpr:
        return self.axis(BLOCK_X) * self.bn

    def _copy(
        self,
        buffer: str,
        to: Shared,
        rows: int,
        columns: int,
        origin: tuple[AxisExpr, AxisExpr],
        size: tuple[int, int],
        stage: AxisExpr,
        panel: int,
    ) -> Iterator[Stmt]:
        """A tile of `rows` × `columns` from memory, all threads together, zeros beyond `size`."""
        width = _width(size[1], self.dtype)
        pieces = rows * columns // width
        number, turn = self.loop(f"{buffer.lower()}_piece", pieces // self.threads)
        assert pieces % self.threads == 0
        row, piece = self.split(self.axis(THREAD) + turn * self.threads, columns // width)
        column = piece * width
        number_of_panel, inside = self.split(column, panel)
        place = At(to.name, (row, column) if len(to.shape) == 2 else (number_of_panel, row, inside), stage)
        at = (origin[0] + row, origin[1] + column)
        where = (Within(at[0], 0, size[0]), Within(at[1], 0, size[1]))
        nbytes = width * DTYPES[self.dtype].bytes
        if nbytes == 16:
            yield self._pieces(number, turn, pieces, CpAsync(place, buffer, at, 16, where))
        elif nbytes == 8:
            yield self._pieces(number, turn, pieces, CpAsync(place, buffer, at, 8, where))
        elif nbytes == 4:
            yield self._pieces(number, turn, pieces, CpAsync(place, buffer, at, 4, where))
        else:
            yield self._pieces(number, turn, pieces, StShared(place, LoadGlobal(buffer, at, "fp32", where)))

    def _pieces(self, number: int, turn: AxisExpr, pieces: int, body: Stmt) -> Stmt:
        return GpuFor(number, ZERO, constant(pieces // self.threads), (body,), unroll=True)

    def _products(self, stage: AxisExpr) -> Iterator[Stmt]:
        yield from self._fragments(ZERO, stage)
        number, step = self.loop("step", self.steps)
        i, row = self.loop("i", self.mi)
        j, column = self.loop("j", self.ni)
        half = mod(step, 2, self.box)
        product = MmaSync(
            "m16n8k16",
            self.dtype,
            "acc",
            row * (4 * self.ni) + column * 4,
            "a",
            half * (4 * self.mi) + row * 4,
            "b",
            half * (2 * self.ni) + column * 2,
        )
        ahead = (GpuIf((Within(step.shift(1), 0, self.steps),), tuple(self._fragments(step.shift(1), stage))),)
        products = GpuFor(
            i,
            ZERO,
            constant(self.mi),
            (GpuFor(j, ZERO, constant(self.ni), (product,), unroll=True),),
            unroll=True,
        )
        body = (*(ahead if self.steps > 1 else ()), products)
        yield GpuFor(number, ZERO, constant(self.steps), body, unroll=True)

    def _fragments(self, step: AxisExpr, stage: AxisExpr) -> Iterator[Stmt]:
        """The fragments of one k step into the half of the registers that is its turn."""
        half = mod(step, 2, self.box)
        upper, lane = self.split(self.axis(LANE), 16)
        i, row = self.loop("i", self.mi)
        at = (self.warp_row + row * 16 + lane, step * 16 + upper * 8)
        load = LdMatrix("a", half * (4 * self.mi) + row * 4, At("As", at, stage), 4)
        yield GpuFor(i, ZERO, constant(self.mi), (load,), unroll=True)
        j, column = self.loop("j", self.ni // 2)
        panel, inside = self.split(self.warp_column + column * 16 + upper * 8, self.panel)
        at_b = (panel, step * 16 + lane, inside)
        load = LdMatrix("b", half * (2 * self.ni) + column * 4, At("Bs", at_b, stage), 4, trans=True)
        yield GpuFor(j, ZERO, constant(self.ni // 2), (load,), unroll=True)

    # --- the way out ---

    def _epilogue(self) -> Iterator[Stmt]:
        if self.bias:
            number, element = self.loop("e", 4 * self.mi * self.ni)
            column = self.block_column + self._place(element)[1]
            bias = LoadGlobal("bias", (column,), "fp32", (Within(column, 0, self.n),))
            biased = Call("add", (Element("acc", element, "fp32"), bias), "fp32")
            result = SetElement("acc", element, Call("relu", (biased,), "fp32"))
            yield Epilogue("acc", ("bias", "relu"), number, (result,))
        yield Comment("the tile of C, over the stages that all have read")
        yield Barrier()
        number, pair = self.loop("pair", 2 * self.mi * self.ni)
        row, column = self._place(pair * 2)
        panel, inside = self.split(column, self.c_panel)
        store = StSharedVec(At("Cs", (panel, row, inside)), "acc", pair * 2, 2)
        yield GpuFor(number, ZERO, constant(2 * self.mi * self.ni), (store,), unroll=True)
        yield Barrier()
        yield from self._rows()

    def _place(self, element: AxisExpr) -> tuple[AxisExpr, AxisExpr]:
        """Row and column in the block's tile of an accumulator register."""
        fragment, inside = self.split(element, 4)
        i, j = self.split(fragment, self.ni)
        low, right = self.split(inside, 2)
        group, quad = self.split(self.axis(LANE), 4)
        return (
            self.warp_row + i * 16 + low * 8 + group,
            self.warp_column + j * 8 + quad * 2 + right,
        )

    def _rows(self) -> Iterator[Stmt]:
        """The tile from shared memory to rows of C."""
        width, size = _width(self.n, self.out), DTYPES[self.out].bytes
        pieces = self.bm * self.bn // width
        number, turn = self.loop("c_piece", pieces // self.threads)
        row, piece = self.split(self.axis(THREAD) + turn * self.threads, self.bn // width)
        panel, inside = self.split(piece * width, self.c_panel)
        place = At("Cs", (panel, row, inside))
        at = (self.block_row + row, self.block_column + piece * width)
        where = (Within(at[0], 0, self.m), Within(at[1], 0, self.n))
        body: tuple[Stmt, ...]
        if width * size >= 4:
            words = width * size // 4
            body = (LdSharedVec("out", ZERO, words, place), StGlobalVec("C", at, "out", ZERO, words, where))
        else:
            body = (StGlobal("C", at, LoadShared(place, "fp32"), where),)
        yield GpuFor(number, ZERO, constant(pieces // self.threads), body, unroll=True)
