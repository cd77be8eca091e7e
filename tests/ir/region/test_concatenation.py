"""Regions that put their inputs side by side are told from all others, and the boxes are where playback puts them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from ir.index.strides import row_major
from ir.region.concatenation import InputBox, frame_of_box, input_boxes
from ir.region.playback import play_region
from ir.region.region import Definition, Number, Op, Region
from tests.support.cpu.played import random_inputs
from tests.support.programs.regions import buffer, corpus, ewise, index_map, read, region

Sizes = tuple[int, ...]


def index(name: str, sizes: Sizes, axis: int, dtype: str = "i64") -> Definition:
    return Definition(name, Op("index", "index", dtype, sizes, index_map=index_map(sizes, f"i{axis}")))


def concatenation(
    sizes: Sizes, axis: int, *cuts: int, compare: str = "cmplt", dtype: str = "fp32", positions: str = "i64"
) -> Region:
    """Inputs side by side along `axis`, which begin at 0 and at the cuts, as `tensor.concatenate` has them."""
    starts, ends = (0, *cuts), (*cuts, sizes[axis])
    coords = [f"i{k}" for k in range(len(sizes))]
    reads, inputs, body = [], [], [index("at", sizes, axis, positions)]
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        own = [*sizes[:axis], end - start, *sizes[axis + 1 :]]
        at = [*coords[:axis], f"i{axis} - {start}", *coords[axis + 1 :]]
        inputs.append(buffer(f"x{number}", tuple(own), dtype))
        reads.append(read(f"x{number}", sizes, *at, pad={axis: end - start}))
    value = reads[0]
    for number, start in enumerate(cuts, 1):
        limit = start if compare in ("cmplt", "cmpge") else start - 1
        chosen = (reads[number], value) if compare in ("cmpgt", "cmpge") else (value, reads[number])
        body.append(
            ewise(f"c{number}", compare, sizes, read("at", sizes, *coords), Number(limit, positions), dtype="bool")
        )
        body.append(ewise(f"v{number}", "where", sizes, read(f"c{number}", sizes, *coords), *chosen, dtype=dtype))
        value = read(f"v{number}", sizes, *coords)
    return region("concatenation", inputs, body, sizes, dtype=dtype)


def view_of(box: InputBox, shape: Sequence[int], memory: np.ndarray) -> np.ndarray:
    """The elements of a row-major array that lie in a box: by the strides of the frame."""
    frame = frame_of_box(box.axes, memory.shape)
    start = box.first * row_major(memory.shape)[box.axis]
    steps = [step * memory.itemsize for step in row_major(frame)]
    return np.lib.stride_tricks.as_strided(memory.reshape(-1)[start:], tuple(shape), steps)


CONCATENATIONS = [
    *(concatenation((4, 6), 1, 2, compare=name) for name in ("cmplt", "cmple", "cmpgt", "cmpge")),
    concatenation((4, 6), 0, 3),
    concatenation((2, 3, 7, 5), 2, 1, 4, 6),
    concatenation((1, 5, 5, 12), 3, 4, dtype="bf16"),
    concatenation((1, 2), 1, 1),
    concatenation((3,), 0, 1, 2, dtype="i32"),
    concatenation((4, 6), 1, 5),
    concatenation((4, 2, 1), 1, 1),
]


@pytest.mark.parametrize("given", CONCATENATIONS, ids=lambda given: str([b.memref.shape for b in given.inputs]))
def test_boxes_are_where_playback_puts_the_inputs(given: Region) -> None:
    boxes = input_boxes(given)
    assert boxes is not None
    assert [box.input for box in boxes] == list(range(len(given.inputs)))
    arrays = random_inputs(given)
    whole = np.ascontiguousarray(play_region(given, arrays)["Y"])
    for box in boxes:
        array = arrays[given.inputs[box.input].name]
        np.testing.assert_array_equal(view_of(box, array.shape, whole), array)


def test_inputs_may_have_other_ranks() -> None:
    """A stack along the first axis, and an input with an axis of size 1 more."""
    sizes, coords = (2, 3, 4), ("i0", "i1", "i2")
    x, y = read("x", sizes, "i1", "i2"), read("y", sizes, "i1", "0", "i2")
    body = [
        index("at", sizes, 0),
        ewise("c", "cmplt", sizes, read("at", sizes, *coords), Number(1, "i64"), dtype="bool"),
        ewise("v", "where", sizes, read("c", sizes, *coords), x, y),
    ]
    given = region("stack", [buffer("x", (3, 4)), buffer("y", (3, 1, 4))], body, sizes)
    boxes, arrays = input_boxes(given), random_inputs(given)
    assert boxes is not None
    whole = np.ascontiguousarray(play_region(given, arrays)["Y"])
    for box in boxes:
        array = arrays[given.inputs[box.input].name]
        np.testing.assert_array_equal(view_of(box, array.shape, whole), array)


def changed(**how: object) -> Region:
    """[x | y] of two tensors of 3 columns; `second`: how y is read; `first`, `limit`, `value`: likewise."""
    sizes = (4, 6)
    names = [buffer("x", (4, 3)), buffer("y", (4, 3))]
    first = how.get("first", read("x", sizes, "i0", "i1", pad={1: 3}))
    second = how.get("second", read("y", sizes, "i0", "i1 - 3", pad={1: 3}))
    body = [
        index("at", sizes, 1),
        ewise("c", "cmplt", sizes, read("at", sizes, "i0", "i1"), Number(how.get("limit", 3), "i64"), dtype="bool"),  # type: ignore[arg-type]
        ewise("v", "where", sizes, read("c", sizes, "i0", "i1"), first, second),  # type: ignore[arg-type]
        *how.get("more", ()),  # type: ignore[misc]
    ]
    return region("changed", names, body, sizes, dtype=str(how.get("dtype", "fp32")))


WHOLE = (4, 6)
OTHERS = {
    "a gap of zeros": changed(limit=4),
    "columns that are swapped": changed(first=read("x", WHOLE, "i0", "2 - i1", pad={1: 3})),
    "rows that are swapped": changed(second=read("y", WHOLE, "3 - i0", "i1 - 3", pad={1: 3})),
    "an input twice": changed(second=read("x", WHOLE, "i0", "i1 - 3", pad={1: 3})),
    "a number in place of an input": changed(second=Number(1.0, "fp32")),
    "arithmetic": changed(more=[ewise("e", "neg", WHOLE, read("v", WHOLE, "i0", "i1"))]),
    "a cast": changed(more=[ewise("e", "cast", WHOLE, read("v", WHOLE, "i0", "i1"), dtype="fp16")], dtype="fp16"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_regions_are_none(name: str) -> None:
    assert input_boxes(changed()) is not None
    assert input_boxes(OTHERS[name]) is None


@pytest.mark.parametrize(("positions", "holds"), [("i64", True), ("i16", True), ("u8", False), ("fp16", False)])
def test_positions_that_wrap_are_none(positions: str, holds: bool) -> None:
    """300 positions in 8 bits begin again at 0; floats round them."""
    assert (input_boxes(concatenation((2, 300), 1, 100, positions=positions)) is not None) == holds


def test_kernels_that_compute_are_none() -> None:
    assert [given.name for given in corpus() if input_boxes(given) is not None] == []


def test_a_stack_along_the_last_axis_is_none() -> None:
    """The elements of an input lie 2 apart, which no row-major frame of the input's rank has."""
    sizes = (3, 2)
    body = [
        index("at", sizes, 1),
        ewise("c", "cmplt", sizes, read("at", sizes, "i0", "i1"), Number(1, "i64"), dtype="bool"),
        ewise("v", "where", sizes, read("c", sizes, "i0", "i1"), read("x", sizes, "i0"), read("y", sizes, "i0")),
    ]
    assert input_boxes(region("stack", [buffer("x", (3,)), buffer("y", (3,))], body, sizes)) is None
