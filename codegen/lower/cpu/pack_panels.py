"""All panels of an operand, in the order in which the kernel reads them: [product][panel][k][width].

They are packed when the program is built (`pack_constant`), or by all threads before the tasks of a call. Products that
share the operand share its panels. Panels of cells are those of `codegen.lower.cpu.cell_panels`. Behind the panels of a
constant may stand a number per panel, the flag: NaN if the panel has a number that is not finite, else zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from codegen.lower.cpu.buffer_names import packed_name
from codegen.lower.cpu.builder import CpuBlock
from codegen.lower.cpu.cell_panels import (
    ColumnPanels,
    RowPanel,
    operands_of,
    pack_cells,
    pack_cells_side_by_side,
    pack_rows,
    packed_cells,
)
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, bound, depth_block, depth_blocks
from codegen.lower.cpu.finite_numbers import add_zeros, start_zeros, sum_zeros
from codegen.lower.cpu.pack import Panel, pack, pack_side_by_side
from codegen.plan.contraction_view import Contraction, lies_by_terms
from codegen.plan.cpu.cell_operands import CELL_ALGORITHMS, has_terms_in_place
from codegen.plan.cpu.contraction_blocks import block_k
from ir.index.expr import ZERO, AxisExpr, constant, floordiv, mod
from ir.kernel.cpu.kernel import Phase
from ir.kernel.cpu.nodes import Load, Store
from ir.plan.cpu import Blocks

_TERMS = 32
"""Terms of a task that packs some terms of all panels, about: every core then has tasks, and a task writes runs of some
cache lines."""


@dataclass(frozen=True)
class OperandPanels:
    """The panels of operand `side`: `count` for each of `products`, of `width` rows or columns and of `panel` elements
    of `dtype`, in a buffer `name`. flagged: whether flags stand behind them."""

    side: int
    name: str
    dtype: str
    width: int
    count: int
    products: int
    panel: int
    flagged: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to pack."""
        return self.products * self.count * self.panel == 0

    @property
    def flags(self) -> int:
        """The element of the buffer with the first flag."""
        return self.products * self.count * self.panel

    @property
    def elements(self) -> int:
        """Elements of the buffer."""
        return self.flags + (self.products * self.count if self.flagged else 0)


