"""Where the results of one kernel are written at the points of another: by the reads that both make.

y[i, j] = f(x[i, j])    s[a] = Σ_r x[a, r]      x's first axis is i there and a here: s is written at s[i]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eqsat.extraction.enumeration.kernel_tree import Tree
from ir.index.expr import axis, box_of
from ir.index.map import AxisMap, axis_map

Shape = tuple[int, ...]
_Moved = tuple[int, int]
"""A buffer and one of its coordinates."""
_Axes = tuple[int | None, ...]
"""Per axis of a domain inside the kernel, the kernel's own axis; None for an axis of terms."""


class Placing:
    """Places the results of kernels in the loops of others; remembers the `moves` of Store trees."""

    def __init__(self) -> None:
        self._moves: dict[Tree, Mapping[_Moved, tuple[int, ...]]] = {}

    def at(self, wide: Tree, narrow: Tree) -> AxisMap | None:
        """From the points of the kernel that stores `wide` to the index at which the result of `narrow` is written;
        None where it is the point itself.

        Raises:
            LookupError: where no reads tell.
        """
        points, shape = stored_shape(wide), stored_shape(narrow)
        theirs, own = self.moves(wide), self.moves(narrow)
        axis_of: dict[int, int] = {}
        for position, size in enumerate(shape):
            if size == 1:
                continue
            both = [theirs.get(moved, ()) for moved, axes in own.items() if position in axes]
            free = {
                own_axis
                for axes in both
                for own_axis in axes
                if points[own_axis] == size and own_axis not in axis_of.values()
            }
            if not free and shape == points and position not in axis_of.values():
                free = {position}
            if not free:
                raise LookupError(
                    f"axis {position} of the smaller result, of size {size}, is no axis of the larger one's loops"
                )
            axis_of[position] = min(free, key=lambda own_axis: (own_axis != position, own_axis))
        if shape == points and all(own_axis == position for position, own_axis in axis_of.items()):
            return None
        box = box_of(points)
        origin = axis(0, ((0, 0),))
        return axis_map(
            points, [axis(axis_of[position], box) if position in axis_of else origin for position in range(len(shape))]
        )

    def moves(self, tree: Tree) -> Mapping[_Moved, tuple[int, ...]]:
        """The axes of a kernel along which coordinates of what it reads move, step by step."""
        if tree not in self._moves:
            axes_of: dict[_Moved, dict[int, None]] = {}
            for moved, own in _moves(tree):
                axes_of.setdefault(moved, {})[own] = None
            self._moves[tree] = {moved: tuple(axes) for moved, axes in axes_of.items()}
        return self._moves[tree]


def stored_shape(store: Tree) -> Shape:
    """The shape of the buffer that a Store tree writes."""
    return store.node.type.shape


def _moves(root: Tree) -> Iterator[tuple[_Moved, int]]:
    start = root, tuple(range(len(stored_shape(root))))
    seen: set[tuple[Tree, _Axes]] = {start}
    waiting: list[tuple[Tree, _Axes]] = [start]
    while waiting:
        tree, axes = waiting.pop()
        node, below = tree.node, axes
        match node.ctor:
            case "Load" | "Gather":
                coordinates = _along(node.map, axes)
                yield from (((node.buffer, k), own) for k, own in enumerate(coordinates) if own is not None)
            case "At":
                below = _along(node.map, axes)
            case "Reduce" | "Stream" | "Contract":
                below = (*axes, *(None for _ in node.sizes))
        for kid in tree.kids:
            if (kid, below) not in seen:
                seen.add((kid, below))
                waiting.append((kid, below))


def _along(view: AxisMap, axes: _Axes) -> _Axes:
    """The kernel's own axis that each coordinate of a map is."""
    own_axes = []
    for expr in view.exprs:
        position = expr.lone_axis if expr.const == 0 else None
        own_axes.append(None if position is None or position >= len(axes) else axes[position])
    return tuple(own_axes)
