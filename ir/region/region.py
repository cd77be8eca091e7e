"""Region Buffer SSA (seed 000 §6): one region is one kernel.

Only the buffers at a region's edge are in memory; inside there are SSA values. An op has an iteration domain (a box of
sizes, reduced axes last) and reads every operand through an `AxisMap` from the domain to the operand's coordinates.
Broadcast, padding and every other movement are in the maps. A value's coordinates are its domain without the reduced
axes; a value is defined only over the axes that it depends on.

    region dot_add_relu(A: fp32[4,8], B: fp32[8,16], bias: fp32[16]) -> (C: fp32[4,16])
      dot_0: fp32[4,16] = contraction[4,16|8](A[i0, r0], B[r0, i1])
      add_1: fp32[4,16] = add[4,16](dot_0[i0, i1], bias[i1])
      relu_2: fp32[4,16] = relu[4,16](add_1[i0, i1])
      yield relu_2[i0, i1] -> C

`verify` checks a region, `ir.region.dump` gives the JSON of the seeds' dumps, `ir.region.playback` the meaning.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from ir.diagnostics import Diagnostic, EqsatError, Kind
from ir.dtype import DTYPES, HALVES, dtype
from ir.index.map import AxisMap, at_choice
from ir.index.strides import row_major
from ir.post_order import post_order
from ir.uop.table import BITCASTS

STAGE = "region"

OpKind = Literal[
    "contraction", "ewise", "unary", "cast", "copy", "reduce", "stream", "scan", "gather", "scatter", "index", "table"
]


class MemRef(msgspec.Struct, frozen=True):
    """The memory of a buffer: `shape` in elements, row-major; `alignment` in bytes.

    `box_of` is the shape of a row-major tensor of which the buffer is a box, as a part of a concatenation is: elements
    lie as far apart as that tensor's. None: the buffer is a tensor of its own.
    `noalias` is seed 000 §6's promise that no other buffer of the region overlaps this one, so that the emitted pointer
    is `restrict`. Only an output that is written over an input, and that input, lack it (`ir.region.overwrite`)."""

    shape: tuple[int, ...]
    dtype: str
    alignment: int = 64
    noalias: bool = True
    box_of: tuple[int, ...] | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of the elements, without what lies between them."""
        return math.prod(self.shape) * dtype(self.dtype).bytes

    @property
    def frame(self) -> tuple[int, ...]:
        """The shape of the row-major tensor in which the elements lie."""
        return self.shape if self.box_of is None else self.box_of

    @property
    def span(self) -> int:
        """Elements from the first one to the last one, with what lies between them."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, row_major(self.frame), strict=True))

    def __str__(self) -> str:
        where = "" if self.box_of is None else f" in [{','.join(map(str, self.box_of))}]"
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{where}"


class Buffer(msgspec.Struct, frozen=True):
    """A tensor at the region's edge. A `constant` input is known when the program is built, so a plan may keep it
    packed. A `cold` input was written by no kernel of the program: its bytes come from memory, not from a cache. Those
    of a cold output go to memory."""

    name: str
    memref: MemRef
    constant: bool = False
    cold: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {'const ' if self.constant else ''}{self.memref}"


class Operand(msgspec.Struct, frozen=True, tag="value"):
    """A read of an SSA value or of an input buffer at `map(point of the op's domain)`."""

    value: str
    map: AxisMap


class Number(msgspec.Struct, frozen=True, tag="number"):
    """An immediate of the op's operand dtype; "inf", "-inf" and "nan" are strings."""

    number: bool | int | float | str
    dtype: str


