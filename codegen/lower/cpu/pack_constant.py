"""The kernel that packs all panels of a constant operand, when the program is built."""

from __future__ import annotations

from codegen.lower.cpu.builder import CpuWriter
from codegen.lower.cpu.contraction_frame import CpuContractionFrame
from codegen.lower.cpu.pack_panels import operand_panels, pack_panels
from codegen.lower.cpu.region_evaluator import RegionEvaluator
from codegen.plan.contraction_view import Contraction
from codegen.plan.region_loops import RegionLoops
from ir.kernel.cpu.kernel import CpuParam
from ir.kernel.cpu.lowered_kernel import PackedConstant
from ir.plan.cpu import Blocks


def pack_constant(view: Contraction, blocks: Blocks, side: int, name: str, *, flagged: bool = False) -> PackedConstant:
    """The panels of operand `side`, packed by a kernel `name`. flagged: with flags behind the panels."""
    panels = operand_panels(view, blocks, side, flagged=flagged)
    writer = CpuWriter(blocks.lanes)
    read = dict.fromkeys(view.buffer(read) for read in view.roles.reads[side])
    params = (
        *(writer.param(buffer, written=False) for buffer in read),
        CpuParam(writer.buffer(panels.name), panels.dtype, panels.elements, True),
    )
    frame = CpuContractionFrame(view, blocks, writer, RegionEvaluator(RegionLoops(view.region, view.core), writer), {})
    phases = () if panels.is_empty else (pack_panels(frame, panels),)
    comment = f"{view.operand(side).value} of {view.region.name}, packed: panels of {panels.width} x {view.depth}"
    kernel = writer.kernel(name, params, phases, comment)
    return PackedConstant(panels.name, panels.dtype, panels.elements, tuple(buffer.name for buffer in read), kernel)
