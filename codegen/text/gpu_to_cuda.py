"""GPU dialect → the text of a kernel: C++ that calls only device functions (`ir.kernel.gpu.device_functions`).

    extern "C" EQ_KERNEL(128, 2) void eq_k3(const eq_bf16 *__restrict__ A, eq_f32 *__restrict__ C)

The parameters are the kernel's buffers in order, then its workspace. The same text runs on a GPU, below the CUDA
prelude, and in the emulator. Indices are computed in 32 bits where their ranges allow it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from codegen.text.comment import comment_text
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, FloorDiv, Term, interval
from ir.index.strides import flat
from ir.index.text import Writing, bounds, multiples, pieces
from ir.kernel.gpu.device_functions import CELLS, REGISTER_C, called_function, register_suffix
from ir.kernel.gpu.kernel import COUNTER, IDS, SWIZZLE_ATOM, WORD, GpuKernel, GpuParam
from ir.kernel.gpu.limits import WARPGROUP_ROWS, WARPGROUP_TERMS
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
    Fence,
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
    ProxyFence,
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
    used_variables,
)
from ir.kernel.gpu.places import narrow_box
from ir.kernel.gpu.warpgroups import panel_bytes, warpgroup_columns
from ir.kernel.nodes import Assign, Bind, Comment, Const, Let, Pick, Reg, Within, accessed_as

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const constexpr continue
    decltype default delete do double else enum explicit export extern false float for friend goto if inline int long
    mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register return short
    signed sizeof static struct switch template this throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq blockIdx blockDim gridDim threadIdx warpSize linux unix main
"""
_RESERVED = frozenset(_KEYWORDS.split())
_INT = 2**31
_CHUNK = 16
"""Bytes that a swizzle moves as one."""
_LITERAL_SUFFIX = {"i64": "ll", "u32": "u", WORD: "u", "u64": "ull"}


def cuda_text(kernel: GpuKernel) -> str:
    """The kernel's function, with its comment above it."""
    return _CudaEmitter(kernel).text()


