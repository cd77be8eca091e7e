"""The register tile: MR × NR sums held in registers over one block of k, then stored in the accumulator.

    outer   c[i][j] += row[i] · column[j]     per term: columns are vectors, a row is one number in all lanes
    dot     c[i][j] += row[i] · column[j]     per vector of terms; the lanes are summed at the end

Tiles of cells are those of `cell_tile` and `matrix_tile`.

Rows and columns come from packed panels, or are evaluated from the operands' memory; rows come from a box, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from codegen.lower.accumulators import PART
from codegen.lower.cpu.builder import CpuBlock, LaneAxis, with_guard
from codegen.lower.cpu.contraction_frame import (
    CpuContractionFrame,
    DepthBlock,
    Digits,
    bound,
    lanes_along,
    least,
    tail_lanes,
)
from codegen.lower.cpu.copy_box import PlacedBox
from codegen.lower.cpu.depth_loops import AtTerm, Run, depth_digits, over_digits, over_runs, over_terms, term_of
from codegen.lower.cpu.pack import operand_value
from codegen.lower.cpu.part_panels import parts_in_panels
from codegen.lower.cpu.read_terms import ReadTerms
from codegen.plan.cpu.row_box import has_even_columns, has_even_rows
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr, constant, floordiv
from ir.kernel.cpu.nodes import CpuCall, CpuIf, Inside, Load, Prefetch, Store, Value
from ir.kernel.nodes import Assign, Bind, Const, Reg, Within

Fetch = Callable[[CpuContractionFrame, CpuBlock, AxisExpr], Value]
"""A row's or column's value for one term: (frame, block, number of the term in its block) → value."""
_LEAST_BLOCK = 64
"""Terms of a block of k from which on its sums start at zero: a product of one row by blocks of 8 terms runs 4 %
slower so."""
_LEAST_TURN = 48
"""Products of a loop's turn, at least: shorter turns run 7 % slower on a Zen 3."""
_LEAST_PART = 32
"""Vectors of a run from which on the run has sums of its own: the additions that join them then take little time."""


@dataclass(frozen=True)
class TileSums:
    """Where the sums of one register tile lie: row i, column j at base + i·stride + j of the kernel's `buffer`."""

    buffer: str
    base: AxisExpr
    stride: int


@dataclass(frozen=True)
class Side:
    """A packed operand: element x of term k is at base + k·term + x·element of the kernel's `buffer`."""

    buffer: str
    base: AxisExpr
    term: int
    element: int


@dataclass(frozen=True)
class PrefetchShare:
    """The share of the next panel that a tile prefetches. With every term, the tile prefetches `lines` cache lines of
    `cache_line` elements of `buffer`, from element base + k·term on."""

    buffer: str
    base: AxisExpr
    term: int
    lines: int
    cache_line: int


@dataclass(frozen=True)
class RegisterTile:
    """One register tile: a block of k, the first row and column, and the accumulator `into`. Where the condition
    `resumed` holds (None: never), the block's sums are added to those in the accumulator, times a `factor` per row.
    `prefetch`: the share of the next panel that the tile prefetches."""

    depth: DepthBlock
    row: AxisExpr
    column: AxisExpr
    into: TileSums
    resumed: Within | None = None
    factor: Side | None = None
    prefetch: PrefetchShare | None = None


