"""Evaluates an SSA value of a region at a point of its domain: the part that CPU and GPU share.

Operand maps are composed by substitution, so that every coordinate is one expression over the kernel's variables. Every
op rounds to its dtype. The subclasses write guarded reads and loads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeAlias, TypeVar, cast

import numpy as np

from codegen.lower.accumulators import Joining
from codegen.lower.conversions import Conversions, Typed, constant
from codegen.lower.evaluation import Evaluation, evaluate
from codegen.lower.points import Point, Where
from codegen.lower.scopes import Names, Scope
from codegen.poly.value_sites import ACCUMULATORS
from ir.dtype import DTYPES, HALVES
from ir.index.expr import ZERO, AxisExpr, interval
from ir.index.guard import Guard
from ir.index.map import AxisMap
from ir.kernel.nodes import BITS_OF_HALF, Const, register_type
from ir.region.region import Buffer, Number, Op, Operand, Region, Yield
from ir.uop.table import BITCASTS

V = TypeVar("V", bound=Typed)
B = TypeVar("B", bound=Scope)  # type: ignore[type-arg]
Provider: TypeAlias = Callable[[Point, B, Where], V]
"""The value at a point, in a block; it is needed only where the conditions hold."""
Read: TypeAlias = Callable[[Point, B, Where], Evaluation[V]]

_INT32 = 2**31
ROUNDS_ALREADY = frozenset(["neg", "abs", "relu", "max", "min", "where", "floor", "ceil", "round", "copy"])
"""Functions whose results their operands' dtype holds exactly."""


