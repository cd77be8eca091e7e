"""Loops over the terms of one block of k: all of them, runs of them, or some of their digits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from codegen.lower.cpu.builder import CpuBlock, with_guard
from codegen.lower.cpu.contraction_frame import CpuContractionFrame, DepthBlock, Digits
from codegen.lower.cpu.read_terms import ReadTerms
from ir.index.expr import ZERO, AxisExpr, constant
from ir.kernel.cpu.nodes import CompilerFence

UNROLLED = 9
"""Terms along the innermost digits that a register tile takes without loops, such as the nine of a 3 × 3 window: a core
does not foresee the end of a loop of few turns, and waits for some twenty cycles."""

AtTerm = Callable[[CpuContractionFrame, CpuBlock, AxisExpr], None]
"""Writes the code of one term: (frame, block, number of the term in its block of k)."""


@dataclass(frozen=True)
class Run:
    """Terms [start, stop) of the `size` points of the digits `group`."""

    group: tuple[int, ...]
    size: int
    start: AxisExpr
    stop: AxisExpr


AtRun = Callable[[CpuContractionFrame, CpuBlock, Run], None]
"""Writes the code of a run of terms: (frame, block, the run)."""
AtDigits = Callable[[CpuContractionFrame, CpuBlock, Digits], None]
"""Writes the code where some digits of k are bound: (frame, block, these digits)."""


def over_runs(frame: CpuContractionFrame, block: CpuBlock, depth: DepthBlock, run: Sequence[int], body: AtRun) -> None:
    """Calls body(frame, block, run) for the runs of terms of a block of k along its digits that are in `run`."""
    digits = depth_digits(depth)
    group = tuple(position for position in digits if position in run)
    if not group:
        body(frame, block, Run((), 1, constant(0), constant(1)))
        return
    outer = [position for position in digits if position not in group]
    size = frame.view.extent(group)

    def inner(f: CpuContractionFrame, b: CpuBlock, _: Digits) -> None:
        if depth.axis in group:
            start = depth.start * depth.terms
            body(f, b, Run(group, size, start, start + depth.count))
        else:
            body(f, b, Run(group, size, constant(0), constant(size)))

    over_digits(frame, block, depth, outer, inner)


def depth_digits(depth: DepthBlock) -> list[int]:
    return [] if depth.axis is None else [depth.axis, *depth.inner]


def term_of(frame: CpuContractionFrame, depth: DepthBlock) -> AxisExpr:
    """The number of the current term in its block of k."""
    if depth.axis is None:
        return constant(0)
    return (frame.at[depth.axis] - depth.start) * depth.terms + frame.index(depth.inner)


def over_terms(
    frame: CpuContractionFrame,
    block: CpuBlock,
    depth: DepthBlock,
    body: AtTerm,
    done: Digits | None = None,
    *,
    unroll: int | None = None,
    read: ReadTerms | None = None,
) -> None:
    """Calls body(frame, block, term) inside loops over all digits of k but the digits `done`. unroll: without loops
    over few terms along the innermost digits; if there are none, so many turns of the innermost loop at once. read: the
    terms that are taken, None: all."""
    left = [position for position in depth_digits(depth) if position not in (done or {})]
    short = [] if unroll is None else _short_digits(frame, depth, left)
    turns = 1 if short or unroll is None else unroll

    def over_short(f: CpuContractionFrame, b: CpuBlock, _: Digits) -> None:
        for number, numbers in enumerate(itertools.product(*(range(f.view.sizes[position]) for position in short))):
            if number:  # windows overlap: kept elements would take the registers of the sums
                b.add(CompilerFence())
            placed = f.with_digits(dict(zip(short, map(constant, numbers), strict=True)))
            body(placed, b, term_of(placed, depth))

    over_digits(frame, block, depth, left[: len(left) - len(short)], over_short, read=read, unroll=turns)


def _short_digits(frame: CpuContractionFrame, depth: DepthBlock, digits: Sequence[int]) -> Sequence[int]:
    """The innermost digits that have `UNROLLED` points in all, at most, and are whole in every block."""
    start = len(digits)
    while start and digits[start - 1] != depth.axis and frame.view.extent(digits[start - 1 :]) <= UNROLLED:
        start -= 1
    return digits[start:]


def over_digits(
    frame: CpuContractionFrame,
    block: CpuBlock,
    depth: DepthBlock,
    digits: Sequence[int],
    body: AtDigits,
    known: Digits | None = None,
    *,
    read: ReadTerms | None = None,
    unroll: int = 1,
) -> None:
    """Calls body(frame, block, bound digits) inside loops over `digits` of this block of k, for the terms `read`.
    unroll: so many turns of the innermost loop at once."""
    done = dict(known or {})
    if not digits:
        body(frame, block, done)
        return
    position, *rest = digits
    size = frame.view.sizes[position]
    k = frame.writer.variable("k", 0, size - 1)
    at = frame.writer.axis(k)
    inner = block.inner({k})
    placed = frame.with_digits({position: at})
    with_guard(
        inner,
        read.conditions(placed, position) if read else (),
        lambda b: over_digits(placed, b, depth, rest, body, {**done, position: at}, read=read, unroll=unroll),
    )
    turns = 1 if rest else unroll
    if position == depth.axis:
        block.loop(inner, k, depth.start, depth.start.shift(depth.step), limit=depth.limit, unroll=turns)
    else:
        block.loop(inner, k, ZERO, constant(size), unroll=turns)
