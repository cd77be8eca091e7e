"""Threads, forks and ends of processes, in short."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.stress.processes import ROOT
from tests.stress.threads import ENDS, calls_and_forks, first_calls, many_calls, tasks


@pytest.mark.slow
def test_thirty_two_threads_get_the_same_bits() -> None:
    assert not many_calls(threads=32, calls=4)


@pytest.mark.exhaustive
def test_thirty_two_threads_get_the_same_bits_in_fifty_calls() -> None:
    assert not many_calls(threads=32, calls=50)


@pytest.mark.parametrize("sizes", [2, pytest.param(9, marks=pytest.mark.exhaustive)])
def test_first_calls_of_many_threads(sizes: int) -> None:
    assert not first_calls(threads=32, sizes=sizes)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("forks", [4, pytest.param(60, marks=pytest.mark.exhaustive)])
def test_children_that_are_forked_while_threads_call(forks: int) -> None:
    assert not calls_and_forks(threads=6, forks=forks)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_calls_a_program_that_another_thread_was_calling() -> None:
    """The other thread holds the program's locks when the process forks."""
    task = tasks(1)[0]
    variants = task.program._variants
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with variants._using:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        import faulthandler

        faulthandler.dump_traceback_later(20, exit=True)
        result = task.program(**task.given)
        os._exit(0 if np.array_equal(result[0], task.expected[0]) else 2)
    assert os.waitpid(child, 0)[1] == 0
    over.set()
    thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.02, pytest.param(0.3, marks=pytest.mark.exhaustive)])
def test_a_process_that_ends_while_its_threads_call(seconds: float) -> None:
    command = [sys.executable, "-c", ENDS, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")
