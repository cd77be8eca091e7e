"""Evaluates the values of a region at a point of their domain, by one thread of a GPU.

    v = relu(x[i, j] + b[j])   at (i, j), where j < 100
      x_1 = x[i, j] where 0 <= j < 100
      b_1 = b[j] where 0 <= j < 100
      v_1 = relu(add(x_1, b_1))

Operand maps are composed by substitution. A read padded with zeros is a load under a condition; a read padded with
other numbers selects. Every op rounds to its dtype: fp16 and bf16 values are in fp32 registers, rounded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

from codegen.lower.conversions import Conversions
from codegen.lower.evaluation import Evaluation as _Evaluation
from codegen.lower.evaluator import Provider as _Provider
from codegen.lower.evaluator import Read, ValueEvaluator
from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.points import Point, Where, axes_of
from codegen.plan.gpu.approximations import approximation
from ir.index.expr import AxisExpr
from ir.kernel.gpu.kernel import GpuParam
from ir.kernel.gpu.nodes import Call, Holds, Index, LoadGlobal, Value
from ir.kernel.nodes import BITS_OF_HALF, Const, Pick, register_type
from ir.region.region import Buffer, Number, Op, Operand, Region

Provider: TypeAlias = _Provider[GpuBlock, Value]
Evaluation: TypeAlias = _Evaluation[Value]

CONVERSIONS: Conversions[Value] = Conversions(Call)
convert = CONVERSIONS.convert


class ThreadEvaluator(ValueEvaluator[Value, GpuBlock]):
    """Evaluates the values of one region into blocks; they are scalars of one thread. `approximate`: functions whose
    results have 16 bits are the hardware's approximations."""

    def __init__(self, region: Region, writer: GpuWriter, *, approximate: bool) -> None:
        super().__init__(region, writer, CONVERSIONS)
        self.writer, self.approximate = writer, approximate

    def _function(self, op: Op) -> str:
        return (approximation(op) if self.approximate else None) or op.fn

    # --- values ---

    def _value(self, name: str, point: Point, block: GpuBlock, where: Where) -> Evaluation:
        if name in self.provided:
            return self.provided[name](point, block, where)
        if name not in self.ops:
            return self._load(name, point, block, where)
        key = (name, point, where)
        value = block.find(key)
        if value is None:
            home = block.home(axes_of(point, where))
            value = home.let(name, (yield self._compute(name, self.ops[name], point, home, where)))
            home.memo[key] = value
        return value

    def _read_guarded(
        self,
        guards: Sequence[tuple[Where, Const]],
        at: Point,
        block: GpuBlock,
        where: Where,
        read: Read[GpuBlock, Value],
    ) -> Evaluation:
        if not guards:
            return (yield read(at, block, where))
        (conditions, fill), *rest = guards
        unproven = tuple(condition for condition in conditions if condition not in where and not block.knows(condition))
        if any(map(self.writer.refutes, unproven)):
            return fill
        value = yield self._read_guarded(rest, at, block, (*where, *unproven), read)
        if not unproven or (_is_zero(fill) and is_zero_outside(value, unproven)):
            return value
        return Call("where", (Holds(unproven), value, fill), fill.dtype)

    # --- memory ---

    def _load(self, buffer: str, point: Point, block: GpuBlock, where: Where) -> Value:
        unproven = tuple(condition for condition in where if not block.knows(condition))
        return LoadGlobal(self.writer.buffer(buffer), point, register_type(self.dtype(buffer)), unproven)

    def _load_bits(self, buffer: str, point: Point, block: GpuBlock, where: Where) -> Value:
        unproven = tuple(condition for condition in where if not block.knows(condition))
        return LoadGlobal(self.writer.buffer(buffer), self._place(buffer, point), BITS_OF_HALF, unproven)

    def _place(self, buffer: str, point: Point) -> Point:
        """The coordinates of an element in the kernel's parameter."""
        return point

    # --- ops ---

    def _gather(self, op: Op, point: Point, block: GpuBlock, where: Where) -> Evaluation:
        source, size = self._gather_source(op)
        chosen = op.inputs[1]
        value = yield self._operand(chosen, point, block, where)
        place = (*point, self._picked(chosen, value, size, point, block, where))
        read = partial(self._value, source.value)
        return (yield self._read_through(source.map, place, self.dtype(source.value), block, where, read))

    def _picked(
        self, chosen: Operand | Number, value: Value, size: int, point: Point, block: GpuBlock, where: Where
    ) -> AxisExpr:
        """The index of a gather, `value`, clamped into an axis of `size`. Neighbours with one index share its variable,
        so that elements beside each other are one load."""
        at, conditions = point, where
        if isinstance(chosen, Operand):
            guards = (condition for guard in chosen.map.guards for condition in self.writer.conditions(guard, point))
            at, conditions = self.writer.at(chosen.map.exprs, point), (*where, *guards)
        home, key = block.home(axes_of(at, conditions)), ("pick", value, size, at, conditions)
        index = home.find(key)
        if index is None:
            variable = self.writer.variable("at", 0, size - 1)
            home.add(Pick(variable, self._index_value(value, chosen, size)))
            home.variables.add(variable)
            home.memo[key] = index = Index(self.writer.axis(variable), "i32")
        assert isinstance(index, Index)
        return index.expr

    def _position(self, expr: AxisExpr, dtype: str, block: GpuBlock) -> Value:
        return Index(expr, dtype)


def params_of(
    region: Region, writer: GpuWriter, merged: Mapping[str, int] = MappingProxyType({})
) -> tuple[GpuParam, ...]:
    """The kernel's parameters: the region's inputs, then its outputs. `merged`: buffer → how many of its last axes are
    one axis in the kernel."""
    written = {output.name for output in region.outputs}

    def shape(buffer: Buffer) -> tuple[int, ...]:
        whole, last = buffer.memref.shape, merged.get(buffer.name, 1)
        return (*whole[: len(whole) - last], math.prod(whole[len(whole) - last :])) if last > 1 else whole

    return tuple(
        GpuParam(writer.buffer(buffer.name), buffer.memref.dtype, shape(buffer), buffer.name in written)
        for buffer in region.buffers
    )


def is_zero_outside(value: Value, where: Where) -> bool:
    """Whether the value is a load that gives 0 where one of the conditions fails."""
    return isinstance(value, LoadGlobal) and set(where) <= set(value.where)


def _is_zero(number: Const) -> bool:
    """Whether the number is the 0 that a load gives where its condition fails."""
    return number.number == 0 and str(number.number) != "-0.0"
