"""How a plan cuts streams whose scores are tiles, and whether that fits them.

algo_choice  {"attention": "online"}, and {"scores": "dot"} where scores are dot products of queries and keys as they
             lie, lanes along the depth: for few rows, which would not repay packed keys
tile         BM, BR, BC: rows of a task, for which keys and values are packed once; rows and terms of a tile of scores
warp_tile    MRxNR: the register tile of the scores, rows and terms; MR is also that of the products' rows
vectorize    "n": columns of a product's register tile; "k": registers along the terms, where there is no product
cache        what is packed: queries once per task ("m.o"), keys and values once per block of terms ("k.o")
bind         "batch", "m.o": blocks of rows
"""

from __future__ import annotations

import re
from typing import NoReturn

import msgspec

from codegen.plan.contraction_view import Contraction
from codegen.plan.cpu.contraction_blocks import Blocks, block_axis
from codegen.plan.cpu.contraction_candidates import dot_possible
from codegen.plan.plan_check import TemplateChoices, check_choices
from codegen.plan.stream_view import STAGE, StreamView, stream_epilogue
from codegen.where.tails import Steps, check_tails
from ir.diagnostics import Kind, fail
from ir.plan import Plan
from ir.target import LANES

ALGORITHM = "attention"
CHOICES = TemplateChoices(
    algo_choice={ALGORITHM: ("online",), "scores": ("outer", "dot")}, layout_hints={}, bind=("batch", "m.o")
)
"""What the template reads of a plan's open fields."""


class StreamBlocks(msgspec.Struct, frozen=True):
    """mr × nr: register tile of scores; mr × nv: of products. bm: rows of a task; br × bc: rows and terms of a tile of
    scores. dot: scores are dot products. Sizes in elements."""

    mr: int
    nr: int
    nv: int
    bm: int
    br: int
    bc: int
    lanes: int
    dot: bool = False

    def of_scores(self, view: Contraction) -> Blocks:
        """As the product of queries and keys sees them."""
        aligned = view.n <= self.bc or (len(view.columns) == 1 and self.bc % self.nr == 0)
        return Blocks(self.mr, self.nr, self.bm, self.width, max(view.depth, 1), self.lanes, self.dot, aligned)

    def of_product(self, view: Contraction) -> Blocks:
        """As a product of weights and values sees them."""
        return Blocks(self.mr, self.nv, self.bm, view.n, self.bc, self.lanes)

    @property
    def width(self) -> int:
        """Terms of a tile of scores, in whole register tiles."""
        return -(-self.bc // self.nr) * self.nr

    @property
    def score_stride(self) -> int:
        """Elements between rows of a tile of scores: not a power of two, so that rows share no cache set."""
        return -(-self.width // self.lanes) * self.lanes + self.lanes

    def sum_stride(self, view: Contraction) -> int:
        """Elements between rows of a product's sums."""
        return -(-view.n // self.nv) * self.nv


def stream_blocks(view: StreamView, plan: Plan) -> StreamBlocks:
    """The blocks of a plan, every field of it checked against the streams.

    Raises:
        EqsatError: AlignmentMismatch where blocks, lanes or axes do not divide as the plan says; MalformedGraph where
            it contradicts the region; UnsupportedOp where the template has no such choice.
    """
    check_choices(plan, CHOICES, STAGE)
    shape = re.fullmatch(r"(\d+)x(\d+)", plan.warp_tile)
    if shape is None or len(plan.tile) != 3 or min(plan.tile) < 1 or "0" in shape.groups():
        _malformed(view, f"tile {plan.tile} and warp_tile {plan.warp_tile!r} are not [BM, BR, BC] and MRxNR")
    if plan.vectorize is None or plan.vectorize.axis != _along(view):
        _malformed(view, f"the plan of these streams has registers along {_along(view)}")
    dot = plan.algo_choice.get("scores") == "dot"
    if dot and (view.scores is None or not dot_possible(view.scores)):
        fail(
            Kind.UNSUPPORTED_OP,
            STAGE,
            "the scores are no dot products of neighbours",
            at=view.region.name,
            hint="outer",
        )
    if plan.ordered:
        fail(Kind.UNSUPPORTED_OP, STAGE, "the terms of a stream are not taken in index order", at=view.region.name)
    bm, br, bc = plan.tile
    lanes = LANES[plan.arch]
    mr, nr = int(shape[1]), int(shape[2])
    blocks = StreamBlocks(mr, nr, plan.vectorize.width, bm, br, min(bc, view.terms), lanes, dot)
    multiples = ((bm, br, "rows of a task"), (br, blocks.mr, "rows of a tile"))
    registers = (
        (blocks.nr, 1 if dot else lanes, "terms of a register tile"),
        (blocks.nv, lanes, "columns of a register tile"),
    )
    for size, unit, what in (*multiples, *registers):
        if size % unit:
            _misaligned(view, f"{size} {what} are no whole number of {unit}")
    _, inner = block_axis(view.lead, blocks.bc) if view.roles.terms else (0, 1)
    if blocks.bc % inner:
        _misaligned(view, f"a block of {blocks.bc} terms is no whole number of steps of {inner}")
    _check_cache(view, plan, dot=dot)
    if plan.epilogue != stream_epilogue(view):
        _malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {stream_epilogue(view)}")
    check_tails(stream_steps(view, blocks), plan.predicate_tail, STAGE, view.region.name)
    return blocks


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


def packable(view: StreamView) -> tuple[tuple[str, str], ...]:
    """The tensors that may be packed, and at which step: queries, keys, values."""
    found = []
    if view.scores is not None:
        side = view.scores.vector
        found += [(view.scores.operand(1 - side).value, "m.o"), (view.scores.operand(side).value, "k.o")]
    return (*found, *((each.operand(1).value, "k.o") for each in view.products))


def is_packed(plan: Plan, tensor: str, at: str) -> bool:
    """Whether the plan packs a tensor at a step."""
    return any((each.tensor, each.at) == (tensor, at) for each in plan.cache)


def _check_cache(view: StreamView, plan: Plan, *, dot: bool) -> None:
    known = packable(view)[2 if dot else 0 :]
    for entry in plan.cache:
        if (entry.tensor, entry.at) not in known or entry.where != "packed" or entry.pingpong:
            fail(
                Kind.UNSUPPORTED_OP,
                STAGE,
                f"{entry.tensor!r} can not be kept in {entry.where} at {entry.at}",
                at=view.region.name,
                hint=", ".join(f"{tensor} packed at {at}" for tensor, at in known),
            )


def _along(view: StreamView) -> str:
    return "n" if view.products else "k"


def _malformed(view: StreamView, message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, STAGE, message, at=view.region.name)


def _misaligned(view: StreamView, message: str) -> NoReturn:
    fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=view.region.name)
