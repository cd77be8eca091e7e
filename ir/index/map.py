"""AxisMap: from the points of a box to the coordinates of an operand, with guards where padding is read.

All index algebra works on this type. Maps that print alike are equal. Equal affine maps print alike; equal maps with
several floors of several axes do so with rare exceptions. E-graphs hold the text:

    [4,8] -> [i0, 2*i1 - 1] if 1<=i1<8 else 0

The sizes of the domain come first; the operand's shape is no part of the map. A map may have several guards,
`if … else f if … else g`, outermost first: the first guard that fails gives its fill; if none fails, the operand is
read. Expressions: `ir.index.expr`; bounds: `ir.index.guard`; maps of the movements: `ir.index.moves`; properties:
`ir.index.facts`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ir.diagnostics import Kind, fail
from ir.index.expr import ZERO, AxisExpr, Box, axis, axis_names, box_of, interval, parse_expr, simplify, substitute
from ir.index.guard import NEVER, Bound, Guard, canonical_fill, parse_bound, same_fill, tighten
from ir.index.table import respell

__all__ = [
    "AxisMap",
    "Bound",
    "Guard",
    "apply",
    "apply_at",
    "at_choice",
    "axis_map",
    "compose",
    "constant_map",
    "floors",
    "fuse_axes",
    "identity",
    "insert_axes",
    "lift",
    "parse_map",
    "project",
    "support",
    "without_guards",
]

_CACHE = 1 << 16
_MAP = re.compile(r"\[([\d, ]*)\] -> \[([^\]]*)\](.*)")
_GUARD = re.compile(r" if (.+?) else (\S+)")


class AxisMap:
    """Immutable and canonical: create maps by `axis_map`, `compose`, `parse_map` and the functions of `moves`.

    sizes     the domain: 0 ≤ i_k < sizes[k]; if the domain is empty, all coordinates are 0
    exprs     the coordinates in the operand, valid where no guard fails
    guards    outermost first
    interior  the box in which all guards hold and `exprs` is simplified: per axis its least and greatest value
    """

    __slots__ = ("_hash", "_text", "exprs", "guards", "interior", "sizes")

    def __init__(
        self, sizes: tuple[int, ...], exprs: tuple[AxisExpr, ...], guards: tuple[Guard, ...], interior: Box
    ) -> None:
        self.sizes, self.exprs, self.guards, self.interior = sizes, exprs, guards, interior
        self._hash = hash((sizes, exprs, guards))
        self._text: str | None = None

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, AxisMap) or self._hash != other._hash:
            return False
        return self.sizes == other.sizes and self.exprs == other.exprs and self.guards == other.guards

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        if self._text is None:
            sizes = ",".join(map(str, self.sizes))
            parts = [f"[{sizes}] -> [{', '.join(map(str, self.exprs))}]", *map(str, self.guards)]
            self._text = " ".join(parts)
            _INTERNED.setdefault(self._text, self)
        return self._text

    def __repr__(self) -> str:
        return f"AxisMap({self})"

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds the text: hashes differ from process to process."""
        return parse_map, (str(self),)

    @property
    def is_empty(self) -> bool:
        """Whether the domain has no points."""
        return 0 in self.sizes

    @property
    def fill(self) -> float | None:
        """The value of a map that reads nowhere, else None."""
        return self.guards[0].fill if self.guards and self.guards[0].is_never else None


_INTERNED: dict[str, AxisMap] = {}
"""Every map that was ever printed or parsed, by its text, so that `parse_map(str(map))` is one look-up."""


def axis_map(sizes: Sequence[int], exprs: Iterable[AxisExpr], guards: Iterable[Guard] = ()) -> AxisMap:
    """The canonical map that reads at `exprs` under `guards` (outermost first)."""
    sizes, exprs = tuple(sizes), tuple(exprs)
    if 0 in sizes:
        return AxisMap(sizes, (ZERO,) * len(exprs), (), ())
    canonical, interior, reads = _canonical_guards(tuple(guards), box_of(sizes))
    inside = tuple([respell(simplify(expr, interior), interior) for expr in exprs]) if reads else (ZERO,) * len(exprs)
    return AxisMap(sizes, inside, canonical, interior)


