"""The register tile: MR × NR sums held in registers over one block of k, then laid into the accumulator.

    outer   c[i][j] += row[i] · column[j]     per term: columns are vectors, each row a number in all lanes
    dot     c[i][j] += row[i] · column[j]     per vector of terms, folded into one number at the end

Rows and columns come from packed panels, or straight from where the operands lie.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.lower.blocks import Block, LaneAxis
from codegen.lower.contraction_frame import DepthBlock, Frame, lanes_along, least, tail_lanes
from codegen.lower.depth_loops import over_runs, over_terms
from codegen.lower.pack import operand_value
from ir.axis_expr import ZERO, AxisExpr, constant
from ir.cpu import Assign, Bind, Call, Const, If, Inside, Load, Reg, Store, Value, Within

Fetch = Callable[[Frame, Block, AxisExpr], Value]
"""A row's or column's value for one term: (frame, block, number of the term in its block) → value."""


@dataclass(frozen=True)
class Accumulator:
    """Where the sums of one register tile lie: row i, column j at base + i·NR + j of the kernel's `buffer`."""

    buffer: str
    base: AxisExpr


@dataclass(frozen=True)
class Side:
    """A packed operand as the tile reads it: element x of term k at base + k·term + x·element of the kernel's
    `buffer`."""

    buffer: str
    base: AxisExpr
    term: int
    element: int


def outer_tile(
    frame: Frame,
    block: Block,
    depth: DepthBlock,
    rows: Side | None,
    columns: Side | None,
    row: AxisExpr,
    column: AxisExpr,
    into: Accumulator,
    again: Within | None,
) -> None:
    """Sums MR × NR from `row`, `column` over `depth` and lays them into the accumulator; adds to what is there where
    `again` holds. An operand without a panel is evaluated in place."""
    blocks, lanes = frame.blocks, frame.lanes
    vectors = blocks.nr // lanes
    names = [(i, j) for i in range(blocks.mr) for j in range(vectors)]
    sums = _sums(frame, block, names)
    if again is not None:
        _resume(frame, block, sums, into, again, lanes)
    fetch_rows = [_row(frame, block, rows, row, i) for i in range(blocks.mr)]
    fetch_columns = [_column(frame, block, columns, column, j) for j in range(vectors)]

    def term(f: Frame, body: Block, k: AxisExpr) -> None:
        vector = [body.let(f"b{j}", fetch(f, body, k)) for j, fetch in enumerate(fetch_columns)]
        for i, fetch in enumerate(fetch_rows):
            number = body.let("a", fetch(f, body, k))
            for j in range(vectors):
                _add(body, sums[i, j], number, vector[j])

    if frame.view.depth:
        if rows is not None and columns is not None:
            _over_panel(frame, block, depth, term)
        else:
            over_terms(frame, block, depth, term)
    for (i, j), register in sums.items():
        block.add(Store(into.buffer, into.base.shift(i * blocks.nr + j * lanes), register))


def dot_tile(
    frame: Frame,
    block: Block,
    depth: DepthBlock,
    run: Sequence[int],
    row: AxisExpr,
    column: AxisExpr,
    width: int,
    into: Accumulator,
) -> None:
    """The sums of MR rows and `width` columns with lanes along the terms of `run`."""
    blocks = frame.blocks
    sums = _sums(frame, block, [(i, j) for i in range(blocks.mr) for j in range(width)])
    rows = [_existing_row(frame, block, row, i) for i in range(blocks.mr)]

    def terms(f: Frame, inner: Block, start: AxisExpr, stop: AxisExpr, size: int, group: Sequence[int]) -> None:
        k = f.writer.variable("k", 0, size - 1)
        at = f.writer.axis(k)
        whole = size // f.lanes * f.lanes
        placed = f.placed(f.along(group, at))
        if whole:
            body = inner.inner({k})
            lanes_along(body, k, (), whole=True)
            _step(placed, body, sums, rows, column, width, None)
            inner.loop(body, k, start, start.shift(whole), f.lanes)
        if whole < size:
            _dot_tail(f, inner, group, whole, size, lambda g, b, m: _step(g, b, sums, rows, column, width, m))

    if frame.view.depth:
        over_runs(frame, block, depth, run, terms)
    for (i, j), register in sums.items():
        total = block.let("total", Call("hsum", (register,), register.dtype))
        block.add(Store(into.buffer, into.base.shift(i * blocks.nr + j), total, 1))


