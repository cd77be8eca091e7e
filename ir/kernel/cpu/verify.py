"""Verifies a CPU kernel: names are bound, types agree, and no access leaves its buffer."""

from __future__ import annotations

from ir.diagnostics import Diagnostic, EqsatError, Kind
from ir.dtype import DTYPES
from ir.index.expr import AxisExpr, interval
from ir.kernel.cpu.kernel import CpuKernel
from ir.kernel.cpu.matrix import REGISTERS, ROWS
from ir.kernel.cpu.nodes import (
    CopyElements,
    CpuFor,
    CpuIf,
    Inside,
    Lanes,
    Load,
    MatrixLoad,
    MatrixMultiply,
    MatrixSetup,
    MatrixStore,
    MatrixZero,
    Prefetch,
    Stmt,
    Store,
    Transpose,
)
from ir.kernel.nodes import Assign, Bind, KernelNode, Let, Pick, Reg, accessed_as, values_of

STAGE = "cpu"


def verify(kernel: CpuKernel) -> None:
    """Raises an EqsatError (MalformedGraph) with everything that is wrong with a kernel.

    Accesses are checked by the ranges of the variables; the range of a variable that lanes advance includes its lanes.
    Two kinds are not checked: accesses under a `CpuIf` or a mask, which their conditions keep inside, and accesses to
    private scratch, whose offsets are differences of two variables.
    """
    problems = _CpuCheck(kernel).run()
    if problems:
        raise EqsatError(
            Diagnostic(kind=Kind.MALFORMED_GRAPH, stage=STAGE, message=message, at=kernel.name) for message in problems
        )


class _CpuScope:
    """Names that are bound in a block and around it: register → (dtype, mutable), and variables."""

    def __init__(self, registers: dict[str, tuple[str, bool]], variables: set[int], guarded: bool) -> None:
        self.registers, self.variables, self.guarded = dict(registers), set(variables), guarded

    def inner(self, guarded: bool = False) -> _CpuScope:
        return _CpuScope(self.registers, self.variables, self.guarded or guarded)


