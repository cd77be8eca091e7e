"""Answers for calls whose code is not built yet: code for larger sizes on padded arguments, or NumPy.

Padding is used only where no padded position reaches a result: where `ir.tiny.restriction` proves that, or where the
code has masks and `eqsat.serving.padded_model` proves the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from eqsat.model import BoundModel
from eqsat.runtime.compiled import Compiled
from eqsat.serving.padding import Padding
from eqsat.serving.variants import Key, Variants, key_of
from ir.dtype import TensorType
from ir.host.memory import memory_for
from ir.tiny.playback import playback


class Answer(Protocol):
    """A program that computes a call in place of the call's own code. signature, outputs: the types of the arguments by
    name and of the results, at the call's own sizes."""

    @property
    def signature(self) -> Mapping[str, TensorType]: ...

    @property
    def outputs(self) -> Sequence[tuple[str, TensorType]]: ...

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]: ...


class StandIn:
    """Chooses the answer to a call. padding, variants: of the program."""

    def __init__(self, padding: Padding, variants: Variants[Compiled]) -> None:
        self._padding, self._variants, self._serving = padding, variants, padding.serving

    def answer(self, dims: Mapping[str, int]) -> Compiled | Answer:
        """The code for these sizes if the code is ready. Else its build begins, and a stand-in answers.
        Where no stand-in can answer, or where the build has failed before, the call waits for the code. A program
        that cannot build only pads.

        Raises:
            EqsatError: UnsupportedOp where padding would change results; all that a build raises.
        """
        exact = self._variants.ready(key_of(dims))
        if exact is not None:
            return exact
        wanted = self._in_buckets(dims)
        compiled = self._variants.ready(key_of(wanted))
        if 0 in dims.values() and (compiled is None or compiled.bound.lengths):
            wanted = self._in_buckets(dims, empty=True)
            compiled = self._variants.ready(key_of(wanted))
        key = key_of(wanted)
        if compiled is not None:
            return self._padded(dims, key, compiled)
        larger = self._smallest_above(dims)
        if larger is not None and not self._serving.builds:
            return self._padded(dims, *larger)
        if (larger is None and not self._serving.is_eager) or self._variants.has_failed(key):
            compiled = self._variants(wanted)
            return compiled if key == key_of(dims) else self._padded(dims, key, compiled)
        if larger is not None:
            padded = self._padded(dims, *larger)
            self._variants.start(wanted)
            self._variants.ready(larger[0])
            return padded
        self._variants.start(wanted)
        return Playback(self._padding.model.bind(dims, strict=False))

    def _in_buckets(self, dims: Mapping[str, int], empty: bool = False) -> dict[str, int]:
        """The sizes to build: dims that may be padded have the size of their bucket. empty: a size of 0 stays 0."""
        buckets = {symbol: self._serving.buckets.get(symbol) for symbol in self._serving.pads}
        sizes = {
            symbol: bucket.above(size) if (bucket := buckets.get(symbol)) is not None and (size or not empty) else size
            for symbol, size in dims.items()
        }
        return self._padding.model.complete(sizes)

    def _smallest_above(self, dims: Mapping[str, int]) -> tuple[Key, Compiled] | None:
        """The ready variant with the fewest padded elements: of equal sizes, larger only where dims may be padded."""
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
        return min(fitting, key=lambda variant: variant[:2])[1:] if fitting else None

    def _padded(self, dims: Mapping[str, int], key: Key, compiled: Compiled) -> Compiled | Answer:
        """The code for larger sizes, after the proof that it computes the call. Where there are masks, calls with an
        axis without elements have code of their own."""
        if not compiled.bound.lengths:
            bound = self._padding.prove(dims, compiled.bound, key)
            return Padded(bound.signature, bound.outputs, compiled)
        padded = self._padding.model_at(dict(key))
        if not padded.prove(dims):
            return self._variants(dims)
        lengths = compiled.bound.length_arrays(dims)
        return Padded(padded.signature_at(dims), padded.outputs_at(dims), compiled, lengths)


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


class Playback:
    """The program evaluated uop by uop with NumPy: right at once, and slow."""

    def __init__(self, bound: BoundModel) -> None:
        self._bound = bound
        self.signature, self.outputs = bound.signature, bound.outputs

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The results, in arrays of their own."""
        given = {**self._bound.constants, **dict(zip(self.signature, inputs, strict=True))}
        return [np.array(array, order="C") for array in playback(self._bound.graph, given)]


def _with_zeros(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape == shape:
        return array
    nbytes = int(np.prod(shape, dtype=np.int64)) * array.itemsize
    with memory_for(nbytes, "call", "a padded argument", shape=shape):
        padded = np.zeros(shape, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded
