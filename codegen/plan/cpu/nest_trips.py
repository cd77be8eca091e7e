"""The loops over the outputs that a plan of a nest makes, and how often what depends on some axes is computed there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from codegen.plan.region_loops import Shape
from ir.plan.cpu import CpuNestPlan


class NestKey(NamedTuple):
    """All that a nest is made from: the axes of its loops, the position of that along which lanes run, and whether that
    one is a strip."""

    loops: tuple[tuple[int, ...], ...]
    lanes: int | None
    is_strip: bool

    @staticmethod
    def of(plan: CpuNestPlan) -> NestKey:
        axes = tuple([loop.axes for loop in plan.loops])
        return NestKey(axes, plan.lanes, plan.lanes is not None and plan.loops[plan.lanes].tile <= plan.width)


class OuterLoops(NamedTuple):
    """The loops around a value: how many; how often it is computed, at each of their points; in registers of lanes; and
    whether lanes hold different ones of it."""

    depth: int
    points: int
    vectors: int
    has_lanes: bool


@dataclass(frozen=True, eq=False)
class PlannedNest:
    """A plan's loops over the outputs, outermost first: (axes, extent).

    along     the axes of the one along which lanes run, none where they do not run along outputs
    lanes     its position, None where there is none
    is_strip  whether that one advances by a vector at a time, all others inside
    width     of a register, in lanes
    """

    loops: Sequence[tuple[frozenset[int], int]]
    along: tuple[int, ...]
    lanes: int | None
    is_strip: bool
    width: int

    @staticmethod
    def of(shape: Shape, key: NestKey, width: int) -> PlannedNest:
        found = [(frozenset(each), math.prod([shape[axis] for axis in each])) for each in key.loops]
        along = () if key.lanes is None else key.loops[key.lanes]
        return PlannedNest(found, along, key.lanes, key.is_strip, width)

    @cached_property
    def around(self) -> Mapping[frozenset[int], OuterLoops]:
        """The loops around what depends on some axes, by these."""
        return _Arounds(self)


class _Arounds(dict[frozenset[int], OuterLoops]):
    """Found as they are asked for."""

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
        self[axes] = found = OuterLoops(depth, points, vectors, not axes.isdisjoint(self._nest.along))
        return found
