"""Compares matrix products and ResNet-50's convolutions with torch and with this machine's multiply-add peak.

    python -m bench.gemm [gemm] [conv] [--rounds 15] [--best]

Outputs are compared before anything is timed; then the two run in turn, and medians are reported. Ours is the kernel
alone, called through ctypes; torch's is its eager call. Filters are constants: ours packs them once, torch in every
call. Nothing is written: `bench.peers` measures whole programs.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bench.arguments import among, count
from bench.facts import commit, load, warn_of_load
from codegen.compile.machine import machine
from codegen.compile.toolchain import find_compiler
from codegen.measure.peaks import measure_peaks
from ir.plan.cpu import CpuContractionPlan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.region.region import Region
from tests.support.cpu.contraction_runs import Built, plans_of
from tests.support.cpu.played import Array
from tests.support.programs import regions

KINDS = ("gemm", "conv")

RESNET50 = [
    # channels in, size, channels out, kernel, stride
    *((3, 224, 64, 7, 2), (64, 56, 64, 1, 1), (64, 56, 64, 3, 1), (64, 56, 256, 1, 1), (256, 56, 64, 1, 1)),
    *((256, 56, 128, 1, 1), (128, 56, 128, 3, 2), (128, 28, 512, 1, 1), (256, 56, 512, 1, 2), (512, 28, 128, 1, 1)),
    *((128, 28, 128, 3, 1), (512, 28, 256, 1, 1), (256, 28, 256, 3, 2), (256, 14, 1024, 1, 1), (512, 28, 1024, 1, 2)),
    *((1024, 14, 256, 1, 1), (256, 14, 256, 3, 1), (1024, 14, 512, 1, 1), (512, 14, 512, 3, 2), (512, 7, 2048, 1, 1)),
    *((1024, 14, 2048, 1, 2), (2048, 7, 512, 1, 1), (512, 7, 512, 3, 1)),
]
GEMM = [(n, n, n) for n in (256, 384, 512, 768, 1024)]
GEMM += [(1, 4096, 4096), (8, 1024, 1024), (128, 768, 768), (128, 3072, 768), (4096, 1, 4096)]


def cases(
    kinds: Sequence[str],
) -> Iterator[tuple[str, Region, float, Callable[[dict[str, Array]], Callable[[], object]]]]:
    """(name, region, flops, function that makes torch's runner)."""
    import torch

    if "gemm" in kinds:
        for m, n, k in GEMM:
            region = regions.matmul((), m, n, k)

            def product(x: dict[str, Array]) -> Callable[[], object]:
                a, b = torch.from_numpy(x["A"]), torch.from_numpy(x["B"])
                return lambda: a @ b

            yield f"gemm {m}x{n}x{k}", region, 2.0 * m * n * k, product
    if "conv" in kinds:
        for c, size, o, kernel, stride in RESNET50:
            pad = kernel // 2
            region = regions.conv(1, c, o, (size, size), kernel, stride, pad)
            out = regions.conv_output(size, kernel, stride, pad, 1)

            def convolution(x: dict[str, Array], stride: int = stride, pad: int = pad) -> Callable[[], object]:
                image, weight = torch.from_numpy(x["X"]), torch.from_numpy(x["W"])
                return lambda: torch.conv2d(image, weight, stride=stride, padding=pad)

            name = f"conv {kernel}x{kernel}s{stride} {c}->{o} @{size}"
            yield name, region, 2.0 * o * out * out * c * kernel * kernel, convolution


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=KINDS, help=", ".join(KINDS))
    parser.add_argument("--rounds", type=count, default=15)
    parser.add_argument("--best", action="store_true", help="least times, not medians: where others use the machine")
    options = parser.parse_args()
    kinds = among(parser, "kinds", ",".join(options.kinds), KINDS)
    threads, typical = machine().cores, min if options.best else statistics.median
    torch.set_num_threads(threads)
    peak = measure_peaks(copy_megabytes=16).fma_flops[threads] * 1e-9
    warn_of_load()
    print(
        f"commit {commit()}, {machine().cpu}, {threads} threads, {find_compiler().version}, torch {torch.__version__}"
    )
    print(f"multiply-add peak {peak:.0f} GFLOP/s, load {load()}")
    heads = ("eqsat ms", "torch ms", "ratio", "GFLOP/s", "peak")
    print(f"{'case':28} {'tile':>6} {'blocks':>16} " + " ".join(f"{head:>9}" for head in heads))
    for name, region, flops, peer in cases(kinds):
        plan = plans_of(region)[0][0]
        schedule = plan_to_schedule(plan)
        ours, theirs = measure(region, plan, peer, options.rounds, threads, typical)
        print(
            f"{name:28} {schedule.warp_tile:>6} {'x'.join(map(str, schedule.tile)):>16}"
            f" {ours * 1e3:9.3f} {theirs * 1e3:9.3f}"
            f" {ours / theirs:9.2f} {flops / ours * 1e-9:9.0f} {flops / ours * 1e-9 / peak:9.0%}"
        )
    return 0


def measure(
    region: Region,
    plan: CpuContractionPlan,
    peer: Callable[[dict[str, Array]], Callable[[], object]],
    rounds: int,
    threads: int,
    typical: Callable[[list[float]], float],
) -> tuple[float, float]:
    """Seconds of our kernel and of the peer's, run in turn."""
    rng = np.random.default_rng(0)
    inputs = {buffer.name: rng.standard_normal(buffer.memref.shape, dtype=np.float32) for buffer in region.inputs}
    built = Built([(region, plan)], threads=threads)
    function, table, outputs = built.prepared(0, inputs)
    address = ctypes.addressof(table)
    function(address)
    other = peer(inputs)
    expected = np.asarray(other())
    (result,) = outputs.values()
    error = float(np.abs(result.reshape(expected.shape) - expected).max() / np.abs(expected).max())
    if not error <= 1e-5:
        sys.exit(f"{region.name}: off by {error}")
    return time_interleaved(lambda: function(address), other, rounds, typical)


def time_interleaved(
    ours: Callable[[], object], theirs: Callable[[], object], rounds: int, typical: Callable[[list[float]], float]
) -> tuple[float, float]:
    """The typical times of both. A pause before every turn lets the other's idle threads stop spinning."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for call, seconds in zip((ours, theirs), times, strict=True):
            time.sleep(0.02)
            call()
            for _ in range(7):
                start = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - start)
    return typical(times[0]), typical(times[1])


if __name__ == "__main__":
    sys.exit(main())
