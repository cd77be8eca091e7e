"""A model at the sizes of one bucket that computes all smaller sizes: the graph with masks, and the sizes that are
proven.

The graph is an expression of the sizes, found from examples (`fit_sizes`). So each call's sizes need a proof: the
program at these sizes is what the expressions say. Sizes that grow together, as those of a decoder do with every token,
lie on a line. The program is compared at both ends of the line, in its middle, and at the first sizes of a call. A
number that is there what its expression says is that everywhere between, if it bends one way, as max(S, 8) does.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from eqsat.model import BoundModel, Length, Model
from eqsat.serving.fit_sizes import at_other_sizes, fit_sizes
from eqsat.serving.mask_padding import mask_padding
from ir.diagnostics import EqsatWarning
from ir.dtype import TensorType
from ir.tiny.graph import Ref
from ir.tiny.size_expr import Sizes

MOST_LINES = 1024
"""Lines of proven sizes that are remembered; then all are forgotten."""


class _Line(NamedTuple):
    """Sizes from `first` to `last`, by the order of the padded symbols, that are proven. All grow by one at a time."""

    first: tuple[int, ...]
    last: tuple[int, ...]

    def holds(self, sizes: tuple[int, ...]) -> bool:
        steps = {size - low for size, low in zip(sizes, self.first, strict=True)}
        return len(steps) == 1 and 0 <= steps.pop() <= self.last[0] - self.first[0]


class PaddedModel:
    """The model at `largest`, where the sizes of `symbols` may be smaller. tells: warns of a size that cannot vary.

    Raises:
        EqsatError: UnsupportedOp if the graph is no expression of the sizes.
    """

    def __init__(self, model: Model, largest: Sizes, symbols: Sequence[str], tells: bool = True) -> None:
        self._model, self._largest = model, dict(largest)
        self._bound = model.bind(self._largest, strict=False)
        self._by_sizes = fit_sizes(self._bind, self._largest, symbols)
        self._symbols = self._by_sizes.varying
        self._lines = [_Line(self._sizes(largest), self._sizes(largest))]
        self._proving = threading.Lock()
        self._tells = tells

    @cached_property
    def masked(self) -> BoundModel:
        """The model at the largest sizes with masks, whose graph takes a length for each symbol.

        Raises:
            EqsatError: UnsupportedOp if a uop reads padding in a way that no mask prevents.
        """
        found = mask_padding(self._by_sizes)
        lengths = {name: Length(symbol, self._largest[symbol]) for name, symbol in found.lengths.items()}
        results = self._bound.results or self._bound.graph.outputs
        return replace(self._bound, graph=found.graph, results=results, lengths=lengths)

    def prove(self, sizes: Sizes) -> bool:
        """Compares the program at these sizes with the expressions, unless that is done. False if these sizes are not
        padded: where an axis has no element, or more than the code has, where a size differs that cannot vary, or where
        the program is another one. The latter two are told once."""
        wanted = self._sizes(sizes)
        fixed = [symbol for symbol, size in self._by_symbol(wanted).items() if sizes[symbol] != size]
        if fixed:
            reason = "the program has other uops, constants, or numbers that are no expressions of the size"
            self._tell({symbol: sizes[symbol] for symbol in fixed}, reason)
            return False
        with self._proving:
            if any(line.holds(wanted) for line in self._lines):
                return True
            if not self._holds(wanted):
                return False
            difference = self._difference(self._bind(self._by_symbol(wanted)), wanted)
            if difference:
                self._tell(dict(zip(self._symbols, wanted, strict=True)), difference)
                return False
            if len(self._lines) >= MOST_LINES:
                del self._lines[1:]
            self._lines.append(self._line_through(wanted))
            return True

    def _tell(self, sizes: Sizes, reason: str) -> None:
        """Warns, once, that calls are not padded."""
        if self._tells:
            self._tells = False
            warn_of_own_code(sizes, reason)

    def signature_at(self, sizes: Sizes) -> dict[str, TensorType]:
        """Types of the arguments by name, in order."""
        return {name: type_at(sizes) for name, type_at in self._inputs.items()}

    def outputs_at(self, sizes: Sizes) -> list[tuple[str, TensorType]]:
        """Name and type of each result, in order."""
        return [(name, type_at(sizes)) for name, type_at in self._outputs]

    @cached_property
    def _inputs(self) -> dict[str, Callable[[Sizes], TensorType]]:
        inputs = self._bound.graph.inputs.items()
        return {name: self._type_of(node.id) for name, node in inputs if name not in self._bound.constants}

    @cached_property
    def _outputs(self) -> list[tuple[str, Callable[[Sizes], TensorType]]]:
        ids = self._bound.graph.outputs
        return [(name, self._type_of(ref)) for (name, _), ref in zip(self._bound.outputs, ids, strict=True)]

    def _type_of(self, ref: Ref) -> Callable[[Sizes], TensorType]:
        """The type of a value, as a function of the sizes."""
        largest, shape = self._bound.graph.types[ref], self._by_sizes.shape_of(ref)

        def type_at(sizes: Sizes) -> TensorType:
            return TensorType(largest.dtype, tuple(expr.at(sizes) for expr in shape), largest.names)

        return type_at

    def _sizes(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(sizes[symbol] for symbol in self._symbols)

    def _bind(self, sizes: Sizes) -> BoundModel:
        complete = self._model.complete(sizes)
        return self._bound if complete == self._largest else self._model.bind(complete, strict=False)

    def _holds(self, wanted: tuple[int, ...]) -> bool:
        """Whether every axis has elements at these sizes, and no more than the code has."""
        return min(wanted) > 0 and self._by_sizes.holds(self._by_symbol(wanted))

    def _by_symbol(self, wanted: tuple[int, ...]) -> Sizes:
        return self._model.complete({**self._largest, **dict(zip(self._symbols, wanted, strict=True))})

    def _difference(self, bound: BoundModel, wanted: tuple[int, ...]) -> str:
        """Why the program at these sizes is not what the expressions say; "" if it is."""
        return self._by_sizes.difference(bound.graph, bound.constants, self._by_symbol(wanted))

    def _line_through(self, wanted: tuple[int, ...]) -> _Line:
        """The longest line through proven sizes whose ends and middle are proven, too; else the sizes alone."""
        largest = self._sizes(self._largest)
        down = min(wanted) - 1
        up = min(most - size for most, size in zip(largest, wanted, strict=True))
        first, last = (tuple(size + by for size in wanted) for by in (-down, up))
        middle = tuple((low + high) // 2 for low, high in zip(first, last, strict=True))
        for low, high in ((first, last), (wanted, last), (first, wanted)):
            if all(self._is_alike(point) for point in {low, high, middle} - {wanted, largest}):
                return _Line(low, high)
        return _Line(wanted, wanted)

    def _is_alike(self, wanted: tuple[int, ...]) -> bool:
        if not self._holds(wanted):
            return False
        bound = at_other_sizes(self._bind, self._by_symbol(wanted))
        return isinstance(bound, BoundModel) and not self._difference(bound, wanted)


def warn_of_own_code(sizes: Sizes, reason: str) -> None:
    """Warns that calls as those of these sizes are not computed by the code of their bucket."""
    own = ", ".join(f"{symbol}={size}" for symbol, size in sizes.items())
    warnings.warn(f"calls as those of {own} wait for code of their own: {reason}", EqsatWarning, stacklevel=2)
