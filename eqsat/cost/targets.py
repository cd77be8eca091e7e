"""Machines: CPUs from facts that the caller measured or read, GPUs from their data sheets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from ir.diagnostics import Kind, fail
from ir.target import Target
from ir.uop.philox import WORDS

_KIB, _MIB = 1024, 1024**2

CACHE_SPEEDUP = 4.0
"""Ratio of last-level-cache to memory bandwidth if not measured; that of L3 and DRAM on server cores."""

_CALLED = {
    "fp32": {"pow": 26},
    "fp64": {"exp": 23, "exp2": 16, "log": 21, "log2": 21, "sin": 66, "cos": 67, "tanh": 67, "erf": 39, "sigmoid": 26}
    | {"pow": 69},
    "i32": {"pow": 14},
    "i64": {"pow": 13, "idiv": 14, "mod": 14},
    "u64": {"idiv": 14, "mod": 14},
}
"""Time of functions that call the C library lane by lane, in additions of one vector register per element; so it does
not depend on the register's width."""
_ROOTS = {"fp64": {"recip": 12.0, "fdiv": 12.0, "sqrt": 26.0, "rsqrt": 42.0}}
"""Time of functions whose fp64 form is slower than fp32 on two registers, in additions. Both tables were measured with
`codegen.measure.op_speeds` on a Zen 5 core, gcc 12."""


def nominal_weights(lanes: int) -> dict[str, float]:
    """Time in additions, by "exp fp64", of functions whose code in a dtype differs from what `ir.uop.table` weighs."""
    called = {f"{fn} {dtype}": float(cost * lanes) for dtype, row in _CALLED.items() for fn, cost in row.items()}
    roots = {f"{fn} {dtype}": cost for dtype, row in _ROOTS.items() for fn, cost in row.items()}
    return {**called, **roots, "cast fp16": 1.0, "cast bf16": 2.0}


