"""A tile of scores in registers: its maxima, weights and row sums.

    every turn
      s[e] := score(s[e]), base[row] := max(base[row], s[e])       -inf beyond the last term
      base[row] := maximum over the lanes that share a row, by shuffles
      shrink[row] := fn(top[row] - base[row]); top[row] := base[row]; row sums so far · shrink[row]
      sums of products so far · shrink[row], if any shrink[row] of the warp is not 1
      s[e] := fn(s[e] - base[row]), L[row] += s[e]
    weights that are rounded to 16 bits
      fn(x - base[row]) as 2^(x·a + shift[row]), shift[row] = -base[row]·a, where no exponent is far from 0

A row sum is the sum of a lane's own terms until after the last turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Protocol

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.contraction_frame import GpuContractionFrame
from codegen.lower.gpu.main_loop import Fragment as Sums
from codegen.lower.gpu.running_maximum import (
    NEAR,
    base_of,
    coarse_weight,
    near_weight,
    shift_of,
    steepness,
    undefined_term,
    weight,
)
from codegen.lower.gpu.thread_evaluator import convert
from codegen.lower.points import Point, Where
from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_tiling import steps_of
from codegen.plan.gpu.score_scale import ScoreScale
from codegen.plan.stream_mask import LastSeen
from codegen.plan.stream_view import StreamView
from ir.index.expr import AxisExpr, constant, mod
from ir.kernel.gpu.nodes import AnyLane, Call, Element, GpuFor, GpuIf, Holds, SetElement, Shuffle, Value
from ir.kernel.nodes import Const, Within
from ir.region.region import Operand


class RowsFragment(Sums, Protocol):
    """The registers of a tile of which a thread has `own_rows` rows."""

    @property
    def own_rows(self) -> int: ...

    @property
    def across(self) -> int:
        """Neighbouring lanes that have the same rows."""
        ...

    def row_of(self, element: AxisExpr) -> AxisExpr:
        """The number, among the thread's rows, of the row of a register."""
        ...

    def row_place(self, row: AxisExpr) -> AxisExpr:
        """The row of the block's tile that is the thread's row `row`."""
        ...


def reach_of(bound: LastSeen, frame: GpuContractionFrame, row: int) -> AxisExpr:
    """The last term that row `row` of the block's tile may see."""
    is_wrapped = len(frame.view.rows) > 1
    first = mod(frame.row, bound.size, frame.writer.box) if is_wrapped else frame.row
    return (first.shift(row) * bound.step).shift(bound.shift)


@contextmanager
def over_registers(block: GpuBlock, count: int) -> Iterator[tuple[GpuBlock, AxisExpr]]:
    """The body of a loop over registers, and the number of the register. Values do not leave the body, since they
    depend on the registers."""
    variable = block.writer.variable("e", 0, count - 1)
    body = block.inner({variable}, barrier=True)
    yield body, AxisExpr(0, ((variable, 1),)) if count > 1 else constant(0)
    block.add(GpuFor(variable, constant(0), constant(count), body.used_statements(), unroll=True))


