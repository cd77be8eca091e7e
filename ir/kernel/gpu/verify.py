"""Verifies a GPU kernel: names are bound, types agree, no access leaves its buffer or its alignment, threads reach
together what they must do together, and nothing is read or overwritten too early: no tile
(`ir.kernel.gpu.async_copies`), no buffer through which blocks exchange results (`ir.kernel.gpu.meeting`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ir.diagnostics import Diagnostic, EqsatError, Kind
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, Box, FloorDiv, interval
from ir.index.strides import flat
from ir.index.text import bounds
from ir.kernel.gpu import declared as gpu_declared
from ir.kernel.gpu.async_copies import hazards
from ir.kernel.gpu.device_functions import DEVICE_FUNCTIONS, REGISTER_C, called_function, parameters
from ir.kernel.gpu.kernel import COUNTER, IDS, WARP_LANES, WORD, GpuKernel, GpuParam, Registers, Shared
from ir.kernel.gpu.limits import LIMITS, WARPGROUP, WARPGROUP_ROWS
from ir.kernel.gpu.meeting import workspace_hazards
from ir.kernel.gpu.nodes import (
    AnyLane,
    AnyThread,
    At,
    AwaitTicket,
    Barrier,
    Call,
    CommitGroup,
    CpAsync,
    Element,
    Epilogue,
    GpuFor,
    GpuIf,
    Holds,
    Index,
    LdGlobalVec,
    LdMatrix,
    LdSharedVec,
    LoadGlobal,
    LoadShared,
    MmaSync,
    SetElement,
    Shuffle,
    StGlobal,
    StGlobalVec,
    Stmt,
    StShared,
    StSharedVec,
    SyncWarp,
    TakeTicket,
    Value,
    WaitGroup,
    Wgmma,
    WgmmaCommit,
    WgmmaFence,
    WgmmaWait,
)
from ir.kernel.gpu.places import divisor, narrow_box, outside, value_range
from ir.kernel.gpu.uniform import ID_SPREADS, Spread, spread, spread_of
from ir.kernel.gpu.warpgroups import Matrix, matrix_problems, warpgroup_columns
from ir.kernel.nodes import (
    Assign,
    Bind,
    Const,
    KernelNode,
    Let,
    Pick,
    Reg,
    Within,
    accessed_as,
    register_type,
    values_of,
)

STAGE = "gpu"
Problems = Iterator[tuple[Kind, str]]

_WRONG, _MISALIGNED = Kind.MALFORMED_GRAPH, Kind.ALIGNMENT_MISMATCH


def verify(kernel: GpuKernel) -> None:
    """Raises an EqsatError with everything that is wrong with a kernel: MalformedGraph, AlignmentMismatch for an access
    whose width its address does not allow, ResourceExceeded for more than a block may have.

    Coordinates are checked one by one against the ranges of the variables and the conditions around an access.
    Accesses of different threads are ordered by barriers alone.
    """
    problems = dict.fromkeys((*gpu_declared.problems(kernel), *_GpuCheck(kernel).run()))
    if not problems:  # the checks below need a well-formed kernel
        messages = (*hazards(kernel), *workspace_hazards(kernel))
        problems = dict.fromkeys((_WRONG, message) for message in messages)
    if problems:
        raise EqsatError(
            Diagnostic(kind=kind, stage=STAGE, message=message, at=kernel.name) for kind, message in problems
        )


class _GpuScope:
    """Names that are bound in a block and around it."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = set(names)
        self.scalars: dict[str, tuple[str, bool]] = {}
        """Register → its dtype, and whether it is mutable."""
        self.variables: dict[int, Spread] = dict(ID_SPREADS)
        self.unrolled: frozenset[int] = frozenset()
        self.facts: tuple[Within, ...] = ()
        self.control = Spread.BLOCK
        """The threads that reach the block together."""

    def inner(self) -> _GpuScope:
        scope = _GpuScope(self.names)
        scope.scalars, scope.variables = dict(self.scalars), dict(self.variables)
        scope.unrolled, scope.facts, scope.control = self.unrolled, self.facts, self.control
        return scope

    def bind_name(self, name: str) -> Problems:
        """Binds a name, which must not hide another."""
        yield from _unless(name not in self.names, f"the name {name} hides another")
        self.names.add(name)


