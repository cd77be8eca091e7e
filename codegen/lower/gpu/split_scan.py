"""Scans of rows that several blocks share: a block scans its part of the row from the totals of the parts before it.

    part = ticket of the row                                   parts are numbered in the order in which blocks start
    totals[row, part] := this part, joined                     a pass over the part
    thread 0: fence, ticket of arrived[row, part]
    every q < part: await arrived[row, q]; fence               by the threads of the block, side by side
    barrier
    before = totals[row, 0 .. part], joined
    scans of this part, which start from `before`              a second pass over the part

A block waits only for blocks that started before it. These publish their totals before they wait, so that no block
waits forever, however many blocks are resident. Totals are joined in an order that depends on the part alone, so that
every run gives the same bits. (A look-back that takes the running value of the nearest block that has one joins in an
order that depends on the run.) Every block that awaits a part takes a ticket of it, and the last of them sets the
counter back to 0.
"""

from __future__ import annotations

from collections.abc import Mapping

from codegen.lower.accumulators import Joining
from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.row_pass import Team
from codegen.lower.points import Where
from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.gpu.kernel import COUNTER
from ir.kernel.gpu.nodes import (
    At,
    AwaitTicket,
    Barrier,
    Call,
    Fence,
    GpuIf,
    Holds,
    LoadGlobal,
    LoadShared,
    StGlobal,
    StShared,
    TakeTicket,
    Value,
)
from ir.kernel.nodes import Comment, Pick, Reg, Within


class SplitScan:
    """The blocks that share the scans of a team's row. `part`: the number of this block's part, from its start on."""

    def __init__(self, team: Team, block: GpuBlock) -> None:
        self.team, self.writer, self.parts = team, block.writer, team.rows.split
        self.shape = (team.rows.count, self.parts)
        self.arrived = self.writer.meet("arrived", COUNTER, self.shape)
        self.totals: dict[str, str] = {}
        self.part = self._number_of_block(block)

    @property
    def _first_thread(self) -> Within:
        return Within(self.writer.thread, 0, 1)

    def _number_of_block(self, block: GpuBlock) -> AxisExpr:
        """How many blocks of the row started before this one."""
        starts = self.writer.meet("starts", COUNTER, (self.team.rows.count,))
        ticket = Reg(self.writer.fresh("start"), "i32")
        place = At(self.team.declare_shared("number", "i32", (1,)), (ZERO,))
        taken = TakeTicket(ticket.name, starts, (self.team.row,), constant(self.parts))
        variable = self.writer.variable("part", 0, self.parts - 1)
        block.add(
            Comment("parts of the row are numbered as their blocks start"),
            GpuIf((self._first_thread,), (taken, StShared(place, ticket))),
            Barrier(),
            Pick(variable, LoadShared(place, "i32")),
        )
        block.variables.add(variable)
        return self.writer.axis(variable)

    def publish(self, block: GpuBlock, totals: Mapping[str, Value]) -> None:
        """Publishes the totals of this part."""
        for name, total in totals.items():
            self.totals[name] = self.writer.meet(f"{name}_of_parts", total.dtype, self.shape)
            block.add(StGlobal(self.totals[name], (self.team.row, self.part), total, (self._first_thread,)))
        ticket, count = self.writer.fresh("arrival"), constant(self.parts) - self.part
        arrival = (Fence(), TakeTicket(ticket, self.arrived, (self.team.row, self.part), count))
        block.add(GpuIf((self._first_thread,), arrival))

    def await_earlier(self, block: GpuBlock) -> None:
        """Waits until all parts before this one are published."""
        threads = self.team.rows.threads
        block.add(Comment("the parts before this one"))
        with block.loop("round", constant(-(-self.parts // threads))) as (body, number):
            earlier = number * threads + self.writer.thread
            with body.guard(Within(self.part - earlier, 1, self.parts)) as inside:
                count = constant(self.parts) - earlier
                inside.add(AwaitTicket(self.arrived, (self.team.row, earlier), count), Fence())
        block.add(Barrier())

    def total_before(self, name: str, how: Joining, part: AxisExpr, block: GpuBlock, where: Where) -> Value:
        """The total of a part; the identity of the scan for parts that are not before this one."""
        before = Within(self.part - part, 1, self.parts)
        total = LoadGlobal(self.totals[name], (self.team.row, part), how.dtype, (before,))
        return Call("where", (Holds((before,)), total, how.identity), how.dtype)
