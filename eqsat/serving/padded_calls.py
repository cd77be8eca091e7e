"""Calls that code for larger sizes computes, on padded arguments.

Padding is used only where no padded position reaches a result: where `ir.tiny.restriction` proves that, or where the
code has masks and `eqsat.serving.padded_model` proves the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from eqsat.runtime.compiled import Compiled
from eqsat.serving.padding import Padding
from eqsat.serving.variants import Key, Variants
from ir.diagnostics import EqsatError
from ir.dtype import TensorType
from ir.host.memory import memory_for


class Answer(Protocol):
    """A program that computes a call in place of the call's own code. signature, outputs: the types of the arguments by
    name and of the results, at the call's own sizes."""

    @property
    def signature(self) -> Mapping[str, TensorType]: ...

    @property
    def outputs(self) -> Sequence[tuple[str, TensorType]]: ...

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]: ...


class Padded:
    """Code for larger sizes, on arguments with zeros behind their ends. lengths: arguments for the masks."""

    def __init__(
        self,
        signature: Mapping[str, TensorType],
        outputs: Sequence[tuple[str, TensorType]],
        compiled: Compiled,
        lengths: Sequence[np.ndarray] = (),
    ) -> None:
        self.signature, self.outputs = signature, outputs
        self._compiled, self._lengths = compiled, lengths

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The results, without their padded positions."""
        types = self._compiled.inputs.values()
        padded = [_with_zeros(array, type_.shape) for array, type_ in zip(inputs, types, strict=True)]
        results = self._compiled.run([*padded, *self._lengths], threads)
        shapes = [type_.shape for _, type_ in self.outputs]
        return [
            np.ascontiguousarray(array[tuple(map(slice, shape))]) if array.shape != shape else array
            for array, shape in zip(results, shapes, strict=True)
        ]


class FromLarger(NamedTuple):
    """An answer by the variant of larger sizes that has a key."""

    key: Key
    answer: Padded


class PaddedCalls:
    """Finds code for larger sizes. padding, variants: of the program."""

    def __init__(self, padding: Padding, variants: Variants[Compiled]) -> None:
        self._padding, self._variants, self._serving = padding, variants, padding.serving

    def in_buckets(self, dims: Mapping[str, int], empty: bool = False) -> dict[str, int]:
        """The sizes to build: dims that may be padded have the size of their bucket. empty: a size of 0 stays 0."""
        sizes = {
            symbol: size if empty and not size else self._serving.bucket_of(symbol, size)
            for symbol, size in dims.items()
        }
        return self._padding.model.complete(sizes)

    def above(self, dims: Mapping[str, int]) -> list[tuple[Key, Compiled]]:
        """The ready variants of equal sizes, larger only where dims may be padded; the fewest padded elements first."""
        fitting, related = [], self._padding.model.related
        for key, compiled in self._variants.held.items():
            sizes = dict(key)
            grows = {*(self._serving.masked(sizes) if compiled.bound.lengths else self._serving.pads), *related}
            fits = sizes.keys() == dims.keys() and all(
                sizes[symbol] == size or (symbol in grows and sizes[symbol] > size) for symbol, size in dims.items()
            )
            if fits and 0 not in dims.values():
                elements = sum(type_.size for type_ in compiled.inputs.values())
                fitting.append((elements, key, compiled))
        return [(key, compiled) for _, key, compiled in sorted(fitting, key=lambda variant: variant[:2])]

    def from_larger(self, dims: Mapping[str, int]) -> FromLarger | None:
        """The answer of the ready variant that computes the call with the fewest padded elements."""
        for key, compiled in self.above(dims):
            padded = self.padded(dims, key, compiled)
            if padded is not None:
                return FromLarger(key, padded)
        return None

    def padded(self, dims: Mapping[str, int], key: Key, compiled: Compiled) -> Padded | None:
        """The code for larger sizes, after the proof that it computes the call; None if it does not.

        Raises:
            EqsatError: UnsupportedOp if it does not, and a larger size is of a symbol without buckets.
        """
        if compiled.bound.lengths:
            padded = self._padding.model_at(dict(key))
            if not padded.prove(dims):
                return None
            lengths = compiled.bound.length_arrays(dims)
            return Padded(padded.signature_at(dims), padded.outputs_at(dims), compiled, lengths)
        try:
            bound = self._padding.prove(dims, compiled.bound, key)
        except EqsatError as refusal:
            larger = {symbol for symbol, size in key if size != dims[symbol]} - self._padding.model.related.keys()
            if not larger <= {*self._serving.buckets, *self._serving.adapts}:
                raise
            if larger <= {*self._serving.masked(dict(key))}:
                self._padding.tell(dims, refusal)
            return None
        return Padded(bound.signature, bound.outputs, compiled)


def _with_zeros(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape == shape:
        return array
    nbytes = int(np.prod(shape, dtype=np.int64)) * array.itemsize
    with memory_for(nbytes, "call", "a padded argument", shape=shape):
        padded = np.zeros(shape, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded
