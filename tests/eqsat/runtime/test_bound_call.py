"""Calls with fixed arguments and results."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from ir.diagnostics import EqsatError

A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = A[::-1].copy()


@pytest.fixture(scope="module")
def minus() -> Program:
    """2a − b"""
    return optimize_and_compile(t.input("a", (3, 4)) * 2 - t.input("b", (3, 4)), target="cpu", threads=1)


def test_a_bound_call_reads_what_the_arrays_hold(minus: Program) -> None:
    a, out = A.copy(), np.zeros((3, 4), np.float32)
    run = minus.bound(b=B, a=a, out=out)
    assert not out.any(), "binding runs nothing"
    assert run() is out is run.results
    np.testing.assert_array_equal(out, 2 * A - B)
    a += 1
    np.testing.assert_array_equal(run(), 2 * (A + 1) - B)
    minus(B, B)
    np.testing.assert_array_equal(out, 2 * (A + 1) - B)


def test_arguments_stay_alive(minus: Program) -> None:
    run = minus.bound(A + 1, B + 1)
    np.empty(10_000)
    np.testing.assert_array_equal(run(), 2 * A - B + 1)


@pytest.mark.parametrize(
    "a",
    [A.tolist(), A.T.copy().T, A[:, ::-1], np.frombuffer(b" " + A.tobytes(), np.float32, 12, 1).reshape(3, 4)],
    ids=["list", "transposed", "reversed", "misaligned"],
)
def test_what_a_call_would_copy_is_refused(minus: Program, a: Any) -> None:
    minus(a, B)
    with pytest.raises(EqsatError, match="has to be copied cannot be bound"):
        minus.bound(a, B)


def test_a_call_that_overwrites_its_arguments_is_refused(minus: Program) -> None:
    a = A.copy()
    with pytest.raises(EqsatError, match="shares memory with out="):
        minus.bound(a, B, out=a)


def test_wrong_arguments_are_refused_as_in_a_call(minus: Program) -> None:
    with pytest.raises(EqsatError, match="the program takes"):
        minus.bound(A[:2], B)
    with pytest.raises(EqsatError, match="arguments do not match the inputs"):
        minus.bound(A)
    with pytest.raises(EqsatError, match="out= must be a writable"):
        minus.bound(A, B, out=np.zeros((4, 3), np.float32))


def test_outputs_that_no_kernel_writes_and_several_outputs() -> None:
    x = t.input("x", (3, 4))
    program = optimize_and_compile([x + 1, x, x.sum()], target="cpu", threads=1)
    a = A.copy()
    run = program.bound(a)
    run()
    a += 1
    for result, expected in zip(run(), (A + 2, A + 1, (A + 1).sum()), strict=True):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.slow
def test_sizes_of_free_dims_are_those_of_the_arguments() -> None:
    program = optimize_and_compile("%x: fp32[M, 4] = input()\n%y = add(%x, %x)", target="cpu", threads=1)
    small, large = program.bound(A[:1]), program.bound(A)
    np.testing.assert_array_equal(small(), 2 * A[:1])
    np.testing.assert_array_equal(large(), 2 * A)


def test_empty_arrays_and_scalars() -> None:
    program = optimize_and_compile(t.input("x", (0, 3)).sum() + t.input("y", ()), target="cpu")
    assert program.bound(np.empty((0, 3), np.float32), np.array(2, np.float32))() == 2


def test_threads_take_turns(minus: Program) -> None:
    run = minus.bound(A, B)
    with ThreadPoolExecutor(8) as pool:
        for result in pool.map(lambda _: run().copy(), range(200)):
            np.testing.assert_array_equal(result, 2 * A - B)


def test_an_emulated_program_is_bound_too() -> None:
    program = optimize_and_compile(t.input("x", (3, 4)).relu(), target="sm_80", emulate=True)
    a = A - 5
    run = program.bound(a)
    np.testing.assert_array_equal(run(), np.maximum(A - 5, 0))
    a[:] = 1
    np.testing.assert_array_equal(run(), np.ones((3, 4)))


def test_tensors_of_torch_are_bound(minus: Program) -> None:
    torch = pytest.importorskip("torch")
    a = torch.from_numpy(A.copy())
    run = minus.bound(a, torch.from_numpy(B))
    assert isinstance(run(), torch.Tensor)
    a += 1
    torch.testing.assert_close(run(), 2 * a - torch.from_numpy(B))
