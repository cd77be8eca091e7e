"""A call with arrays on a device: kernels get their memory without a copy, results belong to the caller's library.

Memory is passed as flat CuPy arrays of bytes, by DLPack or the CUDA array interface. The work is queued on the current
stream of the caller's library, and the call does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from eqsat.model import BoundModel
from eqsat.runtime.arrays import STAGE, adopt, check_type, is_on_device, is_tensor, refuse_gradient
from ir.diagnostics import EqsatError, Kind, fail
from ir.dtype import DType, TensorType, bf16, dtype
from ir.grammar import with_article
from ir.module.executable import OnDevice

ALIGNMENT = 16
"""Bytes. A kernel's widest load; so the address of each array has to be a multiple of this."""


def call_on_device(executable: OnDevice, bound: BoundModel, given: Mapping[str, Any], out: Sequence[Any] | None) -> Any:
    """The results, in order, as arrays of the caller's library; written into the arrays `out` where given.

    Raises:
        EqsatError: InputMismatch for an array of another dtype, shape or device, or an `out` that cannot take the
            results; all that a call on NumPy arrays raises.
    """
    executable.require_device()
    import cupy

    on_device = [array for array in (*given.values(), *(out or ())) if is_on_device(array)]
    in_torch = any(map(is_tensor, on_device))
    with _stream_of(on_device):
        inputs = [_device_memory(name, given[name], type_) for name, type_ in bound.signature.items()]
        if out is None:
            outputs = [cupy.empty(_nbytes(type_), cupy.uint8) for _, type_ in bound.outputs]
        else:
            outputs = [_out_memory(name, array, type_) for array, (name, type_) in zip(out, bound.outputs, strict=True)]
            _refuse_shared(outputs)
            inputs = [memory.copy() if _overlaps(memory, outputs) else memory for memory in inputs]
        executable.run_on_device(inputs, outputs)
        if out is not None:
            return tuple(out)
        from_bytes = _as_tensor if in_torch else _as_cupy
        return tuple(from_bytes(memory, type_) for memory, (_, type_) in zip(outputs, bound.outputs, strict=True))


@contextmanager
def _stream_of(arrays: Sequence[Any]) -> Iterator[None]:
    """Makes torch's current stream CuPy's if an array is a tensor. If other arrays are not, the work on torch's stream
    waits for the work on CuPy's own stream, and later work there waits for it."""
    tensor = next((array for array in arrays if is_tensor(array)), None)
    if tensor is None:
        yield
        return
    import cupy
    import torch

    address = torch.cuda.current_stream(tensor.device).cuda_stream
    stream = cupy.cuda.ExternalStream(address) if address else cupy.cuda.Stream.null
    own = None if all(map(is_tensor, arrays)) else cupy.cuda.get_current_stream()
    with stream:
        if own is not None:
            stream.wait_event(own.record())
        yield
        if own is not None:
            own.wait_event(stream.record())


def _device_memory(name: str, value: Any, wanted: TensorType) -> Any:
    """The memory of an argument. Copies host arrays, arrays with gaps, and arrays that are not aligned."""
    import cupy

    if not is_on_device(value):
        host = adopt(name, value, wanted.dtype, wanted.shape)
        return cupy.asarray(host.reshape(-1).view(np.uint8))
    memory = _memory(name, value, wanted)
    return memory.copy() if memory.data.ptr % ALIGNMENT else memory


def _out_memory(name: str, out: Any, wanted: TensorType) -> Any:
    """The memory of the caller's `out=` array."""
    if not is_on_device(out):
        fail(Kind.INPUT_MISMATCH, STAGE, "out= is on the host, and arguments are on a device", at=name)
    memory = _memory(name, out, wanted)
    if memory.data.ptr != _address(out) or memory.data.ptr % ALIGNMENT:
        message = f"out= must be C-contiguous, from a multiple of {ALIGNMENT} bytes on"
        fail(Kind.INPUT_MISMATCH, STAGE, message, at=name, got=f"{type(out).__name__}{list(out.shape)}")
    return memory


def _memory(name: str, value: Any, wanted: TensorType) -> Any:
    """The elements of a device array as CuPy's flat bytes."""
    import cupy

    try:
        if is_tensor(value):
            refuse_gradient(name, value)
            plain = value.detach().resolve_conj().resolve_neg()
            check_type(name, _tensor_dtype(plain), tuple(plain.shape), wanted.dtype, wanted.shape)
            memory = _tensor_bytes(plain.contiguous())
        else:
            array = value if isinstance(value, cupy.ndarray) else _import_array(value)
            check_type(name, dtype(array.dtype), tuple(array.shape), wanted.dtype, wanted.shape)
            memory = cupy.ascontiguousarray(array).reshape(-1).view(cupy.uint8)
    except EqsatError:
        raise
    except Exception as error:  # a foreign library's conversion may fail in any way
        fail(Kind.INPUT_MISMATCH, STAGE, f"{with_article(type(value).__name__)} that makes no array: {error}", at=name)
    if memory.device.id != cupy.cuda.Device().id:
        _fail_other_device(name, memory.device.id, cupy.cuda.Device().id)
    return memory


def _import_array(value: Any) -> Any:
    import cupy

    return cupy.asarray(value) if hasattr(value, "__cuda_array_interface__") else cupy.from_dlpack(value)


def _tensor_bytes(tensor: Any) -> Any:
    """The memory of a tensor as bytes, because neither CuPy nor DLPack knows all dtypes of torch."""
    import cupy
    import torch

    return cupy.from_dlpack(tensor.reshape(-1).view(torch.uint8))


def _tensor_dtype(tensor: Any) -> DType:
    import torch

    if tensor.dtype is torch.bfloat16:
        return bf16
    return dtype(torch.empty(0, dtype=tensor.dtype).numpy().dtype)


def _as_cupy(memory: Any, type_: TensorType) -> Any:
    return memory.view(type_.dtype.numpy).reshape(type_.shape)


def _as_tensor(memory: Any, type_: TensorType) -> Any:
    import torch

    name = torch.bfloat16 if type_.dtype == bf16 else torch.from_numpy(np.empty(0, type_.dtype.numpy)).dtype
    return torch.from_dlpack(memory).view(name).reshape(type_.shape)


def _address(array: Any) -> int:
    if is_tensor(array):
        return int(array.data_ptr())
    import cupy

    return int((array if isinstance(array, cupy.ndarray) else _import_array(array)).data.ptr)


def _refuse_shared(outputs: Sequence[Any]) -> None:
    if any(_overlaps(memory, outputs[:place]) for place, memory in enumerate(outputs)):
        fail(Kind.INPUT_MISMATCH, STAGE, "two arrays of out= share memory")


def _overlaps(memory: Any, others: Iterable[Any]) -> bool:
    """Whether the memory shares bytes with one of the others; all are flat arrays of bytes."""
    start, stop = memory.data.ptr, memory.data.ptr + memory.size
    return any(start < other.data.ptr + other.size and other.data.ptr < stop for other in others)


def _nbytes(type_: TensorType) -> int:
    return int(np.prod(type_.shape, dtype=np.int64)) * type_.dtype.bytes


def _fail_other_device(name: str, device: int, current: int) -> NoReturn:
    message = f"the array is on device {device}, the program runs on the current device, {current}"
    fail(Kind.INPUT_MISMATCH, STAGE, message, at=name, hint=f"with cupy.cuda.Device({device}): …")
