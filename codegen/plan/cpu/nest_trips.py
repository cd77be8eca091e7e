"""The loops over the outputs of a plan of a nest, and how often the nest computes a value that depends on some axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from codegen.plan.region_loops import Shape
from ir.plan.cpu import CpuNestPlan


class NestKey(NamedTuple):
    """All that `PlannedNest` takes from a plan: the axes of the loops, the position of the loop along which lanes run,
    and whether that loop is a strip."""

    loops: tuple[tuple[int, ...], ...]
    lanes: int | None
    is_strip: bool

    @staticmethod
    def of(plan: CpuNestPlan) -> NestKey:
        axes = tuple([loop.axes for loop in plan.loops])
        return NestKey(axes, plan.lanes, plan.lanes is not None and plan.loops[plan.lanes].tile <= plan.width)


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
    """

    loops: Sequence[tuple[frozenset[int], int]]
    along: tuple[int, ...]
    lanes: int | None
    is_strip: bool
    width: int

    @staticmethod
    def of(shape: Shape, key: NestKey, width: int) -> PlannedNest:
        loops = [(frozenset(loop), math.prod([shape[axis] for axis in loop])) for loop in key.loops]
        along = () if key.lanes is None else key.loops[key.lanes]
        return PlannedNest(loops, along, key.lanes, key.is_strip, width)

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
