"""The loops around a block of rows and columns: tasks where the plan binds them to threads, else loops in a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping

from codegen.lower.cpu.builder import CpuBlock, CpuWriter
from ir.index.expr import ZERO, AxisExpr, constant, coordinates
from ir.kernel.cpu.kernel import Phase


def task_phase(
    writer: CpuWriter, threads: Collection[str], loops: Mapping[str, int], body: Callable[..., None]
) -> Phase:
    """One phase with a task per point of the loops in `threads`; the other loops run inside a task. `loops`: axis piece
    → count, outermost first. Calls body(block, number, …) with the numbers of the loops, in order."""
    bound = {piece: count for piece, count in loops.items() if piece in threads}
    tasks = math.prod(bound.values())
    task = writer.variable("task", 0, tasks - 1)
    block = CpuBlock(writer, variables={task})
    numbers = dict(zip(bound, coordinates(writer.axis(task), list(bound.values()), writer.box), strict=True))

    def serial(around: CpuBlock, left: list[str], at: dict[str, AxisExpr]) -> None:
        if not left:
            body(around, *(at[piece] for piece in loops))
            return
        piece, *rest = left
        if loops[piece] == 1:
            serial(around, rest, {**at, piece: ZERO})
            return
        variable = writer.variable(piece[0], 0, loops[piece] - 1)
        inner = around.inner({variable})
        serial(inner, rest, {**at, piece: writer.axis(variable)})
        around.loop(inner, variable, ZERO, constant(loops[piece]))

    serial(block, [piece for piece in loops if piece not in bound], numbers)
    return Phase(task, tasks, tuple(block.statements))
