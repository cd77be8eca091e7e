"""Times functions of torch under `torch.compile(backend="eqsat")`, in eager mode and in inductor, in turns.

    python -m bench.idioms [--only TEXT] [--rounds 5] [--update]

Outputs of eqsat and inductor are compared with those of eager mode before the turns. A sample is the median of some
calls; the times are medians of the rounds' samples. `--update` writes `bench/results/idioms.json`.
"""

# mypy: allow-untyped-calls
from __future__ import annotations

import argparse
import copy
import math
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

from bench.arguments import containing, count
from bench.facts import facts, warn_of_load, write
from bench.turns import PAUSE_SECONDS

CALLS, WARMING = 12, 3
"""Calls of a sample, and calls before it."""
TOLERANCE = 2e-3
"""The largest difference from eager mode, absolute and relative: products have other orders of sums."""


def main() -> None:
    """Prints a row per function, then the mean ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="functions whose name contains this")
    parser.add_argument("--rounds", type=count, default=5)
    parser.add_argument("--update", action="store_true", help="write the results")
    options = parser.parse_args()
    if options.only and options.update:
        parser.error("--update writes a table of all functions")
    import torch

    from bench.idioms.cases import idioms

    torch.set_num_threads(os.cpu_count() or 1)
    torch.manual_seed(0)
    cases = idioms()
    chosen = containing(parser, options.only, cases)
    warn_of_load()
    about = facts()
    rows: list[dict[str, Any]] = []
    print(f"{'µs':<38} {'eqsat':>9} {'eager':>9} {'inductor':>9} {'ratio':>6} {'first s':>8}")
    with torch.no_grad():
        for name in chosen:
            function, build = cases[name]
            row = measure(function, build(), options.rounds)
            rows.append({"case": name, **row})
            times = " ".join(f"{row[system]:9.1f}" for system in ("eqsat", "eager", "inductor"))
            print(f"{name:<38} {times} {row['ratio']:6.2f} {row['first call s']:8.1f}", flush=True)
    mean = math.exp(statistics.mean(math.log(row["ratio"]) for row in rows))
    print(f"{len(rows)} functions, the geometric mean of the ratios to the faster of the others is {mean:.2f}")
    if options.update:
        write("idioms", about, rows)


def measure(function: Callable[..., Any], arguments: tuple[Any, ...], rounds: int) -> dict[str, float]:
    """The µs of a function in every system, the ratio of the faster of the others to eqsat, and the seconds of eqsat's
    first call.

    Raises:
        AssertionError: an output of eqsat or inductor differs from that of eager mode.
    """
    import torch

    torch._dynamo.reset()
    begin = time.perf_counter()
    compiled = torch.compile(function, backend="eqsat")
    result = compiled(*copy.deepcopy(arguments))  # a function may write into its arguments
    first_call = time.perf_counter() - begin
    systems = {"eqsat": compiled, "eager": function, "inductor": torch.compile(function)}
    for output in (result, systems["inductor"](*copy.deepcopy(arguments))):
        wanted = function(*copy.deepcopy(arguments))
        torch.testing.assert_close(output, wanted, rtol=TOLERANCE, atol=TOLERANCE)
    samples: dict[str, list[float]] = {system: [] for system in systems}
    for number in range(rounds):
        for system in list(systems)[:: -1 if number % 2 else 1]:
            samples[system].append(_sample(systems[system], arguments))
            time.sleep(PAUSE_SECONDS)
    times = {system: statistics.median(taken) * 1e6 for system, taken in samples.items()}
    ratio = min(times["eager"], times["inductor"]) / times["eqsat"]
    return {**times, "ratio": ratio, "first call s": first_call}


def _sample(call: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    """The median seconds of some calls."""
    taken = []
    for number in range(WARMING + CALLS):
        begin = time.perf_counter()
        call(*arguments)
        if number >= WARMING:
            taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


if __name__ == "__main__":
    main()
