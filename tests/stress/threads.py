"""Many threads that call programs at once: every call gives the bits that a single thread got."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from eqsat import nn, optimize_and_compile, tensor
from eqsat.runtime.program import Program


class Task(NamedTuple):
    """A call of a program, and the bits of its results."""

    program: Program
    given: dict[str, np.ndarray]
    expected: tuple[np.ndarray, ...]


SUM_OF_POWERS = {
    "uops": [
        {"id": "x", "uop": "INPUT", "arg": {"tensor_id": "x", "dtype": "fp32", "shape": ["N", 96]}},
        {"id": "y", "uop": "EXP", "src": ["x"]},
        {"id": "z", "uop": "REDUCE", "src": ["y"], "arg": {"op": "SUM", "axes": [1], "dtype": "fp32"}},
    ],
    "outputs": ["z"],
}
"""A program whose size N is free."""


def tasks(seeds: int) -> list[Task]:
    """Calls of several programs, one of them with free sizes; of each as many as seeds, with other numbers."""
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((96, 80)).astype(np.float32)
    x = tensor.input("x", (64, 96))
    y, z = nn.softmax(nn.gelu(x @ weight)), x.cumsum(1)
    image = nn.conv2d(tensor.input("i", (1, 3, 17, 19)), rng.standard_normal((8, 3, 3, 3)).astype(np.float32))
    programs = [
        optimize_and_compile([y, z, z.max(axis=1)], target="cpu", threads=4),
        optimize_and_compile(image.relu(), target="cpu", threads=3),
        optimize_and_compile(SUM_OF_POWERS, target="cpu", threads=4),
    ]
    results = []
    for seed in range(seeds):
        draw = np.random.default_rng(seed).standard_normal
        for program, given in (
            (programs[0], {"x": draw((64, 96))}),
            (programs[1], {"i": draw((1, 3, 17, 19))}),
            (programs[2], {"x": draw((1 + seed % 5, 96))}),
        ):
            arrays = {name: array.astype(np.float32) for name, array in given.items()}
            results.append(Task(program, arrays, results_of(program(**arrays))))
    return results


def results_of(answer: Any) -> tuple[np.ndarray, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def call(task: Task, into: bool) -> bool:
    """Whether a call gives the expected bits, in arrays of its own or `into` arrays of the caller's."""
    if into:
        out = tuple(np.full_like(array, 7) for array in task.expected)
        task.program(**task.given, out=out if len(out) > 1 else out[0])
    else:
        out = results_of(task.program(**task.given))
    return all(a.tobytes() == b.tobytes() for a, b in zip(out, task.expected, strict=True))


def at_once(work: Sequence[Callable[[], bool]], calls: int) -> list[str]:
    """Each of these in a thread of its own, so often; complaints."""
    start, complaints = threading.Barrier(len(work)), []

    def run(number: int, thread: Callable[[], bool]) -> None:
        start.wait()
        try:
            wrong = sum(not thread() for _ in range(calls))
        except Exception as error:
            complaints.append(f"thread {number}: {type(error).__name__}: {error}")
        else:
            complaints.extend([f"thread {number}: {wrong} of {calls} calls differ"] if wrong else [])

    threads = [threading.Thread(target=run, args=numbered) for numbered in enumerate(work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return complaints


def many_calls(threads: int, calls: int) -> list[str]:
    """All threads on one program, then all on several, with `out=` in every second thread; complaints."""
    known = tasks(8)
    complaints = []
    for chosen in (known[:1], known[::3], known):
        work = [partial(call, chosen[n % len(chosen)], bool(n // len(chosen) % 2)) for n in range(threads)]
        complaints += at_once(work, calls)
    return complaints


def first_calls(threads: int, sizes: int) -> list[str]:
    """Threads that are the first to call a program with sizes that it has no code for yet; complaints."""
    program = optimize_and_compile(SUM_OF_POWERS, target="cpu", threads=2)

    def right(number: int) -> bool:
        given = np.random.default_rng(number).standard_normal((1 + number % sizes, 96)).astype(np.float32)
        return np.allclose(program(x=given), np.exp(given).sum(1), rtol=1e-5)

    complaints = at_once([partial(right, number) for number in range(threads)], 2)
    return complaints + ([] if len(program.variants) == sizes else [f"variants: {program.variants}"])


def calls_and_forks(threads: int, forks: int) -> list[str]:
    """Children that are forked while threads call programs call them, too; complaints."""
    known, over, complaints = tasks(2), threading.Event(), []

    def run(number: int) -> None:
        while not over.is_set():
            if not call(known[number % len(known)], bool(number % 2)):
                complaints.append(f"thread {number}: a call differs")

    hosts = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for host in hosts:
        host.start()
    for number in range(forks):
        child = os.fork()
        if child == 0:
            os._exit(0 if all(call(task, False) for task in known) else 1)
        if status := _awaited(child):
            complaints.append(f"child {number}: {status}")
    over.set()
    for host in hosts:
        host.join()
    return complaints


def _awaited(child: int, seconds: float = 30) -> str:
    """Why a child did not end well."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return f"status {status}" if status else ""
        time.sleep(0.002)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return f"does not end in {seconds:.0f} s"


ENDS = """
import sys, threading, time
from tests.stress.threads import call, tasks
known = tasks(2)
def run(number):
    while True:
        if not call(known[number % len(known)], bool(number % 2)):
            print("differs", flush=True)
for number in range(8):
    threading.Thread(target=run, args=(number,), daemon=True).start()
time.sleep(float(sys.argv[1]))
print("over", flush=True)
"""
"""A script that ends while its threads call programs."""
