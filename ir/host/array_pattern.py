"""The arrays that a call takes, as numbers for the C function `eq_take_arrays`, which reads Python's objects.

The function reads the fields of tuples and of NumPy's arrays where compiled extensions read them, and the tensors of
other libraries by DLPack's exchange API (https://dmlc.github.io/dlpack/latest/python_spec.html).
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from ir.dtype import DType, TensorType, bf16

_NONE = 0
_EXCHANGE = "dlpack_exchange_api"
_MAJOR = 1
"""The version of DLPack whose structs the C function knows."""
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""NumPy's kinds of elements → DLPack's codes."""
_BFLOAT = 4


class _Tuple(ctypes.Structure):
    _fields_ = [("head", ctypes.c_ssize_t * 2), ("count", ctypes.c_ssize_t), ("first", ctypes.c_void_p)]


class _Array(ctypes.Structure):
    _fields_ = [
        ("head", ctypes.c_ssize_t * 2),
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int),
        ("sizes", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
        ("base", ctypes.c_void_p),
        ("element_type", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    ]


class _Exchange(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("functions_of_managed_tensors", ctypes.c_void_p * 3),
        ("tell_of_object", ctypes.c_void_p),
        ("current_stream", ctypes.c_void_p),
    ]


@functools.cache
def are_fields_known() -> bool:
    """Whether this Python and this NumPy keep the fields of objects at the places that the C function reads."""
    if np.ndarray.__basicsize__ < ctypes.sizeof(_Array) or object.__basicsize__ != 2 * ctypes.sizeof(ctypes.c_ssize_t):
        return False
    sample = np.empty((2, 5), np.int16)[:, 1:]
    pair = (sample, sample)
    seen, read = _Array.from_address(id(sample)), _Tuple.from_address(id(pair))
    return (
        (seen.head[1], read.head[1], read.count, read.first) == (id(np.ndarray), id(tuple), 2, id(sample))
        and (seen.data, seen.rank) == (sample.__array_interface__["data"][0], 2)
        and (tuple(seen.sizes[:2]), tuple(seen.strides[:2])) == (sample.shape, sample.strides)
        and seen.element_type == id(sample.dtype)
        and not seen.flags & 1
        and bool(_Array.from_address(id(np.empty(3))).flags & 1)
    )


def pattern_of_arrays(types: Sequence[TensorType], written: Sequence[int] = ()) -> array[int]:
    """Arrays of NumPy of these types. written: the places of those that a call changes: they must be writable, and
    share no memory with another one."""
    return _pattern((np.ndarray, np.ndarray), _NONE, [id(type_.dtype.numpy) for type_ in types], types, written)


def pattern_of_tensors(
    types: Sequence[TensorType], classes: tuple[type, type], written: Sequence[int] = ()
) -> array[int] | None:
    """Tensors of these types in the memory of the host. classes: of the tensors; the first class has the exchange API.
    None, if it has none, or another version. written: as for arrays."""
    capsule = getattr(classes[0], f"__{_EXCHANGE.replace('_', '_c_', 1)}__", None)
    if capsule is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    exchange = _Exchange.from_address(pointer(capsule, _EXCHANGE.encode()))
    if exchange.major != _MAJOR or not exchange.tell_of_object:
        return None
    return _pattern(classes, exchange.tell_of_object, [_dlpack_type(type_.dtype) for type_ in types], types, written)


def _pattern(
    classes: tuple[type, type],
    tells: int,
    elements: Sequence[int],
    types: Sequence[TensorType],
    written: Sequence[int],
) -> array[int]:
    misaligned = max((type_.dtype.bytes for type_ in types), default=1) - 1
    numbers = [*map(id, classes), tells, misaligned, len(types)]
    for element, type_ in zip(elements, types, strict=True):
        numbers += [element, len(type_.shape), *type_.shape]
    return array("q", [*numbers, len(written), *written, *(type_.nbytes for type_ in types)])


def _dlpack_type(of: DType) -> int:
    """Code, bits and number of lanes, as the C function compares them."""
    kind: Any = of.numpy.kind
    return (_BFLOAT if of == bf16 else _CODES[kind]) | 8 * of.bytes << 8 | 1 << 16
