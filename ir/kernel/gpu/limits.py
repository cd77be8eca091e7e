"""The limits of every GPU architecture: the only place of the dialect that distinguishes architectures."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from ir.target import Target

MAX_THREADS = 1024
"""Most threads of a block."""
MAX_REGISTERS = 255
"""Most registers of a thread."""
SECTOR_BYTES = 32
"""Bytes that memory moves at least, of an aligned sector."""
VECTOR_BYTES = 16
"""Most bytes that a thread moves with one instruction."""
MAX_GRID = (2**31 - 1, 65535, 65535)
"""Most blocks of a grid along x, y and z."""


class Mma(msgspec.Struct, frozen=True):
    """A tile of a tensor core: acc (m × n) += a (m × k) · b (k × n), and the registers per lane of each operand."""

    m: int
    n: int
    k: int
    acc: int
    a: int
    b: int


class GpuLimits(msgspec.Struct, frozen=True):
    """`shared_bytes`: most shared memory of a block. `mma`: the tiles by shape and dtype of the operands.
    `warpgroup_columns`: the numbers of columns of a `Wgmma`; () without warpgroups."""

    shared_bytes: int
    mma: Mapping[tuple[str, str], Mma]
    warpgroup_columns: tuple[int, ...] = ()


WARPGROUP = 4
"""Warps of a warpgroup."""
WARPGROUP_ROWS, WARPGROUP_TERMS = 64, 16
"""Rows and terms of a `Wgmma`."""
WARPGROUP_COLUMNS = (64, 128, 256)
"""Columns of a `Wgmma`: those that plans use, of all multiples of 8 up to 256 (PTX ISA, wgmma.mma_async)."""
_SYNC = MappingProxyType(
    {
        ("m16n8k16", "fp16"): Mma(16, 8, 16, 4, 4, 2),
        ("m16n8k16", "bf16"): Mma(16, 8, 16, 4, 4, 2),
        ("m16n8k8", "tf32"): Mma(16, 8, 8, 4, 4, 2),
    }
)
LIMITS: Mapping[str, GpuLimits] = MappingProxyType(
    {
        "sm80": GpuLimits(163 * 1024, _SYNC),
        "sm90": GpuLimits(227 * 1024, _SYNC),
        "sm90a": GpuLimits(227 * 1024, _SYNC, WARPGROUP_COLUMNS),
        "sm100": GpuLimits(227 * 1024, _SYNC),
        "sm120": GpuLimits(99 * 1024, _SYNC),
    }
)
"""Limits by architecture. Source: CUDA C++ Programming Guide, compute capabilities 8.0, 9.0, 10.0 and 12.0. "sm90a" is
9.0 with the instructions that no later architecture has."""


def own_arch(arch: str) -> str:
    """The architecture with the instructions that this one alone has ("sm90" → "sm90a"), where kernels use any; else
    the same."""
    own = f"{arch}a"
    return own if own in LIMITS else arch


def least_arch(shared_bytes: int) -> str:
    """The least architecture whose blocks may have `shared_bytes` bytes of shared memory."""
    return "sm80" if shared_bytes <= LIMITS["sm80"].shared_bytes else "sm90"


HIDING_THREADS = 512
"""Threads × independent instructions per thread that hide an SM's latencies: four schedulers with instructions of four
warps each. An addition takes 4 cycles and one starts every cycle; an mma takes some 33 cycles and one starts every 8
(V. Volkov, "Better performance at lower occupancy", GTC 2010)."""


def most_registers(threads: int, target: Target) -> int:
    """Registers that each of so many threads of a multiprocessor may have."""
    return min(MAX_REGISTERS, target.registers // threads)
