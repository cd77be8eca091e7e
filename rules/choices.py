"""Algebra of the maps of gathers, on texts, while rules match.

The last axis of such a map's domain is the choice: the index of the gather, clamped into the axis. The answer "" says
that the rule does not apply.
"""

from __future__ import annotations

from ir.dtype import dtype
from ir.index.expr import axis, box_of, floordiv, mod
from ir.index.guard import Guard
from ir.index.map import AxisMap, axis_map, compose, floors, lift, parse_map, project, support
from ir.term.language import Primitive
from ir.term.text import number_text, sizes_text
from rules.primitives import PIECEWISE


@Primitive
def outer_domain(view: str) -> str:
    """The sizes of the domain of `view` without the choice."""
    return sizes_text(parse_map(view).sizes[:-1])


@Primitive
def choice_size(view: str) -> str:
    """The size of the choice of `view`, as a number."""
    return number_text(parse_map(view).sizes[-1], dtype("i64"))


@Primitive
def highest_choice(view: str, element: str) -> str:
    """The highest choice of `view` that dtype `element` holds, as a number."""
    return number_text(min(parse_map(view).sizes[-1] - 1, int(dtype(element).highest)), dtype(element))


@Primitive
def without_choice(view: str) -> str:
    """`view` without its choice, on which it does not depend."""
    map_ = parse_map(view)
    kept = project(map_, range(len(map_.sizes) - 1))
    return "" if kept is None else str(kept)


@Primitive
def total(view: str) -> str:
    """`view` with the fill 0 in all its guards: of an index that counts only where the guards hold."""
    map_ = parse_map(view)
    if map_.fill is not None:
        return ""
    return str(axis_map(map_.sizes, map_.exprs, [Guard(guard.bounds, 0) for guard in map_.guards]))


@Primitive
def compose_beside(read: str, view: str) -> str:
    """(i, k) ↦ read(view(i), k), unless this map has too many pieces."""
    map_ = parse_map(read)
    return _bounded(compose(map_, lift(parse_map(view), map_.sizes[-1:])))


@Primitive
def outer_choice(read: str, view: str) -> str:
    """(i, k) ↦ read(view(i, j), k), which is the same for every choice j."""
    whole = _of_both(parse_map(read), parse_map(view))
    own = len(whole.sizes) - 2
    kept = None if own in support(whole) else project(whole, [*range(own), own + 1])
    return "" if kept is None else _bounded(kept)


@Primitive
def choices_together(read: str, view: str) -> str:
    """(i, g) ↦ read(view(i, j), k), where g numbers the pairs of choices (j, k); "" where j makes no difference."""
    whole = _of_both(parse_map(read), parse_map(view))
    outer, (first, second) = whole.sizes[:-2], whole.sizes[-2:]
    if 0 in whole.sizes or len(outer) not in support(whole):
        return ""
    sizes = (*outer, first * second)
    box = box_of(sizes)
    number = axis(len(outer), box)
    pair = floordiv(number, second, box), mod(number, second, box)
    return _bounded(compose(whole, axis_map(sizes, [*(axis(place, box) for place in range(len(outer))), *pair])))


def _of_both(read: AxisMap, view: AxisMap) -> AxisMap:
    """(i, j, k) ↦ read(view(i, j), k)."""
    return compose(read, lift(view, read.sizes[-1:]))


def _bounded(view: AxisMap) -> str:
    return str(view) if floors(view) <= PIECEWISE else ""
