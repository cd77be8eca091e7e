"""Models in ONNX's format, in eqsat and in onnxruntime: outputs compared, then compile times and run times.

    python -m bench.export_models FOLDER        # needs torch, torchvision and transformers
    python -m bench.onnx_models FOLDER [--only bert] [--threads 2] [--rounds 15]

A model is FOLDER/NAME.onnx, its inputs are FOLDER/NAME.npz. eqsat compiles it twice, each time in a new process:
with an empty cache, and from the cache.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.arguments import containing, count
from bench.cases import Case, Runner
from bench.facts import facts, load, warn_of_load, write
from bench.peers import measure

TOLERANCE = 1e-3
"""Largest difference of an output, relative to the largest value."""


def model_case(path: Path) -> Case:
    """The model of a file as a case of `bench.peers`; its FLOPs are not counted."""
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

    return Case(path.stem, 0, TOLERANCE, {"eqsat": ours, "onnxruntime": theirs})


def compile_model(path: Path, inputs: dict[str, np.ndarray], threads: int) -> Any:
    """The program at the sizes of these inputs."""
    from eqsat import optimize_and_compile
    from eqsat.model import read_model

    sizes = read_model(str(path)).infer({name: array.shape for name, array in inputs.items()})
    return optimize_and_compile(str(path), dims=sizes, threads=threads)


def compile_seconds(path: Path, cache: str) -> tuple[float, float]:
    """Seconds to compile a model with an empty cache, and from the cache."""
    return _in_new_process(path, cache), _in_new_process(path, cache)


def _in_new_process(path: Path, cache: str) -> float:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_compile, (path, cache))


def _compile(path: Path, cache: str) -> float:
    os.environ["EQSAT_CACHE_DIR"] = cache
    with np.load(path.with_suffix(".npz")) as file:
        inputs = dict(file)
    start = time.perf_counter()
    compile_model(path, inputs, 1)
    return time.perf_counter() - start


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
    rows = []
    print(f"{'model':<20}{'cold s':>9}{'cached s':>10}{'eqsat ms':>11}{'ort ms':>9}{'ratio':>8}")
    for name in chosen:
        with tempfile.TemporaryDirectory() as cache:
            cold, cached = compile_seconds(paths[name], cache)
            os.environ["EQSAT_CACHE_DIR"] = cache
            times = measure(partial(model_case, paths[name]), options.threads, options.rounds)
        ours, theirs = times["eqsat"].median * 1e3, times["onnxruntime"].median * 1e3
        print(f"{name:<20}{cold:>9.1f}{cached:>10.2f}{ours:>11.2f}{theirs:>9.2f}{theirs / ours:>8.2f}", flush=True)
        rows.append(
            {"model": name, "compile s": cold, "from cache s": cached, "eqsat ms": ours, "onnxruntime ms": theirs}
        )
    if not options.only:
        write("onnx_models", {**about, "load after": load()}, rows)


if __name__ == "__main__":
    main()