class _CpuCheck:
    def __init__(self, kernel: CpuKernel) -> None:
        self.kernel = kernel
        self.problems: list[str] = []
        self.elements = {buffer.name: buffer.elements for buffer in kernel.buffers}
        self.dtypes = {buffer.name: buffer.dtype for buffer in kernel.buffers}
        self.private = {buffer.name for buffer in kernel.private}
        self.read_only = {param.name for param in kernel.params if not param.written}

    def run(self) -> list[str]:
        for phase in self.kernel.phases:
            self._block(phase.body, _CpuScope({}, {phase.variable}, False))
        return self.problems

    def _block(self, body: tuple[Stmt, ...], scope: _CpuScope) -> None:
        for stmt in body:
            for value in values_of(stmt):
                self._value(value, scope)
            self._stmt(stmt, scope)

    def _stmt(self, stmt: Stmt, scope: _CpuScope) -> None:
        match stmt:
            case Let():
                scope.registers[stmt.name] = (stmt.value.dtype, stmt.mutable)
            case Assign():
                dtype, mutable = scope.registers.get(stmt.name, ("", False))
                self._require(mutable and dtype == stmt.value.dtype, f"`{stmt.name}` cannot take a {stmt.value.dtype}")
            case Store():
                self._require(stmt.buffer not in self.read_only, f"a store to the input {stmt.buffer}")
                self._access(stmt.buffer, stmt.offset, scope)
                fits = accessed_as(self.dtypes.get(stmt.buffer, stmt.value.dtype), stmt.value.dtype)
                self._require(fits is not None, f"a {stmt.value.dtype} stored to {stmt.buffer}")
            case Bind():
                for expr in (stmt.expr, *stmt.most, *stmt.least):
                    self._bound(expr, scope)
                scope.variables.add(stmt.variable)
            case Pick():
                scope.variables.add(stmt.variable)
            case CpuFor():
                self._bound(stmt.start, scope)
                self._bound(stmt.stop, scope)
                inner = scope.inner()
                inner.variables.add(stmt.variable)
                self._block(stmt.body, inner)
            case CpuIf():
                for condition in stmt.conditions:
                    self._bound(condition.expr, scope)
                self._block(stmt.then, scope.inner(guarded=True))
                self._block(stmt.orelse, scope.inner(guarded=True))
            case CopyElements():
                self._require(stmt.buffer not in self.read_only, f"a store to the input {stmt.buffer}")
                self._require(self.dtypes.get(stmt.buffer) == self.dtypes.get(stmt.source), f"a copy of {stmt.source}")
                for last in (0, stmt.count - 1):
                    self._access(stmt.buffer, stmt.offset.shift(last), scope)
                    self._access(stmt.source, stmt.source_offset.shift(last), scope)
            case Transpose():
                self._require(stmt.buffer not in self.read_only, f"a store to the input {stmt.buffer}")
                self._access(stmt.buffer, stmt.offset, scope)
                self._access(stmt.source, stmt.source_offset, scope)
            case Prefetch():
                self._bound(stmt.offset, scope)
                self._require(stmt.buffer in self.elements, f"there is no buffer {stmt.buffer}")
            case MatrixSetup():
                self._require(0 < stmt.rows <= ROWS, f"matrix registers of {stmt.rows} rows")
            case MatrixZero():
                self._matrix(stmt.number)
            case MatrixMultiply():
                self._matrix(stmt.sums, stmt.rows, stmt.columns)
            case MatrixLoad() | MatrixStore():
                self._matrix(stmt.number)
                stored = isinstance(stmt, MatrixStore)
                self._require(not stored or stmt.buffer not in self.read_only, f"a store to the input {stmt.buffer}")
                self._access(stmt.buffer, stmt.offset, scope)
                self._access(stmt.buffer, stmt.offset.shift(self._last_of(stmt)), scope)

    def _value(self, value: KernelNode, scope: _CpuScope) -> None:
        match value:
            case Reg():
                known = scope.registers.get(value.name)
                self._require(known is not None and known[0] == value.dtype, f"`{value.name}` is no {value.dtype} here")
            case Lanes():
                self._bound(value.expr, scope)
            case Inside():
                for condition in value.conditions:
                    self._bound(condition.expr, scope)
            case Load(mode="cell"):
                last = 4 // DTYPES[self.dtypes.get(value.buffer, value.dtype)].bytes - 1
                self._access(value.buffer, value.offset, scope)
                self._access(value.buffer, value.offset.shift(last), scope)
                self._require(value.dtype == "i32", f"a cell of {value.buffer} loaded as {value.dtype}")
            case Load():
                if value.mode != "gather" and value.mask is None:
                    self._access(value.buffer, value.offset, scope)
                turned = value.mode == "strided" and value.mask is not None
                self._require(not turned or value.step == -1, f"a mask of {value.buffer} at step {value.step}")
                self._require(
                    accessed_as(self.dtypes.get(value.buffer, value.dtype), value.dtype) is not None,
                    f"{value.buffer} loaded as {value.dtype}",
                )

    def _matrix(self, *numbers: int) -> None:
        self._require(all(0 <= number < REGISTERS for number in numbers), f"no matrix registers {numbers}")

    def _last_of(self, stmt: MatrixLoad | MatrixStore) -> int:
        """The last element of the rows of a matrix register, counted from the first."""
        dtype = self.dtypes.get(stmt.buffer)
        row = 4 * ROWS // DTYPES[dtype].bytes if dtype else 1
        return (stmt.rows - 1) * stmt.step + row - 1

    def _access(self, buffer: str, offset: AxisExpr, scope: _CpuScope) -> None:
        self._bound(offset, scope)
        if buffer not in self.elements:
            self.problems.append(f"there is no buffer {buffer}")
            return
        if scope.guarded or buffer in self.private:
            return
        low, high = interval(offset, self.kernel.box)
        size = self.elements[buffer]
        self._require(low >= 0, f"{buffer} is reached before its start, at {low}")
        self._require(high < size, f"{buffer} of {size} elements is reached at {high}")

    def _bound(self, expr: AxisExpr, scope: _CpuScope) -> None:
        free = sorted(self.kernel.variables[number].name for number in expr.axes - scope.variables)
        self._require(not free, f"{', '.join(free)} not bound in {expr}")

    def _require(self, condition: bool, message: str) -> None:
        if not condition and message not in self.problems:
            self.problems.append(message)
