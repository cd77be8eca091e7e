"""A function of lazy tensors whose sizes are symbols → its Tiny graph at given sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from eqsat.failure.internal_error import callers_code
from eqsat.lazy.argument_checks import STAGE
from eqsat.lazy.open_inputs import TracedFunction
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.tensor import Tensor, constant, input
from ir.diagnostics import Kind, fail
from ir.frontend import TensorInfo
from ir.grammar import with_article
from ir.tiny.dims import require_sizes

Constants = Mapping[str, np.ndarray]


class TracedGraph(NamedTuple):
    """A traced function as a graph that is lowered at each set of sizes. inputs: dtype and sizes (or symbols) by name.
    results: no names; the ids of the outputs are those of the results."""

    source: TracedFunction
    inputs: Mapping[str, TensorInfo]
    results: tuple[str, ...] = ()
    constants: Constants = MappingProxyType({})
    dependent: frozenset[str] = frozenset()

    def lower(self, dims: Mapping[str, int], constants: Constants) -> tuple[dict[str, Any], Constants]:
        """The Tiny graph at these sizes, and its constants by tensor_id.

        Raises:
            EqsatError: UnboundDim for a size without a value; MalformedGraph for a result that is no lazy tensor, and
                for an input that the function reads and that is not its own; the errors of the function's operations.
        """
        symbols = (size for info in self.inputs.values() for size in info.shape if isinstance(size, str))
        require_sizes([name for name in dict.fromkeys(symbols) if name not in dims], STAGE)
        values = {name: _value(name, info, dims, constants) for name, info in self.inputs.items()}
        with callers_code():
            results = self.source.function(*values.values())
        arguments = [value for value in values.values() if value.array is None]
        tiny, own = tensor_to_tiny(_checked(results), arguments)
        _require_own(tiny, self.inputs)
        return tiny, {name: array for name, array in own.items() if array is not None}


def _value(name: str, info: TensorInfo, dims: Mapping[str, int], constants: Constants) -> Tensor:
    """The tensor that stands for an input: a constant, or an argument of known sizes."""
    if name in constants:
        return constant(constants[name], name=name)
    return input(name, [dims[size] if isinstance(size, str) else size for size in info.shape], info.dtype)


def _checked(results: Any) -> Tensor | Sequence[Tensor] | Mapping[str, Tensor]:
    """The results of the function: a tensor, several, or tensors by name."""
    tensors = results.values() if isinstance(results, Mapping) else results
    tensors = list(tensors) if isinstance(tensors, list | tuple) or isinstance(results, Mapping) else [results]
    wrong = [tensor for tensor in tensors if not isinstance(tensor, Tensor)]
    if wrong or not tensors:
        what = "nothing" if not tensors or wrong == [None] else with_article(type(wrong[0]).__name__)
        hint = "a lazy tensor, a list of them, or a dict of named ones"
        fail(Kind.MALFORMED_GRAPH, STAGE, f"the function of tensor.program returns {what}", op="program", hint=hint)
    return results if isinstance(results, Mapping) else tensors


def _require_own(tiny: Mapping[str, Any], inputs: Mapping[str, TensorInfo]) -> None:
    """Raises EqsatError, MalformedGraph, for an argument that is no input of the function."""
    for uop in tiny["uops"]:
        name = uop["arg"].get("tensor_id")
        if uop["uop"] == "INPUT" and uop["arg"].get("storage") != "const_pool" and name not in inputs:
            hint = f"tensor.program(f, …, {name}) makes it a parameter"
            message = f"the function of tensor.program reads the input {name!r}, which is not among its inputs"
            fail(Kind.MALFORMED_GRAPH, STAGE, message, at=name, hint=hint)
