"""Large results are written into memory that nobody refers to any more, and into no other."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.runtime.result_arrays import LARGE, MOST_KEPT, ResultArrays
from ir.dtype import TensorType
from ir.host.address import address

SIZE = LARGE // 8
TYPES = [("y", TensorType.of("fp32", (2, SIZE))), ("z", TensorType.of("i32", ()))]
Keep = Callable[[np.ndarray], Any]


def test_what_nobody_refers_to_is_used_again() -> None:
    memory = ResultArrays(TYPES)
    first = memory.take()
    at = address(first[0])
    assert [(array.shape, array.dtype.name) for array in first] == [((2, SIZE), "float32"), ((), "int32")]
    del first
    again = memory.take()
    assert address(again[0]) == at
    assert address(memory.take()[0]) != at


@pytest.mark.parametrize(
    "keep",
    [
        lambda array: array,
        lambda array: array[1, 5:],
        lambda array: array[::-1, ::2].T,
        memoryview,
        weakref.ref,
        lambda array: array.ctypes.data_as(ctypes.c_void_p),
        lambda array: array.__dlpack__(),
        lambda array: {"result": [array]},
        np.nditer,
    ],
)
def test_what_somebody_refers_to_is_not(keep: Keep) -> None:
    memory = ResultArrays(TYPES)
    array = memory.take()[0]
    at, kept = address(array), keep(array)
    del array
    assert address(memory.take()[0]) != at, kept


def test_a_tensor_of_torch_keeps_its_memory() -> None:
    torch = pytest.importorskip("torch")
    test_what_somebody_refers_to_is_not(torch.from_numpy)
    test_what_somebody_refers_to_is_not(lambda array: torch.from_numpy(array)[1].view(torch.int32))


@pytest.mark.parametrize("change", ["shape", "flags", "size"])
def test_an_array_that_a_caller_changed_is_let_go(change: str) -> None:
    memory = ResultArrays(TYPES)
    array = memory.take()[0]
    match change:
        case "shape":
            array.shape = (SIZE, 2)
        case "flags":
            array.flags.writeable = False
        case "size":
            array.resize((3, 3), refcheck=False)
    del array
    again = memory.take()[0]
    assert (again.shape, again.dtype.name, again.flags.writeable) == ((2, SIZE), "float32", True)


def test_no_more_arrays_are_kept_than_were_in_use() -> None:
    memory = ResultArrays(TYPES)
    several = [memory.take() for _ in range(MOST_KEPT + 3)]
    assert len({address(results[0]) for results in several}) == len(several)
    several.clear()
    memory.take()
    assert len(memory._watched) == 1


@pytest.fixture(scope="module")
def program() -> Program:
    return optimize_and_compile(t.input("x", (2, SIZE)) + t.input("y", ()), target="cpu", threads=1)


def test_results_of_many_threads_are_apart(program: Program) -> None:
    x = np.zeros((2, SIZE), np.float32)

    def call(number: int) -> bool:
        result = program(x, np.float32(number))
        return bool((result[:, ::4096] == number).all()) and bool((result[-1, -3:] == number).all())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(call, range(40)))


def test_earlier_results_stay(program: Program) -> None:
    x = np.zeros((2, SIZE), np.float32)
    results = [program(x, np.array(number, np.float32)) for number in range(4)]
    assert [float(result[1, 7]) for result in results] == [0, 1, 2, 3]
