"""The loops around a block of rows and columns: every block is a task, or one task has all blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from codegen.lower.cpu.builder import CpuBlock, CpuWriter, loop_over
from ir.index.expr import AxisExpr, coordinates
from ir.kernel.cpu.kernel import Phase


def task_phase(writer: CpuWriter, parallel: bool, loops: Mapping[str, int], body: Callable[..., None]) -> Phase:
    """One phase with a task per point of the loops if `parallel`, else one task that runs the loops. `loops`: axis
    piece → count, outermost first. Calls body(block, number, …) with the numbers of the loops, in order."""
    tasks = math.prod(loops.values()) if parallel else 1
    task = writer.variable("task", 0, tasks - 1)
    block = CpuBlock(writer, variables={task})

    def serial(around: CpuBlock, left: list[str], *at: AxisExpr) -> None:
        if not left:
            body(around, *at)
            return
        piece, *rest = left
        loop_over(around, piece[0], loops[piece], lambda inner, number: serial(inner, rest, *at, number))

    if parallel:
        body(block, *coordinates(writer.axis(task), list(loops.values()), writer.box))
    else:
        serial(block, list(loops))
    return Phase(task, tasks, tuple(block.statements))