def identity(sizes: Sequence[int]) -> AxisMap:
    """The map by which every point reads itself."""
    sizes = tuple(sizes)
    if 0 in sizes:
        return AxisMap(sizes, (ZERO,) * len(sizes), (), ())
    box = box_of(sizes)
    return AxisMap(sizes, tuple([axis(k, box) for k in range(len(sizes))]), (), box)


def constant_map(sizes: Sequence[int], rank: int, fill: float) -> AxisMap:
    """The map that gives `fill` at every point and never reads its operand of `rank` axes."""
    return axis_map(sizes, (ZERO,) * rank, (Guard(NEVER, canonical_fill(fill)),))


@lru_cache(maxsize=_CACHE)
def compose(read: AxisMap, view: AxisMap) -> AxisMap:
    """The map that reads at `read(view(point))`.

    `view`: D₂ → D₁ and `read`: D₁ → operand, so the result is D₂ → operand. The guards of `view` come first: where one
    fails, its fill is the value, independent of `read`.
    """
    if len(view.exprs) != len(read.sizes):
        raise ValueError(f"cannot compose {read} after {view}")
    if 0 in view.sizes:
        return AxisMap(view.sizes, (ZERO,) * len(read.exprs), (), ())
    box, steps = view.interior, view.exprs
    exprs = tuple([respell(substitute(expr, steps, box), box) for expr in read.exprs])
    if not read.guards:
        if view.fill is not None:
            exprs = (ZERO,) * len(exprs)
        return AxisMap(view.sizes, exprs, view.guards, box)
    inner = tuple(
        Guard(tuple(Bound(respell(substitute(b.expr, steps, box), box), b.lo, b.hi) for b in guard.bounds), guard.fill)
        for guard in read.guards
    )
    return axis_map(view.sizes, exprs, view.guards + inner)


@lru_cache(maxsize=_CACHE)
def lift(view: AxisMap, sizes: tuple[int, ...]) -> AxisMap:
    """`view` with extra trailing axes of these sizes that are read unchanged: (p, k) ↦ (view(p), k)."""
    domain = view.sizes + sizes
    if 0 in domain:
        return AxisMap(domain, (ZERO,) * (len(view.exprs) + len(sizes)), (), ())
    box = box_of(domain)
    trailing = tuple(axis(len(view.sizes) + k, box) for k in range(len(sizes)))
    return axis_map(domain, view.exprs + trailing, view.guards)


@lru_cache(maxsize=_CACHE)
def at_choice(view: AxisMap) -> AxisMap:
    """The map without the last axis of its domain, which is at one place: the first at which a point may be inside all
    guards. It stands for the places at which a gather reads."""
    outer, last = view.sizes[:-1], len(view.sizes) - 1
    if view.is_empty:
        return axis_map(outer, (ZERO,) * len(view.exprs), view.guards)
    box = box_of(outer)
    steps = (*(axis(k, box) for k in range(last)), AxisExpr(view.interior[last][0]))
    place = AxisMap(outer, steps, (), box)
    return compose(view, place)


@lru_cache(maxsize=_CACHE)
def support(view: AxisMap) -> frozenset[int]:
    """The axes of the domain that the value depends on."""
    used: frozenset[int] = frozenset()
    for expr in view.exprs:
        used |= expr.axes
    for guard in view.guards:
        for bound in guard.bounds:
            used |= bound.expr.axes
    return used


@lru_cache(maxsize=_CACHE)
def floors(view: AxisMap) -> int:
    """The number of floors in the coordinates and bounds."""
    bounds = (bound.expr for guard in view.guards for bound in guard.bounds)
    return sum(expr.floors for expr in (*view.exprs, *bounds))


