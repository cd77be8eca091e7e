"""Answers for calls whose code is not built yet: code for larger sizes on padded arguments, or NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eqsat.model import BoundModel
from eqsat.runtime.compiled import Compiled
from eqsat.serving.adapting import Adapting
from eqsat.serving.padded_calls import Answer, PaddedCalls
from eqsat.serving.padding import Padding
from eqsat.serving.variants import Variants, key_of
from ir.tiny.playback import playback


class StandIn:
    """Chooses the answer to a call. padding, variants: of the program."""

    def __init__(self, padding: Padding, variants: Variants[Compiled]) -> None:
        self._padding, self._variants, self._serving = padding, variants, padding.serving
        self._calls, self._adapting = PaddedCalls(padding, variants), Adapting(padding, variants)

    def answer(self, dims: Mapping[str, int]) -> Compiled | Answer:
        """The code for these sizes if the code is ready. Else its build begins, and a stand-in answers.
        Where no stand-in can answer, or where the build has failed before, the call waits for the code: that of its
        bucket, or of its own sizes where that of the bucket does not compute it. A program that cannot build only pads.

        Raises:
            EqsatError: UnsupportedOp where padding would change results, and a symbol has no buckets; all that a build
                raises.
        """
        exact = self._variants.ready(key_of(dims))
        if exact is not None:
            return exact
        if self._serving.adapts and self._serving.builds:
            return self._adapting.answer(dims)
        wanted = self._calls.in_buckets(dims)
        compiled = self._variants.ready(key_of(wanted))
        if 0 in dims.values() and (compiled is None or compiled.bound.lengths):
            wanted = self._calls.in_buckets(dims, empty=True)
            compiled = self._variants.ready(key_of(wanted))
        key = key_of(wanted)
        if compiled is not None:
            return self._calls.padded(dims, key, compiled) or self._variants(dims)
        larger = self._calls.from_larger(dims)
        if larger is not None and not self._serving.builds:
            return larger.answer
        if (larger is None and not self._serving.is_eager) or self._variants.has_failed(key):
            compiled = self._variants(wanted)
            return compiled if key == key_of(dims) else self._calls.padded(dims, key, compiled) or self._variants(dims)
        self._variants.start(wanted)
        if larger is None:
            return Playback(self._padding.model.bind(dims, strict=False))
        self._variants.ready(larger.key)
        return larger.answer


class Playback:
    """The program evaluated uop by uop with NumPy: right at once, and slow."""

    def __init__(self, bound: BoundModel) -> None:
        self._bound = bound
        self.signature, self.outputs = bound.signature, bound.outputs

    def run(self, inputs: Sequence[np.ndarray], threads: int) -> list[np.ndarray]:
        """The results, in arrays of their own."""
        given = {**self._bound.constants, **dict(zip(self.signature, inputs, strict=True))}
        return [np.array(array, order="C") for array in playback(self._bound.graph, given)]
