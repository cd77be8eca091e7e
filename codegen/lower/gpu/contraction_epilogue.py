"""The epilogue of a contraction: the region's ops on every accumulator of a block's tile, and the stores.

epilogue bias, relu: for every e of acc
  acc[e] := relu(add(acc[e], bias[column]))
staged     acc → Cs[rows, columns] in shared memory → stores of 16 bytes
vectors    neighbours in registers → memory
elements   one by one, when the epilogue has computed them
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from codegen.lower.gpu.builder import GpuBlock
from codegen.lower.gpu.contraction_frame import GpuContractionFrame, exact_quotient
from codegen.lower.gpu.main_loop import Fragment
from codegen.lower.gpu.thread_evaluator import convert
from codegen.plan.gpu.contraction_tiling import steps_of
from ir.dtype import DTYPES
from ir.index.expr import AxisExpr, constant
from ir.kernel.gpu.kernel import WORD, Shared
from ir.kernel.gpu.nodes import (
    At,
    Barrier,
    Element,
    Epilogue,
    LdSharedVec,
    SetElement,
    StGlobal,
    StGlobalVec,
    StSharedVec,
    Value,
)
from ir.kernel.nodes import Comment, Within

Place = tuple[tuple[AxisExpr, ...], tuple[Within, ...]]
"""An element of the outputs, and the conditions under which it exists."""


def epilogue(
    frame: GpuContractionFrame,
    block: GpuBlock,
    product: Fragment,
    staged: Shared | None,
    beside: Callable[[AxisExpr], Mapping[str, Value]] = lambda _: {},
    *,
    free: bool = False,
) -> None:
    """Writes the ops on the complete sums of the tile, and the stores. `beside`: number of an accumulator → values of
    the region that are known besides its sum. `free`: no thread still reads the shared memory that `staged` reuses."""
    _apply(frame, block, product, beside)
    if frame.tile.store == "staged":
        assert staged is not None
        block.add(Comment("results, put together over the ring"), *(() if free else (Barrier(),)))
        _store_through_shared(frame, block, product, staged)


def _apply(
    frame: GpuContractionFrame, block: GpuBlock, product: Fragment, beside: Callable[[AxisExpr], Mapping[str, Value]]
) -> None:
    """Writes the ops. The first output stays in the accumulators until its neighbours, or the whole tile, are complete;
    all other outputs are stored at once."""
    view, ev = frame.view, frame.evaluator
    variable = frame.writer.variable("e", 0, product.count - 1)
    element = AxisExpr(0, ((variable, 1),)) if product.count > 1 else constant(0)
    body = block.inner({variable}, barrier=True)
    total = Element(product.acc, element, view.accumulator)
    known = {view.name: convert(total, view.accumulator, view.op.dtype), **beside(element)}
    for name, value in known.items():
        ev.provide(name, body.let("sum", value))
    point, where = _place(frame, body, *product.place(element))
    first = view.region.yields[0]
    kept = frame.tile.store != "elements"
    values = [ev.yielded_value(result.value, result.map, point, body, where) for result in view.region.yields]
    for result, value in zip(view.region.yields, values, strict=True):
        if result is not first or not kept:
            body.add(StGlobal(frame.writer.buffer(result.buffer), point, value, where))
    if kept:
        body.add(SetElement(product.acc, element, values[0]))
    if frame.tile.store == "vectors":
        _vector(frame, body, product, element)
    block.add(Epilogue(product.acc, frame.epilogue, variable, body.used_statements()))


def _place(frame: GpuContractionFrame, block: GpuBlock, row: AxisExpr, column: AxisExpr, width: int = 1) -> Place:
    """The element at a row and column of the block's tile. The column is a multiple of `width`: that of a vector."""
    view = frame.view
    columns = (*view.outer, *view.columns)
    chunk = exact_quotient(frame.column, width) + exact_quotient(column, width)
    digits = frame.digits(frame.along(block, view.rows, frame.row + row), frame.along(block, columns, chunk, width))
    rows_of, columns_of, _ = steps_of(view, frame.tile)
    where = (*frame.inside(rows_of, frame.row + row), *frame.inside(columns_of, frame.column + column))
    unproven = tuple(condition for condition in where if not block.knows(condition))
    return frame.writer.at(view.roles.out.exprs, digits), unproven


def _vector(frame: GpuContractionFrame, block: GpuBlock, product: Fragment, element: AxisExpr) -> None:
    """Stores a vector when its last element is computed, so that few results stay in registers."""
    width = frame.tile.store_width
    buffer = frame.writer.buffer(frame.view.region.yields[0].buffer)
    number, place = frame.writer.split(element, width)
    with block.guard(Within(place, width - 1, width)) as body:
        row, column = product.place(number * width)
        at, where = _place(frame, body, row, column, width)
        body.add(StGlobalVec(buffer, at, product.acc, number * width, width, where))


def _store_through_shared(frame: GpuContractionFrame, block: GpuBlock, product: Fragment, tile: Shared) -> None:
    """Stores results through shared memory: written in the order of accumulators, read in the order of memory."""
    writer, width = frame.writer, frame.tile.store_width
    own = product.neighbours
    with block.loop("pair", constant(product.count // own), unroll=True) as (body, number):
        row, column = product.place(number * own)
        panel, inside = writer.split(column, tile.shape[-1])
        body.add(StSharedVec(At(tile.name, (panel, row, inside)), product.acc, number * own, own))
    block.add(Barrier())
    words = width * DTYPES[tile.dtype].bytes // 4
    out = writer.array("out", WORD, words)
    buffer = writer.buffer(frame.view.region.yields[0].buffer)
    length = frame.tile.bn // width
    pieces = frame.tile.bm * length
    with block.loop("piece", constant(-(-pieces // frame.tile.threads)), unroll=True) as (body, number):
        piece = writer.thread + number * frame.tile.threads
        with body.guard(Within(piece, 0, pieces)) as inside_tile:
            row, chunk = writer.split(piece, length)
            panel, inside = writer.split(chunk * width, tile.shape[-1])
            inside_tile.add(LdSharedVec(out, constant(0), words, At(tile.name, (panel, row, inside))))
            at, where = _place(frame, inside_tile, row, chunk * width, width)
            inside_tile.add(StGlobalVec(buffer, at, out, constant(0), words, where))
