"""The loops over the outputs that a plan of a nest makes, and how often what depends on some axes is computed there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from codegen.plan.cpu.nest_choices import loop_names
from codegen.plan.region_loops import Shape, loop_axes
from ir.plan import Plan


@dataclass(frozen=True)
class PlannedNest:
    """A plan's loops over the outputs, outermost first: (axes, extent).

    lanes     the position of the one along which lanes run, None where they do not run along outputs
    is_strip  whether that one advances by a vector at a time, all others inside
    """

    loops: Sequence[tuple[frozenset[int], int]]
    lanes: int | None
    is_strip: bool

    @staticmethod
    def of(shape: Shape, plan: Plan) -> PlannedNest:
        names = loop_names(plan)
        axes = [loop_axes(name) for name in names]
        along = plan.vectorize.axis if plan.vectorize else ""
        found = [(frozenset(each), math.prod(shape[axis] for axis in each)) for each in axes]
        lanes = names.index(along) if along in names else None
        strip = lanes is not None and plan.vectorize is not None and plan.tile[lanes] <= plan.vectorize.width
        return PlannedNest(found, lanes, strip)

    def depth(self, axes: frozenset[int]) -> int:
        """How many loops are around what depends on `axes`."""
        return next((depth for depth in range(len(self.loops), 0, -1) if axes & self.loops[depth - 1][0]), 0)

    def has_lanes(self, axes: frozenset[int]) -> bool:
        """Whether lanes hold different ones of the values that depend on these axes."""
        return self.lanes is not None and not axes.isdisjoint(self.loops[self.lanes][0])

    def points(self, axes: frozenset[int]) -> int:
        """How often a value is computed that depends on these axes: at each point of the loops around it."""
        return math.prod(extent for _, extent in self.loops[: self.depth(axes)])

    def vectors(self, axes: frozenset[int], lanes: int) -> int:
        """As `points`, in registers of `lanes` numbers."""
        around = self.loops[: self.depth(axes)]
        return math.prod(
            -(-extent // lanes) if number == self.lanes else extent for number, (_, extent) in enumerate(around)
        )
