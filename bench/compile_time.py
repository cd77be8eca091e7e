"""Measures how long ResNet-50 takes to optimize and compile, cold and from the cache, by stage.

    python -m bench.compile_time [--rounds 5] [--model resnet50] [--threads 2]

Every sample reads an ONNX file in a process of its own: a cold one with an empty cache folder, then a cached one with
the same folder. All must compute the same bits. Medians are reported and written to `bench/results/`.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from bench.arguments import LIGHT, count
from bench.facts import facts, peak_mebibytes, warn_of_load, write

STAGES = ("import", "read", "saturate", "extract", "lower", "compile", "load")
"""In order of time; "read" is everything between the import and the first stage that the library reports."""


def write_model(model: str, path: str) -> None:
    """Write the model to an ONNX file."""
    import onnx

    from eqsat.zoo import light_model

    onnx.save(light_model(model), path)


def sample(path: str, threads: int, cache: str) -> dict[str, Any]:
    """Seconds by stage of one compilation of an ONNX file, the first call's time, peak memory in MiB, and a digest of
    the result."""
    os.environ["EQSAT_CACHE_DIR"] = cache
    begun = [("import", time.perf_counter())]
    from eqsat import optimize_and_compile

    begun.append(("read", time.perf_counter()))
    program = optimize_and_compile(
        path, threads=threads, progress=lambda name: begun.append((name, time.perf_counter()))
    )
    done = time.perf_counter()
    ends = [*(start for _, start in begun[1:]), done]
    seconds: dict[str, float] = {}
    for (name, start), end in zip(begun, ends, strict=True):
        seconds[name] = seconds.get(name, 0.0) + end - start
    inputs = program.random_inputs()
    start = time.perf_counter()
    result = np.ascontiguousarray(program(**inputs))
    return {
        "seconds": seconds,
        "total": done - begun[1][1],
        "first call": time.perf_counter() - start,
        "peak MiB": peak_mebibytes(),
        "digest": hashlib.sha256(result.tobytes()).hexdigest(),
        "kernels": len(program.kernels),
    }


def measure(model: str, threads: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """`rounds` samples each of "cold" and "cached", in turn."""
    context = multiprocessing.get_context("spawn")
    samples: dict[str, list[dict[str, Any]]] = {"cold": [], "cached": []}
    with tempfile.TemporaryDirectory(prefix="eqsat-bench-") as folder:
        path = os.path.join(folder, f"{model}.onnx")
        with ProcessPoolExecutor(1, context) as process:
            process.submit(write_model, model, path).result()
        for number in range(rounds):
            for taken in samples.values():
                with ProcessPoolExecutor(1, context) as process:
                    taken.append(process.submit(sample, path, threads, os.path.join(folder, f"{number}")).result())
    digests = {row["digest"] for taken in samples.values() for row in taken}
    if len(digests) != 1:
        raise SystemExit(f"{len(digests)} different results: not reported")
    return samples


def medians(taken: list[dict[str, Any]]) -> dict[str, float]:
    """The medians of all columns."""
    rows = [row["seconds"] | {name: row[name] for name in ("total", "first call", "peak MiB")} for row in taken]
    return {name: float(np.median([row.get(name, 0.0) for row in rows])) for name in (*STAGES, *list(rows[0])[-3:])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--model", default="resnet50", choices=LIGHT)
    parser.add_argument("--threads", type=count, default=2)
    options = parser.parse_args()
    warn_of_load()
    about = {**facts(), "model": options.model, "threads": options.threads, "rounds": options.rounds}
    samples = measure(options.model, options.threads, options.rounds)
    table = {name: medians(taken) for name, taken in samples.items()}
    print(f"{options.model}, {samples['cold'][0]['kernels']} kernels\n{'':<12}{'cold':>10}{'cached':>10}")
    for column in table["cold"]:
        unit = "" if column == "peak MiB" else " s"
        print(f"{column:<12}" + "".join(f"{table[name][column]:>9.3f}{unit or ' '}"[:11] for name in table))
    write("compile_time", about, [{"case": name, **values} for name, values in table.items()])


if __name__ == "__main__":
    main()
