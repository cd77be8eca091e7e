"""Arrays at the edge of a program: arguments become NumPy arrays, results become arrays of the caller's library.

A torch tensor shares its memory with the NumPy array (bf16 through a 16-bit view, because DLPack and NumPy lack bf16).
An array of a library that follows the array API standard (jax, array_api_strict) comes and goes by DLPack, without a
copy. Any other CPU array is converted by `__array__` or DLPack. An array on a device is refused here, because no array
crosses to another device silently; `eqsat.runtime.device_call` hands device arrays to programs that run on a GPU.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DTYPES, DType, bf16, dtype
from ir.grammar import with_article
from ir.host.address import address
from ir.host.memory import memory_for

STAGE = "call"
_DLPACK_HOST = {1, 3, 11, 13}  # kDLCPU, kDLCUDAHost, kDLROCMHost, kDLCUDAManaged are readable by the host
_KIND_RANK = {"b": 0, "i": 1, "u": 1, "f": 2}
"""NumPy dtype kinds from narrow to wide; a Python number may convert only to its own kind or a wider one."""


class Family(Enum):
    """The library that the caller's arrays belong to."""

    NUMPY = "numpy"
    TORCH = "torch"


class Namespace(NamedTuple):
    """A library that follows the array API standard, by its module of functions."""

    module: Any


def family_of(arrays: Iterable[Any]) -> Family | Namespace:
    """TORCH if any of the arrays is a torch tensor; else the library of the first array that names its own; else
    NUMPY."""
    listed = list(arrays)
    if any(map(is_tensor, listed)):
        return Family.TORCH
    own = next((array for array in listed if _names_its_library(array)), None)
    return Family.NUMPY if own is None else Namespace(own.__array_namespace__())


def shape_of(name: str, value: Any) -> tuple[int, ...]:
    """The shape of an argument. Raises EqsatError, InputMismatch, for a device array, and for no array."""
    return tuple(value.shape) if is_tensor(value) else as_numpy(name, value).shape


def is_on_device(value: Any) -> bool:
    """Whether the value is an array that the host cannot read."""
    if is_tensor(value):
        return bool(value.device.type != "cpu")
    if isinstance(value, np.ndarray):
        return False
    if isinstance(value, type) or not hasattr(value, "__dlpack_device__"):
        return hasattr(value, "__cuda_array_interface__")
    try:
        return int(value.__dlpack_device__()[0]) not in _DLPACK_HOST
    except Exception as error:  # a foreign library's protocol may fail in any way
        array = f"{with_article(type(value).__name__)} that does not say where it lies"
        fail(Kind.INPUT_MISMATCH, STAGE, f"{array}: {error}")


def adopt(name: str, value: Any, wanted: DType, shape: tuple[int, ...] | None) -> np.ndarray:
    """`value` as a C-contiguous, aligned NumPy array of dtype `wanted` and of `shape` (None: any shape).

    The array is copied only if it has gaps or is misaligned. Python numbers and sequences are converted to the dtype
    unless the conversion changes their kind (a float does not become an integer); an array must have the dtype already.

    Raises:
        EqsatError: InputMismatch for another dtype or shape, for a device array, and for a value that is no array;
            ResourceExceeded for an array with gaps that is too large to be copied.
    """
    array = as_numpy(name, value)
    if isinstance(value, bool | int | float | list | tuple) and not isinstance(value, np.generic):
        array = _convert(name, value, array, wanted)
    check_type(name, _dtype_name(array), array.shape, wanted, shape)
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    with memory_for(array.nbytes, STAGE, "a contiguous copy of the array", at=name, shape=array.shape):
        return np.require(array, requirements=("C", "A"))


