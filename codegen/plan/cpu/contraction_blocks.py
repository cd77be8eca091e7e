"""How a plan cuts a contraction: tasks, blocks of k, register tiles; and whether that fits it.

m, n   tile BM, BN: rows and columns of a task; warp_tile MRxNR: of a register tile, which divides them
k      tile BK: the terms of a block, whole steps of one reduced digit with all digits inside it
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NoReturn

import msgspec

from codegen.plan.contraction_view import STAGE, Contraction
from codegen.plan.plan_check import TemplateChoices, check_choices
from codegen.where.tails import Steps, check_tails
from ir.diagnostics import Kind, fail
from ir.plan import Plan
from ir.target import LANES

CHOICES = TemplateChoices(
    algo_choice={"matmul": ("outer", "dot"), "conv": ("outer", "dot")},
    layout_hints={"vector": ("lhs", "rhs")},
    bind=("batch", "m.o", "n.o"),
)
"""What the template reads of a plan's open fields."""


class Blocks(msgspec.Struct, frozen=True):
    """How the template cuts a contraction. mr × nr: register tile. bm, bn: rows and columns of a task, multiples
    of the register tile. bk: terms per block of k. dot: lanes lie along k. aligned: every panel of columns starts at a
    multiple of nr. Sizes in elements."""

    mr: int
    nr: int
    bm: int
    bn: int
    bk: int
    lanes: int
    dot: bool = False
    aligned: bool = True

    @property
    def algorithm(self) -> str:
        return "dot" if self.dot else "outer"


def blocks_of(view: Contraction, plan: Plan) -> Blocks:
    """The blocks of a plan, every field of it checked against the contraction.

    Raises:
        EqsatError: AlignmentMismatch where blocks, lanes or axes do not divide as the plan says; MalformedGraph where
            it contradicts the region; UnsupportedOp where the template has no such choice.
    """
    check_choices(plan, CHOICES, STAGE)
    shape = re.fullmatch(r"(\d+)x(\d+)", plan.warp_tile)
    if shape is None or len(plan.tile) != 3 or min(plan.tile) < 1 or "0" in shape.groups():
        _malformed(view, f"tile {plan.tile} and warp_tile {plan.warp_tile!r} are not [BM, BN, BK] and MRxNR")
    if list(plan.algo_choice) != [view.pattern]:
        chosen = ", ".join(plan.algo_choice) or "nothing"
        _malformed(view, f"the region is a {view.pattern}, the plan's algo_choice is of {chosen}")
    dot = plan.algo_choice[view.pattern] == "dot"
    bm, bn, bk = plan.tile
    blocks = Blocks(int(shape[1]), int(shape[2]), bm, bn, min(bk, max(view.depth, 1)), LANES[plan.arch], dot)
    if dot and view.ordered:
        fail(Kind.UNSUPPORTED_OP, STAGE, "dot products do not sum in index order", at=view.region.name, hint="outer")
    _check_lanes(view, plan, blocks)
    _check_multiples(view, blocks)
    _check_cache(view, plan)
    if plan.epilogue != view.epilogue:
        _malformed(view, f"the plan's epilogue {plan.epilogue} is not the region's {view.epilogue}")
    check_tails(steps_of(view, blocks), plan.predicate_tail, STAGE, view.region.name)
    return blocks


def steps_of(view: Contraction, blocks: Blocks) -> tuple[Steps, ...]:
    """The loops that a tail may cut: register tiles of m and n; of k its blocks, or the vectors of a dot product."""
    k = Steps("k", 1, 1)
    if view.k and view.depth and blocks.dot:
        k = Steps("k", view.extent(view.run(view.vector, view.k)[0]), blocks.lanes)
    elif view.k and view.depth:
        position, inner = block_axis(view, blocks.bk)
        k = Steps("k", view.sizes[position], blocks.bk // inner)
    return Steps("m", view.m, blocks.mr), Steps("n", view.n, blocks.nr), k


def block_axis(view: Contraction, bk: int) -> tuple[int, int]:
    """The reduced digit that blocks of `bk` terms cut, and the terms per step of it. Some sum has terms."""
    inner = 1
    for position in reversed(view.k):
        if inner * view.sizes[position] > bk:
            return position, inner
        inner *= view.sizes[position]
    return view.k[0], inner // view.sizes[view.k[0]]


@lru_cache(maxsize=64)
def cache_step(view: Contraction, side: int) -> str:
    """Where an operand's panels are packed anew: columns for each panel, rows for each block of k."""
    return "n.i" if side == view.vector else "k.o"


def cached(view: Contraction, plan: Plan, side: int) -> str | None:
    """Where the plan keeps operand `side`: "packed" by the kernel, a "const_pool", or as it lies (None)."""
    name, at = view.operand(side).value, (cache_step(view, side), "build")
    return next((each.where for each in plan.cache if each.tensor == name and each.at in at), None)


def _check_lanes(view: Contraction, plan: Plan, blocks: Blocks) -> None:
    along, lanes = ("k" if blocks.dot else "n"), blocks.lanes
    found = plan.vectorize
    if found is None or found.axis != along:
        _malformed(view, f"lanes of a {view.pattern} by {blocks.algorithm} products lie along {along}")
    if found.width != lanes:
        _misaligned(view, f"{found.width} elements are no register of {lanes} lanes, which {plan.arch} has")


def _check_multiples(view: Contraction, blocks: Blocks) -> None:
    for axis, block, tile in (("m", blocks.bm, blocks.mr), ("n", blocks.bn, blocks.nr)):
        if block % tile:
            _misaligned(view, f"a block of {block} along {axis} is no whole number of register tiles of {tile}")
    if not blocks.dot and blocks.nr % blocks.lanes:
        _misaligned(view, f"{blocks.nr} columns are no whole number of registers of {blocks.lanes} lanes")
    if blocks.dot and blocks.bk < view.depth:
        _misaligned(view, f"a dot product takes all {view.depth} terms in one block, not {blocks.bk}")
    if view.k and view.depth and blocks.bk % block_axis(view, blocks.bk)[1]:
        inner = block_axis(view, blocks.bk)[1]
        _misaligned(view, f"a block of {blocks.bk} terms is no whole number of steps of {inner}")


def _check_cache(view: Contraction, plan: Plan) -> None:
    """Every entry is of an operand, and kept as the template can keep it."""
    for entry in plan.cache:
        sides = [side for side in (0, 1) if view.operand(side).value == entry.tensor]
        if not sides:
            _malformed(view, f"the plan caches {entry.tensor!r}, which is no operand of `{view.name}`")
        packed = entry.where == "packed" and any(entry.at == cache_step(view, side) for side in sides)
        constant = entry.where == "const_pool" and entry.at == "build" and all(map(view.is_constant, sides))
        if not (packed or constant) or entry.pingpong or plan.algo_choice[view.pattern] == "dot":
            fail(
                Kind.UNSUPPORTED_OP,
                STAGE,
                f"{entry.tensor!r} can not be kept in {entry.where} at {entry.at}"
                + ", twice" * entry.pingpong
                + f" by {plan.algo_choice[view.pattern]} products",
                at=view.region.name,
                hint="packed at "
                + " or ".join(cache_step(view, side) for side in sides)
                + ", a constant in const_pool at build, nothing for dot products",
            )


def _malformed(view: Contraction, message: str) -> NoReturn:
    fail(Kind.MALFORMED_GRAPH, STAGE, message, at=view.region.name)


def _misaligned(view: Contraction, message: str) -> NoReturn:
    fail(Kind.ALIGNMENT_MISMATCH, STAGE, message, at=view.region.name)
