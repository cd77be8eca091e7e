"""Arrays at the edge of a program: whatever the caller holds comes in as NumPy and goes back as what it was.

Torch tensors share their memory (bf16 through a 16-bit view, which DLPack and NumPy lack); every other CPU
array comes through `__array__` or DLPack. Arrays on a device are refused: nothing crosses silently.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import Enum
from typing import Any

import numpy as np

from ir.diagnostics import Kind, fail
from ir.dtype import DType, dtype

_DLPACK_HOST = {1, 3, 11, 13}  # kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged are readable by the host


class Family(Enum):
    """Whose arrays the caller works with."""

    NUMPY = "numpy"
    TORCH = "torch"


def family_of(arrays: Iterable[Any]) -> Family:
    """Torch when any of the arrays is a tensor, else NumPy."""
    return Family.TORCH if any(_is_tensor(array) for array in arrays) else Family.NUMPY


def adopt(name: str, value: Any, wanted: DType, shape: tuple[int, ...] | None) -> np.ndarray:
    """`value` as a C-contiguous NumPy array of dtype `wanted` and of `shape` (None: any), copied only if needed.

    Python numbers and sequences take the wanted dtype; an array must have it already.

    Raises:
        EqsatError: InputMismatch for another dtype or shape, for a device array, or for what is no array.
    """
    array = _to_numpy(name, value, wanted)
    if array.dtype != wanted.numpy:
        fail(
            Kind.INPUT_MISMATCH,
            "call",
            f"input has dtype {_dtype_name(array)}, the program takes {wanted}",
            at=name,
            hint=f"convert it first, or put a CAST to {wanted} behind an input of its dtype",
            got=_dtype_name(array),
            expected=str(wanted),
        )
    if shape is not None and array.shape != shape:
        fail(
            Kind.INPUT_MISMATCH,
            "call",
            f"input has shape {list(array.shape)}, the program takes {list(shape)}",
            at=name,
            hint="compile with other dims=, or leave the dims free to specialise at each call",
            got=list(array.shape),
            expected=list(shape),
        )
    return np.require(array, requirements="C").reshape(array.shape)


def give_back(array: np.ndarray, family: Family) -> Any:
    """The array in the caller's family, without a copy."""
    if family is Family.NUMPY:
        return array
    import torch

    if array.dtype == dtype("bf16").numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def writable(name: str, out: Any, wanted: DType, shape: tuple[int, ...]) -> np.ndarray:
    """The memory of the caller's `out=` array as NumPy; results are written straight into it.

    Raises:
        EqsatError: InputMismatch unless it is a writable, contiguous CPU array of that dtype and shape.
    """
    array = _to_numpy(name, out, wanted)
    fits = array.dtype == wanted.numpy and array.shape == shape
    if not (fits and array.flags.c_contiguous and array.flags.writeable and _shares_memory(out, array)):
        fail(
            Kind.INPUT_MISMATCH,
            "call",
            f"out= must be a writable C-contiguous {wanted} array of shape {list(shape)}",
            at=name,
            got=f"{_dtype_name(array)}{list(array.shape)}",
        )
    return array


def _to_numpy(name: str, value: Any, wanted: DType) -> np.ndarray:
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, bool | int | float | list | tuple | np.generic):
        return _from_python(name, value, wanted)
    if _is_tensor(value):
        return _from_tensor(name, value)
    if hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) not in _DLPACK_HOST:
        _refuse_device(name, f"{type(value).__module__} array")
    if hasattr(value, "__cuda_array_interface__"):
        _refuse_device(name, f"{type(value).__module__} array")
    if hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    fail(Kind.INPUT_MISMATCH, "call", f"a {type(value).__name__} is not an array", at=name)


def _from_python(name: str, value: Any, wanted: DType) -> np.ndarray:
    if isinstance(value, np.generic):
        return np.asarray(value)
    try:
        return np.asarray(value, dtype=wanted.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        fail(Kind.INPUT_MISMATCH, "call", f"does not convert to {wanted}: {error}", at=name)


def _from_tensor(name: str, tensor: Any) -> np.ndarray:
    import torch

    if tensor.device.type != "cpu":
        _refuse_device(name, f"torch tensor on {tensor.device}")
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        return np.asarray(plain.contiguous().view(torch.int16).numpy()).view(dtype("bf16").numpy)
    return np.asarray(plain.numpy())


def _refuse_device(name: str, what: str) -> None:
    fail(
        Kind.INPUT_MISMATCH,
        "call",
        f"a {what} was given to a program that runs on the CPU",
        at=name,
        hint="copy it to host memory first: arrays never cross devices silently",
    )


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _shares_memory(given: Any, array: np.ndarray) -> bool:
    if isinstance(given, np.ndarray):
        return True
    return _is_tensor(given) and int(given.data_ptr()) == array.ctypes.data


def _dtype_name(array: np.ndarray) -> str:
    try:
        return str(dtype(array.dtype))
    except Exception:
        return str(array.dtype)
