"""Packing: computes an operand's elements once, and stores them in the order in which the register tile reads them.

    column panel   panel[k][width]     width neighbouring rows or columns per term, as a rank-1 update reads them
    row panel      panel[row][k]       neighbouring terms, for the broadcast side of row-major matrices

Lanes run along the rows or columns where the operand has runs along them, else along k. A padded image is cut into the
rows of pixels that a panel covers: their borders are filled and their interiors copied by vectors, so that no element
is tested alone. Pixels that are not evenly spaced in memory, as in an image that is read enlarged, are gathered lane by
lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from codegen.lower.cpu.builder import CpuBlock, LaneAxis, loop_over
from codegen.lower.cpu.contraction_frame import (
    CpuContractionFrame,
    DepthBlock,
    Digits,
    greatest,
    lanes_along,
    least,
    tail_lanes,
)
from codegen.lower.cpu.depth_loops import Run, depth_digits, over_digits, over_runs, over_terms, term_of
from codegen.lower.cpu.lane_values import convert
from codegen.plan.contraction_view import lanes_along_k, lies_by_terms
from ir.dtype import DTYPES, is_widening
from ir.index.expr import ZERO, AxisExpr, constant, floordiv
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.cpu.nodes import CpuCall, Load, Store, Transpose, Value
from ir.kernel.nodes import Const, Within, register_type
from ir.poly.core import OperandRead


class NarrowTerms(NamedTuple):
    """Terms in a panel: of a narrow `dtype`, which has all numbers of the operand plus `bias`."""

    dtype: str
    bias: int = 0


@dataclass(frozen=True)
class Panel:
    """`width` elements of operand `side` from `start` on, of the `size` along `group`. Term k of element x goes to
    base + k·term + (x - start)·element of `buffer`, whose elements are of the dtype of accumulators, or `narrow`."""

    side: int
    group: tuple[int, ...]
    start: AxisExpr
    width: int
    size: int
    buffer: str
    base: AxisExpr
    term: int
    element: int
    narrow: NarrowTerms | None = None


@dataclass(frozen=True)
class Segment:
    """Elements [first, last) of a row of pixels. The row is a `run` of digits and starts at element `origin`."""

    run: tuple[int, ...]
    origin: AxisExpr
    first: AxisExpr
    last: AxisExpr


def operand_value(frame: CpuContractionFrame, side: int, block: CpuBlock) -> Value:
    """The operand at the current digits, in the accumulator's dtype."""
    view, ev = frame.view, frame.evaluator
    operand = view.operand(side)
    return convert(ev.operand(operand, frame.point(), block), ev.dtype(operand.value), view.accumulator)


def _panel_value(frame: CpuContractionFrame, panel: Panel, block: CpuBlock) -> Value:
    """As `operand_value`, or in the dtype of a narrow panel where that was widened to the operand."""
    view, ev = frame.view, frame.evaluator
    operand = view.operand(panel.side)
    op = view.ops.get(operand.value)
    if panel.narrow is None or panel.narrow.bias or op is None or op.kind != "cast" or operand.map.guards:
        return operand_value(frame, panel.side, block)
    (source,) = op.inputs
    narrow = panel.narrow.dtype
    if ev.operand_dtype(source) != narrow or not is_widening(DTYPES[narrow], DTYPES[op.dtype]):
        return operand_value(frame, panel.side, block)
    return ev.operand(source, frame.writer.at(operand.map.exprs, frame.point()), block)


def pack(frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock) -> None:
    """Adds the packing of one panel, for one block of k, to `block`."""
    view = frame.view
    if not view.depth:
        return
    run, _ = view.run(panel.side, panel.group)
    along_k, _ = view.run(panel.side, view.k)
    if not panel.group or lanes_along_k(view, panel.side, panel.group, frame.lanes):
        _along_k(frame, block, panel, depth, along_k)
    elif run == panel.group or not view.is_even(panel.side, run):
        _along_group(frame, block, panel, depth)
    else:
        _by_rows(frame, block, panel, depth, run)


# --- lanes along rows or columns ------------------------------------------------------------------


