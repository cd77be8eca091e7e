"""The meeting of blocks that share a result: every block stores its part, and the last block joins the parts.

    parts[tile, part, …] := …           by all threads of the block
    barrier                             all threads have stored; not needed if thread 0 alone stores
    thread 0: fence, ticket, fence      publishes this block's part; makes the parts of earlier blocks visible
    last = barrier, any ticket is the last of the tile
    if last: joins the parts, in order

Which block is last differs from run to run; the terms that it adds and their order do not. The last ticket sets the
counter back to 0 for the next launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.points import Point
from ir.index.expr import AxisExpr
from ir.kernel.gpu.kernel import COUNTER
from ir.kernel.gpu.nodes import AnyThread, Barrier, Call, Fence, GpuIf, Index, TakeTicket
from ir.kernel.nodes import Assign, Comment, Const, Let, Reg, Within


@contextmanager
def last_block(
    block: GpuBlock, at: Point, shape: tuple[int, ...], count: AxisExpr, *, alone: bool = False
) -> Iterator[GpuBlock]:
    """The statements of the last of the `count` blocks that meet at the element `at` of `shape`. All stores to the
    workspace come before. `alone`: thread 0 alone stores, and waits for no other thread."""
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
        GpuIf((Within(writer.thread, 0, 1),), arrival),
        AnyThread(variable, last),
    )
    with block.guard(Within(writer.axis(variable), 1, 2)) as body:
        yield body
