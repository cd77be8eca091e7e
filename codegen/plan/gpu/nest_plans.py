"""Plans of a nest on a GPU, field by field; `nest_choices` says what the fields mean, and reads them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from codegen.plan.gpu.nest_blocks import Points, Rows, Tiles, loop_name
from codegen.plan.gpu.nest_choices import BIND, ELEMENTS, row_axes, row_length
from codegen.plan.region_loops import RegionLoops
from ir.plan import Plan, Vectorize


def points_plan(
    loops: RegionLoops, arch: str, groups: Sequence[Sequence[int]], tile: tuple[int, int], width: int
) -> Plan:
    """The plan of points along loops over `groups` of axes."""
    names = [loop_name(group) for group in groups]
    extents = tuple(math.prod(loops.shape[axis] for axis in group) for group in groups)
    found = Points(tuple(map(tuple, groups)), extents, width, *tile)
    return Plan(
        arch=arch,
        algo_choice={"nest": "points", "loops": " ".join(names)},
        tile=tile,
        bind=dict(BIND),
        vectorize=Vectorize(names[-1], width) if width > 1 else None,
        predicate_tail=found.tails,
        ordered=loops.ordered,
    )


def rows_plan(
    loops: RegionLoops, arch: str, tile: tuple[int, int], *, near: bool, keep: str, width: int, split: int = 1
) -> Plan:
    """The plan of rows with `tile` rows of a block and threads of a team, which `split` blocks share."""
    axes, inner = row_axes(loops)
    count = math.prod(loops.shape[axis] for axis in axes)
    found = Rows(axes, inner, count, row_length(loops), *tile, near, keep, width)
    choice = {"nest": "rows", "team": "near" if near else "far", "keep": keep}
    return Plan(
        arch=arch,
        algo_choice=choice,
        tile=tile,
        bind=dict(BIND),
        vectorize=Vectorize(ELEMENTS, width) if width > 1 else None,
        predicate_tail=found.tails,
        ordered=loops.ordered,
        layout_hints={"split_k": split} if split > 1 else {},
    )


def tile_plan(loops: RegionLoops, arch: str, groups: Sequence[Sequence[int]], tile: tuple[int, int]) -> Plan:
    """The plan of tiles along the last two of loops over `groups` of axes."""
    extents = tuple(math.prod(loops.shape[axis] for axis in group) for group in groups)
    found = Tiles(tuple(map(tuple, groups)), extents, *tile)
    return Plan(
        arch=arch,
        algo_choice={"nest": "tile", "loops": " ".join(map(loop_name, groups))},
        tile=tile,
        bind=dict(BIND),
        predicate_tail=found.tails,
        ordered=loops.ordered,
    )