def pack_side_by_side(
    frame: CpuContractionFrame, block: CpuBlock, first: Panel, count: int, apart: int, depth: DepthBlock
) -> None:
    """Adds the packing of `count` panels, `first` and those beside it, for one block of k. Panels lie `apart` elements
    from each other. They are packed by terms, so that reads pass through memory in its order."""

    def over_panels(f: CpuContractionFrame, outer: CpuBlock, term: AxisExpr) -> None:
        def pack_one(body: CpuBlock, number: AxisExpr) -> None:
            panel = replace(first, start=first.start + number * first.width, base=first.base + number * apart)
            over_vectors(f, body, (panel.start, panel.width), panel.size, partial(_put_at, f, panel, term))

        loop_over(outer, "p", count, pack_one)

    over_terms(frame, block, depth, over_panels)


def _along_group(frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock) -> None:
    if lies_by_terms(frame.view, panel.side, panel.group, frame.lanes):
        pack_side_by_side(frame, block, panel, 1, 0, depth)
        return

    def over_all_terms(body: CpuBlock, x: AxisExpr) -> None:  # the places of the lanes are found once for all terms
        over_terms(frame, body, depth, lambda f, b, term: _put_at(f, panel, term, b, x))

    over_vectors(frame, block, (panel.start, panel.width), panel.size, over_all_terms)


def over_vectors(
    frame: CpuContractionFrame,
    block: CpuBlock,
    run: tuple[AxisExpr, int],
    size: int,
    write: Callable[[CpuBlock, AxisExpr], None],
) -> None:
    """Calls write(body, element) in a loop over a run of rows or columns, with lanes along them. run: its first element
    and the number of its elements, of which those below `size` exist."""
    lanes, (start, width) = frame.lanes, run
    x = frame.writer.variable("x", 0, size - 1)
    at = frame.writer.axis(x)
    body = block.inner({x})
    even = width % lanes == 0
    left = [start.shift(width) - at, constant(size) - at]
    lanes_along(body, x, left[even:], whole=even and size % lanes == 0 and frame.aligned)
    write(body, at)
    block.loop(body, x, start, start.shift(width), lanes, size)


def _put_at(frame: CpuContractionFrame, panel: Panel, term: AxisExpr, block: CpuBlock, x: AxisExpr) -> None:
    """Computes and stores the vector at element `x` of a panel."""
    placed = frame.with_digits(frame.along(panel.group, x))
    _put(block, panel, term, x, _panel_value(placed, panel, block))


def _put(block: CpuBlock, panel: Panel, term: AxisExpr, x: AxisExpr, value: Value) -> None:
    """Stores one vector of a panel."""
    offset = panel.base + term * panel.term + (x - panel.start) * panel.element
    if panel.narrow is not None:
        dtype, bias = panel.narrow
        if bias:
            value = CpuCall("add", (value, Const(bias, value.dtype)), value.dtype)
        if register_type(dtype) != value.dtype:
            value = convert(value, value.dtype, dtype)
    block.store(panel.buffer, offset, value)


def _by_rows(frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock, run: Sequence[int]) -> None:
    """Packs every row of pixels in the panel as a segment, with lanes along the row."""
    view, writer = frame.view, frame.writer
    length = view.extent(run)
    rows = panel.size // length
    outer = tuple(position for position in panel.group if position not in run)
    image = view.image(panel.side, run)
    if image is not None:
        _fill(frame, block, panel, depth, image.fill)
    row = writer.variable("row", 0, rows - 1)
    body = block.inner({row})
    at = writer.axis(row)
    start, box = panel.start, writer.box
    first = greatest(body, "first", [start - at * length], length)
    last = least(body, "last", [start.shift(panel.width) - at * length], length)
    placed = frame.with_digits(frame.along(outer, at))
    segment = Segment(tuple(run), at * length, first, last)
    if image is None:
        _segment(placed, body, panel, depth, segment)
    else:
        _padded_segment(placed, body, panel, depth, segment, image.read)
    stop = floordiv(start.shift(panel.width - 1), length, box).shift(1)
    block.loop(body, row, floordiv(start, length, box), stop, 1, rows)


def _segment(frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock, segment: Segment) -> None:
    writer = frame.writer
    x = writer.variable("x", 0, frame.view.extent(segment.run) - 1)
    body = block.inner({x})
    at = writer.axis(x)
    lanes_along(body, x, [segment.last - at], whole=False)
    placed = frame.with_digits(frame.along(segment.run, at))
    over_terms(
        placed,
        body,
        depth,
        lambda f, b, term: _put(b, panel, term, segment.origin + at, _panel_value(f, panel, b)),
    )
    block.loop(body, x, segment.first, segment.last, frame.lanes)


