"""The short way of a call: C code reads the addresses of arguments that need no conversion and no copy.

All that can be known before a call is computed before it: dtypes, shapes, the table of addresses. An argument that is
not plainly right (another class, dtype or shape, gaps, a gradient) leaves the call to the long way,
`eqsat.runtime.arrays`, which converts or copies it, or says what is wrong with it.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import Any

import numpy as np

from eqsat.runtime.arrays import Family, give_back
from eqsat.runtime.result_arrays import ResultArrays, interleave
from ir.dtype import TensorType, bf16
from ir.host.array_pattern import are_fields_known, pattern_of_arrays, pattern_of_tensors
from ir.host.memory import host_bytes
from ir.module.executable import TakesObjects

_requires_grad = attrgetter("requires_grad")


def can_be_direct(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> bool:
    """Whether C code can read arguments, no tensor is empty, which has no address, and all results fit in memory."""
    total = sum(type_.nbytes for type_ in outputs)
    return are_fields_known() and all(type_.size for type_ in (*inputs, *outputs)) and total <= host_bytes()


def _are_apart(tensors: Sequence[Any]) -> bool:
    """Whether no two tensors share memory."""
    spans = sorted((tensor.data_ptr(), tensor.data_ptr() + tensor.nbytes) for tensor in tensors)
    return all(end <= start for (_, end), (start, _) in pairwise(spans))


_NO_MEMORY = np.empty(0)
"""Stands for a result that lies over an argument."""


class DirectCall:
    """Calls one variant. inputs: its types, in order. overwritten, copied: place of a result that lies over an
    argument, or is copied there → the place of the argument."""

    def __init__(
        self,
        executable: TakesObjects,
        inputs: Sequence[TensorType],
        results: ResultArrays,
        overwritten: Mapping[int, int],
        copied: Mapping[int, int],
    ) -> None:
        self._run = executable.run_if_direct
        self._inputs = inputs
        self._results = results
        self._overwritten, self._copied = overwritten, copied
        self._without_memory = dict.fromkeys(overwritten, _NO_MEMORY)
        self._arrays = pattern_of_arrays(inputs)
        self._tensors: array[int] | None = None
        self._torch: Any = None
        self._is_negated: Callable[[Any], bool] = bool
        self._as_tensor: Callable[[np.ndarray], Any] = np.asarray

    def __call__(self, arguments: Sequence[Any], threads: int) -> Sequence[Any] | None:
        """The results, in arrays of the caller's library; None if the call has to take the long way."""
        is_numpy = not arguments or arguments[0].__class__ is np.ndarray
        pattern = self._arrays if is_numpy else self._pattern_of_tensors(arguments)
        if pattern is None:
            return None
        try:
            if self._copied and (is_numpy or not _are_apart([arguments[one] for one in self._copied.values()])):
                return None  # the long way says which arguments share memory, or are read-only
            results = self._results.take()
            memory = interleave(results, self._without_memory) if self._overwritten else results
            if not self._run(tuple(arguments), memory, pattern, threads):
                return None
        except Exception:  # a strange tensor, or no memory: the long way says what it is
            return None
        given = results if is_numpy else [*map(self._as_tensor, results)]
        if not self._overwritten and not self._copied:
            return given
        updated = interleave(given, {place: arguments[position] for place, position in self._overwritten.items()})
        return self._copy(list(updated), arguments) if self._copied else updated

    def _copy(self, results: list[Any], tensors: Sequence[Any]) -> list[Any]:
        """The results, of which those that are copied into arguments are these arguments."""
        for place, position in self._copied.items():
            tensors[position].detach().copy_(results[place])
            results[place] = tensors[position]
        return results

    def _pattern_of_tensors(self, arguments: Sequence[Any]) -> array[int] | None:
        """The pattern of torch's tensors, unless an argument needs a gradient, or its elements are to be negated."""
        torch = self._torch or self._learn_torch()
        if torch is None or self._tensors is None:
            return None
        try:
            if any(map(self._is_negated, arguments)):
                return None
            if torch.is_grad_enabled() and any(map(_requires_grad, arguments)):
                return None
        except (AttributeError, TypeError):  # another class
            return None
        return self._tensors

    def _learn_torch(self) -> Any:
        """torch, if the caller has imported it; the pattern of its tensors is then known."""
        torch = sys.modules.get("torch")
        if torch is not None:
            self._tensors = pattern_of_tensors(self._inputs, (torch.Tensor, torch.nn.Parameter))
            self._is_negated = torch.Tensor.is_neg
            has_bf16 = any(type_.dtype == bf16 for _, type_ in self._results.outputs)
            self._as_tensor = partial(give_back, family=Family.TORCH) if has_bf16 else torch.from_numpy
            self._torch = torch
        return torch