def cpu_target(
    *,
    arch: str,
    cores: int,
    lanes: int,
    clock_hz: float,
    fma_per_cycle: int = 2,
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
        arch: "avx512", "avx2", "sse2" or "generic".
        lanes: fp32 numbers in a vector register.
        clock_hz: sustained cycles per second of a core under vector load.
        fma_per_cycle: vector multiply-adds that a core starts per cycle.
        bandwidth, cache_bandwidth: bytes per second of all cores together.
        launch_ns: fork and join of the thread pool, and the call.
        native: peaks (FLOPs per second) of dtypes with units of their own, such as bf16 on AMX.
        weights: of ops, if not the nominal ones. The other arguments are fields of `ir.target.Target`.

    fp16 and bf16 compute in fp32; integers have no multiply-add, and a vector holds 4 bytes per lane.
    """
    return Target(
        name=name,
        arch=arch,
        units=cores,
        peak_flops=_cpu_peaks(cores * clock_hz * fma_per_cycle * lanes) | dict(native),
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
    )


def nominal_cpu(
    *, arch: str, cores: int, lanes: int, l1_bytes: int, l2_bytes: int, l3_bytes: int, source: str
) -> Target:
    """A CPU of which only the sizes were measured. Its rates are round figures of a server's core, so that a program
    gets the same cover on every run."""
    return cpu_target(
        arch=arch,
        cores=cores,
        lanes=lanes,
        clock_hz=3.0e9,
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
    """The capacity of an SM: `l1_bytes` of shared memory, resident `threads` and `blocks`."""

    l1_bytes: int
    threads: int
    blocks: int


_UNITS: Mapping[str, _Unit] = MappingProxyType(
    {
        "sm80": _Unit(164 * _KIB, 2048, 32),
        "sm86": _Unit(100 * _KIB, 1536, 16),
        "sm87": _Unit(164 * _KIB, 1536, 16),
        "sm89": _Unit(100 * _KIB, 1536, 24),
        "sm90": _Unit(228 * _KIB, 2048, 32),
    }
)
"""By architecture, from the CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""
_LEAST_UNIT = _Unit(100 * _KIB, 1536, 16)
"""For an architecture that the table lacks."""

A100 = Target(
    name="A100",
    arch="sm80",
    units=108,
    peak_flops={
        "fp16": 312e12,
        "bf16": 312e12,
        "tf32": 156e12,
        "fp32": 19.5e12,
        "fp64": 9.7e12,
        "i32": 19.5e12,
        "u32": 19.5e12,
        "i64": 4.9e12,
        "u64": 4.9e12,
        "i8": 19.5e12,
    },
    bandwidth=2.039e12,
    cache_bandwidth=7.2e12,
    launch_ns=_GRAPH_LAUNCH_NS,
    l2_bytes=40 * _MIB,
    l3_bytes=0,
    lanes=32,
    registers=65536,
    weights=_GPU_WEIGHTS,
    source="NVIDIA A100 80GB SXM data sheet and whitepaper: dense tensor-core peaks without sparsity, 2039 GB/s, "
    "L2 5120 B/clk at 1.41 GHz, 164 KB of shared memory per SM",
    **_UNITS["sm80"]._asdict(),
)

H100 = Target(
    name="H100",
    arch="sm90",
    units=132,
    peak_flops={
        "fp16": 989.4e12,
        "bf16": 989.4e12,
        "tf32": 494.7e12,
        "fp32": 66.9e12,
        "fp64": 33.5e12,
        "i32": 33.5e12,
        "u32": 33.5e12,
        "i64": 8.4e12,
        "u64": 8.4e12,
        "i8": 33.5e12,
    },
    bandwidth=3.35e12,
    cache_bandwidth=9.0e12,
    launch_ns=_GRAPH_LAUNCH_NS,
    l2_bytes=50 * _MIB,
    l3_bytes=0,
    lanes=32,
    registers=65536,
    weights=_GPU_WEIGHTS,
    source="NVIDIA H100 SXM5 80GB data sheet and whitepaper: dense tensor-core peaks without sparsity, 3.35 TB/s, "
    "228 KB of shared memory per SM; L2 5120 B/clk at 1.755 GHz as on the A100, not published",
    **_UNITS["sm90"]._asdict(),
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
    lanes=32,
    registers=65536,
    weights=_GPU_WEIGHTS,
    source="NVIDIA H200 SXM data sheet: an H100 with HBM3e at 4.8 TB/s",
    **_UNITS["sm90"]._asdict(),
)

GPUS: Mapping[str, Target] = MappingProxyType({"a100": A100, "h100": H100, "h200": H200, "sm80": A100, "sm90": H100})


def gpu_target(name: str) -> Target:
    """A GPU by name or architecture (also "sm_80"). Raises EqsatError, UnknownTarget, if there is none."""
    target = GPUS.get(name.lower().replace("_", ""))
    if target is None:
        fail(Kind.UNKNOWN_TARGET, "targets", f"there is no target {name!r}", hint=", ".join(GPUS))
    return target


def device_target(name: str, arch: str, units: int) -> Target | None:
    """The target of a present GPU, such as "NVIDIA H100 80GB HBM3", "sm90", with this many SMs. The data sheet of that
    name is used, else that of the generation, scaled to the SMs and with the SM of its own architecture. None for a
    generation that no kernels are written for."""
    sheet = next((GPUS[model] for model in ("h200", "h100", "a100") if model.upper() in name.upper()), None)
    sheet = sheet or GPUS.get(f"{arch[:-1]}0")
    if sheet is None or sheet.arch[:-1] != arch[:-1]:
        return None
    share, own = units / sheet.units, _UNITS.get(arch, _LEAST_UNIT)
    return msgspec.structs.replace(
        sheet,
        units=units,
        peak_flops={dtype: rate * share for dtype, rate in sheet.peak_flops.items()},
        source=f"{name} ({arch}), {units} SMs: {sheet.source}",
        **own._asdict(),
    )