def outer_tile(
    frame: CpuContractionFrame,
    block: CpuBlock,
    tile: RegisterTile,
    rows: Side | PlacedBox | None,
    columns: Side | None,
    *,
    store: bool = True,
    read: ReadTerms | None = None,
    parts: bool = False,
) -> Sums:
    """Sums MR × NR, and stores the sums in the accumulator if `store`. An operand without panel and box is evaluated
    from its memory; columns from panels of their `parts`. read: the terms that the tile takes, None: all."""
    blocks, lanes = frame.blocks, frame.lanes
    vectors = blocks.nr // lanes
    names = [(i, j) for i in range(blocks.mr) for j in range(vectors)]
    sums = start_sums(frame, block, names)
    chained = frame.view.ordered or tile.depth.most < _LEAST_BLOCK
    if chained:
        resume_sums(frame, block, sums, tile)
    fetch_rows = _rows(frame, block, rows, tile.row)
    fetch_columns = [_column(frame, block, columns, tile.column, j, parts=parts) for j in range(vectors)]

    def term(f: CpuContractionFrame, body: CpuBlock, k: AxisExpr) -> None:
        prefetch(body, tile.prefetch, k)
        vector = [body.let(f"b{j}", _pinned(frame, fetch(f, body, k))) for j, fetch in enumerate(fetch_columns)]
        for i, fetch in enumerate(fetch_rows):
            number = body.let("a", fetch(f, body, k))
            for j in range(vectors):
                _add(body, sums[i, j], number, vector[j])

    if frame.view.depth:
        fixed = [digit for digit in frame.view.k if digit not in depth_digits(tile.depth)]
        over = _over_panel if isinstance(rows, Side) and columns is not None else over_terms
        taken = read.conditions(frame, *fixed) if read else ()
        turns = max(1, _LEAST_TURN // len(names))
        with_guard(block, taken, lambda inner: over(frame, inner, tile.depth, term, read=read, unroll=turns))
    if not chained:
        resume_sums(frame, block, sums, tile)
    if store:
        store_sums(frame, block, sums, tile.into)
    return sums


def store_sums(frame: CpuContractionFrame, block: CpuBlock, sums: Sums, into: TileSums) -> None:
    """Stores the sums of a tile in the accumulator."""
    for (i, j), register in sums.items():
        block.add(Store(into.buffer, into.base.shift(i * into.stride + j * frame.lanes), register))


def prefetch(block: CpuBlock, share: PrefetchShare | None, k: AxisExpr) -> None:
    """Prefetches a tile's share for the terms at step `k` of its loop."""
    if share is not None:
        first = share.base + k * share.term
        block.add(*(Prefetch(share.buffer, first.shift(n * share.cache_line)) for n in range(share.lines)))


def dot_tile(frame: CpuContractionFrame, block: CpuBlock, tile: RegisterTile, run: Sequence[int], width: int) -> None:
    """The sums of MR rows and `width` columns with lanes along the terms of `run`."""
    blocks = frame.blocks
    rows = tuple(_existing_row(frame, block, tile.row, i) for i in range(blocks.mr))
    columns = tuple(tile.column.shift(j) for j in range(width))
    dots = _Dots(rows, columns, start_sums(frame, block, [(i, j) for i in range(blocks.mr) for j in range(width)]))
    if frame.view.depth:
        over_runs(frame, block, tile.depth, run, dots.over)
    for (i, j), register in dots.sums.items():
        total = block.let("total", CpuCall("hsum", (register,), register.dtype))
        block.add(Store(tile.into.buffer, tile.into.base.shift(i * tile.into.stride + j), total, 1))


Sums = dict[tuple[int, int], Reg]
"""The registers of a tile by row and column, or vector of columns."""


@dataclass(frozen=True)
class _Dots:
    """The dot products of some rows and columns."""

    rows: Sequence[AxisExpr]
    columns: Sequence[AxisExpr]
    sums: Sums

    def over(self, frame: CpuContractionFrame, block: CpuBlock, run: Run) -> None:
        """Adds the terms of a run: whole vectors of them, in parts of `PART` vectors where the products have many;
        then a tail."""
        lanes = frame.lanes
        whole, part = run.size // lanes * lanes, PART * lanes
        many = frame.view.depth > 2 * part and whole >= _LEAST_PART * lanes
        if many and DTYPES[frame.view.accumulator].is_float:
            origin = frame.writer.variable("ko", 0, whole - 1)
            around = block.inner({origin})
            dots = replace(self, sums=start_sums(frame, around, list(self.sums), "part"))
            start = frame.writer.axis(origin)
            dots._vectors(frame, around, run, start, start.shift(part), whole)
            for at, register in self.sums.items():
                around.accumulate(register, "add", dots.sums[at])
            block.loop(around, origin, run.start, run.start.shift(whole), part)
        elif whole:
            self._vectors(frame, block, run, run.start, run.start.shift(whole), None)
        if whole < run.size:
            self._tail(frame, block, run, whole)

    def _vectors(
        self,
        frame: CpuContractionFrame,
        block: CpuBlock,
        run: Run,
        start: AxisExpr,
        stop: AxisExpr,
        limit: int | None,
    ) -> None:
        """Adds the vectors of terms from `start` to `stop`, up to `limit` (None: all)."""
        k = frame.writer.variable("k", 0, run.size - 1)
        body = block.inner({k})
        lanes_along(body, k, (), whole=True)
        self._add(frame.with_digits(frame.along(run.group, frame.writer.axis(k))), body, None)
        block.loop(body, k, start, stop, frame.lanes, limit)

    def _tail(self, frame: CpuContractionFrame, block: CpuBlock, run: Run, first: int) -> None:
        """Adds the last terms, fewer than lanes; lanes without a term add 0."""
        k = frame.writer.variable("k", 0, run.size - 1)
        body = block.inner({k})
        body.lane_axis = LaneAxis(k, run.size - first)
        at = frame.writer.axis(k)
        self._add(frame.with_digits(frame.along(run.group, at)), body, Inside((Within(at, 0, run.size),), k))
        block.loop(body, k, constant(first), constant(run.size), frame.lanes)

    def _add(self, frame: CpuContractionFrame, block: CpuBlock, exists: Value | None) -> None:
        """One vector of terms, in the lanes that exist."""
        view = frame.view
        columns = [
            operand_value(frame.with_digits(frame.along(view.columns, column)), view.vector, block)
            for column in self.columns
        ]
        for i, row in enumerate(self.rows):
            value = operand_value(frame.with_digits(frame.along(view.rows, row)), 1 - view.vector, block)
            for j, column in enumerate(columns):
                if exists is None:
                    _add(block, self.sums[i, j], value, column)
                else:
                    product = CpuCall("mul", (value, column), view.accumulator)
                    kept = CpuCall("where", (exists, product, Const(0, view.accumulator)), view.accumulator)
                    block.accumulate(self.sums[i, j], "add", kept)


def start_sums(
    frame: CpuContractionFrame, block: CpuBlock, names: Sequence[tuple[int, int]], prefix: str = "c"
) -> Sums:
    """Registers for sums, zeroed."""
    zero = Const(0, frame.view.accumulator)
    sums = {}
    for i, j in names:
        register = block.let(f"{prefix}{i}_{j}", zero, mutable=True)
        assert isinstance(register, Reg)
        sums[i, j] = register
    return sums


def resume_sums(frame: CpuContractionFrame, block: CpuBlock, sums: Sums, tile: RegisterTile) -> None:
    """Adds the sums of the blocks of k before this one.

    Where a block's sums start at zero, the error is smaller than that of one long chain of additions. Index order asks
    for the chain; so do short blocks, which would wait for the addition.
    """
    if tile.resumed is None:
        return
    into, factor = tile.into, tile.factor

    def joined(i: int, j: int, register: Reg) -> Value:
        before = Load(into.buffer, into.base.shift(i * into.stride + j * frame.lanes), register.dtype)
        if factor is None:
            return CpuCall("add", (before, register), register.dtype)
        scale = Load(factor.buffer, factor.base.shift(i * factor.element), register.dtype, "splat")
        return CpuCall("fma", (before, scale, register), register.dtype)

    block.add(CpuIf((tile.resumed,), tuple(Assign(own.name, joined(*at, own)) for at, own in sums.items())))


def _add(block: CpuBlock, total: Reg, row: Value, column: Value) -> None:
    block.assign(total, CpuCall("fma", (row, column, total), total.dtype))


def _pinned(frame: CpuContractionFrame, column: Value) -> Value:
    """A vector of columns that stays in its register for all rows of the tile."""
    is_pinned = frame.blocks.mr > 1 and DTYPES[column.dtype].is_float and not isinstance(column, Const)
    return CpuCall("pin", (column,), column.dtype) if is_pinned else column


def _over_panel(
    frame: CpuContractionFrame,
    block: CpuBlock,
    depth: DepthBlock,
    term: AtTerm,
    *,
    read: ReadTerms | None,
    unroll: int,
) -> None:
    """One loop over a block's terms, in the order of the panels, `unroll` turns at once, inside loops over the digits
    by which the tile leaves out terms."""
    digits = depth_digits(depth)
    tested = max((place for place, digit in enumerate(digits, 1) if read and read.has(digit)), default=0)

    def over_rest(f: CpuContractionFrame, b: CpuBlock, _: Digits) -> None:
        start, count = (term_of(f, depth), constant(f.view.extent(digits[tested:]))) if tested else (ZERO, depth.count)
        k = f.writer.variable("k", 0, depth.most - 1)
        body = b.inner({k})
        term(f, body, f.writer.axis(k))
        b.loop(body, k, start, start + count, unroll=unroll)

    over_digits(frame, block, depth, digits[:tested], over_rest, read=read)


def _rows(frame: CpuContractionFrame, block: CpuBlock, source: Side | PlacedBox | None, row: AxisExpr) -> list[Fetch]:
    """The numbers of the rows of the tile at `row`."""
    if isinstance(source, Side):
        return [_from_panel(source, i, frame.view.accumulator) for i in range(frame.blocks.mr)]
    return [_at_digits(frame, source, digits) for digits in digits_of_rows(frame, block, row)]


def _from_panel(panel: Side, i: int, dtype: str) -> Fetch:
    base = panel.base.shift(i * panel.element)
    return lambda _f, _b, k: Load(panel.buffer, base + k * panel.term, dtype, "splat")


def _at_digits(frame: CpuContractionFrame, placed: PlacedBox | None, digits: Digits) -> Fetch:
    view = frame.view
    if placed is None:
        return lambda f, b, _k: operand_value(f.with_digits(digits), 1 - view.vector, b)
    buffer = frame.writer.buffer(placed.buffer)

    def fetch(f: CpuContractionFrame, _b: CpuBlock, _k: AxisExpr) -> Value:
        at = f.with_digits(digits).place(placed.box.at)
        return Load(buffer, placed.offset(at), view.accumulator, "splat")

    return fetch


def digits_of_rows(frame: CpuContractionFrame, block: CpuBlock, row: AxisExpr) -> list[Digits]:
    """The digits of the rows of a tile. Where rows lie at equal distances, they differ in the last digit alone, so that
    their addresses differ by constants."""
    view, mr = frame.view, frame.blocks.mr
    if not has_even_rows(view, mr):
        return [frame.along(view.rows, _existing_row(frame, block, row, i)) for i in range(mr)]
    digits, last = _digits_of_tile(frame, block, view.rows, row, mr), view.rows[-1]
    return [{**digits, last: digits[last].shift(i)} for i in range(mr)]


def _digits_of_tile(
    frame: CpuContractionFrame, block: CpuBlock, group: tuple[int, ...], first: AxisExpr, size: int
) -> Digits:
    """The digits of `group` at the first point of a tile of `size` points, which divides the innermost digit."""
    tile = bound(block, "tile", floordiv(first, size, frame.writer.box), frame.view.extent(group) // size - 1)
    return frame.along(group, tile * size)


def _existing_row(frame: CpuContractionFrame, block: CpuBlock, row: AxisExpr, i: int) -> AxisExpr:
    """Row i of the tile at `row`; the last row that exists where the tile is cut before row i."""
    m, left = frame.view.m, frame.view.m % frame.blocks.mr
    return least(block, "row", [row.shift(i)], m - 1) if left and i >= left else row.shift(i)


def _column(
    frame: CpuContractionFrame, block: CpuBlock, panel: Side | None, column: AxisExpr, j: int, *, parts: bool
) -> Fetch:
    """A vector of columns. Without panels, lanes beyond the last column read nothing."""
    view, lanes = frame.view, frame.lanes
    if panel is not None:
        base = panel.base.shift(j * lanes)
        return lambda _f, _b, k: Load(panel.buffer, base + k * panel.term, view.accumulator)
    digits, lanes_here = _lanes_of_columns(frame, block, column, j * lanes)

    def fetch(f: CpuContractionFrame, body: CpuBlock, _k: AxisExpr) -> Value:
        inside = body.inner({lanes_here.variable}, lane_axis=lanes_here)
        with parts_in_panels(f, column, j * lanes) if parts else nullcontext():
            value = operand_value(f.with_digits(digits), view.vector, inside)
        body.statements += inside.statements
        return value

    return fetch


def _lanes_of_columns(
    frame: CpuContractionFrame, block: CpuBlock, column: AxisExpr, first: int
) -> tuple[Digits, LaneAxis]:
    """The digits of a vector of columns from `first` on of the tile at `column`, and its lanes. Where the columns of a
    tile are neighbours along the innermost axis, only the digit of that axis differs between lanes."""
    view, nr = frame.view, frame.blocks.nr
    if frame.aligned and has_even_columns(view, nr):
        digits, last = _digits_of_tile(frame, block, view.columns, column, nr), view.columns[-1]
        variable = frame.writer.variable("column", 0, max(1, view.sizes[last] - 1))
        block.add(Bind(variable, digits[last].shift(first)))
        block.variables.add(variable)
        return {**digits, last: frame.writer.axis(variable)}, LaneAxis(variable)
    variable = frame.writer.variable("column", 0, max(1, view.n - 1))
    block.add(Bind(variable, column.shift(first), most=(constant(max(view.n - 1, 0)),)))
    block.variables.add(variable)
    whole = view.n % nr == 0 and frame.aligned
    count = tail_lanes(block, [constant(view.n - first) - column], whole=whole)
    return frame.along(view.columns, frame.writer.axis(variable)), LaneAxis(variable, count)