def _dot_tail(
    frame: Frame,
    block: Block,
    group: Sequence[int],
    first: int,
    size: int,
    step: Callable[[Frame, Block, Value | None], None],
) -> None:
    """The last terms, fewer than lanes: what a lane without a term computes is put away."""
    writer = frame.writer
    k = writer.variable("k", 0, size - 1)
    body = block.inner({k})
    body.lane_axis = LaneAxis(k, size - first)
    at = writer.axis(k)
    exists = Inside((Within(at, 0, size),), k)
    step(frame.placed(frame.along(group, at)), body, exists)
    block.loop(body, k, constant(first), constant(size), frame.lanes)


def _step(
    frame: Frame,
    block: Block,
    sums: dict[tuple[int, int], Reg],
    rows: Sequence[AxisExpr],
    column: AxisExpr,
    width: int,
    exists: Value | None,
) -> None:
    view = frame.view
    columns = [
        operand_value(frame.placed(frame.along(view.columns, column.shift(j))), view.vector, block)
        for j in range(width)
    ]
    for i, row in enumerate(rows):
        value = operand_value(frame.placed(frame.along(view.rows, row)), 1 - view.vector, block)
        for j in range(width):
            if exists is None:
                _add(block, sums[i, j], value, columns[j])
            else:
                product = Call("mul", (value, columns[j]), view.accumulator)
                kept = Call("where", (exists, product, Const(0, view.accumulator)), view.accumulator)
                block.accumulate(sums[i, j], "add", kept)


def _sums(frame: Frame, block: Block, names: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Reg]:
    zero = Const(0, frame.view.accumulator)
    found = {}
    for i, j in names:
        register = block.let(f"c{i}_{j}", zero, mutable=True)
        assert isinstance(register, Reg)
        found[i, j] = register
    return found


def _resume(
    frame: Frame,
    block: Block,
    sums: dict[tuple[int, int], Reg],
    into: Accumulator,
    again: Within,
    lanes: int,
) -> None:
    """The sums of the blocks of k before this one."""
    loads = tuple(
        Assign(register.name, Load(into.buffer, into.base.shift(i * frame.blocks.nr + j * lanes), register.dtype))
        for (i, j), register in sums.items()
    )
    block.add(If((again,), loads))


def _add(block: Block, total: Reg, row: Value, column: Value) -> None:
    block.assign(total, Call("fma", (row, column, total), total.dtype))


def _over_panel(frame: Frame, block: Block, depth: DepthBlock, term: Callable[[Frame, Block, AxisExpr], None]) -> None:
    """One loop over a block's terms, in the order of the panels."""
    k = frame.writer.variable("k", 0, depth.most - 1)
    body = block.inner({k})
    term(frame, body, frame.writer.axis(k))
    block.loop(body, k, ZERO, depth.count)


def _row(frame: Frame, block: Block, panel: Side | None, row: AxisExpr, i: int) -> Fetch:
    view = frame.view
    if panel is not None:
        base = panel.base.shift(i * panel.element)
        return lambda _f, _b, k: Load(panel.buffer, base + k * panel.term, view.accumulator, "splat")
    digits = frame.along(view.rows, _existing_row(frame, block, row, i))
    return lambda f, b, _k: operand_value(f.placed(digits), 1 - view.vector, b)


def _existing_row(frame: Frame, block: Block, row: AxisExpr, i: int) -> AxisExpr:
    """Row i of the tile at `row`; the last row once more where the tile is cut before it."""
    m, left = frame.view.m, frame.view.m % frame.blocks.mr
    return least(block, "row", [row.shift(i)], m - 1) if left and i >= left else row.shift(i)


def _column(frame: Frame, block: Block, panel: Side | None, column: AxisExpr, j: int) -> Fetch:
    """A vector of columns. In place, lanes beyond the last column read nothing."""
    view, lanes = frame.view, frame.lanes
    if panel is not None:
        base = panel.base.shift(j * lanes)
        return lambda _f, _b, k: Load(panel.buffer, base + k * panel.term, view.accumulator)
    first = j * lanes
    variable = frame.writer.variable("column", 0, max(1, view.n - 1))
    block.add(Bind(variable, column.shift(first), most=(constant(max(view.n - 1, 0)),)))
    block.variables.add(variable)
    at = frame.writer.axis(variable)
    count = tail_lanes(block, [constant(view.n - first) - column], whole=view.n % frame.blocks.nr == 0)
    lanes_here = LaneAxis(variable, count)
    digits = frame.along(view.columns, at)

    def fetch(f: Frame, body: Block, _k: AxisExpr) -> Value:
        inside = body.inner({variable}, lane_axis=lanes_here)
        value = operand_value(f.placed(digits), view.vector, inside)
        body.statements += inside.statements
        return value

    return fetch
