"""Models in ONNX's format, in eqsat and in onnxruntime: outputs compared, then compile times and run times.

    python -m bench.export_models FOLDER [--dynamic]    # needs torch, torchvision and transformers
    python -m bench.onnx_models FOLDER [--only bert] [--threads 2] [--rounds 15]

A model is FOLDER/NAME.onnx, its inputs are FOLDER/NAME.npz. eqsat compiles it twice, each time in a new process:
with an empty cache, and from the cache. A model with symbolic sizes is compiled by its first call. The last column
names the kernels that lose most time against the roofline of the machine, whose peaks, with all cores, are measured.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.arguments import containing, count
from bench.facts import facts, load, warn_of_load, write
from bench.turns import Case, Runner, measure
from codegen.measure.peaks import measure_peaks
from eqsat.runtime.compiled import KernelReport

TOLERANCE = 1e-3
"""Largest difference of an output, relative to the largest value."""


def model_case(path: Path) -> Case:
    """The model of a file as a case of `bench.turns`."""
    with np.load(path.with_suffix(".npz")) as file:
        inputs = dict(file)

    def ours(threads: int) -> Runner:
        program = compile_model(path, inputs, threads)
        return partial(program, **inputs)

    def theirs(threads: int) -> Runner:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, inputs)[0]

    return Case(path.stem, TOLERANCE, {"eqsat": ours, "onnxruntime": theirs})


def compile_model(path: Path, inputs: dict[str, np.ndarray], threads: int) -> Any:
    """The program at the sizes of these inputs."""
    from eqsat import optimize_and_compile

    program = optimize_and_compile(str(path), threads=threads)
    program(**inputs)
    return program


class Compiled(NamedTuple):
    """Seconds until a model was compiled and had run once, and the measured kernels of its program."""

    seconds: float
    kernels: Sequence[KernelReport]


def compile_in_new_process(path: Path, cache: str, threads: int) -> Compiled:
    """Compiles a model with this cache folder."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_compile, (path, cache, threads))


def _compile(path: Path, cache: str, threads: int) -> Compiled:
    os.environ["EQSAT_CACHE_DIR"] = cache
    with np.load(path.with_suffix(".npz")) as file:
        inputs = dict(file)
    start = time.perf_counter()
    program = compile_model(path, inputs, threads)
    return Compiled(time.perf_counter() - start, program.profile(**inputs, repeats=5))


def furthest_from_roofline(kernels: Sequence[KernelReport], flops: float, bandwidth: float, count: int = 3) -> str:
    """The kernels that lose most time against the machine's roofline: each with its share of the time of all kernels,
    its times as long as the roofline's time, and what bounds that.

    Args:
        flops, bandwidth: peaks of FLOP and of bytes per second.
    """
    total = sum(kernel.measured_ns or 0.0 for kernel in kernels)
    lost = []
    for kernel in kernels:
        compute, memory = kernel.flops / flops * 1e9, kernel.bytes / bandwidth * 1e9
        least, measured = max(compute, memory), kernel.measured_ns or 0.0
        bound = "FLOP/s" if compute > memory else "bytes/s"
        lost.append((measured - least, f"{kernel.name} {measured / total:.0%}, {least / measured:.0%} of peak {bound}"))
    return "; ".join(text for _, text in sorted(lost, reverse=True)[:count])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--rounds", type=count, default=15)
    parser.add_argument("--only", default="", help="models whose name contains this; nothing is written")
    options = parser.parse_args()
    paths = {path.stem: path for path in sorted(options.folder.glob("*.onnx"))}
    chosen = containing(parser, options.only, paths)
    warn_of_load()
    about = {**facts(), "threads": options.threads, "rounds": options.rounds}
    peaks = measure_peaks(copy_megabytes=128)
    flops, bandwidth = (
        peak[max(n for n in peak if n <= options.threads)] for peak in (peaks.fma_flops, peaks.copy_bytes)
    )
    rows = []
    print(f"{'model':<24}{'cold s':>8}{'cached s':>10}{'eqsat ms':>11}{'ort ms':>9}{'ratio':>8}")
    for name in chosen:
        with tempfile.TemporaryDirectory() as cache:
            cold, cached = (compile_in_new_process(paths[name], cache, options.threads) for _ in range(2))
            os.environ["EQSAT_CACHE_DIR"] = cache
            times = measure(partial(model_case, paths[name]), options.threads, options.rounds)
        furthest = furthest_from_roofline(cached.kernels, flops, bandwidth)
        ours, theirs = times["eqsat"].median * 1e3, times["onnxruntime"].median * 1e3
        print(
            f"{name:<24}{cold.seconds:>8.1f}{cached.seconds:>10.2f}{ours:>11.2f}{theirs:>9.2f}{theirs / ours:>8.2f}"
            f"  {furthest}",
            flush=True,
        )
        rows.append(
            {
                "model": name,
                "compile s": round(cold.seconds, 1),
                "from cache s": round(cached.seconds, 2),
                "eqsat ms": ours,
                "onnxruntime ms": theirs,
                "times as fast": round(theirs / ours, 2),
                "furthest from the roofline": furthest,
            }
        )
    if not options.only:
        write("onnx_models", {**about, "load after": load()}, rows)


if __name__ == "__main__":
    main()
