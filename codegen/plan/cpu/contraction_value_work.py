"""What a contraction computes beside its multiply-adds: its operands' elements before them, its epilogue after them.

Additions-worth, per element of an operand or per vector of sums; none of it depends on the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from codegen.plan.contraction_view import Contraction, fused_step, rows_are_neighbours
from codegen.plan.cpu.dependency_chains import chain_waits
from codegen.plan.op_weights import weight
from ir.dtype import DTYPES
from ir.index.facts import offset
from ir.index.map import AxisMap, compose, support
from ir.post_order import post_order
from ir.region.region import Op, behind
from ir.target import Target

_LINE_BYTES = 64


@dataclass(frozen=True, eq=False)
class ContractionValues:
    """The values around the sums of one contraction, on one machine."""

    view: Contraction
    target: Target

    @cached_property
    def operands(self) -> tuple[float, float]:
        """Additions-worth of what computes one element of each operand; 0 where that is done beforehand."""
        found = [0.0 if self.view.is_constant(side) else self._below(self.view.operand(side).value) for side in (0, 1)]
        return found[0], found[1]

    @cached_property
    def epilogue(self) -> tuple[float, float]:
        """Additions-worth of what is applied to one vector of sums, what it waits for included, and of what is made
        once for the vectors of a row: it does not change along them."""
        inside = {name for side in (0, 1) for name in self._values(self.view.operand(side).value)}
        each = once = 0.0
        for name, op in self._ops.items():
            if name not in inside and name != self.view.name:
                if self._used.get(name, self._along) & self._along:
                    each += weight(op, self.target)
                else:
                    once += weight(op, self.target)
        return each + self._chained, once

    @cached_property
    def apart(self) -> float:
        """Cycles for each sum of reading one by one what lies apart beside it."""
        view, total = self.view, 0.0
        along = view.rows if rows_are_neighbours(view) else view.columns
        buffers = {each.name: each.memref for each in view.region.inputs}
        for name, at in self._read_after:
            if name in buffers and not at.is_empty:
                step = fused_step(offset(at, buffers[name].shape), along, view.sizes)
                far = step is None or abs(step) * DTYPES[buffers[name].dtype].bytes >= _LINE_BYTES
                if step not in (0, 1):
                    total += self.target.far_cycles if far else self.target.lane_cycles
        return total

    @cached_property
    def _along(self) -> frozenset[int]:
        """The digits along which lanes of the epilogue lie."""
        return frozenset(self.view.rows if rows_are_neighbours(self.view) else self.view.columns)

    @cached_property
    def _chained(self) -> float:
        """Additions-worth lost at each vector of sums because what is applied to it waits for one another."""
        after = {name for name, used in self._used.items() if used & self._along and name != self.view.name}
        return chain_waits((each.value for each in self.view.region.yields), self._ops, after.__contains__, self.target)

    @cached_property
    def _used(self) -> dict[str, frozenset[int]]:
        """The digits on which the values after the sums depend."""
        used: dict[str, frozenset[int]] = {}
        for name, at in self._read_after:
            used[name] = used.get(name, frozenset()) | support(at)
        return used

    @cached_property
    def _read_after(self) -> Sequence[tuple[str, AxisMap]]:
        """The values and buffers that the epilogue reads, each place of them once, in terms of digits."""

        def below(place: tuple[str, AxisMap]) -> list[tuple[str, AxisMap]]:
            name, at = place
            reads = () if name == self.view.name or name not in self._ops else self._ops[name].operands
            return [(read.value, compose(read.map, at)) for read in reads]

        yielded = [(each.value, compose(each.map, self.view.roles.out)) for each in self.view.region.yields]
        return post_order(yielded, below)

    def _below(self, value: str) -> float:
        return sum(weight(self._ops[name], self.target) for name in self._values(value))

    def _values(self, value: str) -> list[str]:
        """The values that computing `value` takes, itself included."""
        return [name for name in behind(self._ops, value) if name in self._ops]

    @cached_property
    def _ops(self) -> dict[str, Op]:
        return {let.name: let.op for let in self.view.region.body}
