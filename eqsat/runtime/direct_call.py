"""The short way of a call: arguments that need no conversion and no copy are passed as addresses.

All that can be known before a call is computed before it: dtypes, shapes, the table of addresses. An argument that is
not plainly right (another class, dtype or shape, gaps, a gradient) leaves the call to the long way,
`eqsat.runtime.arrays`, which converts or copies it, or says what is wrong with it. The loops below are written for
speed: a call of ten arguments takes about ten microseconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from eqsat.runtime.arrays import Family, give_back
from ir.dtype import TensorType, bf16
from ir.host.address import fast_address
from ir.host.memory import host_bytes
from ir.module.executable import ByAddress


def can_be_direct(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
    """Whether no tensor is empty, which has no address, and all results fit in memory."""
    total = sum(type_.nbytes for type_ in outputs)
    return all(type_.size for type_ in (*inputs, *outputs)) and total <= host_bytes()


class DirectCall:
    """Calls one variant. inputs, outputs: its types, in order."""

    def __init__(self, executable: ByAddress, inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> None:
        self._run_at = executable.run_at
        self._arrays = [(type_.dtype.numpy, type_.shape) for type_ in inputs]
        self._tensors: Sequence[tuple[Any, tuple[int, ...]]] = ()
        self._outputs = [(type_.shape, type_.dtype.numpy) for type_ in outputs]
        self._misaligned = max((type_.dtype.bytes for type_ in inputs), default=1) - 1
        self._torch: Any = None
        self._parameter: Any = None
        self._as_tensor: Callable[[np.ndarray], Any] = np.asarray

    def __call__(self, arguments: Sequence[Any], threads: int) -> Sequence[Any] | None:
        """The results, in arrays of the caller's library; None if the call has to take the long way."""
        is_numpy = not arguments or arguments[0].__class__ is np.ndarray
        try:
            addresses = self._of_arrays(arguments) if is_numpy else self._of_tensors(arguments)
            if addresses is None:
                return None
            results = [np.empty(shape, kind) for shape, kind in self._outputs]
        except Exception:  # a strange array, or no memory: the long way says what it is
            return None
        self._run_at(addresses, [*map(fast_address, results)], threads)
        return results if is_numpy else [*map(self._as_tensor, results)]

    def _of_arrays(self, arguments: Sequence[Any]) -> list[int] | None:
        """The addresses of NumPy arrays; None unless all are arrays that kernels can read."""
        addresses, all_bits, array = [], 0, np.ndarray
        for argument, (kind, shape) in zip(arguments, self._arrays, strict=True):
            if (
                argument.__class__ is not array
                or argument.shape != shape
                or argument.dtype != kind
                or not argument.flags.c_contiguous
            ):
                return None
            at = fast_address(argument)
            all_bits |= at
            addresses.append(at)
        return None if all_bits & self._misaligned else addresses

    def _of_tensors(self, arguments: Sequence[Any]) -> list[int] | None:
        """The addresses of torch tensors; None unless all are tensors that kernels can read."""
        torch = self._torch or self._learn_torch()
        if torch is None:
            return None
        addresses, all_bits, plain, parameter = [], 0, torch.Tensor, self._parameter
        needs_gradients = torch.is_grad_enabled()
        for argument, (kind, shape) in zip(arguments, self._tensors, strict=True):
            if (
                (argument.__class__ is not plain and argument.__class__ is not parameter)
                or argument.dtype is not kind
                or argument.shape != shape
                or not argument.is_cpu
                or not argument.is_contiguous()
                or argument.is_neg()
                or (needs_gradients and argument.requires_grad)
            ):
                return None
            at = argument.data_ptr()
            all_bits |= at
            addresses.append(at)
        return None if all_bits & self._misaligned else addresses

    def _learn_torch(self) -> Any:
        """torch, if the caller has imported it; its names of the dtypes are then known."""
        torch = sys.modules.get("torch")
        if torch is not None:
            self._tensors = [
                (torch.bfloat16 if kind == bf16.numpy else getattr(torch, kind.name, None), torch.Size(shape))
                for kind, shape in self._arrays
            ]
            has_bf16 = any(kind == bf16.numpy for _, kind in self._outputs)
            self._as_tensor = partial(give_back, family=Family.TORCH) if has_bf16 else torch.from_numpy
            self._parameter, self._torch = torch.nn.Parameter, torch
        return torch
