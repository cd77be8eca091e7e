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
from operator import attrgetter
from typing import Any

import numpy as np

from eqsat.runtime.arrays import Family, copy_into, give_back
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


_NO_MEMORY = np.empty(0)
"""Stands for a result that lies over an argument."""


class DirectCall:
    """Calls one variant. inputs: its types, in order. updated: place of a result that updates an argument → the place
    of the argument. overwritten: those of them that lie over their arguments; the others are copied there."""

    def __init__(
        self,
        executable: TakesObjects,
        inputs: Sequence[TensorType],
        results: ResultArrays,
        updated: Mapping[int, int],
        overwritten: Mapping[int, int],
    ) -> None:
        self._run = executable.run_if_direct
        self._inputs = inputs
        self._results = results
        self._updated, self._written = updated, sorted(updated.values())
        self._without_memory = dict.fromkeys(overwritten, _NO_MEMORY)
        self._arrays = pattern_of_arrays(inputs, self._written)
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
            results = self._results.take()
            if self._updated:
                results = interleave(results, self._without_memory)
            if not self._run(tuple(arguments), results, pattern, threads):
                return None
        except Exception:  # a strange tensor, or no memory: the long way says what it is
            return None
        if self._updated:
            return self._update(results, arguments, is_numpy)
        return results if is_numpy else [*map(self._as_tensor, results)]

    def _update(self, results: Sequence[np.ndarray], arguments: Sequence[Any], is_numpy: bool) -> list[Any]:
        """The results, of which those that update arguments are the arguments."""
        given: list[Any] = []
        for place, result in enumerate(results):
            if place not in self._updated:
                given.append(result if is_numpy else self._as_tensor(result))
                continue
            argument = arguments[self._updated[place]]
            if place not in self._without_memory:
                copy_into(argument, result)
            given.append(argument)
        return given

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
            self._tensors = pattern_of_tensors(self._inputs, (torch.Tensor, torch.nn.Parameter), self._written)
            self._is_negated = torch.Tensor.is_neg
            has_bf16 = any(type_.dtype == bf16 for _, type_ in self._results.outputs)
            self._as_tensor = partial(give_back, family=Family.TORCH) if has_bf16 else torch.from_numpy
            self._torch = torch
        return torch
