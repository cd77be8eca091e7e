"""CPU dialect → C text: one function per phase, and the kernel's entry.

    void eq_k3(void *const *buf, int32_t threads)

`buf` holds the addresses of the kernel's buffers in the order of `CpuKernel.params`, then the address of its workspace:
a table with the address of the shared scratch, then of the private scratch of every thread. The text needs the vector
prelude and the pool's declarations above it, and `SUPPORT` once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codegen.text.comment import comment_text
from codegen.text.index_to_c import IndexToC
from codegen.text.lone_numbers import call_text, is_lone, lone_registers
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr
from ir.kernel.cpu.kernel import CpuKernel, Phase, Scratch
from ir.kernel.cpu.nodes import (
    CompilerFence,
    CopyElements,
    CpuCall,
    CpuFor,
    CpuIf,
    Inside,
    Lanes,
    Load,
    MatrixEnd,
    MatrixLoad,
    MatrixMultiply,
    MatrixSetup,
    MatrixStore,
    MatrixZero,
    Prefetch,
    Stmt,
    Store,
    Transpose,
    Value,
)
from ir.kernel.nodes import (
    Assign,
    Bind,
    Comment,
    Const,
    KernelNode,
    Let,
    Pick,
    Reg,
    Within,
    accessed_as,
    values_of,
    walk,
)
from ir.uop.table import FUNCTIONS

ENTRY = "void {name}(void *const *buf, int32_t threads)"

SUPPORT = """\
/* Lanes of an index that does not grow evenly from lane to lane: `expr` at every lane number l. */
#define EQ_EACH_LANE(T, D, expr) \\
  ({ T eq_at[EQ_VL]; for (int l = 0; l < EQ_VL; l++) eq_at[l] = (T)(expr); eq_load_##D(eq_at); })
/* The lanes in which low <= start + lane * step < high. */
EQ_FN eq_mask eq_within(int64_t start, int64_t step, int64_t low, int64_t high) {
  eq_i64 at = eq_iota_i64(start, step);
  return eq_and_bool(eq_cmpge_i64(at, eq_imm_i64(low)), eq_cmplt_i64(at, eq_imm_i64(high)));
}
EQ_FN int64_t eq_less(int64_t a, int64_t b) { return a < b ? a : b; }
EQ_FN int64_t eq_more(int64_t a, int64_t b) { return a > b ? a : b; }
/* An index from data, held within [low, high]; and that of the first lane. */
EQ_FN int64_t eq_hold(int64_t at, int64_t low, int64_t high) { return at < low ? low : at > high ? high : at; }
EQ_FN int64_t eq_pick(eq_i64 v, int64_t low, int64_t high) { return eq_hold(v.lo[0], low, high); }
"""

INLINED = 32
"""Uses of functions of dozens of instructions that a kernel inlines, at most. More uses are calls, which cost nothing
that can be measured and save the compiler 13 ms per use."""
_LONG = {
    "fp32": frozenset(["exp", "exp2", "log", "log2", "sin", "cos", "tanh", "erf", "sigmoid", "pow"]),
    "fp64": frozenset(["exp", "exp2", "log", "log2", "sin", "cos", "tanh", "sigmoid"]),
    "i32": frozenset(["idiv", "mod"]),
    "u32": frozenset(["idiv", "mod", *(fn for fn in FUNCTIONS if fn.startswith("random"))]),
}

SUFFIX = {"fp16": "f16", "fp32": "f32", "fp64": "f64"}
"""Dtype → its name in the prelude, where the names differ."""
CELL = {
    "fp16": "uint16_t",
    "bf16": "uint16_t",
    "fp32": "float",
    "fp64": "double",
    "i8": "int8_t",
    "u8": "uint8_t",
    "i16": "int16_t",
    "u16": "uint16_t",
    "i32": "int32_t",
    "u32": "uint32_t",
    "i64": "int64_t",
    "u64": "uint64_t",
    "bool": "uint8_t",
}
"""The C type of one element in memory."""
_LITERAL_SUFFIX = {"i64": "LL", "u32": "U", "u64": "ULL"}
_KEYWORDS = """
    auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
    linux unix errno NULL NAN INFINITY HUGE_VAL buf task thread threads ctx l main
"""
_RESERVED = frozenset(_KEYWORDS.split())


def suffix(dtype: str) -> str:
    """The prelude's name of a dtype: f32 for fp32."""
    return SUFFIX.get(dtype, dtype)


def c_text(kernel: CpuKernel) -> str:
    """The C functions of a kernel."""
    return _CEmitter(kernel).text()


class _CEmitter:
    def __init__(self, kernel: CpuKernel) -> None:
        self.kernel = kernel
        self.buffers = {buffer.name: buffer.dtype for buffer in kernel.buffers}
        self._indices = IndexToC(kernel.variables, [_name(one.name) for one in kernel.variables], kernel.lanes)
        self._index = self._indices.of
        self.far = sum(map(_is_long, _values(kernel))) > INLINED
        self.lone = lone_registers(kernel)
        self.splats = frozenset(_splats(kernel))

    def text(self) -> str:
        kernel = self.kernel
        parts = [comment_text(kernel.comment)] if kernel.comment else []
        parts.append(f'_Static_assert(EQ_VL == {kernel.lanes}, "{kernel.name} is written for {kernel.lanes} lanes");')
        parts += [self._phase(number, phase) for number, phase in enumerate(kernel.phases)]
        parts.append(self._entry())
        return "\n".join(parts) + "\n"

    def _phase(self, number: int, phase: Phase) -> str:
        lines = [f"static void {self._phase_name(number)}(void *ctx, int32_t task, int32_t thread) {{"]
        lines += [f"  {pointer}" for pointer in self._pointers(phase)]
        lines.append(f"  const int64_t {self._variable(phase.variable)} = task;")
        lines += self._block(phase.body, 1)
        lines.append("}")
        return "\n".join(lines)

    def _phase_name(self, number: int) -> str:
        """The function of a phase. Kernels of one title end in numbers, so that a number alone would not tell a phase
        of one kernel from another kernel."""
        return f"{self.kernel.name}_phase{number}"

    def _pointers(self, phase: Phase) -> list[str]:
        used = _buffers_of(phase.body)
        lines = ["void *const *buf = ctx;"]
        for position, param in enumerate(self.kernel.params):
            if param.name in used:
                const, restrict = "" if param.written else "const ", "restrict " if param.noalias else ""
                lines.append(f"{const}{CELL[param.dtype]} *{restrict}{_name(param.name)} = buf[{position}];")
        for scratch, place in ((self.kernel.shared, "0"), (self.kernel.private, "1 + thread")):
            lines += self._scratch(scratch, place, used)
        return lines

    def _scratch(self, buffers: Sequence[Scratch], place: str, used: set[str]) -> list[str]:
        """Pointers to the used buffers in the scratch whose address is element `place` of the workspace's table."""
        base = f"((char *const *)buf[{len(self.kernel.params)}])[{place}]"
        lines, start = [], 0
        for buffer in buffers:
            at = f"{base} + {start}" if start else base
            if buffer.name in used:
                lines.append(
                    f"{CELL[buffer.dtype]} *restrict {_name(buffer.name)} = __builtin_assume_aligned({at}, 64);"
                )
            start += buffer.nbytes
        return lines

    def _entry(self) -> str:
        kernel = self.kernel
        lines = [ENTRY.format(name=kernel.name) + " {"]
        for number, phase in enumerate(kernel.phases):
            task = self._phase_name(number)
            if phase.tasks == 1:
                lines.append(f"  {task}((void *)buf, 0, 0);")
            else:
                lines.append(f"  eq_parallel_for({task}, (void *)buf, {phase.tasks}, threads);")
        lines.append("}")
        return "\n".join(lines)

    # --- statements ---

    def _block(self, body: Sequence[Stmt], depth: int) -> list[str]:
        lines: list[str] = []
        for stmt in body:
            lines += self._stmt(stmt, depth)
        return lines

    def _stmt(self, stmt: Stmt, depth: int) -> list[str]:
        pad = "  " * depth
        match stmt:
            case Comment(text):
                return [f"{pad}/* {text.replace('*/', '* /')} */"]
            case Let(name, value) if name in self.lone:
                return [f"{pad}const {CELL[value.dtype]} {_name(name)} = {self._number(value)};"]
            case Let():
                const = "" if stmt.mutable else "const "
                return [f"{pad}{const}eq_{suffix(stmt.value.dtype)} {_name(stmt.name)} = {self._value(stmt.value)};"]
            case Assign(name, value):
                return [f"{pad}{_name(name)} = {self._value(value)};"]
            case Store():
                return [f"{pad}{self._store(stmt)};"]
            case Bind():
                return [f"{pad}const int64_t {self._variable(stmt.variable)} = {self._clamp(stmt)};"]
            case Pick(variable, value):
                picked = self.kernel.variables[variable]
                index = f"hold({self._number(value)}" if is_lone(value, self.lone) else f"pick({self._value(value)}"
                return [f"{pad}const int64_t {_name(picked.name)} = eq_{index}, {picked.low}, {picked.high});"]
            case CpuFor():
                return self._for(stmt, depth)
            case CpuIf(conditions, then, orelse):
                lines = [f"{pad}if ({' && '.join(map(self._indices.within, conditions)) or '1'}) {{"]
                lines += self._block(then, depth + 1)
                if orelse:
                    lines += [f"{pad}}} else {{", *self._block(orelse, depth + 1)]
                return [*lines, f"{pad}}}"]
            case CopyElements():
                to, source = self._address(stmt.buffer, stmt.offset), self._address(stmt.source, stmt.source_offset)
                nbytes = stmt.count * DTYPES[self.buffers[stmt.buffer]].bytes
                return [f"{pad}EQ_COPY({to}, {source}, {nbytes});"]
            case Transpose():
                return [f"{pad}{self._transpose(stmt)};"]
            case Prefetch():
                return [f"{pad}EQ_PREFETCH_L2({self._address(stmt.buffer, stmt.offset)});"]
            case CompilerFence():
                return [f"{pad}EQ_FENCE();"]
            case MatrixSetup(count, rows):
                return [f"{pad}eq_matrix_setup({count}, {rows});"]
            case MatrixEnd():
                return [f"{pad}eq_matrix_end();"]
            case MatrixZero(number):
                return [f"{pad}EQ_MATRIX_ZERO({number});"]
            case MatrixLoad():
                return [f"{pad}EQ_MATRIX_LOAD({stmt.number}, {self._matrix_rows(stmt)});"]
            case MatrixStore():
                return [f"{pad}EQ_MATRIX_STORE({stmt.number}, {self._matrix_rows(stmt)});"]
            case MatrixMultiply():
                kind = "_".join(stmt.dtypes)
                return [f"{pad}EQ_MATRIX_MULTIPLY({kind}, {stmt.sums}, {stmt.rows}, {stmt.columns});"]

    def _matrix_rows(self, stmt: MatrixLoad | MatrixStore) -> str:
        """The address of the first row, and the bytes between rows."""
        address = self._address(stmt.buffer, stmt.offset)
        return f"{address}, {stmt.step * DTYPES[self.buffers[stmt.buffer]].bytes}"

    def _transpose(self, stmt: Transpose) -> str:
        bits = 8 * DTYPES[self.buffers[stmt.buffer]].bytes
        to = self._address(stmt.buffer, stmt.offset)
        source = self._address(stmt.source, stmt.source_offset)
        return f"eq_transpose_{bits}({to}, {stmt.step}, {source}, {stmt.source_step})"

    def _for(self, loop: CpuFor, depth: int) -> list[str]:
        pad, name = "  " * depth, self._variable(loop.variable)
        below = [f"{name} < {self._index(loop.stop)}"]
        if loop.limit is not None:
            below.append(f"{name} < {loop.limit}")
        step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
        unrolled = [f"{pad}EQ_UNROLL({loop.unroll})"] if loop.unroll > 1 else []
        head = f"{pad}for (int64_t {name} = {self._index(loop.start)}; {' && '.join(below)}; {step}) {{"
        return [*unrolled, head, *self._block(loop.body, depth + 1), f"{pad}}}"]

    def _cell(self, buffer: str, register: str) -> str:
        """The cell of the functions that load and store registers of a dtype."""
        return suffix(accessed_as(self.buffers[buffer], register) or register)

    def _store(self, stmt: Store) -> str:
        kind = self._cell(stmt.buffer, stmt.value.dtype)
        at, value = self._address(stmt.buffer, stmt.offset), self._value(stmt.value)
        if stmt.step != 1:
            count = self._count(stmt.count)
            return f"eq_store_strided_{kind}({at}, {stmt.step}, {value}, {count})"
        if stmt.count is not None:
            return f"eq_store_n_{kind}({at}, {value}, {self._count(stmt.count)})"
        return f"eq_store_{kind}({at}, {value})"

    # --- values ---

    def _value(self, value: Value) -> str:
        match value:
            case Const(number, dtype):
                return f"eq_imm_{suffix(dtype)}({_literal(number, dtype)})"
            case Reg(name):
                return _name(name)
            case Lanes():
                return self._lanes(value)
            case Inside(conditions, variable, count):
                masks = [f"eq_first({self._count(count)})"] if count is not None else []
                masks += [self._mask(condition, variable) for condition in conditions]
                text = masks[0]
                for mask in masks[1:]:
                    text = f"eq_and_bool({text}, {mask})"
                return text
            case CpuCall():
                return self._call(value)
            case Load():
                return self._load(value)

    def _number(self, value: Value) -> str:
        """A value of which one number is kept, as a C expression."""
        match value:
            case Const(number, dtype):
                return _literal(number, dtype)
            case Reg(name):
                return _name(name)
            case Load():
                element = f"{_name(value.buffer)}[{self._index(value.offset)}]"
                return f"({element} != 0)" if value.dtype == "bool" else element
            case CpuCall():
                return f"({CELL[value.dtype]})({call_text(value, map(self._number, value.args))})"
            case Lanes():
                return f"({CELL[value.dtype]})({self._index(value.expr)})"
        raise TypeError(f"no number stands for {value}")

    def _call(self, call: CpuCall) -> str:
        args = ", ".join(map(self._value, call.args))
        source = suffix(call.args[-1].dtype)
        if call.fn == "cast":
            return f"eq_cast_{source}_{suffix(call.dtype)}({args})"
        if call.fn == "odd_f32" or call.fn.startswith(("round_", "bits_", "from_bits_")):
            return f"eq_{call.fn}({args})"
        if (call.fn, call.dtype) == ("shr", "u8") and (count := self._one_number(call.args[1])):
            return f"eq_shr_by_u8({self._value(call.args[0])}, {count})"
        if call.fn in ("hsum", "hprod", "hmax", "hmin"):
            return f"eq_imm_{source}(eq_{call.fn}_{source}({args}))"
        far = "far_" if self.far and _is_long(call) else ""
        return f"eq_{far}{call.fn}_{source}({args})"

    def _one_number(self, value: Value) -> str | None:
        """The number of an integer register in which all lanes hold one; None if they may differ."""
        match value:
            case Const(number, dtype):
                return _literal(number, dtype)
            case Reg(name) if name in self.splats:
                return f"{_name(name)}[0]"
        return None

    def _load(self, load: Load) -> str:
        at = self._address(load.buffer, load.offset)
        if load.mode == "cell":
            return f"eq_splat_i32({at})"
        kind = self._cell(load.buffer, load.dtype)
        match load.mode:
            case "splat":
                return f"eq_splat_{kind}({at})"
            case "strided" if load.mask is not None:
                return f"eq_back_m_{kind}({at}, {self._value(load.mask)})"
            case "strided":
                return f"eq_strided_{kind}({at}, {load.step}, {self._count(load.count)})"
            case "gather":
                assert load.index is not None
                mask = self._value(load.mask) if load.mask is not None else "eq_imm_bool(1)"
                return f"eq_gather_{kind}({at}, {self._value(load.index)}, {mask})"
        if load.mask is not None:
            return f"eq_load_m_{kind}({at}, {self._value(load.mask)})"
        return f"eq_load_{kind}({at})" if load.count is None else f"eq_load_n_{kind}({at}, {self._count(load.count)})"

    def _lanes(self, lanes: Lanes) -> str:
        kind = suffix(lanes.dtype)
        if lanes.growth:
            grown = _register_of(lanes.growth, kind)
            return grown if lanes.expr == ZERO else f"eq_add_{kind}(eq_imm_{kind}({self._index(lanes.expr)}), {grown})"
        if lanes.variable is None:
            return f"eq_imm_{kind}({self._index(lanes.expr)})"
        step = lanes.expr.coeff(lanes.variable)
        if step is None:
            return f"EQ_EACH_LANE({CELL[lanes.dtype]}, {kind}, {self._indices.each_lane(lanes.expr, lanes.variable)})"
        return f"eq_iota_{kind}({self._index(lanes.expr)}, {step})"

    def _mask(self, within: Within, variable: int) -> str:
        step = within.expr.coeff(variable)
        if step is None:
            return f"EQ_EACH_LANE(int32_t, i32, -({self._indices.within(within, variable)}))"
        return f"eq_within({self._index(within.expr)}, {step}, {within.low}, {within.high})"

    # --- indices ---

    def _count(self, count: int | AxisExpr | None) -> str:
        """A number of lanes."""
        return "EQ_VL" if count is None else str(count) if isinstance(count, int) else self._index(count)

    def _clamp(self, bind: Bind) -> str:
        text = self._index(bind.expr)
        for bound in bind.most:
            text = f"eq_less({text}, {self._index(bound)})"
        for bound in bind.least:
            text = f"eq_more({text}, {self._index(bound)})"
        return text

    def _address(self, buffer: str, offset: AxisExpr) -> str:
        name = _name(buffer)
        return name if offset == AxisExpr() else f"{name} + {self._index(offset)}"

    def _variable(self, number: int) -> str:
        return _name(self.kernel.variables[number].name)


def _values(kernel: CpuKernel) -> Iterator[KernelNode]:
    return (value for phase in kernel.phases for stmt in walk(phase.body) for value in values_of(stmt))


def _splats(kernel: CpuKernel) -> Iterator[str]:
    """The registers that hold one number in all lanes, as loaded."""
    for phase in kernel.phases:
        for stmt in walk(phase.body):
            match stmt:
                case Let(name, Load(mode="splat"), mutable=False):
                    yield name


def _is_long(value: KernelNode) -> bool:
    """Whether the value is a function of dozens of instructions."""
    return isinstance(value, CpuCall) and value.fn in _LONG.get(value.dtype, ())


def _buffers_of(body: Sequence[Stmt]) -> set[str]:
    """The buffers that statements touch."""
    used: set[str] = set()
    for stmt in walk(tuple(body)):
        if isinstance(stmt, Store | CopyElements | Transpose | Prefetch | MatrixLoad | MatrixStore):
            used.add(stmt.buffer)
        if isinstance(stmt, CopyElements | Transpose):
            used.add(stmt.source)
        used |= {value.buffer for value in values_of(stmt) if isinstance(value, Load)}
    return used


def _name(name: str) -> str:
    return f"{name}_" if name in _RESERVED or name.startswith(("eq_", "EQ_", "INT", "UINT")) else name


def _register_of(numbers: Sequence[int], kind: str) -> str:
    """A register of these i32 or i64."""
    texts, half = list(map(str, numbers)), len(numbers) // 2
    if kind == "i32":
        return f"(eq_i32){{{', '.join(texts)}}}"
    return f"(eq_i64){{{{{', '.join(texts[:half])}}}, {{{', '.join(texts[half:])}}}}}"


def _literal(number: bool | int | float | str, dtype: str) -> str:
    if isinstance(number, str) and number != "-0.0":
        return {"inf": "INFINITY", "-inf": "-INFINITY", "nan": "NAN"}[number]
    if dtype in ("fp32", "fp64"):
        return f"{float(number)!r}{'f' if dtype == 'fp32' else ''}"
    if dtype == "bool":
        return str(int(bool(number)))
    if int(number) == -(2**63):
        return "INT64_MIN"
    return f"{int(number)}{_LITERAL_SUFFIX.get(dtype, '')}"