class _CudaEmitter:
    def __init__(self, kernel: GpuKernel) -> None:
        self.kernel = kernel
        self.box = kernel.box
        self.params = {buffer.name: buffer for buffer in kernel.memory}
        self.shared = {buffer.name: buffer for buffer in kernel.shared}
        self.registers = {register.name: register for register in kernel.registers}
        self.unrolled: set[int] = set()
        self._narrow = Writing(self._variable, " / ", " * ")
        self._wide = Writing(self._variable, " / ", " * ", "ll")

    def text(self) -> str:
        kernel = self.kernel
        params = ", ".join(_param(buffer, shared=buffer in kernel.workspace) for buffer in kernel.memory)
        body = self._block(kernel.body, 1)
        parts = [comment_text(kernel.comment)] if kernel.comment else []
        parts.append(f'extern "C" EQ_KERNEL({kernel.threads}, {kernel.min_blocks}) void {kernel.name}({params}) {{')
        if kernel.shared:
            parts.append(f"  // {kernel.shared_bytes} bytes of shared memory:")
        parts += [f"  //   {buffer}" for buffer in kernel.shared]
        used = used_variables(kernel.body)
        parts += [f"  const int {name} = eq_{name}();" for number, name in enumerate(IDS) if number in used]
        for register in kernel.registers:
            parts.append(
                f"  {REGISTER_C[register.dtype]} {_name(register.name)}[{register.count}]{' = {}' * register.zero};"
            )
        return "\n".join([*parts, *body, "}"]) + "\n"

    # --- statements ---

    def _block(self, body: Sequence[Stmt], depth: int) -> list[str]:
        return [line for stmt in body for line in self._stmt(stmt, depth)]

    def _stmt(self, stmt: Stmt, depth: int) -> Iterator[str]:
        pad = "  " * depth
        match stmt:
            case Comment():
                yield f"{pad}// {' '.join(stmt.text.split())}"
            case GpuFor():
                yield from self._for(stmt, depth)
            case GpuIf():
                yield f"{pad}if ({self._all(stmt.conditions)}) {{"
                yield from self._where_holds(stmt, depth)
                if stmt.orelse:
                    yield f"{pad}}} else {{"
                    yield from self._block(stmt.orelse, depth + 1)
                yield f"{pad}}}"
            case Epilogue():
                name, count = self._variable(stmt.variable), self.registers[stmt.acc].count
                yield f"{pad}// epilogue on {stmt.acc}: {', '.join(stmt.ops) or 'none'}"
                yield f"{pad}EQ_UNROLL"
                yield f"{pad}for (int {name} = 0; {name} < {count}; {name}++) {{"
                yield from self._block(stmt.body, depth + 1)
                yield f"{pad}}}"
            case _:
                yield f"{pad}{self._line(stmt)};"

    def _where_holds(self, stmt: GpuIf, depth: int) -> list[str]:
        """The first block of an If, in which its conditions narrow the ranges of the variables."""
        around = self.box
        self.box = narrow_box(stmt.conditions, around) or around
        try:
            return self._block(stmt.then, depth + 1)
        finally:
            self.box = around

    def _for(self, loop: GpuFor, depth: int) -> Iterator[str]:
        pad, name = "  " * depth, self._variable(loop.variable)
        step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
        yield f"{pad}{'EQ_UNROLL' if loop.unroll else 'EQ_NO_UNROLL'}"
        kind = self._int(loop.variable)
        yield f"{pad}for ({kind} {name} = {self._index(loop.start)}; {name} < {self._index(loop.stop)}; {step}) {{"
        self.unrolled |= {loop.variable} if loop.unroll else set()
        yield from self._block(loop.body, depth + 1)
        yield f"{pad}}}"

    def _line(self, stmt: Stmt) -> str:
        match stmt:
            case Bind():
                return f"const {self._int(stmt.variable)} {self._variable(stmt.variable)} = {self._clamp(stmt)}"
            case Pick():
                high, kind = self.kernel.variables[stmt.variable].high, self._int(stmt.variable)
                clip = "eq_clip" if kind == "int" else "eq_clip_wide"
                return f"const {kind} {self._variable(stmt.variable)} = {clip}({self._value(stmt.value)}, {high})"
            case Let():
                const = "" if stmt.mutable else "const "
                return f"{const}{REGISTER_C[stmt.value.dtype]} {_name(stmt.name)} = {self._value(stmt.value)}"
            case Assign():
                return f"{_name(stmt.name)} = {self._value(stmt.value)}"
            case SetElement():
                return f"{_name(stmt.registers)}[{self._index(stmt.index)}] = {self._value(stmt.value)}"
            case CommitGroup():
                return "eq_cp_async_commit()"
            case WaitGroup():
                return f"eq_cp_async_wait<{stmt.pending}>()"
            case Barrier():
                return "eq_barrier()"
            case SyncWarp():
                return "eq_sync_warp()"
            case AnyThread():
                return f"const int {self._variable(stmt.variable)} = eq_barrier_or({self._value(stmt.value)})"
            case AnyLane():
                return f"const int {self._variable(stmt.variable)} = eq_any_lane({self._value(stmt.value)})"
            case Fence():
                return "eq_fence()"
            case TakeTicket():
                counter = self._address(stmt.buffer, stmt.at)
                return f"const int {_name(stmt.name)} = eq_ticket({counter}, {self._index(stmt.count)})"
            case AwaitTicket():
                return f"eq_await({self._address(stmt.buffer, stmt.at)}, {self._index(stmt.count)})"
            case CpAsync():
                to, source = self._offset(stmt.to), self._address_in_parts(stmt.buffer, stmt.at)
                return f"eq_cp_async{stmt.nbytes}({to}, {source}, {self._valid(stmt)})"
            case LdMatrix():
                to = self._pointer(stmt.registers, stmt.index)
                return f"eq_ldmatrix_x{stmt.matrices}{'_trans' * stmt.trans}({to}, {self._offset(stmt.source)})"
            case MmaSync():
                parts = ((stmt.acc, stmt.acc_index), (stmt.a, stmt.a_index), (stmt.b, stmt.b_index))
                operands = ", ".join(self._pointer(name, index) for name, index in parts)
                return f"eq_mma_{stmt.shape}_{CELLS.get(stmt.dtype, stmt.dtype)}({operands})"
            case ProxyFence() | WgmmaFence() | Wgmma() | WgmmaCommit() | WgmmaWait():
                return self._warpgroup(stmt)
        return self._access(stmt)

    def _warpgroup(self, stmt: ProxyFence | WgmmaFence | Wgmma | WgmmaCommit | WgmmaWait) -> str:
        if isinstance(stmt, ProxyFence):
            return "eq_proxy_fence()"
        if isinstance(stmt, WgmmaCommit):
            return "eq_wgmma_commit()"
        acc, columns = _name(stmt.acc), warpgroup_columns(self.registers[stmt.acc])
        match stmt:
            case WgmmaFence():
                return f"eq_wgmma_fence_n{columns}({acc})"
            case WgmmaWait():
                return f"eq_wgmma_wait_n{columns}<{stmt.pending}>({acc})"
            case Wgmma():
                panels = ", ".join(str(panel_bytes(self.shared[at.shared])) for at in (stmt.rows, stmt.columns))
                places = ", ".join(self._linear_offset(at) for at in (stmt.rows, stmt.columns))
                name = f"eq_wgmma_m{WARPGROUP_ROWS}n{columns}k{WARPGROUP_TERMS}_{CELLS[stmt.dtype]}"
                return f"{name}<{panels}>({acc}, {places})"

    def _linear_offset(self, at: At) -> str:
        """The byte in shared memory before any swizzle."""
        shared = self.shared[at.shared]
        strides = tuple(stride * DTYPES[shared.dtype].bytes for stride in shared.strides)
        stage = (at.stage * shared.stage_bytes).shift(shared.start)
        return self._narrow.flat((stage, *at.at), (1, *strides))

    def _access(self, stmt: Stmt) -> str:
        match stmt:
            case LdGlobalVec():
                to, source = self._pointer(stmt.registers, stmt.index), self._address(stmt.buffer, stmt.at)
                suffix = self._vector_name(stmt.registers, self.params[stmt.buffer].dtype, stmt.count)
                return self._where(f"eq_ld_global_{suffix}", stmt.where, f"{to}, {source}")
            case StGlobalVec():
                to, source = self._address(stmt.buffer, stmt.at), self._pointer(stmt.registers, stmt.index)
                suffix = self._vector_name(stmt.registers, self.params[stmt.buffer].dtype, stmt.count)
                return self._where(f"eq_st_global_{suffix}", stmt.where, f"{to}, {source}")
            case StGlobal():
                cell, to = self._element(stmt.buffer, stmt.at, stmt.value.dtype)
                return self._where(f"eq_st_global_{cell}", stmt.where, f"{to}, {self._value(stmt.value)}")
            case LdSharedVec():
                suffix = self._vector_name(stmt.registers, self.shared[stmt.source.shared].dtype, stmt.count)
                to = self._pointer(stmt.registers, stmt.index)
                return f"eq_ld_shared_{suffix}({to}, {self._offset(stmt.source)})"
            case StSharedVec():
                suffix = self._vector_name(stmt.registers, self.shared[stmt.to.shared].dtype, stmt.count)
                source = self._pointer(stmt.registers, stmt.index)
                return f"eq_st_shared_{suffix}({self._offset(stmt.to)}, {source})"
            case StShared():
                own = self.shared[stmt.to.shared].dtype
                cell = CELLS[accessed_as(own, stmt.value.dtype) or own]
                return f"eq_st_shared_{cell}({self._offset(stmt.to)}, {self._value(stmt.value)})"
        raise AssertionError(stmt)

    def _vector_name(self, registers: str, dtype: str, count: int) -> str:
        """The end of the name of a function on vectors: "16" for four words, "bf16x8"."""
        words = self.registers[registers].dtype == WORD
        return str(4 * count) if words else f"{CELLS[dtype]}x{count}"

    def _where(self, function: str, conditions: tuple[Within, ...], args: str) -> str:
        condition = self._all(conditions)
        return f"{function}({args})" if condition == "true" else f"{function}_if({condition}, {args})"

    def _valid(self, copy: CpAsync) -> str:
        size = DTYPES[self.params[copy.buffer].dtype].bytes
        count = str(copy.nbytes)
        if copy.count is not None:
            count = f"{size} * eq_clip({self._index(copy.count)}, {copy.nbytes // size})"
        condition = self._all(copy.where)
        return count if condition == "true" else f"{condition} ? {count} : 0"

    # --- values ---

    def _value(self, value: Value) -> str:
        match value:
            case Const():
                return _literal(value.number, value.dtype)
            case Reg():
                return _name(value.name)
            case Index():
                text = self._index(value.expr)
                return text if value.dtype == "i32" else f"({REGISTER_C[value.dtype]})({text})"
            case Holds():
                return f"({self._all(value.conditions)})"
            case Call():
                return self._call(value)
            case Element():
                return f"{_name(value.registers)}[{self._index(value.index)}]"
            case LoadGlobal():
                cell, at = self._element(value.buffer, value.at, value.dtype)
                return self._where(f"eq_ld_global_{cell}", value.where, at)
            case LoadShared():
                cell = CELLS[self.shared[value.source.shared].dtype]
                return f"eq_ld_shared_{cell}({self._offset(value.source)})"
            case Shuffle():
                name = f"eq_shfl_{value.way}_{register_suffix(value.dtype)}"
                return f"{name}({self._value(value.value)}, {self._index(value.by)})"

    def _call(self, call: Call) -> str:
        args = ", ".join(map(self._value, call.args))
        return f"{called_function(call.fn, [arg.dtype for arg in call.args], call.dtype)}({args})"

    # --- places ---

    def _element(self, buffer: str, at: tuple[AxisExpr, ...], register: str) -> tuple[str, str]:
        """The cell as which registers of a dtype access an element, and its address."""
        own, address = self.params[buffer].dtype, self._address(buffer, at)
        dtype = accessed_as(own, register) or own
        return CELLS[dtype], address if dtype == own else f"(eq_{CELLS[dtype]} *)({address})"

    def _address(self, buffer: str, at: tuple[AxisExpr, ...]) -> str:
        name, strides = _name(buffer), self.params[buffer].strides
        writing = self._writing(flat(at, strides))
        return f"{name} + {writing.flat(at, strides)}" if any(index != ZERO for index in at) else name

    def _address_in_parts(self, buffer: str, at: tuple[AxisExpr, ...]) -> str:
        """An address whose part that unrolled loops change is added last: the accesses of all turns of these loops
        share the rest, and the instructions have the part as a constant."""
        name, strides = _name(buffer), self.params[buffer].strides
        moved = tuple(self._unrolled_part(expr) for expr in at)
        rest = tuple(expr - part for expr, part in zip(at, moved, strict=True))
        change = flat(moved, strides)
        if change == ZERO or all(expr == ZERO for expr in rest):
            return self._address(buffer, at)
        return f"{name} + ({self._writing(flat(rest, strides)).flat(rest, strides)}) + {self._bracketed(change)}"

    def _pointer(self, registers: str, index: AxisExpr) -> str:
        name = _name(registers)
        return name if index == ZERO else f"{name} + {self._index(index)}"

    def _offset(self, at: At) -> str:
        """The byte in shared memory. Multiples of the swizzle's period are added after the swizzle."""
        shared = self.shared[at.shared]
        if not shared.swizzle:
            return self._linear_offset(at)
        strides = tuple(stride * DTYPES[shared.dtype].bytes for stride in shared.strides)
        stage = (at.stage * shared.stage_bytes).shift(shared.start)
        far = tuple(_whole_periods(expr, stride, shared.period) for expr, stride in zip(at.at, strides, strict=True))
        near = tuple(expr - multiple for expr, multiple in zip(at.at, far, strict=True))
        turning = self._turning_chunk(flat(near, strides))
        if turning is not None:
            fixed, chunk = turning
            outer = flat((stage, *far), (1, *strides))
            moved = self._unrolled_part(outer)
            first = f"{self._index(outer - moved)} + " if outer != moved else ""
            text = f"(({first}eq_swizzle<{shared.swizzle}>({self._index(fixed)})) ^ {self._bracketed(chunk)})"
            return text if moved == ZERO else f"{text} + {self._index(moved)}"
        text = f"eq_swizzle<{shared.swizzle}>({self._narrow.flat(near, strides)})"
        outside = self._narrow.flat((stage, *far), (1, *strides))
        return text if outside == "0" else f"{outside} + {text}"

    def _turning_chunk(self, offset: AxisExpr) -> tuple[AxisExpr, AxisExpr] | None:
        """An offset in a swizzled buffer as two parts: a part that is the same in all turns of unrolled loops, and a
        chunk of 128 bytes that only these loops change. The bits of the chunk are 0 in the other part, so that
        swizzle(fixed + chunk) = swizzle(fixed) ^ chunk, and a thread swizzles once for all turns. None where an offset
        has no such parts."""
        chunk = self._unrolled_part(offset)
        fixed = offset - chunk
        steps = [c for c, _ in pieces(chunk)[1]]
        low = fixed - multiples(fixed, SWIZZLE_ATOM)
        if not steps or any(c % _CHUNK for c in (*steps, chunk.const)):
            return None
        unit = math.gcd(chunk.const, *steps)
        (least, most), (first, last) = bounds(chunk, self.box), bounds(low, self.box)
        fits = least >= 0 and most < SWIZZLE_ATOM and first >= 0 and last < unit
        return (fixed, chunk) if fits else None

    def _unrolled_part(self, expr: AxisExpr) -> AxisExpr:
        """The terms of an expression that only unrolled loops change."""
        return AxisExpr(0, tuple((term, c) for term, c in expr.terms if _variables(term) <= self.unrolled))

    def _bracketed(self, expr: AxisExpr) -> str:
        text = self._index(expr)
        return text if text.isidentifier() else f"({text})"

    # --- indices ---

    def _clamp(self, bind: Bind) -> str:
        """The index within its bounds, without those that the ranges of the variables prove."""
        text, register = self._index(bind.expr), "i32" if self._int(bind.variable) == "int" else "i64"
        for bound in bind.most:
            if bounds(bind.expr - bound, self.box)[1] > 0:
                text = f"eq_min_{register}({text}, {self._index(bound)})"
        for bound in bind.least:
            if bounds(bind.expr - bound, self.box)[0] < 0:
                text = f"eq_max_{register}({text}, {self._index(bound)})"
        return text

    def _all(self, conditions: Sequence[Within]) -> str:
        """The conditions in C++, without the sides that the ranges of the variables prove."""
        parts: list[str] = []
        for condition in conditions:
            low, high = bounds(condition.expr, self.box)
            text = self._index(condition.expr)
            if low < condition.low:
                parts.append(f"{condition.low} <= {text}")
            if high >= condition.high:
                parts.append(f"{text} < {condition.high}")
        return " && ".join(parts) or "true"

    def _index(self, expr: AxisExpr) -> str:
        return self._writing(expr).text(expr)

    def _writing(self, expr: AxisExpr) -> Writing:
        return self._narrow if self._magnitude(expr) < _INT else self._wide

    def _magnitude(self, expr: AxisExpr) -> int:
        """A bound on all numbers that occur while the expression is computed."""
        inner = [self._magnitude(term.expr) for term, _ in expr.terms if isinstance(term, FloorDiv)]
        return max([abs(expr.const) + sum(abs(c) * self._largest(term) for term, c in expr.terms), *inner])

    def _largest(self, term: Term) -> int:
        low, high = interval(AxisExpr(0, ((term, 1),)), self.box)
        return max(abs(low), abs(high))

    def _int(self, number: int) -> str:
        """The C type of a variable: 64 bits where its range asks for them."""
        variable = self.kernel.variables[number]
        return "int" if -_INT <= variable.low <= variable.high < _INT else "long long"

    def _variable(self, number: int) -> str:
        return _name(self.kernel.variables[number].name)


