"""The loops over the outputs of a plan of a nest, and how often the nest computes a value that depends on some axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from codegen.plan.region_loops import Shape
from ir.plan.cpu import CpuNestPlan
from ir.target import LANES


class NestKey(NamedTuple):
    """All that `PlannedNest` takes from a plan: the axes of the loops, the position of the loop along which lanes run,
    whether that loop is a strip, its registers per step, the position of the row loop, and its rows that run
    together."""

    loops: tuple[tuple[int, ...], ...]
    lanes: int | None
    is_strip: bool
    registers: int
    row_loop: int | None
    rows: int

    @staticmethod
    def of(plan: CpuNestPlan) -> NestKey:
        axes = tuple([loop.axes for loop in plan.loops])
        is_strip = plan.lanes is not None and plan.loops[plan.lanes].tile <= plan.width
        return NestKey(axes, plan.lanes, is_strip, plan.width // LANES[plan.arch], plan.row_loop, plan.rows)


class OuterLoops(NamedTuple):
    """The loops around a value.

    depth      how many
    points     their points: how often the value is computed, one by one
    vectors    the same in registers of lanes
    has_lanes  whether the lanes of a register hold different values
    """

    depth: int
    points: int
    vectors: int
    has_lanes: bool


@dataclass(frozen=True, eq=False)
class PlannedNest:
    """A plan's loops over the outputs, outermost first, as pairs (axes, extent).

    along     the axes of the loop along which lanes run; none where lanes run along the terms of a reduction
    lanes     the position of that loop, or None
    is_strip  whether that loop advances one vector at a time, with all other loops inside
    width     lanes of a register
    registers of a step along that loop
    rows      points of the loop `row_axes` that run together
    """

    loops: Sequence[tuple[frozenset[int], int]]
    along: tuple[int, ...]
    lanes: int | None
    is_strip: bool
    width: int
    registers: int
    rows: int
    row_axes: tuple[int, ...]

    @staticmethod
    def of(shape: Shape, key: NestKey, width: int) -> PlannedNest:
        loops = [(frozenset(loop), math.prod([shape[axis] for axis in loop])) for loop in key.loops]
        along = () if key.lanes is None else key.loops[key.lanes]
        row_axes = () if key.row_loop is None else key.loops[key.row_loop]
        return PlannedNest(loops, along, key.lanes, key.is_strip, width, key.registers, key.rows, row_axes)

    @cached_property
    def points(self) -> int:
        """The points of all loops."""
        return math.prod([extent for _, extent in self.loops])

    @cached_property
    def around(self) -> Mapping[frozenset[int], OuterLoops]:
        """The axes on which a value depends → the loops around it."""
        return _OuterLoopsByAxes(self)


class _OuterLoopsByAxes(dict[frozenset[int], OuterLoops]):
    """Entries are computed when they are asked for."""

    def __init__(self, nest: PlannedNest) -> None:
        self._nest = nest

    def __missing__(self, axes: frozenset[int]) -> OuterLoops:
        loops, lanes = self._nest.loops, self._nest.lanes
        depth = len(loops)
        while depth and axes.isdisjoint(loops[depth - 1][0]):
            depth -= 1
        extents = [extent for _, extent in loops[:depth]]
        points = vectors = math.prod(extents)
        if lanes is not None and lanes < depth:
            extents[lanes] = -(-extents[lanes] // self._nest.width)
            vectors = math.prod(extents)
        self[axes] = around = OuterLoops(depth, points, vectors, not axes.isdisjoint(self._nest.along))
        return around
