"""The index algebra of the product rules at its edges: sizes 0 and 1, odd ones, padded reads, strides."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ir.index import moves
from ir.index.map import AxisMap, apply, compose, identity, insert_axes, lift, parse_map
from ir.term.language import Primitive
from ir.term.text import parse_sizes, sizes_text
from rules import blocks, concatenation, regrouping, totals, windows

Shape = tuple[int, ...]
Arrays = list[np.ndarray]


def read(primitive: Primitive, array: np.ndarray, *texts: object) -> np.ndarray:
    """What an answered map reads."""
    return apply(parse_map(primitive.fn(*map(str, texts))), array)


def numbered(shape: Shape, start: int = 1) -> np.ndarray:
    return np.arange(start, start + math.prod(shape), dtype=np.int64).reshape(shape)


def along(domain: Shape, *axes: int) -> AxisMap:
    """Reads a buffer of these axes of the domain."""
    gone = [number for number in range(len(domain)) if number not in axes]
    return insert_axes(identity([domain[axis] for axis in axes]), gone, [domain[axis] for axis in gone])


# blocks: two sums as one


@pytest.mark.parametrize(
    ("k", "j", "both"),
    [
        ("[3]", "[5]", "[8]"),
        ("[1]", "[1]", "[2]"),
        ("[2,3]", "[2,5]", "[2,8]"),
        ("[4,3,3]", "[7,3,3]", "[11,3,3]"),
        ("[3,5]", "[3,5]", "[3,10]"),
        ("[2,3]", "[3,2]", ""),
        ("[3]", "[3,1]", ""),
        ("[0]", "[3]", ""),
        ("[]", "[]", ""),
    ],
)
def test_sums_are_one_where_they_differ_along_one_axis(k: str, j: str, both: str) -> None:
    assert blocks.stacked_sizes.fn(k, j) == both
    lies = str(identity((2, *parse_sizes(k))))
    assert bool(blocks.first_block.fn(lies, "[2] -> [i0]", k, j)) == bool(both)


THROUGH = {
    "as it lies": (identity((4, 3)), (4, 3)),
    "turned": (moves.permute((3, 4), (1, 0)), (3, 4)),
    "every second": (moves.shrink((7, 3), (0, 0), (7, 3), (2, 1)), (7, 3)),
    "one row": (moves.shrink((5, 3), (2, 0), (3, 3)), (5, 3)),
    "reshaped": (moves.reshape((12,), (4, 3)), (12,)),
}


@pytest.mark.parametrize("name", THROUGH)
@pytest.mark.parametrize("padded", [False, True])
def test_blocks_follow_one_another_and_are_zero_elsewhere(name: str, padded: bool) -> None:
    through, shape = THROUGH[name]
    k, j = (5,), (3,)
    source = (*shape, 5)
    view = identity(source)
    if padded:  # the last elements are read as zeros
        source = (*shape, 4)
        view = moves.pad(source, [*[(0, 0)] * len(shape), (0, 1)])
    array = numbered(source)
    plain = apply(compose(view, lift(through, k)), array)
    zeros = np.zeros((*plain.shape[:-1], 3), plain.dtype)
    sums = sizes_text(k), sizes_text(j)
    result = read(blocks.first_block, array, view, through, *sums)
    assert np.array_equal(result, np.concatenate([plain, zeros], -1))
    result = read(blocks.second_block, array, view, through, *reversed(sums))
    assert np.array_equal(result, np.concatenate([zeros, plain], -1))
    assert blocks.type_over.fn("fp32", str(through)) == f"fp32{sizes_text(through.sizes)}"


# totals: a sum of constants


@pytest.mark.parametrize("domain", [(4, 3, 5), (1, 3, 5), (4, 1, 1), (7, 2, 1), (1, 1, 1)])
@pytest.mark.parametrize(("first", "second"), [((0, 2), (1, 2)), ((2,), (1, 2)), ((0, 1, 2), (2,)), ((2,), (2,))])
def test_totals_have_the_axes_that_count(domain: Shape, first: Shape, second: Shape) -> None:
    x, y = (along(domain, *axes) for axes in (first, second))
    shapes = (tuple(domain[axis] for axis in axes) for axes in (first, second))
    arrays = numbered(next(shapes)), numbered(next(shapes), 50)
    texts = str(x), str(y), sizes_text(domain[2:])
    whole = (apply(x, arrays[0]) * apply(y, arrays[1])).sum(2)
    one, two = read(totals.total, arrays[0], "first", *texts), read(totals.total, arrays[1], "second", *texts)
    total = (one * two).sum(-1)
    assert parse_sizes(totals.total.fn("sizes", *texts)) == total.shape
    assert np.array_equal(read(totals.total, total, "read", *texts), whole)


def test_totals_of_padded_and_empty_reads() -> None:
    padded = compose(moves.pad((3,), [(1, 1)]), along((2, 5), 1))
    lies, k = str(along((2, 5), 0, 1)), "[5]"
    array, weights = numbered((3,)), numbered((2, 5))
    whole = (apply(padded, array) * weights).sum(1)
    one, two = (
        read(totals.total, array, "first", padded, lies, k),
        read(totals.total, weights, "second", padded, lies, k),
    )
    assert np.array_equal(read(totals.total, (one * two).sum(-1), "read", padded, lies, k), whole)
    assert totals.total.fn("read", "[0,3] -> [0]", "[0,3] -> [0]", "[3]") == ""
    assert totals.total.fn("read", "[2,3] -> [i1]", "[4,3] -> [i1]", "[3]") == "", "of other domains"


# regrouping: (x·f)·c


def regrouped(x: AxisMap, s: AxisMap, c: AxisMap, f: AxisMap, k: Shape, j: Shape, arrays: Arrays) -> bool:
    """Whether both groupings of Σₖ x(i,k)·y(s(i,k)), y(o) = Σⱼ c(o,j)·f(o,j), give the same, whichever factor stands
    on the left; False: not so."""
    left, right = (_regrouped(side, x, s, c, f, k, j, arrays) for side in ("left", "right"))
    assert left == right
    return left


def _regrouped(side: str, x: AxisMap, s: AxisMap, c: AxisMap, f: AxisMap, k: Shape, j: Shape, arrays: Arrays) -> bool:
    texts = (side, *map(str, (x, s, c, f, sizes_text(k), sizes_text(j))))
    if not regrouping.regrouped.fn("outside", *texts):
        return False
    inner = tuple(range(-len(j), 0))
    middle = (apply(c, arrays[1]) * apply(f, arrays[2])).sum(inner)
    expected = (apply(x, arrays[0]) * apply(s, middle)).sum(tuple(range(-len(k), 0)))
    first, second = (
        read(regrouping.regrouped, arrays[2], "first", *texts),
        read(regrouping.regrouped, arrays[0], "second", *texts),
    )
    grouped = (first * second).sum(tuple(range(-len(k), 0)))
    assert parse_sizes(regrouping.regrouped.fn("sizes", *texts)) == grouped.shape
    waiting, rest = (
        read(regrouping.regrouped, arrays[1], "outside", *texts),
        read(regrouping.regrouped, grouped, "read", *texts),
    )
    actual = (waiting * rest).sum(inner)
    assert np.array_equal(actual, expected)
    return True


@pytest.mark.parametrize("sizes", [(4, 3, 5, 2), (1, 3, 5, 2), (4, 1, 1, 1), (7, 3, 1, 5), (1, 1, 1, 1)])
def test_three_factors_in_the_other_order(sizes: Shape) -> None:
    """(c·f)·x over [M,N], with c [M,J], f [J,K], x [K,N]."""
    m, n, k, j = sizes
    arrays = [numbered((k, n)), numbered((m, j), 7), numbered((j, k), 3)]
    x = compose(moves.permute((k, n), (1, 0)), along((m, n, k), 1, 2))
    f = compose(moves.permute((j, k), (1, 0)), along((m, k, j), 1, 2))
    assert regrouped(x, along((m, n, k), 0, 2), along((m, k, j), 0, 2), f, (k,), (j,), arrays)


def test_what_does_not_regroup() -> None:
    m, n, k, j = 4, 3, 5, 2
    arrays = [numbered((k, n)), numbered((k, j)), numbered((m, j))]
    x = compose(moves.permute((k, n), (1, 0)), along((m, n, k), 1, 2))
    waits, goes = along((m, k, j), 1, 2), along((m, k, j), 0, 2)
    through = along((m, n, k), 0, 2)
    assert not regrouped(x, through, waits, goes, (k,), (j,), arrays), "what waits must not move along k"
    padded = compose(moves.pad((m - 1, k), [(0, 1), (0, 0)]), through)
    below = along((m - 1, k, j), 0, 2)
    assert not regrouped(x, padded, below, below, (k,), (j,), arrays), "a product is not read through a guard"
    empty = along((m, n, 0), 0, 2)
    assert not regrouped(along((m, n, 0), 1, 2), empty, goes, goes, (0,), (j,), arrays)


def test_a_padded_and_a_strided_factor_regroup() -> None:
    m, n, k, j = 3, 2, 5, 4
    arrays = [numbered((k - 1, n)), numbered((2 * m, j)), numbered((j, k))]
    x = compose(compose(moves.pad((k - 1, n), [(1, 0), (0, 0)]), moves.permute((k, n), (1, 0))), along((m, n, k), 1, 2))
    c = compose(moves.shrink((2 * m, j), (1, 0), (2 * m, j), (2, 1)), along((m, k, j), 0, 2))
    f = compose(moves.permute((j, k), (1, 0)), along((m, k, j), 1, 2))
    assert regrouped(x, along((m, n, k), 0, 2), c, f, (k,), (j,), arrays)


def test_which_order_computes_less() -> None:
    def less(m: int, n: int, k: int, j: int) -> bool:
        x = compose(moves.permute((k, n), (1, 0)), along((m, n, k), 1, 2))
        f = compose(moves.permute((j, k), (1, 0)), along((m, k, j), 1, 2))
        maps = (x, along((m, n, k), 0, 2), along((m, k, j), 0, 2), f)
        return bool(regrouping.computes_less.fn("left", *map(str, maps), sizes_text((k,)), sizes_text((j,))))

    assert less(96, 1, 96, 8)
    assert not less(1, 96, 96, 8)
    assert not less(8, 8, 8, 8), "as much is not less"


# concatenation: products of one operand


def merged(shape: Shape, parts: tuple[int, int], read_x: AxisMap | None = None) -> bool:
    """Σₖ x(i,k)·c(n,k) and the same of f are parts of one product; False: not so."""
    rows, k = shape
    sizes = [(rows, part, k) for part in parts]
    reads = [along(size, 0, 2) if read_x is None else insert_axes(read_x, [1], [size[1]]) for size in sizes]
    weights = [along(size, 1, 2) for size in sizes]
    texts = tuple(str(read) for pair in zip(reads, weights, strict=True) for read in pair)
    m, n, u, w = texts
    args = (m, n, u, w, sizes_text((k,)))
    if not concatenation.merged.fn("shared", *args):
        return False
    x = numbered((rows, k) if read_x is None else (rows, k - 1))
    arrays = [numbered((part, k), 5 * at) for at, part in enumerate(parts)]
    joint = sum(read(concatenation.merged, arrays[at], part, *args) for at, part in enumerate(("first", "second")))
    whole = (read(concatenation.merged, x, "shared", *args) * joint).sum(-1)
    assert parse_sizes(concatenation.merged.fn("sizes", *args)) == whole.shape
    for place, part in enumerate(("of_first", "of_second")):
        alone = (apply(reads[place], x) * apply(weights[place], arrays[place])).sum(-1)
        assert np.array_equal(read(concatenation.merged, whole, part, *args), alone)
    return True


@pytest.mark.parametrize("parts", [(1, 3), (3, 5), (5, 1), (2, 2)])
@pytest.mark.parametrize("rows", [1, 4])
def test_products_of_one_operand_stand_side_by_side(rows: int, parts: tuple[int, int]) -> None:
    assert merged((rows, 3), parts)
    assert merged((rows, 3), parts, moves.pad((rows, 2), [(0, 0), (1, 0)]))


def test_products_that_are_no_parts_of_one() -> None:
    assert not merged((0, 3), (2, 2))
    assert not merged((4, 3), (1, 1)), "no map tells along which axis one element stands"
    one, other = along((4, 2, 3), 0, 2), along((5, 7, 3), 0, 2)
    weights = along((4, 2, 3), 1, 2), along((5, 7, 3), 1, 2)
    texts = (str(one), str(weights[0]), str(other), str(weights[1]), "[3]")
    assert concatenation.merged.fn("shared", *texts) == "", "they differ along two axes"
    turned = str(compose(moves.flip((4, 3), (0,)), one))
    assert concatenation.merged.fn("shared", str(one), str(weights[0]), turned, str(weights[0]), "[3]") == ""


@pytest.mark.parametrize(("cut", "size", "answer"), [(2, 5, "whole"), (2, 6, "partial"), (1, 5, "no"), (0, 5, "no")])
def test_slices_that_follow_one_another(cut: int, size: int, answer: str) -> None:
    first = moves.shrink((3, size), (0, 0), (3, 2))
    second = moves.shrink((3, size), (0, cut), (3, cut + 3))
    lies = [along(map_.sizes, 0, 1) for map_ in (first, second)]
    texts = (f"i64[3,{size}]", str(first), str(lies[0]), str(second), str(lies[1]))
    assert bool(concatenation.are_whole.fn(*texts)) == (answer == "whole")
    assert bool(concatenation.are_partial.fn(*texts)) == (answer == "partial")
    if answer == "no":
        assert concatenation.adjacent.fn("read", *texts) == ""
        return
    whole, addends = numbered((3, size)), [numbered(map_.sizes, 9) for map_ in (first, second)]
    both = sum(read(concatenation.adjacent, addends[at], part, *texts) for at, part in enumerate(("first", "second")))
    total = read(concatenation.adjacent, whole, "read", *texts) + both
    assert parse_sizes(concatenation.adjacent.fn("sizes", *texts)) == total.shape
    for view, addend, part in zip((first, second), addends, ("of_first", "of_second"), strict=True):
        assert np.array_equal(read(concatenation.adjacent, total, part, *texts), apply(view, whole) + addend)


@pytest.mark.parametrize(
    ("before", "after", "together"),
    [("0:3:0:0", "0:3:1:1", "0:3:0:1"), ("0:3:0:1", "0:3:2:2", "0:3:0:2"), ("0:3:1:1", "0:3:0:0", ""),
     ("0:3:0:0", "1:3:1:1", ""), ("0:3:0:0", "0:3:2:2", "")],
)  # fmt: skip
def test_inputs_are_put_together_in_their_order(before: str, after: str, together: str) -> None:
    assert concatenation.placed_together.fn(before, after) == together
    assert not together or bool(concatenation.is_whole.fn(together)) == (together == "0:3:0:2")


# windows: a kernel as a larger one


def window(
    kernel: tuple[int, int], pads: tuple[int, int], stride: int = 1, dilation: int = 1, fill: float = 0
) -> AxisMap:
    """A convolution's read of [9, 7] over (outputs, y, x, kernel), with 2 outputs."""
    padded = moves.pad((9, 7), [(pads[0], pads[0]), (pads[1], pads[1])], fill)
    pooled = moves.pool(padded.sizes, kernel, (stride, stride), (dilation, dilation))
    read = compose(padded, pooled)
    return insert_axes(read, [0], [2])


