"""The box of a block of rows holds every element that the rows read, and is no larger than these elements need."""

from __future__ import annotations

import itertools

import msgspec
import numpy as np
import pytest

from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.cpu_contraction import cpu_contraction_of
from codegen.plan.cpu.row_box import boxed_blocks, has_even_rows, is_plain, row_box
from codegen.poly.analyse import analyse
from ir.index.map import compose
from ir.region.order import in_orders
from ir.region.region import Region
from tests.support.programs import regions

NHWC = (0, 2, 3, 1)


def nhwc(region: Region) -> Region:
    """A convolution over images and results whose channels are innermost."""
    return in_orders(region, {"X": NHWC, region.outputs[0].name: NHWC})


def view_of(region: Region) -> Contraction:
    """The contraction with the weights' channels as columns."""
    view = cpu_contraction_of(region, analyse(region).core, vector=1)
    assert view is not None
    return view


CONVS = {
    "padded": nhwc(regions.conv(1, 5, 6, (7, 6), 3, 1, 1)),
    "strided": nhwc(regions.conv(2, 3, 6, (9, 11), 3, 2, 1)),
    "dilated": nhwc(regions.conv(1, 3, 6, (9, 8), 3, 1, 2, 2)),
    "wide padding": nhwc(regions.conv(1, 4, 6, (5, 6), 1, 1, 3)),
    "large window": nhwc(regions.conv(1, 3, 6, (2, 3), 5, 1, 2)),
    "unpadded": nhwc(regions.conv(1, 4, 6, (6, 8), 3, 1, 0)),
    "channels outermost": regions.conv(1, 3, 6, (10, 10), 7, 2, 3),
}


@pytest.mark.parametrize("name", CONVS)
def test_a_box_is_the_hull_of_what_its_rows_read(name: str) -> None:
    view = view_of(CONVS[name])
    line = view.sizes[view.rows[-1]]
    at = compose(view.operand(0).map, view.roles.point)
    shape = view.region.inputs[0].memref.shape
    for lines in range(1, view.m // line + 1):
        box = row_box(view, lines * line)
        if box is None:
            assert view.extent(view.rows[:-2]) > 1, "only blocks that several images share have no box"
            continue
        for first in range(0, view.m - lines * line + 1, lines * line):
            digits = all_digits(view, range(first, first + lines * line))
            read = np.array([expr.eval(tuple(digits.T)) + np.zeros(len(digits), int) for expr in box.at])
            start = read[:, 0] + np.array(box.low)
            np.testing.assert_array_equal(read.min(axis=1), start)
            np.testing.assert_array_equal(read.max(axis=1) - start + 1, box.extents)
            exists = np.all([(low <= own) & (own < high) for own, (low, high) in zip(read, box.inside, strict=True)], 0)
            kept = np.array([all(b.holds(tuple(d)) for g in at.guards for b in g.bounds) for d in digits])
            np.testing.assert_array_equal(exists, kept)
        assert all(0 <= low < high <= size for (low, high), size in zip(box.inside, shape, strict=True))


def all_digits(view: Contraction, rows: range) -> np.ndarray:
    """The digits of these rows and of all terms, the first row and term first; all other digits are 0."""
    sizes = [view.sizes[digit] for digit in view.rows]
    terms = itertools.product(*(range(view.sizes[digit]) for digit in view.k))
    results = []
    for row, term in itertools.product(zip(*np.unravel_index(list(rows), sizes), strict=True), terms):
        digits = [0] * len(view.sizes)
        for digit, value in (*zip(view.rows, row, strict=True), *zip(view.k, term, strict=True)):
            digits[digit] = int(value)
        results.append(digits)
    return np.array(results)


def test_a_box_needs_zeros_as_padding_and_whole_lines() -> None:
    view = view_of(CONVS["padded"])
    assert row_box(view, 6) is not None
    assert row_box(view, 7) is None, "a line has 6 rows"
    ones = regions.conv(1, 5, 6, (7, 6), 3, 1, 1)
    assert row_box(view_of(nhwc(with_fill(ones, 1.0))), 6) is None


def with_fill(region: Region, fill: float) -> Region:
    """The region with another padding of its first operand."""
    (let,) = region.body
    over = let.op.domain
    padded = regions.read("X", over, "i0", "i4", "i2 + i5 - 1", "i3 + i6 - 1", pad={2: 7, 3: 6}, fill=fill)
    op = msgspec.structs.replace(let.op, inputs=(padded, let.op.inputs[1]))
    return msgspec.structs.replace(region, body=(msgspec.structs.replace(let, op=op),))


def test_blocks_of_large_batches_have_few_boxes_to_compare() -> None:
    for batch, height, width in ((1024, 32, 32), (10, 14, 14), (7, 5, 3)):
        view = view_of(nhwc(regions.conv(batch, 4, 8, (height, width), 3, 1, 1)))
        blocks = boxed_blocks(view)
        assert len(blocks) < 100
        assert all(row_box(view, bm) is not None for bm, _ in blocks)
        assert {height * width, batch * height * width} <= {bm for bm, _ in blocks}, "an image, and all images"


def test_a_box_knows_whether_its_operand_is_padded() -> None:
    for name, padded in (("padded", True), ("unpadded", False)):
        view = view_of(CONVS[name])
        box = row_box(view, view.m)
        assert box is not None
        assert box.padded == padded
        assert is_plain(view) != padded


def test_plain_rows_and_even_tiles() -> None:
    assert is_plain(view_of(CONVS["unpadded"]))
    assert not is_plain(view_of(CONVS["padded"]))
    assert not is_plain(view_of(regions.prologue_gemm(6, 4, 5)))
    assert not is_plain(view_of(regions.matmul((), 6, 4, 5, dtype="bf16"))), "a box converts every element once"
    assert [mr for mr in range(1, 8) if has_even_rows(view_of(CONVS["padded"]), mr)] == [1, 2, 3, 6]