class Op(msgspec.Struct, frozen=True):
    """An op at every point of `domain` (sizes); the last `reduced` axes are accumulated away.

    kind         fn                       inputs
    contraction  "sum"                    lhs, rhs: the sum of lhs·rhs, accumulated in `dtype`
    ewise/unary  lower-case uop           in the uop's order; `dtype` is the result's
    cast, copy   "cast", "copy"           one
    reduce       sum max min prod         one
    stream       exp, exp2                score, value: the sum of fn(score - m)·value, accumulated in `dtype`; m is the
                                          maximum of score over the reduced axes; NaN if m is NaN or infinite
    scan         sum prod max             one, accumulated along `axis` of the domain
    gather       "gather"                 source buffer, index: source at map(point, index), where the last axis of the
                                          map's domain is the index's value, clamped into the axis
    scatter      last sum prod max min    source, index, updates: at every point of the value, the source is combined
                                          with the updates whose index is the point's coordinate `axis`, in the order
                                          of the one reduced axis. Index and updates do not depend on `axis`, and the
                                          source does not depend on the reduced axis
    index        "index"                  none: `index_map`'s only coordinate
    table        "table"                  the numbers at all points, row-major; only in regions that run when the
                                          program is built
    """

    kind: OpKind
    fn: str
    dtype: str
    domain: tuple[int, ...]
    inputs: tuple[Operand | Number, ...] = ()
    reduced: int = 0
    axis: int | None = None
    index_map: AxisMap | None = None

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The inputs that are reads, without numbers. Data decides where a gather reads its source: one place
        stands for all."""
        reads = tuple(operand for operand in self.inputs if isinstance(operand, Operand))
        if self.kind != "gather" or not reads:
            return reads
        source, *index = reads
        return (Operand(source.value, at_choice(source.map)), *index)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the values and buffers that the op reads."""
        return tuple(operand.value for operand in self.operands)

    def is_computed_place(self, place: int) -> bool:
        """Whether input number `place` is read at a computed place: the source of a gather."""
        return self.kind == "gather" and place == 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the value: the domain without the reduced axes."""
        return self.domain[: len(self.domain) - self.reduced]


class Definition(msgspec.Struct, frozen=True):
    """`name = op`."""

    name: str
    op: Op


class Yield(msgspec.Struct, frozen=True):
    """Writes `value` to the whole of `buffer`; `map` takes an index of the buffer to the value's coordinates.

    A region runs over the points of its first output. `at` takes such a point to the index of `buffer` that is written
    at the point, if that is another index: a statistic of a row has fewer axes than the row. Every element is written,
    at one or more of its points."""

    value: str
    buffer: str
    map: AxisMap
    at: AxisMap | None = None


class Region(msgspec.Struct, frozen=True):
    """One kernel: inputs and outputs in memory, a body in SSA order, and the yields."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    body: tuple[Definition, ...]
    yields: tuple[Yield, ...]

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        return self.inputs + self.outputs

    @property
    def is_constant(self) -> bool:
        """Whether all inputs are known when the program is built."""
        return all(buffer.constant for buffer in self.inputs)

    def __str__(self) -> str:
        inputs, outputs = (", ".join(map(str, buffers)) for buffers in (self.inputs, self.outputs))
        lines = [f"region {self.name}({inputs}) -> ({outputs})"]
        lines += [f"  {let.name}: {let.op.dtype}{_sizes(let.op.shape)} = {_call(let.op)}" for let in self.body]
        for end in self.yields:
            where = _reading(end.at, len(end.at.sizes)) if end.at else ""
            lines.append(f"  yield {_read(end.value, end.map, len(end.map.sizes))} -> {end.buffer}{where}")
        return "\n".join(lines)


def ends_in_bits_of_halves(region: Region) -> bool:
    """Whether an output is a 16-bit float that a BITCAST makes: a register of fp32 would change the bits of a NaN."""
    ops = {let.name: let.op for let in region.body}
    ends = (ops[end.value] for end in region.yields if end.value in ops)
    return any(op.fn in BITCASTS and op.dtype in HALVES for op in ends)


def behind(ops: Mapping[str, Op], *values: str) -> list[str]:
    """The values and everything that `ops` compute them from, operands before their readers."""
    return post_order(values, lambda name: ops[name].reads if name in ops else ())


def is_order_bound(op: Op) -> bool:
    """Whether the order of an accumulator's terms changes its bits: sums and products of several floats."""
    summing = op.kind in ("contraction", "stream") or (op.kind in ("reduce", "scan") and op.fn in ("sum", "prod"))
    several = op.kind == "scan" or math.prod(op.domain[len(op.shape) :]) > 1
    return summing and several and DTYPES[op.dtype].is_float


