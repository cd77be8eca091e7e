"""A machine as the cost model sees it: figures of §11, per second and in bytes."""

from __future__ import annotations

import msgspec


class Target(msgspec.Struct, frozen=True):
    """`peak_flops` (per second, whole device) by compute dtype, bandwidths in bytes per second, sizes in bytes.

    `arch` is "avx512", "avx2", "sse2", "generic" or "sm80", "sm90"; `units` are cores or SMs; `lanes` is the
    count of fp32 numbers in a vector register (CPU); `source` says where the figures come from.
    """

    name: str
    arch: str
    units: int
    peak_flops: dict[str, float]
    bandwidth: float
    cache_bandwidth: float
    launch_ns: float
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    lanes: int
    source: str