class _GpuCheck:
    def __init__(self, kernel: GpuKernel) -> None:
        self.kernel = kernel
        self.box = kernel.box
        self.params: dict[str, GpuParam] = {buffer.name: buffer for buffer in kernel.memory}
        self.shared: dict[str, Shared] = {shared.name: shared for shared in kernel.shared}
        self.registers: dict[str, Registers] = {array.name: array for array in kernel.registers}
        self.filled = {array.name for array in kernel.registers if array.zero}

    def run(self) -> list[tuple[Kind, str]]:
        ids = (variable.name for variable in self.kernel.variables if variable.name in IDS)
        return list(self._block(self.kernel.body, _GpuScope((*self.params, *self.registers, *ids))))

    def _block(self, body: tuple[Stmt, ...], scope: _GpuScope) -> Problems:
        for stmt in body:
            for value in values_of(stmt):
                yield from self._value(value, scope)
            yield from self._stmt(stmt, scope)

    # --- statements ---

    def _stmt(self, stmt: Stmt, scope: _GpuScope) -> Problems:
        match stmt:
            case Bind() | Pick():
                yield from self._bind(stmt, scope)
            case Let():
                yield from scope.bind_name(stmt.name)
                scope.scalars[stmt.name] = (stmt.value.dtype, stmt.mutable)
            case Assign():
                dtype, mutable = scope.scalars.get(stmt.name, ("", False))
                yield from _unless(mutable and dtype == stmt.value.dtype, f"`{stmt.name}` takes no {stmt.value.dtype}")
            case SetElement():
                yield from self._fill(stmt.registers, stmt.index, 1, stmt.value.dtype, scope)
            case GpuFor():
                yield from self._for(stmt, scope)
            case GpuIf():
                yield from self._if(stmt, scope)
            case Epilogue():
                yield from self._epilogue(stmt, scope)
            case CommitGroup() | WaitGroup() | Barrier() | SyncWarp():
                yield from self._check_together(stmt, scope)
            case AnyThread() | AnyLane():
                yield from self._any_thread(stmt, scope)
            case TakeTicket():
                yield from self._counter(stmt, scope)
                yield from scope.bind_name(stmt.name)
                scope.scalars[stmt.name] = ("i32", False)
            case AwaitTicket():
                yield from self._counter(stmt, scope)
            case CpAsync():
                yield from self._copy(stmt, scope)
            case LdMatrix() | MmaSync():
                yield from _unless(
                    scope.control <= Spread.WARP, f"a {_class_name(stmt)} that not all lanes reach together"
                )
                yield from self._load_matrix(stmt, scope) if isinstance(stmt, LdMatrix) else self._mma(stmt, scope)
            case Wgmma() | WgmmaFence() | WgmmaCommit() | WgmmaWait():
                yield from self._warpgroup(stmt, scope)
            case LdGlobalVec() | StGlobalVec() | LdSharedVec() | StSharedVec():
                yield from self._vector(stmt, scope)
            case StGlobal():
                written = self.params.get(stmt.buffer)
                yield from self._memory(stmt.buffer, stmt.at, 1, stmt.where, scope, write=True)
                yield from _fits_element(written, stmt.value.dtype, stmt.buffer)
            case StShared():
                yield from self._place(stmt.to, 1, 1, scope)
                yield from _fits_element(self.shared.get(stmt.to.shared), stmt.value.dtype, stmt.to.shared)

    def _bind(self, stmt: Bind | Pick[Value], scope: _GpuScope) -> Problems:
        variable = self.kernel.variables[stmt.variable]
        known = Spread.THREAD
        if isinstance(stmt, Bind):
            exprs = (stmt.expr, *stmt.most, *stmt.least)
            yield from self._bound(exprs, scope)
            known = spread(exprs, scope.variables)
            low, high = value_range(stmt.expr, scope.facts, narrow_box(scope.facts, self.box) or self.box)
            for limit in stmt.most:
                low, high = (min(a, b) for a, b in zip((low, high), bounds(limit, self.box), strict=True))
            for limit in stmt.least:
                low, high = (max(a, b) for a, b in zip((low, high), bounds(limit, self.box), strict=True))
            inside = variable.low <= low and high <= variable.high
            yield from _unless(inside, f"{variable.name} is set to {low} … {high}, beyond its range")
        else:
            yield from _unless(stmt.value.dtype in ("i32", "i64"), f"{variable.name} is picked from no integer")
            yield from _unless(variable.low == 0, f"{variable.name} is picked, and does not start at 0")
        yield from scope.bind_name(variable.name)
        scope.variables[stmt.variable] = known

    def _for(self, loop: GpuFor, scope: _GpuScope) -> Problems:
        variable = self.kernel.variables[loop.variable]
        yield from self._bound((loop.start, loop.stop), scope)
        yield from _unless(loop.step >= 1, f"the loop over {variable.name} does not advance")
        low, high = interval(loop.start, self.box)[0], interval(loop.stop, self.box)[1] - 1
        inside = variable.low <= low and high <= variable.high
        yield from _unless(inside, f"{variable.name} runs over {low} … {high}, beyond its range")
        inner = scope.inner()
        yield from inner.bind_name(variable.name)
        inner.variables[loop.variable] = spread((loop.start, loop.stop), scope.variables)
        inner.control = max(scope.control, inner.variables[loop.variable])
        if loop.unroll:
            ends = (loop.start.axes | loop.stop.axes) - scope.unrolled
            yield from _unless(not ends, f"the loop over {variable.name} cannot be unrolled: its ends are not constant")
            inner.unrolled |= {loop.variable}
        yield from self._block(loop.body, inner)

    def _if(self, stmt: GpuIf, scope: _GpuScope) -> Problems:
        yield from self._bound((condition.expr for condition in stmt.conditions), scope)
        together = max(scope.control, spread_of(stmt.conditions, scope.variables))
        for body, facts in ((stmt.then, stmt.conditions), (stmt.orelse, ())):
            inner = scope.inner()
            inner.facts, inner.control = (*scope.facts, *facts), together
            yield from self._block(body, inner)

    def _epilogue(self, stmt: Epilogue, scope: _GpuScope) -> Problems:
        inner = scope.inner()
        inner.variables[stmt.variable] = Spread.BLOCK
        inner.unrolled |= {stmt.variable}
        variable, acc = self.kernel.variables[stmt.variable], self.registers.get(stmt.acc)
        yield from inner.bind_name(variable.name)
        yield from _unless(acc is not None, f"there are no registers {stmt.acc}")
        if acc is not None:
            inside = variable.low == 0 and variable.high == acc.count - 1
            yield from _unless(inside, f"{variable.name} does not number the {acc.count} registers of {stmt.acc}")
        yield from self._block(stmt.body, inner)

    def _check_together(self, stmt: CommitGroup | WaitGroup | Barrier | SyncWarp, scope: _GpuScope) -> Problems:
        widest = Spread.WARP if isinstance(stmt, SyncWarp) else Spread.BLOCK
        whose = "lanes of a warp" if widest is Spread.WARP else "threads of the block"
        yield from _unless(scope.control <= widest, f"a {_class_name(stmt)} that not all {whose} reach together")
        if isinstance(stmt, WaitGroup):
            yield from _unless(stmt.pending >= 0, "a WaitGroup for fewer than no groups")

    def _any_thread(self, stmt: AnyThread | AnyLane, scope: _GpuScope) -> Problems:
        variable = self.kernel.variables[stmt.variable]
        known, all_of = (
            (Spread.BLOCK, "threads of the block") if isinstance(stmt, AnyThread) else (Spread.WARP, "lanes")
        )
        message = f"an {_class_name(stmt)} that not all {all_of} reach together"
        yield from _unless(scope.control <= known, message)
        dtype = stmt.value.dtype
        yield from _unless(dtype == "bool", f"{variable.name} needs a bool of every thread, not a {dtype}")
        yield from _unless((variable.low, variable.high) == (0, 1), f"{variable.name} is 0 or 1, beyond its range")
        yield from scope.bind_name(variable.name)
        scope.variables[stmt.variable] = known

    def _counter(self, stmt: TakeTicket | AwaitTicket, scope: _GpuScope) -> Problems:
        counters = self.params.get(stmt.buffer)
        if counters is None or counters.dtype != COUNTER or len(counters.shape) != len(stmt.at):
            yield _WRONG, f"there are no counters {stmt.buffer} of {len(stmt.at)} axes"
            return
        yield from self._bound((*stmt.at, stmt.count), scope)
        for problem in outside(stmt.at, counters.shape, 1, scope.facts, self.box):
            yield _WRONG, f"{stmt.buffer}: {problem}"
        least = value_range(stmt.count, scope.facts, self.box)[0]
        yield from _unless(least >= 1, f"a {_class_name(stmt)} of none")

    def _copy(self, stmt: CpAsync, scope: _GpuScope) -> Problems:
        param = self.params.get(stmt.buffer)
        if param is None or param.dtype == COUNTER:
            yield _WRONG, f"there is no buffer {stmt.buffer} of elements"
            return
        count = stmt.nbytes // DTYPES[param.dtype].bytes
        if stmt.count is not None:
            yield from self._bound((stmt.count,), scope)
        yield from self._memory(stmt.buffer, stmt.at, count, stmt.where, scope, limit=stmt.count)
        yield from self._place(stmt.to, count, stmt.nbytes, scope)
        shared = self.shared.get(stmt.to.shared)
        same = shared is None or shared.dtype == param.dtype
        yield from _unless(same, f"{stmt.buffer} is copied to {stmt.to.shared}, which has another dtype")

    def _load_matrix(self, stmt: LdMatrix, scope: _GpuScope) -> Problems:
        shared = self.shared.get(stmt.source.shared)
        size = DTYPES[shared.dtype].bytes if shared is not None else 2
        fits = size == 2 or (size == 4 and not stmt.trans)
        yield from _unless(fits, f"an LdMatrix of {stmt.source.shared}, whose elements are not halves")
        yield from self._place(stmt.source, 16 // size, 16, scope)
        yield from self._fill(stmt.registers, stmt.index, stmt.matrices, WORD, scope)

    def _mma(self, stmt: MmaSync, scope: _GpuScope) -> Problems:
        limits = LIMITS.get(self.kernel.arch)
        tile = limits.mma.get((stmt.shape, stmt.dtype)) if limits else None
        if tile is None:
            yield _WRONG, f"{self.kernel.arch} has no MmaSync {stmt.shape} of {stmt.dtype}"
            return
        yield from self._read(stmt.acc, stmt.acc_index, tile.acc, "fp32", scope)
        yield from self._read(stmt.a, stmt.a_index, tile.a, WORD, scope)
        yield from self._read(stmt.b, stmt.b_index, tile.b, WORD, scope)

    def _warpgroup(self, stmt: Wgmma | WgmmaFence | WgmmaCommit | WgmmaWait, scope: _GpuScope) -> Problems:
        together = scope.control is Spread.BLOCK and self.kernel.threads % (WARPGROUP * WARP_LANES) == 0
        yield from _unless(together, f"a {_class_name(stmt)} that not all threads of whole warpgroups reach together")
        limits = LIMITS.get(self.kernel.arch)
        if limits is None or not limits.warpgroup_columns:
            yield _WRONG, f"{self.kernel.arch} has no {_class_name(stmt)}"
            return
        if isinstance(stmt, WgmmaWait):
            yield from _unless(stmt.pending >= 0, "a WgmmaWait for fewer than no groups")
        if isinstance(stmt, WgmmaCommit):
            return
        acc = self.registers.get(stmt.acc)
        columns = 0 if acc is None or acc.dtype != "fp32" else warpgroup_columns(acc)
        known = columns in limits.warpgroup_columns
        yield from _unless(known, f"{stmt.acc} is no array of the sums of a warpgroup")
        if isinstance(stmt, Wgmma):
            yield from self._read(stmt.acc, ZERO, 1, "fp32", scope)
            yield from _unless(stmt.dtype in ("fp16", "bf16"), f"a Wgmma of {stmt.dtype}")
            for at, extent in ((stmt.rows, WARPGROUP_ROWS), (stmt.columns, columns)):
                yield from self._place(at, 1, 2, scope)
                if at.shared in self.shared:
                    matrix = Matrix(at, self.shared[at.shared], extent, stmt.dtype)
                    yield from matrix_problems(matrix, self.kernel, scope.facts, scope.variables)

    def _vector(self, stmt: LdGlobalVec | StGlobalVec | LdSharedVec | StSharedVec, scope: _GpuScope) -> Problems:
        registers = self.registers.get(stmt.registers)
        if registers is None:
            yield _WRONG, f"there are no registers {stmt.registers}"
            return
        buffer: GpuParam | Shared | None
        if isinstance(stmt, LdGlobalVec | StGlobalVec):
            buffer = self.params.get(stmt.buffer)
        else:
            buffer = self.shared.get((stmt.source if isinstance(stmt, LdSharedVec) else stmt.to).shared)
        size = DTYPES[buffer.dtype].bytes if buffer is not None else 4
        nbytes = stmt.count * (4 if registers.dtype == WORD else size)
        yield from _unless(nbytes in (4, 8, 16), f"{nbytes} bytes moved at once")
        if registers.dtype != WORD:
            yield from _unless(stmt.count > 1, f"one element of {stmt.registers} moved as a vector")
            yield from _fits(buffer, registers.dtype, stmt.registers)
        elements = max(1, nbytes // size)
        match stmt:
            case LdGlobalVec():
                yield from self._memory(stmt.buffer, stmt.at, elements, stmt.where, scope)
            case StGlobalVec():
                yield from self._memory(stmt.buffer, stmt.at, elements, stmt.where, scope, write=True)
            case LdSharedVec():
                yield from self._place(stmt.source, elements, nbytes, scope)
            case StSharedVec():
                yield from self._place(stmt.to, elements, nbytes, scope)
        if isinstance(stmt, LdGlobalVec | LdSharedVec):
            yield from self._fill(stmt.registers, stmt.index, stmt.count, registers.dtype, scope)
        else:
            yield from self._read(stmt.registers, stmt.index, stmt.count, registers.dtype, scope)

    # --- values ---

    def _value(self, value: KernelNode, scope: _GpuScope) -> Problems:
        match value:
            case Const():
                yield from _unless(value.dtype in REGISTER_C, f"a constant {value.dtype}")
            case Reg():
                known = scope.scalars.get(value.name)
                yield from _unless(known is not None and known[0] == value.dtype, f"`{value.name}` is no {value.dtype}")
            case Index():
                yield from self._bound((value.expr,), scope)
            case Holds():
                yield from self._bound((condition.expr for condition in value.conditions), scope)
            case Call():
                yield from _calls(value)
            case Element():
                yield from self._read(value.registers, value.index, 1, value.dtype, scope)
            case LoadGlobal():
                yield from self._memory(value.buffer, value.at, 1, value.where, scope)
                yield from _fits_element(self.params.get(value.buffer), value.dtype, value.buffer)
            case LoadShared():
                yield from self._place(value.source, 1, 1, scope)
                yield from _fits(self.shared.get(value.source.shared), value.dtype, value.source.shared)
            case Shuffle():
                yield from self._bound((value.by,), scope)
                yield from _unless(scope.control <= Spread.WARP, "a Shuffle that not all lanes reach together")
                yield from _unless(value.value.dtype == value.dtype, f"a Shuffle of {value.value.dtype}")

    # --- places ---

    def _memory(
        self,
        buffer: str,
        at: tuple[AxisExpr, ...],
        count: int,
        where: tuple[Within, ...],
        scope: _GpuScope,
        *,
        write: bool = False,
        limit: AxisExpr | None = None,
    ) -> Problems:
        param = self.params.get(buffer)
        if param is None or param.dtype == COUNTER or len(param.shape) != len(at):
            yield _WRONG, f"there is no buffer {buffer} of {len(at)} axes"
            return
        yield from self._bound((*at, *(condition.expr for condition in where)), scope)
        if write:
            yield from _unless(param.written, f"a store to the input {buffer}")
        for problem in outside(at, param.shape, count, (*scope.facts, *where), self.box, limit):
            yield _WRONG, f"{buffer}: {problem}"
        size = DTYPES[param.dtype].bytes
        offset = flat(at, param.strides) * size
        aligned = divisor(offset) % (count * size) == 0 and param.alignment % (count * size) == 0
        message = f"{count * size} bytes of {buffer} at once, which are not aligned"
        yield from _unless(aligned, message, _MISALIGNED)

    def _place(self, at: At, count: int, nbytes: int, scope: _GpuScope) -> Problems:
        shared = self.shared.get(at.shared)
        if shared is None or len(shared.shape) != len(at.at):
            yield _WRONG, f"there is no shared {at.shared} of {len(at.at)} axes"
            return
        yield from self._bound((at.stage, *at.at), scope)
        together = spread((at.stage,), scope.variables) is Spread.BLOCK
        yield from _unless(together, f"the stage of {at.shared} differs between threads")
        for problem in outside((at.stage,), (shared.stages,), 1, scope.facts, self.box):
            yield _WRONG, f"the stages of {at.shared}: {problem}"
        for problem in outside(at.at, shared.shape, count, scope.facts, self.box):
            yield _WRONG, f"{at.shared}: {problem}"
        size = DTYPES[shared.dtype].bytes
        offset = flat(at.at, shared.strides) * size
        aligned = all(number % nbytes == 0 for number in (divisor(offset), shared.start, shared.stage_bytes))
        yield from _unless(aligned, f"{nbytes} bytes of {at.shared} at once, which are not aligned", _MISALIGNED)

    def _fill(self, name: str, index: AxisExpr, count: int, dtype: str, scope: _GpuScope) -> Problems:
        yield from self._array(name, index, count, dtype, scope)
        self.filled.add(name)

    def _read(self, name: str, index: AxisExpr, count: int, dtype: str, scope: _GpuScope) -> Problems:
        yield from self._array(name, index, count, dtype, scope)
        yield from _unless(name in self.filled, f"{name} is read before anything is stored to it")

    def _array(self, name: str, index: AxisExpr, count: int, dtype: str, scope: _GpuScope) -> Problems:
        registers = self.registers.get(name)
        if registers is None:
            yield _WRONG, f"there are no registers {name}"
            return
        yield from _unless(registers.dtype == dtype, f"{name} holds {registers.dtype}, not {dtype}")
        yield from self._bound((index,), scope)
        running = sorted(self.kernel.variables[number].name for number in index.axes - scope.unrolled)
        yield from _unless(not running, f"{name} is indexed by {', '.join(running)}, which is not unrolled")
        for problem in outside((index,), (registers.count,), count, scope.facts, self.box):
            yield _WRONG, f"{name}: {problem}"

    def _bound(self, exprs: Iterable[AxisExpr], scope: _GpuScope) -> Problems:
        for expr in exprs:
            free = sorted(self.kernel.variables[number].name for number in expr.axes - scope.variables.keys())
            yield from _unless(not free, f"{', '.join(free)} not bound in an index")
            yield from _unless(not _has_negative_floor(expr, self.box), "a floor of a negative number in an index")


def _calls(call: Call) -> Problems:
    dtypes = [argument.dtype for argument in call.args]
    name = called_function(call.fn, dtypes, call.dtype)
    if name not in DEVICE_FUNCTIONS:
        yield _WRONG, f"there is no device function {name}"
        return
    result, takes = parameters(DEVICE_FUNCTIONS[name])
    given = [REGISTER_C[dtype] for dtype in dtypes]
    agree = takes == given and result == REGISTER_C[call.dtype]
    yield from _unless(agree, f"{name} of {', '.join(dtypes)} as a {call.dtype}")


def _has_negative_floor(expr: AxisExpr, box: Box) -> bool:
    """Whether a floor may have a negative numerator, which languages divide differently."""
    floors = [term.expr for term, _ in expr.terms if isinstance(term, FloorDiv)]
    return any(bounds(floor, box)[0] < 0 or _has_negative_floor(floor, box) for floor in floors)


def _fits(buffer: GpuParam | Shared | None, dtype: str, name: str) -> Problems:
    fits = buffer is None or register_type(buffer.dtype) == dtype
    yield from _unless(fits, f"{name} does not go with registers of {dtype}")


def _fits_element(buffer: GpuParam | Shared | None, dtype: str, name: str) -> Problems:
    fits = buffer is None or accessed_as(buffer.dtype, dtype) is not None
    yield from _unless(fits, f"{name} does not go with registers of {dtype}")


def _unless(condition: bool, message: str, kind: Kind = _WRONG) -> Problems:
    if not condition:
        yield kind, message


def _class_name(stmt: Stmt) -> str:
    return type(stmt).__name__