def operand_panels(view: Contraction, blocks: Blocks, side: int, *, flagged: bool = False) -> OperandPanels:
    """The panels of operand `side` for a kernel with these blocks."""
    columns = side == view.vector
    width, size = (blocks.nr, view.n) if columns else (blocks.mr, view.m)
    dtype, panel = view.accumulator, width * view.depth
    if blocks.algorithm in CELL_ALGORITHMS:
        dtype, panel = packed_cells(view, blocks.algorithm, side, width)
    products = view.extent(view.own_products(side))
    return OperandPanels(side, packed_name(view, side), dtype, width, -(-size // width), products, panel, flagged)


def pack_panels(frame: CpuContractionFrame, panels: OperandPanels) -> Phase:
    """The phase that packs all panels; there is one panel at least. Where panels are packed by terms, a task has some
    terms of all panels of a product; else it has one panel."""
    view, side = frame.view, panels.side
    group = view.columns if side == view.vector else view.rows
    by_terms = not panels.flagged and _packs_by_terms(frame, side, group)
    bk = _terms_of_task(frame) if by_terms else max(view.depth, 1)
    frame = replace(frame, blocks=msgspec.structs.replace(frame.blocks, bk=bk))
    parts = depth_blocks(view, frame.blocks) if by_terms else panels.count
    task = frame.writer.variable("task", 0, panels.products * parts - 1)
    body, box = CpuBlock(frame.writer, variables={task}), frame.writer.box
    at = frame.writer.axis(task)
    frame = frame.with_digits(frame.along(view.own_products(side), floordiv(at, parts, box)))
    part, origin = mod(at, parts, box), product_base(frame, side, panels.panel, panels.count)
    if by_terms:
        _pack_terms(frame, body, panels, group, origin, part)
    else:
        _pack_panel(frame, body, panels, group, origin, part)
    if panels.flagged:
        _flag_panel(frame, body, panels, origin + part * panels.panel, at.shift(panels.flags))
    return Phase(task, panels.products * parts, tuple(body.statements))


def _terms_of_task(frame: CpuContractionFrame) -> int:
    """The terms of a task that packs some terms of all panels: whole cells."""
    view = frame.view
    if frame.blocks.algorithm not in CELL_ALGORITHMS:
        return block_k(view, _TERMS)
    step = operands_of(frame).step
    steps = view.depth // step
    return -(-steps // -(-steps * step // _TERMS)) * step


def _packs_by_terms(frame: CpuContractionFrame, side: int, group: tuple[int, ...]) -> bool:
    view, algorithm = frame.view, frame.blocks.algorithm
    if algorithm in CELL_ALGORITHMS:
        return side == view.vector and has_terms_in_place(view, algorithm, frame.lanes)
    return lies_by_terms(view, side, group, frame.lanes)


def _pack_terms(
    frame: CpuContractionFrame,
    block: CpuBlock,
    panels: OperandPanels,
    group: tuple[int, ...],
    origin: AxisExpr,
    part: AxisExpr,
) -> None:
    """Packs block `part` of k of all panels from element `origin` on."""
    frame, depth = depth_block(frame, block, part)
    if frame.blocks.algorithm in CELL_ALGORITHMS:
        pack_cells_side_by_side(
            frame, block, ColumnPanels(ZERO, panels.count, panels.name, origin, panels.panel), depth
        )
        return
    size, base = frame.view.extent(group), origin + depth.first * panels.width
    first = Panel(panels.side, group, ZERO, panels.width, size, panels.name, base, panels.width, 1)
    pack_side_by_side(frame, block, first, panels.count, panels.panel, depth)


def _pack_panel(
    frame: CpuContractionFrame,
    block: CpuBlock,
    panels: OperandPanels,
    group: tuple[int, ...],
    origin: AxisExpr,
    number: AxisExpr,
) -> None:
    """Packs panel `number` of those from element `origin` on."""
    width, columns = panels.width, panels.side == frame.view.vector
    start = bound(block, "start", number * width, (panels.count - 1) * width)
    base = origin + start * (panels.panel // width)
    frame, depth = depth_block(frame, block, ZERO)
    if frame.blocks.algorithm not in CELL_ALGORITHMS:
        size = frame.view.extent(group)
        pack(frame, block, Panel(panels.side, group, start, width, size, panels.name, base, width, 1), depth)
    elif columns:
        pack_cells(frame, block, start, panels.name, base, depth)
    else:
        pack_rows(frame, block, RowPanel(start, width, panels.name, base, panels.panel // width), depth)


def _flag_panel(
    frame: CpuContractionFrame, block: CpuBlock, panels: OperandPanels, base: AxisExpr, flag: AxisExpr
) -> None:
    """Stores at `flag` zero times the numbers of the panel at `base`, summed."""
    writer, dtype = frame.writer, frame.view.accumulator
    packed, zeros = writer.buffer(panels.name), start_zeros(block, dtype)
    x = writer.variable("x", 0, panels.panel - 1)
    body = block.inner({x})
    add_zeros(body, zeros, Load(packed, base + writer.axis(x), dtype))
    block.loop(body, x, ZERO, constant(panels.panel), frame.lanes)
    block.add(Store(packed, flag, sum_zeros(block, zeros), 1))


def flag_place(frame: CpuContractionFrame, column: AxisExpr) -> AxisExpr:
    """The element of the packed columns with the flag of the panel at `column` of the current product."""
    view, nr = frame.view, frame.blocks.nr
    panels = operand_panels(view, frame.blocks, view.vector)
    panel = product_base(frame, view.vector, 1, panels.count) + floordiv(column, nr, frame.writer.box)
    return panel.shift(panels.flags)


def product_base(frame: CpuContractionFrame, side: int, panel: int, panels: int) -> AxisExpr:
    """The element of the packed operand at which the panels of the current product start: so many panels of `panel`
    elements."""
    return frame.index(frame.view.own_products(side)) * (panels * panel)
