"""Where the blocks that share a result meet: each leaves its part in memory, and the one that comes last goes on alone.

    parts[tile, part, …] := …           by each thread of the block
    barrier                             all of the block have, unless thread 0 did it alone
    thread 0: fence, ticket, fence      this block's part is published; those of earlier blocks are seen
    last = barrier, any ticket is the last of the tile
    if last: the parts, in their order

Which block is last differs from run to run; what it adds up, and in which order, does not. The last ticket sets the
counter back to 0, so that the next launch finds it so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.points import Point
from ir.index.expr import AxisExpr
from ir.kernel.gpu.kernel import COUNTER
from ir.kernel.gpu.nodes import AnyThread, Assign, Barrier, Call, Fence, If, Index, Let, TakeTicket
from ir.kernel.nodes import Comment, Const, Reg, Within


@contextmanager
def last_block(
    block: GpuBlock, at: Point, shape: tuple[int, ...], count: AxisExpr, *, alone: bool = False
) -> Iterator[GpuBlock]:
    """What is done by the last of the `count` blocks that meet at the place `at` of `shape`, all of whose stores to the
    workspace are before this; `alone`: thread 0 has made them, and waits for no other."""
    writer = block.writer
    counters = writer.meet("tickets", COUNTER, shape)
    last, ticket = Reg(writer.fresh("comes_last"), "bool"), Reg(writer.fresh("ticket"), "i32")
    own = Assign(last.name, Call("cmpeq", (ticket, Index(count.shift(-1))), "bool"))
    arrival = (Fence(), TakeTicket(ticket.name, counters, at, count), Fence(), own)
    variable = writer.variable("last", 0, 1)
    block.add(
        Comment("the last of the blocks that share this goes on"),
        Let(last.name, Const(False, "bool"), mutable=True),
        *(() if alone else (Barrier(),)),
        If((Within(writer.thread, 0, 1),), arrival),
        AnyThread(variable, last),
    )
    with block.guard(Within(writer.axis(variable), 1, 2)) as body:
        yield body
