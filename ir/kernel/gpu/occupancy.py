"""What a multiprocessor gives to blocks: how many it holds at once, and how much shared memory one may have."""

from __future__ import annotations

from ir.kernel.gpu.kernel import WARP_LANES
from ir.kernel.gpu.limits import LIMITS
from ir.target import Target

RESERVED_BYTES = 1024
"""Of shared memory, which CUDA takes for itself beside each block's (CUDA C++ Programming Guide, compute capabilities
8.x and 9.0)."""
_REGISTER_UNIT = 256
"""Registers that a warp is given at once (CUDA occupancy calculator)."""


def shared_limit(arch: str, target: Target) -> int:
    """Bytes of shared memory that a block of a kernel for `arch` may have on the machine."""
    return min(LIMITS[arch].shared_bytes, target.l1_bytes - RESERVED_BYTES)


def blocks_per_unit(target: Target, threads: int, registers: int, shared: int) -> int:
    """Blocks that one SM holds at once, by their `threads`, the `registers` of each of these (0: not known) and bytes
    of `shared` memory; 0 where it has no room for one."""
    warps = -(-threads // WARP_LANES)
    by_threads = target.threads // (warps * WARP_LANES)
    limits = [target.blocks, by_threads, target.l1_bytes // (shared + RESERVED_BYTES)]
    if registers:
        per_warp = -(-registers * WARP_LANES // _REGISTER_UNIT) * _REGISTER_UNIT
        limits.append(target.registers // (warps * per_warp))
    return min(limits)
