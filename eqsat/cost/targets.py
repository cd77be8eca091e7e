"""Machines: CPUs from facts that the caller measured or read, GPUs from their data sheets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ir.diagnostics import Kind, fail
from ir.target import PAIRS_OF_BF16, VNNI, Target
from ir.uop.philox import WORDS

_KIB, _MIB = 1024, 1024**2

CACHE_SPEEDUP = 4.0
"""Ratio of last-level-cache to memory bandwidth if not measured; that of L3 and DRAM on server cores."""

_CALLED = {
    "fp64": {"erf": 39, "pow": 69},
    "i32": {"pow": 14},
    "i64": {"pow": 13, "idiv": 14, "mod": 14},
    "u64": {"idiv": 14, "mod": 14},
}
"""Time of functions that call the C library lane by lane, in additions of one vector register per element; so it does
not depend on the register's width."""
_IN_FP64 = {
    "fp64": {"recip": 12.0, "fdiv": 12.0, "sqrt": 26.0, "rsqrt": 42.0, "exp": 52.0, "exp2": 45.0, "log": 90.0}
    | {"log2": 88.0, "sin": 76.0, "cos": 76.0, "tanh": 60.0, "sigmoid": 72.0},
    "fp32": {"pow": 140.0},
}
"""Time of functions that compute in fp64, on two registers, in additions. `codegen.measure.op_speeds` measured both
tables on Zen 4 and Zen 5 cores, gcc 12."""
_BY_TABLES = {"exp": 8.0, "exp2": 8.0, "log": 8.5, "log2": 10.0, "tanh": 19.0, "erf": 13.5, "sigmoid": 15.5}
"""Time of functions of fp32 whose coefficients lie in registers of 16 lanes, in additions: measured on a Zen 4 core and
scaled, since other functions take 1.45 times as many additions there as `ir.uop.table` says."""
_LANES_OF_TABLES = 16


def nominal_weights(lanes: int) -> dict[str, float]:
    """Time in additions, by "exp fp64", of functions whose code in a dtype differs from what `ir.uop.table` weighs."""
    called = {f"{fn} {dtype}": float(cost * lanes) for dtype, row in _CALLED.items() for fn, cost in row.items()}
    wide = {f"{fn} {dtype}": cost for dtype, row in _IN_FP64.items() for fn, cost in row.items()}
    tabled = {f"{fn} fp32": cost for fn, cost in _BY_TABLES.items() if lanes == _LANES_OF_TABLES}
    return {**called, **wide, **tabled, "cast fp16": 1.0, "cast bf16": 2.0}


def cpu_target(
    *,
    arch: str,
    cores: int,
    lanes: int,
    clock_hz: float,
    fma_per_cycle: float = 2,
    bandwidth: float = 20e9,
    cache_bandwidth: float | None = None,
    launch_ns: float = 600.0,
    l1_bytes: int = 32 * _KIB,
    l2_bytes: int = 1 * _MIB,
    l3_bytes: int = 8 * _MIB,
    native: Mapping[str, float] = MappingProxyType({}),
    l2_bandwidth: float = 0.0,
    unit_bandwidth: float = 0.0,
    call_ns: float | None = None,
    weights: Mapping[str, float] | None = None,
    vector_cycles: float = 0.5,
    lane_cycles: float = 0.6,
    far_cycles: float = 3.4,
    name: str = "cpu",
    source: str = "machine facts",
) -> Target:
    """A CPU with these properties.

    Args:
        arch: one of `ir.target.LANES`.
        lanes: fp32 numbers in a vector register.
        clock_hz: sustained cycles per second of a core under vector load.
        bandwidth, cache_bandwidth: bytes per second of all cores together.
        launch_ns: fork and join of the thread pool, and the call.
        native: peaks (FLOPs per second) of dtypes, if not the nominal ones.
        weights: of ops, if not the nominal ones. The other arguments are fields of `ir.target.Target`.

    fp16 and bf16 compute in fp32; integers have no multiply-add, and a vector holds 4 bytes per lane.
    """
    return Target(
        name=name,
        arch=arch,
        units=cores,
        peak_flops=_cpu_peaks(cores * clock_hz * 2 * lanes)
        | _narrow_peaks(arch, cores * clock_hz, 2 * lanes)
        | dict(native),
        bandwidth=bandwidth,
        cache_bandwidth=cache_bandwidth or CACHE_SPEEDUP * bandwidth,
        launch_ns=launch_ns,
        l1_bytes=l1_bytes,
        l2_bytes=l2_bytes,
        l3_bytes=l3_bytes,
        lanes=lanes,
        source=source,
        l2_bandwidth=l2_bandwidth,
        unit_bandwidth=unit_bandwidth,
        call_ns=call_ns,
        weights=nominal_weights(lanes) if weights is None else dict(weights),
        vector_cycles=vector_cycles,
        lane_cycles=lane_cycles,
        far_cycles=far_cycles,
        fma_per_cycle=fma_per_cycle,
    )


