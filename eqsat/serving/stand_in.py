"""Answers for calls whose code is not built yet: code for larger sizes on padded arguments, or NumPy.

Padding is used only where `ir.tiny.restriction` proves that no padded position reaches a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from eqsat.model import BoundModel, Model
from eqsat.runtime.compiled import Compiled
from eqsat.serving.variants import Key, Variants, key_of
from eqsat.serving.when_missing import Serving
from ir.diagnostics import Kind, fail
from ir.host.memory import memory_for
from ir.tiny.playback import playback
from ir.tiny.restriction import STAGE, check_restriction

MOST_PROOFS = 1024
"""Pairs of sizes whose proofs are remembered; then all are forgotten."""


class Answer(Protocol):
    """A program that computes a call in place of the call's own code. bound: the model at the call's own sizes."""

    @property
    def bound(self) -> BoundModel: ...

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]: ...


class StandIn:
    """Chooses the answer to a call. model, variants: of the program. serving: the user's choices."""

    def __init__(self, model: Model, variants: Variants[Compiled], serving: Serving) -> None:
        self._model, self._variants, self._serving = model, variants, serving
        self._proven: dict[tuple[Key, Key], BoundModel] = {}

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
        key = key_of(wanted)
        compiled = self._variants.ready(key)
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
        return Playback(self._model.bind(dims, strict=False))

    def _in_buckets(self, dims: Mapping[str, int]) -> dict[str, int]:
        """The sizes to build: dims that may be padded have the size of their bucket."""
        buckets = {symbol: self._serving.buckets.get(symbol) for symbol in self._serving.pads}
        return {
            symbol: bucket.above(size) if (bucket := buckets.get(symbol)) is not None else size
            for symbol, size in dims.items()
        }

    def _smallest_above(self, dims: Mapping[str, int]) -> tuple[Key, Compiled] | None:
        """The ready variant with the fewest padded elements: of equal sizes, larger only where dims may be padded."""
        fitting = []
        for key, compiled in self._variants.held.items():
            sizes = dict(key)
            fits = sizes.keys() == dims.keys() and all(
                sizes[symbol] == size or (symbol in self._serving.pads and sizes[symbol] > size)
                for symbol, size in dims.items()
            )
            if fits and 0 not in dims.values():
                elements = sum(type_.size for type_ in compiled.inputs.values())
                fitting.append((elements, key, compiled))
        return min(fitting, key=lambda variant: variant[:2])[1:] if fitting else None

    def _padded(self, dims: Mapping[str, int], key: Key, compiled: Compiled) -> Answer:
        """The code for larger sizes, after the proof that it computes the call."""
        pair = key_of(dims), key
        bound = self._proven.get(pair)
        if bound is None:
            bound = self._model.bind(dims, strict=False)
            _prove(bound, compiled.bound)
            if len(self._proven) >= MOST_PROOFS:
                self._proven.clear()
            self._proven[pair] = bound
        return Padded(bound, compiled)


def check_padding(model: Model, serving: Serving, free: Sequence[str]) -> None:
    """Raises EqsatError, UnsupportedOp, if the largest buckets show already that padding would change results."""
    if not serving.pads or not all(symbol in serving.buckets for symbol in free):
        return
    large = {**model.infer({}), **{symbol: serving.buckets[symbol][-1] for symbol in free}}
    small = {symbol: max(1, size - 1) if symbol in serving.pads else size for symbol, size in large.items()}
    _prove(model.bind(small, strict=False), model.bind(large, strict=False))


class Padded:
    """Code for larger sizes, on arguments with zeros behind their ends."""

    def __init__(self, bound: BoundModel, compiled: Compiled) -> None:
        self.bound = bound
        self._compiled = compiled

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The results, without their padded positions."""
        types = self._compiled.inputs.values()
        padded = [_with_zeros(array, type_.shape) for array, type_ in zip(inputs, types, strict=True)]
        results = self._compiled.run(padded, threads)
        shapes = [type_.shape for _, type_ in self.bound.outputs]
        return [
            np.ascontiguousarray(array[tuple(map(slice, shape))]) if array.shape != shape else array
            for array, shape in zip(results, shapes, strict=True)
        ]


class Playback:
    """The program evaluated uop by uop with NumPy: right at once, and slow."""

    def __init__(self, bound: BoundModel) -> None:
        self.bound = bound

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The results, in arrays of their own."""
        given = {**self.bound.constants, **dict(zip(self.bound.signature, inputs, strict=True))}
        return [np.array(array, order="C") for array in playback(self.bound.graph, given)]


def _prove(small: BoundModel, large: BoundModel) -> None:
    """Raises EqsatError, UnsupportedOp, unless the large model computes the small one on padded arguments."""
    for name in small.constants.keys() | large.constants.keys():
        one, other = small.constants.get(name), large.constants.get(name)
        if one is not other and (one is None or other is None or not _are_same(one, other)):
            message = "padded positions reach results: a constant depends on the padded size"
            fail(Kind.UNSUPPORTED_OP, STAGE, message, at=name, hint="leave this dim out of when_missing=")
    check_restriction(small.graph, large.graph)


def _are_same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def _with_zeros(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if array.shape == shape:
        return array
    nbytes = int(np.prod(shape, dtype=np.int64)) * array.itemsize
    with memory_for(nbytes, "call", "a padded argument", shape=shape):
        padded = np.zeros(shape, array.dtype)
    padded[tuple(map(slice, array.shape))] = array
    return padded
