"""Answers for calls whose code is not built yet: code for larger sizes on padded arguments, or NumPy.

Padding is used only where no padded position reaches a result: where `ir.tiny.restriction` proves that, or where the
code has masks and `eqsat.serving.padded_model` proves the sizes.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from eqsat.model import BoundModel
from eqsat.runtime.compiled import Compiled
from eqsat.serving.padding import Padding
from eqsat.serving.variants import Key, Variants, key_of
from ir.diagnostics import EqsatError
from ir.dtype import TensorType
from ir.host.memory import memory_for
from ir.tiny.playback import playback
from ir.tiny.restriction import STAGE

OFTEN = 16
"""Sizes that adapt get code of their own after so many calls."""
MOST_COUNTED = 4096
"""Sizes whose calls are counted; then all are forgotten."""


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
        self._calls: Counter[Key] = Counter()
        self._counting = threading.Lock()

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
        if self._serving.adapts and self._serving.builds:
            return self._adapted(dims)
        wanted = self._in_buckets(dims)
        compiled = self._variants.ready(key_of(wanted))
        if 0 in dims.values() and (compiled is None or compiled.bound.lengths):
            wanted = self._in_buckets(dims, empty=True)
            compiled = self._variants.ready(key_of(wanted))
        key = key_of(wanted)
        if compiled is not None:
            return self._padded(dims, key, compiled)
        larger = self._above(dims)
        if larger and not self._serving.builds:
            return self._padded_by_any(dims, larger)
        if (not larger and not self._serving.is_eager) or self._variants.has_failed(key):
            compiled = self._variants(wanted)
            return compiled if key == key_of(dims) else self._padded(dims, key, compiled)
        if larger:
            padded = self._padded_by_any(dims, larger)
            self._variants.start(wanted)
            self._variants.ready(larger[0][0])
            return padded
        self._variants.start(wanted)
        return Playback(self._padding.model.bind(dims, strict=False))

    def _in_buckets(self, dims: Mapping[str, int], empty: bool = False) -> dict[str, int]:
        """The sizes to build: dims that may be padded have the size of their bucket. empty: a size of 0 stays 0."""
        sizes = {
            symbol: size if empty and not size else self._serving.bucket_of(symbol, size)
            for symbol, size in dims.items()
        }
        return self._padding.model.complete(sizes)

    def _adapted(self, dims: Mapping[str, int]) -> Compiled | Answer:
        """The answer where sizes are padded once they are many. The first sizes of a program have code of their own;
        so have sizes that come often, and sizes that cannot be padded. Others have the code of a bucket."""
        wanted = self._in_buckets(dims, empty=True)
        key = key_of(wanted)
        if not self._variants.held or key == key_of(dims) or not self._padding.can_answer(dims, wanted):
            return self._variants(dims)
        try:
            answer = self._padded(dims, key, self._variants(wanted))
        except EqsatError as error:
            if error.diagnostics[0].stage != STAGE:
                raise
            return self._variants(dims)
        self._count(dims)
        return answer

    def _count(self, dims: Mapping[str, int]) -> None:
        """Counts padded calls; sizes that come often are built in the background."""
        own = key_of(dims)
        with self._counting:
            self._calls[own] += 1
            calls = self._calls[own]
            if len(self._calls) > MOST_COUNTED:
                self._calls.clear()
        if calls == OFTEN and not self._variants.has_failed(own):
            self._variants.start(dims)

    def _above(self, dims: Mapping[str, int]) -> list[tuple[Key, Compiled]]:
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

    def _padded_by_any(self, dims: Mapping[str, int], larger: Sequence[tuple[Key, Compiled]]) -> Compiled | Answer:
        """The answer by the first of these variants that computes the call; the error of the last one if none does."""
        *others, last = larger
        for key, compiled in others:
            try:
                return self._padded(dims, key, compiled)
            except EqsatError as error:
                if error.diagnostics[0].stage != STAGE:
                    raise
        return self._padded(dims, *last)

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
