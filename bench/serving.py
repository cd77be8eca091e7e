"""Latency of calls of a ready size while another size is built: `python -m bench.serving [--layers N] [--every MS]`.

A program with a free batch is called at a fixed rate. The latency of a call runs from the moment at which it is due, so
that a call that is late because an earlier one waited counts as late. Rows: nothing else runs; a thread builds another
size in this process; a worker process builds it (what eqsat does when several threads run).
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from unittest import mock

import numpy as np

from bench.arguments import count
from bench.facts import warn_of_load
from eqsat import Program, optimize_and_compile

WIDTH = 256
QUIET_SECONDS = 2.0


def layers(number: int) -> str:
    """A program of fully connected layers over a free batch, each less its largest value."""
    lines = [f"%h0: fp32[batch, {WIDTH}] = input()"]
    for layer in range(number):
        lines += [
            f"%w{layer}: fp32[{WIDTH}, {WIDTH}] = input()",
            f"%a{layer} = reshape(%h{layer}, result_shape=[batch, {WIDTH}, 1])",
            f"%b{layer}: fp32[batch, {WIDTH}, {WIDTH}] = expand(%a{layer})",
            f"%c{layer} = reshape(%w{layer}, result_shape=[1, {WIDTH}, {WIDTH}])",
            f"%d{layer}: fp32[batch, {WIDTH}, {WIDTH}] = expand(%c{layer})",
            f"%e{layer} = mul(%b{layer}, %d{layer})",
            f"%f{layer}: fp32[batch, {WIDTH}] = reduce(%e{layer}, axes=[1], op=SUM)",
            f"%g{layer} = relu(%f{layer})",
            f"%m{layer}: fp32[batch] = reduce(%g{layer}, axes=[1], op=MAX, dtype=fp32)",
            f"%n{layer} = reshape(%m{layer}, result_shape=[batch, 1])",
            f"%q{layer}: fp32[batch, {WIDTH}] = expand(%n{layer})",
            f"%h{layer + 1} = sub(%g{layer}, %q{layer})",
        ]
    return "\n".join([*lines, f"return %h{number}"])


def batch(rows: int) -> np.ndarray:
    return np.ones((rows, WIDTH), np.float32)


def latencies(program: Program, seconds: float, until: Callable[[], bool]) -> np.ndarray:
    """Seconds from the due time of each call to its end, one call every `seconds`."""
    x, latencies = batch(1), []
    due = time.perf_counter()
    while not until():
        due += seconds
        time.sleep(max(0.0, due - time.perf_counter()))
        program(x)
        latencies.append(time.perf_counter() - due)
    return np.array(latencies)


def while_building(program: Program, rows: int, seconds: float) -> np.ndarray:
    """Latencies while a thread calls the program with a new size."""
    thread = threading.Thread(target=program, args=(batch(rows),))
    thread.start()
    return latencies(program, seconds, lambda: not thread.is_alive())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=count, default=4, help="layers of the program")
    parser.add_argument("--every", type=float, default=2.0, help="milliseconds from call to call")
    given = parser.parse_args()
    seconds = given.every / 1e3
    warn_of_load()
    weights = {
        f"w{layer}": np.random.default_rng(layer).random((WIDTH, WIDTH), np.float32) for layer in range(given.layers)
    }
    program = optimize_and_compile(layers(given.layers), constants=weights, target="cpu", threads=1, cache=False)
    program(batch(1))
    end = time.perf_counter() + QUIET_SECONDS
    rows = {"nothing else": latencies(program, seconds, lambda: time.perf_counter() > end)}
    with mock.patch("eqsat.api.stalls_others", return_value=False):
        rows["a build in a thread"] = while_building(program, 37, seconds)
    while_building(program, 38, seconds)  # starts the worker
    rows["a build in a worker"] = while_building(program, 39, seconds)
    print(f"{'ms':22} {'calls':>6} {'median':>8} {'p90':>8} {'p99':>8} {'most':>8}")
    for name, times in rows.items():
        figures = " ".join(f"{1e3 * seconds:8.2f}" for seconds in np.percentile(times, [50, 90, 99, 100]))
        print(f"{name:22} {len(times):6} {figures}")


if __name__ == "__main__":
    main()
