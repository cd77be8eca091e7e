"""Seed 000 §11's occ, and its STOP conditions: what a plan's registers and on-chip memory leave of a machine."""

from __future__ import annotations

import msgspec

from ir.plan import Plan
from ir.pricer import Work
from ir.target import Target

WARP = 32
SHARE_OF_ON_CHIP = 0.8
"""§11: a plan that takes more of the memory on chip stops the search in its direction."""
HIDING_THREADS = 512
"""Resident threads of an SM that hide its latencies: 16 warps of independent instructions, a quarter of the most
(V. Volkov, "Better performance at lower occupancy", GTC 2010)."""
WGMMA_TILE = (64, 8, 16)
"""Rows, columns and terms that WGMMA's shapes are multiples of: m64nNk16 of 16-bit types, N a multiple of 8 (PTX ISA,
wgmma.mma_async). TMA boxes of 16 bytes hold 8 such elements."""


def resident_blocks(work: Work, target: Target) -> int:
    """Blocks that one SM holds at once, by its threads, registers (allocated per warp, in 256s) and shared memory."""
    warps = -(-work.block_threads // WARP)
    limits = [target.blocks, target.threads // (warps * WARP)]
    if work.thread_registers:
        limits.append(target.registers // (warps * -(-work.thread_registers * WARP // 256) * 256))
    if work.scratch:
        limits.append(target.l1_bytes // work.scratch)
    return min(limits)


def resident_share(work: Work, target: Target) -> float:
    """The share of the threads that hide latency which a GPU's SM has; 1 on a CPU, whose cores hide their own."""
    if not target.is_gpu or not work.block_threads:
        return 1.0
    return min(1.0, max(1, resident_blocks(work, target)) * work.block_threads / HIDING_THREADS)


def stops(plan: Plan, work: Work, target: Target, widest: int) -> tuple[str, ...]:
    """The STOP conditions of §11 that a plan meets; `widest` is the greatest vector width among the region's plans."""
    found = []
    if work.scratch > SHARE_OF_ON_CHIP * target.on_chip_bytes:
        found.append("on-chip memory above 80 %")
    if target.is_gpu and work.block_threads and work.thread_registers and _alone_by_registers(work, target):
        found.append("registers leave one block per SM")
    if plan.vectorize is not None and plan.vectorize.width < min(widest, target.lanes):
        found.append("narrower vectors")
    if target.arch == "sm90" and plan.warp_tile and _off_wgmma(plan):
        found.append("no TMA or WGMMA tile")
    return tuple(found)


def _alone_by_registers(work: Work, target: Target) -> bool:
    without = msgspec.structs.replace(work, thread_registers=0)
    return resident_blocks(work, target) <= 1 < resident_blocks(without, target)


def _off_wgmma(plan: Plan) -> bool:
    return any(size % unit for size, unit in zip(plan.tile, WGMMA_TILE, strict=False))