_HALVED_FMA = 1.25
"""Multiply-adds that a core starts per cycle of the nominal clock, 3 GHz, if it starts one per clock: a Zen 4 runs at
about 3.7 GHz, since long registers do not slow it."""


def nominal_cpu(
    *,
    arch: str,
    cores: int,
    lanes: int,
    fma_per_cycle: int = 2,
    l1_bytes: int,
    l2_bytes: int,
    l3_bytes: int,
    source: str,
) -> Target:
    """A CPU of which only the sizes are known, and the multiply-adds that a core starts in a cycle. Its other rates are
    round figures of a server's core, so that a program gets the same cover on every run."""
    return cpu_target(
        arch=arch,
        cores=cores,
        lanes=lanes,
        clock_hz=3.0e9,
        fma_per_cycle=2.0 if fma_per_cycle == 2 else _HALVED_FMA,
        bandwidth=(1 + cores) * 15e9,
        unit_bandwidth=30e9,
        cache_bandwidth=cores * 80e9,
        l2_bandwidth=cores * 160e9,
        launch_ns=600.0,
        call_ns=40.0,
        l1_bytes=l1_bytes,
        l2_bytes=l2_bytes,
        l3_bytes=l3_bytes,
        source=source,
    )


def _cpu_peaks(adds: float) -> dict[str, float]:
    """FLOPs per second by dtype of a machine that adds `adds` fp32 numbers per second."""
    narrow = dict.fromkeys(("i32", "u32", "i16", "u16", "i8", "u8", "bool"), adds)
    wide = dict.fromkeys(("i64", "u64"), adds / 2)
    return {"fp32": 2 * adds, "fp64": adds, "fp16": 2 * adds, "bf16": 2 * adds, **wide, **narrow}


def _narrow_peaks(arch: str, cycles: float, multiplies: int) -> dict[str, float]:
    """FLOPs per second, by dtype of the operands, of products of cells that have a peak of their own, on cores that
    make so many `cycles` per second together. A multiply-add of VNNI has four products per lane of the `multiplies`
    that a core starts per cycle, one of pairs of bf16 two. AMX multiplies 16 × 64 bytes by 64 × 16 bytes in 16 cycles
    (Intel, Optimization Reference Manual, 20.1)."""
    if arch == "amx":
        return {"bf16": 1024 * cycles, "i8": 2048 * cycles, "u8": 2048 * cycles}
    peaks = dict.fromkeys(("i8", "u8"), 8 * multiplies * cycles) if arch in VNNI else {}
    return peaks | ({"bf16": 4 * multiplies * cycles} if arch in PAIRS_OF_BF16 else {})


_GRAPH_LAUNCH_NS = 1500.0
"""ns between two dependent kernels of a CUDA graph; assumed, still to be measured on the device."""
_GPU_WEIGHTS = {
    "fdiv fp32": 10.0,
    "recip fp32": 10.0,
    "cast fp16": 2.0,
    "cast bf16": 2.0,
    **{f"random_{word} u32": 60.0 for word in range(WORDS)},
}
"""Instructions per element in SASS (CUDA 13.0, sm_80): of exact quotients if no operand is denormal or near the limits,
and of rounding a value and widening it again. Of a random word, those in the text: in each of 10 rounds two products of
64 bits, two exclusive ors of three operands, two additions."""


