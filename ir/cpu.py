"""CPU dialect: a kernel as a tree of typed statements over vectors of `lanes` elements.

A kernel has variables (integers: loop counters, tile origins) with known ranges; every offset and bound is an
`AxisExpr` over their numbers, so that strides are literals and accesses can be proved inside their buffers.
Values are registers of `lanes` elements whatever the dtype (fp16 and bf16 live rounded in fp32 lanes); a scalar
is a register whose lanes are equal. Loads and stores say which lanes touch memory: the others never do.

    kernel softmax lanes=16 (x: fp32[8192], y: fp32[8192] out)
      phase t in 0..8
        for i in 16*t .. 16*t + 16
          m = fp32 -inf
          for r in 0 .. 512 step 16
            m = max(m, x[512*i + r : unit])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, Union

import msgspec

from ir.axis_expr import AxisExpr, Box
from ir.dtype import DTYPES
from ir.kernel_nodes import Bind, Comment, Const, Node, Reg, Variable, Within, register_type
from ir.launch import Workspace

__all__ = [
    "LINE_BYTES",
    "Assign",
    "Bind",
    "Call",
    "Comment",
    "Const",
    "Fence",
    "For",
    "If",
    "Inside",
    "Kernel",
    "Lanes",
    "Let",
    "Load",
    "Node",
    "Param",
    "Phase",
    "Pick",
    "Reg",
    "Scratch",
    "Stmt",
    "Store",
    "Transpose",
    "Value",
    "Variable",
    "Within",
    "children",
    "register_type",
    "values_of",
    "walk",
]

LINE_BYTES = 64
"""A cache line: scratch buffers share none."""


# Values: registers of `lanes` elements. `dtype` is that of the register, never fp16 or bf16.


class Lanes(Node, frozen=True):
    """`expr` with `variable` advanced by the lane number: the values of an index (i32 or i64) in neighbouring
    lanes; equal lanes where `variable` is None."""

    expr: AxisExpr
    variable: int | None
    dtype: str


class Inside(Node, frozen=True):
    """A mask: of the first `count` lanes (all when None) those in which all `conditions` hold, with `variable`
    advanced by the lane number."""

    conditions: tuple[Within, ...]
    variable: int
    count: int | AxisExpr | None = None
    dtype: str = "bool"


class Call(Node, frozen=True):
    """A prelude function, lane by lane: `eq_<fn>_<type of the last argument>`; "cast" converts to `dtype`."""

    fn: str
    args: tuple[Value, ...]
    dtype: str


class Load(Node, frozen=True):
    """`count` elements (all lanes when None; the others are 0) of `buffer` from element `offset`.

    unit: neighbours. splat: one element in all lanes. strided: `step` elements apart.
    gather: at offset + `index` (i64 lanes). Of unit and gather `mask` says which lanes exist (all when None).
    """

    buffer: str
    offset: AxisExpr
    dtype: str
    mode: Literal["unit", "splat", "strided", "gather"] = "unit"
    count: int | AxisExpr | None = None
    step: int = 1
    index: Value | None = None
    mask: Value | None = None


Value: TypeAlias = Union["Const", "Reg", "Lanes", "Inside", "Call", "Load"]


# Statements.


class Let(Node, frozen=True):
    """A register, defined until the end of its block; `mutable` ones may be assigned."""

    name: str
    value: Value
    mutable: bool = False


class Assign(Node, frozen=True):
    name: str
    value: Value


class Store(Node, frozen=True):
    """The first `count` lanes (all when None) to `buffer` from element `offset`, `step` elements apart.
    `stream` bypasses the caches."""

    buffer: str
    offset: AxisExpr
    value: Value
    count: int | AxisExpr | None = None
    step: int = 1
    stream: bool = False


class Pick(Node, frozen=True):
    """Sets a variable to an i64 register's first lane, held within the variable's range: an index from data."""

    variable: int
    value: Value


class For(Node, frozen=True):
    """`variable` from `start` while it is below min(stop, limit)."""

    variable: int
    start: AxisExpr
    stop: AxisExpr
    body: tuple[Stmt, ...]
    step: int = 1
    limit: int | None = None


class If(Node, frozen=True):
    conditions: tuple[Within, ...]
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()


class Fence(Node, frozen=True):
    """Streamed stores before it are seen by whatever starts after it."""


class Transpose(Node, frozen=True):
    """lanes × lanes elements turned: element j of row i of `source` becomes element i of row j of `buffer`. Rows
    start at the offsets and are `step` elements apart."""

    buffer: str
    offset: AxisExpr
    step: int
    source: str
    source_offset: AxisExpr
    source_step: int


Stmt: TypeAlias = Union["Comment", "Let", "Assign", "Store", "Bind", "Pick", "For", "If", "Fence", "Transpose"]


class Param(msgspec.Struct, frozen=True):
    """A buffer the caller passes: `dtype` and number of elements in memory."""

    name: str
    dtype: str
    elements: int
    written: bool = False


class Scratch(msgspec.Struct, frozen=True):
    """A buffer of the kernel's own, in the workspace that the caller passes; not initialised."""

    name: str
    dtype: str
    elements: int

    @property
    def nbytes(self) -> int:
        """Its place in a workspace: whole cache lines."""
        return -(-self.elements * DTYPES[self.dtype].bytes // LINE_BYTES) * LINE_BYTES


class Phase(msgspec.Struct, frozen=True):
    """`tasks` independent runs of `body`, `variable` numbering them; a phase starts when the one before ended."""

    variable: int
    tasks: int
    body: tuple[Stmt, ...]


class Kernel(msgspec.Struct, frozen=True):
    """`params` are the region's inputs, then its outputs. `shared` scratch lives through all phases and is seen
    by all tasks; of `private` scratch every thread has its own, and what a task leaves there is lost. `comment` is
    printed above the text."""

    name: str
    lanes: int
    params: tuple[Param, ...]
    variables: tuple[Variable, ...]
    phases: tuple[Phase, ...]
    shared: tuple[Scratch, ...] = ()
    private: tuple[Scratch, ...] = ()
    comment: str = ""

    @property
    def buffers(self) -> tuple[Param | Scratch, ...]:
        """What the phases see."""
        return (*self.params, *self.shared, *self.private)

    @property
    def workspace(self) -> Workspace:
        """The memory that a call needs besides its params."""
        return Workspace(sum(each.nbytes for each in self.shared), sum(each.nbytes for each in self.private))

    @property
    def box(self) -> Box:
        """The ranges of the variables, as `ir.axis_expr` takes them."""
        return tuple((each.low, each.high) for each in self.variables)

    def __str__(self) -> str:
        from ir.cpu_text import kernel_text

        return kernel_text(self)


def children(node: Value) -> tuple[Value, ...]:
    """The values that a value is computed from."""
    match node:
        case Call():
            return node.args
        case Load():
            return tuple(each for each in (node.index, node.mask) if each is not None)
    return ()


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, outer before inner, in order."""
    for stmt in body:
        yield stmt
        match stmt:
            case For():
                yield from walk(stmt.body)
            case If():
                yield from walk(stmt.then)
                yield from walk(stmt.orelse)


def values_of(stmt: Stmt) -> Iterator[Value]:
    """The values in a statement itself, not in its body: operands before what uses them."""
    match stmt:
        case Let() | Assign() | Store() | Pick():
            yield from _below(stmt.value)


def _below(value: Value) -> Iterator[Value]:
    for child in children(value):
        yield from _below(child)
    yield value
