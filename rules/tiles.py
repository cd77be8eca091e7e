"""Tiles of a convolution: index algebra, on texts, of the rules that multiply fewer numbers per output.

A product Σₖ x(i, k)·w(k) slides along an axis i of its result where x depends on i and on a reduced axis r only through
i + r, and w does not depend on i. The results along i are cut into tiles of m. Tile t reads α = m + taps − 1 positions
of x, from m·t on. Winograd's algorithm takes these to α numbers, multiplies them by α numbers of the weights, and takes
the products to the m results.

Where the product slides along several axes, the algorithm runs along one after another: step 0 along the first axis,
step 1 along the second. The answer "" says that the product is no such convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from ir.index import map as axis_map
from ir.index.expr import ZERO, AxisExpr, Box, axis, box_of, constant, floordiv, mod
from ir.index.map import AxisMap, parse_map
from ir.index.moves import pad
from ir.term.language import Primitive
from ir.term.text import parse_sizes, sizes_text
from rules.primitives import yes

_CACHE = 1 << 12
SAVING = 1.5
"""The tiles' products must be so many times fewer than those of the sum."""
LEAST_RESULTS = 32
"""Results that read each input, at least: the sums of inputs pay by the products that read them. Prices chose no tiles
of 16 results, on a Zen 4."""
SMALL = (2, 3)
"""The results of a tile and its taps where a row of a matrix has two or three terms, which `TERMS` names."""
Column = Callable[[AxisExpr, Box], AxisExpr]
"""A column of a matrix for each row of it."""
TERMS: Mapping[str, Sequence[Column]] = {
    "inputs": (lambda row, box: floordiv(row, 3, box).shift(2), lambda row, box: floordiv(row.shift(3), 4, box)),
    "results": (lambda row, box: constant(1), lambda row, box: row * 3, lambda row, box: constant(2)),
}
"""The inputs or the results → the columns of a row of their matrix that are not 0. The last of them may have the
coefficient −1, others 1."""

Axis = int | str
"""An axis of a tensor of the algorithm: an axis of the product, or the α numbers of a step, such as `u0`."""
Parts = Mapping[str, str]
"""The sizes and maps of one step, as texts by name."""


@Primitive
def tiled(part: str, step: str, tile: str, taps: str, steps: str, x: str, w: str, k: str) -> str:
    """A map or the sizes of one step of a convolution by tiles, of the sum of x·w over k.

    part: the `sizes` of the tensor that a step stores, its `reduced` sizes, and the maps of its operand (`read`) and of
    its matrix (`matrix`), or of the operands of the product (`inputs`, `weights`). step: `input 0`, `weights 0`,
    `product`, `result 0`, … tile: the results of a tile. taps: of the weights. steps: the number of axes.

    Small tiles have parts for all steps together, `inputs` and `results`: the map of each term (`term 1 0`: of the last
    step's term 1 and the first step's term 0), and of the row of each step's matrix (`row 0`, …)."""
    parts = _cached_parts(int(tile), int(taps), int(steps), x, w, k)
    return "" if parts is None else parts[step][part]


@partial(Primitive, steers=True)
def has_many_results(x: str, w: str) -> str:
    """At least `LEAST_RESULTS` results of a product of x and w read each element of x."""
    weights, moving = parse_map(w), axis_map.support(parse_map(x))
    results = math.prod([weights.sizes[place] for place in axis_map.support(weights) - moving])
    return yes(results >= LEAST_RESULTS)


@lru_cache(maxsize=_CACHE)
def _cached_parts(tile: int, taps: int, steps: int, x: str, w: str, k: str) -> Mapping[str, Parts] | None:
    return convolution_by_tiles(parse_map(x), parse_map(w), len(parse_sizes(k)), tile, taps, steps)


class _Window(NamedTuple):
    """An axis of the result along which the product slides, and the reduced axis of its taps."""

    outer: int
    taps: int


class _Tensor(NamedTuple):
    """A tensor of the algorithm: its axes in order, and their sizes. read: the map from the points of these axes to a
    tensor that lies in another order; None where the tensor is stored so."""

    axes: tuple[Axis, ...]
    sizes: tuple[int, ...]
    read: AxisMap | None = None


