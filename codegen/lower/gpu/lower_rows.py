"""Rows: a team of threads computes a row of the outputs, with the reductions and scans that the row needs.

    plan   rows, team of 128 near, 8 elements at once, kept in registers
    kernel row = block_x: for k in 0 .. 4 unrolled: x_1[8*k ..] = x[row, 8*(128*k + thread) ..]
           m = max over the team; for k: e[8*k + v] = exp(x_1[8*k + v] - m); s = sum over the team; y = e / s

Where rows are few, several blocks share a row. Of reductions the last block joins the parts (`meeting`); of scans
every block waits for the parts before its own (`split_scan`). In a part, sums of exponentials are relative to the
part's own maximum. In every pass over a row a thread has the same elements, so that a pass can use values that an
earlier pass computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from codegen.lower.accumulators import Joining
from codegen.lower.gpu.buffer_axes import Runs, merged_axes
from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.lower_points import write
from codegen.lower.gpu.meeting import last_block
from codegen.lower.gpu.nest_evaluator import NestEvaluator
from codegen.lower.gpu.reduce_at_point import join
from codegen.lower.gpu.row_pass import Pass, Team
from codegen.lower.gpu.row_scan import Scans, scan_term
from codegen.lower.gpu.running_maximum import base_of, undefined_term, weight
from codegen.lower.gpu.split_scan import SplitScan
from codegen.lower.gpu.thread_evaluator import convert
from codegen.lower.points import Point, Where
from codegen.plan.gpu.nest_tiling import row_values, terms_of
from codegen.plan.region_loops import RegionLoops
from codegen.plan.relative_sums import relative_sums
from ir.index.expr import ZERO, AxisExpr
from ir.index.map import support
from ir.kernel.gpu.nodes import Call, Holds, LoadGlobal, StGlobal, Value
from ir.kernel.nodes import Assign, Reg, Within
from ir.plan.gpu_nest import Rows
from ir.region.region import Yield, behind

Term = Callable[[str, Joining, AxisExpr, GpuBlock, Where], Value]
"""A term of a reduction: (name, how terms are combined, number of the term, block, conditions of its existence)."""


def lower_rows(loops: RegionLoops, rows: Rows, *, approximate: bool) -> tuple[NestEvaluator, GpuBlock]:
    """The evaluator, which holds the parts of the kernel, and the kernel's body."""
    writer = GpuWriter(rows.threads, (rows.blocks, rows.split, 1))
    together = frozenset(row_values(loops))

    def terms(value: str) -> Runs:
        if value in together:
            return [range(loops.ops[value].reduced)]
        return [group.axes for group in loops.reduce_groups(value)]

    ev = NestEvaluator(loops, writer, merged_axes(loops, [rows.axes, rows.inner], terms), approximate=approximate)
    ev.kept = frozenset(rows.shared)
    body = GpuBlock(writer)
    if 0 not in loops.shape:
        _Rows(ev, rows, body).lower()
    return ev, body


