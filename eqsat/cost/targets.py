"""Machines: the CPU from facts that the caller measured or read, the GPUs from their data sheets."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ir.diagnostics import Kind, fail
from ir.target import Target

_KIB, _MIB = 1024, 1024**2

CACHE_SPEEDUP = 4.0
"""Last-level cache over memory bandwidth where nobody measured it: L3 of server cores against their DRAM."""


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
    source: str = "machine facts",
) -> Target:
    """The CPU whose facts these are.

    Args:
        arch: "avx512", "avx2", "sse2" or "generic".
        lanes: fp32 numbers in a vector register.
        clock_hz: sustained cycles per second of a core under vector load.
        fma_per_cycle: vector multiply-adds that a core starts per cycle.
        bandwidth, cache_bandwidth: bytes per second of all cores together.
        launch_ns: fork and join of the thread pool, and the call.
        native: peaks (FLOPs per second) of dtypes with units of their own, such as bf16 on AMX.

    fp16 and bf16 compute in fp32; integers have no multiply-add, and a vector holds 4 bytes per lane.
    """
    return Target(
        name="cpu",
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
    )


def _cpu_peaks(adds: float) -> dict[str, float]:
    """FLOPs per second by dtype of a machine that adds so many fp32 numbers per second."""
    narrow = dict.fromkeys(("i32", "i16", "i8", "u8", "bool"), adds)
    return {"fp32": 2 * adds, "fp64": adds, "fp16": 2 * adds, "bf16": 2 * adds, "i64": adds / 2, **narrow}


_GRAPH_LAUNCH_NS = 1500.0
"""Between two dependent kernels of a CUDA graph; an assumption, to be measured on the device."""

A100 = Target(
    name="A100",
    arch="sm80",
    units=108,
    peak_flops={
        "fp16": 312e12,
        "bf16": 312e12,
        "fp32": 19.5e12,
        "fp64": 9.7e12,
        "i32": 19.5e12,
        "i64": 4.9e12,
        "i8": 19.5e12,
    },
    bandwidth=2.039e12,
    cache_bandwidth=7.2e12,
    launch_ns=_GRAPH_LAUNCH_NS,
    l1_bytes=164 * _KIB,
    l2_bytes=40 * _MIB,
    l3_bytes=0,
    lanes=32,
    source="NVIDIA A100 80GB SXM data sheet and whitepaper: dense tensor-core peaks without sparsity, 2039 GB/s, "
    "L2 5120 B/clk at 1.41 GHz, 164 KB of shared memory per SM",
)

H100 = Target(
    name="H100",
    arch="sm90",
    units=132,
    peak_flops={
        "fp16": 989.4e12,
        "bf16": 989.4e12,
        "fp32": 66.9e12,
        "fp64": 33.5e12,
        "i32": 33.5e12,
        "i64": 8.4e12,
        "i8": 33.5e12,
    },
    bandwidth=3.35e12,
    cache_bandwidth=9.0e12,
    launch_ns=_GRAPH_LAUNCH_NS,
    l1_bytes=227 * _KIB,
    l2_bytes=50 * _MIB,
    l3_bytes=0,
    lanes=32,
    source="NVIDIA H100 SXM5 80GB data sheet and whitepaper: dense tensor-core peaks without sparsity, 3.35 TB/s, "
    "227 KB of shared memory per block; L2 5120 B/clk at 1.755 GHz as on the A100, not published",
)

H200 = Target(
    name="H200",
    arch="sm90",
    units=H100.units,
    peak_flops=H100.peak_flops,
    bandwidth=4.8e12,
    cache_bandwidth=H100.cache_bandwidth,
    launch_ns=_GRAPH_LAUNCH_NS,
    l1_bytes=H100.l1_bytes,
    l2_bytes=H100.l2_bytes,
    l3_bytes=0,
    lanes=32,
    source="NVIDIA H200 SXM data sheet: an H100 with HBM3e at 4.8 TB/s",
)

GPUS: Mapping[str, Target] = MappingProxyType({"a100": A100, "h100": H100, "h200": H200, "sm80": A100, "sm90": H100})


def gpu_target(name: str) -> Target:
    """A GPU by name or architecture ("sm80" and "sm_80" are one); UnknownTarget if there is none."""
    found = GPUS.get(name.lower().replace("_", ""))
    if found is None:
        fail(Kind.UNKNOWN_TARGET, "targets", f"there is no target {name!r}", hint=", ".join(["cpu", *GPUS]))
    return found
