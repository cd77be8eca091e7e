"""The short way of a call: which arguments take it, and that all others are treated as before."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqsat import Program, optimize_and_compile
from eqsat import tensor as t
from eqsat.runtime.arrays import adopt, as_numpy, family_of, give_back
from ir.diagnostics import EqsatError
from ir.dtype import DTYPES, dtype
from ir.host.address import _interface_address, address, fast_address

A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = A[::-1].copy()


@pytest.fixture(scope="module")
def minus() -> Program:
    """2a − b"""
    return optimize_and_compile(t.input("a", (3, 4)) * 2 - t.input("b", (3, 4)), target="cpu", threads=1)


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the arguments that take the long way."""
    names: list[str] = []

    def logged(name: str, *rest: Any) -> np.ndarray:
        names.append(name)
        return adopt(name, *rest)

    monkeypatch.setattr("eqsat.runtime.host_call.adopt", logged)
    return names


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def misaligned(array: np.ndarray) -> np.ndarray:
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
    result = memory.view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p(A, B),
        lambda p: p(a=A, b=B),
        lambda p: p(b=B, a=A),
        lambda p: p({"a": A, "b": B}),
        lambda p: p(read_only(A), B),
    ],
)
def test_arrays_that_fit_take_the_short_way(
    minus: Program, long_way: list[str], call: Callable[[Program], Any]
) -> None:
    np.testing.assert_array_equal(call(minus), 2 * A - B)
    assert long_way == []


@pytest.mark.parametrize(
    "a",
    [A[:, ::-1][:, ::-1].T.copy().T, A[::-1][::-1], np.asfortranarray(A), misaligned(A), A.tolist(), A.view(np.matrix)],
    ids=["transposed", "reversed twice", "Fortran", "misaligned", "list", "subclass"],
)
def test_other_arguments_take_the_long_way(minus: Program, long_way: list[str], a: Any) -> None:
    np.testing.assert_array_equal(minus(a, B), 2 * A - B)
    assert bool(long_way) == (not (type(a) is np.ndarray and a.flags.c_contiguous and a.flags.aligned))


@pytest.mark.parametrize("wrong", [A.astype(np.float64), A[:2], A.astype(">f4"), A.ravel()])
def test_wrong_arrays_are_refused_as_before(minus: Program, wrong: np.ndarray) -> None:
    with pytest.raises(EqsatError, match="the program takes"):
        minus(wrong, B)


def test_reversed_rows_are_read_in_their_order(minus: Program) -> None:
    np.testing.assert_array_equal(minus(A[::-1], B), 2 * A[::-1] - B)


@pytest.mark.parametrize("name", list(DTYPES))
def test_every_dtype_takes_the_short_way(name: str, long_way: list[str]) -> None:
    x = np.ones((2, 3), dtype(name).numpy)
    program = optimize_and_compile(t.input("x", (2, 3), name).flip(0), target="cpu", threads=1)
    np.testing.assert_array_equal(program(x), x)
    assert long_way == []


def test_results_that_no_kernel_writes_take_the_long_way(long_way: list[str]) -> None:
    x = t.input("x", (3, 4))
    program = optimize_and_compile([x + 1, x], target="cpu", threads=1)
    np.testing.assert_array_equal(program(A)[1], A)
    assert long_way == ["x"]


def test_free_sizes_take_the_short_way_from_the_second_call_on(long_way: list[str]) -> None:
    program = optimize_and_compile("%x: fp32[M, 4] = input()\n%y = relu(%x)", target="cpu", threads=1)
    program(A)
    assert long_way == ["x"]
    np.testing.assert_array_equal(program(A), A)
    assert long_way == ["x"]


@pytest.mark.parametrize(
    "array",
    [np.zeros(3), np.zeros((4, 4))[1:, ::-1], read_only(A), np.zeros((), np.int8), np.zeros(4, ml_dtypes.bfloat16)],
)
def test_addresses_are_those_that_numpy_tells(array: np.ndarray) -> None:
    assert fast_address(array) == address(array) == _interface_address(array)
    with pytest.raises(TypeError):
        address(array.tolist())


class OtherLibrary:
    """Arrays of a library that follows the array API standard."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape

    def __array_namespace__(self) -> Any:
        return SimpleNamespace(from_dlpack=lambda array: OtherLibrary(np.from_dlpack(array)), asarray=OtherLibrary)

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        if self.array.dtype != ml_dtypes.bfloat16:
            raise AssertionError("copied")
        return self.array


def test_arrays_of_another_library_come_and_go_without_a_copy(minus: Program) -> None:
    given = OtherLibrary(A)
    assert address(as_numpy("a", given)) == address(A)
    result = minus(given, B)
    assert isinstance(result, OtherLibrary)
    np.testing.assert_array_equal(result.array, 2 * A - B)
    assert address(give_back(A, family_of([B, given])).array) == address(A)


def test_bf16_of_another_library() -> None:
    program = optimize_and_compile(t.input("x", (3,), "bf16") * 2, target="cpu", threads=1)
    result = program(OtherLibrary(np.ones(3, ml_dtypes.bfloat16)))
    assert isinstance(result, OtherLibrary)
    np.testing.assert_array_equal(result.array.astype(np.float32), [2, 2, 2])


def test_tensors_that_fit_take_the_short_way(minus: Program, long_way: list[str]) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(A.copy()), torch.from_numpy(B)
    parameter = torch.nn.Parameter(a, requires_grad=False)
    for first in (a, parameter, a[None][0], a.T.contiguous().T.contiguous()):
        torch.testing.assert_close(minus(first, b), 2 * a - b)
    assert long_way == []


def test_other_tensors_take_the_long_way(minus: Program, long_way: list[str]) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(A.copy()), torch.from_numpy(B)
    complex_conjugate = torch.complex(torch.zeros(1, 1), torch.ones(1, 1)).conj().imag
    others = [a.T.contiguous().T, torch.from_numpy(misaligned(A)), torch._neg_view(-a), A, a.requires_grad_()]
    for first in others[:-1]:
        np.testing.assert_array_equal(np.asarray(minus(first, b)), 2 * A - B)
    assert long_way == ["a", "b"] * (len(others) - 1)
    with pytest.raises(EqsatError, match="requires a gradient"):
        minus(others[-1], b)
    with torch.no_grad():
        np.testing.assert_array_equal(np.asarray(minus(others[-1], b)), 2 * A - B)
    one = optimize_and_compile(t.input("x", (1, 1)) * 3, target="cpu", threads=1)
    assert complex_conjugate.is_neg()
    assert complex_conjugate.is_contiguous()
    assert one(complex_conjugate) == -3


@pytest.mark.parametrize("name", list(DTYPES))
def test_tensors_of_every_dtype_take_the_short_way(name: str, long_way: list[str]) -> None:
    torch = pytest.importorskip("torch")
    program = optimize_and_compile(t.input("x", (2, 3), name).flip(0), target="cpu", threads=1)
    kind = torch.bfloat16 if name == "bf16" else getattr(torch, dtype(name).numpy.name)
    x = torch.arange(6).reshape(2, 3).to(kind)
    assert torch.equal(program(x).to(torch.float64), x.flip(0).to(torch.float64))
    assert long_way == []