class ValueEvaluator(ABC, Generic[V, B]):
    """Evaluates the values of one region into blocks. `provided`: values that the caller computes, as accumulators and
    tiles on chip."""

    def __init__(self, region: Region, names: Names, conversions: Conversions[V]) -> None:
        self.region, self._names, self._conversions = region, names, conversions
        self.ops: Mapping[str, Op] = {let.name: let.op for let in region.body}
        self.buffers: dict[str, Buffer] = {buffer.name: buffer for buffer in region.buffers}
        self.provided: dict[str, Provider[B, V]] = {}

    def provide(self, name: str, value: V) -> None:
        """Makes `value` the SSA value `name` at every point."""
        self.provided[name] = lambda _at, _block, _where: value

    def dtype(self, name: str) -> str:
        """The dtype of an SSA value or buffer."""
        return self.ops[name].dtype if name in self.ops else self.buffers[name].memref.dtype

    def operand_dtype(self, operand: Operand | Number) -> str:
        """The dtype of an operand of an op."""
        return operand.dtype if isinstance(operand, Number) else self.dtype(operand.value)

    def joining(self, op: Op) -> Joining:
        """How the terms of a reduction or scan are combined."""
        return Joining.of(op, self.operand_dtype(op.inputs[0]))

    def value(self, name: str, point: Point, block: B, where: Where = ()) -> V:
        """The SSA value or buffer `name` at the coordinates `point`, in registers of `register_type(dtype(name))`.
        Memory is read only where all of `where` hold; elsewhere the value is arbitrary."""
        return evaluate(self._value(name, point, block, where))

    def operand(self, operand: Operand | Number, point: Point, block: B, where: Where = ()) -> V:
        """An operand of an op at the op's domain point `point`; padding included."""
        return evaluate(self._operand(operand, point, block, where))

    def read_through(self, view: AxisMap, point: Point, dtype: str, block: B, where: Where, read: Provider[B, V]) -> V:
        """`read` at view(point), or the fill of the first guard of `view` that fails."""
        return evaluate(self._read_through(view, point, dtype, block, where, _at_once(read)))

    def yielded_value(self, value: str, view: AxisMap, point: Point, block: B, where: Where) -> V:
        """The value that a yield of `value` through `view` writes at `point` of its buffer."""
        return evaluate(self._read_through(view, point, self.dtype(value), block, where, partial(self._value, value)))

    def stored_value(self, result: Yield, point: Point, block: B, where: Where) -> V:
        """The register that a kernel stores at `point` of an output: the value, or the bits of a 16-bit float that a
        BITCAST makes, whose NaN a register of fp32 would change."""
        op, element = self.ops.get(result.value), self.dtype(result.buffer)
        if op is None or op.fn not in BITCASTS or element not in HALVES or result.value in self.provided:
            value = self.yielded_value(result.value, result.map, point, block, where)
            return self._conversions.convert(value, self.dtype(result.value), element)
        view, read = _with_bits(result.map, element), partial(self._bits, op, BITS_OF_HALF)
        return evaluate(self._read_through(view, point, BITS_OF_HALF, block, where, read))

    def _operand(self, operand: Operand | Number, point: Point, block: B, where: Where) -> Evaluation[V]:
        if isinstance(operand, Number):
            return cast("V", constant(operand.number, operand.dtype))  # constants are values of every dialect
        read = partial(self._value, operand.value)
        return (yield self._read_through(operand.map, point, self.dtype(operand.value), block, where, read))

    def _read_through(
        self, view: AxisMap, point: Point, dtype: str, block: B, where: Where, read: Read[B, V]
    ) -> Evaluation[V]:
        at = self._names.at(view.exprs, point)
        guards = [(self._names.conditions(guard, point), constant(guard.fill, dtype)) for guard in view.guards]
        return (yield self._read_guarded(guards, at, block, where, read))

    def _compute(self, name: str, op: Op, point: Point, block: B, where: Where) -> Evaluation[V]:
        """The value of an op at a point of its domain."""
        match op.kind:
            case "gather":
                source, size = self._gather_source(op)
                if size == 1:  # every index is held within the axis, and is 0
                    return (yield self._operand(source, (*point, ZERO), block, where))
                return (yield self._gather(op, point, block, where))
            case "index":
                return self._index(op, point, block, where)
        return (yield self._elementwise(op, point, block, where))

    def _elementwise(self, op: Op, point: Point, block: B, where: Where) -> Evaluation[V]:
        assert op.kind not in ACCUMULATORS, "a template computes its accumulators"
        if op.fn in BITCASTS:
            return (yield self._bits(op, op.dtype, point, block, where))
        args: list[V] = []
        for operand in op.inputs:
            args.append((yield self._operand(operand, point, block, where)))
        if op.kind in ("copy", "cast"):
            return self._conversions.convert(args[0], self.operand_dtype(op.inputs[0]), op.dtype)
        result = self._conversions.call(self._function(op), tuple(args), register_type(op.dtype))
        return result if op.fn in ROUNDS_ALREADY else self._conversions.round_value(result, op.dtype)

    def _bits(self, op: Op, dtype: str, point: Point, block: B, where: Where) -> Evaluation[V]:
        """The bits of the operand of a BITCAST, read as `dtype`. Those of a 16-bit float in memory are loaded as they
        are: a register would hold it as fp32, which is another NaN where it is NaN."""
        (operand,) = op.inputs
        source = self.operand_dtype(operand)
        if isinstance(operand, Operand) and source in HALVES and self._is_stored(operand.value):
            read = partial(self._load_bits, operand.value)
            view = _with_bits(operand.map, source)
            word = yield self._read_through(view, point, BITS_OF_HALF, block, where, _at_once(read))
            return self._conversions.bitcast(word, BITS_OF_HALF, dtype)
        return self._conversions.bitcast((yield self._operand(operand, point, block, where)), source, dtype)

    def _is_stored(self, name: str) -> bool:
        """Whether a value is read from a buffer of the region."""
        return name not in self.ops and name not in self.provided

    def _function(self, op: Op) -> str:
        """The function that computes an elementwise op."""
        return op.fn

    def _index(self, op: Op, point: Point, block: B, where: Where) -> V:
        assert op.index_map is not None

        def read(at: Point, inner: B, _: Where) -> V:
            if not at[0].terms:
                return cast("V", constant(at[0].const, op.dtype))
            low, high = interval(at[0], self._names.box)
            dtype = "i32" if low >= -_INT32 and high < _INT32 else "i64"
            return self._conversions.convert(self._position(at[0], dtype, inner), dtype, op.dtype)

        return self.read_through(op.index_map, point, op.dtype, block, where, read)

    def _gather_source(self, op: Op) -> tuple[Operand, int]:
        """The read of a gather's source, and the size of the axis into which the index is clamped."""
        source = op.inputs[0]
        assert isinstance(source, Operand)
        return source, source.map.sizes[-1]

    def _index_value(self, value: V, operand: Operand | Number, size: int) -> V:
        """The value of a gather's index as i64, for an axis of `size`. i64 does not hold every u64, and a large u64 is
        beyond the end of the axis."""
        dtype = self.operand_dtype(operand)
        if dtype == "u64":
            last = cast("V", constant(max(size - 1, 0), dtype))
            value = self._conversions.call("min", (value, last), dtype)
        return self._conversions.convert(value, dtype, "i64")

    def position_after(self, value: V, operand: Operand | Number, size: int) -> V:
        """1 + the value of a scatter's index as i64, for an axis of `size`: below 1 or above `size` if the index is
        outside the axis."""
        position = self._index_value(value, operand, size + 1)
        return self._conversions.call("add", (position, cast("V", constant(1, "i64"))), "i64")

    def combine(self, fn: str | None, element: Callable[[], V], update: V, dtype: str) -> V:
        """An element of a scatter's result of this dtype after an update: `fn` of both, rounded; without `fn` the
        update."""
        if fn is None:
            return update
        result = self._conversions.call(fn, (element(), update), register_type(dtype))
        return result if fn in ROUNDS_ALREADY else self._conversions.round_value(result, dtype)

    @abstractmethod
    def _value(self, name: str, point: Point, block: B, where: Where) -> Evaluation[V]: ...

    @abstractmethod
    def _load_bits(self, buffer: str, point: Point, block: B, where: Where) -> V:
        """The bits of an element of a 16-bit float, as a register of BITS_OF_HALF."""

    @abstractmethod
    def _gather(self, op: Op, point: Point, block: B, where: Where) -> Evaluation[V]:
        """An element of a buffer whose index along one axis is a value."""

    @abstractmethod
    def _read_guarded(
        self, guards: Sequence[tuple[Where, Const]], at: Point, block: B, where: Where, read: Read[B, V]
    ) -> Evaluation[V]:
        """`read` at a point where all guards hold; else the fill of the first guard that fails."""

    @abstractmethod
    def _position(self, expr: AxisExpr, dtype: str, block: B) -> V:
        """An index as a value of this dtype."""


def _with_bits(view: AxisMap, dtype: str) -> AxisMap:
    """The map whose fills are the bits of those of `view`, which are numbers of `dtype`."""
    kind, word = DTYPES[dtype].numpy, DTYPES[BITS_OF_HALF].numpy
    with np.errstate(over="ignore"):
        guards = tuple(
            Guard(guard.bounds, int(np.asarray(guard.fill, np.float32).astype(kind).view(word)))
            for guard in view.guards
        )
    return AxisMap(view.sizes, view.exprs, guards, view.interior)


def _at_once(read: Provider[B, V]) -> Read[B, V]:
    """A read that needs no other evaluation."""

    def evaluation(point: Point, block: B, where: Where) -> Evaluation[V]:
        return read(point, block, where)
        yield  # makes this a generator

    return evaluation
