"""Constant operands are packed when the program is built: all panels, in the order in which the kernel reads them."""

from __future__ import annotations

import msgspec

from codegen.lower.cpu.builder import CpuBlock, CpuWriter
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, bound, depth_block
from codegen.lower.cpu.pack import Panel, pack
from codegen.lower.cpu.region_evaluator import RegionEvaluator
from codegen.plan.contraction_view import Contraction
from codegen.plan.region_loops import RegionLoops
from ir.index.expr import AxisExpr, constant, floordiv, mod
from ir.kernel.cpu.kernel import CpuParam, Phase
from ir.kernel.cpu.lowered_kernel import PackedConstant
from ir.plan.cpu import Blocks
from ir.region.region import Region


def pack_constant(view: Contraction, blocks: Blocks, side: int, name: str) -> PackedConstant:
    """Operand `side` as [product][panel][k][width], packed by a kernel `name`. Products that share it have one copy."""
    columns = side == view.vector
    width, size = (blocks.nr, view.n) if columns else (blocks.mr, view.m)
    group = view.columns if columns else view.rows
    repeats = (*view.depends(side, view.batch), *view.depends(side, view.outer))
    panels = -(-size // width)
    result = packed_name(view, side)
    elements = view.extent(repeats) * panels * width * view.depth
    writer = CpuWriter(blocks.lanes)
    read = dict.fromkeys(view.buffer(read) for read in view.roles.reads[side])
    params = (
        *(writer.param(buffer, written=False) for buffer in read),
        CpuParam(writer.buffer(result), view.accumulator, elements, True),
    )
    whole = msgspec.structs.replace(blocks, bk=max(view.depth, 1))
    frame = CpuContractionFrame(view, whole, writer, RegionEvaluator(RegionLoops(view.region, view.core), writer), {})
    tasks = view.extent(repeats) * panels if elements else 0
    task = writer.variable("task", 0, max(tasks - 1, 0))
    body = CpuBlock(writer, variables={task})
    if tasks:
        at = writer.axis(task)
        start = bound(body, "start", mod(at, panels, writer.box) * width, (panels - 1) * width)
        frame = frame.with_digits(frame.along(repeats, floordiv(at, panels, writer.box)))
        frame, depth = depth_block(frame, body, constant(0))
        base = product_base(frame, side, width, size) + start * view.depth
        pack(frame, body, Panel(side, group, start, width, size, result, base, width, 1), depth)
    phases = (Phase(task, tasks, tuple(body.statements)),) if tasks else ()
    comment = f"{view.operand(side).value} of {view.region.name}, packed: panels of {width} x {view.depth}"
    kernel = writer.kernel(name, params, phases, comment)
    return PackedConstant(result, view.accumulator, elements, tuple(buffer.name for buffer in read), kernel)


def product_base(frame: CpuContractionFrame, side: int, width: int, size: int) -> AxisExpr:
    """The element of the packed operand at which the panels of the current product start."""
    view = frame.view
    group = (*view.depends(side, view.batch), *view.depends(side, view.outer))
    return frame.index(group) * (-(-size // width) * width * view.depth)


def packed_name(view: Contraction, side: int) -> str:
    """The name of the packed operand as a buffer."""
    return unused_name(f"{view.operand(side).value}_packed{side}", view.region)


def unused_name(name: str, region: Region) -> str:
    """`name`, or `name` with underscores if a buffer of the region has the name."""
    taken = {buffer.name for buffer in (*region.inputs, *region.outputs)}
    while name in taken:
        name += "_"
    return name
