"""A machine as the cost model sees it: figures of §11, per second and in bytes."""

from __future__ import annotations

import msgspec

LANES = {"generic": 4, "sse2": 4, "avx2": 8, "avx512": 16}
"""fp32 numbers in a vector register of each CPU's `arch`."""


class Target(msgspec.Struct, frozen=True):
    """What §11 needs to know of a machine.

    arch             "avx512", "avx2", "sse2", "generic", or "sm80", "sm90"
    units            cores or SMs
    peak_flops       per second and for the whole machine, by compute dtype; a multiply-add counts two
    bandwidth        bytes per second to and from memory
    cache_bandwidth  bytes per second to and from the last-level cache
    launch_ns        what one kernel costs before it does anything
    l1_bytes         of one unit (an SM's is its shared memory); l2_bytes: of one core, or of the whole GPU;
                     l3_bytes: of the whole machine, 0 where there is none
    lanes            fp32 numbers in a vector register (a warp, on a GPU)
    source           where the figures come from
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

    @property
    def is_gpu(self) -> bool:
        return self.arch.startswith("sm")

    @property
    def last_level_bytes(self) -> int:
        """The largest cache that all units share; the cores' own together where they share none."""
        if self.l3_bytes:
            return self.l3_bytes
        return self.l2_bytes if self.is_gpu else self.l2_bytes * self.units