def project(view: AxisMap, keep: Sequence[int]) -> AxisMap | None:
    """The map over the axes `keep` only, in that order; None if it depends on another axis."""
    if not support(view) <= set(keep):
        return None
    sizes = tuple(view.sizes[k] for k in keep)
    if 0 in view.sizes:
        return AxisMap(sizes, view.exprs, (), ()) if 0 in sizes else None
    return _move_axes(view, sizes, {old: new for new, old in enumerate(keep)})


def insert_axes(view: AxisMap, positions: Sequence[int], sizes: Sequence[int]) -> AxisMap:
    """The same map over a domain with more axes, on which the map does not depend.

    `positions` are the positions of the new axes in the result, ascending.
    """
    total = len(view.sizes) + len(positions)
    old = [k for k in range(total) if k not in set(positions)]
    domain = dict(zip(positions, sizes, strict=True)) | dict(zip(old, view.sizes, strict=True))
    return _move_axes(view, tuple(domain[k] for k in range(total)), dict(enumerate(old)))


def fuse_axes(view: AxisMap, position: int) -> AxisMap | None:
    """The map with axes `position` and `position + 1` fused to one, row-major; None if a coordinate or bound would
    then need a floor."""
    outer, inner = view.sizes[position : position + 2]
    sizes = (*view.sizes[:position], outer * inner, *view.sizes[position + 2 :])
    if 0 in view.sizes:
        return AxisMap(sizes, view.exprs, (), ())
    exprs = [*view.exprs, *(bound.expr for guard in view.guards for bound in guard.bounds)]
    if not all(fusable(expr, position, outer, inner) for expr in exprs):
        return None
    kept = position if inner == 1 else position + 1
    moved = {k: k if k <= position else k - 1 for k in range(len(view.sizes))}
    moved[2 * position + 1 - kept] = -1
    return _move_axes(view, sizes, moved)


def fusable(expr: AxisExpr, position: int, outer: int, inner: int) -> bool:
    """Whether `expr` depends on the axes `position` and `position + 1` (sizes `outer`, `inner`) as on one axis."""
    if outer == 1 or inner == 1:
        return True
    first, second = expr.coeff(position), expr.coeff(position + 1)
    return first is not None and second is not None and first == second * inner


def without_guards(view: AxisMap) -> AxisMap:
    """The same coordinates without guards: right in the interior only."""
    return AxisMap(view.sizes, view.exprs, (), view.interior) if view.guards else view


def parse_map(text: str) -> AxisMap:
    """The inverse of `str(map)`; a map in another spelling becomes canonical.

    Raises:
        EqsatError: MalformedGraph, when `text` is no map.
    """
    if text not in _INTERNED:
        _INTERNED[text] = _parse_map(text)
    return _INTERNED[text]