@dataclass(eq=False)
class ScoreRows:
    """The rows of a thread.

    frame   of the first stream
    scores  the tile; it holds the sums of the scores' contraction, if there is one, before it holds scores
    coarse  whether weights are rounded to 16 bits for products
    bound   the bound of the terms that rows see
    scale   of coarse weights: the factor that their exponents take in. The scores of the tile, and the maxima until
            `gather`, are without it
    """

    view: StreamView
    frame: GpuContractionFrame
    scores: RowsFragment
    coarse: bool
    bound: LastSeen | None
    scale: ScoreScale | None = None
    top: str = field(init=False)
    base: str = field(init=False)
    shrink: str = field(init=False)
    sums: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        def array(name: str, *, zero: bool = False) -> str:
            return self.frame.writer.array(name, self.view.kind, self.scores.own_rows, zero=zero)

        self.top, self.base, self.shrink = array("top"), array("base"), array("shrink")
        self.sums = {row_sum.name: array(row_sum.name, zero=True) for row_sum in self.view.row_sums}

    def start(self, block: GpuBlock) -> None:
        """Writes the maxima of no terms."""
        with self._rows(block) as (body, row):
            body.add(SetElement(self.top, row, Const("-inf", self.view.kind)))

    # --- a tile of scores ---

    def clear(self, block: GpuBlock) -> None:
        """Sets the tile to 0, before a product is added."""
        with over_registers(block, self.scores.count) as (body, e):
            body.add(SetElement(self.scores.acc, e, Const(0.0, self.view.kind)))

    def finish(self, block: GpuBlock, turn: AxisExpr) -> None:
        """Replaces the contraction's sums by scores, and updates the maxima."""
        with self._rows(block) as (body, row):
            body.add(SetElement(self.base, row, self._at(self.top, row)))
        full = tuple(condition for condition in self._full(turn) if not block.knows(condition))
        if full and not any(map(block.writer.refutes, full)):
            then, orelse = block.inner(barrier=True, facts=full), block.inner(barrier=True)
            self._scores(then, turn, full=True)
            self._scores(orelse, turn, full=False)
            block.add(GpuIf(full, tuple(then.statements), tuple(orelse.statements)))
        else:
            self._scores(block, turn, full=not full)
        with self._rows(block) as (body, row):
            self._join_across_lanes(body, "max", self.base, row)
            before, top = self._at(self.top, row), body.let("top", self._at(self.base, row))
            base = body.let("base", base_of(top))
            if self.coarse:
                shrink, held = coarse_weight(before, base, self._steep), shift_of(base, self._steep)
            else:
                shrink, held = weight(self.view.fn, before, base), base
            body.add(SetElement(self.shrink, row, shrink))
            body.add(SetElement(self.top, row, top), SetElement(self.base, row, held))
            for name in self.sums.values():
                self._join(body, "mul", name, row, self._at(self.shrink, row))

    def rescale(self, block: GpuBlock, products: Sequence[RowsFragment]) -> None:
        """Rescales the sums of products to the maxima that include this tile, in warps in which the maximum of any row
        has changed. Elsewhere all factors are 1. In long rows few turns change a maximum."""
        if not products:
            return
        one = Const(1.0, self.view.kind)
        changed = [
            Call("cmpne", (self._at(self.shrink, constant(row)), one), "bool") for row in range(self.scores.own_rows)
        ]
        variable = block.writer.variable("risen", 0, 1)
        block.add(AnyLane(variable, reduce(lambda a, b: Call("or", (a, b), "bool"), changed)))
        block.variables.add(variable)
        with block.guard(Within(block.writer.axis(variable), 1, 2)) as inside:
            for sums in products:
                with over_registers(inside, sums.count) as (body, e):
                    self._join(body, "mul", sums.acc, e, self._at(self.shrink, sums.row_of(e)))

    def weigh(self, block: GpuBlock, turn: AxisExpr) -> None:
        """Replaces scores by weights, and adds the weights to the row sums."""
        if not self.coarse:
            self._weigh(block, turn, lambda score, row: weight(self.view.fn, score, self._at(self.base, row)))
            return
        steep, near = self._steep, self._all_near(block)
        then, orelse = block.inner(barrier=True, facts=(near,)), block.inner(barrier=True)
        self._weigh(then, turn, lambda score, row: near_weight(score, self._at(self.base, row), steep))
        self._weigh(orelse, turn, lambda score, row: coarse_weight(score, base_of(self._at(self.top, row)), steep))
        block.add(GpuIf((near,), tuple(then.statements), tuple(orelse.statements)))

    @property
    def _steep(self) -> float:
        """By which the scores of the tile are multiplied in exponents of 2."""
        return steepness(self.view.fn, 1.0 if self.scale is None else self.scale.factor)

    def _all_near(self, block: GpuBlock) -> Within:
        """The condition that the exponents of all of the warp's rows are near: all lanes take one way."""
        shifts = [
            Call("abs", (self._at(self.base, constant(row)),), self.view.kind) for row in range(self.scores.own_rows)
        ]
        greatest = reduce(lambda one, other: Call("max", (one, other), self.view.kind), shifts)
        far = Call("not", (Call("cmplt", (greatest, Const(NEAR, self.view.kind)), "bool"),), "bool")
        variable = block.writer.variable("far", 0, 1)
        block.add(AnyLane(variable, far))
        block.variables.add(variable)
        return Within(block.writer.axis(variable), 0, 1)

    def _weigh(self, block: GpuBlock, turn: AxisExpr, weight_of: Callable[[Value, AxisExpr], Value]) -> None:
        scores = self.scores
        with over_registers(block, scores.count) as (body, e):
            score, row = Element(scores.acc, e, self.view.kind), scores.row_of(e)
            p = body.let("p", weight_of(score, row))
            body.add(SetElement(scores.acc, e, p))
            for row_sum in self.view.row_sums:
                total, factor = self._at(self.sums[row_sum.name], row), self._factor(body, row_sum, e, turn)
                added = (
                    Call("add", (total, p), total.dtype)
                    if factor is None
                    else Call("fma", (p, factor, total), total.dtype)
                )
                body.add(SetElement(self.sums[row_sum.name], row, added))

    # --- after the last turn ---

    def gather(self, block: GpuBlock) -> None:
        """Adds up the row sums of all lanes, and makes maxima of products maxima of scores."""
        with self._rows(block) as (body, row):
            if self.scale is not None:
                self._join(body, "mul", self.top, row, Const(self.scale.factor, self.view.kind))
            for name in self.sums.values():
                self._join_across_lanes(body, "add", name, row)

    def complete(self, block: GpuBlock, products: Sequence[RowsFragment]) -> None:
        """Replaces the sums by NaN where the maximum is infinite."""
        with self._rows(block) as (body, row):
            body.add(SetElement(self.base, row, undefined_term(self._at(self.top, row))))
            for name in self.sums.values():
                self._join(body, "add", name, row, self._at(self.base, row))
        for product in products:
            with over_registers(block, product.count) as (body, e):
                self._join(body, "add", product.acc, e, self._at(self.base, product.row_of(e)))

    def values_of_row(self, row: AxisExpr) -> Mapping[str, Value]:
        """Value of the region → its maximum or sum of a row."""
        held = dict.fromkeys(self.view.maxima, self.top) | self.sums
        ev, kind = self.frame.evaluator, self.view.kind
        return {name: convert(self._at(array, row), kind, ev.dtype(name)) for name, array in held.items()}

    # --- values ---

    def _full(self, turn: AxisExpr) -> tuple[Within, ...]:
        """The conditions under which all terms of a turn exist and every row of the tile sees them."""
        frame, terms = self.frame, self.frame.tile.bk
        last = turn * terms + constant(terms - 1)
        tail = frame.inside(steps_of(frame.view, frame.tile)[2], last)
        if self.bound is None:
            return tail
        room = reach_of(self.bound, frame, 0) - last
        return (*tail, Within(room, 0, max(1, frame.writer.bounds(room)[1] + 1)))

    def _scores(self, block: GpuBlock, turn: AxisExpr, *, full: bool) -> None:
        """Writes the scores. `full`: none is -∞ because of its position."""
        scores, ev = self.scores, self.frame.evaluator
        if full and self.bound is not None:
            ev.provide(self.bound.condition, Const(True, "bool"))
        with over_registers(block, scores.count) as (body, e):
            value = body.let("score", self._score(body, e, turn, full=full))
            body.add(SetElement(scores.acc, e, value))
            self._join(body, "max", self.base, scores.row_of(e), value)
        if self.bound is not None:
            ev.provided.pop(self.bound.condition, None)

    def _score(self, block: GpuBlock, e: AxisExpr, turn: AxisExpr, *, full: bool) -> Value:
        view, roles, ev = self.view, self.view.roles, self.frame.evaluator
        if view.scores is not None:
            total = Element(self.scores.acc, e, view.kind)
            given = block.let("sum", convert(total, view.kind, view.scores.op.dtype))
            ev.provide(view.scores.name if self.scale is None else self.scale.value, given)
        digits, where, exists = self._place(block, e, turn)
        dtype = ev.dtype(roles.score)

        def read(at: Point, inner: GpuBlock, conditions: Where) -> Value:
            return ev.value(roles.score, at, inner, conditions)

        value = convert(ev.read_through(roles.read, digits, dtype, block, where, read), dtype, view.kind)
        if full or not exists:
            return value
        return Call("where", (Holds(exists), value, Const("-inf", view.kind)), view.kind)

    def _factor(self, block: GpuBlock, of: Contraction, e: AxisExpr, turn: AxisExpr) -> Value | None:
        """The factor of a weight in a row sum; None for 1. Beyond the last term the weight is 0, and the factor too."""
        value, ev, kind = of.op.inputs[1], self.frame.evaluator, self.view.kind
        if isinstance(value, Operand):
            digits, where, _ = self._place(block, e, turn)
            operand = ev.operand(value, self.frame.writer.at(of.roles.point.exprs, digits), block, where)
            unproven = tuple(condition for condition in where if not block.knows(condition))
            factor = convert(operand, ev.dtype(value.value), kind)
            if unproven:
                factor = Call("where", (Holds(unproven), factor, Const(0.0, kind)), kind)
            return factor
        return None if value.number == 1 else convert(ev.operand(value, (), block), value.dtype, kind)

    def _place(self, block: GpuBlock, e: AxisExpr, turn: AxisExpr) -> tuple[Point, Where, Where]:
        """The digits of a score; the conditions under which it exists; the conditions of these on its term."""
        frame, roles = self.frame, self.view.roles
        row, column = self.scores.place(e)
        row, term = frame.row + row, turn * self.frame.tile.bk + column
        rows, _, terms = steps_of(frame.view, frame.tile)
        digits = frame.digits(frame.along(block, roles.rows, row), frame.along(block, roles.terms, term))
        exists = tuple(condition for condition in frame.inside(terms, term) if not block.knows(condition))
        return digits, (*frame.inside(rows, row), *exists), exists

    # --- rows ---

    @contextmanager
    def _rows(self, block: GpuBlock) -> Iterator[tuple[GpuBlock, AxisExpr]]:
        with over_registers(block, self.scores.own_rows) as register:
            yield register

    def _at(self, array: str, index: AxisExpr) -> Element:
        return Element(array, index, self.view.kind)

    def _join(self, block: GpuBlock, fn: str, array: str, index: AxisExpr, value: Value) -> None:
        block.add(SetElement(array, index, Call(fn, (self._at(array, index), value), self.view.kind)))

    def _join_across_lanes(self, block: GpuBlock, fn: str, array: str, row: AxisExpr) -> None:
        """Combines the values of the lanes that share a row."""
        by = 1
        while by < self.scores.across:
            passed = Shuffle("xor", self._at(array, row), constant(by), self.view.kind)
            self._join(block, fn, array, row, passed)
            by *= 2