def convolution_by_tiles(
    x: AxisMap, w: AxisMap, reduced: int, tile: int, taps: int, steps: int
) -> Mapping[str, Parts] | None:
    """The parts of all steps, as in `tiled`; None where the sum does not slide along exactly `steps` axes with so many
    taps, or where tiles save too little."""
    own, sizes = len(x.sizes) - reduced, x.sizes
    if x.sizes != w.sizes or 0 in sizes or not all(math.isfinite(guard.fill) for guard in x.guards):
        return None
    windows, slid = _windows(x, w, own)
    # A lone tile with fewer results than half of its own computes most of its products in vain.
    chosen = [window for window in windows if sizes[window.taps] == taps and sizes[window.outer] > tile // 2]
    held = [place for place in range(own, len(sizes)) if place not in {window.taps for window in chosen}]
    marks: list[Axis] = [f"u{step}" for step in reversed(range(steps))]
    size_of: dict[Axis, int] = dict.fromkeys(marks, tile + taps - 1)
    size_of.update(enumerate(sizes))
    size_of.update((window.outer, -(-sizes[window.outer] // tile)) for window in chosen)
    first = axis_map.support(x)
    outer: list[Axis] = [*marks, *sorted(range(own), key=lambda place: place not in first)]
    products = math.prod(size_of[axis] for axis in (*outer, *held))
    if len(chosen) != steps or not _is_worth_tiles(x, w, own, held) or products * SAVING > math.prod(sizes):
        return None
    parts: dict[str, Parts] = {}
    inputs, weights = _tensor_read(slid), _tensor_read(w)
    for step, (along, window) in enumerate(chosen):
        inputs, parts[f"input {step}"] = _cut_into_tiles(inputs, along, size_of[along], tile, size_of[f"u{step}"], step)
        weights, parts[f"weights {step}"] = _evaluate_taps(weights, window, size_of[f"u{step}"], step)
    domain = [*outer, *held]
    slides = {window.outer: window.taps for window in windows if window not in chosen}
    parts["product"] = {
        "sizes": sizes_text([size_of[axis] for axis in outer]),
        "reduced": sizes_text([sizes[place] for place in held]),
        "inputs": str(_pick(domain, size_of, inputs.axes, slides)),
        "weights": str(_pick(domain, size_of, weights.axes, {})),
    }
    for step in reversed(range(steps)):
        size_of[chosen[step].outer] = sizes[chosen[step].outer]
        kept = [axis for axis in outer if axis != f"u{step}"] if step else [*range(own)]
        parts[f"result {step}"] = _join_tiles(outer, kept, size_of, chosen[step].outer, f"u{step}", tile)
        outer = kept
    if (tile, taps) == SMALL:
        read = parse_map(parts["product"]["inputs"])
        inward = [parts[f"input {step}"] for step in reversed(range(steps))]
        outward = [parts[f"result {step}"] for step in range(steps)]
        parts["inputs"] = dict(_terms_of(inward, TERMS["inputs"], read))
        parts["results"] = dict(_terms_of(outward, TERMS["results"], axis_map.identity(sizes[:own])))
    return parts


def _terms_of(
    steps: Sequence[Parts], terms: Sequence[Column], at: AxisMap, places: tuple[int, ...] = ()
) -> Iterator[tuple[str, str]]:
    """The maps of all terms of these steps, the last step first, and of the rows of their matrices. at: where the last
    step's tensor is read. places: the terms of the steps after."""
    last, *before = steps
    read, row = parse_map(last["read"]), parse_map(last["matrix"]).exprs[0]
    sizes = read.sizes[:-1]
    box = box_of(sizes)
    axes = [axis(place, box) for place in range(len(sizes))]
    yield f"row {len(before)}", str(axis_map.compose(axis_map.axis_map(sizes, [row]), at))
    for number, term in enumerate(terms):
        place = axis_map.compose(read, axis_map.compose(axis_map.axis_map(sizes, [*axes, term(row, box)]), at))
        chosen = (*places, number)
        if before:
            yield from _terms_of(before, terms, place, chosen)
        else:
            yield f"term {' '.join(map(str, chosen))}", str(place)


def _is_worth_tiles(x: AxisMap, w: AxisMap, own: int, held: Sequence[int]) -> bool:
    """Whether a sum over `held` axes is left beside the windows, and no product is repeated along an axis of the
    result."""
    inputs, weights = axis_map.support(x), axis_map.support(w)
    sums = [place for place in held if place in inputs & weights]
    repeated = {*range(own)} - inputs - weights
    return any(x.sizes[place] > 1 for place in sums) and all(x.sizes[place] == 1 for place in repeated)


@lru_cache(maxsize=_CACHE)
def _windows(x: AxisMap, w: AxisMap, own: int) -> tuple[Sequence[_Window], AxisMap]:
    """The axes along which the product slides, and the map of x over the positions i + r of each in the place of i."""
    windows: list[_Window] = []
    moving, still = axis_map.support(x), axis_map.support(w)
    for taps in sorted(moving & still & {*range(own, len(x.sizes))}):
        for outer in sorted((moving - still) & {*range(own)} - {window.outer for window in windows}):
            slid = _slide(x, outer, taps)
            if slid is not None:
                windows.append(_Window(outer, taps))
                x = slid
                break
    return windows, x


def _slide(x: AxisMap, outer: int, taps: int) -> AxisMap | None:
    """The map of x over the positions i + r along the axis `outer`; the axis `taps` has one point. None where x depends
    on i and r in another way."""
    sizes, here = list(x.sizes), box_of(x.sizes)
    sizes[outer], sizes[taps] = sizes[outer] + sizes[taps] - 1, 1
    slid = axis_map.compose(x, axis_map.identity(sizes))
    back = [axis(place, here) for place in range(len(sizes))]
    back[outer], back[taps] = back[outer] + back[taps], ZERO
    return slid if axis_map.compose(slid, axis_map.axis_map(x.sizes, back)) == x else None


def _tensor_read(view: AxisMap) -> _Tensor:
    """The tensor that a map reads, over the axes on which the map depends."""
    axes = sorted(axis_map.support(view))
    return _Tensor(tuple(axes), tuple(view.sizes[place] for place in axes), axis_map.project(view, axes))


def _cut_into_tiles(source: _Tensor, along: int, count: int, tile: int, alpha: int, step: int) -> tuple[_Tensor, Parts]:
    """The tensor whose positions along an axis have become α numbers of each of `count` tiles. Beyond the last position
    a tile reads 0."""
    place = source.axes.index(along)
    room = max(0, tile * (count - 1) + alpha - source.sizes[place])
    padded = pad(source.sizes, [(0, room if at == place else 0) for at in range(len(source.sizes))])
    sizes = (alpha, *(count if at == place else size for at, size in enumerate(source.sizes)))
    spots, last = _points((*sizes, alpha))
    spots[1 + place] = spots[1 + place] * tile + last
    read = axis_map.compose(padded, axis_map.axis_map((*sizes, alpha), spots[1:]))
    return _Tensor((f"u{step}", *source.axes), sizes), _parts(source, sizes, alpha, read, spots[0])


def _evaluate_taps(source: _Tensor, along: int, alpha: int, step: int) -> tuple[_Tensor, Parts]:
    """The tensor whose taps, along an axis, have become α numbers."""
    place = source.axes.index(along)
    sizes = (alpha, *(size for at, size in enumerate(source.sizes) if at != place))
    taps = source.sizes[place]
    spots, last = _points((*sizes, taps))
    read = axis_map.axis_map((*sizes, taps), [*spots[1 : 1 + place], last, *spots[1 + place :]])
    axes = (f"u{step}", *(axis for axis in source.axes if axis != along))
    return _Tensor(axes, sizes), _parts(source, sizes, taps, read, spots[0])


def _join_tiles(
    axes: Sequence[Axis], kept: Sequence[Axis], size_of: Mapping[Axis, int], along: int, mark: Axis, tile: int
) -> Parts:
    """The parts of the sum over the α products of each tile, from a tensor with these axes to its results along an
    axis: `kept` are the axes of the result."""
    sizes, alpha = tuple(size_of[axis] for axis in kept), size_of[mark]
    spots, last = _points((*sizes, alpha))
    at = dict(zip(kept, spots, strict=True))
    box, result = box_of((*sizes, alpha)), at[along]
    places = {**at, along: floordiv(result, tile, box), mark: last}
    read = axis_map.axis_map((*sizes, alpha), [places[axis] for axis in axes])
    return _parts(_Tensor(tuple(axes), ()), sizes, alpha, read, mod(result, tile, box))


def _points(domain: Sequence[int]) -> tuple[list[AxisExpr], AxisExpr]:
    """The axes of a domain but the last, and the last."""
    box = box_of(domain)
    *outer, last = (axis(place, box) for place in range(len(domain)))
    return outer, last


def _parts(source: _Tensor, sizes: Sequence[int], reduced: int, read: AxisMap, row: AxisExpr) -> Parts:
    """The parts of a product of a matrix with a tensor, which is read at `read`; the matrix, at this row."""
    domain = (*sizes, reduced)
    matrix = axis_map.axis_map(domain, [row, axis(len(sizes), box_of(domain))])
    whole = read if source.read is None else axis_map.compose(source.read, read)
    return {"sizes": sizes_text(sizes), "reduced": sizes_text([reduced]), "read": str(whole), "matrix": str(matrix)}


def _pick(
    domain: Sequence[Axis], size_of: Mapping[Axis, int], axes: Sequence[Axis], slides: Mapping[int, int]
) -> AxisMap:
    """The map from the points of `domain` to a tensor with these axes; along the axes in `slides`, at i + r."""
    sizes = tuple(size_of[axis] for axis in domain)
    box = box_of(sizes)
    spots: dict[Axis, AxisExpr] = {name: axis(at, box) for at, name in enumerate(domain)}
    for outer, taps in slides.items():
        spots[outer] = spots[outer] + spots[taps]
    return axis_map.axis_map(sizes, [spots[axis] for axis in axes])
