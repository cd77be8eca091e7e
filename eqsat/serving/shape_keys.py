"""The sizes of a call as the key of a variant, remembered by the shapes of the arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eqsat.model import Model
from eqsat.serving.variants import Key

MOST_SHAPES = 4096
"""Calls of different shapes that are remembered; then all are forgotten."""

Shape = tuple[int, ...]


class ShapeKeys:
    """The keys of one program's variants."""

    def __init__(self, model: Model) -> None:
        self._model = model
        shapes = [model.declared[name].shape for name in model.arguments]
        self._sized = [place for place, shape in enumerate(shapes) if any(isinstance(size, str) for size in shape)]
        self._known: dict[tuple[Shape, ...], Key] = {}

    def find(self, in_order: Sequence[Any]) -> Key | None:
        """The key of an earlier call, whose arguments with symbols in their shapes had the shapes of these arguments.
        None if there was no such call, or if an argument has no shape."""
        try:
            return self._known.get(tuple([in_order[place].shape for place in self._sized]))
        except (AttributeError, TypeError):
            return None

    def remember(self, shapes: Sequence[Shape], key: Key) -> None:
        """The key that a call has whose arguments have these shapes."""
        if len(self._known) >= MOST_SHAPES:
            self._known.clear()
        self._known[tuple(shapes[place] for place in self._sized)] = key

    def complete(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """All sizes by symbol of a call whose free dims have these sizes.

        Raises:
            EqsatError: UnboundDim, and all errors of sizes that contradict the program.
        """
        bound = self._model.bind(self._model.complete({**self._model.infer({}), **sizes}), strict=False)
        return self._model.infer({name: type_.shape for name, type_ in bound.signature.items()})
