"""The values and statements of the CPU dialect. A value is a register of `lanes` elements."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ir.index.expr import AxisExpr
from ir.kernel.nodes import Assign, Bind, Comment, Const, For, If, KernelNode, Let, Pick, Reg, Within

# Values. `dtype` is the dtype of the register, so never fp16 or bf16.


class Lanes(KernelNode, frozen=True):
    """`expr` with `variable` advanced by the lane number: the values of an index (i32 or i64) in neighbouring
    lanes. Without a variable: `expr` plus `growth` of each lane, or `expr` in all lanes."""

    expr: AxisExpr
    variable: int | None
    dtype: str
    growth: tuple[int, ...] = ()


class Inside(KernelNode, frozen=True):
    """A mask of the lanes, among the first `count` (None: all), in which all `conditions` hold; `variable` is
    advanced by the lane number."""

    conditions: tuple[Within, ...]
    variable: int
    count: int | AxisExpr | None = None
    dtype: str = "bool"


class CpuCall(KernelNode, frozen=True):
    """A prelude function applied lane by lane: `eq_<fn>_<type of the last argument>`; "cast" converts to `dtype`."""

    fn: str
    args: tuple[Value, ...]
    dtype: str

    @property
    def operands(self) -> tuple[KernelNode, ...]:
        return self.args


class Load(KernelNode, frozen=True):
    """`count` elements (None: all lanes; further lanes are 0) of `buffer` from element `offset`.

    unit: neighbours. splat: one element in all lanes. strided: `step` elements apart. cell: the 32 bits from the
    element on, in all lanes, as i32 (`ir.kernel.cpu.cells`).
    gather: at offset + `index` (i64 lanes). In modes unit and gather, and at step -1, `mask` selects the lanes to load
    (None: all).
    """

    buffer: str
    offset: AxisExpr
    dtype: str
    mode: Literal["unit", "splat", "strided", "gather", "cell"] = "unit"
    count: int | AxisExpr | None = None
    step: int = 1
    index: Value | None = None
    mask: Value | None = None

    @property
    def operands(self) -> tuple[KernelNode, ...]:
        return tuple(operand for operand in (self.index, self.mask) if operand is not None)


Value: TypeAlias = Const | Reg | Lanes | Inside | CpuCall | Load


# Statements.


class Store(KernelNode, frozen=True):
    """Stores the first `count` lanes (None: all) to `buffer` from element `offset`, `step` elements apart."""

    buffer: str
    offset: AxisExpr
    value: Value
    count: int | AxisExpr | None = None
    step: int = 1


class CpuFor(For, frozen=True):
    """A loop that ends before `limit` as well. The compiler puts `unroll` turns behind one another."""

    body: tuple[Stmt, ...]
    step: int = 1
    limit: int | None = None
    unroll: int = 1


class CpuIf(If, frozen=True):
    """A branch of the CPU dialect."""

    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


class CopyElements(KernelNode, frozen=True):
    """Copies `count` neighbouring elements of `source` to another buffer of the same dtype."""

    buffer: str
    offset: AxisExpr
    source: str
    source_offset: AxisExpr
    count: int


class Transpose(KernelNode, frozen=True):
    """Transposes lanes × lanes elements: element j of row i of `source` becomes element i of row j of `buffer`. Rows
    start at the offsets and are `step` elements apart."""

    buffer: str
    offset: AxisExpr
    step: int
    source: str
    source_offset: AxisExpr
    source_step: int


class Prefetch(KernelNode, frozen=True):
    """Asks for the cache line of element `offset` of `buffer`, which may lie outside of the buffer: the cache line
    comes into the second-level cache while the kernel goes on."""

    buffer: str
    offset: AxisExpr


class CompilerFence(KernelNode, frozen=True):
    """No load moves across: the compiler keeps no element in a register from before the fence to after, where registers
    are scarce."""


class MatrixSetup(KernelNode, frozen=True):
    """Shapes the matrix registers (`ir.kernel.cpu.matrix`): the first `count` have `rows` rows, the others all."""

    count: int
    rows: int


class MatrixEnd(KernelNode, frozen=True):
    """The end of the use of matrix registers: their contents are lost, and the system need not save them."""


class MatrixZero(KernelNode, frozen=True):
    """Zeroes matrix register `number`."""

    number: int


class MatrixLoad(KernelNode, frozen=True):
    """Loads matrix register `number`: `rows` rows of 64 bytes of `buffer`, from element `offset` on, `step` elements
    apart."""

    number: int
    buffer: str
    offset: AxisExpr
    step: int
    rows: int


class MatrixStore(KernelNode, frozen=True):
    """Stores matrix register `number` as `MatrixLoad` loads it."""

    number: int
    buffer: str
    offset: AxisExpr
    step: int
    rows: int


class MatrixMultiply(KernelNode, frozen=True):
    """Adds to register `sums` the product of the rows in register `rows` and the columns in register `columns`, whose
    elements have these `dtypes`."""

    sums: int
    rows: int
    columns: int
    dtypes: tuple[str, str]


Stmt: TypeAlias = (
    Comment
    | Let[Value]
    | Assign[Value]
    | Store
    | Bind
    | Pick[Value]
    | CpuFor
    | CpuIf
    | CopyElements
    | Transpose
    | Prefetch
    | CompilerFence
    | MatrixSetup
    | MatrixEnd
    | MatrixZero
    | MatrixLoad
    | MatrixStore
    | MatrixMultiply
)