class _Rows:
    def __init__(self, ev: NestEvaluator, rows: Rows, block: GpuBlock) -> None:
        self.ev, self.rows, self.block = ev, rows, block
        self.loops, self.shape = ev.loops, ev.loops.shape
        self.team = Team(ev, rows, block)
        self.row = ev.writer.coordinates(self.team.row, [self.shape[axis] for axis in rows.axes])

    def lower(self) -> None:
        if self.rows.split > 1:
            lower_parts = self._lower_split_scans if self.rows.scans else self._lower_split
            lower_parts()
            return
        for names in self._levels():
            for together in self._with_equal_terms(names):
                self._reduce(together)
        self._outputs()

    # --- reductions ---

    def _levels(self) -> list[list[str]]:
        """The reductions of a row in levels: a reduction stands in a later level than the reductions that it needs."""
        names = row_values(self.loops)
        level: dict[str, int] = {}
        for name in names:
            below = set(behind(self.loops.ops, name)) - {name}
            level[name] = max((level[other] + 1 for other in names if other in below and other in level), default=0)
        return [[name for name in names if level[name] == depth] for depth in sorted(set(level.values()))]

    def _with_equal_terms(self, names: Sequence[str]) -> list[list[str]]:
        """The names in groups with equal numbers of terms: a group shares a pass."""
        values: dict[int, list[str]] = {}
        for name in names:
            values.setdefault(terms_of(self.loops, name), []).append(name)
        return list(values.values())

    def _reduce(self, names: Sequence[str]) -> None:
        """Writes one pass over the row that computes these reductions."""
        self._finish(names, self._reduce_terms(names, terms_of(self.loops, names[0]), self._term))

    def _lower_split(self) -> None:
        """Writes the passes over this block's part of the row; then, for the last block, the passes over the parts, and
        the outputs."""
        writer, rows, part = self.ev.writer, self.rows, self.ev.writer.block[1]
        names = row_values(self.loops)
        relative = {name: base for name, base in relative_sums(self.ev.region).items() if base.maximum in names}
        own = self._reduce_part(part, {base.maximum for base in relative.values()})
        alone = rows.height == 1
        leads = Within(writer.thread if alone else self.team.member, 0, 1)
        parts = {name: writer.meet(f"{name}_of_blocks", own[name].dtype, (rows.count, rows.split)) for name in names}
        for name in names:
            self.block.add(StGlobal(parts[name], (self.team.row, part), own[name], (*self.team.where, leads)))
        tops: dict[str, Value] = {}

        def load(name: str, element: AxisExpr, where: Where) -> Value:
            return LoadGlobal(parts[name], (self.team.row, element), own[name].dtype, (*self.team.where, *where))

        def part_of(name: str, how: Joining, element: AxisExpr, block: GpuBlock, where: Where) -> Value:
            if name not in relative:
                return load(name, element, where)
            maximum, fn = relative[name]
            top = tops[maximum]
            greatest = convert(load(maximum, element, where), top.dtype, how.dtype)
            shrink = block.let("shrink", weight(fn, greatest, convert(base_of(top), top.dtype, how.dtype)))
            return Call("mul", (load(name, element, where), shrink), how.dtype)

        with last_block(self.block, writer.block[:1], (rows.blocks,), AxisExpr(rows.split), alone=alone) as last:
            self.block = self.team.block = last
            for level in self._levels():
                totals = dict(zip(level, self._reduce_terms(level, rows.split, part_of), strict=True))
                tops |= totals
                for name in level:
                    if name in relative:
                        top = tops[relative[name].maximum]
                        no_number = convert(undefined_term(top), top.dtype, totals[name].dtype)
                        totals[name] = Call("add", (totals[name], no_number), totals[name].dtype)
                self._finish(level, list(totals.values()))
            self._outputs()

    def _lower_split_scans(self) -> None:
        """Writes a pass that sums this block's part of the row, and a pass that scans the part from the total of the
        parts before it."""
        names, parts = self.rows.scans, SplitScan(self.team, self.block)
        totals = self._reduce_terms(names, self.rows.length, self._scan_term, parts.part)
        parts.publish(self.block, dict(zip(names, totals, strict=True)))
        parts.await_earlier(self.block)
        before = self._reduce_terms(names, self.rows.split, parts.total_before)
        self._outputs(parts.part, dict(zip(names, before, strict=True)))

    def _scan_term(self, name: str, how: Joining, element: AxisExpr, block: GpuBlock, where: Where) -> Value:
        """A term of a scan."""
        point = self._outer(self.ev.writer.coordinates(element, self._inner_sizes))
        return scan_term(self.ev, name, how, point, block, (*self.team.where, *where))

    def _reduce_part(self, part: AxisExpr, bases: Collection[str]) -> dict[str, Value]:
        """The reductions of this block's terms. A maximum of `bases` counts as 0 for sums relative to it where it is
        -∞."""
        around, values = self.block, dict[str, Value]()
        self.block = self.team.block = around.inner(barrier=True)  # values that depend on a part's maximum stay here
        for level in self._levels():
            totals = self._reduce_terms(level, terms_of(self.loops, level[0]), self._term, part)
            values |= zip(level, totals, strict=True)
            self._finish(level, [base_of(values[name]) if name in bases else values[name] for name in level])
        around.add(*self.block.statements)
        self.block = self.team.block = around
        self.team.kept.clear()
        return values

    def _reduce_terms(self, names: Sequence[str], length: int, term: Term, part: AxisExpr | None = None) -> list[Value]:
        """The reductions of `length` terms of a row, or of a part of them: first every thread's terms, then the team's
        results."""
        joinings = [self.ev.joining(self.loops.ops[name]) for name in names]
        totals = []
        for name, how in zip(names, joinings, strict=True):
            register = self.block.let(f"{name}_own", how.identity, mutable=True)
            assert isinstance(register, Reg)
            totals.append(register)
        if length:
            with Pass(self.team, self.block, length, part=part).body() as (block, element, where):
                for name, how, total in zip(names, joinings, totals, strict=True):
                    value = term(name, how, element, block, where)
                    if where:
                        value = Call("where", (Holds(where), value, how.identity), how.dtype)
                    block.add(Assign(total.name, join(how, total, value)))
        return self.team.join(names, joinings, totals)

    def _term(self, name: str, how: Joining, element: AxisExpr, block: GpuBlock, where: Where) -> Value:
        """A term of a reduction."""
        op = self.loops.ops[name]
        reduced = self.ev.writer.coordinates(element, op.domain[len(op.shape) :])
        value = self.ev.operand(op.inputs[0], (*self._point_of(name), *reduced), block, (*self.team.where, *where))
        return convert(value, how.source, how.dtype)

    def _finish(self, names: Sequence[str], totals: Sequence[Value]) -> None:
        """Makes the reductions of the row known to all threads of its team."""
        for name, total in zip(names, totals, strict=True):
            value = self.block.let(name, convert(total, total.dtype, self.loops.ops[name].dtype))
            self.team.finish(name, self._point_of(name), value)

    def _point_of(self, name: str) -> Point:
        """The point of a reduction that this row needs."""
        site = next(site for site in self.loops.core.sites if site.value == name and site.scope == self.loops.scope)
        return self.ev.writer.at(site.map.exprs, self._outer([ZERO] * len(self.rows.inner)))

    # --- outputs ---

    def _outer(self, inner: Sequence[AxisExpr]) -> Point:
        """A point of the outputs."""
        values = [ZERO] * len(self.shape)
        for axis, at in (*zip(self.rows.axes, self.row, strict=True), *zip(self.rows.inner, inner, strict=True)):
            values[axis] = at
        return tuple(values)

    @property
    def _inner_sizes(self) -> list[int]:
        return [self.shape[axis] for axis in self.rows.inner]

    def _outputs(self, part: AxisExpr | None = None, before: Mapping[str, Value] = MappingProxyType({})) -> None:
        """Writes the outputs, or a part of them; `before` are the values of scans before the part."""
        sizes = self._inner_sizes
        once = [result for result in self.ev.region.yields if self._is_once_per_row(result)]
        others = [result for result in self.ev.region.yields if result not in once]
        first = Within(self.team.member, 0, 1)
        lead = () if self.ev.writer.proves(first) else (first,)
        for result in once:
            point = self._outer([ZERO] * len(sizes))
            write(self.ev, result, point, self.block, (*self.team.where, *lead))
        if not others:
            return
        length = math.prod(sizes)
        scans = Scans(self.ev, self.team, self.block, length, before)
        outputs = Pass(self.team, self.block, length, in_order=scans.any, last=True, part=part)
        with outputs.body() as (block, element, where):
            point = self._outer(self.ev.writer.coordinates(element, sizes))
            scans.step(block, point, (*self.team.where, *where), where)
            for result in others:
                write(self.ev, result, point, block, (*self.team.where, *where))

    def _is_once_per_row(self, result: Yield) -> bool:
        """Whether an output has one element per row."""
        used = range(len(self.shape)) if result.at is None else support(result.at)
        return not any(axis in used and self.shape[axis] > 1 for axis in self.rows.inner)
