"""A contraction and its plan → a GPU kernel: the template of matrix products and convolutions.

the block's product, tile of rows, tile of columns
main_loop           a ring of stages in shared memory (operand_tile), and the products of a stage
  warpgroup           wgmma; or
  tensor_core         ldmatrix, mma; or
  cuda_core           rows and columns in registers
split_sum           where several blocks share a tile: the parts of its sums, added up by the last of them
contraction_epilogue  the region's ops on the accumulators, and the stores
"""

from __future__ import annotations

from codegen.lower.gpu.builder import GpuBlock, GpuWriter
from codegen.lower.gpu.contraction_epilogue import epilogue
from codegen.lower.gpu.contraction_frame import GpuContractionFrame, block_part, block_place
from codegen.lower.gpu.cuda_core import CudaCore
from codegen.lower.gpu.main_loop import Between, Multiply, StepsAhead, TurnRange, main_loop
from codegen.lower.gpu.operand_tile import OperandTile
from codegen.lower.gpu.split_sum import whole_sums
from codegen.lower.gpu.tensor_core import TensorCore
from codegen.lower.gpu.thread_evaluator import ThreadEvaluator, params_of
from codegen.lower.gpu.warpgroup import WarpgroupCore
from codegen.plan.contraction_view import Contraction
from codegen.plan.gpu.contraction_shared import shared_tiles
from codegen.plan.gpu.contraction_tiling import grid_of, turns_of, turns_of_block
from codegen.plan.gpu.operand_read import copied_axes
from ir.index.expr import AxisExpr
from ir.kernel.gpu.kernel import GpuKernel
from ir.plan.gpu import ContractionTile, GpuContractionPlan
from ir.plan.plan_to_schedule import plan_to_schedule

_EMPTY_THREADS = 32


def lower_contraction(view: Contraction, plan: GpuContractionPlan, name: str = "eq_k") -> GpuKernel:
    """The kernel `name` that runs a contraction by a plan that fits."""
    region, tile = view.region, plan.tile
    if view.is_empty:
        writer = GpuWriter(_EMPTY_THREADS, (1, 1, 1))
        return _kernel(name, view, plan, writer, GpuBlock(writer))
    writer = GpuWriter(tile.threads, grid_of(view, tile, plan.places))
    block = GpuBlock(writer)
    params_of(region, writer)  # their names come first
    batch, row, column = block_place(view, tile, plan.places, writer)
    evaluator = ThreadEvaluator(region, writer, approximate=plan.approximate)
    at = row * tile.bm, column * tile.bn
    frame = GpuContractionFrame(view, tile, plan.tails, plan.epilogue, writer, evaluator, *at, {})
    frame = frame.with_digits(frame.along(block, view.batch, batch))
    rows, columns, *staged = map(writer.allocate, shared_tiles(view, tile))
    turns, own = turns_of(view, tile), turns_of_block(view, tile)
    part = block_part(view, tile, plan.places, writer)
    operands = (OperandTile(frame, tile.lhs, rows, frame.row), OperandTile(frame, tile.rhs, columns, frame.column))
    product = _core(tile)(frame, *operands)
    if turns:
        products, turns_of_part = _products(product, tile), TurnRange(part * own, own)
        main_loop(block, operands, products, tile.stages, turns, turns_of_part, lag=tile.lag)
        if isinstance(product, WarpgroupCore):
            product.finish(block)
    with whole_sums(frame, block, product, (batch, row, column), part) as last:
        epilogue(frame, last, product, staged[0] if staged else None)
    return _kernel(name, view, plan, writer, block)


def _core(tile: ContractionTile) -> type[TensorCore | CudaCore | WarpgroupCore]:
    if tile.warpgroups:
        return WarpgroupCore
    return TensorCore if tile.tensor_cores else CudaCore


def _products(product: TensorCore | CudaCore | WarpgroupCore, tile: ContractionTile) -> Multiply | StepsAhead:
    """The products as the main loop runs them."""
    if isinstance(product, TensorCore) and tile.loads_across_turns:
        return product

    def multiply(body: GpuBlock, _turn: AxisExpr, stage: AxisExpr, between: Between) -> None:
        product.multiply(body, stage, between)

    return multiply


def _kernel(name: str, view: Contraction, plan: GpuContractionPlan, writer: GpuWriter, block: GpuBlock) -> GpuKernel:
    params = params_of(view.region, writer, copied_axes(view, plan.tile.stagings))
    return writer.kernel(name, plan.kernel_arch, params, block, _comment(view, plan))


def _comment(view: Contraction, plan: GpuContractionPlan) -> str:
    tile, schedule = plan.tile, plan_to_schedule(plan)
    ways = [
        f"{view.operand(staging.side).value} along "
        + ("k" if staging.along_k else "rows" if staging is tile.lhs else "columns")
        + (f", {staging.nbytes} bytes at once" if staging.copied else ", by element")
        for staging in tile.stagings
    ]
    return "\n".join(
        [
            *str(view.region).splitlines(),
            f"plan {plan.arch}: tile {'x'.join(map(str, schedule.tile))}, warp_tile {schedule.warp_tile},"
            f" stages {tile.stages}" + (f", {tile.split} blocks a tile" if tile.split > 1 else ""),
            *ways,
            *plan.notes,
        ]
    )
