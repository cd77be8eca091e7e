"""The arithmetic of a contraction's prologue and epilogue.

Figures are additions-worth, per element of an operand or per vector of sums. None of them depends on the plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from codegen.plan.contraction_view import Contraction, fused_step, rows_are_neighbours
from codegen.plan.cpu.constant_parts import shares_of_ops
from codegen.plan.cpu.dependency_chains import chain_waits
from codegen.plan.op_weights import weight
from ir.dtype import DTYPES
from ir.index.facts import offset
from ir.index.map import AxisMap, compose, support
from ir.post_order import post_order
from ir.region.region import behind
from ir.target import CACHE_LINE_BYTES, Target


@dataclass(frozen=True, eq=False)
class ContractionValues:
    """The values of one contraction's prologue and epilogue, on one machine."""

    view: Contraction
    target: Target

    @cached_property
    def operands(self) -> tuple[float, float]:
        """Per operand: additions-worth of one element."""
        lhs, rhs = (self._weight_of(self.view.operand(side).value) for side in (0, 1))
        return lhs, rhs

    @cached_property
    def columns_of_parts(self) -> float:
        """Additions-worth of one element of the columns, computed from their parts."""
        shares = shares_of_ops(self.view)
        return sum(weight(self.view.ops[name], self.target) * share for name, share in shares.items())

    @cached_property
    def epilogue(self) -> tuple[float, float]:
        """Additions-worth of the epilogue of one vector of sums, waits included; and of the values that are computed
        once for all vectors of a row, because they do not change along the row."""
        inside = {name for side in (0, 1) for name in self._values(self.view.operand(side).value)}
        per_vector = per_row = 0.0
        for name, op in self.view.ops.items():
            if name not in inside and name != self.view.name:
                if self._digits_of.get(name, self._along) & self._along:
                    per_vector += weight(op, self.target)
                else:
                    per_row += weight(op, self.target)
        return per_vector + self._chain_wait, per_row

    @cached_property
    def scattered_reads(self) -> float:
        """Cycles per sum of reads of the epilogue whose lanes are no neighbours in memory."""
        view, total = self.view, 0.0
        along = view.rows if rows_are_neighbours(view) else view.columns
        buffers = {buffer.name: buffer.memref for buffer in view.region.inputs}
        for name, at in self._epilogue_reads:
            if name in buffers and not at.is_empty:
                step = fused_step(offset(at, buffers[name].frame), along, view.sizes)
                far = step is None or abs(step) * DTYPES[buffers[name].dtype].bytes >= CACHE_LINE_BYTES
                if step not in (0, 1):
                    total += self.target.far_cycles if far else self.target.lane_cycles
        return total

    @cached_property
    def epilogue_buffers(self) -> frozenset[str]:
        """The names of the inputs of the region that the epilogue reads."""
        inputs = {buffer.name for buffer in self.view.region.inputs}
        return frozenset(name for name, _ in self._epilogue_reads if name in inputs)

    @cached_property
    def _along(self) -> frozenset[int]:
        """The digits along which the lanes of the epilogue run."""
        return frozenset(self.view.rows if rows_are_neighbours(self.view) else self.view.columns)

    @cached_property
    def _chain_wait(self) -> float:
        """Additions-worth lost per vector of sums, because ops of the epilogue wait for one another."""
        after = {name for name, used in self._digits_of.items() if used & self._along and name != self.view.name}
        return chain_waits(
            (result.value for result in self.view.region.yields), self.view.ops, after.__contains__, self.target
        )

    @cached_property
    def _digits_of(self) -> dict[str, frozenset[int]]:
        """The digits on which the values after the sums depend."""
        used: dict[str, frozenset[int]] = {}
        for name, at in self._epilogue_reads:
            used[name] = used.get(name, frozenset()) | support(at)
        return used

    @cached_property
    def _epilogue_reads(self) -> Sequence[tuple[str, AxisMap]]:
        """The values and buffers that the epilogue reads and where, in terms of digits; no pair stands twice."""

        def below(place: tuple[str, AxisMap]) -> list[tuple[str, AxisMap]]:
            name, at = place
            reads = () if name == self.view.name or name not in self.view.ops else self.view.ops[name].operands
            return [(read.value, compose(read.map, at)) for read in reads]

        yielded = [(result.value, compose(result.map, self.view.roles.out)) for result in self.view.region.yields]
        return post_order(yielded, below)

    def _weight_of(self, value: str) -> float:
        """Additions-worth of one element of a value. Values behind it that have fewer points, as the index of a row
        that is gathered, are computed once for several elements."""
        points = math.prod(self.view.ops[value].shape) if value in self.view.ops else 1
        shares = (
            (name, min(1.0, math.prod(self.view.ops[name].shape) / max(points, 1))) for name in self._values(value)
        )
        return sum(weight(self.view.ops[name], self.target) * share for name, share in shares)

    def _values(self, value: str) -> list[str]:
        """The values from which `value` is computed, and `value`."""
        return [name for name in behind(self.view.ops, value) if name in self.view.ops]
