"""Panels of the parts of a constant operand with the columns (`codegen.plan.cpu.constant_parts`).

A part's panels lie in the order [product][panel][digits of k on which the part depends][width]. They are packed when
the program is built. Register tiles load vectors of the parts, and compute vectors of the operand from these.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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
from ir.index.expr import AxisExpr, floordiv, mod
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
    packed, count = _packed_name(view, part), -(-view.n // blocks.nr)
    products = view.extent(view.own_products(view.vector))
    elements = products * count * blocks.nr * part.terms(view)
    sources = part.sources(view)
    params = (
        *(writer.param(buffer, written=False) for buffer in sources),
        CpuParam(writer.buffer(packed), part.dtype, elements, True),
    )
    frame = CpuContractionFrame(view, blocks, writer, RegionEvaluator(RegionLoops(view.region, view.core), writer), {})
    phases = (_packing(frame, part, products, count),) if elements else ()
    comment = f"{part.value} of {view.region.name}, packed: panels of {blocks.nr} x {part.terms(view)}"
    kernel = writer.kernel(name, params, phases, comment)
    return PackedConstant(packed, part.dtype, elements, tuple(buffer.name for buffer in sources), kernel)


def _packing(frame: CpuContractionFrame, part: ConstantPart, products: int, count: int) -> Phase:
    """The phase that packs all panels of a part, panel by panel."""
    view, width, writer = frame.view, frame.blocks.nr, frame.writer
    task = writer.variable("task", 0, products * count - 1)
    body, at = CpuBlock(writer, variables={task}), writer.axis(task)
    frame = frame.with_digits(frame.along(view.own_products(view.vector), floordiv(at, count, writer.box)))
    start = bound(body, "start", mod(at, count, writer.box) * width, (count - 1) * width)

    def over_terms(f: CpuContractionFrame, block: CpuBlock, left: tuple[int, ...]) -> None:
        if left:
            digit, *rest = left
            size = view.sizes[digit]
            loop_over(block, "k", size, lambda b, number: over_terms(f.with_digits({digit: number}), b, tuple(rest)))
            return
        base = _place(f, part, start)

        def write(b: CpuBlock, x: AxisExpr) -> None:
            placed = f.with_digits(f.along(view.columns, x))
            value = f.evaluator.value(part.value, placed.place(part.at.exprs), b)
            b.store(_packed_name(view, part), base + (x - start), value)

        over_vectors(f, block, (start, width), view.n, write)

    over_terms(frame, body, part.digits)
    return Phase(task, products * count, tuple(body.statements))


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
    at = _place(frame, part, column).shift(first)

    def load(_at: Point, block: CpuBlock, _where: Where) -> Value:
        value = block.find((buffer, at))
        if value is None:
            home = block.home(at.axes)
            value = home.let(part.value, Load(buffer, at, register_type(part.dtype)))
            home.memo[buffer, at] = value
        return value

    return load


def _place(frame: CpuContractionFrame, part: ConstantPart, column: AxisExpr) -> AxisExpr:
    """The element of a part's panels at a column that begins a panel, at the current digits."""
    view, nr = frame.view, frame.blocks.nr
    terms, panels = part.terms(view), -(-view.n // nr)
    return product_base(frame, view.vector, nr * terms, panels) + column * terms + frame.index(part.digits) * nr


def _packed_name(view: Contraction, part: ConstantPart) -> str:
    """The name of a packed part as a buffer."""
    return unused_name(f"{part.value}_packed", view.region)
