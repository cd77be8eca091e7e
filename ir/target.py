"""A machine as the cost model sees it: the figures of seed 000 §11."""

from __future__ import annotations

import msgspec

LANES = {
    "generic": 4,
    "sse2": 4,
    "avx2": 8,
    "avx2_vnni": 8,
    "avx512": 16,
    "avx512_vnni": 16,
    "avx512_bf16": 16,
    "amx": 16,
}
"""fp32 numbers in a vector register, by the CPU's `arch`."""
VECTOR_REGISTERS = {arch: 32 if lanes == 16 else 16 for arch, lanes in LANES.items()}
"""Vector registers of a core, by the CPU's `arch`."""
VNNI = frozenset({"avx2_vnni", "avx512_vnni", "avx512_bf16", "amx"})
"""The `arch`es whose vector registers multiply cells of four 8-bit integers (`ir.kernel.cpu.cells`)."""
PAIRS_OF_BF16 = frozenset({"avx512_bf16"})
"""The `arch`es that multiply cells of two numbers of bf16 in vector registers; "amx" has matrix registers for them."""
CACHE_LINE_BYTES = 64
"""Size of a cache line of a CPU, in bytes: that of x86 and of most Arm cores."""


class Target(msgspec.Struct, frozen=True):
    """The figures of a machine.

    arch             "amx" (AVX-512, VNNI, BF16 and AMX), "avx512_bf16", "avx512_vnni", "avx512", "avx2_vnni", "avx2",
                     "sse2", "generic", or "sm80", "sm90"
    units            cores or SMs
    peak_flops       per second, of the whole machine, by compute dtype ("tf32": fp32 on tensor cores); a multiply-add
                     counts two
    bandwidth        bytes per second to and from memory
    cache_bandwidth  bytes per second to and from the last-level cache
    launch_ns        ns that a kernel costs before its work
    l1_bytes         of one unit (an SM's is its shared memory); l2_bytes: of one core, or of the whole GPU;
                     l3_bytes: of the whole machine, 0 if there is none
    lanes            fp32 numbers in a vector register (of a GPU: in a warp)
    source           where the figures come from
    l2_bandwidth     bytes per second of all units together to and from their second-level caches; 0 if that level
                     is the last, as on a GPU
    unit_bandwidth   bytes per second that one unit alone gets from memory; 0: its share
    call_ns          ns that a kernel of one thread costs before its work, if less than `launch_ns`
    weights          "exp fp64" → cost of one point of an op in additions, if it differs from `ir.uop.table`
    vector_cycles, lane_cycles, far_cycles
                     to move a vector register, one lane of it, and a lane that has a cache line of its own
    fma_per_cycle    the vector multiply-adds among the two vector operations that a core starts in a cycle: fewer than
                     `peak_flops` counts where the other operation has to be an addition
    registers, threads, blocks
                     most resident 32-bit registers, threads and blocks of one unit; 0 on a CPU
    clock_hz         clocks per second of an SM; 0 on a CPU, whose cycle follows from its peak
    issue            instructions of single threads that an SM starts per clock; 0 on a CPU
    shared_bytes     bytes per clock that an SM moves to and from shared memory; 0 on a CPU
    constant_bytes   of all constants of the program that is priced, which pass through a CPU's caches in every call;
                     0 if unknown
    argument_bytes   of all arguments of the program that is priced; 0 if unknown
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
    fma_per_cycle: float = 2.0
    registers: int = 0
    threads: int = 0
    blocks: int = 0
    clock_hz: float = 0.0
    issue: int = 0
    shared_bytes: int = 0
    constant_bytes: int = 0
    argument_bytes: int = 0

    @property
    def is_gpu(self) -> bool:
        return self.arch.startswith("sm")

    @property
    def cycle_ns(self) -> float:
        """A cycle: on a GPU one clock, on a CPU the time in which a core starts two vector operations."""
        return 1e9 / self.clock_hz if self.is_gpu else 4e9 * self.lanes * self.units / self.peak_flops["fp32"]

    def cycles_in(self, seconds: float) -> float:
        """Cycles of all units together in this time."""
        return seconds * 1e9 / self.cycle_ns * self.units

    def per_cycle(self, dtype: str) -> float:
        """FLOPs of one unit in a cycle; those of fp32 if the machine lists no peak of the dtype."""
        return self.peak_flops.get(dtype, self.peak_flops["fp32"]) * self.cycle_ns * 1e-9 / self.units

    @property
    def on_chip_bytes(self) -> int:
        """Bytes that a block or task may keep on chip: an SM's shared memory, a core's second-level cache."""
        return self.l1_bytes if self.is_gpu else self.l2_bytes

    def refetch_cycles(self, held: float) -> float:
        """Cycles of one unit per byte for reading data again after `held` bytes of other reads, beyond the cycles of a
        load from the unit's nearest cache."""
        if held <= self.l1_bytes:
            return 0.0
        near = self.l2_bandwidth or self.cache_bandwidth
        if held > self.l2_bytes:
            near = self.cache_bandwidth if held <= self.last_level_bytes else self.bandwidth
        return max(0.0, 1e9 * self.units / near / self.cycle_ns - self.vector_cycles / (4 * self.lanes))

    @property
    def last_level_bytes(self) -> int:
        """The largest cache that all units share; without one, all second-level caches together."""
        if self.l3_bytes:
            return self.l3_bytes
        return self.l2_bytes if self.is_gpu else self.l2_bytes * self.units