def verify(region: Region) -> None:
    """Checks a region from scratch. Raises EqsatError (MalformedGraph) that names the wrong value."""
    shapes: dict[str, tuple[int, ...]] = {}
    for buffer in region.buffers:
        _require(buffer.name not in shapes, region, buffer.name, "two buffers have this name")
        _require(buffer.memref.dtype in DTYPES, region, buffer.name, f"no dtype {buffer.memref.dtype!r}")
        shapes[buffer.name] = buffer.memref.shape
    readable = {buffer.name: buffer.memref.shape for buffer in region.inputs}
    for let in region.body:
        _require(let.name not in shapes, region, let.name, "the name is taken")
        _verify_op(region, let, readable)
        readable[let.name] = shapes[let.name] = let.op.shape
    outputs = {buffer.name: buffer.memref.shape for buffer in region.outputs}
    written = [end.buffer for end in region.yields]
    _require(sorted(written) == sorted(outputs), region, region.name, "each output is yielded once", yields=written)
    values = {let.name for let in region.body}
    for end in region.yields:
        _require(end.value in values, region, end.buffer, f"yields {end.value!r}, which is no value")
        _verify_read(region, end.buffer, Operand(end.value, end.map), outputs[end.buffer], readable)
        if end.at is not None:
            points = region.outputs[0].memref.shape
            _verify_read(region, end.buffer, Operand(end.buffer, end.at), points, outputs)


def canonical(region: Region) -> Region:
    """The region with names that depend on the order only: equal for regions of the same kernel."""
    buffers = {buffer.name: f"in{k}" for k, buffer in enumerate(region.inputs)}
    buffers |= {buffer.name: f"out{k}" for k, buffer in enumerate(region.outputs)}
    names = buffers | {let.name: f"v{k}" for k, let in enumerate(region.body)}
    return rename(region, "region", names)


def rename(region: Region, name: str, names: dict[str, str]) -> Region:
    """The region as `name`, its buffers and values renamed by `names`; a name without an entry stays."""

    def rename_operand(operand: Operand | Number) -> Operand | Number:
        if isinstance(operand, Number):
            return operand
        return Operand(names.get(operand.value, operand.value), operand.map)

    def rename_buffer(buffer: Buffer) -> Buffer:
        return msgspec.structs.replace(buffer, name=names.get(buffer.name, buffer.name))

    return Region(
        name=name,
        inputs=tuple(map(rename_buffer, region.inputs)),
        outputs=tuple(map(rename_buffer, region.outputs)),
        body=tuple(
            Definition(
                names.get(let.name, let.name),
                msgspec.structs.replace(let.op, inputs=tuple(map(rename_operand, let.op.inputs))),
            )
            for let in region.body
        ),
        yields=tuple(
            msgspec.structs.replace(
                end, value=names.get(end.value, end.value), buffer=names.get(end.buffer, end.buffer)
            )
            for end in region.yields
        ),
    )


EXPONENTIALS = ("exp", "exp2")
"""The functions of a stream. They turn a difference of scores into a quotient."""

_ARITY = {
    "contraction": 2,
    "unary": 1,
    "cast": 1,
    "copy": 1,
    "reduce": 1,
    "stream": 2,
    "scan": 1,
    "gather": 2,
    "scatter": 3,
    "index": 0,
}


