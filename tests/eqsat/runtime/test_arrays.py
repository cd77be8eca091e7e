"""Arrays at the edge: what is taken, what is refused, what comes back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from eqsat.runtime.arrays import Family, adopt, family_of, give_back, shape_of, writable
from ir.diagnostics import EqsatError, Kind
from ir.dtype import bf16, bool_, fp16, fp32, i8, i64, u64


class OnDevice:
    """An array that only a GPU can read."""

    shape = (2,)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": (2,), "typestr": "<f4", "data": (1, False), "version": 3}


class DlpackOnDevice:
    shape = (2,)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("a device array must not be read")


class ByDlpack:
    """Nothing but the DLPack protocol."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        return self._array.__dlpack__(**keywords)


class ByArray:
    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._array


class Broken:
    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise RuntimeError("no")


def refused(value: Any, wanted: Any = fp32, shape: tuple[int, ...] | None = None) -> str:
    with pytest.raises(EqsatError) as caught:
        adopt("x", value, wanted, shape)
    assert caught.value.kind is Kind.INPUT_MISMATCH
    assert caught.value.diagnostics[0].at == "x"
    return str(caught.value)


def test_a_contiguous_array_is_taken_without_a_copy() -> None:
    x = np.ones((2, 3), np.float32)
    assert adopt("x", x, fp32, (2, 3)) is x
    assert np.shares_memory(adopt("x", ByDlpack(x), fp32, (2, 3)), x)
    assert np.shares_memory(adopt("x", ByArray(x), fp32, (2, 3)), x)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2],
        lambda x: x[::-1],
        lambda x: x[:, ::-2],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[:1], x.shape),
        np.asfortranarray,
    ],
)
def test_any_strides_are_read_right(view: Any) -> None:
    x = view(np.arange(20, dtype=np.float32).reshape(4, 5))
    taken = adopt("x", x, fp32, x.shape)
    assert taken.flags.c_contiguous
    np.testing.assert_array_equal(taken, x)


def test_an_unaligned_array_is_copied() -> None:
    raw = np.zeros(4 * 5 + 1, np.uint8)
    x = raw[1:].view(np.float32)
    assert not x.flags.aligned
    assert adopt("x", x, fp32, (5,)).flags.aligned


def test_a_read_only_array_is_taken() -> None:
    x = np.ones(3, np.float32)
    x.flags.writeable = False
    assert adopt("x", x, fp32, (3,)) is x


@pytest.mark.parametrize(
    ("value", "wanted", "shape"),
    [
        (2, fp32, ()),
        (True, fp16, ()),
        (1.5, bf16, ()),
        ([[1, 2], [3, 4]], fp32, (2, 2)),
        ([], i64, (0,)),
        ((1,), i8, (1,)),
        ([2**63 + 1, 1], u64, (2,)),
        ([2**63, -1], fp32, (2,)),
    ],
)
def test_python_numbers_take_the_dtype(value: Any, wanted: Any, shape: tuple[int, ...]) -> None:
    taken = adopt("x", value, wanted, shape)
    assert taken.dtype == wanted.numpy
    np.testing.assert_array_equal(taken.astype(object), np.asarray(value, object))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1.5, i64),
        (2, bool_),
        (300, i8),
        ([1, [2]], fp32),
        ("text", fp32),
        (["a"], fp32),
        (None, fp32),
        ({}, fp32),
        ([None], fp32),
        (object(), fp32),
        (Broken(), fp32),
        (np.float64(1), fp32),
        (np.ones(2, np.complex64), fp32),
        (np.ones(2, ">f4"), fp32),
        (np.ma.array(np.ones(2, np.float32), mask=[True, False]), fp32),
        (np.ma.array(np.ones(2, np.float32)), fp32),
    ],
)
def test_what_is_no_array_of_the_dtype_is_refused(value: Any, wanted: Any) -> None:
    refused(value, wanted)


def test_the_message_names_dtypes_and_shapes() -> None:
    assert "fp64" in refused(np.ones(3))
    assert "[3]" in refused(np.ones(3, np.float32), shape=(1, 3))
    assert "a CAST to fp32" in refused(np.ones(3))
    assert "CAST" not in refused(np.ones(3, complex)), "no input has that dtype"


@pytest.mark.parametrize("value", [OnDevice(), DlpackOnDevice()])
def test_device_arrays_are_refused(value: Any) -> None:
    assert "device" in refused(value)
    with pytest.raises(EqsatError, match="device"):
        shape_of("x", value)


def test_shapes_are_read_without_a_copy() -> None:
    assert shape_of("x", [[1, 2, 3]]) == (1, 3)
    assert shape_of("x", 1.0) == ()


def test_the_family_is_numpy() -> None:
    assert family_of([np.ones(1), [1]]) is Family.NUMPY
    assert family_of([]) is Family.NUMPY


def test_results_are_written_into_the_callers_memory() -> None:
    array = np.zeros((2, 2), np.float32)
    assert writable("y", array, fp32, (2, 2)) is array
    assert give_back(array, Family.NUMPY) is array


def _read_only() -> np.ndarray:
    array = np.zeros((2, 2), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((2, 3), np.float32),
        np.zeros((2, 2), np.float64),
        np.zeros((2, 4), np.float32)[:, ::2],
        np.zeros((2, 2), np.float32).T[::-1],
        _read_only(),
        ByArray(np.zeros((2, 2), np.float32)),
        [[0.0, 0.0], [0.0, 0.0]],
        OnDevice(),
        None,
        np.zeros((2, 2), ml_dtypes.bfloat16),
    ],
)
def test_out_must_be_the_right_memory(out: Any) -> None:
    with pytest.raises(EqsatError) as caught:
        writable("y", out, fp32, (2, 2))
    assert caught.value.kind is Kind.INPUT_MISMATCH


class Liar(np.ndarray):
    """An array that says what its memory does not hold."""

    @property  # type: ignore[misc]
    def shape(self) -> tuple[int, ...]:
        return (4,)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32)


class Holder:
    """What makes such an array when it is asked."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.zeros(2, np.float32).view(Liar)


@pytest.mark.parametrize(
    "array",
    [np.zeros(2, np.float32).view(Liar), np.zeros(4, np.float64).view(Liar), Holder()],
    ids=["shape", "dtype", "by __array__"],
)
def test_an_arrays_memory_counts_and_not_what_a_subclass_says(array: Any) -> None:
    wanted = fp32
    with pytest.raises(EqsatError, match="the program takes"):
        adopt("x", array, wanted, (4,))
    if isinstance(array, np.ndarray):
        with pytest.raises(EqsatError, match="out= must be"):
            writable("y", array, wanted, (4,))
        assert shape_of("x", array) == np.asarray(array).shape


def test_a_mask_inside_a_list_is_not_lost() -> None:
    with pytest.raises(EqsatError, match="lose its mask"):
        adopt("x", [np.ma.array(1.0, mask=True), 2.0], fp32, (2,))