def _param(param: GpuParam, *, shared: bool) -> str:
    """A parameter in C++. `shared`: other blocks store to it, so it may not be `__restrict__`."""
    cell = COUNTER if param.dtype == COUNTER else CELLS[param.dtype]
    return f"{'' if param.written else 'const '}eq_{cell} *{'' if shared else '__restrict__ '}{_name(param.name)}"


def _whole_periods(expr: AxisExpr, stride: int, period: int) -> AxisExpr:
    """The part of a coordinate whose bytes, `stride` for each, are a multiple of the period."""
    if stride % period == 0:
        return expr
    return multiples(expr, period // stride) if period % stride == 0 else ZERO


def _variables(term: Term) -> frozenset[int]:
    """The variables of a term."""
    return AxisExpr(0, ((term, 1),)).axes


def _name(name: str) -> str:
    return f"{name}_" if name in _RESERVED or name.startswith(("eq_", "EQ_")) else name


def _literal(number: bool | int | float | str, dtype: str) -> str:
    if isinstance(number, str) and number != "-0.0":
        suffix = register_suffix(dtype)
        return {"inf": f"eq_inf_{suffix}()", "-inf": f"-eq_inf_{suffix}()", "nan": f"eq_nan_{suffix}()"}[number]
    if dtype in ("fp32", "fp64"):
        return f"{float(number)!r}{'f' if dtype == 'fp32' else ''}"
    if dtype == "bool":
        return "true" if number else "false"
    whole = int(number)
    if whole == -(2**63):
        return "(-9223372036854775807ll - 1)"
    if whole == -(2**31):
        return "(-2147483647 - 1)"
    return f"{whole}{_LITERAL_SUFFIX.get(dtype, '')}"
