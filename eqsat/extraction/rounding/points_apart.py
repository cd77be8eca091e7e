"""Whether computations of one value are at different points of it, as the halves of a product that a gate multiplies.

Two computations of one point read the same elements. Where they read different parts of some buffer, they have no point
in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations

from eqsat.extraction.enumeration.kernel_tree import Tree, subtrees
from ir.index.expr import interval
from ir.index.map import AxisMap

_Box = tuple[tuple[int, int], ...]
"""Per coordinate of a buffer the least and the greatest that is read."""


def are_apart(trees: Sequence[Tree]) -> bool:
    """Whether no two of these trees of one value compute a point of it both."""
    parts = list(map(_read_parts, trees))
    return all(
        any(_are_disjoint(one[buffer], two[buffer]) for buffer in one.keys() & two)
        for one, two in combinations(parts, 2)
    )


def _read_parts(tree: Tree) -> Mapping[int, _Box]:
    """Buffer → the box of it that the tree reads; without buffers that are read at computed positions."""
    parts: dict[int, _Box] = {}
    gathered: set[int] = set()
    for node in (below.node for below in subtrees(tree)):
        if node.ctor == "Gather":
            gathered.add(node.buffer)
        elif node.ctor == "Load" and (box := _box(node.map)) is not None:
            parts[node.buffer] = _around(parts[node.buffer], box) if node.buffer in parts else box
    return {buffer: box for buffer, box in parts.items() if buffer not in gathered}


@lru_cache(maxsize=1 << 12)
def _box(view: AxisMap) -> _Box | None:
    """The part of the buffer that a read covers; None if the read covers padding alone."""
    if view.fill is not None or view.is_empty:
        return None
    return tuple(interval(expr, view.interior) for expr in view.exprs)


def _around(one: _Box, two: _Box) -> _Box:
    return tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(one, two, strict=True))


def _are_disjoint(one: _Box, two: _Box) -> bool:
    return any(b < c or d < a for (a, b), (c, d) in zip(one, two, strict=True))