# --- padding --------------------------------------------------------------------------------------


def _fill(frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock, fill: float) -> None:
    """Sets the panel to `fill`; elements that the interiors do not overwrite are padding."""
    writer, lanes = frame.writer, frame.lanes
    dtype = register_type(frame.view.accumulator if panel.narrow is None else panel.narrow.dtype)
    bias = 0 if panel.narrow is None else panel.narrow.bias
    number = fill + bias if DTYPES[dtype].is_float else int(fill) + bias
    total = depth.most * panel.width
    x = writer.variable("z", 0, (-(-total // lanes) - 1) * lanes)
    body = block.inner({x})
    count = (
        None
        if panel.width % lanes == 0
        else tail_lanes(body, [depth.count * panel.width - writer.axis(x)], whole=False)
    )
    body.add(Store(writer.buffer(panel.buffer), panel.base + writer.axis(x), Const(number, dtype), count))
    block.loop(body, x, ZERO, depth.count * panel.width, lanes)


def _padded_segment(
    frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock, segment: Segment, read: OperandRead
) -> None:
    """As `_segment`, but only the pixels inside the image, for every position of the window."""
    writer, position = frame.writer, segment.run[-1]
    window = {axis for guard in read.map.guards for b in guard.bounds for axis in b.expr.axes}

    def interior(f: CpuContractionFrame, inner: CpuBlock, tested: Digits) -> None:
        x = writer.variable("x", 0, frame.view.extent(segment.run) - 1)
        at = writer.axis(x)
        placed = f.with_digits({position: at})
        conditions, low, high = _clip(placed, read, x)
        guarded = inner.inner(barrier=True, facts=conditions) if conditions else inner
        start = greatest(guarded, "from", [segment.first, *low], frame.view.sizes[position]) if low else segment.first
        stop = least(guarded, "to", [segment.last, *high], frame.view.sizes[position]) if high else segment.last
        body = guarded.inner({x})
        lanes_along(body, x, [stop - at], whole=False)
        over_terms(
            placed,
            body,
            depth,
            lambda g, b, term: _put(b, panel, term, segment.origin + at, _raw(g, b, panel, read, x)),
            done=tested,
        )
        guarded.loop(body, x, start, stop, frame.lanes)
        if conditions:
            inner.guard(guarded, conditions)

    over_digits(frame, block, depth, [p for p in depth_digits(depth) if p in window], interior)


def _clip(
    frame: CpuContractionFrame, read: OperandRead, x: int
) -> tuple[tuple[Within, ...], list[AxisExpr], list[AxisExpr]]:
    """The conditions of a read that are the same in all lanes, and the bounds [max low, min high) of `x`."""
    box = frame.writer.box
    shared, low, high = [], [], []
    for guard in read.map.guards:
        for bound in guard.bounds:
            expr = frame.place((bound.expr,))[0]
            parts = expr.split(x)
            assert parts is not None
            c, rest = parts
            if c == 0:
                shared.append(Within(expr, bound.lo, bound.hi))
            elif c > 0:  # lo ≤ c·x + rest < hi
                low.append(_ceildiv(constant(bound.lo) - rest, c, box))
                high.append(_ceildiv(constant(bound.hi) - rest, c, box))
            else:  # -hi < -c·x - rest ≤ -lo
                low.append(_ceildiv(rest - constant(bound.hi - 1), -c, box))
                high.append(_ceildiv(rest - constant(bound.lo - 1), -c, box))
    writer = frame.writer
    return tuple(condition for condition in shared if not writer.proves(condition)), low, high


def _ceildiv(expr: AxisExpr, by: int, box: tuple[tuple[int, int], ...]) -> AxisExpr:
    return floordiv(expr.shift(by - 1), by, box)


def _raw(frame: CpuContractionFrame, block: CpuBlock, panel: Panel, read: OperandRead, x: int) -> Value:
    """The elements of the buffer, inside the image, in the dtype of a narrow panel where that is the buffer's."""
    view = frame.view
    offset = frame.place((view.offset(read),))[0]
    dtype, name = view.buffer(read).memref.dtype, frame.writer.buffer(read.buffer)
    step = offset.coeff(x)
    lane = block.lane_axis
    assert step is not None
    assert lane is not None
    register = register_type(dtype)
    if step == 0:
        load = Load(name, offset, register, "splat")
    else:
        load = Load(name, offset, register, "unit" if step == 1 else "strided", lane.count, step)
    value = block.let(read.buffer, load)
    is_narrow = panel.narrow is not None and panel.narrow.dtype == dtype and not panel.narrow.bias
    return value if is_narrow else convert(value, dtype, view.accumulator)


# --- lanes along k --------------------------------------------------------------------------------


def _along_k(frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock, run: Sequence[int]) -> None:
    """Packs element by element, with lanes along the innermost terms."""
    writer = frame.writer
    if not panel.group:
        _terms_in_lanes(frame, block, panel, depth, run, panel.start)
        return
    if panel.element == 1 and panel.width % frame.lanes == 0:
        _in_squares(frame, block, panel, depth, run)
        return
    x = writer.variable("x", 0, panel.size - 1)
    body = block.inner({x})
    at = writer.axis(x)
    _terms_in_lanes(frame.with_digits(frame.along(panel.group, at)), body, panel, depth, run, at)
    block.loop(body, x, panel.start, panel.start.shift(panel.width), 1, panel.size)


def _in_squares(
    frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock, run: Sequence[int]
) -> None:
    """Packs a column panel of an operand with neighbours along k: lanes × lanes elements are evaluated along k, then
    transposed. Terms that fill no square are packed one vector at a time."""
    writer, lanes = frame.writer, frame.lanes
    square = writer.fresh("square")
    writer.private.append(Scratch(square, frame.view.accumulator, lanes * lanes))
    corner = writer.variable("x", 0, max(panel.size - 1, 1))
    columns = block.inner({corner})
    first = writer.axis(corner)

    def over_columns(inner: CpuBlock, do: Callable[[CpuBlock, AxisExpr], None]) -> None:
        x = writer.variable("x", 0, panel.size - 1)
        body = inner.inner({x})
        do(body, writer.axis(x))
        inner.loop(body, x, first, first.shift(lanes), 1, panel.size)

    def squares(f: CpuContractionFrame, inner: CpuBlock, along: Run) -> None:
        k = writer.variable("k", 0, along.size - 1)
        body = inner.inner({k}, lane_axis=LaneAxis(k))
        placed = f.with_digits(f.along(along.group, writer.axis(k)))

        def row(b: CpuBlock, x: AxisExpr) -> None:
            value = operand_value(placed.with_digits(f.along(panel.group, x)), panel.side, b)
            b.add(Store(square, (x - first) * lanes, value))

        over_columns(body, row)
        to = panel.base + term_of(placed, depth) * panel.term + (first - panel.start)
        body.add(Transpose(writer.buffer(panel.buffer), to, panel.term, square, ZERO, lanes))
        inner.loop(body, k, along.start, along.stop.shift(1 - lanes), lanes)
        whole = floordiv(along.stop - along.start, lanes, writer.box) * lanes
        rest = replace(along, start=along.start + whole)
        if rest.start != rest.stop:
            over_columns(
                inner, lambda b, x: _run_in_lanes(f.with_digits(f.along(panel.group, x)), b, panel, depth, x, rest)
            )

    over_runs(frame, columns, depth, run, squares)
    block.loop(columns, corner, panel.start, panel.start.shift(panel.width), lanes, panel.size)


def _terms_in_lanes(
    frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock, run: Sequence[int], x: AxisExpr
) -> None:
    over_runs(frame, block, depth, run, lambda f, b, along: _run_in_lanes(f, b, panel, depth, x, along))


def _run_in_lanes(
    frame: CpuContractionFrame, block: CpuBlock, panel: Panel, depth: DepthBlock, x: AxisExpr, run: Run
) -> None:
    """Packs the terms of a run of element x."""
    k = frame.writer.variable("k", 0, run.size - 1)
    at = frame.writer.axis(k)
    body = block.inner({k})
    length = run.stop - run.start
    lanes_along(body, k, [run.stop - at], whole=not length.terms and length.const % frame.lanes == 0)
    placed = frame.with_digits(frame.along(run.group, at))
    _put(body, panel, term_of(placed, depth), x, _panel_value(placed, panel, body))
    block.loop(body, k, run.start, run.stop, frame.lanes)
