"""The groups of axes between which a reshape moves no element: [B, S, 8, 64] → [B·S, 512] has (B, S) and (8, 64)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

AxisSizes = tuple[int, ...]
"""The sizes of one axis in several graphs of a program."""


class ReshapeGroup(NamedTuple):
    """Axes `old` of the operand that become the axes `new` of the result, by their positions; axes of size 1 are in no
    group. keeps_order: each element has one row-major number within the group in all graphs."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    keeps_order: bool


def reshape_groups(old: Sequence[AxisSizes], new: Sequence[AxisSizes]) -> list[ReshapeGroup]:
    """The smallest groups that have equal numbers of elements in every graph. Axes without elements are one group,
    which keeps no order."""
    if any(0 in axis for axis in (*old, *new)):
        return [ReshapeGroup(tuple(range(len(old))), tuple(range(len(new))), False)]
    rest = [[k for k, axis in enumerate(axes) if set(axis) != {1}] for axes in (old, new)]
    groups: list[ReshapeGroup] = []
    while rest[0] or rest[1]:
        taken: tuple[list[int], list[int]] = ([], [])
        products = [_product(old, taken[0]), _product(new, taken[1])]
        while not taken[0] or not taken[1] or products[0] != products[1]:
            side = 0 if not taken[0] or (taken[1] and products[0] < products[1]) else 1
            if not rest[side]:
                side = 1 - side
            if not rest[side]:
                return [*groups, ReshapeGroup(tuple(taken[0]), tuple(taken[1]), False)]
            taken[side].append(rest[side].pop(0))
            products = [_product(old, taken[0]), _product(new, taken[1])]
        inner = [old[k] for k in taken[0][1:]] + [new[k] for k in taken[1][1:]]
        groups.append(ReshapeGroup(tuple(taken[0]), tuple(taken[1]), all(len(set(sizes)) == 1 for sizes in inner)))
    return groups


def _product(axes: Sequence[AxisSizes], taken: Sequence[int]) -> AxisSizes:
    """Elements of the taken axes in every graph."""
    return tuple(math.prod(sizes) for sizes in zip(*(axes[k] for k in taken), strict=True)) if taken else ()
