"""A machine as the cost model sees it: figures of §11, per second and in bytes."""

from __future__ import annotations

import msgspec

LANES = {"generic": 4, "sse2": 4, "avx2": 8, "avx512": 16}
"""fp32 numbers in a vector register of each CPU's `arch`."""


class Target(msgspec.Struct, frozen=True):
    """What §11 needs to know of a machine.

    arch             "avx512", "avx2", "sse2", "generic", or "sm80", "sm90"
    units            cores or SMs
    peak_flops       per second and for the whole machine, by compute dtype ("tf32": of fp32 on tensor cores); a
                     multiply-add counts two
    bandwidth        bytes per second to and from memory
    cache_bandwidth  bytes per second to and from the last-level cache
    launch_ns        what one kernel costs before it does anything
    l1_bytes         of one unit (an SM's is its shared memory); l2_bytes: of one core, or of the whole GPU;
                     l3_bytes: of the whole machine, 0 where there is none
    lanes            fp32 numbers in a vector register (a warp, on a GPU)
    source           where the figures come from
    l2_bandwidth     bytes per second of all units together to and from their second-level caches; 0 where that level
                     is the last, as on a GPU
    unit_bandwidth   bytes per second that one unit alone draws from memory; 0: its share
    call_ns          what a kernel that one thread runs costs before it does anything, where that is less than
                     `launch_ns`
    weights          "exp fp64" → additions-worth of one point of an op, where it is not the table's of `ir.uop.table`
    vector_cycles, lane_cycles, far_cycles
                     to move a vector register, one lane of it, and one that lies in a cache line of its own; a cycle
                     is the time in which a unit starts two vector multiply-adds
    registers, threads, blocks
                     of one unit: 32-bit registers, threads and blocks that are resident at most; 0 on a CPU
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
    l2_bandwidth: float = 0.0
    unit_bandwidth: float = 0.0
    call_ns: float | None = None
    weights: dict[str, float] = {}
    vector_cycles: float = 0.5
    lane_cycles: float = 0.6
    far_cycles: float = 3.4
    registers: int = 0
    threads: int = 0
    blocks: int = 0

    @property
    def is_gpu(self) -> bool:
        return self.arch.startswith("sm")

    @property
    def cycle_ns(self) -> float:
        """The time in which a unit starts two vector multiply-adds."""
        return 4e9 * self.lanes * self.units / self.peak_flops["fp32"]

    @property
    def on_chip_bytes(self) -> int:
        """What one block or task may keep close: an SM's shared memory, a core's second-level cache."""
        return self.l1_bytes if self.is_gpu else self.l2_bytes

    def refetch_cycles(self, held: float) -> float:
        """Cycles of one unit per byte, beyond those of a load from its nearest cache, of reading again what lies `held`
        bytes of other reads behind."""
        if held <= self.l1_bytes:
            return 0.0
        near = self.l2_bandwidth or self.cache_bandwidth
        if held > self.l2_bytes:
            near = self.cache_bandwidth if held <= self.last_level_bytes else self.bandwidth
        return max(0.0, 1e9 * self.units / near / self.cycle_ns - self.vector_cycles / (4 * self.lanes))

    @property
    def last_level_bytes(self) -> int:
        """The largest cache that all units share; the cores' own together where they share none."""
        if self.l3_bytes:
            return self.l3_bytes
        return self.l2_bytes if self.is_gpu else self.l2_bytes * self.units