class _Unit(NamedTuple):
    """An SM: `l1_bytes` of shared memory, resident `threads` and `blocks`; FLOPs per clock of fp32, fp64, and fp16 on
    tensor cores."""

    l1_bytes: int
    threads: int
    blocks: int
    fp32: int
    fp64: int
    matrix: int

    def figures(self) -> dict[str, int]:
        """The fields of a `Target` that belong to one SM."""
        own = {"l1_bytes": self.l1_bytes, "threads": self.threads, "blocks": self.blocks, "registers": 65536}
        return {**own, "lanes": 32, "issue": 128, "shared_bytes": 128}

    def peaks(self, units: int, clock_hz: float, matrix_clock_hz: float) -> dict[str, float]:
        """FLOPs per second by dtype of so many SMs. Tensor cores may run at a lower clock than the other units. A
        multiply-add of integers has 64 lanes on every architecture, one of 64 bits takes four instructions."""
        wide = dict.fromkeys(("i64", "u64"), 32) | dict.fromkeys(("i32", "u32", "i8"), 128)
        plain = {"fp32": self.fp32, "fp64": self.fp64, **wide}
        matrix = {"fp16": self.matrix, "bf16": self.matrix, "tf32": self.matrix // 2}
        fast = {dtype: rate * units * matrix_clock_hz for dtype, rate in matrix.items()}
        return fast | {dtype: rate * units * clock_hz for dtype, rate in plain.items()}


_UNITS: Mapping[str, _Unit] = MappingProxyType(
    {
        "sm80": _Unit(164 * _KIB, 2048, 32, 128, 64, 2048),
        "sm86": _Unit(100 * _KIB, 1536, 16, 256, 4, 1024),
        "sm87": _Unit(164 * _KIB, 1536, 16, 256, 4, 2048),
        "sm89": _Unit(100 * _KIB, 1536, 24, 256, 4, 1024),
        "sm90": _Unit(228 * _KIB, 2048, 32, 256, 128, 4096),
        "sm100": _Unit(228 * _KIB, 2048, 32, 256, 128, 8192),
        "sm103": _Unit(228 * _KIB, 2048, 32, 256, 4, 8192),
        "sm120": _Unit(100 * _KIB, 1536, 24, 256, 4, 512),
        "sm121": _Unit(100 * _KIB, 1536, 24, 256, 4, 512),
    }
)
"""By architecture, from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability" and
"Arithmetic Instructions"; tensor cores from the whitepapers, dense and with sums in fp32. Every SM starts an
instruction of four warps per clock, and moves 128 bytes per clock to and from shared memory."""
_LEAST_UNIT = _Unit(100 * _KIB, 1536, 16, 256, 4, 1024)
"""For an architecture that the table lacks."""
_A100_HZ, _H100_HZ, _H100_MATRIX_HZ, _B200_HZ, _RTX5090_HZ = 1.41e9, 1.98e9, 1.83e9, 1.85e9, 2.407e9
"""Boost clocks of the data sheets; an H100's tensor cores have one of their own. A B200's is not published: the clock
at which its tensor cores reach the peak of the data sheet."""

A100 = Target(
    name="A100",
    arch="sm80",
    units=108,
    peak_flops=_UNITS["sm80"].peaks(108, _A100_HZ, _A100_HZ),
    bandwidth=2.039e12,
    cache_bandwidth=7.2e12,
    launch_ns=_GRAPH_LAUNCH_NS,
    l2_bytes=40 * _MIB,
    l3_bytes=0,
    weights=_GPU_WEIGHTS,
    clock_hz=_A100_HZ,
    source="NVIDIA A100 80GB SXM data sheet and whitepaper: 1.41 GHz, dense tensor-core peaks without sparsity, "
    "2039 GB/s, L2 5120 B/clk, 164 KB of shared memory per SM",
    **_UNITS["sm80"].figures(),
)

H100 = Target(
    name="H100",
    arch="sm90",
    units=132,
    peak_flops=_UNITS["sm90"].peaks(132, _H100_HZ, _H100_MATRIX_HZ),
    bandwidth=3.35e12,
    cache_bandwidth=9.0e12,
    launch_ns=_GRAPH_LAUNCH_NS,
    l2_bytes=50 * _MIB,
    l3_bytes=0,
    weights=_GPU_WEIGHTS,
    clock_hz=_H100_HZ,
    source="NVIDIA H100 SXM5 80GB data sheet and whitepaper: 1.98 GHz, tensor cores at 1.83 GHz without sparsity, "
    "3.35 TB/s, 228 KB of shared memory per SM; L2 5120 B/clk at 1.755 GHz as on the A100, not published",
    **_UNITS["sm90"].figures(),
)

H200 = Target(
    name="H200",
    arch="sm90",
    units=H100.units,
    peak_flops=H100.peak_flops,
    bandwidth=4.8e12,
    cache_bandwidth=H100.cache_bandwidth,
    launch_ns=_GRAPH_LAUNCH_NS,
    l2_bytes=H100.l2_bytes,
    l3_bytes=0,
    weights=_GPU_WEIGHTS,
    clock_hz=_H100_HZ,
    source="NVIDIA H200 SXM data sheet: an H100 with HBM3e at 4.8 TB/s",
    **_UNITS["sm90"].figures(),
)

B200 = Target(
    name="B200",
    arch="sm100",
    units=148,
    peak_flops=_UNITS["sm100"].peaks(148, _B200_HZ, _B200_HZ),
    bandwidth=8.0e12,
    cache_bandwidth=1.0e13,
    launch_ns=_GRAPH_LAUNCH_NS,
    l2_bytes=126 * _MIB,
    l3_bytes=0,
    weights=_GPU_WEIGHTS,
    clock_hz=_B200_HZ,
    source="NVIDIA B200 data sheet: 2.25 PFLOP/s of dense bf16, 8 TB/s; the rate of L2 is assumed",
    **_UNITS["sm100"].figures(),
)

RTX5090 = Target(
    name="RTX 5090",
    arch="sm120",
    units=170,
    peak_flops=_UNITS["sm120"].peaks(170, _RTX5090_HZ, _RTX5090_HZ),
    bandwidth=1.792e12,
    cache_bandwidth=6.0e12,
    launch_ns=_GRAPH_LAUNCH_NS,
    l2_bytes=96 * _MIB,
    l3_bytes=0,
    weights=_GPU_WEIGHTS,
    clock_hz=_RTX5090_HZ,
    source="NVIDIA RTX Blackwell whitepaper, RTX 5090: 2.407 GHz, dense peaks with sums in fp32, 1792 GB/s; the rate "
    "of L2 is assumed",
    **_UNITS["sm120"].figures(),
)

GPUS: Mapping[str, Target] = MappingProxyType(
    {
        "a100": A100,
        "h100": H100,
        "h200": H200,
        "b200": B200,
        "rtx5090": RTX5090,
        "sm80": A100,
        "sm90": H100,
        "sm90a": msgspec.structs.replace(H100, arch="sm90a"),
        "sm100": B200,
        "sm120": RTX5090,
    }
)


def gpu_target(name: str) -> Target:
    """A GPU by name or architecture (also "sm_80"). Raises EqsatError, UnknownTarget, if there is none."""
    target = GPUS.get(name.lower().replace("_", ""))
    if target is None:
        fail(Kind.UNKNOWN_TARGET, "targets", f"there is no target {name!r}", hint=", ".join(GPUS))
    return target


def device_target(
    name: str, arch: str, units: int, *, clock_hz: float = 0.0, bandwidth: float = 0.0, l2_bytes: int = 0
) -> Target | None:
    """The target of a present GPU, such as "NVIDIA H100 80GB HBM3", "sm90", with this many SMs.

    The data sheet of that name gives the peaks, scaled to the device's SMs and clock. A device without a data sheet
    here gets the rates of its architecture's SM, and all else from the data sheet of its generation. None for a
    generation that no kernels are written for.

    Args:
        clock_hz, bandwidth, l2_bytes: as the device reports them; 0: those of the data sheet.
    """
    sheets = [sheet for sheet in (H200, H100, A100, B200, RTX5090) if sheet.arch[:-1] == arch[:-1]]
    named = next((sheet for sheet in sheets if sheet.name.upper() in name.upper()), None)
    sheet = named or GPUS.get(f"{arch[:-1]}0")
    if sheet is None:
        return None
    unit, clock = _UNITS.get(arch, _LEAST_UNIT), clock_hz or sheet.clock_hz
    share = units * clock / (sheet.units * sheet.clock_hz)
    scaled = {dtype: rate * share for dtype, rate in sheet.peak_flops.items()}
    return msgspec.structs.replace(
        sheet,
        units=units,
        clock_hz=clock,
        peak_flops=scaled if named else unit.peaks(units, clock, clock),
        bandwidth=bandwidth or sheet.bandwidth,
        cache_bandwidth=sheet.cache_bandwidth * share,
        l2_bytes=l2_bytes or sheet.l2_bytes,
        source=f"{name} ({arch}), {units} SMs at {clock / 1e9:.2f} GHz: {sheet.source}",
        **unit.figures(),
    )
