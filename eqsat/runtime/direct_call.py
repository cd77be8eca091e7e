"""The short way of a call: arguments that need no conversion and no copy are passed as addresses.

All that can be known before a call is computed before it: dtypes, shapes, the table of addresses. An argument that is
not plainly right (another class, dtype or shape, gaps, a gradient) leaves the call to the long way,
`eqsat.runtime.arrays`, which converts or copies it, or says what is wrong with it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.runtime.arrays import Family, give_back
from ir.dtype import TensorType, bf16
from ir.host.address import address
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
        self._inputs = [(type_.dtype.numpy, type_.shape, type_.dtype.bytes) for type_ in inputs]
        self._outputs = [(type_.shape, type_.dtype.numpy) for type_ in outputs]
        self._torch: Any = None
        self._tensors: Sequence[tuple[Any, tuple[int, ...], int]] = ()
        self._classes: tuple[type, ...] = ()

    def __call__(self, arguments: Sequence[Any], threads: int) -> list[Any] | None:
        """The results, in arrays of the caller's library; None if the call has to take the long way."""
        try:
            addresses = self._addresses(arguments)
            if addresses is None:
                return None
            results = [np.empty(shape, kind) for shape, kind in self._outputs]
        except Exception:  # a strange array, or no memory: the long way says what it is
            return None
        self._run_at(addresses, [address(array) for array in results], threads)
        if all(argument.__class__ is np.ndarray for argument in arguments):
            return results
        return [give_back(array, Family.TORCH) for array in results]

    def _addresses(self, arguments: Sequence[Any]) -> list[int] | None:
        addresses = []
        for place, argument in enumerate(arguments):
            if argument.__class__ is np.ndarray:
                kind, shape, nbytes = self._inputs[place]
                if argument.dtype != kind or argument.shape != shape or not argument.flags.c_contiguous:
                    return None
                at = address(argument)
            else:
                if argument.__class__ not in self._classes and not self._learn_torch(argument):
                    return None
                own, sizes, nbytes = self._tensors[place]
                if (
                    argument.dtype is not own
                    or argument.shape != sizes
                    or not argument.is_cpu
                    or not argument.is_contiguous()
                    or argument.is_neg()
                    or (argument.requires_grad and self._torch.is_grad_enabled())
                ):
                    return None
                at = argument.data_ptr()
            if at % nbytes:
                return None
            addresses.append(at)
        return addresses

    def _learn_torch(self, argument: Any) -> bool:
        """Whether the argument is a plain tensor. The first one makes torch's names of the dtypes known."""
        torch = sys.modules.get("torch")
        if torch is None or argument.__class__ not in (torch.Tensor, torch.nn.Parameter):
            return False
        self._tensors = [
            (torch.bfloat16 if kind == bf16.numpy else getattr(torch, kind.name, None), shape, nbytes)
            for kind, shape, nbytes in self._inputs
        ]
        self._torch, self._classes = torch, (torch.Tensor, torch.nn.Parameter)
        return True
