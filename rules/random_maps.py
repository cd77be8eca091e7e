"""Random index maps for instances of rules: movements, parts of longer buffers, larger windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from ir.index import moves
from ir.index.expr import AxisExpr, axis, box_of, interval, substitute
from ir.index.guard import Bound, Guard
from ir.index.map import AxisMap, axis_map, compose, identity, insert_axes

T = TypeVar("T")
Shape = tuple[int, ...]

MAX_ELEMENTS = 512


class Unfit(Exception):  # noqa: N818 - a signal, not an error
    """The shapes or dtypes of this attempt do not fit; the caller tries again."""


class Cut(NamedTuple):
    """The part of a longer buffer that stands beside the part that is read: its axis, its start and its size."""

    axis: int
    start: int
    size: int


def pick(rng: np.random.Generator, options: Sequence[T]) -> T:
    """One of the options. Raises Unfit where there is none."""
    if not options:
        raise Unfit
    return options[int(rng.integers(len(options)))]


def random_map(rng: np.random.Generator, domain: Shape, fills: Sequence[float]) -> tuple[AxisMap, Shape]:
    """A map from `domain` of up to two movements, and the shape of the buffer that it reads."""
    view, shape = identity(domain), domain
    for _ in range(pick(rng, (0, 1, 1, 2))):
        step, source = _movement(rng, shape, fills)
        if math.prod(source) <= MAX_ELEMENTS:
            view, shape = compose(step, view), source
    return view, shape


def invariant_map(rng: np.random.Generator, domain: Shape, own: int, fills: Sequence[float]) -> tuple[AxisMap, Shape]:
    """A map as of `random_map` that depends on the first `own` axes of the domain only, and the shape that it reads."""
    view, shape = random_map(rng, domain[:own], fills)
    return insert_axes(view, range(own, len(domain)), domain[own:]), shape


def part(rng: np.random.Generator, shape: Shape) -> tuple[AxisMap, Shape, Cut]:
    """A map to a part of a buffer that is longer along one axis, the shape of the buffer, and where the other part
    is."""
    at, other, rest = int(rng.integers(len(shape))), pick(rng, (1, 2, 3)), pick(rng, (0, 0, 2))
    source = (*shape[:at], shape[at] + other + rest, *shape[at + 1 :])
    low = [other if axis == at and rng.integers(2) else 0 for axis in range(len(shape))]
    cut = Cut(at, 0 if low[at] else shape[at], other)
    return moves.shrink(source, low, [a + b for a, b in zip(low, shape, strict=True)]), source, cut


def beside(view: AxisMap, shape: Shape, cut: Cut) -> AxisMap:
    """The map to the part `cut` of a buffer of this shape, if it has the size of the part that `view` reads; else
    `view`."""
    at, start, size = cut
    if not at < len(shape) == len(view.sizes) or not 0 < size == view.sizes[at] <= shape[at] - start:
        return view
    low = [start if axis == at else 0 for axis in range(len(shape))]
    high = [first + size for first, size in zip(low, view.sizes, strict=True)]
    return moves.shrink(shape, low, high) if all(a <= b for a, b in zip(high, shape, strict=True)) else view


def widen(rng: np.random.Generator, view: AxisMap, domain: Shape, window: int, shape: Shape, fill: float) -> AxisMap:
    """The map over `domain`, whose last `window` axes may be longer: there it reads around the elements that `view`
    reads. Beyond a buffer of this shape it gives `fill`."""
    box = box_of(domain)
    shifts: list[AxisExpr] = [axis(at, box) for at in range(len(domain))]
    further = [AxisExpr(0)] * len(shape)
    for at in range(len(domain) - window, len(domain)):
        room = domain[at] - view.sizes[at]
        if room > 0:
            shifts[at] = shifts[at].shift(-int(rng.integers(room + 1)))
        if room > 0 and view.sizes[at] == 1 and max(shape, default=0) > 1:
            along = pick(rng, [place for place, size in enumerate(shape) if size > 1])
            further[along] = further[along] + shifts[at] * pick(rng, (0, 1, 1, 2))
    steps = tuple(shifts)
    exprs = [substitute(expr, steps, box) + more for expr, more in zip(view.exprs, further, strict=True)]
    guards = tuple(
        Guard(tuple(Bound(substitute(b.expr, steps, box), b.lo, b.hi) for b in guard.bounds), guard.fill)
        for guard in view.guards
    )
    outside = [
        Bound(expr, 0, size)
        for expr, size in zip(exprs, shape, strict=True)
        if interval(expr, box)[0] < 0 or interval(expr, box)[1] >= size
    ]
    return axis_map(domain, exprs, (*guards, Guard(tuple(outside), fill)) if outside else guards)


class Convolution(NamedTuple):
    """The sizes of a random convolution's outputs and reduced axes, and the maps of its input and its weights, each
    with the shape of the tensor that it reads."""

    outputs: Shape
    reduced: Shape
    reads: tuple[tuple[AxisMap, Shape], tuple[AxisMap, Shape]]


def convolution(rng: np.random.Generator, fills: Sequence[float]) -> Convolution:
    """A convolution along one or two axes, with its axes in any order: padded, now and then with strides, dilation,
    groups, or windows in reverse order."""
    steps, taps = pick(rng, (1, 2, 2)), pick(rng, (2, 3, 3, 3, 5))
    names = ["filter", "channel", *(f"{kind}{step}" for step in range(steps) for kind in ("output", "tap"))]
    names += ["group"] if not rng.integers(4) else []
    sizes = {name: int(rng.integers(1, 5 - steps)) for name in names}
    sizes |= {f"tap{step}": taps for step in range(steps)}
    sizes |= {f"output{step}": int(rng.integers(1, 7)) for step in range(steps)}
    shuffled = [str(name) for name in rng.permutation(names)]
    outputs = [name for name in shuffled if name[:3] not in ("tap", "cha")]
    reduced = [name for name in shuffled if name not in outputs]
    domain = tuple(sizes[name] for name in (*outputs, *reduced))
    box = box_of(domain)
    place = {name: axis(at, box) for at, name in enumerate((*outputs, *reduced))}
    read, shape = [place["channel"]], [sizes["channel"]]
    bounds: list[Bound] = []
    filters = [place["filter"], place["channel"]]
    for step in range(steps):
        stride, dilation, low, high = (pick(rng, options) for options in ((1, 1, 1, 2), (1, 1, 1, 2), _PADS, _PADS))
        at = (place[f"output{step}"] * stride + place[f"tap{step}"] * dilation).shift(-low)
        size = max(1, interval(at, box)[1] + 1 - high)
        read, shape, bounds = [*read, at], [*shape, size], [*bounds, Bound(at, 0, size)]
        tap = place[f"tap{step}"]
        filters.append(tap if rng.integers(4) else (tap * -1).shift(taps - 1))
    if "group" in place:
        read, shape, filters = [*read, place["group"]], [*shape, sizes["group"]], [*filters, place["group"]]
    weights = tuple(interval(expr, box)[1] + 1 for expr in filters)
    guards = (Guard(tuple(bounds), pick(rng, fills)),)
    maps = (axis_map(domain, read, guards), tuple(shape)), (axis_map(domain, filters), weights)
    return Convolution(domain[: len(outputs)], domain[len(outputs) :], maps if rng.integers(2) else maps[::-1])


_PADS = (0, 1, 1, 2)
"""The elements of padding at one end of an axis."""


def _movement(rng: np.random.Generator, shape: Shape, fills: Sequence[float]) -> tuple[AxisMap, Shape]:
    """A map from `shape` to a source of one movement."""
    integers, rank = rng.integers, len(shape)
    match pick(rng, ("permute", "pad", "pad", "shrink", "expand", "expand", "flip", "merge", "split", "window")):
        case "permute":
            perm = [int(k) for k in rng.permutation(rank)]
            source = tuple(shape[k] for k in np.argsort(perm).tolist())
            return moves.permute(source, perm), source
        case "pad":
            pads = [_pad(rng, size) for size in shape]
            source = tuple(size - low - high for size, (low, high) in zip(shape, pads, strict=True))
            return moves.pad(source, pads, pick(rng, fills)), source
        case "shrink":
            low, step = integers(0, 3, rank).tolist(), integers(1, 3, rank).tolist()
            high = [a + max(0, (n - 1) * s + 1) for n, a, s in zip(shape, low, step, strict=True)]
            source = tuple(h + int(integers(2)) for h in high)
            return moves.shrink(source, low, high, step), source
        case "expand":
            source = tuple(1 if integers(2) else size for size in shape)
            return moves.expand(source, shape), source
        case "flip":
            return moves.flip(shape, [k for k in range(rank) if integers(2)]), shape
        case "merge" if rank > 1:
            k = int(integers(rank - 1))
            source = (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :])
            return moves.reshape(source, shape), source
        case "split" if rank:
            k = int(integers(rank))
            factor = pick(rng, [f for f in (1, 2, 3, 5) if shape[k] % f == 0])
            source = (*shape[:k], shape[k] // factor, factor, *shape[k + 1 :])
            return moves.reshape(source, shape), source
        case "window" if rank > 1 and 0 not in shape:
            source = (*shape[:-2], shape[-2] + shape[-1] - 1)
            return moves.pool(source, (shape[-1],)), source
    return identity(shape), shape


def _pad(rng: np.random.Generator, size: int) -> tuple[int, int]:
    """How much of an axis is padding at both ends; seldom all of it, for then no element is read."""
    room = size if not rng.integers(8) else max(0, size - 1)
    low = int(rng.integers(min(room, 2) + 1))
    return low, int(rng.integers(min(room - low, 2) + 1))
