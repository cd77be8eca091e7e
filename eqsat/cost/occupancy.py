"""Occupancy and STOP conditions (seed 000 §11) of a plan, from its registers and on-chip memory."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ir.kernel.gpu.limits import HIDING_THREADS
from ir.kernel.gpu.occupancy import blocks_per_unit
from ir.plan.plan import Plan
from ir.pricer import Work
from ir.target import Target

SHARE_OF_ON_CHIP = 0.8
"""Share of the on-chip memory above which a plan meets a STOP condition (seed 000 §11)."""


def resident_blocks(work: Work, target: Target) -> int:
    """Blocks that fit on one SM at once, by threads, registers and shared memory."""
    return blocks_per_unit(target, work.block_threads, work.thread_registers, work.scratch)


def resident_share(work: Work, target: Target) -> float:
    """The share of an SM's latency that its threads hide, from their number and the independent operations of each;
    1 on a CPU, whose cores hide latency by themselves."""
    if not target.is_gpu or not work.block_threads:
        return 1.0
    return min(1.0, max(1, resident_blocks(work, target)) * work.block_threads * work.independent / HIDING_THREADS)


def widest_of(plans: Iterable[Plan]) -> int:
    """The widest vectors of a region's plans, in elements."""
    return max((plan.vectors or 1 for plan in plans), default=1)


def stops(plan: Plan, work: Work, target: Target, widest: int) -> tuple[str, ...]:
    """The STOP conditions (seed 000 §11) that a plan meets. widest: the widest vectors of its region's plans.

    One block per SM is no such condition if that block hides the latency alone. Tensor-core shapes other than WGMMA's
    are none, because no plan uses WGMMA."""
    conditions = []
    if work.scratch > SHARE_OF_ON_CHIP * target.on_chip_bytes:
        conditions.append("on-chip memory above 80 %")
    if target.is_gpu and work.block_threads and work.thread_registers and _registers_leave_one_block(work, target):
        conditions.append("registers leave one block per SM")
    if plan.vectors is not None and plan.vectors < min(widest, target.lanes):
        conditions.append("narrower vectors")
    return tuple(conditions)


def _registers_leave_one_block(work: Work, target: Target) -> bool:
    without_registers = msgspec.structs.replace(work, thread_registers=0)
    alone = resident_blocks(work, target) <= 1 < resident_blocks(without_registers, target)
    return alone and resident_share(work, target) < 1
