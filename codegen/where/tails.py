"""Tails: the axes whose last tile is cut, for a given tile."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ir.poly_core import PolyCore


def extents(core: PolyCore) -> dict[str, int]:
    """What a Plan's `tile` divides, in its order: m, n, k of a contraction (products of the axes in each role),
    else the output's axes."""
    outer = next(iter(core.scopes))
    if core.roles is None or core.contraction is None:
        return dict(core.scopes[outer])
    sizes = dict(core.scopes[core.contraction])
    roles = core.roles
    return {
        role: math.prod(sizes[axis] for axis in axes) for role, axes in (("m", roles.m), ("n", roles.n), ("k", roles.k))
    }


def tail_axes(core: PolyCore, tile: Sequence[int]) -> tuple[str, ...]:
    """The axes of `extents` that `tile` (elements, a Plan's) does not divide, which need a predicate."""
    pairs = zip(extents(core).items(), tile, strict=False)
    return tuple(axis for (axis, extent), block in pairs if block > 0 and extent % block)


def possible_tails(core_axes: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    """The axes that some tile does not divide: all of more than one point."""
    return tuple(name for name, size in core_axes if size > 1)
