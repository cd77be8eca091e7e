"""Panels of the parts of a constant operand with the columns (`codegen.plan.cpu.constant_parts`).

A part's panels lie in the order [product][panel][digits of k on which the part depends][width], one column wide where
the part is the same for all columns. They are packed when the program is built. Register tiles load vectors of the
parts, and compute vectors of the operand from these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from codegen.lower.cpu.buffer_names import unused_name
from codegen.lower.cpu.builder import CpuBlock, CpuWriter, loop_over
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, bound
from codegen.lower.cpu.lane_evaluator import Provider
from codegen.lower.cpu.pack import over_vectors
from codegen.lower.cpu.pack_panels import product_base
from codegen.lower.cpu.region_evaluator import RegionEvaluator
from codegen.lower.points import Point, Where
from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.constant_parts import ConstantPart, constant_parts
from codegen.plan.region_loops import RegionLoops
from ir.index.expr import ZERO, AxisExpr, floordiv, mod
from ir.kernel.cpu.kernel import CpuParam, Phase
from ir.kernel.cpu.lowered_kernel import PackedConstant
from ir.kernel.cpu.nodes import Load, Value
from ir.kernel.nodes import register_type
from ir.plan.cpu import Blocks


def pack_parts(view: Contraction, blocks: Blocks, name: str) -> tuple[PackedConstant, ...]:
    """The panels of all parts, packed by kernels whose names begin with `name`."""
    return tuple(_pack_part(view, blocks, part, f"{name}_{number}") for number, part in enumerate(constant_parts(view)))


def _pack_part(view: Contraction, blocks: Blocks, part: ConstantPart, name: str) -> PackedConstant:
    writer = CpuWriter(blocks.lanes)
    packed, panels = _packed_name(view, part), _Panels.of(view, blocks, part)
    sources = part.sources(view)
    params = (
        *(writer.param(buffer, written=False) for buffer in sources),
        CpuParam(writer.buffer(packed), part.dtype, panels.elements, True),
    )
    frame = CpuContractionFrame(view, blocks, writer, RegionEvaluator(RegionLoops(view.region, view.core), writer), {})
    phases = (_packing(frame, part, panels),) if panels.elements else ()
    comment = f"{part.value} of {view.region.name}, packed: panels of {panels.width} x {part.terms(view)}"
    kernel = writer.kernel(name, params, phases, comment)
    return PackedConstant(packed, part.dtype, panels.elements, tuple(buffer.name for buffer in sources), kernel)


class _Panels(NamedTuple):
    """The panels of a part: `per_product` for each of `products`, of `width` columns, or of one if columns share the
    part; and the elements of all."""

    products: int
    per_product: int
    width: int
    elements: int

    @staticmethod
    def of(view: Contraction, blocks: Blocks, part: ConstantPart) -> _Panels:
        """The panels of a part for a kernel with these blocks."""
        products = view.extent(view.own_products(view.vector))
        width = blocks.nr if part.in_columns else 1
        count = -(-view.n // blocks.nr) if part.in_columns else min(view.n, 1)
        return _Panels(products, count, width, products * count * width * part.terms(view))


def _packing(frame: CpuContractionFrame, part: ConstantPart, panels: _Panels) -> Phase:
    """The phase that packs all panels of a part, panel by panel."""
    view, width, writer = frame.view, panels.width, frame.writer
    task = writer.variable("task", 0, panels.products * panels.per_product - 1)
    body, at = CpuBlock(writer, variables={task}), writer.axis(task)
    product, panel = floordiv(at, panels.per_product, writer.box), mod(at, panels.per_product, writer.box)
    frame = frame.with_digits(frame.along(view.own_products(view.vector), product))
    start = bound(body, "start", panel * width, (panels.per_product - 1) * width)

    def over_terms(f: CpuContractionFrame, block: CpuBlock, left: Sequence[int]) -> None:
        if left:
            digit, *rest = left
            loop_over(block, "k", view.sizes[digit], lambda b, at: over_terms(f.with_digits({digit: at}), b, rest))
            return
        base = _place(f, part, start)

        def write(b: CpuBlock, x: AxisExpr) -> None:
            placed = f.with_digits(f.along(view.columns, x))
            value = f.evaluator.value(part.value, placed.place(part.at.exprs), b)
            b.store(_packed_name(view, part), base + (x - start), value)

        if part.in_columns:
            over_vectors(f, block, (start, width), view.n, write)
        else:
            write(block, start)

    over_terms(frame, body, part.digits)
    return Phase(task, panels.products * panels.per_product, tuple(body.statements))


@contextmanager
def parts_in_panels(frame: CpuContractionFrame, column: AxisExpr, first: int) -> Iterator[None]:
    """Within, the evaluator reads the parts from the panel of the tile at `column`: a vector from column `first` of the
    tile on, at the current digits of `frame`."""
    provided, view = frame.evaluator.provided, frame.view
    parts = {part.value: _from_panel(frame, part, column, first) for part in constant_parts(view)}
    provided.update(parts)
    try:
        yield
    finally:
        for name in parts:
            del provided[name]


def _from_panel(frame: CpuContractionFrame, part: ConstantPart, column: AxisExpr, first: int) -> Provider:
    buffer = frame.writer.buffer(_packed_name(frame.view, part))
    at = _place(frame, part, column).shift(first if part.in_columns else 0)

    def loaded(_at: Point, block: CpuBlock, _where: Where) -> Value:
        value = block.find((buffer, at))
        if value is None:
            home = block.home(at.axes)
            load = Load(buffer, at, register_type(part.dtype), "unit" if part.in_columns else "splat")
            value = home.let(part.value, load)
            home.memo[buffer, at] = value
        return value

    return loaded


def _place(frame: CpuContractionFrame, part: ConstantPart, column: AxisExpr) -> AxisExpr:
    """The element of a part's panels at a column that begins a panel, at the current digits."""
    view, terms = frame.view, part.terms(frame.view)
    panels = _Panels.of(view, frame.blocks, part)
    base = product_base(frame, view.vector, panels.width * terms, panels.per_product)
    return base + (column * terms if part.in_columns else ZERO) + frame.index(part.digits) * panels.width


def _packed_name(view: Contraction, part: ConstantPart) -> str:
    """The name of a packed part as a buffer."""
    return unused_name(f"{part.value}_packed", view.region)