def apply(view: AxisMap, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements of `array` that the map reads, as an array over its domain: the reference semantics."""
    if array.ndim != len(view.exprs):
        raise ValueError(f"{view} reads an operand of rank {len(view.exprs)}, not {array.ndim}")
    if 0 in view.sizes:
        return np.empty(view.sizes, array.dtype)
    if _is_strided(view, array.shape):
        return _apply_strided(view, array)
    grid = np.meshgrid(*map(np.arange, view.sizes), indexing="ij", sparse=True)
    return apply_at(view, array, grid)


def _is_strided(view: AxisMap, shape: Sequence[int]) -> bool:
    """Whether the map reads an array of this shape, and no fill, at affine coordinates that lie inside."""
    if view.guards or any(type(term) is not int for expr in view.exprs for term, _ in expr.terms):
        return False
    ends = (interval(expr, box_of(view.sizes)) for expr in view.exprs)
    return all(low >= 0 and high < size for (low, high), size in zip(ends, shape, strict=True))


def _apply_strided(view: AxisMap, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The elements that a map as of `_is_strided` reads: a view of the array, or a copy if that is not row-major."""
    corner = array[tuple(slice(expr.const, None) for expr in view.exprs)]
    strides = [0] * len(view.sizes)
    for expr, stride in zip(view.exprs, array.strides, strict=True):
        for place, factor in expr.terms:
            assert isinstance(place, int)
            strides[place] += factor * stride
    return np.asarray(np.lib.stride_tricks.as_strided(corner, view.sizes, strides, writeable=False), order="C")


def apply_at(
    view: AxisMap, array: np.ndarray[Any, Any], points: Sequence[np.ndarray[Any, Any]]
) -> np.ndarray[Any, Any]:
    """The elements of `array` that the map reads at points of its domain: one array of coordinates per axis. The result
    has the shape that these arrays broadcast to."""
    shape = np.broadcast_shapes(*(axis_points.shape for axis_points in points))
    grid = list(points)
    holds = [np.asarray(guard.holds(grid)) for guard in view.guards]
    if array.size:
        inside = np.logical_and.reduce(np.broadcast_arrays(True, *holds))
        result = array[tuple(np.where(inside, expr.eval(grid), 0) for expr in view.exprs)]
    else:
        result = np.zeros((), array.dtype)
    for guard, inside in reversed(list(zip(view.guards, holds, strict=True))):
        result = np.where(inside, result, np.asarray(guard.fill).astype(array.dtype))
    return np.ascontiguousarray(np.broadcast_to(result, shape)).reshape(shape)


@lru_cache(maxsize=_CACHE)
def _canonical_guards(guards: tuple[Guard, ...], box: Box) -> tuple[tuple[Guard, ...], Box, bool]:
    """The canonical guards, the box in which all hold, and whether all hold anywhere."""
    kept: list[tuple[Guard, Box]] = []
    for guard in guards:
        bounds, before = guard.bounds, box
        if kept and same_fill(kept[-1][0].fill, guard.fill):
            last, before = kept.pop()
            bounds = last.bounds + bounds
        tight = tighten(bounds, before)
        if tight is None:
            return (*(kept_guard for kept_guard, _ in kept), Guard(NEVER, guard.fill)), before, False
        box = tight[1]
        if tight[0]:
            kept.append((Guard(tight[0], guard.fill), before))
    return tuple(guard for guard, _ in kept), box, True


def _move_axes(view: AxisMap, sizes: tuple[int, ...], position_of: dict[int, int]) -> AxisMap:
    """`view` with its axes at other positions of another domain; an axis that `view` does not use may have none."""
    if 0 in sizes:
        return AxisMap(sizes, (ZERO,) * len(view.exprs), (), ())
    box = box_of(sizes)
    new = tuple(axis(position_of[k], box) if position_of.get(k, -1) >= 0 else ZERO for k in range(len(view.sizes)))
    guards = tuple(
        Guard(tuple(Bound(substitute(b.expr, new, box), b.lo, b.hi) for b in guard.bounds), guard.fill)
        for guard in view.guards
    )
    return axis_map(sizes, [substitute(expr, new, box) for expr in view.exprs], guards)


def _parse_map(text: str) -> AxisMap:
    match = _MAP.fullmatch(text)
    if match is None or _GUARD.sub("", match[3]):
        fail(Kind.MALFORMED_GRAPH, "tiny", f"not a map: {text!r}", hint="[4,8] -> [i0, i1 - 1] if 1<=i1<8 else 0")
    sizes = tuple(int(size) for size in match[1].split(",") if size.strip())
    names = axis_names(len(sizes))
    exprs = [parse_expr(part, names) for part in match[2].split(",") if part.strip()]
    guards = []
    for condition, fill in _GUARD.findall(match[3]):
        bounds = NEVER if condition == "false" else tuple(map(parse_bound, condition.split(" and ")))
        guards.append(Guard(bounds, canonical_fill(_number(fill))))
    if any(position >= len(sizes) for guard in guards for b in guard.bounds for position in b.expr.axes):
        fail(Kind.MALFORMED_GRAPH, "tiny", f"a guard of {text!r} names an axis that the domain does not have")
    return axis_map(sizes, exprs, guards)


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        fail(Kind.MALFORMED_GRAPH, "tiny", f"not a fill: {text!r}")
