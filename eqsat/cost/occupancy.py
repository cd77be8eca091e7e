"""Seed 000 §11's occ, and its STOP conditions: what a plan's registers and on-chip memory leave of a machine."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ir.kernel.gpu.limits import HIDING_THREADS
from ir.kernel.gpu.occupancy import blocks_per_unit
from ir.plan.plan import Plan
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


def widest_of(plans: Iterable[Plan]) -> int:
    """The greatest vector width of a region's plans."""
    return max((plan.vectors or 1 for plan in plans), default=1)


def stops(plan: Plan, work: Work, target: Target, widest: int) -> tuple[str, ...]:
    """The STOP conditions of §11 that a plan meets, in whose region the widest vectors have `widest` elements.

    Registers that leave one block per SM are none where that block hides the latencies alone; §11's other shapes than
    WGMMA's are none, as no plan takes WGMMA."""
    found = []
    if work.scratch > SHARE_OF_ON_CHIP * target.on_chip_bytes:
        found.append("on-chip memory above 80 %")
    if target.is_gpu and work.block_threads and work.thread_registers and _alone_by_registers(work, target):
        found.append("registers leave one block per SM")
    if plan.vectors is not None and plan.vectors < min(widest, target.lanes):
        found.append("narrower vectors")
    return tuple(found)


def _alone_by_registers(work: Work, target: Target) -> bool:
    without = msgspec.structs.replace(work, thread_registers=0)
    alone = resident_blocks(work, target) <= 1 < resident_blocks(without, target)
    return alone and resident_share(work, target) < 1
