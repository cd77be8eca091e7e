"""Constant operands are packed when the program is built: all panels, in the order in which the kernel reads them."""

from __future__ import annotations

import msgspec

from codegen.lower.cpu.buffer_names import packed_name
from codegen.lower.cpu.builder import CpuBlock, CpuWriter
from codegen.lower.cpu.cell_panels import RowPanel, pack_cells, pack_rows, packed_cells
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, bound, depth_block
from codegen.lower.cpu.finite_numbers import add_zeros, start_zeros, sum_zeros
from codegen.lower.cpu.pack import Panel, pack
from codegen.lower.cpu.region_evaluator import RegionEvaluator
from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.cell_operands import CELL_ALGORITHMS
from codegen.plan.region_loops import RegionLoops
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, mod
from ir.kernel.cpu.kernel import CpuParam, Phase
from ir.kernel.cpu.lowered_kernel import PackedConstant
from ir.kernel.cpu.nodes import Load, Store
from ir.plan.cpu import Blocks


def pack_constant(view: Contraction, blocks: Blocks, side: int, name: str, *, flagged: bool = False) -> PackedConstant:
    """Operand `side` as [product][panel][k][width], packed by a kernel `name`. Products that share it have one copy.
    The panels of cells are those of `codegen.lower.cpu.cell_panels`. flagged: behind the panels stands a number per
    panel, which is NaN if the panel has a number that is not finite, else zero."""
    columns = side == view.vector
    width, size = (blocks.nr, view.n) if columns else (blocks.mr, view.m)
    group = view.columns if columns else view.rows
    repeats = _packed_products(view, side)
    panels = -(-size // width)
    result = packed_name(view, side)
    dtype, panel_elements = view.accumulator, width * view.depth
    by_cells = blocks.algorithm in CELL_ALGORITHMS
    if by_cells:
        dtype, panel_elements = packed_cells(view, blocks.algorithm, side, width)
    flags = elements = view.extent(repeats) * panels * panel_elements
    elements += view.extent(repeats) * panels if flagged else 0
    writer = CpuWriter(blocks.lanes)
    read = dict.fromkeys(view.buffer(read) for read in view.roles.reads[side])
    params = (
        *(writer.param(buffer, written=False) for buffer in read),
        CpuParam(writer.buffer(result), dtype, elements, True),
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
        base = product_base(frame, side, panel_elements, panels) + start * (panel_elements // width)
        if not by_cells:
            pack(frame, body, Panel(side, group, start, width, size, result, base, width, 1), depth)
            if flagged:
                _flag_panel(frame, body, result, base, panel_elements, at.shift(flags))
        elif columns:
            pack_cells(frame, body, start, result, base, depth)
        else:
            pack_rows(frame, body, RowPanel(start, width, result, base, panel_elements // width), depth)
    phases = (Phase(task, tasks, tuple(body.statements)),) if tasks else ()
    comment = f"{view.operand(side).value} of {view.region.name}, packed: panels of {width} x {view.depth}"
    kernel = writer.kernel(name, params, phases, comment)
    return PackedConstant(result, dtype, elements, tuple(buffer.name for buffer in read), kernel)


def _flag_panel(
    frame: CpuContractionFrame, block: CpuBlock, buffer: str, base: AxisExpr, elements: int, flag: AxisExpr
) -> None:
    """Stores at `flag` zero times the `elements` numbers from `base` on, summed."""
    writer, dtype = frame.writer, frame.view.accumulator
    packed, zeros = writer.buffer(buffer), start_zeros(block, dtype)
    x = writer.variable("x", 0, elements - 1)
    body = block.inner({x})
    add_zeros(body, zeros, Load(packed, base + writer.axis(x), dtype))
    block.loop(body, x, ZERO, constant(elements), frame.lanes)
    block.add(Store(packed, flag, sum_zeros(block, zeros), 1))


def flag_place(frame: CpuContractionFrame, column: AxisExpr) -> AxisExpr:
    """The element of the packed columns with the flag of the panel at `column` of the current product."""
    view, nr = frame.view, frame.blocks.nr
    panels = -(-view.n // nr)
    panel = product_base(frame, view.vector, 1, panels) + floordiv(column, nr, frame.writer.box)
    return panel.shift(view.extent(_packed_products(view, view.vector)) * panels * nr * view.depth)


def product_base(frame: CpuContractionFrame, side: int, panel: int, panels: int) -> AxisExpr:
    """The element of the packed operand at which the panels of the current product start: so many panels of `panel`
    elements."""
    return frame.index(_packed_products(frame.view, side)) * (panels * panel)


def _packed_products(view: Contraction, side: int) -> tuple[int, ...]:
    """The digits of the products that have panels of operand `side` of their own."""
    return (*view.depends(side, view.batch), *view.depends(side, view.outer))
