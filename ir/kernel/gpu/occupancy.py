"""Occupancy: how many blocks a multiprocessor holds at once, and how much shared memory a block may have."""

from __future__ import annotations

from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import LIMITS
from ir.target import Target

RESERVED_BYTES = 1024
"""Bytes of shared memory that CUDA takes beside those of every block (CUDA C++ Programming Guide, compute capabilities
8.x and 9.0)."""
_REGISTER_UNIT = 256
"""Registers are allocated to a warp in multiples of this number (CUDA occupancy calculator)."""


def shared_limit(arch: str, target: Target) -> int:
    """Most bytes of shared memory of a block of a kernel for `arch` on the machine."""
    return min(LIMITS[arch].shared_bytes, target.l1_bytes - RESERVED_BYTES)


def blocks_per_unit(target: Target, threads: int, registers: int, shared: int) -> int:
    """Blocks that one SM holds at once, from `threads` per block, `registers` per thread (0: unknown) and bytes of
    `shared` memory per block; 0 if there is no room for one."""
    warps = -(-threads // WARP_LANES)
    by_threads = target.threads // (warps * WARP_LANES)
    limits = [target.blocks, by_threads, target.l1_bytes // (shared + RESERVED_BYTES)]
    if registers:
        per_warp = -(-registers * WARP_LANES // _REGISTER_UNIT) * _REGISTER_UNIT
        limits.append(target.registers // (warps * per_warp))
    return min(limits)
