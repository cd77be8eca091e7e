"""Seed 000 §11's occ, and its STOP conditions: what a plan's registers and on-chip memory leave of a machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ir.gpu_limits import HIDING_THREADS
from ir.gpu_occupancy import blocks_per_unit
from ir.plan import Plan
from ir.pricer import Work
from ir.target import Target

SHARE_OF_ON_CHIP = 0.8
"""§11: a plan that takes more of the memory on chip stops the search in its direction."""


def resident_blocks(work: Work, target: Target) -> int:
    """Blocks that one SM holds at once, by its threads, registers and shared memory."""
    return blocks_per_unit(target, work.block_threads, work.thread_registers, work.scratch)


def resident_share(work: Work, target: Target) -> float:
    """The share of an SM's latencies that its threads hide: by their number, and by what each has under way; 1 on a
    CPU, whose cores hide their own."""
    if not target.is_gpu or not work.block_threads:
        return 1.0
    return min(1.0, max(1, resident_blocks(work, target)) * work.block_threads * work.independent / HIDING_THREADS)


class Rivals(NamedTuple):
    """What the plans of a region offer: the greatest vector width, and whether one takes WGMMA."""

    widest: int
    wgmma: bool


def rivals_of(plans: Iterable[Plan]) -> Rivals:
    """Of all plans of a region."""
    several = list(plans)
    return Rivals(max(map(_width, several), default=1), any(map(_takes_wgmma, several)))


def stops(plan: Plan, work: Work, target: Target, rivals: Rivals) -> tuple[str, ...]:
    """The STOP conditions of §11 that a plan meets among its region's.

    Registers that leave one block per SM are none where that block hides the latencies alone; other shapes than WGMMA's
    are none where no plan takes WGMMA."""
    found = []
    if work.scratch > SHARE_OF_ON_CHIP * target.on_chip_bytes:
        found.append("on-chip memory above 80 %")
    if target.is_gpu and work.block_threads and work.thread_registers and _alone_by_registers(work, target):
        found.append("registers leave one block per SM")
    if plan.vectorize is not None and plan.vectorize.width < min(rivals.widest, target.lanes):
        found.append("narrower vectors")
    if rivals.wgmma and not _takes_wgmma(plan):
        found.append("no TMA or WGMMA tile")
    return tuple(found)


def _alone_by_registers(work: Work, target: Target) -> bool:
    without = msgspec.structs.replace(work, thread_registers=0)
    alone = resident_blocks(work, target) <= 1 < resident_blocks(without, target)
    return alone and resident_share(work, target) < 1


def _width(plan: Plan) -> int:
    return plan.vectorize.width if plan.vectorize is not None else 1


def _takes_wgmma(plan: Plan) -> bool:
    return "wgmma" in plan.algo_choice.values()
