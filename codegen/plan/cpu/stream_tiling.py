"""The loops that the blocks of a plan of streams cut, and the check that a plan fits the streams."""

from __future__ import annotations

from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.contraction_blocks import can_dot
from codegen.plan.cpu.contraction_tiling import block_axis
from codegen.plan.plan_check import STAGE, check_cpu, fail_malformed, fail_misaligned
from codegen.plan.stream_mask import LastSeen, last_seen
from codegen.plan.stream_view import StreamView, stream_epilogue
from codegen.poly.tail_axes import Steps, check_tails
from ir.diagnostics import Kind, fail
from ir.plan.cpu import Blocks, CpuStreamPlan, PackedTensor, StreamBlocks
from ir.region.region import Number
from ir.target import LANES


def blocks_of_scores(view: Contraction, blocks: StreamBlocks) -> Blocks:
    """The blocks of the product of queries and keys."""
    return Blocks(
        blocks.mr,
        blocks.nr,
        blocks.bm,
        blocks.width,
        max(view.depth, 1),
        blocks.lanes,
        "dot" if blocks.dot else "outer",
    )


def scores_are_aligned(view: Contraction, blocks: StreamBlocks) -> bool:
    """Whether every panel of keys starts at a multiple of the register tile's terms."""
    return view.n <= blocks.bc or (len(view.columns) == 1 and blocks.bc % blocks.nr == 0)


def blocks_of_product(view: Contraction, blocks: StreamBlocks) -> Blocks:
    """The blocks of a product of weights and values."""
    return Blocks(blocks.mr, blocks.nv, blocks.bm, view.n, blocks.bc, blocks.lanes)


def check_stream_plan(view: StreamView, plan: CpuStreamPlan) -> None:
    """Raises EqsatError where a plan does not fit: UnknownTarget for another machine's plan; AlignmentMismatch where
    blocks, lanes or axes do not divide; MalformedGraph where the plan contradicts the region; UnsupportedOp where the
    template does not have the choice."""
    check_cpu(plan.arch)
    blocks, lanes = plan.blocks, LANES[plan.arch]
    if min(blocks.mr, blocks.nr, blocks.nv, blocks.bm, blocks.br, blocks.bc) < 1:
        fail_malformed(view, f"{blocks} are not sizes in elements")
    if plan.products != bool(view.products):
        fail_malformed(view, f"the streams have {len(view.products)} products, the plan says products: {plan.products}")
    if blocks.dot and (view.scores is None or not can_dot(view.scores)):
        message = "the scores are no dot products of neighbours"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name, hint="outer")
    if blocks.lanes != lanes:
        fail_misaligned(view, f"{blocks.lanes} elements are no register of {lanes}, which {plan.arch} has")
    multiples = ((blocks.bm, blocks.br, "rows of a task"), (blocks.br, blocks.mr, "rows of a tile"))
    registers = (
        (blocks.nr, 1 if blocks.dot else lanes, "terms of a register tile"),
        (blocks.nv, lanes, "columns of a register tile"),
    )
    for size, unit, what in (*multiples, *registers):
        if size % unit:
            fail_misaligned(view, f"{size} {what} are no whole number of {unit}")
    _, inner = block_axis(view.lead, blocks.bc) if view.roles.terms else (0, 1)
    if blocks.bc % inner or blocks.bc > max(view.terms, 1):
        fail_misaligned(view, f"a block of {blocks.bc} of {view.terms} terms is no whole number of steps of {inner}")
    _check_packed(view, plan)
    if blocks.stops and bound_of(view, blocks) is None:
        fail_malformed(view, "the rows of a tile may see all terms")
    if plan.epilogue != stream_epilogue(view):
        fail_malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {stream_epilogue(view)}")
    check_tails(stream_steps(view, blocks), plan.tails, STAGE, view.region.name)


def stream_steps(view: StreamView, blocks: StreamBlocks) -> tuple[Steps, ...]:
    """The loops that a tail may cut: register tiles of rows and columns, blocks of terms."""
    k = Steps("k", 1, 1)
    if view.roles.terms:
        position, inner = block_axis(view.lead, blocks.bc)
        k = Steps("k", view.roles.sizes[position], blocks.bc // inner)
    return (
        Steps("m", view.m, blocks.mr),
        Steps("n", view.n if view.products else 1, blocks.nv if view.products else 1),
        k,
    )


def packable(view: StreamView, blocks: StreamBlocks) -> tuple[PackedTensor, ...]:
    """The tensors that may be packed: values, and queries and keys unless their products are dot products."""
    scored = []
    if view.scores is not None and not blocks.dot:
        side = view.scores.vector
        scored.append(PackedTensor(view.scores.operand(1 - side).value, "m.o"))
        scored.append(PackedTensor(view.scores.operand(side).value, "k.o"))
    return (*scored, *(PackedTensor(product.operand(1).value, "k.o") for product in view.products))


def bound_of(view: StreamView, blocks: StreamBlocks) -> LastSeen | None:
    """The bound of the terms that the rows of a tile see; None where a tile may see all terms, where its first block
    of terms may be unseen, or where values are not packed in whole registers, which are then searched for infinities
    and NaN."""
    bound = last_seen(view)
    if bound is None or not bound.holds_for(view, blocks.br) or bound.step * (blocks.br - 1) + bound.shift < 0:
        return None
    packed = {tensor.tensor for tensor in packable(view, blocks) if tensor.at == "k.o"}
    whole = all(
        product.operand(1).value in packed and product.n % blocks.nv == 0 and view.m > blocks.mr
        for product in view.products
    )
    counted = all(isinstance(row_sum.op.inputs[1], Number) for row_sum in view.row_sums)
    return bound if whole and counted and len(view.roles.terms) == 1 else None


def _check_packed(view: StreamView, plan: CpuStreamPlan) -> None:
    known = packable(view, plan.blocks)
    for tensor in plan.packed:
        if tensor not in known:
            hint = ", ".join(f"{allowed.tensor} packed at {allowed.at}" for allowed in known)
            message = f"{tensor.tensor!r} can not be packed at {tensor.at}"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=view.region.name, hint=hint)
