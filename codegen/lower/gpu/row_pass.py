"""Teams of threads, which have a row, and passes of a team over its row.

near   team = thread // 32, member = thread % 32: neighbouring threads have neighbouring elements; teams use shuffles
far    team = thread % 32, member = thread // 32: neighbouring threads have neighbouring rows; teams use shared memory
pass   for k in 0 .. turns: e = members*k + member; element = width*e + v, where e < length/width
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from codegen.lower.accumulators import Joining
from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.nest_evaluator import NestEvaluator
from codegen.lower.gpu.reduce_at_point import join
from codegen.lower.gpu.rows_on_chip import RowsOnChip
from codegen.lower.points import Point, Where, axes_of
from ir.dtype import DTYPES
from ir.index.expr import ZERO, AxisExpr
from ir.kernel.gpu.kernel import WARP_LANES, Shared
from ir.kernel.gpu.nodes import (
    At,
    Barrier,
    Call,
    Element,
    GpuFor,
    GpuIf,
    LoadShared,
    SetElement,
    Shuffle,
    StShared,
    Value,
)
from ir.kernel.nodes import Bind, Reg, Within
from ir.plan.gpu_nest import AT_A_TIME, Rows

_SHUFFLED = ("fp32", "fp64", "i32", "u32", "i64", "u64")


class PassVariables(NamedTuple):
    """The variables of a pass: the round, the unrolled turn of a round, the vector of a thread."""

    round: int
    turn: int
    vector: int


class Team:
    """The team of this thread: its `row`, which exists where all of `where` hold, and the thread's number `member` in
    the team. `kept`: values that threads keep from one pass to the next."""

    def __init__(self, ev: NestEvaluator, rows: Rows, block: GpuBlock) -> None:
        writer = ev.writer
        self.ev, self.rows, self.block = ev, rows, block
        if rows.near and rows.team == WARP_LANES:
            number, member = writer.warp, writer.lane
        elif rows.near:
            number, member = writer.split(writer.thread, rows.team)
        else:
            member, number = writer.split(writer.thread, rows.height)
        self.number, self.member = ev.named(block, "team", number), ev.named(block, "member", member)
        self.row = ev.named(block, "row", writer.block[0] * rows.height + self.number)
        inside = Within(self.row, 0, rows.count)
        self.where: Where = () if writer.proves(inside) else (inside,)
        self.lane = writer.variable("v", 0, rows.width - 1)
        self._counters: dict[tuple[int, int, int], PassVariables] = {}
        self.kept: dict[Hashable, Value] = {}
        self.chip = RowsOnChip(self.declare_shared, rows.height, rows.held, self.number, rows.width, {})

    def counters(self, rounds: int, unrolled: int, before: int) -> PassVariables:
        """The variables of a pass of `rounds` times `written_out` turns, with at most `before` turns before it. Equal
        passes share variables, so that their elements are the same expressions."""
        key = rounds, unrolled, before
        if key not in self._counters:
            writer = self.ev.writer
            vectors = (before + rounds * unrolled) * self.rows.team
            names = ("k", rounds), ("u" if rounds > 1 else "k", unrolled), ("e", vectors)
            self._counters[key] = PassVariables(*(writer.variable(name, 0, count - 1) for name, count in names))
        return self._counters[key]

    def finish(self, name: str, point: Point, value: Value) -> None:
        """Makes `value` the value `name` at `point`. At other points a thread computes the value alone."""
        self.ev.finished[name, point] = value

    # --- reductions over the threads of a team ---

    def join(self, names: Sequence[str], how: Sequence[Joining], totals: Sequence[Reg]) -> list[Value]:
        """The team's totals, in all of its threads."""
        if self.rows.team == 1:
            return list(totals)
        if not self.rows.near:
            return self._join_in_shared(names, how, totals, self.rows.team, self.member, self.number, self.rows.height)
        for joining, total in zip(how, totals, strict=True):
            by = min(self.rows.team, WARP_LANES) // 2
            while by:
                self.block.assign(total, join(joining, total, shuffle("xor", total, AxisExpr(by))))
                by //= 2
        warps = self.rows.team // WARP_LANES
        if warps <= 1:
            return list(totals)
        of_team = self.ev.writer.split(self.ev.writer.warp, warps)[1]
        leads = Within(self.ev.writer.lane, 0, 1)
        return self._join_in_shared(names, how, totals, warps, of_team, self.number, self.rows.height, leads)

    def _join_in_shared(
        self,
        names: Sequence[str],
        how: Sequence[Joining],
        totals: Sequence[Reg],
        parts: int,
        part: AxisExpr,
        number: AxisExpr,
        teams: int,
        writes: Within | None = None,
    ) -> list[Value]:
        """The totals of the `parts` threads per team that write (`writes`), through shared memory."""
        block, buffers, stores = self.block, [], []
        for name, joining, own in zip(names, how, totals, strict=True):
            buffers.append(self.declare_shared(f"{name}_parts", joining.dtype, (parts, teams)))
            stores.append(StShared(At(buffers[-1], (part, number)), own))
        block.add(*([GpuIf((writes,), tuple(stores))] if writes is not None else stores), Barrier())
        joined: list[Value] = []
        for name, joining, buffer in zip(names, how, buffers, strict=True):
            total = block.let(f"{name}_total", joining.identity, mutable=True)
            assert isinstance(total, Reg)
            with block.loop("part", AxisExpr(parts), unroll=parts <= WARP_LANES) as (body, at):
                body.assign(total, join(joining, total, LoadShared(At(buffer, (at, number)), joining.dtype)))
            joined.append(total)
        return joined

    def declare_shared(self, name: str, dtype: str, shape: tuple[int, ...]) -> str:
        """A new buffer in shared memory; its name."""
        writer = self.ev.writer
        start = max((buffer.end for buffer in writer.shared), default=0)
        return writer.allocate(Shared(writer.fresh(name), dtype, shape, -(-start // 16) * 16)).name


class Pass:
    """A pass over `length` elements of a row.

    in_order  the team goes to the next turn together, as scans need it
    last      no pass follows, so that nothing is kept
    part      the number of the part of the elements that the pass runs over; None: all elements
    """

    def __init__(
        self,
        team: Team,
        block: GpuBlock,
        length: int,
        *,
        in_order: bool = False,
        last: bool = False,
        part: AxisExpr | None = None,
    ) -> None:
        rows = team.rows
        turns = rows.turns(length) if part is None else rows.own_turns(length)
        self.first = ZERO if part is None else part * turns
        self.team, self.block, self.length, self.last = team, block, length, last
        self.keep = rows.in_registers and (part is not None or not in_order)  # one block loads the terms of a scan once
        self.unrolled = turns if self.keep else 1 if in_order else min(turns, AT_A_TIME)
        self.rounds = -(-turns // self.unrolled)
        self.fills = rows.fills(length) and turns % self.unrolled == 0 and rows.turns(length) % turns == 0
        before = 0 if part is None else (rows.split - 1) * turns
        self.counters = team.counters(self.rounds, self.unrolled, before)

    @contextmanager
    def body(self) -> Iterator[tuple[GpuBlock, AxisExpr, Where]]:
        """The block of the pass's loops, the current element, and the conditions under which it exists."""
        team, rows, ev = self.team, self.team.rows, self.team.ev
        around, inner, turn = self.block, self.block, self.first
        vector = turn * rows.team + team.member
        if self.rounds > 1:
            around = inner = inner.inner({self.counters.round})
            turn += AxisExpr(0, ((self.counters.round, self.unrolled),))
        if self.unrolled > 1:
            inner = inner.inner({self.counters.turn})
            turn += AxisExpr(0, ((self.counters.turn, 1),))
        if inner is not self.block:
            inner.variables.add(self.counters.vector)
            inner.add(Bind(self.counters.vector, turn * rows.team + team.member))
            vector = AxisExpr(0, ((self.counters.vector, 1),))
        first = (turn - self.first) * rows.width if self.keep else ZERO
        count = rows.width * (rows.own_turns(rows.length) if self.keep else 1)
        with ev.neighbours(inner, team.lane, rows.width, first, count) as body:
            neighbour = AxisExpr(0, ((team.lane, 1),)) if rows.width > 1 else ZERO
            element = vector * rows.width + neighbour
            whole = self.length % rows.width == 0
            inside = Within(vector, 0, self.length // rows.width) if whole else Within(element, 0, self.length)
            if self.keep:
                body.memo.update(team.kept)
            if rows.in_shared and inner is not self.block:
                ev.chip = replace(team.chip, vector=vector, writes=not self.last)
            yield body, element, () if self.fills else (inside,)
            ev.chip = None
            if self.keep:
                self._keep(inner, body, first + neighbour, count)
        if self.unrolled > 1:
            stop = AxisExpr(self.unrolled)
            around.add(GpuFor(self.counters.turn, ZERO, stop, tuple(inner.statements), unroll=True))
        if self.rounds > 1:
            self.block.add(GpuFor(self.counters.round, ZERO, AxisExpr(self.rounds), tuple(around.statements)))

    def _keep(self, around: GpuBlock, body: GpuBlock, index: AxisExpr, count: int) -> None:
        """Keeps the elements that this pass loaded, and the values that were dear to compute."""
        team, own = self.team, {*self.counters, self.team.lane}
        blocks = [body] if body is around else [around, body]
        for block in blocks:
            if block is self.block:
                continue  # a thread has one element, whose values are still in scope
            for key, value in list(block.memo.items()):
                if key in team.kept or not isinstance(key, tuple) or not self._is_dear(key, own):
                    continue
                if isinstance(value, Reg):
                    if block is not body:
                        continue
                    array = team.ev.writer.array(value.name, value.dtype, count)
                    body.add(SetElement(array, index, value))
                    team.kept[key] = Element(array, index, value.dtype)
                elif isinstance(value, Element):
                    team.kept[key] = value

    def _is_dear(self, key: tuple[object, ...], own: set[int]) -> bool:
        """Whether the plan keeps the value under a key: an element's load, or a dear value."""
        *_, point, where = key
        if not isinstance(point, tuple) or not isinstance(where, tuple) or not axes_of(point, where) & own:
            return False
        return key[0] in ("load", *self.team.rows.dear)


def shuffle(way: str, value: Value, by: AxisExpr) -> Value:
    """The value of another lane. Dtypes without a shuffle are shuffled as i32."""
    if value.dtype in _SHUFFLED:
        return Shuffle(way, value, by, value.dtype)  # type: ignore[arg-type]
    wide = Shuffle(way, Call("cast", (value,), "i32"), by, "i32")  # type: ignore[arg-type]
    assert not DTYPES[value.dtype].is_float
    return Call("cast", (wide,), value.dtype)
