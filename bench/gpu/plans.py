"""Measures all plans of matrix products and convolutions on this GPU: `python -m bench.gpu.plans`.

    python -m bench.gpu.plans [--only TEXT] [--minutes 9] [--to FOLDER]

For the longest kernel of every case, all plans that the planner offers are timed beside their estimates. The file
`gpu_plans_<device>_cuda<major version>.json` has a row for every plan. The table has, for every case, the rank
correlation of estimates and times, the time of the plan that the estimate puts first over that of the fastest plan, and
the estimate over the time of the first plan.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from bench.device.facts import device_facts, device_key, require_device
from bench.facts import RESULTS
from bench.gpu.cases import cases, chosen
from bench.gpu.measure import warpgroup_target
from codegen.backends.backend_of import backend_of
from codegen.poly.analyse import checked_core
from eqsat import optimize_and_compile
from eqsat.find_target import target_of
from eqsat.planning.replanning import time_plans
from eqsat.planning.target_pricer import pricer_for
from ir.backend import function_name
from ir.diagnostics import EqsatError
from ir.host.atomic_file import write_atomically
from ir.host.cache_folder import writable_cache
from ir.plan.plan import Plan
from ir.plan.plan_to_schedule import plan_to_schedule
from ir.pricer import Price
from ir.region.region import Region
from ir.target import Target

Row = dict[str, Any]
_MOST_PROCESSES = 14


def longest_kernel(case: str, target: Target) -> tuple[Region, Sequence[Price]]:
    """The region of a case's program that takes longest by its estimate, and its plans, the best estimate first."""
    timed = cases()[case]
    program = optimize_and_compile(timed.lazy(), target=target, exactness=timed.exactness, tf32=timed.tf32)
    artifact: Any = program._compiled.artifact
    calls = zip(artifact.module.running, artifact.prices, strict=True)
    region = max(calls, key=lambda call: call[1].time_ns)[0].region
    return region, pricer_for(target, artifact.options).rank(region)


def build(region: Region, plan: Plan, target: Target) -> None:
    """Compiles a plan's kernel into the cache; runs in a process of its own."""
    backend = backend_of(target, emulate=False)
    kernel = backend.lower(region, checked_core(region), plan, function_name(region))
    backend.build(backend.texts([kernel]), target.arch, writable_cache()[0])


def rows_of(case: str, target: Target, pool: ProcessPoolExecutor) -> list[Row]:
    """A row for every plan of a case's longest kernel."""
    region, prices = longest_kernel(case, target)
    plans = [price.plan for price in prices]
    named = [msgspec.structs.replace(region, name=f"{region.name}_{number}") for number in range(len(plans))]
    jobs = [pool.submit(build, *job, target) for job in zip(named, plans, strict=True)]
    for job in jobs:
        job.exception()  # a plan that cannot be built gets its reason below
    times = time_plans(region, plans, target=target, flush=False)
    return [
        {"case": case, "plan": described(price.plan), "estimate us": price.time_ns / 1e3}
        | ({"failed": str(ns)} if isinstance(ns, EqsatError) else {"us": ns / 1e3})
        for price, ns in zip(prices, times, strict=True)
    ]


def described(plan: Plan) -> str:
    """The choices of a plan in one line."""
    schedule = plan_to_schedule(plan)
    hints = {name: value for name, value in schedule.layout_hints.items() if name in ("split_k", "raster", "C_store")}
    algorithm = ", ".join(schedule.algo_choice.values())
    tiles = f"tile {'×'.join(map(str, schedule.tile))}, warp {schedule.warp_tile}, stages {schedule.stages}"
    return f"{algorithm}: {tiles}, {hints}"


def summary(rows: Sequence[Row]) -> str:
    """The line of a case in the table."""
    from scipy.stats import spearmanr

    timed = [(row["estimate us"], row["us"]) for row in rows if "us" in row]
    estimates, times = zip(*timed, strict=True)
    rank = spearmanr(estimates, times).statistic if len(timed) > 2 else float("nan")
    first = times[0]
    return (
        f"{len(timed):3d} plans, rank {rank:5.2f}, loss {first / min(times):.2f}, estimate {estimates[0] / first:.2f}"
    )


def measure(names: Sequence[str], target: Target, deadline: float) -> Iterator[Row]:
    """The rows of all cases that begin before the deadline (`time.monotonic`); prints the line of each."""
    processes = min(_MOST_PROCESSES, os.cpu_count() or 1)
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for name in names:
            if time.monotonic() > deadline:
                print(f"{name}: there was no time left")
                continue
            rows = rows_of(name, target, pool)
            print(f"{summary(rows)}: {name}", flush=True)
            yield from rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name contains this, or a group")
    parser.add_argument("--minutes", type=float, default=9, help="no case starts later")
    parser.add_argument("--to", type=Path, default=RESULTS, help="the folder of the file")
    options = parser.parse_args()
    deadline = time.monotonic() + 60 * options.minutes
    names = [name for name in chosen(options.only) if cases()[name].group in ("gemm", "conv")]
    if not names:
        parser.error(f"--only: no product's name contains {options.only!r}")
    device = require_device()
    facts, target = device_facts(device), target_of(device)
    if target is None:
        raise SystemExit(f"no kernels are written for {device.name}")
    target = warpgroup_target(target) or target
    rows = list(measure(names, target, deadline))
    path = options.to / f"gpu_plans_{device_key(facts)}.json"
    document = {"facts": facts, "rows": rows}
    write_atomically(path, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    print(f"written to {path}")


if __name__ == "__main__":
    main()