def _verify_op(region: Region, let: Definition, readable: dict[str, tuple[int, ...]]) -> None:
    op = let.op
    _require(op.dtype in DTYPES, region, let.name, f"no dtype {op.dtype!r}")
    arity = math.prod(op.domain) if op.kind == "table" else _ARITY.get(op.kind)
    fits = len(op.inputs) in (2, 3) if arity is None else len(op.inputs) == arity
    _require(fits, region, let.name, f"{op.kind} has {len(op.inputs)} inputs")
    accumulates = op.kind in ("contraction", "reduce", "stream", "scatter")
    _require(0 <= op.reduced <= len(op.domain), region, let.name, "more reduced axes than axes", reduced=op.reduced)
    _require(accumulates or not op.reduced, region, let.name, f"{op.kind} reduces no axes", reduced=op.reduced)
    if op.kind == "scan":
        along = op.axis is not None and 0 <= op.axis < len(op.domain)
        _require(along, region, let.name, "a scan runs along an axis of its domain", axis=op.axis)
    if op.kind == "scatter":
        along = op.axis is not None and 0 <= op.axis < len(op.shape) and op.reduced == 1
        _require(along, region, let.name, "a scatter runs along an axis of its value, over one reduced axis")
    if op.kind == "stream":
        fits = op.fn in EXPONENTIALS and DTYPES[op.dtype].is_float and isinstance(op.inputs[0], Operand)
        _require(fits, region, let.name, "a stream sums exp or exp2 of a score that it reads, in a float", fn=op.fn)
    if op.kind == "index":
        fits = op.index_map is not None and op.index_map.sizes == op.domain and len(op.index_map.exprs) == 1
        _require(fits, region, let.name, "an index is one coordinate over the domain")
    if op.kind == "table":
        _require(not op.operands, region, let.name, "a table holds numbers only")
    if op.kind == "gather":
        source = op.inputs[0]
        from_memory = isinstance(source, Operand) and source.value in {buffer.name for buffer in region.inputs}
        _require(from_memory, region, let.name, "a gather reads an input buffer")
    for place, operand in enumerate(op.inputs):
        if isinstance(operand, Operand):
            domain = operand.map.sizes[-1:] if op.is_computed_place(place) else ()
            _verify_read(region, let.name, operand, op.domain + domain, readable)
        else:
            _require(operand.dtype in DTYPES, region, let.name, f"a number of no dtype {operand.dtype!r}")


def _verify_read(
    region: Region, at: str, read: Operand, domain: tuple[int, ...], readable: dict[str, tuple[int, ...]]
) -> None:
    _require(read.value in readable, region, at, f"reads {read.value!r}, which nothing before it defines")
    fits = read.map.sizes == domain and len(read.map.exprs) == len(readable[read.value])
    _require(fits, region, at, f"reads {read.value!r} through a map of another shape", map=str(read.map), domain=domain)


def _require(holds: bool, region: Region, at: str, message: str, **details: object) -> None:
    if not holds:
        text = f"{region.name}: {message}"
        raise EqsatError(Diagnostic(kind=Kind.MALFORMED_GRAPH, stage=STAGE, message=text, at=at, details=details))


def _call(op: Op) -> str:
    head = op.kind if op.kind in ("contraction", "reduce", "stream", "scan", "scatter") else op.fn
    named = f"{head} {op.fn}" if op.kind in ("reduce", "stream", "scan", "scatter") else head
    axis = f" axis={op.axis}" if op.axis is not None else ""
    kept, reduced = _split(op)
    domain = f"[{kept}|{reduced}]" if op.reduced else f"[{kept}]"
    operands = list(_operands(op))
    return f"{named}{axis}{domain}({', '.join(operands)})"


def _split(op: Op) -> tuple[str, str]:
    cut = len(op.domain) - op.reduced
    return ",".join(map(str, op.domain[:cut])), ",".join(map(str, op.domain[cut:]))


def _operands(op: Op) -> Iterator[str]:
    kept = len(op.domain) - op.reduced
    for place, operand in enumerate(op.inputs):
        if isinstance(operand, Number):
            yield str(operand.number)
        else:
            yield _read(operand.value, operand.map, kept, "at" if op.is_computed_place(place) else "r")
    if op.index_map is not None:
        yield _reading(op.index_map, kept)


def _read(value: str, view: AxisMap, kept: int, others: str = "r") -> str:
    return f"{value}{_reading(view, kept, others)}"


def _reading(view: AxisMap, kept: int, others: str = "r") -> str:
    """The coordinates and guards of a map. The axes from `kept` on are written r0, r1, … if they are reduced, and at0
    if the axis is the index of a gather."""
    names = tuple(f"i{axis}" if axis < kept else f"{others}{axis - kept}" for axis in range(len(view.sizes)))
    coordinates = ", ".join(expr.text(names) for expr in view.exprs)
    return " ".join([f"[{coordinates}]", *(guard.text(names) for guard in view.guards)])


def _sizes(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"
