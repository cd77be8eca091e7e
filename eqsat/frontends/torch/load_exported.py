"""A torch.export.ExportedProgram → its inputs, its constants, and a function that lowers it at given sizes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from eqsat.failure.internal_error import public_call
from eqsat.frontends.complex_tensor import as_floats, from_interleaved
from eqsat.frontends.torch.complex_memory import in_floats
from eqsat.frontends.torch.decompositions import decompositions
from eqsat.frontends.torch.element_types import part_type
from eqsat.frontends.torch.lower_graph import lower_graph
from eqsat.frontends.torch.size_names import names_of
from eqsat.frontends.torch.survey import TorchSurvey
from eqsat.lazy.tensor_to_tiny import tensor_to_tiny
from eqsat.runtime.arrays import as_numpy
from eqsat.tensor import Tensor, constant, input
from ir.diagnostics import Kind, fail
from ir.frontend import STAGE, TensorInfo
from ir.tiny.dims import require_sizes

Constants = Mapping[str, np.ndarray]


class ExportedGraph(NamedTuple):
    """An exported program in ATen operators that eqsat knows.

    inputs: dtype and sizes (or symbols) of each tensor by name, parameters included. constants: copies of parameters,
    buffers and constants by name. fixed: the values of arguments that are no tensors, by name. complexes: the names of
    complex tensors, which a program takes as floats with a last axis of two parts. ranges: the least and the greatest
    size of each symbol. results: the names of the results.
    """

    module: Any
    inputs: Mapping[str, TensorInfo]
    fixed: Mapping[str, Any]
    complexes: frozenset[str]
    ranges: Mapping[str, tuple[int, int]]
    results: tuple[str, ...]
    constants: Constants
    dependent: frozenset[str] = frozenset()

    def lower(self, dims: Mapping[str, int], constants: Constants) -> tuple[dict[str, Any], Constants]:
        """The Tiny graph at these sizes, and its constants by tensor_id.

        Raises:
            EqsatError: UnboundDim for a size without a value, AxisSizeMismatch for a size outside of the range for
                which torch traced the module, and the errors of `lower_graph`.
        """
        self._check_sizes(dims)
        values: list[Any] = []
        arguments: list[Tensor] = []
        for node in self.module.graph.nodes:
            if node.op != "placeholder":
                continue
            if node.name in self.fixed:
                values.append(self.fixed[node.name])
                continue
            if node.name in constants:
                tensor = constant(constants[node.name], name=node.name)
            else:
                info = self.inputs[node.name]
                shape = [dims[size] if isinstance(size, str) else size for size in info.shape]
                tensor = input(node.name, shape, info.dtype)
                arguments.append(tensor)
            values.append(from_interleaved(tensor) if node.name in self.complexes else tensor)
        results = map(as_floats, lower_graph(self.module, values))
        return tensor_to_tiny([result for result in results if isinstance(result, Tensor)], arguments)

    def _check_sizes(self, dims: Mapping[str, int]) -> None:
        require_sizes([name for name in self.ranges if name not in dims], STAGE)
        for name, (least, most) in self.ranges.items():
            if not least <= dims[name] <= most:
                message = f"torch traced the module for sizes {name} from {least} to {most}, not for {dims[name]}"
                fail(Kind.AXIS_SIZE_MISMATCH, STAGE, message, hint="export the module with other dynamic_shapes")


@public_call()
def load_exported(program: Any) -> ExportedGraph:
    """The graph of an ExportedProgram. A free size has the name of its torch.export.Dim, or else of the first axis that
    has it: `x_0` is axis 0 of x.

    Raises:
        EqsatError: UnsupportedOp that names all operators which eqsat lacks, or for a module that changes its buffers
            or arguments.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own decompositions
        program = program.run_decompositions(decompositions())
    signature, graph = program.graph_signature, program.graph_module
    _refuse_mutations(signature)
    _drop_known_assertions(graph.graph)
    TorchSurvey().require_operators(graph.graph.nodes)
    nodes = {node.name: node for node in graph.graph.nodes if node.op == "placeholder"}
    stored = {**program.state_dict, **program.constants}
    names: dict[str, str] = {}
    for name, node in nodes.items():
        for axis, size in enumerate(getattr(node.meta.get("val"), "shape", ())):
            if str(size) not in names:
                own = [] if isinstance(size, int) else names_of(size)
                names[str(size)] = own[0] if own else f"{name}_{axis}"
    inputs: dict[str, TensorInfo] = {}
    fixed: dict[str, Any] = {}
    constants: dict[str, np.ndarray] = {}
    for spec in signature.input_specs:
        name = spec.arg.name
        value = nodes[name].meta.get("val")
        if not hasattr(value, "shape"):
            fixed[name] = getattr(spec.arg, "value", None)
            continue
        if spec.target is not None:
            constants[name] = np.array(as_numpy(name, in_floats(stored[spec.target].detach())), order="C")
        parts = (2,) if value.is_complex() else ()
        sizes = (*(_size(size, name, names) for size in value.shape), *parts)
        inputs[name] = TensorInfo(part_type(value.dtype).name, sizes)
    ranges = {
        names.get(str(symbol), str(symbol)): _bounds(bounds) for symbol, bounds in program.range_constraints.items()
    }
    used = {size for info in inputs.values() for size in info.shape if isinstance(size, str)}
    results = tuple(spec.arg.name for spec in signature.output_specs if _is_tensor(spec.arg))
    complexes = frozenset(name for name in inputs if nodes[name].meta["val"].is_complex())
    bounds = {name: ranges.get(name, (0, _MOST)) for name in used}
    return ExportedGraph(graph, inputs, fixed, complexes, bounds, results, constants)


_MOST = 2**62
"""A size beyond all sizes; torch's upper bound of a size that has none."""


def _drop_known_assertions(graph: Any) -> None:
    """Drops the assertions of dtypes, with which torch.export surrounds conversions: the inputs are checked to be those
    that were traced."""
    for node in list(graph.nodes):
        if node.op == "call_function" and str(node.target) == "aten._assert_tensor_metadata.default":
            graph.erase_node(node)


def _refuse_mutations(signature: Any) -> None:
    changed = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if changed:
        message = f"the module changes {', '.join(changed)}, which an exported program of eqsat does not"
        hint = "torch.compile(module, backend='eqsat') writes them; after module.eval() norms write none"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, hint=hint)


def _is_tensor(argument: Any) -> bool:
    return type(argument).__name__ == "TensorArgument"


def _size(size: Any, name: str, names: Mapping[str, str]) -> int | str:
    """A size: a number, or the name of a symbol."""
    if isinstance(size, int):
        return size
    text = str(size)
    if not text.isidentifier():
        message = f"the size {text} of {name} is no symbol by itself"
        fail(Kind.UNSUPPORTED_OP, STAGE, message, hint="one torch.export.Dim per size", at=name)
    return names[text]


def _bounds(bounds: Any) -> tuple[int, int]:
    """The least and the greatest size that a range of torch allows."""
    return max(int(bounds.lower), 0), _MOST if math.isinf(float(bounds.upper)) else min(int(bounds.upper), _MOST)
