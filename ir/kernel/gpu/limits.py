"""What each GPU architecture allows: the one place of the dialect that tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

MAX_THREADS = 1024
"""Of a block."""
MAX_GRID = (2**31 - 1, 65535, 65535)


class Mma(msgspec.Struct, frozen=True):
    """A tile of a tensor core: acc (m × n) += a (m × k) · b (k × n), and the registers a lane holds of each."""

    m: int
    n: int
    k: int
    acc: int
    a: int
    b: int


class GpuLimits(msgspec.Struct, frozen=True):
    """`shared_bytes` of a block at most; `mma`: by shape and dtype of the operands."""

    shared_bytes: int
    mma: Mapping[tuple[str, str], Mma]


_SYNC = MappingProxyType(
    {
        ("m16n8k16", "fp16"): Mma(16, 8, 16, 4, 4, 2),
        ("m16n8k16", "bf16"): Mma(16, 8, 16, 4, 4, 2),
        ("m16n8k8", "tf32"): Mma(16, 8, 8, 4, 4, 2),
    }
)
LIMITS: Mapping[str, GpuLimits] = MappingProxyType(
    {"sm80": GpuLimits(163 * 1024, _SYNC), "sm90": GpuLimits(227 * 1024, _SYNC)}
)
"""By `GpuKernel.arch`. Figures: CUDA C++ Programming Guide, compute capabilities 8.0 and 9.0."""


def least_arch(shared_bytes: int) -> str:
    """The least architecture whose blocks may have so much shared memory."""
    return "sm80" if shared_bytes <= LIMITS["sm80"].shared_bytes else "sm90"


HIDING_THREADS = 512
"""Threads × independent instructions of each that hide an SM's latencies: four schedulers, each with four warps'
instructions under way. An addition takes 4 cycles and one starts each cycle; an mma takes some 33, one starts every 8
(V. Volkov, "Better performance at lower occupancy", GTC 2010)."""
