"""Compares eqsat with torch, inductor, onnxruntime, OpenVINO and XLA, on kernels and on whole models:

    python -m bench.peers [--threads N] [--only TEXT] [--rounds N] [--kernels] [--models] [--cpu-time] [--avx2]

Systems that are not installed are left out, and with `--avx2` onnxruntime, which no setting holds to AVX2. eqsat runs
twice: as it is, and at `exactness="range"`. The last columns say how many times as fast as the fastest other system
eqsat is (as it is), and which share of the machine's limit it reaches: of FLOP/s, or of bytes/s in the cache level that
holds the tensors. Medians and quartiles are written to `bench/results/peers_cpu_….json`, named after the instruction
set, with versions and machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from bench.arguments import containing, count
from bench.facts import facts, load, warn_of_load, write
from bench.peers.avx2 import hold_to_avx2
from bench.peers.compare import compare
from bench.peers.kernels import Kernel, kernels
from bench.peers.limits import Limits, measure_limits
from bench.peers.models import models
from bench.peers.systems import KERNEL_SYSTEMS, MODEL_SYSTEMS, OURS, takes_part
from bench.turns import Times
from codegen.compile.machine import machine

SHORT = {"onnxruntime": "ort", "eqsat, range": "range"}
"""Headings that fit their columns."""


def row_of(name: str, times: Mapping[str, Times], absent: Mapping[str, str], limits: Limits) -> dict[str, Any]:
    """A row of the table in JSON: ms, quartiles, ratio to the fastest other system, and share of the limit."""
    others = {system: time.median for system, time in times.items() if system not in OURS}
    row: dict[str, Any] = {
        "case": name,
        "ms": {system: round(time.median * 1e3, 4) for system, time in times.items()},
        "quartiles": {system: [round(time.low * 1e3, 4), round(time.high * 1e3, 4)] for system, time in times.items()},
    }
    if others:
        best = min(others, key=others.__getitem__)
        row |= {"fastest other": best, "times as fast": round(others[best] / times["eqsat"].median, 3)}
    if name in kernels():
        kernel = kernels()[name]
        row["share of the limit"] = round(
            limits.seconds(kernel.flops, bytes_of(kernel), kernel.dtype) / times["eqsat"].median, 3
        )
    return row | ({"absent": dict(absent)} if absent else {})


def bytes_of(kernel: Kernel) -> int:
    """Bytes of the tensors that a call reads; a gather reads only the rows of its index. The results are not counted,
    but those of a kernel without products, which writes as much as its largest input."""
    sizes = {name: array.nbytes for name, array in kernel.arrays.items()}
    if kernel.counts:
        (index,) = kernel.counts
        row = np.prod(kernel.shapes["table"][1:]) * 4
        return int(2 * row * kernel.arrays[index].size)
    return sum(sizes.values()) + (max(sizes.values()) if not kernel.flops and "sum axis" not in kernel.name else 0)


def geometric_mean(ratios: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(ratios)))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--rounds", type=count, default=15)
    parser.add_argument("--only", default="", help="cases whose name contains this; nothing is written")
    parser.add_argument("--cpu-time", action="store_true", help="for --threads 1 on a busy machine; nothing is written")
    parser.add_argument("--avx2", action="store_true", help="hold all systems to AVX2")
    parser.add_argument("--kernels", action="store_true", help="no models")
    parser.add_argument("--models", action="store_true", help="no kernels")
    options = parser.parse_args()
    names = [*([] if options.models else kernels()), *([] if options.kernels else models())]
    chosen = containing(parser, options.only, names)
    if options.avx2:
        hold_to_avx2()
    warn_of_load()
    about = {**facts(), "threads": options.threads, "rounds": options.rounds}
    limits = measure_limits(options.threads)
    systems = [system for system in {**KERNEL_SYSTEMS, **MODEL_SYSTEMS} if takes_part(system)]
    print(
        f"{'ms':<36}" + "".join(f"{SHORT.get(system, system):>9}" for system in systems) + f"{'ratio':>7}{'limit':>7}"
    )
    rows = []
    for name in chosen:
        row = row_of(name, *compare(name, options.threads, options.rounds, options.cpu_time), limits)
        rows.append(row)
        taken = "".join(f"{row['ms'].get(system, float('nan')):>9.3f}" for system in systems)
        share = row.get("share of the limit")
        shown = f"{share:>7.0%}" if share else ""
        print(f"{name:<36}{taken.replace('nan', '  –')}{row.get('times as fast', ''):>7}{shown}", flush=True)
    for kind, members in (("kernels", kernels()), ("models", models())):
        ratios = [row["times as fast"] for row in rows if row["case"] in members and "times as fast" in row]
        if ratios:
            print(f"{len(ratios)} {kind}: geometric mean of the ratios {geometric_mean(ratios):.2f}")
    if not (options.only or options.kernels or options.models or options.cpu_time):
        write(f"peers_cpu_{machine().arch}", {**about, "load after": load()}, rows)


if __name__ == "__main__":
    main()