def weights_of(read: AxisMap) -> AxisMap:
    return along(read.sizes, 0, 3, 4)


def larger(read: AxisMap, other: AxisMap) -> bool:
    """Whether a product is one with the window of another, and is the same: False: not so."""
    k, j = read.sizes[3:], other.sizes[3:]
    texts = (str(read), str(weights_of(read)), str(other), sizes_text(k), sizes_text(j))
    if not windows.enlarged.fn("read", *texts):
        return False
    x, c = numbered((9, 7)), numbered((2, *k), 3)
    alone = (apply(read, x) * apply(weights_of(read), c)).sum((3, 4))
    whole = read_both(texts, x, c)
    assert np.array_equal(whole, alone)
    return True


def read_both(texts: tuple[str, ...], x: np.ndarray, c: np.ndarray) -> np.ndarray:
    product = read(windows.enlarged, x, "read", *texts) * read(windows.enlarged, c, "weights", *texts)
    return np.asarray(product.sum((3, 4)))


@pytest.mark.parametrize(
    ("small", "large", "answer"),
    [
        (window((1, 1), (0, 0)), window((3, 3), (1, 1)), True),
        (window((1, 1), (0, 0), 2), window((3, 3), (1, 1), 2), True),
        (window((1, 1), (0, 0)), window((3, 3), (2, 2), dilation=2), True),
        (window((1, 3), (0, 1)), window((3, 3), (1, 1)), True),
        (window((3, 3), (1, 1)), window((5, 5), (2, 2)), True),
        (window((3, 3), (2, 2), dilation=2), window((5, 5), (4, 4), dilation=2), True),
        (window((1, 1), (0, 0)), window((3, 3), (1, 1), fill=1), True),
        (window((1, 1), (0, 0)), window((3, 3), (1, 1), fill=-math.inf), False),
        (window((3, 3), (1, 1), fill=1), window((5, 5), (2, 2)), False),
        (window((1, 1), (0, 0), 2), window((3, 3), (1, 1)), False),
        (window((3, 3), (1, 1)), window((5, 5), (4, 4), dilation=2), False),
        (window((3, 3), (1, 1)), window((3, 3), (1, 1)), False),
        (window((1, 3), (0, 1)), window((3, 1), (1, 0)), False),
        (window((3, 3), (0, 0)), window((5, 5), (2, 2)), False),
    ],
)  # fmt: skip
def test_windows_within_larger_ones(small: AxisMap, large: AxisMap, answer: bool) -> None:
    assert larger(small, large) == answer


def test_a_window_is_taken_over_for_other_outputs_but_not_where_it_depends_on_them() -> None:
    small, large = window((1, 1), (0, 0)), window((3, 3), (1, 1))
    narrow = insert_axes(parse_map("[9,7,1,1] -> [i0, i1]"), [0], [5])
    texts = (str(narrow), str(along(narrow.sizes, 0, 3, 4)), str(large), "[1,1]", "[3,3]")
    x, c = numbered((9, 7)), numbered((5, 1, 1), 3)
    expected = (apply(narrow, x) * apply(along(narrow.sizes, 0, 3, 4), c)).sum((3, 4))
    assert np.array_equal(read_both(texts, x, c), expected)
    moving = str(large).replace("-> [i1", "-> [i0 + i1")
    assert windows.enlarged.fn("read", texts[0], texts[1], moving, "[1,1]", "[3,3]") == ""
    assert windows.enlarged.fn("read", str(small), str(weights_of(small)), str(large), "[1,1]", "[3]") == ""
