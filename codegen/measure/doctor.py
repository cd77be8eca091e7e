"""The report of `eqsat doctor`: the machine, its compilers and its measured figures."""

from __future__ import annotations

from codegen.compile.machine import machine
from codegen.compile.nvrtc import nvrtc_targets, nvrtc_version
from codegen.compile.toolchain import find_compiler
from codegen.measure.calibration import Calibration, find_calibration
from codegen.run.device import find_device
from ir.diagnostics import EqsatError
from ir.grammar import with_count
from ir.host.cache_folder import writable_cache

_SHOWN = ("fdiv", "sqrt", "exp", "log", "tanh", "erf", "sin", "pow")


def examine() -> tuple[dict[str, str], tuple[str, ...]]:
    """Facts and measured figures by name, and problems with compiling. Measures in a few seconds, and stores the
    figures for `target="calibrated"`."""
    here = machine()
    cache, warnings = writable_cache()
    facts = {
        "cpu": here.cpu,
        "instruction sets": f"{here.arch} ({', '.join(here.features)})",
        "cores": str(here.cores),
        "caches": f"L1 {here.l1_bytes >> 10} KiB, L2 {here.l2_bytes >> 10} KiB, L3 {here.l3_bytes >> 10} KiB",
        "cache folder": str(cache),
        **gpu_facts(),
    }
    try:
        facts["compiler"] = str(find_compiler())
    except EqsatError as error:
        return facts, (*map(str, warnings), str(error))
    return facts | figures(find_calibration(again=True)), tuple(map(str, warnings))


def gpu_facts() -> dict[str, str]:
    """The tools for compiling for GPUs, and the GPU. Programs for the CPU need none of them."""
    try:
        import cupy

        with_cupy = f"CuPy {cupy.__version__}"
        nvrtc = "NVRTC {}.{}".format(*nvrtc_version()) + f" for {', '.join(nvrtc_targets())}"
    except ImportError:
        return {"gpu": "no CuPy, through which NVRTC is called: pip install 'eqsat[cuda]'"}
    except EqsatError:
        nvrtc = "no NVRTC: pip install 'eqsat[cuda]'"
    device = find_device()
    gpu = f"{device.name}, {device.arch}, {device.units} SMs, {device.memory >> 30} GiB" if device else "no CUDA device"
    return {"gpu": f"{gpu}; {with_cupy}, {nvrtc}"}


def figures(calibration: Calibration) -> dict[str, str]:
    """A calibration for people."""
    peaks, memory, cycle = calibration.peaks, calibration.memory, calibration.cycle_ns
    facts = {f"fp32 FMA, {with_count(n, 'thread')}": f"{rate / 1e9:.0f} GFLOP/s" for n, rate in peaks.fma_flops.items()}
    bf16 = "bf16 in matrix registers" if calibration.machine.arch == "amx" else "bf16 by pairs"
    facts |= {f"{bf16}, {with_count(n, 'thread')}": f"{rate / 1e9:.0f} GFLOP/s" for n, rate in peaks.bf16_flops.items()}
    facts |= {
        f"streamed copy, {with_count(n, 'thread')}": f"{rate / 1e9:.1f} GB/s" for n, rate in peaks.copy_bytes.items()
    }
    levels = ((memory.l2, "in L2"), (memory.l3, "in L3"), (memory.memory, "in memory"), (memory.alone, "by one core"))
    facts["copies"] = ", ".join(f"{rate / 1e9:.0f} GB/s {where}" for rate, where in levels)
    facts["starting a kernel"] = f"{memory.call_ns:.0f} ns, {memory.fork_ns:.0f} ns more on all cores"
    facts["cycles a register"] = f"{memory.vector_ns / cycle:.2f}"
    facts["cycles a lane"] = f"{memory.lane_ns / cycle:.2f} near, {memory.far_ns / cycle:.2f} far"
    facts["additions-worth, fp32"] = ", ".join(f"{fn} {calibration.weights[f'{fn} fp32']:.0f}" for fn in _SHOWN)
    return facts