def check_type(
    name: str, given: DType | str, sizes: tuple[int, ...], wanted: DType, shape: tuple[int, ...] | None
) -> None:
    """Raises EqsatError, InputMismatch, unless dtype and sizes of an array are what the program takes."""
    if str(given) != str(wanted):
        fail(
            Kind.INPUT_MISMATCH,
            STAGE,
            f"the array has dtype {given}, the program takes {wanted}",
            at=name,
            hint=_conversion(str(given), wanted),
            got=str(given),
            expected=str(wanted),
        )
    if shape is not None and sizes != shape:
        fail(
            Kind.INPUT_MISMATCH,
            STAGE,
            f"the array has shape {list(sizes)}, the program takes {list(shape)}",
            at=name,
            hint="compile with other dims=, or leave the dims free to specialise at each call",
            got=list(sizes),
            expected=list(shape),
        )


def _conversion(given: str, wanted: DType) -> str:
    """How to make an array of the wanted dtype."""
    if given.startswith("complex"):
        return "its parts along a last axis: torch.view_as_real(x), or x.view(x.real.dtype).reshape(*x.shape, 2)"
    return "convert it first" + (f", or put a CAST to {wanted} behind an input of its dtype" if given in DTYPES else "")


def give_back(array: np.ndarray, family: Family | Namespace) -> Any:
    """The array as an array of the caller's library, without a copy. (Only bf16 is copied, by libraries other than
    torch: NumPy does not export bf16 by DLPack.)"""
    if family is Family.NUMPY:
        return array
    if isinstance(family, Namespace):
        return family.module.asarray(array) if array.dtype == bf16.numpy else family.module.from_dlpack(array)
    import torch

    if array.dtype == bf16.numpy:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def copy_into(target: Any, array: np.ndarray) -> None:
    """Writes the elements of a result into the caller's array, unless they lie there."""
    memory = as_numpy(None, target)
    if memory.flags.c_contiguous and address(memory) == address(array):
        return
    if is_tensor(target):
        target.detach().copy_(give_back(array, Family.TORCH))
    else:
        memory[...] = array


def writable(name: str, out: Any, wanted: DType, shape: tuple[int, ...]) -> np.ndarray:
    """The memory of the caller's `out=` array as a NumPy array, so that results are written straight into that memory.

    Raises:
        EqsatError: InputMismatch unless `out` is a writable, contiguous, aligned CPU array of this dtype and shape.
    """
    array = as_numpy(name, out)
    fits = array.dtype == wanted.numpy and array.shape == shape
    flags = array.flags
    if not (fits and flags.c_contiguous and flags.writeable and flags.aligned and _shares_memory(out, array)):
        fail(
            Kind.INPUT_MISMATCH,
            STAGE,
            f"out= must be a writable C-contiguous {wanted} array of shape {list(shape)}",
            at=name,
            got=f"{type(out).__name__} {_dtype_name(array)}{list(array.shape)}",
        )
    return array


