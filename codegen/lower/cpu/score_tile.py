"""A tile of scores, its maxima, weights and row sums, in a thread's workspace.

    finish    S = score(S), fresh[r] = max over the row                          lanes along the terms
    rescale   top = max(top, fresh), shrink = fn(top before - top), L = L·shrink lanes along the rows
    weigh     S = fn(S - top[r]), L[r] += sum over the row                       lanes along the terms

A maximum of -inf counts as 0: the terms before the first finite score weigh 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from codegen.lower.conversions import constant
from codegen.lower.cpu.builder import CpuBlock, LaneAxis
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, DepthBlock, lanes_along
from codegen.lower.cpu.lane_values import convert
from codegen.lower.cpu.stream_at_point import finite_or_zero, nan_if_infinite, tree, weight
from codegen.lower.points import Point, Where
from codegen.plan.stream_view import StreamView
from ir.index.expr import ZERO, AxisExpr, floordiv
from ir.index.expr import constant as index
from ir.kernel.cpu.kernel import Scratch
from ir.kernel.cpu.nodes import CpuCall, Inside, Load, Store, Value
from ir.kernel.nodes import Reg
from ir.plan.cpu import StreamBlocks
from ir.region.region import Operand

_REGISTERS = 4
"""Registers of a row that are computed side by side, to hide latency."""


@dataclass(frozen=True)
class RowRange:
    """The rows of a tile: `first` is the first row of the tile, `task` the first row of the task."""

    first: AxisExpr
    task: AxisExpr


EmitRegister = Callable[[CpuContractionFrame, CpuBlock, AxisExpr, Value | None, int], None]
"""Writes the code of one register of a row: (frame, block, offset in the tile, lanes that exist, its number)."""


@dataclass(frozen=True)
class ScoreTile:
    """The buffers of a task, by their names in the kernel.

    tile    the scores, later the weights
    fresh   per row of the tile: the maximum in the tile
    base    per row of the tile: the number that is subtracted from scores
    shrink  per row of the tile: the factor of earlier sums
    top     per row of the task: the maximum so far
    sums    per row sum: its buffer, with a number per row of the task
    """

    view: StreamView
    blocks: StreamBlocks
    tile: str
    fresh: str
    base: str
    shrink: str
    top: str
    sums: Mapping[str, str]

    @property
    def stride(self) -> int:
        return self.blocks.score_stride

    def scratch(self) -> list[Scratch]:
        """The buffers, in whole registers."""
        blocks, kind = self.blocks, self.view.kind
        rows, task = ((-(-size // blocks.lanes) + 1) * blocks.lanes for size in (blocks.br, blocks.bm))
        sizes = {self.tile: blocks.br * self.stride, **dict.fromkeys((self.fresh, self.base, self.shrink), rows)}
        sizes |= dict.fromkeys((self.top, *self.sums.values()), task)
        return [Scratch(name, kind, size) for name, size in sizes.items()]

    # --- rows of a task ---

    def start(self, block: CpuBlock) -> None:
        """Writes the maxima and sums of no terms."""
        writer = block.writer
        x = writer.variable("x", 0, self.blocks.bm)
        body = block.inner({x})
        body.add(Store(self.top, writer.axis(x), constant("-inf", self.view.kind)))
        for name in self.sums.values():
            body.add(Store(name, writer.axis(x), constant(0, self.view.kind)))
        block.loop(body, x, ZERO, index(self.blocks.bm), writer.lanes)

    def top_of(self, block: CpuBlock, row: AxisExpr) -> Value:
        """The final maximum of a row of the task; of several rows where the lanes of `block` are rows."""
        return block.let("top", self._load_row(self.top, block, row))

    def totals(self, block: CpuBlock, row: AxisExpr) -> dict[str, Value]:
        """The final maxima and sums of a row of the task, as for `top_of`."""
        top = self.top_of(block, row)
        totals: dict[str, Value] = dict.fromkeys(self.view.maxima, top)
        for name, buffer in self.sums.items():
            totals[name] = block.let(name, nan_if_infinite(self._load_row(buffer, block, row), top))
        return totals

    def _load_row(self, buffer: str, block: CpuBlock, row: AxisExpr) -> Load:
        if block.lane_axis is None:
            return Load(buffer, row, self.view.kind, "splat")
        return Load(buffer, row, self.view.kind, count=block.lane_axis.count)

    # --- a tile ---

    def finish(self, frame: CpuContractionFrame, block: CpuBlock, rows: RowRange, depth: DepthBlock) -> None:
        """Replaces the contraction's sums by scores, and writes the maximum of every row."""
        view, ev = self.view, frame.evaluator

        def one_row(f: CpuContractionFrame, body: CpuBlock, start: AxisExpr, row: AxisExpr) -> None:
            tops = self._registers(body, "-inf", "top")

            def score(
                g: CpuContractionFrame, inner: CpuBlock, offset: AxisExpr, exists: Value | None, number: int
            ) -> None:
                if view.roles.contraction is not None and view.scores is not None:
                    sums = inner.let("sum", Load(self.tile, offset, view.kind))
                    given = convert(sums, view.kind, view.scores.op.dtype)
                    ev.provide(view.roles.contraction, given)
                value = self._score(g, inner)
                if exists is not None:
                    value = CpuCall("where", (exists, value, constant("-inf", view.kind)), view.kind)
                value = inner.let("score", value)
                inner.add(Store(self.tile, offset, value))
                inner.accumulate(tops[number], "max", value)

            self._along_terms(f, body, depth, start, score)
            body.add(Store(self.fresh, row, CpuCall("hmax", (tree("max", tops),), view.kind), 1))

        self._over_rows(frame, block, rows, one_row)

    def rescale(self, block: CpuBlock, rows: RowRange) -> None:
        """Updates the maxima with this tile, and rescales the sums so far."""
        writer, kind, br = block.writer, self.view.kind, self.blocks.br
        whole = br // writer.lanes * writer.lanes
        for start, stop in ((0, whole), (whole, br)):
            if start == stop:
                continue
            count = min(writer.lanes, stop - start)
            x = writer.variable("x", start, stop - 1)
            body = block.inner({x}, lane_axis=LaneAxis(x, None if count == writer.lanes else count))
            at, here = writer.axis(x), rows.first - rows.task + writer.axis(x)
            used = body.lane_axis.count if body.lane_axis else None
            before = body.let("before", Load(self.top, here, kind, count=used))
            top = body.let("top", CpuCall("max", (before, Load(self.fresh, at, kind, count=used)), kind))
            base = body.let("base", finite_or_zero(top))
            shrink = body.let("shrink", weight(self.view.fn, before, base))
            for name, offset, value in ((self.top, here, top), (self.base, at, base), (self.shrink, at, shrink)):
                body.add(Store(name, offset, value, used))
            for name in self.sums.values():
                scaled = CpuCall("mul", (Load(name, here, kind, count=used), shrink), kind)
                body.add(Store(name, here, scaled, used))
            block.loop(body, x, index(start), index(stop), writer.lanes)

    def weigh(self, frame: CpuContractionFrame, block: CpuBlock, rows: RowRange, depth: DepthBlock) -> None:
        """Replaces scores by weights, and adds the weights to the row sums."""
        view = self.view

        def one_row(f: CpuContractionFrame, body: CpuBlock, start: AxisExpr, row: AxisExpr) -> None:
            base = body.let("base", Load(self.base, row, view.kind, "splat"))
            sums = {name: self._registers(body, 0, name) for name in self.sums}

            def weigh(
                g: CpuContractionFrame, inner: CpuBlock, offset: AxisExpr, exists: Value | None, number: int
            ) -> None:
                p = inner.let("p", weight(view.fn, Load(self.tile, offset, view.kind), base))
                inner.add(Store(self.tile, offset, p))
                for row_sum in view.row_sums:
                    term = self._term(g.view_as(row_sum), inner, p, exists)
                    inner.accumulate(sums[row_sum.name][number], "add", term)

            self._along_terms(f, body, depth, start, weigh)
            for name, registers in sums.items():
                here = rows.first - rows.task + row
                added = CpuCall("hsum", (tree("add", registers),), view.kind)
                total = CpuCall("add", (Load(self.sums[name], here, view.kind, "splat"), added), view.kind)
                body.add(Store(self.sums[name], here, total, 1))

        self._over_rows(frame, block, rows, one_row)

    # --- loops ---

    def _over_rows(
        self,
        frame: CpuContractionFrame,
        block: CpuBlock,
        rows: RowRange,
        body: Callable[[CpuContractionFrame, CpuBlock, AxisExpr, AxisExpr], None],
    ) -> None:
        """Calls body(frame, block, offset of the row in the tile, number of the row in the tile) in a loop over the
        rows that exist."""
        view, writer = self.view, frame.writer
        r = writer.variable("r", 0, view.m - 1)
        at = writer.axis(r)
        inner = block.inner({r}, barrier=not at.terms)
        row = at - rows.first
        body(frame.with_digits(frame.along(view.roles.rows, at)), inner, row * self.stride, row)
        block.loop(inner, r, rows.first, rows.first.shift(self.blocks.br), 1, view.m)

    def _along_terms(
        self, frame: CpuContractionFrame, block: CpuBlock, depth: DepthBlock, start: AxisExpr, body: EmitRegister
    ) -> None:
        """Calls body for several registers of a row side by side, then for single registers; the last may be cut."""
        writer, lanes = frame.writer, frame.lanes
        step = lanes * _REGISTERS
        whole = floordiv(depth.count, step, writer.box) * step
        spans = ((depth.first, depth.first + whole, _REGISTERS), (depth.first + whole, depth.first + depth.count, 1))
        for low, high, registers in spans:
            if low == high:
                continue
            c = writer.variable("c", 0, max(0, self.view.terms - 1 - (registers - 1) * lanes))
            inner = block.inner({c}, barrier=self.view.terms == 1)
            at = writer.counter(c) if self.view.terms > 1 else writer.axis(c)
            exists = None
            lanes_along(inner, c, [high - at], whole=registers > 1 or _is_whole(high - low, lanes))
            if inner.lane_axis is not None and inner.lane_axis.count is not None:
                exists = inner.let("exists", Inside((), c, inner.lane_axis.count))
            for number in range(registers):
                place = frame.with_digits(frame.along(self.view.roles.terms, at.shift(number * lanes)))
                body(place, inner, start + (at - depth.first).shift(number * lanes), exists, number)
            block.loop(inner, c, low, high, lanes * registers)

    def _registers(self, block: CpuBlock, number: float | str, name: str) -> list[Reg]:
        totals = []
        for _ in range(_REGISTERS):
            register = block.let(name, constant(number, self.view.kind), mutable=True)
            assert isinstance(register, Reg)
            totals.append(register)
        return totals

    # --- values ---

    def _score(self, frame: CpuContractionFrame, block: CpuBlock) -> Value:
        roles, ev = self.view.roles, frame.evaluator
        dtype = ev.dtype(roles.score)

        def read(at: Point, inner: CpuBlock, where: Where) -> Value:
            return ev.value(roles.score, at, inner, where)

        value = ev.read_through(roles.read, frame.digits()[: len(roles.sizes)], dtype, block, (), read)
        return convert(value, dtype, self.view.kind)

    def _term(self, frame: CpuContractionFrame, block: CpuBlock, p: Value, exists: Value | None) -> Value:
        """Weight times the value of the frame's stream, in the lanes that exist."""
        value, ev, kind = frame.view.op.inputs[1], frame.evaluator, self.view.kind
        term: Value = p
        if isinstance(value, Operand):
            totals = ev.operand(value, frame.point(), block)
            term = CpuCall("mul", (p, convert(totals, ev.dtype(value.value), kind)), kind)
        elif value.number != 1:
            term = CpuCall("mul", (p, convert(constant(value.number, value.dtype), value.dtype, kind)), kind)
        return term if exists is None else CpuCall("where", (exists, term, constant(0, kind)), kind)


def _is_whole(count: AxisExpr, lanes: int) -> bool:
    return not count.terms and count.const % lanes == 0
