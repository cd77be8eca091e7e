"""The loops around a block of rows and columns: every block is a task, or one task has all blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from codegen.lower.cpu.builder import CpuBlock, CpuWriter
from ir.index.expr import ZERO, AxisExpr, constant, coordinates
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
        if loops[piece] == 1:
            serial(around, rest, *at, ZERO)
            return
        variable = writer.variable(piece[0], 0, loops[piece] - 1)
        inner = around.inner({variable})
        serial(inner, rest, *at, writer.axis(variable))
        around.loop(inner, variable, ZERO, constant(loops[piece]))

    if parallel:
        body(block, *coordinates(writer.axis(task), list(loops.values()), writer.box))
    else:
        serial(block, list(loops))
    return Phase(task, tasks, tuple(block.statements))