def as_numpy(name: str | None, value: Any, stage: str = STAGE) -> np.ndarray:
    """The value as a plain `ndarray` in its own dtype, without a copy where the memory can be shared.

    A subclass is not kept: the shape, dtype or strides that it reports may differ from its memory.

    Raises:
        EqsatError: InputMismatch for a value that is no array, for an array on a device, and for an array with more
            than elements: a mask, or a gradient that would be lost.
    """
    if any(isinstance(item, np.ma.MaskedArray) for item in (value if isinstance(value, list | tuple) else [value])):
        fail(Kind.INPUT_MISMATCH, stage, "a masked array would lose its mask", at=name, hint="array.filled(value)")
    try:
        if isinstance(value, np.ndarray):
            return np.asarray(value)
        if is_tensor(value):
            return _from_tensor(name, value, stage)
        _refuse_device(name, value)
        if _names_its_library(value):
            with contextlib.suppress(BufferError, TypeError, RuntimeError):  # bf16, which NumPy cannot import
                return np.from_dlpack(value)
        if isinstance(value, bool | int | float | list | tuple | np.generic) or hasattr(value, "__array__"):
            return _from_python(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
    except EqsatError:
        raise
    except Exception as error:  # a foreign library's conversion may fail in any way
        fail(Kind.INPUT_MISMATCH, stage, f"{with_article(type(value).__name__)} that makes no array: {error}", at=name)
    fail(Kind.INPUT_MISMATCH, stage, f"{with_article(type(value).__name__)} is not an array", at=name)


def _convert(name: str, value: Any, natural: np.ndarray, wanted: DType) -> np.ndarray:
    """Python numbers in the wanted dtype; `natural` is the array that NumPy makes of them by itself."""
    rank = _KIND_RANK.get(natural.dtype.kind, 3)
    if natural.size and rank > (0 if wanted.is_bool else 1 if wanted.is_int else 2):
        fail(Kind.INPUT_MISMATCH, STAGE, f"Python numbers of kind {natural.dtype} are no {wanted}", at=name)
    try:
        return np.asarray(value, dtype=wanted.numpy)
    except (ValueError, TypeError, OverflowError) as error:
        fail(Kind.INPUT_MISMATCH, STAGE, f"does not convert to {wanted}: {error}", at=name)


def _from_python(value: Any) -> np.ndarray:
    """NumPy's array of the value. Integers that u64 holds and i64 does not are an array of u64; NumPy mixes large and
    small integers in fp64."""
    array = np.asarray(value)
    is_large = isinstance(value, list | tuple) and array.dtype.kind == "f" and array.size and array.max() >= 2**63
    if is_large and all(type(number) is int for number in np.asarray(value, object).flat):
        with contextlib.suppress(OverflowError):
            return np.asarray(value, np.uint64)
    return array


def refuse_gradient(name: str | None, tensor: Any, stage: str = STAGE) -> None:
    """Raises EqsatError, InputMismatch, for a torch tensor whose gradient would be lost."""
    import torch

    if tensor.requires_grad and torch.is_grad_enabled():
        hint = "tensor.detach(), or call inside torch.no_grad()"
        fail(Kind.INPUT_MISMATCH, stage, "the tensor requires a gradient, and programs have none", at=name, hint=hint)


def _from_tensor(name: str | None, tensor: Any, stage: str) -> np.ndarray:
    import torch

    refuse_gradient(name, tensor, stage)
    if tensor.device.type != "cpu":
        _fail_device_array(name, f"torch tensor on {tensor.device}")
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        return np.asarray(plain.contiguous().view(torch.int16).numpy()).view(bf16.numpy)
    return np.asarray(plain.numpy())


def _refuse_device(name: str | None, value: Any) -> None:
    """Raise for an array that the host cannot read."""
    if is_on_device(value):
        _fail_device_array(name, f"{type(value).__module__}.{type(value).__name__} on a device")


def _fail_device_array(name: str | None, array: str) -> NoReturn:
    fail(
        Kind.INPUT_MISMATCH,
        STAGE,
        f"{with_article(array)} was given to a program that runs on the CPU",
        at=name,
        hint="copy it to host memory first: arrays never cross devices silently",
    )


def _names_its_library(value: Any) -> bool:
    """Whether the value is an array of the array API standard, of another library than NumPy."""
    is_own = isinstance(value, np.ndarray | np.generic | type)
    return not is_own and hasattr(value, "__array_namespace__") and hasattr(value, "__dlpack__")


def is_tensor(value: Any) -> bool:
    """Whether the value is a torch tensor, on any device."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _shares_memory(given: Any, array: np.ndarray) -> bool:
    if isinstance(given, np.ndarray) or array.size == 0:
        return True
    return is_tensor(given) and int(given.data_ptr()) == array.ctypes.data


def _dtype_name(array: np.ndarray) -> str:
    try:
        return str(dtype(array.dtype))
    except EqsatError:
        return str(array.dtype)


def any_on_device(given: Mapping[str, Any], out: Any) -> bool:
    """Whether any argument or `out` array is on a device."""
    return any(map(is_on_device, [*given.values(), *(out if isinstance(out, tuple | list) else [out])]))
