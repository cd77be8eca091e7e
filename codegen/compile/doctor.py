"""What this machine offers to generated code, for people: `eqsat doctor`."""

from __future__ import annotations

from codegen.compile.cache import writable_cache
from codegen.compile.machine import machine
from codegen.compile.peaks import measure_peaks
from codegen.compile.toolchain import find_compiler
from ir.diagnostics import EqsatError


def examine() -> tuple[dict[str, str], tuple[str, ...]]:
    """Facts and measured peaks by name (about a second), and what stands in the way of compiling."""
    here = machine()
    cache, warnings = writable_cache()
    facts = {
        "cpu": here.cpu,
        "instruction sets": f"{here.arch} ({', '.join(here.features)})",
        "cores": str(here.cores),
        "caches": f"L1 {here.l1_bytes >> 10} KiB, L2 {here.l2_bytes >> 10} KiB, L3 {here.l3_bytes >> 10} KiB",
        "cache folder": str(cache),
    }
    try:
        facts["compiler"] = str(find_compiler())
    except EqsatError as error:
        return facts, (*map(str, warnings), str(error))
    peaks = measure_peaks(here)
    facts |= {f"fp32 FMA, {n} threads": f"{rate / 1e9:.0f} GFLOP/s" for n, rate in peaks.fma_flops.items()}
    facts |= {f"copy, {n} threads": f"{rate / 1e9:.1f} GB/s" for n, rate in peaks.copy_bytes.items()}
    return facts, tuple(map(str, warnings))
